//! The recurrent layers: both directions of all windows of a batch.
//!
//! A step multiplies the frames of up to 32 windows, and what came out a step before, by the weights of one direction:
//! 32 × 384 × 512 multiply-adds by weights that stay in the second-level cache. The gates of 16 units at a time go
//! through the first-level cache only: nothing is written to memory but the outputs, which are the next layer's input
//! and the next step's state at once.

use hark_compute::Compute;
use hark_compute::buffer::{Buffer, SharedMut};
use hark_compute::kernels::BLOCK;

use super::FRAMES_PER_WINDOW;
use super::weights::{Direction, UNITS};
use crate::lanes::{Cells, GROUP, Lanes};
use crate::panels::Panels;

/// Numbers that a layer puts out for a frame: forward units, then backward ones.
pub(super) const OUT: usize = 2 * UNITS;
/// Groups of units.
const GROUPS: usize = UNITS / GROUP;

/// One layer, packed.
pub(super) struct Layer {
    ways: [Way; 2],
}

struct Way {
    /// Columns: for each group of 16 units their gates i, f, g, o.
    input: Panels,
    recurrent: Panels,
    bias: Vec<f32>,
}

impl Layer {
    pub(super) fn pack(directions: &[Direction; 2]) -> Self {
        Layer { ways: [Way::pack(&directions[0]), Way::pack(&directions[1])] }
    }

    /// Runs the layer over `rows` windows, a multiple of 16: `input` is `[frame][rows][width]`, `out` `[frame][rows][OUT]`.
    pub(super) fn run(
        &self,
        compute: &Compute,
        lanes: &Lanes,
        rows: usize,
        input: &Buffer<u16>,
        width: usize,
        out: &mut Buffer<u16>,
    ) {
        assert!(rows.is_multiple_of(16), "whole tiles of rows");
        assert!(input.len() >= FRAMES_PER_WINDOW * rows * width && out.len() >= FRAMES_PER_WINDOW * rows * OUT);
        // Two directions keep two members busy; more members share the windows out in smaller groups.
        let group = if compute.team.members() > 2 * rows.div_ceil(BLOCK) { 16 } else { BLOCK };
        let out = out.shared();
        compute.each(2 * rows.div_ceil(group), |piece, _| {
            let first = piece / 2 * group;
            let step = Pass { compute, lanes, rows, input, width, out, first, count: group.min(rows - first) };
            step.run(&self.ways[piece % 2], piece % 2 == 1);
        });
    }
}

impl Way {
    fn pack(direction: &Direction) -> Self {
        // σ(x) = 1 / (1 + 2^(-x log2 e)), tanh(x) = 2 σ(2x) - 1: the factors go into the weights.
        let one = -std::f32::consts::LOG2_E;
        // The file's order of gates is i, o, f, g.
        let gates = [(0, one), (2, one), (3, 2.0 * one), (1, one)];
        let place = |column: usize| {
            let (gate, factor) = gates[column / GROUP % 4];
            (gate * UNITS + column / (4 * GROUP) * GROUP + column % GROUP, factor)
        };
        let pack = |weights: &[f32], inputs: usize| {
            Panels::pack(4 * UNITS, inputs, |column, input| {
                let (row, factor) = place(column);
                weights[row * inputs + input] * factor
            })
        };
        Way {
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
    compute: &'a Compute,
    lanes: &'a Lanes,
    rows: usize,
    input: &'a Buffer<u16>,
    width: usize,
    out: SharedMut<u16>,
    first: usize,
    count: usize,
}

#[repr(C, align(64))]
struct Sums([f32; BLOCK * 4 * GROUP]);

impl Pass<'_> {
    fn run(&self, way: &Way, backward: bool) {
        let mut cells = Buffer::<f32>::zeroed(GROUPS * BLOCK * GROUP);
        let mut sums = Sums([0.0; BLOCK * 4 * GROUP]);
        let sums = sums.0.as_mut_ptr();
        let half = if backward { UNITS } else { 0 };
        let kernels = self.compute.kernels;
        let place = |frame: usize| (frame * self.rows + self.first) * OUT + half;
        for step in 0..FRAMES_PER_WINDOW {
            let frame = if backward { FRAMES_PER_WINDOW - 1 - step } else { step };
            let before = if backward { frame + 1 } else { frame.wrapping_sub(1) };
            let input = self.input[(frame * self.rows + self.first) * self.width..].as_ptr();
            for group in 0..GROUPS {
                // SAFETY: `run` of the layer has checked the buffers' lengths; this direction of these windows is
                // written by this call alone, and what it reads of `out` it wrote a step before.
                unsafe {
                    for part in 0..2 {
                        let (block, sums) = (group * 2 + part, sums.add(part * BLOCK));
                        way.input.multiply(kernels, input, self.width, self.count, block, sums, 4 * GROUP, false);
                        if step > 0 {
                            let state = self.out.at(place(before));
                            way.recurrent.multiply(kernels, state, OUT, self.count, block, sums, 4 * GROUP, true);
                        }
                    }
                    (self.lanes.cells)(&Cells {
                        sums,
                        rows: self.count,
                        bias: way.bias[group * 4 * GROUP..].as_ptr(),
                        cells: cells.as_mut_ptr().add(group * BLOCK * GROUP),
                        out: self.out.at(place(frame) + group * GROUP),
                        out_stride: OUT,
                    });
                }
            }
        }
    }
}
