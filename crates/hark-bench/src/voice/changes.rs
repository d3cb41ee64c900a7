//! What is done to marked sounds.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use hark_compute::Compute;
use hark_enhance::Enhancer;
use hark_media::{AudioSpec, Encoder, Options, OutputFormat, Resampler, SampleWriter as _, Source, decode_all};

use super::clips::RATE;
use super::failed;
use crate::error::BenchError;
use crate::systems;

/// A change of a sound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Change {
    None,
    Mp3 {
        kbps: u32,
    },
    Opus {
        kbps: u32,
    },
    /// To this rate and back.
    Rate(u32),
    /// By so many decibels.
    Gain(f32),
    /// At this ratio of speech to noise.
    White(f32),
    Pink(f32),
    /// Speed and pitch together, in percent.
    Speed(u32),
    /// Speed alone, by ffmpeg's `atempo`.
    Tempo(u32),
    /// 300 to 3400 Hz at 8 kHz, 8 bits by the µ-law.
    Telephone,
    /// Noise reduction by DeepFilterNet3.
    Enhanced,
}

/// All of them with their names, in the order of the table. Those after `telephone` are harder than what is promised.
pub(super) const CHANGES: [(&str, Change); 19] = [
    ("none", Change::None),
    ("mp3-64", Change::Mp3 { kbps: 64 }),
    ("opus-24", Change::Opus { kbps: 24 }),
    ("16-khz", Change::Rate(16_000)),
    ("8-khz", Change::Rate(8_000)),
    ("gain+6", Change::Gain(6.0)),
    ("gain-6", Change::Gain(-6.0)),
    ("white-20", Change::White(20.0)),
    ("pink-20", Change::Pink(20.0)),
    ("speed-105", Change::Speed(105)),
    ("speed-95", Change::Speed(95)),
    ("deepfilternet", Change::Enhanced),
    ("telephone", Change::Telephone),
    ("tempo-105", Change::Tempo(105)),
    ("tempo-95", Change::Tempo(95)),
    ("mp3-32", Change::Mp3 { kbps: 32 }),
    ("opus-12", Change::Opus { kbps: 12 }),
    ("white-10", Change::White(10.0)),
    ("speed-110", Change::Speed(110)),
];

/// Makes changes; holds the network that some need.
pub(super) struct Changer {
    enhancer: Option<Enhancer>,
}

impl Changer {
    pub(super) fn new() -> Self {
        let folder = systems::installed("deepfilternet3").ok();
        let compute = Compute::from_options(Some(1), None);
        Changer { enhancer: folder.and_then(|folder| Enhancer::load(&compute, &folder).ok()) }
    }

    /// The changed sound; none where this machine lacks what the change needs. `seed` chooses the noise.
    pub(super) fn apply(&self, change: Change, samples: &[f32], seed: u64) -> Result<Option<Vec<f32>>, BenchError> {
        Ok(Some(match change {
            Change::None => samples.to_vec(),
            Change::Mp3 { kbps } => encode(samples, OutputFormat::Mp3 { kbps })?,
            Change::Opus { kbps } => encode(samples, OutputFormat::Opus { kbps })?,
            Change::Rate(rate) => resample(&resample(samples, RATE, rate), rate, RATE),
            Change::Gain(decibels) => {
                let factor = 10f32.powf(decibels / 20.0);
                samples.iter().map(|sample| (sample * factor).clamp(-1.0, 1.0)).collect()
            }
            Change::White(ratio) => add_noise(samples, ratio, false, seed),
            Change::Pink(ratio) => add_noise(samples, ratio, true, seed),
            Change::Speed(percent) => resample(samples, RATE * percent / 100, RATE),
            Change::Tempo(percent) => stretch(samples, percent)?,
            Change::Telephone => telephone(samples),
            Change::Enhanced => match &self.enhancer {
                Some(enhancer) => enhance(enhancer, samples)?,
                None => return Ok(None),
            },
        }))
    }
}

pub(super) fn resample(samples: &[f32], from: u32, to: u32) -> Vec<f32> {
    let mut resampler = Resampler::between(from, to);
    let mut out = Vec::new();
    resampler.push(samples, &mut out);
    resampler.finish(&mut out);
    out
}

/// Bytes that an encoder writes.
#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn encode(samples: &[f32], format: OutputFormat) -> Result<Vec<f32>, BenchError> {
    let wrong = |error| failed("the encoder", error);
    let bytes = Bytes::default();
    let spec = AudioSpec { rate: RATE, channels: 1 };
    let mut encoder = Encoder::start(spec, format, bytes.clone(), &Options::default()).map_err(wrong)?;
    encoder.write(samples).and_then(|()| encoder.finish()).map_err(wrong)?;
    let file = std::mem::take(&mut *bytes.0.lock().unwrap_or_else(PoisonError::into_inner));
    decode(file)
}

fn decode(file: Vec<u8>) -> Result<Vec<f32>, BenchError> {
    let options = Options { rate: RATE, ..Options::default() };
    let decoded = decode_all(Source::Reader(Box::new(io::Cursor::new(file))), &options);
    Ok(decoded.map_err(|error| failed("the decoder", error))?.0)
}

fn stretch(samples: &[f32], percent: u32) -> Result<Vec<f32>, BenchError> {
    let wrong = |error: io::Error| failed("ffmpeg", error);
    let folder = tempfile::tempdir().map_err(wrong)?;
    let file = folder.path().join("clip.wav");
    hark_media::write_wav_file(&file, samples, RATE).map_err(wrong)?;
    let filter = format!("atempo={}", f64::from(percent) / 100.0);
    let output = std::process::Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(&file)
        .args(["-af", &filter, "-f", "wav", "pipe:1"])
        .output()
        .map_err(wrong)?;
    decode(output.stdout)
}

fn enhance(enhancer: &Enhancer, samples: &[f32]) -> Result<Vec<f32>, BenchError> {
    let wrong = |error| failed("hark-enhance", error);
    let mut stream = enhancer.stream(1, &hark_enhance::Options::default()).map_err(wrong)?;
    let mut out = Vec::new();
    stream.push(&resample(samples, RATE, hark_enhance::SAMPLE_RATE), &mut out, &|| false).map_err(wrong)?;
    stream.finish(&mut out, &|| false).map_err(wrong)?;
    Ok(resample(&out, hark_enhance::SAMPLE_RATE, RATE))
}

fn add_noise(samples: &[f32], ratio: f32, is_pink: bool, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    // Paul Kellet's filter: three poles make white noise pink within half a decibel.
    let mut poles = [0f32; 3];
    let noise: Vec<f32> = samples
        .iter()
        .map(|_| {
            let white: f32 = uniform() + uniform() + uniform();
            if !is_pink {
                return white;
            }
            for (pole, (keep, take)) in
                poles.iter_mut().zip([(0.99765, 0.099_046), (0.963, 0.296_516_4), (0.57, 1.052_691_3)])
            {
                *pole = keep * *pole + take * white;
            }
            poles.iter().sum::<f32>() + 0.1848 * white
        })
        .collect();
    let energy = |samples: &[f32]| samples.iter().map(|sample| sample * sample).sum::<f32>();
    let factor = (energy(samples) / energy(&noise) / 10f32.powf(ratio / 10.0)).sqrt();
    samples.iter().zip(&noise).map(|(sample, noise)| sample + factor * noise).collect()
}

/// A telephone line: two second-order Butterworth filters at 8 kHz and G.711's µ-law.
fn telephone(samples: &[f32]) -> Vec<f32> {
    let narrow = resample(samples, RATE, 8_000);
    let narrow = biquad(&biquad(&narrow, 300.0, true), 3_400.0, false);
    let quantized: Vec<f32> = narrow
        .iter()
        .map(|sample| {
            let level = (1.0 + 255.0 * sample.abs().min(1.0)).ln() / 256f32.ln();
            let level = (level * 127.0).round() / 127.0;
            ((256f32.ln() * level).exp() - 1.0) / 255.0 * sample.signum()
        })
        .collect();
    resample(&quantized, 8_000, RATE)
}

fn biquad(samples: &[f32], hz: f64, is_high_pass: bool) -> Vec<f32> {
    let omega = std::f64::consts::TAU * hz / 8_000.0;
    let (sin, cos) = omega.sin_cos();
    let alpha = sin * std::f64::consts::FRAC_1_SQRT_2;
    let edge = if is_high_pass { 1.0 + cos } else { 1.0 - cos };
    let middle = if is_high_pass { -edge } else { edge };
    let (mut x, mut y) = ([0f64; 2], [0f64; 2]);
    let filter = |&sample: &f32| {
        let now = f64::from(sample);
        let out = (edge / 2.0 * (now + x[1]) + middle * x[0] + 2.0 * cos * y[0] - (1.0 - alpha) * y[1]) / (1.0 + alpha);
        (x, y) = ([now, x[0]], [out, y[0]]);
        out as f32
    };
    samples.iter().map(filter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn energy(samples: &[f32]) -> f32 {
        samples.iter().map(|sample| sample * sample).sum()
    }

    #[test]
    fn noise_has_the_ratio_that_was_asked_for() {
        let tone: Vec<f32> = (0..RATE).map(|at| (at as f32 * 0.2).sin() * 0.3).collect();
        for is_pink in [false, true] {
            let noisy = add_noise(&tone, 20.0, is_pink, 3);
            let noise: Vec<f32> = noisy.iter().zip(&tone).map(|(one, two)| one - two).collect();
            let ratio = 10.0 * (energy(&tone) / energy(&noise)).log10();
            assert!((ratio - 20.0).abs() < 0.1, "{ratio}");
        }
    }

    #[test]
    fn a_telephone_passes_the_middle_of_its_band_and_neither_end() {
        let through = |hz: f32| {
            let tone: Vec<f32> =
                (0..RATE).map(|at| (at as f32 * hz * std::f32::consts::TAU / RATE as f32).sin() * 0.5).collect();
            10.0 * (energy(&telephone(&tone)) / energy(&tone)).log10()
        };
        assert!(through(1_000.0).abs() < 0.5);
        assert!(through(80.0) < -15.0 && through(5_000.0) < -30.0);
    }
}
