//! Decoded blocks at the track's own rate and channels, as the rate and channels that were asked for.

use crate::downmix::{Downmix, finite};
use crate::phase::PhaseFold;
use crate::resample::Resampler;
use crate::{AudioSpec, Block};

/// Mixes and resamples the blocks of one stream.
pub(crate) struct Converter {
    spec: AudioSpec,
    /// Rate of the blocks so far; 0 before the first.
    rate: u32,
    /// Channels and speaker positions that `mix` is for.
    layout: (usize, Option<u64>),
    mix: Downmix,
    /// Folds pairs of channels into one.
    phase: PhaseFold,
    mono: Vec<f32>,
    resampler: ChannelResampler,
}

impl Converter {
    pub(crate) fn new(spec: AudioSpec) -> Self {
        Converter {
            spec,
            rate: 0,
            layout: (1, None),
            mix: Downmix::new(1, None),
            phase: PhaseFold::default(),
            mono: Vec::new(),
            resampler: ChannelResampler::new(spec.rate, spec),
        }
    }

    /// Appends what the block completes, channels interleaved.
    pub(crate) fn push(&mut self, block: &Block, out: &mut Vec<f32>) {
        if block.rate != self.rate {
            // A chained stream may change its rate: the old part ends where it ends.
            self.finish(out);
            self.rate = block.rate;
            self.resampler = ChannelResampler::new(block.rate, self.spec);
        }
        let channels = usize::from(self.spec.channels);
        if channels > 1 && block.channels == channels {
            self.resampler.push(&block.samples, out);
            return;
        }
        if self.layout != (block.channels, block.mask) {
            self.layout = (block.channels, block.mask);
            self.mix = Downmix::new(block.channels, block.mask);
        }
        self.mono.clear();
        match self.mix.pair() {
            Some([left, right]) if channels == 1 => {
                self.phase.apply(&block.samples, left, right, &mut self.mono);
                self.mono.iter_mut().for_each(|sample| *sample = finite(*sample));
            }
            _ => self.mix.apply(&block.samples, &mut self.mono),
        }
        match channels {
            1 => self.resampler.push_mono(&self.mono, out),
            // A track that changed its channels: what it has now comes from all of those it began with.
            _ => {
                let frames: Vec<f32> =
                    self.mono.iter().flat_map(|sample| std::iter::repeat_n(*sample, channels)).collect();
                self.resampler.push(&frames, out);
            }
        }
    }

    /// Frames of sound, at the track's rate, whose channels were in opposite phase.
    pub(crate) fn opposite_frames(&self) -> u64 {
        self.phase.subtracted()
    }

    /// Appends the end, as if silence followed.
    pub(crate) fn finish(&mut self, out: &mut Vec<f32>) {
        if self.rate != 0 {
            self.resampler.finish(out);
            self.rate = 0;
        }
    }
}

/// One resampler for each channel of interleaved samples.
pub(crate) struct ChannelResampler {
    channels: Vec<Resampler>,
    /// Output of each channel, all of one length.
    planes: Vec<Vec<f32>>,
    input: Vec<f32>,
}

impl ChannelResampler {
    /// From interleaved samples at rate `from`, which must be one that a [`Resampler`] takes, to `to`.
    pub(crate) fn new(from: u32, to: AudioSpec) -> Self {
        let count = usize::from(to.channels);
        ChannelResampler {
            channels: (0..count).map(|_| Resampler::between(from, to.rate)).collect(),
            planes: vec![Vec::new(); count],
            input: Vec::new(),
        }
    }

    /// Appends the output that samples of the only channel complete.
    fn push_mono(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        self.channels[0].push(samples, out);
    }

    /// Appends the output that whole frames complete; what is not a number becomes silence.
    pub(crate) fn push(&mut self, interleaved: &[f32], out: &mut Vec<f32>) {
        let count = self.channels.len();
        for (index, (resampler, plane)) in self.channels.iter_mut().zip(&mut self.planes).enumerate() {
            self.input.clear();
            self.input.extend(interleaved.chunks_exact(count).map(|frame| finite(frame[index])));
            resampler.push(&self.input, plane);
        }
        self.interleave(out);
    }

    /// Appends the end of the output, as if silence followed.
    pub(crate) fn finish(&mut self, out: &mut Vec<f32>) {
        for (resampler, plane) in self.channels.iter_mut().zip(&mut self.planes) {
            resampler.finish(plane);
        }
        self.interleave(out);
    }

    fn interleave(&mut self, out: &mut Vec<f32>) {
        let (count, from) = (self.planes.len(), out.len());
        let frames = self.planes[0].len();
        out.resize(from + frames * count, 0.0);
        for (index, plane) in self.planes.iter_mut().enumerate() {
            for (frame, sample) in out[from..].chunks_exact_mut(count).zip(plane.iter()) {
                frame[index] = *sample;
            }
            plane.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(rate: u32, channels: usize, samples: Vec<f32>) -> Block {
        Block { rate, channels, mask: None, samples }
    }

    #[test]
    fn channels_stay_apart_and_a_later_change_of_layout_keeps_their_number() {
        let mut converter = Converter::new(AudioSpec { rate: 48_000, channels: 2 });
        let mut out = Vec::new();
        converter.push(&block(48_000, 2, vec![0.5, -0.5, f32::NAN, -0.25]), &mut out);
        assert_eq!(out, [0.5, -0.5, 0.0, -0.25]);
        converter.push(&block(48_000, 1, vec![0.75]), &mut out);
        converter.push(&block(48_000, 4, vec![1.0, 0.0, 0.0, 0.0]), &mut out);
        converter.finish(&mut out);
        assert_eq!(out[4..], [0.75, 0.75, 0.25, 0.25]);
    }

    #[test]
    fn a_change_of_rate_ends_one_part_and_begins_the_next() {
        for channels in [1, 2] {
            let mut converter = Converter::new(AudioSpec { rate: 24_000, channels });
            let mut out = Vec::new();
            let count = usize::from(channels);
            converter.push(&block(48_000, count, vec![0.1; 4_801 * count]), &mut out);
            converter.push(&block(8_000, count, vec![0.1; 801 * count]), &mut out);
            converter.finish(&mut out);
            assert_eq!(out.len(), (2_401 + 2_403) * count, "{channels} channels");
        }
    }
}
