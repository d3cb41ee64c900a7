//! Speech with noise added: who speaks, what disturbs, how loud, and in which room.

use std::path::{Path, PathBuf};

use hark_media::{Options, OutputChannels, Source, decode_all};

use super::failed;
use crate::error::BenchError;

/// The rate of all of it: that of noise reduction.
pub(super) const RATE: u32 = hark_enhance::SAMPLE_RATE;
/// Ratios of speech to noise, in dB.
pub(super) const RATIOS: [f32; 4] = [0.0, 5.0, 10.0, 20.0];
/// People who speak at once in babble.
const BABBLE: usize = 8;
/// A room: seconds until the sound has decayed by 60 dB, reflections in a second, and their energy beside the direct sound's.
const RT60: f64 = 0.4;
const REFLECTIONS: f64 = 2000.0;
const REVERBERANT_SHARE: f32 = 0.25;

/// A recording of speech.
#[derive(Debug, Clone)]
pub(super) struct Speech {
    pub(super) name: String,
    pub(super) samples: Vec<f32>,
}

/// A kind of disturbance.
#[derive(Debug, Clone)]
pub(super) enum Noise {
    White,
    Pink,
    /// Other people's recordings.
    Babble,
    /// White noise, and the speech comes through a room.
    Room,
    /// A recording.
    Recorded(Speech),
}

impl Noise {
    pub(super) fn name(&self) -> &str {
        match self {
            Noise::White => "white",
            Noise::Pink => "pink",
            Noise::Babble => "babble",
            Noise::Room => "white in a room",
            Noise::Recorded(recording) => &recording.name,
        }
    }
}

/// Reads a file at the rate of noise reduction, mono.
pub(super) fn read(path: &Path) -> Result<Speech, BenchError> {
    let options = Options { rate: RATE, channels: OutputChannels::Mono, ..Options::default() };
    let decoded = decode_all(Source::Path(path.to_owned()), &options);
    let samples = decoded.map_err(|error| failed(&path.display().to_string(), error))?.0;
    Ok(Speech { name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), samples })
}

/// The first recording of each voice of a folder, `<voice>/1.wav`.
pub(super) fn voices(folder: &Path) -> Result<Vec<Speech>, BenchError> {
    let mut speech = Vec::new();
    for path in sorted(folder)? {
        let file = path.join("1.wav");
        if file.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            speech.push(Speech { name, ..read(&file)? });
        }
    }
    if speech.is_empty() {
        return Err(failed("hark bench voice", "no recordings of voices; build them with bench/voices.py"));
    }
    Ok(speech)
}

/// All kinds of noise; recordings lie in a folder that need not be there.
pub(super) fn noises(folder: &Path) -> Result<Vec<Noise>, BenchError> {
    let mut noises = vec![Noise::White, Noise::Pink, Noise::Babble, Noise::Room];
    if folder.is_dir() {
        for path in sorted(folder)? {
            noises.push(Noise::Recorded(read(&path)?));
        }
    }
    Ok(noises)
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>, BenchError> {
    let wrong = |source| BenchError::File { path: folder.to_owned(), source };
    let entries = std::fs::read_dir(folder).map_err(wrong)?;
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    paths.sort();
    Ok(paths)
}

/// Noise at the level that it has in the recording, `length` samples of it. `who` speaks is left out of babble, and chooses the place.
fn noise(kind: &Noise, length: usize, who: usize, voices: &[Speech]) -> Vec<f32> {
    match kind {
        Noise::White | Noise::Room => random(who as u64 + 1).take(length).collect(),
        Noise::Pink => pink(who as u64 + 1, length),
        Noise::Babble => {
            let mut sum = vec![0.0; length];
            let others = (1..voices.len()).take(BABBLE).map(|step| &voices[(who + step) % voices.len()].samples);
            for (at, other) in others.enumerate() {
                let power = (energy(other) / other.len() as f64).sqrt().max(1e-9) as f32;
                let from = at * other.len() / BABBLE;
                sum.iter_mut().zip(other.iter().cycle().skip(from)).for_each(|(sum, sample)| *sum += sample / power);
            }
            sum
        }
        Noise::Recorded(recording) => {
            let from = who * 3 * RATE as usize % recording.samples.len().max(1);
            recording.samples.iter().cycle().skip(from).take(length).copied().collect()
        }
    }
}

/// Numbers of mean 0 whose distribution is near normal.
fn random(seed: u64) -> impl Iterator<Item = f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::from_fn(move || Some((0..4).map(|_| uniform()).sum()))
}

/// White noise through one pole an octave: the same energy in every octave from 20 Hz on.
fn pink(seed: u64, length: usize) -> Vec<f32> {
    let poles: Vec<(f32, f32)> = (0..11)
        .map(|octave| {
            let hertz = 20.0 * 2f32.powi(octave);
            let keep = (-std::f32::consts::TAU * hertz / RATE as f32).exp();
            // As much at 0 Hz as the octave's place asks for: 3 dB less an octave.
            (keep, (1.0 - keep) * 2f32.powf(-octave as f32 / 2.0))
        })
        .collect();
    let mut state = vec![0f32; poles.len()];
    let mut next = |white: f32| {
        let step = |(state, (keep, take)): (&mut f32, &(f32, f32))| {
            *state = keep * *state + take * white;
            *state
        };
        state.iter_mut().zip(&poles).map(step).sum()
    };
    random(seed).take(length).map(&mut next).collect()
}

fn energy(samples: &[f32]) -> f64 {
    samples.iter().map(|sample| f64::from(*sample).powi(2)).sum()
}

/// The speech that is to be kept, and with the noise in it.
pub(super) struct Mixture {
    pub(super) clean: Vec<f32>,
    pub(super) noisy: Vec<f32>,
}

/// What a voice says in the place where the noise is.
pub(super) fn placed(kind: &Noise, who: usize, voices: &[Speech]) -> Vec<f32> {
    match kind {
        Noise::Room => in_room(&voices[who].samples, who as u64 + 1),
        _ => voices[who].samples.clone(),
    }
}

/// Adds noise to speech at a ratio of their energies.
pub(super) fn mix(kind: &Noise, ratio: f32, who: usize, voices: &[Speech], clean: &[f32]) -> Mixture {
    let noise = noise(kind, clean.len(), who, voices);
    let factor = (energy(clean) / energy(&noise).max(1e-12) / 10f64.powf(f64::from(ratio) / 10.0)).sqrt() as f32;
    let noisy: Vec<f32> = clean.iter().zip(&noise).map(|(speech, noise)| speech + factor * noise).collect();
    // Peaks below full scale, for all systems alike.
    let peak = noisy.iter().fold(0f32, |peak, sample| peak.max(sample.abs()));
    let gain = (0.7 / peak.max(1e-6)).min(1.0);
    let scaled = |samples: &[f32]| samples.iter().map(|sample| sample * gain).collect();
    Mixture { clean: scaled(clean), noisy: scaled(&noisy) }
}

/// Speech in a room: the direct sound and sparse reflections that decay exponentially.
fn in_room(dry: &[f32], seed: u64) -> Vec<f32> {
    let mut chance = random(seed);
    let mut next = || chance.next().unwrap_or_default();
    let count = (RT60 * REFLECTIONS) as usize;
    let mut taps: Vec<(usize, f32)> = (0..count)
        .map(|at| {
            let place = (at as f32 + 0.5 + 0.1 * next().clamp(-4.0, 4.0)) / REFLECTIONS as f32 + 0.005;
            let decay = 10f32.powf(-3.0 * place / RT60 as f32);
            ((place * RATE as f32) as usize, if next() < 0.0 { -decay } else { decay })
        })
        .collect();
    let sum: f32 = taps.iter().map(|(_, gain)| gain * gain).sum();
    let gain = (REVERBERANT_SHARE / sum).sqrt();
    taps.iter_mut().for_each(|tap| tap.1 *= gain);
    let mut out = dry.to_vec();
    for (delay, gain) in taps {
        if delay < out.len() {
            out[delay..].iter_mut().zip(dry).for_each(|(out, dry)| *out += gain * dry);
        }
    }
    out
}

/// Scale-invariant signal-to-distortion ratio in dB.
pub(super) fn si_sdr(reference: &[f32], estimate: &[f32]) -> f64 {
    let mean = |samples: &[f32]| samples.iter().map(|sample| f64::from(*sample)).sum::<f64>() / samples.len() as f64;
    let (mean_reference, mean_estimate) = (mean(reference), mean(estimate));
    let pairs = || {
        let centred =
            |(one, other): (&f32, &f32)| (f64::from(*one) - mean_reference, f64::from(*other) - mean_estimate);
        reference.iter().zip(estimate).map(centred)
    };
    let scale = pairs().map(|(one, other)| one * other).sum::<f64>() / pairs().map(|(one, _)| one * one).sum::<f64>();
    let (mut kept, mut lost) = (0.0, 0.0);
    for (one, other) in pairs() {
        kept += (scale * one).powi(2);
        lost += (other - scale * one).powi(2);
    }
    10.0 * (kept / lost.max(1e-20)).log10()
}

/// How far the quietest tenth of a recording lies below its mean, in dB: its own noise.
pub(super) fn floor(samples: &[f32]) -> f64 {
    let frame = RATE as usize / 50;
    let mut powers: Vec<f64> = samples.chunks_exact(frame).map(|frame| energy(frame) / frame.len() as f64).collect();
    powers.sort_by(f64::total_cmp);
    let quiet = &powers[..(powers.len() / 10).max(1)];
    let mean = |powers: &[f64]| powers.iter().sum::<f64>() / powers.len().max(1) as f64;
    10.0 * (mean(quiet).max(1e-15) / mean(&powers).max(1e-15)).log10()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voices() -> Vec<Speech> {
        let tone = |hertz: f32| {
            (0..RATE).map(|at| (at as f32 * hertz * std::f32::consts::TAU / RATE as f32).sin() * 0.3).collect()
        };
        let voice = |number: u8| Speech { name: format!("{number}"), samples: tone(200.0 + 50.0 * f32::from(number)) };
        (0..4).map(voice).collect()
    }

    #[test]
    fn every_noise_has_the_ratio_that_was_asked_for() {
        let voices = voices();
        let recording = Speech { name: "train".to_owned(), samples: random(9).take(RATE as usize / 3).collect() };
        for kind in [Noise::White, Noise::Pink, Noise::Babble, Noise::Room, Noise::Recorded(recording)] {
            let clean = placed(&kind, 1, &voices);
            let mixture = mix(&kind, 5.0, 1, &voices, &clean);
            let noise: Vec<f32> = mixture.noisy.iter().zip(&mixture.clean).map(|(one, other)| one - other).collect();
            let ratio = 10.0 * (energy(&mixture.clean) / energy(&noise)).log10();
            assert!((ratio - 5.0).abs() < 0.01, "{} {ratio}", kind.name());
            assert!(mixture.noisy.iter().all(|sample| sample.abs() <= 0.71));
        }
    }

    #[test]
    fn pink_noise_has_as_much_energy_in_each_octave() {
        let noise = pink(3, RATE as usize * 4);
        // Goertzel at many frequencies of an octave.
        let octave = |from: f32| {
            let power = |hertz: f32| {
                let (sin, cos) = (std::f32::consts::TAU * hertz / RATE as f32).sin_cos();
                let (mut one, mut two) = (0f64, 0f64);
                for sample in &noise {
                    (one, two) = (f64::from(*sample) + 2.0 * f64::from(cos) * one - two, one);
                }
                let _ = sin;
                one * one + two * two - 2.0 * f64::from(cos) * one * two
            };
            (0..60).map(|at| power(from * (1.0 + at as f32 / 60.0))).sum::<f64>() * f64::from(from)
        };
        let (low, high) = (octave(200.0), octave(3_200.0));
        assert!((10.0 * (low / high).log10()).abs() < 2.5, "{}", 10.0 * (low / high).log10());
    }

    #[test]
    fn distortion_does_not_depend_on_loudness_and_is_what_was_added() {
        let voices = voices();
        let mixture = mix(&Noise::White, 5.0, 0, &voices, &voices[0].samples);
        let louder: Vec<f32> = mixture.noisy.iter().map(|sample| sample * 3.0).collect();
        let found = si_sdr(&mixture.clean, &mixture.noisy);
        assert!((found - 5.0).abs() < 0.2 && (si_sdr(&mixture.clean, &louder) - found).abs() < 1e-3, "{found}");
    }

    #[test]
    fn a_room_adds_its_share_after_the_sound() {
        let mut click = vec![0.0; RATE as usize];
        click[0] = 1.0;
        let heard = in_room(&click, 5);
        assert_eq!(heard[0], 1.0);
        let tail = energy(&heard[1..]) as f32;
        assert!((tail - REVERBERANT_SHARE).abs() < 0.03, "{tail}");
        let early = energy(&heard[240..4800]);
        let late = energy(&heard[14_400..19_000]);
        assert!(early > 100.0 * late, "it decays");
    }
}
