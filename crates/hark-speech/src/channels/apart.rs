//! Whether two channels share nothing: each side of a call on its own.
//!
//! Where one side speaks the other channel is silent but for the line's noise, or holds something unrelated. In a stereo recording both
//! channels hold nearly everything that sounds. The energies of short frames tell them apart; a mistake must be to the side of the mix.

use hark_media::{AudioStream, Budget, SAMPLE_RATE, Source};

/// Samples of a channel in a frame: 50 ms.
const FRAME: usize = SAMPLE_RATE as usize / 20;
/// Frames a second.
const FRAMES_A_SECOND: usize = 20;
/// How much of a recording is listened to, in seconds…
const LONGEST: usize = 300;
/// …and after how many seconds ordinary stereo is recognized at the earliest.
const GLANCE: usize = 20;
/// A frame counts if it has this share of the energy of the loud frames (−25 dB): the rest is pauses and noise.
const ACTIVE: f32 = 0.003;
/// Mean squares below this are silence.
const SILENCE: f32 = 1e-7;
/// A channel is alone if it has this many times the energy of the other: 15 dB.
const ALONE: f32 = 32.0;
/// Channels whose samples correlate more than this in a frame hold the same sound.
const RELATED: f32 = 0.2;
/// The least seconds in which each channel is alone.
const LEAST_ALONE: f32 = 1.0;
/// The least share of active frames in which one of them is alone.
const SHARE_ALONE: f32 = 0.6;
/// The greatest share of active frames in which they hold the same sound.
const SHARE_RELATED: f32 = 0.05;

/// Whether the two channels of a source share nothing; what can't be read shares something.
pub(super) fn share_nothing(source: Source, media: &hark_media::Options) -> bool {
    // What is only looked at is not charged.
    let media = hark_media::Options { budget: Budget::default(), ..media.clone() };
    AudioStream::open(source, &media).is_ok_and(|mut audio| {
        let mut frames = Frames::default();
        let mut block = Vec::new();
        while frames.seconds() < LONGEST {
            block.clear();
            match audio.read(&mut block) {
                Ok(0) | Err(_) => break,
                Ok(_) => frames.push(&block),
            }
            if frames.seconds() >= GLANCE && frames.shares().is_some_and(|shares| shares.alone < SHARE_ALONE / 2.0) {
                return false;
            }
        }
        frames.shares().is_some_and(|shares| shares.are_apart())
    })
}

/// What both channels do in a frame.
#[derive(Clone, Copy)]
struct Frame {
    energies: [f32; 2],
    /// The correlation of the samples, without its sign.
    correlation: f32,
}

/// The frames that were heard so far.
#[derive(Default)]
struct Frames {
    heard: Vec<Frame>,
    rest: Vec<f32>,
}

/// Seconds and shares of active frames.
struct Shares {
    /// Seconds in which each channel is alone.
    seconds_alone: [f32; 2],
    alone: f32,
    related: f32,
}

impl Shares {
    fn are_apart(&self) -> bool {
        self.seconds_alone.iter().all(|&seconds| seconds >= LEAST_ALONE)
            && self.alone >= SHARE_ALONE
            && self.related <= SHARE_RELATED
    }
}

impl Frames {
    fn seconds(&self) -> usize {
        self.heard.len() / FRAMES_A_SECOND
    }

    fn push(&mut self, interleaved: &[f32]) {
        self.rest.extend_from_slice(interleaved);
        let whole = self.rest.len() / (2 * FRAME) * (2 * FRAME);
        self.heard.extend(self.rest[..whole].chunks_exact(2 * FRAME).map(frame));
        self.rest.drain(..whole);
    }

    /// None while there is no sound.
    fn shares(&self) -> Option<Shares> {
        let energy = |frame: &Frame| frame.energies[0] + frame.energies[1];
        let mut energies: Vec<f32> = self.heard.iter().map(energy).collect();
        energies.sort_by(f32::total_cmp);
        let loud = energies.get(energies.len() * 19 / 20).copied()?;
        let active: Vec<&Frame> =
            self.heard.iter().filter(|frame| energy(frame) > SILENCE.max(ACTIVE * loud)).collect();
        if active.is_empty() {
            return None;
        }
        let is_alone = |frame: &Frame, channel: usize| frame.energies[channel] >= ALONE * frame.energies[1 - channel];
        let alone = [0, 1].map(|channel| active.iter().filter(|frame| is_alone(frame, channel)).count() as f32);
        let is_related = |frame: &&&Frame| !is_alone(frame, 0) && !is_alone(frame, 1) && frame.correlation > RELATED;
        Some(Shares {
            seconds_alone: alone.map(|frames| frames / FRAMES_A_SECOND as f32),
            alone: (alone[0] + alone[1]) / active.len() as f32,
            related: active.iter().filter(is_related).count() as f32 / active.len() as f32,
        })
    }
}

fn frame(interleaved: &[f32]) -> Frame {
    let (mut energies, mut product) = ([0.0f32; 2], 0.0f32);
    for pair in interleaved.chunks_exact(2) {
        energies[0] += pair[0] * pair[0];
        energies[1] += pair[1] * pair[1];
        product += pair[0] * pair[1];
    }
    let correlation = product.abs() / (energies[0] * energies[1]).sqrt().max(f32::MIN_POSITIVE);
    Frame { energies: energies.map(|energy| energy / FRAME as f32), correlation }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise of a level, the same for the same seed.
    fn noise(seed: u32, level: f32, samples: usize) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            level * ((state >> 8) as f32 / (1 << 23) as f32 - 1.0)
        };
        (0..samples).map(|_| next()).collect()
    }

    /// One speaks for two seconds, then the other.
    fn turns(first: usize, samples: usize) -> Vec<f32> {
        let speech = noise(first as u32 + 1, 0.3, samples);
        let is_on = |at: usize| at / (2 * SAMPLE_RATE as usize) % 2 == first;
        speech.into_iter().enumerate().map(|(at, sample)| if is_on(at) { sample } else { 0.0 }).collect()
    }

    fn are_apart(left: &[f32], right: &[f32]) -> bool {
        let mut frames = Frames::default();
        let interleaved: Vec<f32> = left.iter().zip(right).flat_map(|(l, r)| [*l, *r]).collect();
        // Blocks that no frame fits.
        interleaved.chunks(2 * 777).for_each(|block| frames.push(block));
        frames.shares().is_some_and(|shares| shares.are_apart())
    }

    fn mixed(parts: &[(&[f32], f32)]) -> Vec<f32> {
        (0..parts[0].0.len()).map(|at| parts.iter().map(|(part, gain)| part[at] * gain).sum()).collect()
    }

    const SAMPLES: usize = 16 * SAMPLE_RATE as usize;

    #[test]
    fn the_sides_of_a_call_share_nothing_with_noise_and_a_little_echo() {
        let (left, right) = (turns(0, SAMPLES), turns(1, SAMPLES));
        assert!(are_apart(&left, &right));
        let (hiss, hum) = (noise(7, 0.004, SAMPLES), noise(8, 0.004, SAMPLES));
        let noisy = [mixed(&[(&left, 1.0), (&hiss, 1.0), (&right, 0.05)]), mixed(&[(&right, 1.0), (&hum, 1.0)])];
        assert!(are_apart(&noisy[0], &noisy[1]));
    }

    #[test]
    fn stereo_of_one_room_of_one_side_and_of_music_is_mixed() {
        let (one, other) = (turns(0, SAMPLES), turns(1, SAMPLES));
        let room = [mixed(&[(&one, 1.0), (&other, 0.4)]), mixed(&[(&one, 0.4), (&other, 1.0)])];
        assert!(!are_apart(&room[0], &room[1]), "two microphones in a room");
        assert!(!are_apart(&one, &vec![0.0; SAMPLES]), "only one side has sound");
        assert!(!are_apart(&one, &one), "the same on both");
        let (strings, brass) = (noise(3, 0.3, SAMPLES), noise(4, 0.3, SAMPLES));
        assert!(!are_apart(&strings, &brass), "unrelated, but always both");
        assert!(!are_apart(&[0.0; 800], &[0.0; 800]), "silence");
    }
}
