//! Many channels to one, by one rule for every decoder.
//!
//! Known speaker positions are weighted as ffmpeg's `-ac 1` weights them: centre 1, left and right √½, everything
//! around and above ½, low-frequency effects 0; the weights are scaled to a sum of 1, so nothing clips. Stereo is thus the plain
//! mean. Channels without positions count alike.

/// Speaker positions as bits in the order of `WAVEFORMATEXTENSIBLE`, which is also Symphonia's.
mod position {
    pub(super) const FRONT: u64 = 0b11;
    pub(super) const FRONT_CENTER: u64 = 1 << 2;
    pub(super) const LOW_FREQUENCY: u64 = (1 << 3) | (1 << 18);
    pub(super) const FRONT_OF_CENTER: u64 = 0b11 << 6;
}

/// Weights that fold interleaved frames into one channel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Downmix {
    weights: Vec<f32>,
}

impl Downmix {
    /// The weights for `channels` channels, whose positions are the bits of `mask` in ascending order when it has as many.
    pub(crate) fn new(channels: usize, mask: Option<u64>) -> Self {
        let mut weights = match mask {
            Some(mask) if mask.count_ones() as usize == channels => {
                (0..u64::BITS).map(|bit| 1u64 << bit).filter(|bit| mask & bit != 0).map(weight).collect()
            }
            _ => vec![1.0f32; channels],
        };
        let sum: f32 = weights.iter().sum();
        if sum > 0.0 {
            weights.iter_mut().for_each(|weight| *weight /= sum);
        } else {
            // Only a low-frequency channel: better heard than silenced.
            let equal = 1.0 / channels as f32;
            weights.iter_mut().for_each(|weight| *weight = equal);
        }
        Downmix { weights }
    }

    /// The weights of two channels; none of more or fewer.
    pub(crate) fn pair(&self) -> Option<[f32; 2]> {
        self.weights.as_slice().try_into().ok()
    }

    /// Appends one sample for each frame of `interleaved`; what is not a number becomes silence.
    pub(crate) fn apply(&self, interleaved: &[f32], out: &mut Vec<f32>) {
        let from = out.len();
        match self.weights[..] {
            [] => return,
            [_] => out.extend_from_slice(interleaved),
            [left, right] => out.extend(interleaved.chunks_exact(2).map(|frame| frame[0] * left + frame[1] * right)),
            _ => out.extend(
                interleaved
                    .chunks_exact(self.weights.len())
                    .map(|frame| frame.iter().zip(&self.weights).map(|(x, w)| x * w).sum::<f32>()),
            ),
        }
        for sample in &mut out[from..] {
            *sample = finite(*sample);
        }
    }
}

/// The sample, or silence when it is not a number; written as a select, so that loops vectorize.
#[inline]
pub(crate) fn finite(sample: f32) -> f32 {
    if sample.abs() <= f32::MAX { sample } else { 0.0 }
}

fn weight(bit: u64) -> f32 {
    use position::*;
    match bit {
        FRONT_CENTER => 1.0,
        bit if bit & LOW_FREQUENCY != 0 => 0.0,
        bit if bit & (FRONT | FRONT_OF_CENTER) != 0 => std::f32::consts::FRAC_1_SQRT_2,
        _ => 0.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed(mix: &Downmix, frames: &[f32]) -> Vec<f32> {
        let mut out = Vec::new();
        mix.apply(frames, &mut out);
        out
    }

    #[test]
    fn stereo_is_the_mean_and_mono_is_untouched() {
        assert_eq!(mixed(&Downmix::new(2, Some(3)), &[1.0, 0.0, 0.5, 0.25]), [0.5, 0.375]);
        assert_eq!(mixed(&Downmix::new(1, None), &[0.3, -0.7]), [0.3, -0.7]);
    }

    #[test]
    fn five_point_one_keeps_the_centre_loudest_and_drops_the_low_frequencies() {
        let mix = Downmix::new(6, Some(0x3f));
        let alone = |channel: usize| {
            let mut frame = [0.0; 6];
            frame[channel] = 1.0;
            mixed(&mix, &frame)[0]
        };
        assert!((alone(2) - 0.2929).abs() < 1e-3);
        assert!((alone(0) - 0.2071).abs() < 1e-3);
        assert_eq!(alone(3), 0.0);
        assert!((alone(5) - 0.1464).abs() < 1e-3);
    }

    #[test]
    fn what_is_not_a_number_becomes_silence() {
        assert_eq!(
            mixed(&Downmix::new(1, None), &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.5]),
            [0.0, 0.0, 0.0, 0.5]
        );
    }
}
