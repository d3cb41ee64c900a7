//! Test audio and model folders that the tests of both networks share.

use std::path::PathBuf;

/// The folder of an installed model or set of sounds.
pub fn installed(model: &str) -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let models = set("HARK_MODELS")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("hark/models")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/hark/models")))
        .expect("HARK_MODELS or HOME says where models are");
    let folder = models.join(model);
    assert!(folder.is_dir(), "{} is missing: `./hark test` installs it", folder.display());
    folder
}

/// Thirty seconds of a real conversation at 16 kHz.
pub fn conversation() -> Vec<f32> {
    let bytes = std::fs::read(installed("test-sounds-meetings").join("sample.wav")).expect("sample.wav is installed");
    let data = bytes.windows(4).position(|four| four == b"data").expect("a WAV file has data") + 8;
    bytes[data..].as_chunks::<2>().0.iter().map(|two| f32::from(i16::from_le_bytes(*two)) / 32768.0).collect()
}

/// Three synthetic voices with overlap and noise: the same samples on every machine.
pub fn synthetic_speech(count: usize) -> Vec<f32> {
    const TAU: f64 = std::f64::consts::TAU;
    let mut state = 1u32;
    let voices = [(110.0, 0.31), (205.0, 0.23), (150.0, 0.17)];
    (0..count)
        .map(|index| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let time = index as f64 / 16_000.0;
            let mut sum = 0.01 * (f64::from(state) / 2f64.powi(31) - 1.0);
            for (voice, (pitch, rate)) in voices.into_iter().enumerate() {
                let loudness = (TAU * (rate * time + voice as f64 / 3.0)).sin().max(0.0);
                let phase = TAU * pitch * time + 3.0 * (TAU * 4.0 * time).sin();
                for harmonic in 1..=12 {
                    let harmonic = f64::from(harmonic);
                    sum += loudness * (harmonic * phase).sin() * 0.08 / harmonic;
                }
            }
            sum as f32
        })
        .collect()
}
