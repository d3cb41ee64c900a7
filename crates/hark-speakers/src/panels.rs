//! Products of both networks on the engine's bf16 kernels.
//!
//! A convolution over time needs no copying: the inputs of one output step are neighbours in memory, so its rows are
//! windows into the same array that overlap, a stride apart.

use hark_compute::buffer::Buffer;
use hark_compute::kernels::math::{from_bf16, to_bf16};
use hark_compute::kernels::{BLOCK, Block, DEPTH, Kernels, PANEL, TILE};
use hark_compute::linear::index_in_panel;

/// Weights that multiply from the right, packed for the kernels: outputs in blocks of 32, inputs in tiles of 32.
pub(crate) struct Panels {
    data: Buffer<u16>,
    /// Tiles along the input.
    tiles: usize,
    blocks: usize,
}

impl Panels {
    /// Packs `weight(output, input)`; what is missing to whole blocks and tiles is zero.
    pub(crate) fn pack(outputs: usize, inputs: usize, weight: impl Fn(usize, usize) -> f32) -> Self {
        let (tiles, blocks) = (inputs.div_ceil(DEPTH), outputs.div_ceil(BLOCK));
        let mut data = Buffer::zeroed(blocks * BLOCK / PANEL * tiles * TILE);
        for output in 0..outputs {
            let panel = &mut data[output / PANEL * tiles * TILE..][..tiles * TILE];
            for input in 0..inputs {
                panel[index_in_panel(input, output % PANEL)] = to_bf16(weight(output, input));
            }
        }
        Panels { data, tiles, blocks }
    }

    /// Blocks of 32 outputs.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    /// `sums[rows][32] (+)= a · block`, for any number of rows.
    ///
    /// # Safety
    /// `a` must reach `rows` rows (up to the next multiple of 16) `stride` apart of as many numbers as there are inputs,
    /// in whole tiles; `sums` that many rows `sums_stride` apart. The calling thread is prepared.
    #[inline]
    pub(crate) unsafe fn multiply(
        &self,
        kernels: &Kernels,
        a: *const u16,
        stride: usize,
        rows: usize,
        block: usize,
        sums: *mut f32,
        sums_stride: usize,
        accumulate: bool,
    ) {
        // Two panels of 16 tiles fill 32 kB: they stay in the first-level cache while the rows pass by.
        for first in (0..self.tiles).step_by(DEPTH_CHUNK) {
            let panel = |index: usize| self.data[(index * self.tiles + first) * TILE..].as_ptr();
            let (left, right) = (panel(block * 2), panel(block * 2 + 1));
            for row in (0..rows).step_by(BLOCK) {
                // SAFETY: the caller vouches for the rows; the panels are whole.
                unsafe {
                    (kernels.block)(&Block {
                        a: a.add(row * stride + first * DEPTH),
                        a_stride: stride,
                        left,
                        right,
                        c: sums.add(row * sums_stride),
                        c_stride: sums_stride,
                        depth: DEPTH_CHUNK.min(self.tiles - first),
                        rows: BLOCK.min(rows - row),
                        accumulate: accumulate || first > 0,
                    });
                }
            }
        }
    }
}

/// Tiles along the input taken at once.
const DEPTH_CHUNK: usize = 16;

/// What bf16 leaves of `x`: the part that a second product can add.
#[inline(always)]
pub(crate) fn rest_of(x: f32) -> f32 {
    x - from_bf16(to_bf16(x))
}
