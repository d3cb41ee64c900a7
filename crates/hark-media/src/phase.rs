//! Two channels in opposite phase, which a plain mean would cancel.
//!
//! A wrongly wired cable or plug gives one channel the sign of the other's opposite. The mean of such channels is what they do *not*
//! share: noise. Half their difference is the sound. Which of the two a stretch needs is decided by the correlation of the channels
//! at lag 0, over about a third of a second; stereo that is only wide stays with the mean, bit for bit.

/// Frames that are decided together.
const STRETCH: usize = 256;
/// The correlation, −1 to 1, below which the channels are subtracted: the mean then has less than a tenth of their energy…
const OPPOSITE: f32 = -0.8;
/// …and above which they are added again.
const ALIKE: f32 = -0.3;
/// How many stretches the correlation looks back: a third of a second at 48 kHz.
const MEMORY: f32 = 64.0;
/// Mean squares below this are silence, which says nothing: −80 dB of full scale.
const SILENCE: f32 = 1e-8;

/// Folds two channels into one, adding or subtracting.
#[derive(Default)]
pub(crate) struct PhaseFold {
    /// Running mean squares of both channels, and of their product.
    energy: f32,
    shared: f32,
    is_opposite: bool,
    /// Frames of sound that were subtracted.
    subtracted: u64,
}

impl PhaseFold {
    /// Appends one sample for each frame of two; `left` and `right` are the weights of the mean.
    pub(crate) fn apply(&mut self, interleaved: &[f32], left: f32, right: f32, out: &mut Vec<f32>) {
        for stretch in interleaved.chunks(2 * STRETCH) {
            let was_opposite = self.is_opposite;
            self.observe(stretch);
            let sign = |is_opposite: bool| if is_opposite { -1.0 } else { 1.0 };
            let (from, to) = (sign(was_opposite) * right, sign(self.is_opposite) * right);
            let frames = stretch.chunks_exact(2);
            if from == to {
                out.extend(frames.map(|frame| frame[0] * left + frame[1] * to));
            } else {
                // A sudden change of sign would be heard as a click.
                let step = (to - from) / frames.len() as f32;
                out.extend(frames.zip(1..).map(|(frame, n)| frame[0] * left + frame[1] * (from + step * n as f32)));
            }
            if self.is_opposite && self.energy > SILENCE {
                self.subtracted += (stretch.len() / 2) as u64;
            }
        }
    }

    /// Frames of sound that were subtracted so far.
    pub(crate) fn subtracted(&self) -> u64 {
        self.subtracted
    }

    fn observe(&mut self, stretch: &[f32]) {
        let (mut energy, mut shared) = (0.0, 0.0);
        for frame in stretch.chunks_exact(2) {
            energy += (frame[0] * frame[0] + frame[1] * frame[1]) / 2.0;
            shared += frame[0] * frame[1];
        }
        let frames = (stretch.len() / 2).max(1) as f32;
        if !(energy.is_finite() && shared.is_finite()) || energy / frames < SILENCE {
            return;
        }
        let keep = 1.0 - 1.0 / MEMORY;
        self.energy = self.energy * keep + energy / frames;
        self.shared = self.shared * keep + shared / frames;
        let correlation = self.shared / self.energy;
        if correlation < OPPOSITE {
            self.is_opposite = true;
        } else if correlation > ALIKE {
            self.is_opposite = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(frames: usize, right: impl Fn(usize, f32) -> f32) -> Vec<f32> {
        let left = |n: usize| 0.3 * (n as f32 * 0.05).sin() + 0.1 * (n as f32 * 0.31).sin();
        (0..frames).flat_map(|n| [left(n), right(n, left(n))]).collect()
    }

    fn folded(interleaved: &[f32]) -> (Vec<f32>, u64) {
        let (mut fold, mut out) = (PhaseFold::default(), Vec::new());
        fold.apply(interleaved, 0.5, 0.5, &mut out);
        (out, fold.subtracted())
    }

    #[test]
    fn opposite_channels_keep_their_sound_from_the_first_frame_but_for_the_change_of_sign() {
        let frames = tone(20_000, |_, left| -0.9 * left);
        let (out, subtracted) = folded(&frames);
        assert_eq!(subtracted, 20_000);
        for (frame, sample) in frames.chunks_exact(2).zip(&out).skip(STRETCH) {
            assert!((sample - 0.95 * frame[0]).abs() < 1e-6);
        }
    }

    #[test]
    fn ordinary_and_wide_stereo_is_the_mean_bit_for_bit() {
        let noise = |n: usize| ((n as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 25) as f32 - 0.25;
        for (name, frames) in [
            ("the same", tone(20_000, |_, left| left)),
            ("one side", tone(20_000, |_, _| 0.0)),
            ("unrelated", tone(20_000, |n, _| noise(n))),
            ("wide", tone(20_000, |n, left| noise(n) - 0.5 * left)),
            ("silence", vec![0.0; 40_000]),
        ] {
            let (out, subtracted) = folded(&frames);
            let mean: Vec<f32> = frames.chunks_exact(2).map(|frame| frame[0] * 0.5 + frame[1] * 0.5).collect();
            assert!(out == mean && subtracted == 0, "{name}");
        }
    }

    #[test]
    fn the_sign_follows_a_file_whose_channels_change() {
        let frames =
            [tone(60_000, |_, left| left), tone(60_000, |_, left| -left), tone(60_000, |_, left| left)].concat();
        let (out, _) = folded(&frames);
        let energy = |range: std::ops::Range<usize>| out[range].iter().map(|x| x * x).sum::<f32>();
        // Within a second of each change, at 48 kHz.
        assert!(energy(110_000..120_000) > 0.9 * energy(30_000..40_000));
        assert!(energy(170_000..180_000) > 0.9 * energy(30_000..40_000));
    }
}
