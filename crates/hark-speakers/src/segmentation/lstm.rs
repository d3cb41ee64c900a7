//! The bidirectional LSTM layers, over all windows of a batch.
//!
//! A step multiplies the frames and the hidden state of up to 32 windows by the weights of one direction: 32 × 384 × 512
//! multiply-adds with weights that stay in the L2 cache. The gates of 16 units at a time stay in the L1 cache: only the
//! outputs are written to memory, and they are both the next layer's input and the next step's hidden state.

use hark_compute::buffer::{Buffer, SharedMut};
use hark_compute::gemm::PackedBf16;
use hark_compute::kernels::BLOCK;
use hark_compute::linear::Rows;
use hark_compute::ops::{LSTM_GATES, LSTM_UNITS};
use hark_compute::view::MatMut;
use hark_compute::{Compute, Worker};

use super::FRAMES_PER_WINDOW;
use super::weights::{Direction, UNITS};

/// Outputs of a layer for a frame: forward units, then backward units.
pub(super) const OUT: usize = 2 * UNITS;
/// Groups of units, whose gates are computed together.
const GROUPS: usize = UNITS / LSTM_UNITS;

/// One layer, packed.
pub(super) struct Layer {
    directions: [PackedDirection; 2],
}

struct PackedDirection {
    /// Columns: for each group of 16 units their gates i, f, g, o.
    input: PackedBf16,
    recurrent: PackedBf16,
    bias: Vec<f32>,
}

impl Layer {
    pub(super) fn pack(directions: &[Direction; 2]) -> Self {
        Layer { directions: [PackedDirection::pack(&directions[0]), PackedDirection::pack(&directions[1])] }
    }

    /// Runs the layer over `rows` windows, a multiple of 16: `input` is `[frame][rows][width]`, `out` `[frame][rows][OUT]`.
    pub(super) fn run(&self, compute: &Compute, rows: usize, input: &Buffer<u16>, width: usize, out: &mut Buffer<u16>) {
        assert!(rows.is_multiple_of(16), "whole tiles of rows");
        assert!(input.len() >= FRAMES_PER_WINDOW * rows * width && out.len() >= FRAMES_PER_WINDOW * rows * OUT);
        // Two directions occupy two threads; with more threads the windows are split into smaller groups.
        let group = if compute.threads() > 2 * rows.div_ceil(BLOCK) { 16 } else { BLOCK };
        let (reach, out) = (out.len(), out.shared());
        compute.parallel_for(2 * rows.div_ceil(group), |piece, worker| {
            let first = piece / 2 * group;
            let pass = Pass { rows, input, width, out, reach, first, count: group.min(rows - first) };
            pass.run(worker, &self.directions[piece % 2], piece % 2 == 1);
        });
    }
}

impl PackedDirection {
    fn pack(direction: &Direction) -> Self {
        // σ(x) = 1 / (1 + 2^(-x log2 e)), tanh(x) = 2 σ(2x) - 1: the factors are folded into the weights.
        let one = -std::f32::consts::LOG2_E;
        // The file's order of gates is i, o, f, g.
        let gates = [(0, one), (2, one), (3, 2.0 * one), (1, one)];
        let place = |column: usize| {
            let (gate, factor) = gates[column / LSTM_UNITS % 4];
            (gate * UNITS + column / LSTM_GATES * LSTM_UNITS + column % LSTM_UNITS, factor)
        };
        let pack = |weights: &[f32], inputs: usize| {
            PackedBf16::pack(4 * UNITS, inputs, |column, input| {
                let (row, factor) = place(column);
                weights[row * inputs + input] * factor
            })
        };
        PackedDirection {
            input: pack(&direction.input, direction.inputs),
            recurrent: pack(&direction.recurrent, UNITS),
            bias: (0..4 * UNITS)
                .map(|column| {
                    let (row, factor) = place(column);
                    direction.bias[row] * factor
                })
                .collect(),
        }
    }
}

/// One direction of one group of windows.
struct Pass<'a> {
    rows: usize,
    input: &'a Buffer<u16>,
    width: usize,
    out: SharedMut<u16>,
    /// Elements of `out`.
    reach: usize,
    first: usize,
    count: usize,
}

#[repr(C, align(64))]
struct Sums([f32; BLOCK * LSTM_GATES]);

impl Pass<'_> {
    fn run(&self, worker: &Worker, direction: &PackedDirection, backward: bool) {
        let mut cells = Buffer::<f32>::zeroed(GROUPS * BLOCK * LSTM_UNITS);
        let mut sums = Sums([0.0; BLOCK * LSTM_GATES]);
        let half = if backward { UNITS } else { 0 };
        let place = |frame: usize| (frame * self.rows + self.first) * OUT + half;
        for step in 0..FRAMES_PER_WINDOW {
            let frame = if backward { FRAMES_PER_WINDOW - 1 - step } else { step };
            let before = if backward { frame + 1 } else { frame.wrapping_sub(1) };
            let input = Rows::new(&self.input[(frame * self.rows + self.first) * self.width..], self.width, self.count);
            let state = (step > 0).then(|| {
                let place = place(before);
                // SAFETY: `Layer::run` has checked the length; this call wrote these rows and columns a step before, and
                // no other task writes them.
                unsafe { Rows::from_raw(self.out.at(place), self.reach - place, OUT, self.count) }
            });
            for group in 0..GROUPS {
                for part in 0..2 {
                    let (block, sums) = (group * 2 + part, &mut sums.0[part * BLOCK..]);
                    direction.input.multiply(worker, input, block, sums, LSTM_GATES, false);
                    if let Some(state) = state {
                        direction.recurrent.multiply(worker, state, block, sums, LSTM_GATES, true);
                    }
                }
                let to = self.out.at(place(frame) + group * LSTM_UNITS);
                // SAFETY: `Layer::run` has checked the length; this direction of these windows is this call's alone.
                let to = unsafe { MatMut::from_raw(to, self.count, LSTM_UNITS, OUT) };
                let cells = &mut cells[group * BLOCK * LSTM_UNITS..];
                worker.compute().ops().lstm_step(&sums.0, &direction.bias[group * LSTM_GATES..], cells, to);
            }
        }
    }
}
