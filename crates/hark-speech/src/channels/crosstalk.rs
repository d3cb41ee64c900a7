//! Silences on a channel what is only the echo of another.
//!
//! Lines and microphones let a little of the other side through, 20 to 40 dB down. By itself that is quiet speech, which voice activity
//! detection raises and hears, so the words of one side would appear on both. Where another channel is far louder, a channel is muted.

use hark_media::SAMPLE_RATE;

/// Frames of samples that are decided together: 20 ms.
const STRETCH: usize = SAMPLE_RATE as usize / 50;
/// A channel is muted where another has this many times its energy: 15 dB, as in [`super::apart`].
const LOUDER: f32 = 32.0;
/// How much of the energy of a loud stretch is left of it in the next: it falls by 15 dB in 200 ms, as long as echoes last.
const DECAY: f32 = 0.7;

/// The gate of the channels of one recording.
pub(super) struct CrosstalkGate {
    /// The energy of each channel, with its echo.
    envelopes: Vec<f32>,
    gains: Vec<f32>,
}

impl CrosstalkGate {
    pub(super) fn new(channels: usize) -> Self {
        CrosstalkGate { envelopes: vec![0.0; channels], gains: vec![1.0; channels] }
    }

    /// Mutes echoes in a block of interleaved samples.
    pub(super) fn apply(&mut self, block: &mut [f32]) {
        let channels = self.envelopes.len();
        for stretch in block.chunks_mut(STRETCH * channels) {
            let frames = stretch.len() / channels;
            let mut energies = vec![0.0f32; channels];
            for frame in stretch.chunks_exact(channels) {
                energies.iter_mut().zip(frame).for_each(|(energy, sample)| *energy += sample * sample);
            }
            energies.iter_mut().for_each(|energy| *energy /= frames.max(1) as f32);
            for (envelope, energy) in self.envelopes.iter_mut().zip(&energies) {
                *envelope = energy.max(*envelope * DECAY);
            }
            for channel in 0..channels {
                let others = self.envelopes.iter().enumerate().filter(|(other, _)| *other != channel);
                let loudest = others.map(|(_, envelope)| *envelope).fold(0.0, f32::max);
                let gain = if loudest > LOUDER * energies[channel] { 0.0 } else { 1.0 };
                fade(stretch, channel, channels, self.gains[channel], gain);
                self.gains[channel] = gain;
            }
        }
    }
}

/// Multiplies a channel by a gain that goes from one value to another, without a click.
fn fade(stretch: &mut [f32], channel: usize, channels: usize, from: f32, to: f32) {
    if from == 1.0 && to == 1.0 {
        return;
    }
    let step = (to - from) / (stretch.len() / channels) as f32;
    for (n, frame) in stretch.chunks_exact_mut(channels).enumerate() {
        frame[channel] *= from + step * (n + 1) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gated(left: impl Fn(usize) -> f32, right: impl Fn(usize) -> f32) -> Vec<[f32; 2]> {
        let wave = |n: usize| (n as f32 * 0.21).sin();
        let mut block: Vec<f32> = (0..32_000).flat_map(|n| [left(n) * wave(n), right(n) * wave(n + 3)]).collect();
        let mut gate = CrosstalkGate::new(2);
        block.chunks_mut(2 * 5000).for_each(|part| gate.apply(part));
        block.as_chunks::<2>().0.to_vec()
    }

    fn peak(frames: &[[f32; 2]], channel: usize) -> f32 {
        frames.iter().fold(0.0, |peak, frame| peak.max(frame[channel].abs()))
    }

    #[test]
    fn the_echo_of_the_other_side_is_muted_and_speech_is_not() {
        // The left side speaks for a second, then the right one; each is heard 30 dB down on the other's channel.
        let turns = |mine: bool| move |n: usize| if (n < 16_000) == mine { 0.5 } else { 0.015 };
        let frames = gated(turns(true), turns(false));
        // A stretch in which it begins to speak is whole.
        assert_eq!(peak(&frames[1000..15_680], 1), 0.0);
        assert_eq!(peak(&frames[21_000..], 0), 0.0);
        assert!(peak(&frames[..16_000], 0) > 0.49 && peak(&frames[16_400..], 1) > 0.49);
    }

    #[test]
    fn both_at_once_and_a_room_heard_by_two_microphones_stay_as_they_are() {
        let both = gated(|_| 0.5, |_| 0.2);
        assert!(peak(&both[30_000..], 1) > 0.19 && peak(&both[30_000..], 0) > 0.49);
    }
}
