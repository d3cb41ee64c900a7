//! One channel: samples in, enhanced samples out, three frames later until the delay is taken off.

use hark_compute::Compute;
use hark_compute::vector::Vectors;
use realfft::num_complex::Complex32;

use crate::BLOCK;
use crate::network::{Network, ORDER, State};
use crate::spectrum::{Analysis, BINS, DF_BINS, Features, HOP, TransformSpace, WINDOW};

/// Frames that the network looks ahead.
const LOOKAHEAD: usize = 2;
/// Samples by which the output is late: the lookahead, and the half of a window that overlaps the next.
const DELAY: usize = (LOOKAHEAD + 1) * HOP;
/// Frames before a block that the deep filter sees.
const BEFORE: usize = ORDER - 1;

/// What all channels share.
pub(crate) struct Model {
    pub(crate) network: Network,
    pub(crate) analysis: Analysis,
}

/// The state of one channel.
pub(crate) struct Channel {
    /// The half of a window before the next frame, then what waits for a whole block.
    input: Vec<f32>,
    features: Features,
    state: State,
    /// `[BEFORE + BLOCK][BINS]`.
    spectra: Vec<Complex32>,
    enhanced: Vec<Complex32>,
    overlap: Vec<f32>,
    output: Vec<f32>,
    /// Samples of the delay that are still to be dropped.
    delay: usize,
    transforms: TransformSpace,
}

impl Channel {
    pub(crate) fn new(model: &Model) -> Self {
        Channel {
            input: vec![0.0; WINDOW - HOP],
            features: Features::new(),
            state: State::new(&model.network),
            spectra: vec![Complex32::default(); (BEFORE + BLOCK) * BINS],
            enhanced: vec![Complex32::default(); BINS],
            overlap: vec![0.0; HOP],
            output: Vec::new(),
            delay: DELAY,
            transforms: model.analysis.workspace(),
        }
    }

    /// Adds samples to what waits.
    pub(crate) fn push(&mut self, samples: impl Iterator<Item = f32>) {
        self.input.extend(samples);
    }

    /// Whether a whole block waits.
    pub(crate) fn has_block(&self) -> bool {
        self.input.len() >= WINDOW - HOP + BLOCK * HOP
    }

    /// Silence after the last sample, until every sample has come out. Whole blocks may wait then, and a last one in part.
    pub(crate) fn push_end(&mut self) {
        let waiting = self.input.len() - (WINDOW - HOP) + DELAY;
        self.input.resize(WINDOW - HOP + waiting.next_multiple_of(HOP), 0.0);
    }

    /// Computes the next block: all that waits, or [`BLOCK`] frames of it. `limit` is the share of the noisy sound that stays.
    pub(crate) fn run(&mut self, model: &Model, compute: &Compute, vectors: &Vectors, limit: f32) {
        let frames = ((self.input.len() - (WINDOW - HOP)) / HOP).min(BLOCK);
        for frame in 0..frames {
            let spectrum = &mut self.spectra[(BEFORE + frame) * BINS..][..BINS];
            model.analysis.analyse(&self.input[frame * HOP..][..WINDOW], spectrum, &mut self.transforms);
            let erb = self.features.erb(&model.analysis, spectrum);
            let complex = self.features.complex(spectrum);
            self.state.set_features(frame, &erb, &complex);
        }
        self.input.drain(..frames * HOP);
        model.network.run(compute, vectors, frames, &mut self.state);
        for frame in 0..frames {
            self.filter(model, frame, limit);
            let (analysis, output) = (&model.analysis, &mut self.output);
            analysis.synthesize(&mut self.enhanced, &mut self.overlap, output, &mut self.transforms);
        }
        self.spectra.copy_within(frames * BINS..(frames + BEFORE) * BINS, 0);
        let late = self.delay.min(self.output.len());
        self.output.drain(..late);
        self.delay -= late;
    }

    /// Gains and filter taps of step `frame`, which belong to the spectrum two frames before it.
    fn filter(&mut self, model: &Model, frame: usize, limit: f32) {
        let noisy = &self.spectra[(BEFORE + frame - LOOKAHEAD) * BINS..][..BINS];
        self.enhanced.copy_from_slice(noisy);
        model.analysis.apply_gains(self.state.gains(frame), &mut self.enhanced);
        let seen = &self.spectra[frame * BINS..][..ORDER * BINS];
        for (bin, enhanced) in self.enhanced[..DF_BINS].iter_mut().enumerate() {
            let taps = self.state.taps(frame, bin);
            let products = taps.iter().enumerate().map(|(tap, weight)| seen[tap * BINS + bin] * weight);
            *enhanced = products.sum();
        }
        if limit > 0.0 {
            for (enhanced, noisy) in self.enhanced.iter_mut().zip(noisy) {
                *enhanced = *enhanced * (1.0 - limit) + noisy * limit;
            }
        }
    }

    /// Samples that are done.
    pub(crate) fn output(&self) -> &[f32] {
        &self.output
    }

    /// Forgets samples that were taken.
    pub(crate) fn drop_output(&mut self, samples: usize) {
        self.output.drain(..samples);
    }
}
