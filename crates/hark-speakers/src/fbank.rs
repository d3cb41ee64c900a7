//! Kaldi's filter bank: 80 logarithms of energy every 10 ms.
//!
//! Frames of 25 ms without their mean, pre-emphasis 0.97, Povey's window, the power spectrum of 512 points, triangles
//! evenly spaced in mel from 20 Hz to 8 kHz, and the logarithm of no less than float32's epsilon. No dither: the same
//! sound always gives the same numbers.

use std::sync::Arc;

use hark_compute::ops::Ops;
use realfft::num_complex::Complex32;
use realfft::{RealFftPlanner, RealToComplex};

/// Numbers of a frame.
pub(crate) const BINS: usize = 80;
/// Samples from one frame to the next.
pub(crate) const STEP: usize = 160;
/// Samples of a frame.
pub(crate) const FRAME: usize = 400;
const POINTS: usize = 512;
const EMPHASIS: f32 = 0.97;
const LOWEST: f64 = 20.0;
const HIGHEST: f64 = 8_000.0;

/// Whole frames in so many samples.
pub(crate) fn frames_in(samples: usize) -> usize {
    if samples < FRAME { 0 } else { (samples - FRAME) / STEP + 1 }
}

/// The transform and its tables, shared by any number of threads.
pub(crate) struct FilterBank {
    fourier: Arc<dyn RealToComplex<f32>>,
    ops: &'static Ops,
    window: Vec<f32>,
    /// For each bin the first point it weighs and its weights.
    triangles: Vec<(usize, Vec<f32>)>,
}

/// Where one thread transforms.
pub(crate) struct Workspace {
    wave: Vec<f32>,
    spectrum: Vec<Complex32>,
    scratch: Vec<Complex32>,
    power: Vec<f32>,
}

impl FilterBank {
    pub(crate) fn new(ops: &'static Ops) -> Self {
        let mel = |frequency: f64| 1127.0 * (1.0 + frequency / 700.0).ln();
        let (low, high) = (mel(LOWEST), mel(HIGHEST));
        let spacing = (high - low) / (BINS + 1) as f64;
        let of_point: Vec<f64> = (0..POINTS / 2).map(|point| mel(point as f64 * 16_000.0 / POINTS as f64)).collect();
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
            fourier: RealFftPlanner::new().plan_fft_forward(POINTS),
            ops,
            window: (0..FRAME).map(|index| hann(index).powf(0.85) as f32).collect(),
            triangles: (0..BINS).map(triangle).collect(),
        }
    }

    pub(crate) fn workspace(&self) -> Workspace {
        Workspace {
            wave: self.fourier.make_input_vec(),
            spectrum: self.fourier.make_output_vec(),
            scratch: self.fourier.make_scratch_vec(),
            power: vec![0.0; POINTS / 2],
        }
    }

    /// One frame from its 400 samples.
    pub(crate) fn frame(&self, workspace: &mut Workspace, samples: &[f32], out: &mut [f32; BINS]) {
        let samples: &[f32; FRAME] = samples.first_chunk().expect("a whole frame");
        let mut sums = [0f32; 16];
        for lanes in samples.as_chunks::<16>().0 {
            for (sum, x) in sums.iter_mut().zip(lanes) {
                *sum += x;
            }
        }
        let mean = sums.iter().sum::<f32>() / FRAME as f32;
        workspace.wave[0] = (samples[0] - mean) * (1.0 - EMPHASIS) * self.window[0];
        for index in 1..FRAME {
            let x = (samples[index] - mean) - EMPHASIS * (samples[index - 1] - mean);
            workspace.wave[index] = x * self.window[index];
        }
        workspace.wave[FRAME..].fill(0.0);
        self.fourier
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
