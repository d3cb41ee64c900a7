//! Test audio at 48 kHz and model folders.

#![allow(dead_code)]

use std::ops::Range;
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

/// A part of thirty seconds of a real conversation, from 16 to 48 kHz by linear interpolation.
pub fn real_speech(samples: Range<usize>) -> Vec<f32> {
    let bytes = std::fs::read(installed("test-sounds-meetings").join("sample.wav")).expect("sample.wav is installed");
    let data = bytes.windows(4).position(|four| four == b"data").expect("a WAV file has data") + 8;
    let all: Vec<f32> =
        bytes[data..].as_chunks::<2>().0.iter().map(|two| f32::from(i16::from_le_bytes(*two)) / 32768.0).collect();
    let part = &all[samples.start..samples.end.min(all.len())];
    let mut out = Vec::with_capacity(3 * part.len());
    for (index, now) in part.iter().enumerate() {
        let step = part.get(index + 1).unwrap_or(now) - now;
        out.extend([*now, now + step * (1.0 / 3.0), now + step * (2.0 / 3.0)]);
    }
    out
}

/// Three synthetic voices in white noise: the same samples on every machine.
pub fn noisy_voices(count: usize) -> Vec<f32> {
    const TAU: f64 = std::f64::consts::TAU;
    let voices = [(110.0, 0.31), (205.0, 0.23), (150.0, 0.17)];
    let noise = white_noise_f64(count).into_iter().enumerate();
    noise
        .map(|(index, noise)| {
            let time = index as f64 / 48_000.0;
            let mut sum = 0.05 * noise;
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

/// White noise between plus and minus `amplitude`.
pub fn white_noise(count: usize, amplitude: f32) -> Vec<f32> {
    white_noise_f64(count).into_iter().map(|sample| sample as f32 * amplitude).collect()
}

fn white_noise_f64(count: usize) -> Vec<f64> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state) / 2f64.powi(31) - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// The scale-invariant signal-to-distortion ratio in dB (Le Roux et al. 2019).
pub fn si_sdr(reference: &[f32], estimate: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let scale = dot(reference, estimate) / dot(reference, reference);
    let target = scale * scale * dot(reference, reference);
    let distortion = reference.iter().zip(estimate).map(|(r, e)| (f64::from(*e) - scale * f64::from(*r)).powi(2));
    10.0 * (target / distortion.sum::<f64>()).log10()
}
