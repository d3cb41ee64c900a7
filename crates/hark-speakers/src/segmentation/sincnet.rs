//! SincNet, from samples to the input of the LSTM layers: a sinc filter bank and two convolutions, each followed by max
//! pooling of three, an instance norm over the window, and leaky ReLU.
//!
//! All three convolutions are GEMMs whose input rows overlap in memory. A window costs 0.5 G multiply-adds. The filter
//! bank runs in float32 or as a sum of two bf16 parts: in plain bf16 the rounding of the loud low frequencies would leak
//! into the quiet high-frequency filters, and the instance norm would amplify it.

use hark_compute::buffer::Buffer;
use hark_compute::gemm::{PackedBf16, bf16_residue};
use hark_compute::kernels::BLOCK;
use hark_compute::kernels::math::{from_bf16, to_bf16};
use hark_compute::linear::Rows;
use hark_compute::vector::{self, FILTER_ROWS};
use hark_compute::view::{MatMut, MatRef};
use hark_compute::{Isa, Worker};

use super::weights::{CHANNELS, FILTER_STRIDE, FILTER_TAPS, FILTERS, Norm, TAPS, Weights};
use super::{FRAMES_PER_WINDOW, WINDOW_SAMPLES};

/// Columns of an output frame: the channels, padded with four zeros.
pub(super) const FRAME_WIDTH: usize = CHANNELS.next_multiple_of(BLOCK);
/// Steps of each layer after max pooling.
const POOLED: [usize; 3] = {
    let first = ((WINDOW_SAMPLES - FILTER_TAPS) / FILTER_STRIDE + 1) / 3;
    let second = (first - TAPS + 1) / 3;
    [first, second, (second - TAPS + 1) / 3]
};
/// Padded output columns of each layer.
const COLUMNS: [usize; 3] = [FILTERS.next_multiple_of(BLOCK), FRAME_WIDTH, FRAME_WIDTH];
/// Rows per GEMM call: 32 after max pooling.
const ROWS: usize = 3 * BLOCK;
/// Elements beyond the last row that a GEMM may read.
const READ_PADDING: usize = 4096;

const _: () = assert!(POOLED[2] == FRAMES_PER_WINDOW);
// The last rows of a window run as a whole tile, which must fit in the sums.
const _: () = assert!(ROWS.is_multiple_of(FILTER_ROWS));

/// SincNet with packed weights.
pub(super) struct SincNet {
    wave_gain: f32,
    wave_shift: f32,
    filters: Filters,
    convolutions: [PackedBf16; 2],
    /// Padded to `COLUMNS`.
    norms: [Norm; 3],
}

enum Filters {
    /// In float32.
    Float32(vector::Filters),
    /// As bf16 and the bf16 of the rounding residue.
    SplitBf16([PackedBf16; 2]),
}

/// The buffers of one thread.
pub(super) struct Workspace {
    /// The normalized samples as float32 or as two bf16 parts, as the filters need them; the other is empty.
    wave: Buffer<f32>,
    parts: [Buffer<u16>; 2],
    sums: Buffer<f32>,
    pooled: Buffer<f32>,
    activations: [Buffer<u16>; 2],
}

impl Workspace {
    pub(super) fn new(sincnet: &SincNet) -> Self {
        let (plain, parts) = match sincnet.filters {
            Filters::Float32(_) => (WINDOW_SAMPLES + READ_PADDING, 0),
            Filters::SplitBf16(_) => (0, WINDOW_SAMPLES + READ_PADDING),
        };
        Workspace {
            wave: Buffer::zeroed(plain),
            parts: [Buffer::zeroed(parts), Buffer::zeroed(parts)],
            sums: Buffer::zeroed(ROWS * BLOCK),
            pooled: Buffer::zeroed((POOLED[0] + BLOCK) * COLUMNS[0]),
            activations: [
                Buffer::zeroed(POOLED[0] * FILTERS + ROWS * FILTERS),
                Buffer::zeroed(POOLED[1] * FRAME_WIDTH + ROWS * FRAME_WIDTH),
            ],
        }
    }
}

impl SincNet {
    pub(super) fn pack(weights: &Weights, isa: Isa) -> Self {
        let convolution = |index: usize, channels: usize, width: usize| {
            let values = &weights.convolutions[index];
            PackedBf16::pack(CHANNELS, TAPS * width, |output, input| {
                let (tap, channel) = (input / width, input % width);
                if channel < channels { values[(output * channels + channel) * TAPS + tap] } else { 0.0 }
            })
        };
        let filter = |output: usize, input: usize| weights.filters[output * FILTER_TAPS + input];
        let padded = |norm: &Norm, columns: usize| {
            let pad = |values: &[f32]| values.iter().copied().chain(std::iter::repeat(0.0)).take(columns).collect();
            Norm { gain: pad(&norm.gain), shift: pad(&norm.shift) }
        };
        let [first, second, third] = &weights.norms;
        let split_bf16 = || {
            let residue = |output, input| bf16_residue(filter(output, input));
            Filters::SplitBf16([
                PackedBf16::pack(FILTERS, FILTER_TAPS, filter),
                PackedBf16::pack(FILTERS, FILTER_TAPS, residue),
            ])
        };
        SincNet {
            wave_gain: weights.wave_norm.gain[0],
            wave_shift: weights.wave_norm.shift[0],
            filters: vector::Filters::pack(isa, FILTERS, FILTER_TAPS, filter).map_or_else(split_bf16, Filters::Float32),
            convolutions: [convolution(0, FILTERS, FILTERS), convolution(1, CHANNELS, FRAME_WIDTH)],
            norms: [padded(first, COLUMNS[0]), padded(second, COLUMNS[1]), padded(third, COLUMNS[2])],
        }
    }

    /// The frames of one window: `out` has [`FRAMES_PER_WINDOW`] rows of [`FRAME_WIDTH`] weights_of.
    pub(super) fn run(&self, worker: &Worker, workspace: &mut Workspace, samples: &[f32], out: MatMut<u16>) {
        self.normalize_samples(workspace, samples);
        let Workspace { wave, parts, sums, pooled, activations } = workspace;
        let ops = worker.compute().ops();
        let mut out = Some(out);
        for layer in 0..3 {
            let columns = COLUMNS[layer];
            for first in (0..POOLED[layer]).step_by(BLOCK) {
                let pooled_rows = BLOCK.min(POOLED[layer] - first);
                let (row, rows) = (3 * first, 3 * pooled_rows);
                for block in 0..columns / BLOCK {
                    match (layer, &self.filters) {
                        (0, Filters::Float32(filters)) => {
                            filters.multiply(&wave[row * FILTER_STRIDE..], FILTER_STRIDE, rows, block, sums);
                        }
                        (0, Filters::SplitBf16([filters, residues])) => {
                            let part =
                                |part: usize| Rows::new(&parts[part][row * FILTER_STRIDE..], FILTER_STRIDE, rows);
                            filters.multiply(worker, part(0), block, sums, BLOCK, false);
                            filters.multiply(worker, part(1), block, sums, BLOCK, true);
                            residues.multiply(worker, part(0), block, sums, BLOCK, true);
                        }
                        _ => {
                            let width = [FILTERS, FRAME_WIDTH][layer - 1];
                            let input = Rows::new(&activations[layer - 1][row * width..], width, rows);
                            self.convolutions[layer - 1].multiply(worker, input, block, sums, BLOCK, false);
                        }
                    }
                    let to = &mut pooled[first * columns + block * BLOCK..];
                    ops.max_pool(sums, MatMut::new(to, pooled_rows, BLOCK, columns), layer == 0);
                }
            }
            let width = [FILTERS, FRAME_WIDTH, FRAME_WIDTH][layer];
            let values = MatRef::new(pooled, POOLED[layer], width, columns);
            let to = match activations.get_mut(layer) {
                Some(activations) => MatMut::new(activations, POOLED[layer], width, width),
                None => out.take().expect("there is one last layer"),
            };
            let Norm { gain, shift } = &self.norms[layer];
            ops.instance_norm(values, gain, shift, to);
        }
    }

    /// Normalizes the samples, including the silence that pads them, into the format of the filters.
    fn normalize_samples(&self, workspace: &mut Workspace, samples: &[f32]) {
        let samples = &samples[..samples.len().min(WINDOW_SAMPLES)];
        let count = WINDOW_SAMPLES as f64;
        let (mean, variance) = moments(samples, count);
        let factor = self.wave_gain / ((variance as f32) + 1e-5).sqrt();
        let shift = self.wave_shift - mean as f32 * factor;
        match self.filters {
            Filters::Float32(_) => {
                let (signal, padding) = workspace.wave[..WINDOW_SAMPLES].split_at_mut(samples.len());
                signal.iter_mut().zip(samples).for_each(|(out, sample)| *out = sample * factor + shift);
                padding.fill(shift);
            }
            Filters::SplitBf16(_) => {
                let [wave, residue] = &mut workspace.parts;
                let (signal, padding) = wave[..WINDOW_SAMPLES].split_at_mut(samples.len());
                let (signal_residue, padding_residue) = residue[..WINDOW_SAMPLES].split_at_mut(samples.len());
                for ((out, residue), sample) in signal.iter_mut().zip(signal_residue).zip(samples) {
                    let x = sample * factor + shift;
                    *out = to_bf16(x);
                    *residue = to_bf16(x - from_bf16(*out));
                }
                padding.fill(to_bf16(shift));
                padding_residue.fill(to_bf16(bf16_residue(shift)));
            }
        }
    }
}

/// Mean and variance of samples followed by zeros up to `count`.
fn moments(samples: &[f32], count: f64) -> (f64, f64) {
    // Sums of 16 lanes over short runs: the compiler vectorizes them, and float32 stays exact enough.
    let (mut sum, mut squares) = (0f64, 0f64);
    for run in samples.chunks(1024) {
        let (mut sums, mut squared) = ([0f32; 16], [0f32; 16]);
        for lanes in run.chunks(16) {
            for (lane, x) in lanes.iter().enumerate() {
                sums[lane] += x;
                squared[lane] += x * x;
            }
        }
        sum += f64::from(sums.iter().sum::<f32>());
        squares += f64::from(squared.iter().sum::<f32>());
    }
    let mean = sum / count;
    (mean, (squares / count - mean * mean).max(0.0))
}
