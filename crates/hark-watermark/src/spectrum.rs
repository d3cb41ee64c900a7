//! The energy of bands in short windows, which both the embedder and the detector measure.

use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};

/// Measures band energies at moments of a sound.
pub(crate) struct Spectrum {
    hz_per_bin: f64,
    window: Vec<f32>,
    fft: Arc<dyn RealToComplex<f32>>,
    input: Vec<f32>,
    output: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
    first: usize,
    last: usize,
}

impl Spectrum {
    /// Windows of `window_s`, of which the bins between two frequencies are wanted.
    pub(crate) fn new(rate: u32, window_s: f64, low_hz: f64, high_hz: f64) -> Self {
        let length = (f64::from(rate) * window_s).round() as usize & !1;
        let fft = RealFftPlanner::new().plan_fft_forward(length);
        let hz_per_bin = f64::from(rate) / length as f64;
        let phase = |at: usize| std::f64::consts::TAU * (at as f64 + 0.5) / length as f64;
        let window: Vec<f64> = (0..length).map(|at| 0.5 - 0.5 * phase(at).cos()).collect();
        let energy: f64 = window.iter().map(|value| value * value).sum::<f64>();
        Spectrum {
            hz_per_bin,
            window: window.iter().map(|value| (value / energy.sqrt()) as f32).collect(),
            input: fft.make_input_vec(),
            output: fft.make_output_vec(),
            scratch: fft.make_scratch_vec(),
            first: (low_hz / hz_per_bin - 1.0).max(0.0) as usize,
            last: ((high_hz / hz_per_bin + 1.0) as usize).min(length / 2),
            fft,
        }
    }

    /// The length of a window in samples.
    pub(crate) fn length(&self) -> usize {
        self.window.len()
    }

    /// Appends the sums of the power up to each bin, beginning with 0; what `band` reads. `samples` are those of the window.
    pub(crate) fn accumulate(&mut self, samples: impl Iterator<Item = f32>, sums: &mut Vec<f64>) {
        for ((input, window), sample) in self.input.iter_mut().zip(&self.window).zip(samples) {
            *input = window * sample;
        }
        let done = self.fft.process_with_scratch(&mut self.input, &mut self.output, &mut self.scratch);
        debug_assert!(done.is_ok(), "the buffers are the plan's own");
        let mut sum = 0.0;
        sums.push(sum);
        for bin in &self.output[self.first..=self.last] {
            sum += f64::from(bin.norm_sqr());
            sums.push(sum);
        }
    }

    /// How many numbers `accumulate` appends.
    pub(crate) fn sums(&self) -> usize {
        self.last - self.first + 2
    }

    /// Where a frequency lies among the sums: an index and a fraction. Bin `i` reaches half a bin to both sides.
    pub(crate) fn place(&self, hz: f64) -> (usize, f64) {
        let at = (hz / self.hz_per_bin + 0.5 - self.first as f64).clamp(0.0, (self.sums() - 1) as f64 - 1e-9);
        (at as usize, at.fract())
    }

    /// The power below a place.
    pub(crate) fn below(sums: &[f64], (at, fraction): (usize, f64)) -> f64 {
        sums[at] + fraction * (sums[at + 1] - sums[at])
    }
}
