//! Who spoke when in WAV files, as RTTM: `rttm MODELS OUT FILE.wav …` writes `OUT/FILE.rttm` for each 16 kHz mono file.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use hark_speakers::{Compute, Diarizer, Embedder, Isa, SAMPLE_RATE, Segmenter};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let (Some(models), Some(out)) = (arguments.next(), arguments.next()) else {
        return Err("usage: rttm MODELS OUT FILE.wav …".into());
    };
    let compute = Arc::new(Compute::new(2, Isa::best()));
    let mut networks = (
        Segmenter::load(&models.join("pyannote-segmentation-3"), &compute)?,
        Embedder::load(&models.join("campplus-zh-en"), &compute)?,
    );
    let (mut seconds, mut spent) = (0.0, 0.0);
    for path in arguments {
        let samples = samples(&path)?;
        let started = Instant::now();
        let mut diarizer = Diarizer::new(&mut networks);
        samples.chunks(SAMPLE_RATE).for_each(|samples| diarizer.push(samples));
        let told = diarizer.finish(None);
        spent += started.elapsed().as_secs_f64();
        seconds += samples.len() as f64 / SAMPLE_RATE as f64;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let line = |turn: &hark_speakers::Turn| {
            let length = turn.end - turn.start;
            format!("SPEAKER {name} 1 {:.3} {length:.3} <NA> <NA> SPEAKER_{:02} <NA> <NA>\n", turn.start, turn.speaker)
        };
        std::fs::write(out.join(format!("{name}.rttm")), told.turns.iter().map(line).collect::<String>())?;
    }
    println!("{seconds:.0} s in {spent:.2} s: {:.0} × real time", seconds / spent);
    Ok(())
}

/// The samples of a 16-bit WAV file whose header has the usual 44 bytes.
fn samples(path: &Path) -> Result<Vec<f32>, std::io::Error> {
    let bytes = std::fs::read(path)?;
    let sample = |pair: &[u8]| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / 32_768.0;
    Ok(bytes[44.min(bytes.len())..].chunks_exact(2).map(sample).collect())
}
