//! From samples to the frames that the recurrent layers read: a bank of filters and two convolutions, each followed by
//! the largest of three neighbours, a normalization over the window, and a bend.
//!
//! All three convolutions are products whose rows overlap in memory. A window costs 0.5 G multiply-adds; the sound
//! itself is multiplied in float32 or in two parts of bf16, because the loud low sounds of a voice would otherwise leave
//! their rounding in the quiet high filters, which the normalization then raises.

use hark_compute::buffer::Buffer;
use hark_compute::kernels::BLOCK;
use hark_compute::kernels::math::{from_bf16, to_bf16};
use hark_compute::{Compute, Isa};

use super::weights::{CHANNELS, FILTER_STEP, FILTER_TAPS, FILTERS, Norm, TAPS, Weights};
use super::{FRAMES_PER_WINDOW, WINDOW_SAMPLES};
use crate::bank::{self, Bank};
use crate::lanes::{Columns, Lanes};
use crate::panels::{Panels, rest_of};

/// Numbers of a frame that goes out: the channels and four zeros.
pub(super) const FRAME_WIDTH: usize = CHANNELS.next_multiple_of(BLOCK);
/// Steps of each layer after the largest of three is taken.
const POOLED: [usize; 3] = {
    let first = ((WINDOW_SAMPLES - FILTER_TAPS) / FILTER_STEP + 1) / 3;
    let second = (first - TAPS + 1) / 3;
    [first, second, (second - TAPS + 1) / 3]
};
/// Columns of each layer's sums.
const COLUMNS: [usize; 3] = [FILTERS.next_multiple_of(BLOCK), FRAME_WIDTH, FRAME_WIDTH];
/// Rows multiplied at once: they become 32 after the largest of three.
const ROWS: usize = 3 * BLOCK;
/// Numbers beyond the last row that a product may read.
const BEYOND: usize = 4096;

const _: () = assert!(POOLED[2] == FRAMES_PER_WINDOW);
// The last rows of a window are done in whole groups, which must not reach beyond the sums.
const _: () = assert!(ROWS.is_multiple_of(bank::ROWS));

/// The packed front.
pub(super) struct Front {
    wave_gain: f32,
    wave_shift: f32,
    filters: Filters,
    convolutions: [Panels; 2],
    /// Padded to the columns.
    norms: [Norm; 3],
}

enum Filters {
    /// In float32.
    Plain(Bank),
    /// As bf16, and what bf16 leaves of them.
    Parts([Panels; 2]),
}

/// Where one thread works on one window.
pub(super) struct Room {
    /// The samples as float32, or in two parts of bf16: what the filters take, the other is empty.
    wave: Buffer<f32>,
    parts: [Buffer<u16>; 2],
    sums: Buffer<f32>,
    pooled: Buffer<f32>,
    between: [Buffer<u16>; 2],
}

impl Room {
    pub(super) fn new(front: &Front) -> Self {
        let (plain, parts) = match front.filters {
            Filters::Plain(_) => (WINDOW_SAMPLES + BEYOND, 0),
            Filters::Parts(_) => (0, WINDOW_SAMPLES + BEYOND),
        };
        Room {
            wave: Buffer::zeroed(plain),
            parts: [Buffer::zeroed(parts), Buffer::zeroed(parts)],
            sums: Buffer::zeroed(ROWS * BLOCK),
            pooled: Buffer::zeroed((POOLED[0] + BLOCK) * COLUMNS[0]),
            between: [
                Buffer::zeroed(POOLED[0] * FILTERS + ROWS * FILTERS),
                Buffer::zeroed(POOLED[1] * FRAME_WIDTH + ROWS * FRAME_WIDTH),
            ],
        }
    }
}

impl Front {
    pub(super) fn pack(weights: &Weights, isa: Isa) -> Self {
        let convolution = |index: usize, channels: usize, width: usize| {
            let numbers = &weights.convolutions[index];
            Panels::pack(CHANNELS, TAPS * width, |output, input| {
                let (tap, channel) = (input / width, input % width);
                if channel < channels { numbers[(output * channels + channel) * TAPS + tap] } else { 0.0 }
            })
        };
        let filter = |output: usize, input: usize| weights.filters[output * FILTER_TAPS + input];
        let padded = |norm: &Norm, columns: usize| {
            let pad = |numbers: &[f32]| numbers.iter().copied().chain(std::iter::repeat(0.0)).take(columns).collect();
            Norm { gain: pad(&norm.gain), shift: pad(&norm.shift) }
        };
        let [first, second, third] = &weights.norms;
        let in_parts = || {
            let rest = |output, input| rest_of(filter(output, input));
            Filters::Parts([Panels::pack(FILTERS, FILTER_TAPS, filter), Panels::pack(FILTERS, FILTER_TAPS, rest)])
        };
        Front {
            wave_gain: weights.wave_norm.gain[0],
            wave_shift: weights.wave_norm.shift[0],
            filters: Bank::pack(isa, FILTERS, FILTER_TAPS, filter).map_or_else(in_parts, Filters::Plain),
            convolutions: [convolution(0, FILTERS, FILTERS), convolution(1, CHANNELS, FRAME_WIDTH)],
            norms: [padded(first, COLUMNS[0]), padded(second, COLUMNS[1]), padded(third, COLUMNS[2])],
        }
    }

    /// The frames of one window: `out[frame * stride ..]` gets [`FRAME_WIDTH`] numbers for each of
    /// [`FRAMES_PER_WINDOW`] frames.
    ///
    /// # Safety
    /// `out` must reach that far, and nobody else writes there. The calling thread is prepared.
    pub(super) unsafe fn run(
        &self,
        compute: &Compute,
        lanes: &Lanes,
        room: &mut Room,
        samples: &[f32],
        out: *mut u16,
        stride: usize,
    ) {
        self.take_in(room, samples);
        let Room { wave, parts, sums, pooled, between } = room;
        let kernels = compute.kernels;
        let sums = sums.as_mut_ptr();
        for layer in 0..3 {
            let columns = COLUMNS[layer];
            for first in (0..POOLED[layer]).step_by(BLOCK) {
                let pooled_rows = BLOCK.min(POOLED[layer] - first);
                let (row, rows) = (3 * first, 3 * pooled_rows);
                for block in 0..columns / BLOCK {
                    // SAFETY: rows, their overlap and the padding lie within the room's buffers; the pooled rows have
                    // `columns` numbers each.
                    unsafe {
                        match (layer, &self.filters) {
                            (0, Filters::Plain(bank)) => {
                                bank.multiply(wave.as_ptr().add(row * FILTER_STEP), FILTER_STEP, rows, block, sums);
                            }
                            (0, Filters::Parts([filters, rests])) => {
                                let [wave, rest] = [0, 1].map(|part| parts[part].as_ptr().add(row * FILTER_STEP));
                                filters.multiply(kernels, wave, FILTER_STEP, rows, block, sums, BLOCK, false);
                                filters.multiply(kernels, rest, FILTER_STEP, rows, block, sums, BLOCK, true);
                                rests.multiply(kernels, wave, FILTER_STEP, rows, block, sums, BLOCK, true);
                            }
                            _ => {
                                let width = [FILTERS, FRAME_WIDTH][layer - 1];
                                let input = between[layer - 1].as_ptr().add(row * width);
                                let weights = &self.convolutions[layer - 1];
                                weights.multiply(kernels, input, width, rows, block, sums, BLOCK, false);
                            }
                        }
                        let to = pooled.as_mut_ptr().add(first * columns + block * BLOCK);
                        (lanes.pool)(sums, pooled_rows, to, columns, layer == 0);
                    }
                }
            }
            let (out, out_stride, width) = match layer {
                0 => (between[0].as_mut_ptr(), FILTERS, FILTERS),
                1 => (between[1].as_mut_ptr(), FRAME_WIDTH, FRAME_WIDTH),
                _ => (out, stride, FRAME_WIDTH),
            };
            let Norm { gain, shift } = &self.norms[layer];
            // SAFETY: the pooled rows are whole; the caller vouches for the last layer's `out`, the room has the others'.
            unsafe {
                (lanes.normalize)(&Columns {
                    values: pooled.as_ptr(),
                    stride: columns,
                    rows: POOLED[layer],
                    columns: width,
                    gain: gain.as_ptr(),
                    shift: shift.as_ptr(),
                    out,
                    out_stride,
                });
            }
        }
    }

    /// Normalizes the samples, silence behind them included, into what the filters take.
    fn take_in(&self, room: &mut Room, samples: &[f32]) {
        let samples = &samples[..samples.len().min(WINDOW_SAMPLES)];
        let count = WINDOW_SAMPLES as f64;
        let (mean, variance) = moments(samples, count);
        let factor = self.wave_gain / ((variance as f32) + 1e-5).sqrt();
        let shift = self.wave_shift - mean as f32 * factor;
        match self.filters {
            Filters::Plain(_) => {
                let (sounding, silent) = room.wave[..WINDOW_SAMPLES].split_at_mut(samples.len());
                sounding.iter_mut().zip(samples).for_each(|(out, sample)| *out = sample * factor + shift);
                silent.fill(shift);
            }
            Filters::Parts(_) => {
                let [wave, rest] = &mut room.parts;
                let (sounding, silent) = wave[..WINDOW_SAMPLES].split_at_mut(samples.len());
                let (sounding_rest, silent_rest) = rest[..WINDOW_SAMPLES].split_at_mut(samples.len());
                for ((out, rest), sample) in sounding.iter_mut().zip(sounding_rest).zip(samples) {
                    let x = sample * factor + shift;
                    *out = to_bf16(x);
                    *rest = to_bf16(x - from_bf16(*out));
                }
                silent.fill(to_bf16(shift));
                silent_rest.fill(to_bf16(rest_of(shift)));
            }
        }
    }
}

/// Mean and variance of samples followed by zeros up to `count`.
fn moments(samples: &[f32], count: f64) -> (f64, f64) {
    // Sums of 16 lanes over short runs, so that the compiler may use vectors and no digits are lost.
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
