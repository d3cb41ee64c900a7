//! Products of activations with quantized matrices, shared out among the threads.

use std::cell::RefCell;
use std::ops::Range;

use super::kernel::{MAX_GEMV_ROWS, RowPointers};
use super::{Activations, FEW_ROWS, Format, QUANT_BLOCK, QuantizedKernels, QuantizedMatrix};
use crate::buffer::{Buffer, SharedMut};
use crate::kernels::{BLOCK, Block, PANEL, TILE};
use crate::{Compute, Worker};

/// One product: a matrix and where its outputs go.
pub struct Product<'a> {
    matrix: &'a QuantizedMatrix,
    out: SharedMut<f32>,
    room: usize,
    stride: usize,
    memory: std::marker::PhantomData<&'a mut [f32]>,
}

impl<'a> Product<'a> {
    /// Row `r` of the product goes to `out[r * stride..]`.
    pub fn new(matrix: &'a QuantizedMatrix, out: &'a mut [f32], stride: usize) -> Self {
        let (room, out) = (out.len(), SharedMut::new(out.as_mut_ptr()));
        Product { matrix, out, room, stride, memory: std::marker::PhantomData }
    }
}

/// Most rows of activations that meet a dequantized stretch of weights: their sums and activations stay in the second-level
/// cache.
const MAX_ROWS: usize = 512;
/// Most columns of a piece of a product of many rows.
const MAX_COLUMNS: usize = 256;
/// Tiles of 32 inputs that are dequantized at a time: two panels of 16 KiB stay in the first-level cache.
const DEPTH_TILES: usize = 16;
/// Least bytes of weights in a piece of a product of few rows: claiming a piece costs as much as reading some hundred bytes.
const LEAST_PIECE: usize = 32 << 10;

/// What one piece of a region does.
enum Piece {
    /// Panels of a product, by int8 GEMV.
    Few { product: usize, panels: Range<usize> },
    /// Rows and panels of a product, by bf16 GEMM.
    Many { product: usize, rows: Range<usize>, panels: Range<usize> },
}

/// Multiplies the activations with every matrix in one parallel region.
///
/// # Panics
/// When a matrix has another width than the activations or its outputs do not fit where they go.
pub fn matmul(compute: &Compute, activations: &Activations, products: &mut [Product]) {
    let rows = activations.rows();
    if rows == 0 {
        return;
    }
    let mut pieces = Vec::new();
    for (product, Product { matrix, room, stride, .. }) in products.iter().enumerate() {
        assert_eq!(matrix.columns(), activations.width(), "a matrix as wide as the activations");
        let reach = (rows - 1).checked_mul(*stride).and_then(|reach| reach.checked_add(matrix.rows()));
        let fits = reach.is_some_and(|reach| reach <= *room) && (rows == 1 || matrix.rows() <= *stride);
        assert!(fits, "outputs fit where they go");
        let panels = matrix.panel_count();
        if rows <= FEW_ROWS && matrix.format() != Format::Bf16 {
            let least = LEAST_PIECE.div_ceil(matrix.panel_bytes().max(1));
            let step = panels.div_ceil(compute.threads() * 8).clamp(1, least.max(1));
            let ranges = (0..panels).step_by(step).map(|first| first..(first + step).min(panels));
            pieces.extend(ranges.map(|panels| Piece::Few { product, panels }));
        } else {
            let wanted = panels.div_ceil(compute.threads() * 4).next_multiple_of(2);
            let step = wanted.clamp(2, MAX_COLUMNS / PANEL);
            for first in (0..panels).step_by(step) {
                for row in (0..rows).step_by(MAX_ROWS) {
                    let rows = row..(row + MAX_ROWS).min(rows);
                    pieces.push(Piece::Many { product, rows, panels: first..(first + step).min(panels) });
                }
            }
        }
    }
    let kernels = QuantizedKernels::of(compute.isa());
    let products = &*products;
    compute.parallel_for(pieces.len(), |piece, worker| match &pieces[piece] {
        Piece::Few { product, panels } => few_rows(&kernels, activations, &products[*product], panels.clone()),
        Piece::Many { product, rows, panels } => {
            many_rows(&kernels, worker, activations, &products[*product], rows.clone(), panels.clone());
        }
    });
}

/// The outputs of some panels for all rows, each weight read once.
fn few_rows(kernels: &QuantizedKernels, activations: &Activations, product: &Product, panels: Range<usize>) {
    let Product { matrix, out, stride, .. } = product;
    let count = activations.rows();
    let none = RowPointers { values: std::ptr::null(), scales: std::ptr::null(), sums: std::ptr::null() };
    let mut rows = [none; FEW_ROWS];
    for (row, pointers) in rows.iter_mut().enumerate().take(count) {
        *pointers = activations.int8(row);
    }
    let blocks = matrix.columns() / QUANT_BLOCK;
    for panel in panels {
        let columns = PANEL.min(matrix.rows() - panel * PANEL);
        let mut first = 0;
        while first < count {
            let size = match count - first {
                MAX_GEMV_ROWS.. => MAX_GEMV_ROWS,
                2.. => 2,
                _ => 1,
            };
            let group = &rows[first..first + size];
            let Some(gemv) = (kernels.gemv)(matrix.format(), group.len()) else {
                unreachable!("bf16 weights go another way")
            };
            let weights = matrix.panel(panel).as_ptr();
            let place = out.at(first * stride + panel * PANEL);
            // SAFETY: the set of kernels is the machine's; panel and rows have as many blocks. A panel's outputs are this
            // piece's own, and 16 wide, or written beside and copied.
            unsafe {
                if columns == PANEL {
                    gemv(weights, blocks, group, place, *stride);
                } else {
                    let mut whole = [0f32; MAX_GEMV_ROWS * PANEL];
                    gemv(weights, blocks, group, whole.as_mut_ptr(), PANEL);
                    for row in 0..group.len() {
                        std::ptr::copy_nonoverlapping(whole[row * PANEL..].as_ptr(), place.add(row * stride), columns);
                    }
                }
            }
            first += size;
        }
    }
}

/// Where a thread dequantizes weights and sums products.
struct Workspace {
    weights: Buffer<u16>,
    sums: Buffer<f32>,
}

thread_local! {
    static WORKSPACE: RefCell<Option<Workspace>> = const { RefCell::new(None) };
}

/// The outputs of some panels for some rows: stretches of weights are dequantized and meet all rows.
fn many_rows(
    kernels: &QuantizedKernels,
    worker: &Worker,
    activations: &Activations,
    product: &Product,
    rows: Range<usize>,
    panels: Range<usize>,
) {
    let Product { matrix, out, stride, .. } = product;
    let dequantize = (kernels.dequantize)(matrix.format());
    let tiles = matrix.columns() / QUANT_BLOCK;
    let left = activations.bf16();
    // A cache line more than the columns, so that rows of sums do not fall on the same cache sets.
    let sums_stride = panels.len().next_multiple_of(2) * PANEL + PANEL;
    WORKSPACE.with_borrow_mut(|workspace| {
        let workspace = workspace.get_or_insert_with(|| Workspace {
            weights: Buffer::zeroed(2 * DEPTH_TILES * TILE),
            sums: Buffer::zeroed(0),
        });
        let room = rows.len().next_multiple_of(BLOCK) * sums_stride;
        if workspace.sums.len() < room {
            workspace.sums = Buffer::zeroed(room);
        }
        let weights = workspace.weights.as_mut_ptr();
        let sums = workspace.sums.as_mut_ptr();
        for tile in (0..tiles).step_by(DEPTH_TILES) {
            let depth = DEPTH_TILES.min(tiles - tile);
            for pair in (0..panels.len()).step_by(2) {
                let has_right = panels.start + pair + 1 < panels.end;
                // SAFETY: the set of kernels is the machine's, its worker is prepared. Panels have these tiles, and the
                // workspace has room for two stretches and for all sums. Rows up to a multiple of 32 can be read.
                unsafe {
                    dequantize(matrix.panel(panels.start + pair).as_ptr(), tile, depth, weights);
                    let right = if has_right {
                        let right = weights.add(DEPTH_TILES * TILE);
                        dequantize(matrix.panel(panels.start + pair + 1).as_ptr(), tile, depth, right);
                        right
                    } else {
                        weights
                    };
                    for row in (0..rows.len()).step_by(BLOCK) {
                        (worker.kernels().block)(&Block {
                            a: left.at(rows.start + row, tile * QUANT_BLOCK),
                            a_stride: left.stride(),
                            left: weights,
                            right,
                            c: sums.add(row * sums_stride + pair * PANEL),
                            c_stride: sums_stride,
                            depth,
                            rows: BLOCK.min(rows.len() - row),
                            accumulate: tile > 0,
                        });
                    }
                }
            }
        }
        let columns = (matrix.rows() - panels.start * PANEL).min(panels.len() * PANEL);
        for row in 0..rows.len() {
            // SAFETY: these rows and columns of the output are this piece's own and were checked to fit.
            unsafe {
                let place = out.at((rows.start + row) * stride + panels.start * PANEL);
                std::ptr::copy_nonoverlapping(sums.add(row * sums_stride), place, columns);
            }
        }
    });
}
