//! bf16 GEMM a block of 32 outputs at a time, for layers whose epilogue belongs to the network.
//!
//! A convolution over time needs no copying: the inputs of one output step are neighbours in memory, so the rows of its
//! left side are windows into one array that overlap, a stride apart.

use crate::Worker;
use crate::buffer::Buffer;
use crate::kernels::math::{from_bf16, to_bf16};
use crate::kernels::{BLOCK, Block, DEPTH, PANEL, TILE};
use crate::linear::{Rows, index_in_panel};
use crate::view::reach;

/// Weights that multiply from the right, packed for the kernels: outputs in blocks of 32, inputs in tiles of 32.
pub struct PackedBf16 {
    data: Buffer<u16>,
    /// Tiles along the input.
    tiles: usize,
    blocks: usize,
}

impl PackedBf16 {
    /// Packs `weight(output, input)`; what is missing to whole blocks and tiles is zero.
    pub fn pack(outputs: usize, inputs: usize, weight: impl Fn(usize, usize) -> f32) -> Self {
        let (tiles, blocks) = (inputs.div_ceil(DEPTH), outputs.div_ceil(BLOCK));
        let mut data = Buffer::zeroed(blocks * BLOCK / PANEL * tiles * TILE);
        for output in 0..outputs {
            let panel = &mut data[output / PANEL * tiles * TILE..][..tiles * TILE];
            for input in 0..inputs {
                panel[index_in_panel(input, output % PANEL)] = to_bf16(weight(output, input));
            }
        }
        PackedBf16 { data, tiles, blocks }
    }

    /// Blocks of 32 outputs.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// `sums[rows][32] (+)= rows · block`, rows of the sums `sums_stride` apart.
    ///
    /// # Panics
    /// When the view does not reach the rows up to the next multiple of 16 in whole tiles, or `sums` as many rows.
    #[inline]
    pub fn multiply(
        &self,
        worker: &Worker,
        rows: Rows,
        block: usize,
        sums: &mut [f32],
        sums_stride: usize,
        accumulate: bool,
    ) {
        rows.check(self.tiles * DEPTH, PANEL);
        let count = rows.count();
        // Kernels write rows up to a multiple of 16; that one fits was checked with the view.
        let needed = reach(count.next_multiple_of(PANEL), BLOCK, sums_stride);
        assert!(needed.is_some_and(|needed| needed <= sums.len()) && sums_stride >= BLOCK, "room for the sums");
        assert!(block < self.blocks, "a block of the outputs");
        // Two panels of 16 tiles fill 32 kB: they stay in the first-level cache while the rows pass by.
        for first in (0..self.tiles).step_by(DEPTH_CHUNK) {
            let panel = |index: usize| self.data[(index * self.tiles + first) * TILE..].as_ptr();
            let (left, right) = (panel(block * 2), panel(block * 2 + 1));
            for row in (0..count).step_by(BLOCK) {
                // SAFETY: rows and sums were checked above, the panels are whole, and the worker's thread is prepared.
                unsafe {
                    (worker.kernels().block)(&Block {
                        a: rows.at(row, first * DEPTH),
                        a_stride: rows.stride(),
                        left,
                        right,
                        c: sums.as_mut_ptr().add(row * sums_stride),
                        c_stride: sums_stride,
                        depth: DEPTH_CHUNK.min(self.tiles - first),
                        rows: BLOCK.min(count - row),
                        accumulate: accumulate || first > 0,
                    });
                }
            }
        }
    }
}

/// Tiles along the input taken at once.
const DEPTH_CHUNK: usize = 16;

/// What rounding to bf16 leaves of `x`: the part that a second product can add.
#[inline(always)]
pub fn bf16_residue(x: f32) -> f32 {
    x - from_bf16(to_bf16(x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Compute, Isa};

    #[test]
    fn blocks_follow_the_definition_and_short_views_are_refused() {
        let (outputs, inputs, count) = (40, 600, 37usize);
        let weight = |output: usize, input: usize| ((output * 31 + input * 7) % 23) as f32 - 11.0;
        let packed = PackedBf16::pack(outputs, inputs, weight);
        let stride = inputs.next_multiple_of(DEPTH);
        let number = |row: usize, input: usize| ((row * 5 + input * 3) % 17) as f32 - 8.0;
        let mut data = Buffer::<u16>::zeroed(count.next_multiple_of(BLOCK) * stride);
        for row in 0..count {
            (0..inputs).for_each(|input| data[row * stride + input] = to_bf16(number(row, input)));
        }
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let compute = Compute::new(1, isa);
            compute.parallel_for(1, |_, worker| {
                for block in 0..packed.blocks() {
                    let mut sums = vec![1f32; count.next_multiple_of(PANEL) * 48];
                    packed.multiply(worker, Rows::new(&data, stride, count), block, &mut sums, 48, true);
                    for (row, column) in (0..count).flat_map(|row| (0..BLOCK).map(move |column| (row, column))) {
                        let output = block * BLOCK + column;
                        let product = |input: usize| number(row, input) * weight(output, input);
                        let exact = 1.0 + if output < outputs { (0..inputs).map(product).sum::<f32>() } else { 0.0 };
                        assert_eq!(sums[row * 48 + column], exact, "{}: row {row}, output {output}", isa.name());
                    }
                }
                let refused = |rows: Rows, block: usize, sums: usize| {
                    let mut sums = vec![0f32; sums];
                    let multiply = || packed.multiply(worker, rows, block, &mut sums, BLOCK, false);
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(multiply)).is_err()
                };
                assert!(!refused(Rows::new(&data, stride, 16), 0, 16 * BLOCK));
                assert!(refused(Rows::new(&data, stride, 17), 0, 17 * BLOCK), "sums of whole tiles");
                assert!(refused(Rows::new(&data[..16 * stride - 1], stride, 16), 0, 16 * BLOCK), "a short view");
                assert!(refused(Rows::new(&data, stride, 16), 2, 16 * BLOCK), "no such block");
            });
        }
    }
}
