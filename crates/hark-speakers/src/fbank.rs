//! Kaldi's log mel filter bank: 80 bins every 10 ms.
//!
//! Frames of 25 ms with the DC offset removed, pre-emphasis 0.97, the Povey window, the power spectrum of a 512-point FFT,
//! triangular filters evenly spaced in mel from 20 Hz to 8 kHz, and the logarithm, floored at float32's epsilon. No
//! dither: the output is deterministic.

use std::sync::Arc;

use hark_compute::ops::Ops;
use realfft::num_complex::Complex32;
use realfft::{RealFftPlanner, RealToComplex};

/// Mel bins of a frame.
pub(crate) const BINS: usize = 80;
/// Samples from one frame to the next.
pub(crate) const STEP: usize = 160;
/// Samples of a frame.
pub(crate) const FRAME: usize = 400;
const FFT_SIZE: usize = 512;
const PRE_EMPHASIS: f32 = 0.97;
const MIN_FREQUENCY: f64 = 20.0;
const MAX_FREQUENCY: f64 = 8_000.0;

/// Whole frames in this many samples.
pub(crate) fn frames_in(samples: usize) -> usize {
    if samples < FRAME { 0 } else { (samples - FRAME) / STEP + 1 }
}

/// The FFT plan and its tables, shared by any number of threads.
pub(crate) struct FilterBank {
    fft: Arc<dyn RealToComplex<f32>>,
    ops: &'static Ops,
    window: Vec<f32>,
    /// For each mel bin the first FFT point of its filter and the filter's weights.
    triangles: Vec<(usize, Vec<f32>)>,
}

/// The buffers of one thread.
pub(crate) struct Workspace {
    wave: Vec<f32>,
    spectrum: Vec<Complex32>,
    scratch: Vec<Complex32>,
    power: Vec<f32>,
}

impl FilterBank {
    pub(crate) fn new(ops: &'static Ops) -> Self {
        let mel = |frequency: f64| 1127.0 * (1.0 + frequency / 700.0).ln();
        let (low, high) = (mel(MIN_FREQUENCY), mel(MAX_FREQUENCY));
        let spacing = (high - low) / (BINS + 1) as f64;
        let of_point: Vec<f64> =
            (0..FFT_SIZE / 2).map(|point| mel(point as f64 * 16_000.0 / FFT_SIZE as f64)).collect();
        let triangle = |bin: usize| {
            let left = low + bin as f64 * spacing;
            let weight = |at: f64| ((at - left) / spacing).min((left + 2.0 * spacing - at) / spacing).max(0.0) as f32;
            let weights: Vec<f32> = of_point.iter().map(|&at| weight(at)).collect();
            let first = weights.iter().position(|weight| *weight > 0.0).expect("every triangle has a point");
            let end = weights.iter().rposition(|weight| *weight > 0.0).expect("every triangle has a point") + 1;
            (first, weights[first..end].to_vec())
        };
        let hann = |index: usize| 0.5 - 0.5 * (std::f64::consts::TAU * index as f64 / (FRAME - 1) as f64).cos();
        FilterBank {
            fft: RealFftPlanner::new().plan_fft_forward(FFT_SIZE),
            ops,
            window: (0..FRAME).map(|index| hann(index).powf(0.85) as f32).collect(),
            triangles: (0..BINS).map(triangle).collect(),
        }
    }

    pub(crate) fn workspace(&self) -> Workspace {
        Workspace {
            wave: self.fft.make_input_vec(),
            spectrum: self.fft.make_output_vec(),
            scratch: self.fft.make_scratch_vec(),
            power: vec![0.0; FFT_SIZE / 2],
        }
    }

    /// Computes one frame from its 400 samples.
    pub(crate) fn frame(&self, workspace: &mut Workspace, samples: &[f32], out: &mut [f32; BINS]) {
        let samples: &[f32; FRAME] = samples.first_chunk().expect("a whole frame");
        let mut sums = [0f32; 16];
        for lanes in samples.as_chunks::<16>().0 {
            for (sum, x) in sums.iter_mut().zip(lanes) {
                *sum += x;
            }
        }
        let mean = sums.iter().sum::<f32>() / FRAME as f32;
        workspace.wave[0] = (samples[0] - mean) * (1.0 - PRE_EMPHASIS) * self.window[0];
        for index in 1..FRAME {
            let x = (samples[index] - mean) - PRE_EMPHASIS * (samples[index - 1] - mean);
            workspace.wave[index] = x * self.window[index];
        }
        workspace.wave[FRAME..].fill(0.0);
        self.fft
            .process_with_scratch(&mut workspace.wave, &mut workspace.spectrum, &mut workspace.scratch)
            .expect("the buffers have the transform's lengths");
        for (power, point) in workspace.power.iter_mut().zip(&workspace.spectrum) {
            *power = point.re * point.re + point.im * point.im;
        }
        for (out, (first, weights)) in out.iter_mut().zip(&self.triangles) {
            let energy: f32 =
                weights.iter().zip(&workspace.power[*first..]).map(|(weight, power)| weight * power).sum();
            *out = energy.max(f32::EPSILON);
        }
        self.ops.ln(out);
    }
}
