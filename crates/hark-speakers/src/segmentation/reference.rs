//! The reference implementation of the segmentation network, in plain float32: tests compare the fast one with it.

use std::path::Path;

use super::weights::{CHANNELS, Direction, FILTER_STRIDE, FILTER_TAPS, FILTERS, Linear, Norm, TAPS, UNITS, Weights};
use super::{CLASSES, WINDOW_SAMPLES};
use crate::SpeakersError;

/// The network with the weights of the file.
pub struct ReferenceSegmenter {
    weights: Weights,
}

/// Activations, `[step][channel]`.
type Steps = Vec<Vec<f32>>;

impl ReferenceSegmenter {
    /// Reads the network from its folder.
    pub fn load(folder: &Path) -> Result<Self, SpeakersError> {
        Ok(ReferenceSegmenter { weights: Weights::load(folder)? })
    }

    /// The equivalent of [`super::Segmenter::segment`] for one window.
    pub fn segment(&self, samples: &[f32]) -> Vec<[f32; CLASSES]> {
        let weights = &self.weights;
        let mut wave: Steps = samples.iter().map(|&x| vec![x]).collect();
        wave.resize(WINDOW_SAMPLES, vec![0.0]);
        let wave: Vec<f32> = normalize(wave, &weights.wave_norm).concat();
        let filtered: Steps = (0..=(WINDOW_SAMPLES - FILTER_TAPS) / FILTER_STRIDE)
            .map(|step| {
                let receptive_field = &wave[step * FILTER_STRIDE..][..FILTER_TAPS];
                weights.filters.chunks_exact(FILTER_TAPS).map(|filter| dot(filter, receptive_field).abs()).collect()
            })
            .collect();
        let mut steps = leaky_relu(normalize(max_pool(&filtered), &weights.norms[0]));
        for (convolution, norm) in weights.convolutions.iter().zip(&weights.norms[1..]) {
            steps = leaky_relu(normalize(max_pool(&convolve(&steps, convolution)), norm));
        }
        for [forward, backward] in &weights.layers {
            let forward_states = lstm(forward, steps.iter());
            let backward_states = lstm(backward, steps.iter().rev());
            steps = forward_states
                .into_iter()
                .zip(backward_states.into_iter().rev())
                .map(|(a, b)| [a, b].concat())
                .collect();
        }
        for linear in &weights.linears {
            steps = leaky_relu(steps.iter().map(|step| apply(linear, step)).collect());
        }
        let scores = steps.iter().map(|step| apply(&weights.classifier, step));
        scores
            .map(|scores| {
                let top = scores.iter().copied().fold(f32::MIN, f32::max);
                let total: f32 = scores.iter().map(|score| (score - top).exp()).sum();
                std::array::from_fn(|class| scores[class] - top - total.ln())
            })
            .collect()
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; 16];
    for (a, b) in a.chunks(16).zip(b.chunks(16)) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}

fn normalize(mut steps: Steps, norm: &Norm) -> Steps {
    let count = steps.len() as f64;
    for channel in 0..norm.gain.len() {
        let mean = steps.iter().map(|step| f64::from(step[channel])).sum::<f64>() / count;
        let variance = steps.iter().map(|step| (f64::from(step[channel]) - mean).powi(2)).sum::<f64>() / count;
        let factor = f64::from(norm.gain[channel]) / (variance + 1e-5).sqrt();
        for step in &mut steps {
            step[channel] = ((f64::from(step[channel]) - mean) * factor) as f32 + norm.shift[channel];
        }
    }
    steps
}

fn leaky_relu(mut steps: Steps) -> Steps {
    steps.iter_mut().flatten().for_each(|x| *x = if *x < 0.0 { *x * 0.01 } else { *x });
    steps
}

fn max_pool(steps: &Steps) -> Steps {
    let pool = |three: &[Vec<f32>]| {
        (0..three[0].len()).map(|channel| three[0][channel].max(three[1][channel]).max(three[2][channel])).collect()
    };
    steps.chunks_exact(3).map(pool).collect()
}

fn convolve(steps: &Steps, weights: &[f32]) -> Steps {
    let channels = steps[0].len();
    debug_assert!(channels == FILTERS || channels == CHANNELS);
    let output = |receptive_field: &[Vec<f32>], weights: &[f32]| {
        // `weights` is `[channel][tap]`.
        let mut sum = 0.0;
        for (tap, step) in receptive_field.iter().enumerate() {
            sum += (0..channels).map(|channel| weights[channel * TAPS + tap] * step[channel]).sum::<f32>();
        }
        sum
    };
    let all = |receptive_field: &[Vec<f32>]| {
        weights.chunks_exact(channels * TAPS).map(|weights| output(receptive_field, weights)).collect()
    };
    steps.windows(TAPS).map(all).collect()
}

fn lstm<'a>(direction: &Direction, steps: impl Iterator<Item = &'a Vec<f32>>) -> Steps {
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    let (mut hidden, mut cells) = (vec![0f32; UNITS], vec![0f32; UNITS]);
    let mut out = Vec::new();
    for step in steps {
        let gates: Vec<f32> = (0..4 * UNITS)
            .map(|gate| {
                dot(&direction.input[gate * direction.inputs..][..direction.inputs], step)
                    + dot(&direction.recurrent[gate * UNITS..][..UNITS], &hidden)
                    + direction.bias[gate]
            })
            .collect();
        for unit in 0..UNITS {
            let [i, o, f, g] = [0, 1, 2, 3].map(|gate| gates[gate * UNITS + unit]);
            cells[unit] = sigmoid(f) * cells[unit] + sigmoid(i) * g.tanh();
            hidden[unit] = sigmoid(o) * cells[unit].tanh();
        }
        out.push(hidden.clone());
    }
    out
}

fn apply(linear: &Linear, step: &[f32]) -> Vec<f32> {
    let mut out = linear.bias.clone();
    for (weights, x) in linear.weights.chunks_exact(linear.bias.len()).zip(step) {
        for (out, weight) in out.iter_mut().zip(weights) {
            *out += weight * x;
        }
    }
    out
}
