//! Floating-point samples on the scale of whole numbers.
//!
//! Full scale of a float file is 1. Programs that turn 16-bit numbers into floats without dividing them write files up to 32,768,
//! which every decoder passes on as they are. The scale is taken from the first sample that no float file has; until there is one, a
//! few seconds are held, because such a file often begins with a hush that looks like sound at full scale.

use crate::Block;

/// Sums of effects and resampling overshoot full scale by a few dB; nothing overshoots it by 24.
const IMPOSSIBLE: f32 = 16.0;
/// How long a file that stays below that is held, in seconds.
const HELD_SECONDS: f64 = 10.0;
/// Full scale of 16, 24 and 32-bit numbers.
const SCALES: [f32; 3] = [32_768.0, 8_388_608.0, 2_147_483_648.0];

/// Finds and undoes the scale of one stream of float samples.
#[derive(Default)]
pub(crate) struct FullScale {
    /// What full scale is; 1 unless found otherwise.
    scale: Option<f32>,
    held: Vec<Block>,
    held_seconds: f64,
    is_sure: bool,
}

impl FullScale {
    /// Takes the next block and gives those that are ready.
    pub(crate) fn push(&mut self, block: Block) -> Vec<Block> {
        let peak = block.samples.iter().copied().filter(|x| x.is_finite()).fold(0.0f32, |peak, x| peak.max(x.abs()));
        if peak > IMPOSSIBLE {
            let fitting = SCALES.into_iter().find(|&scale| peak <= scale);
            // Numbers beyond all of them are damage, which the limits of later steps deal with.
            if fitting > self.scale {
                self.scale = fitting;
            }
            self.is_sure = true;
        }
        self.held_seconds += block.frames() as f64 / f64::from(block.rate.max(1));
        self.held.push(block);
        self.is_sure |= self.held_seconds >= HELD_SECONDS;
        if self.is_sure { self.finish() } else { Vec::new() }
    }

    /// Gives all that is held.
    pub(crate) fn finish(&mut self) -> Vec<Block> {
        let mut blocks = std::mem::take(&mut self.held);
        if let Some(scale) = self.scale {
            blocks.iter_mut().flat_map(|block| &mut block.samples).for_each(|sample| *sample /= scale);
        }
        blocks
    }

    /// What full scale turned out to be, if not 1.
    pub(crate) fn found(&self) -> Option<f32> {
        self.scale
    }
}

/// Whether a codec's samples are floating-point numbers that nothing has limited.
pub(crate) fn is_float(codec: &str) -> bool {
    codec.starts_with("pcm_f")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(level: f32, seconds: usize) -> Block {
        Block { rate: 100, channels: 1, mask: None, samples: vec![level; 100 * seconds] }
    }

    fn levels(blocks: Vec<Block>) -> Vec<f32> {
        blocks.iter().map(|block| block.samples[0]).collect()
    }

    #[test]
    fn a_hush_before_loud_whole_numbers_is_scaled_with_them() {
        let mut scale = FullScale::default();
        assert!(scale.push(block(3.0, 2)).is_empty());
        assert_eq!(levels(scale.push(block(-16_384.0, 1))), [3.0 / 32_768.0, -0.5]);
        assert_eq!(levels(scale.push(block(8192.0, 1))), [0.25]);
        assert_eq!(scale.found(), Some(32_768.0));
    }

    #[test]
    fn an_ordinary_file_is_passed_on_as_it_is_overshoot_included() {
        let mut scale = FullScale::default();
        assert!(scale.push(block(0.5, 9)).is_empty());
        assert_eq!(levels(scale.push(block(-1.7, 1))), [0.5, -1.7]);
        assert_eq!(levels(scale.push(block(0.1, 1))), [0.1]);
        assert_eq!((levels(scale.finish()), scale.found()), (vec![], None));
    }

    #[test]
    fn a_short_file_is_given_at_its_end() {
        let mut scale = FullScale::default();
        assert!(scale.push(block(0.5, 1)).is_empty());
        assert_eq!(levels(scale.finish()), [0.5]);
    }

    #[test]
    fn the_scale_of_24_bits_is_known_by_its_peak() {
        let mut scale = FullScale::default();
        assert_eq!(levels(scale.push(block(4_194_304.0, 1))), [0.5]);
    }
}
