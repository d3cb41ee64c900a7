//! Speaks phonemes into a WAV file: `speak FOLDER VOICE PHONEMES OUT.wav [REPEATS]`.
//!
//! Sentences are parted by `|`. With repeats it says how long each took.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use hark_compute::Compute;
use hark_tts::{Sentence, SpeechModel, SpeechStream, Synthesizer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, voice, phonemes, out, rest @ ..] = &arguments[..] else {
        return Err("use: speak FOLDER VOICE PHONEMES OUT.wav [REPEATS]".into());
    };
    let repeats: usize = rest.first().map_or(Ok(1), |count| count.parse())?;
    let begun = Instant::now();
    let model = Synthesizer::load(&Compute::from_options(None, None), Path::new(folder))?;
    eprintln!("loaded in {:.2} s, {} MB", begun.elapsed().as_secs_f64(), model.memory() >> 20);
    let voice = model.voice(voice)?;
    let sentences: Vec<Sentence> = phonemes.split('|').map(|phonemes| Sentence::new(phonemes.trim())).collect();
    let mut samples = Vec::new();
    for _ in 0..repeats {
        let begun = Instant::now();
        let mut first = None;
        samples.clear();
        for sound in SpeechStream::new(&model, voice, 1.0, sentences.clone(), &|| false) {
            samples.extend(sound?);
            first.get_or_insert_with(|| begun.elapsed().as_secs_f64());
        }
        let (seconds, length) = (begun.elapsed().as_secs_f64(), samples.len() as f64 / f64::from(model.sample_rate()));
        let first = first.unwrap_or_default();
        eprintln!("{length:.2} s in {seconds:.3} s, {:.2} x real time, first after {first:.3} s", length / seconds);
    }
    write_wav(Path::new(out), &samples, model.sample_rate())?;
    Ok(())
}

fn write_wav(path: &Path, samples: &[f32], rate: u32) -> std::io::Result<()> {
    let bytes = samples.len() as u32 * 2;
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    file.write_all(b"RIFF")?;
    file.write_all(&(36 + bytes).to_le_bytes())?;
    file.write_all(b"WAVEfmt \x10\0\0\0\x01\0\x01\0")?;
    file.write_all(&rate.to_le_bytes())?;
    file.write_all(&(rate * 2).to_le_bytes())?;
    file.write_all(b"\x02\0\x10\0data")?;
    file.write_all(&bytes.to_le_bytes())?;
    for sample in samples {
        file.write_all(&((sample.clamp(-1.0, 1.0) * 32767.0) as i16).to_le_bytes())?;
    }
    file.flush()
}
