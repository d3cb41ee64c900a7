//! Diarizes WAV files to RTTM: `rttm MODELS OUT FILE.wav …` writes `OUT/FILE.rttm` for each 16 kHz mono file.
//!
//! Files are streamed, so the memory printed every ten minutes of a long one is the working memory of the diarizer.
//! `HARK_ISA` picks the kernels.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use hark_speakers::{Compute, Diarizer, Embedder, Isa, SAMPLE_RATE, Segmenter};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let (Some(models), Some(out)) = (arguments.next(), arguments.next()) else {
        return Err("usage: rttm MODELS OUT FILE.wav …".into());
    };
    let isa = std::env::var("HARK_ISA").map_or(Ok(Isa::best()), |name| name.parse())?;
    let compute = Arc::new(Compute::new(2, isa));
    let mut networks = (
        Segmenter::load(&models.join("pyannote-segmentation-3"), &compute)?,
        Embedder::load(&models.join("campplus-zh-en"), &compute)?,
    );
    let (mut seconds, mut spent) = (0.0, 0.0);
    for path in arguments {
        let mut file = BufReader::new(File::open(&path)?);
        // A 16-bit WAV file whose header has the usual 44 bytes.
        file.read_exact(&mut [0; 44])?;
        let started = Instant::now();
        let mut diarizer = Diarizer::new(&mut networks);
        let mut received = 0;
        loop {
            let mut bytes = Vec::new();
            file.by_ref().take(2 * SAMPLE_RATE as u64).read_to_end(&mut bytes)?;
            if bytes.is_empty() {
                break;
            }
            let sample = |pair: &[u8]| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / 32_768.0;
            let samples: Vec<f32> = bytes.chunks_exact(2).map(sample).collect();
            diarizer.push(&samples);
            received += samples.len();
            if received % (600 * SAMPLE_RATE) == 0 {
                let minutes = received / 60 / SAMPLE_RATE;
                println!("{minutes} min: {:.1} s, {} kB", started.elapsed().as_secs_f64(), memory());
            }
        }
        let last = Instant::now();
        let found = diarizer.finish(None);
        spent += started.elapsed().as_secs_f64();
        seconds += received as f64 / SAMPLE_RATE as f64;
        if received >= 600 * SAMPLE_RATE {
            println!(
                "{} voices found in {:.1} s, {} kB",
                found.centroids.len(),
                last.elapsed().as_secs_f64(),
                memory()
            );
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let line = |turn: &hark_speakers::Turn| {
            let length = turn.end - turn.start;
            format!("SPEAKER {name} 1 {:.3} {length:.3} <NA> <NA> SPEAKER_{:02} <NA> <NA>\n", turn.start, turn.speaker)
        };
        std::fs::write(out.join(format!("{name}.rttm")), found.turns.iter().map(line).collect::<String>())?;
    }
    println!("{seconds:.0} s in {spent:.2} s: {:.0} × real time", seconds / spent);
    Ok(())
}

/// The memory in use, where the system reports it: `VmRSS` and the most so far, `VmHWM`.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let number = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).unwrap_or("?").to_owned()
    };
    format!("{} of at most {}", number("VmRSS:"), number("VmHWM:"))
}
