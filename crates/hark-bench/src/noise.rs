//! Sounds without a word in them: what they are transcribed to must be nothing.

use std::{f32::consts::TAU, path::Path};

use super::{
    BenchError,
    audio::{RATE, WavWriter},
};

/// A kind of sound that nobody speaks in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sound {
    /// Digital zero.
    Silence,
    /// The same energy at every frequency.
    White,
    /// The same energy in every octave: wind, traffic, rooms.
    Pink,
    /// Mains at 50 Hz with its overtones.
    Hum,
    /// A synthesized piece: chords, a bass, a melody and a beat. No voice, no recording.
    Music,
}

/// All of them, in the order they are reported.
pub const SOUNDS: [Sound; 5] = [Sound::Silence, Sound::White, Sound::Pink, Sound::Hum, Sound::Music];

impl Sound {
    /// Its name in tables and file names.
    pub fn name(self) -> &'static str {
        match self {
            Sound::Silence => "silence",
            Sound::White => "white",
            Sound::Pink => "pink",
            Sound::Hum => "hum",
            Sound::Music => "music",
        }
    }

    /// Writes `seconds` of it; the same bytes every time.
    pub fn write(self, path: &Path, seconds: f64) -> Result<(), BenchError> {
        let total = (seconds * f64::from(RATE)) as u64;
        let mut writer = WavWriter::create(path, total)?;
        let mut source = Source::new(self);
        let mut written = 0;
        while written < total {
            let block = (total - written).min(u64::from(RATE));
            let samples: Vec<f32> = (0..block).map(|at| source.sample(written + at)).collect();
            writer.write(&samples)?;
            written += block;
        }
        writer.finish()
    }
}

struct Source {
    sound: Sound,
    random: u32,
    /// Running sums of Voss and McCartney's pink noise: row k changes every 2^k samples.
    rows: [f32; 12],
}

impl Source {
    fn new(sound: Sound) -> Self {
        Self { sound, random: 0x9E37_79B9, rows: [0.0; 12] }
    }

    fn sample(&mut self, at: u64) -> f32 {
        match self.sound {
            Sound::Silence => 0.0,
            Sound::White => 0.1 * self.white(),
            Sound::Pink => self.pink(at),
            Sound::Hum => {
                let time = seconds(at);
                0.2 * (1..=6).map(|overtone| (TAU * 50.0 * overtone as f32 * time).sin() / overtone as f32).sum::<f32>()
            }
            Sound::Music => self.music(at),
        }
    }

    /// -1 to 1, xorshift.
    fn white(&mut self) -> f32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random as f32 / (u32::MAX / 2) as f32 - 1.0
    }

    fn pink(&mut self, at: u64) -> f32 {
        let row = (at + 1).trailing_zeros() as usize;
        if row < self.rows.len() {
            self.rows[row] = self.white();
        }
        0.04 * (self.rows.iter().sum::<f32>() + self.white())
    }

    /// Four chords of two seconds each, over and over; the melody walks through the chord and never quite repeats.
    fn music(&mut self, at: u64) -> f32 {
        // A minor, F, C, G: semitones from A3 of 220 Hz.
        const CHORDS: [[i32; 3]; 4] = [[0, 3, 7], [-4, 0, 3], [3, 7, 10], [-2, 2, 5]];
        let beat_samples = u64::from(RATE) / 2;
        let beat = at / beat_samples;
        let in_beat = (at % beat_samples) as f32 / RATE as f32;
        let chord = CHORDS[(beat / 4 % 4) as usize];
        let time = seconds(at % (u64::from(RATE) * 600));
        let pitch = |semitones: i32| 220.0 * 2f32.powf(semitones as f32 / 12.0);
        let tone = |hertz: f32| {
            (1..=4)
                .map(|overtone| (TAU * hertz * overtone as f32 * time).sin() / (overtone * overtone) as f32)
                .sum::<f32>()
        };
        let pad: f32 = chord.iter().map(|note| tone(pitch(*note))).sum();
        let bass = tone(pitch(chord[0] - 12));
        let walk = (beat.wrapping_mul(2_654_435_761) >> 7) as usize % 3;
        let melody = tone(pitch(chord[walk] + 12)) * (-3.0 * in_beat).exp();
        let drum = self.white() * (-40.0 * in_beat).exp();
        0.05 * pad + 0.08 * bass + 0.12 * melody + 0.15 * drum
    }
}

fn seconds(at: u64) -> f32 {
    (at as f64 / f64::from(RATE)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(sound: Sound, count: u64) -> Vec<f32> {
        let mut source = Source::new(sound);
        (0..count).map(|at| source.sample(at)).collect()
    }

    fn energy(samples: &[f32]) -> f32 {
        samples.iter().map(|sample| sample * sample).sum::<f32>() / samples.len() as f32
    }

    /// Energy of the difference of neighbours over the energy itself: 2 for white noise, small for low sounds.
    fn brightness(samples: &[f32]) -> f32 {
        let differences: Vec<f32> = samples.windows(2).map(|pair| pair[1] - pair[0]).collect();
        energy(&differences) / energy(samples)
    }

    #[test]
    fn silence_is_zero_and_the_others_are_heard_without_clipping() {
        assert!(samples(Sound::Silence, 16_000).iter().all(|sample| *sample == 0.0));
        for sound in [Sound::White, Sound::Pink, Sound::Hum, Sound::Music] {
            let samples = samples(sound, 80_000);
            assert!(energy(&samples) > 1e-4, "{sound:?} is too quiet to test anything");
            assert!(samples.iter().all(|sample| sample.abs() < 1.0), "{sound:?} clips");
        }
    }

    #[test]
    fn white_is_brighter_than_pink_and_pink_than_hum() {
        let [white, pink, hum] =
            [Sound::White, Sound::Pink, Sound::Hum].map(|sound| brightness(&samples(sound, 80_000)));
        assert!((white - 2.0).abs() < 0.1 && pink < 0.8 && hum < 0.05, "{white} {pink} {hum}");
    }

    #[test]
    fn the_same_sound_is_the_same_every_time() {
        assert_eq!(samples(Sound::Music, 20_000), samples(Sound::Music, 20_000));
    }
}
