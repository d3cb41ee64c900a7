//! Linear layers: packed weights and the loop that shares a product out among the team.

use super::Compute;
use super::buffer::Buffer;
use super::kernels::math::to_bf16;
use super::kernels::{BLOCK, Block, DEPTH, Finish, PANEL, TILE};

/// The weights of a linear layer, packed in panels (see [`super::kernels`]), with the bias.
pub struct Linear {
    panels: Buffer<u16>,
    bias: Buffer<f32>,
    /// Output columns, a multiple of 32; columns beyond the layer's own are zero.
    columns: usize,
    /// Tiles along the input.
    depth: usize,
}

impl Linear {
    /// Packs `weights[outputs][inputs]`; inputs are padded to a multiple of 32 with zeros.
    pub fn pack(weights: &[f32], outputs: usize, inputs: usize, bias: Option<&[f32]>) -> Self {
        assert_eq!(weights.len(), outputs * inputs, "weights have the stated shape");
        let columns = outputs.next_multiple_of(BLOCK);
        let depth = inputs.div_ceil(DEPTH);
        let mut panels = Buffer::zeroed(columns * depth * DEPTH);
        for (output, row) in weights.chunks_exact(inputs).enumerate() {
            let panel = &mut panels[(output / PANEL) * depth * TILE..][..depth * TILE];
            for (input, &weight) in row.iter().enumerate() {
                panel[index_in_panel(input, output % PANEL)] = to_bf16(weight);
            }
        }
        let mut padded_bias = Buffer::zeroed(columns);
        if let Some(bias) = bias {
            padded_bias[..outputs].copy_from_slice(bias);
        }
        Linear { panels, bias: padded_bias, columns, depth }
    }

    /// Output columns, padded to a multiple of 32.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Blocks of 32 output columns.
    pub fn blocks(&self) -> usize {
        self.columns / BLOCK
    }

    /// Bytes of packed weights, which one application reads.
    pub fn bytes(&self) -> usize {
        self.panels.len() * 2
    }

    /// The bf16 weight from input `k` to `output`.
    pub fn weight(&self, output: usize, k: usize) -> u16 {
        self.panels[output / PANEL * self.depth * TILE + index_in_panel(k, output % PANEL)]
    }

    fn panel(&self, index: usize) -> *const u16 {
        self.panels[index * self.depth * TILE..].as_ptr()
    }
}

/// Where element `(k, column)` lies inside a panel.
#[inline(always)]
pub fn index_in_panel(k: usize, column: usize) -> usize {
    (k / DEPTH) * TILE + ((k % DEPTH) / 2) * 2 * PANEL + column * 2 + k % 2
}

/// bf16 activations: `count` rows, `stride` elements apart, with room to read up to a multiple of 32 rows.
#[derive(Clone, Copy)]
pub struct Rows {
    /// First element of the first row.
    pub start: *const u16,
    /// Elements from one row to the next.
    pub stride: usize,
    /// Number of rows.
    pub count: usize,
}

// SAFETY: a view that members only read through.
unsafe impl Sync for Rows {}

impl Rows {
    /// The address of an element.
    #[inline(always)]
    pub fn at(&self, row: usize, column: usize) -> *const u16 {
        self.start.wrapping_add(row * self.stride + column)
    }

    /// `count` of these rows from `first` on, starting at `column`.
    pub fn part(&self, first: usize, count: usize, column: usize) -> Rows {
        Rows { start: self.at(first, column), stride: self.stride, count }
    }
}

/// Rows that one member works on at a time: with 512 inputs they fill a tenth of the second-level cache, so a
/// panel of weights is read once and used for all of them.
pub const CHUNK: usize = 192;
/// Tiles along the input taken at once: two panels of 512 inputs are 32 KB and stay in the first-level cache.
const DEPTH_CHUNK: usize = 16;

#[repr(C, align(64))]
struct Sums(std::mem::MaybeUninit<[f32; CHUNK * BLOCK]>);

/// What is done with finished sums: `(block, first row, first column)`.
pub type FinishBlock<'a> = &'a dyn Fn(&Finish, usize, usize);

/// `rows · weights`, block by block, shared out among the team; `finish` gets the sums of up to 32 rows.
///
/// Cost: `rows · columns · 32·depth` multiply-adds; weights are read once for every 192 rows.
pub fn apply(compute: &Compute, rows: Rows, layer: &Linear, finish: &(dyn Fn(&Finish, usize, usize) + Sync)) {
    let row_chunks = rows.count.div_ceil(CHUNK);
    let blocks = layer.columns / BLOCK;
    // Enough pieces that a late member leaves work to the others, not so many that claiming them costs.
    let wanted = (compute.team.members() * 4).div_ceil(row_chunks);
    let blocks_a_piece = blocks.div_ceil(wanted).clamp(1, 16);
    let column_pieces = blocks.div_ceil(blocks_a_piece);
    compute.each(row_chunks * column_pieces, |piece, _| {
        let first_row = piece / column_pieces * CHUNK;
        let first_block = piece % column_pieces * blocks_a_piece;
        let part = rows.part(first_row, CHUNK.min(rows.count - first_row), 0);
        let columns = first_block..(first_block + blocks_a_piece).min(blocks);
        apply_chunk(compute, part, layer, columns, &|done, row, column| finish(done, first_row + row, column));
    });
}

/// The calling member's own product: up to [`CHUNK`] rows, the given blocks of 32 columns.
pub fn apply_chunk(compute: &Compute, rows: Rows, layer: &Linear, blocks: std::ops::Range<usize>, finish: FinishBlock) {
    assert!(rows.count <= CHUNK, "a chunk of rows");
    let mut sums = Sums(std::mem::MaybeUninit::uninit());
    let sums = sums.0.as_mut_ptr().cast::<f32>();
    for block in blocks {
        let (left, right) = (layer.panel(block * 2), layer.panel(block * 2 + 1));
        let mut tile = 0;
        while tile < layer.depth {
            let depth = DEPTH_CHUNK.min(layer.depth - tile);
            for row in (0..rows.count).step_by(BLOCK) {
                // SAFETY: `rows` and the panels have the stated shapes and padding; `sums` has CHUNK rows.
                unsafe {
                    (compute.kernels.block)(&Block {
                        a: rows.at(row, tile * DEPTH),
                        a_stride: rows.stride,
                        left: left.add(tile * TILE),
                        right: right.add(tile * TILE),
                        c: sums.add(row * BLOCK),
                        c_stride: BLOCK,
                        depth,
                        rows: BLOCK.min(rows.count - row),
                        accumulate: tile > 0,
                    });
                }
            }
            tile += depth;
        }
        for row in (0..rows.count).step_by(BLOCK) {
            let done = Finish {
                // SAFETY: inside the CHUNK × 32 sums written above.
                sums: unsafe { sums.add(row * BLOCK) },
                rows: BLOCK.min(rows.count - row),
                bias: layer.bias[block * BLOCK..].as_ptr(),
                gelu: false,
            };
            finish(&done, row, block * BLOCK);
        }
    }
}
