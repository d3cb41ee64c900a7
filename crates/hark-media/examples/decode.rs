//! Decodes each file named on the command line, or standard input for `-`, and prints what it is, how long, and how fast.

use std::io::Write;
use std::time::Instant;

use hark_media::{AudioStream, Options, SAMPLE_RATE, Source};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout();
    for name in std::env::args().skip(1) {
        let source = match name.as_str() {
            "-" => Source::Reader(Box::new(std::io::stdin())),
            path => Source::Path(path.into()),
        };
        let start = Instant::now();
        let mut stream = match AudioStream::open(source, &Options::default()) {
            Ok(stream) => stream,
            Err(error) => {
                writeln!(out, "{name}: {error}")?;
                continue;
            }
        };
        let (mut block, mut total) = (Vec::new(), 0);
        loop {
            block.clear();
            match stream.read(&mut block)? {
                0 => break,
                count => total += count,
            }
        }
        let seconds = total as f64 / f64::from(SAMPLE_RATE);
        let speed = seconds / start.elapsed().as_secs_f64();
        writeln!(out, "{name}: {seconds:.3} s, {speed:.0} x real time, {:?}", stream.info())?;
        for warning in stream.warnings() {
            writeln!(out, "  warning: {warning}")?;
        }
    }
    Ok(())
}
