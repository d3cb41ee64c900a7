//! The loop that shares a product out among the threads.

use std::cell::RefCell;
use std::ops::Range;

use super::{Int8Panels, Linear, Panels, Rows};
use crate::buffer::Buffer;
use crate::kernels::int8::{INT8_DEPTH, INT8_TILE, Int8Block, Int8Chunk};
use crate::kernels::{BLOCK, Block, BlockEpilogue, DEPTH, TILE};
use crate::{Compute, Worker};

/// int8 activations; rows up to a multiple of 32 can be read.
#[derive(Clone, Copy)]
struct Int8Rows {
    start: *const u8,
    stride: usize,
    /// One for each row.
    scales: *const f32,
    count: usize,
}

// SAFETY: a view that threads only read through.
unsafe impl Sync for Int8Rows {}

impl Int8Rows {
    fn part(&self, first: usize, count: usize) -> Int8Rows {
        let start = self.start.wrapping_add(first * self.stride);
        Int8Rows { start, scales: self.scales.wrapping_add(first), count, ..*self }
    }
}

/// Where a thread quantizes activations; grows with the largest product.
struct Quantized {
    numbers: Buffer<u8>,
    scales: Buffer<f32>,
}

thread_local! {
    static QUANTIZED: RefCell<Quantized> = RefCell::new(Quantized { numbers: Buffer::zeroed(0), scales: Buffer::zeroed(0) });
}

impl Quantized {
    /// Makes room for `count` rows of `inputs` numbers; they begin a cache line more than their length apart, so that
    /// they do not fall on the same few cache sets.
    fn reserve(&mut self, count: usize, inputs: usize) -> usize {
        let stride = inputs.next_multiple_of(INT8_DEPTH) + INT8_DEPTH;
        let rows = count.next_multiple_of(BLOCK);
        let numbers = rows.checked_mul(stride).expect("quantized rows fit the address space");
        if self.numbers.len() < numbers {
            self.numbers = Buffer::zeroed(numbers);
        }
        if self.scales.len() < rows {
            self.scales = Buffer::zeroed(rows);
        }
        stride
    }
}

/// Quantizes `rows` of `inputs` numbers into `numbers` and `scales`.
///
/// # Safety
/// `numbers` and `scales` have room for all rows, nobody else uses it, and the view reaches `inputs` elements of each row.
unsafe fn quantize_rows(
    compute: &Compute,
    rows: Rows,
    inputs: usize,
    numbers: *mut u8,
    stride: usize,
    scales: *mut f32,
) {
    for row in 0..rows.count() {
        // SAFETY: the caller vouches for the rows and the room.
        unsafe {
            let scale = (compute.int8.quantize_row)(rows.at(row, 0), inputs, numbers.add(row * stride));
            *scales.add(row) = scale;
        }
    }
}

/// Rows that one thread works on at a time: with 512 inputs they fill a tenth of the second-level cache, so a
/// panel of weights is read once and used for all of them.
pub const CHUNK: usize = 192;
/// Tiles along the input taken at once: two panels are then 32 KB and stay in the first-level cache.
const DEPTH_CHUNK: usize = 16;
/// Rows that one thread quantizes at a time.
const QUANTIZE_ROWS: usize = 16;

#[repr(C, align(64))]
struct Sums(std::mem::MaybeUninit<[f32; CHUNK * BLOCK]>);

/// What is done with finished sums: `(block, first row, first column)`.
pub type EpilogueFn<'a> = &'a dyn Fn(&BlockEpilogue, usize, usize);

/// `rows · weights`, block by block, shared out among the threads; `epilogue` gets the sums of up to 32 rows.
///
/// Cost: `rows · columns · inputs` multiply-adds; weights are read once for every 192 rows.
pub fn matmul(compute: &Compute, rows: Rows, layer: &Linear, epilogue: &(dyn Fn(&BlockEpilogue, usize, usize) + Sync)) {
    // Enough pieces that a late thread leaves work to the others, not so many that claiming them costs.
    let wanted = (compute.threads() * 4).div_ceil(rows.count().div_ceil(CHUNK).max(1));
    let blocks_a_piece = layer.blocks().div_ceil(wanted).clamp(1, RUN / BLOCK);
    in_pieces(compute, rows, layer, blocks_a_piece, &|piece, multiply| {
        multiply(&|done, row, column| epilogue(done, piece.rows.start + row, column));
    });
}

/// Columns of a [`Run`].
pub const RUN: usize = 16 * BLOCK;
/// Sums from one row of a run to the next: a cache line more than they are, so that rows do not fall on the same cache sets.
const RUN_STRIDE: usize = RUN + 16;

/// The sums of up to 192 rows and [`RUN`] neighbouring columns, in the second-level cache of the thread that made them.
pub struct Run<'a> {
    /// The thread, as [`Worker::thread`] numbers it.
    pub thread: usize,
    /// The rows.
    pub rows: Range<usize>,
    /// The columns.
    pub columns: Range<usize>,
    sums: &'a mut [f32],
}

impl Run<'_> {
    /// The sums of one of [`Run::rows`].
    pub fn row(&mut self, row: usize) -> &mut [f32] {
        &mut self.sums[(row - self.rows.start) * RUN_STRIDE..][..self.columns.len()]
    }
}

thread_local! {
    static RUN_SUMS: RefCell<Buffer<f32>> = RefCell::new(Buffer::zeroed(0));
}

/// `rows · weights` without bias, for a layer of many columns whose sums are used at once and forgotten: written to memory
/// they would be as many bytes as the weights.
///
/// A thread gets its runs in the order of their columns.
pub fn matmul_in_runs(compute: &Compute, rows: Rows, layer: &Linear, epilogue: &(dyn Fn(Run) + Sync)) {
    in_pieces(compute, rows, layer, RUN / BLOCK, &|piece, multiply| {
        RUN_SUMS.with_borrow_mut(|sums| {
            let room = piece.rows.len().next_multiple_of(BLOCK) * RUN_STRIDE;
            if sums.len() < room {
                *sums = Buffer::zeroed(room);
            }
            let first = piece.blocks.start * BLOCK;
            let to = sums.shared();
            multiply(&|done, row, column| {
                for (line, from) in done.sums.chunks_exact(BLOCK).take(done.rows).enumerate() {
                    // SAFETY: a block's sums are 32 columns, and there is room for all rows of the piece.
                    unsafe {
                        let place = to.at((row + line) * RUN_STRIDE + column - first);
                        std::ptr::copy_nonoverlapping(from.as_ptr(), place, BLOCK);
                    }
                }
            });
            let columns = first..piece.blocks.end * BLOCK;
            epilogue(Run { thread: piece.worker.thread(), rows: piece.rows.clone(), columns, sums: &mut sums[..] });
        });
    });
}

/// One thread's part of a product: up to [`CHUNK`] rows and some blocks of columns.
struct Piece<'a> {
    worker: &'a Worker<'a>,
    rows: Range<usize>,
    blocks: Range<usize>,
}

/// Makes the sums of a piece and hands them to what it is given, rows counted from the piece's first.
type Multiply<'a> = &'a dyn Fn(EpilogueFn);

/// Calls `work(piece, multiply)` for pieces that make up the whole product.
fn in_pieces(
    compute: &Compute,
    rows: Rows,
    layer: &Linear,
    blocks_a_piece: usize,
    work: &(dyn Fn(&Piece, Multiply) + Sync),
) {
    layer.check(&rows);
    match &layer.panels {
        Panels::Bf16(panels) => share_out(compute, rows.count(), layer, blocks_a_piece, |piece| {
            let part = rows.part(piece.rows.start, piece.rows.len(), 0);
            work(piece, &|epilogue| {
                // SAFETY: the view was checked above; a worker is prepared.
                unsafe { bf16_chunk(piece.worker, part, layer, panels, piece.blocks.clone(), epilogue) };
            });
        }),
        Panels::Int8(panels) => QUANTIZED.with_borrow_mut(|quantized| {
            let stride = quantized.reserve(rows.count(), layer.inputs);
            let (numbers, scales) = (quantized.numbers.shared(), quantized.scales.shared());
            compute.parallel_for(rows.count().div_ceil(QUANTIZE_ROWS), |piece, _| {
                let first = piece * QUANTIZE_ROWS;
                let part = rows.part(first, QUANTIZE_ROWS.min(rows.count() - first), 0);
                // SAFETY: the view was checked above; there is room for all rows, and these are this piece's own.
                unsafe {
                    quantize_rows(compute, part, layer.inputs, numbers.at(first * stride), stride, scales.at(first))
                };
            });
            let quantized_rows = Int8Rows { start: numbers.at(0), stride, scales: scales.at(0), count: rows.count() };
            share_out(compute, rows.count(), layer, blocks_a_piece, |piece| {
                let part = quantized_rows.part(piece.rows.start, piece.rows.len());
                work(piece, &|epilogue| {
                    // SAFETY: all rows were quantized above; a worker is prepared.
                    unsafe { int8_chunk(piece.worker, part, layer, panels, piece.blocks.clone(), epilogue, false) };
                });
            });
        }),
    }
}

fn share_out(compute: &Compute, rows: usize, layer: &Linear, blocks_a_piece: usize, work: impl Fn(&Piece) + Sync) {
    let (row_chunks, blocks) = (rows.div_ceil(CHUNK), layer.blocks());
    let column_pieces = blocks.div_ceil(blocks_a_piece);
    compute.parallel_for(row_chunks * column_pieces, |piece, worker| {
        let first_row = piece / column_pieces * CHUNK;
        let first_block = piece % column_pieces * blocks_a_piece;
        work(&Piece {
            worker,
            rows: first_row..(first_row + CHUNK).min(rows),
            blocks: first_block..(first_block + blocks_a_piece).min(blocks),
        });
    });
}

/// The calling thread's own product: up to [`CHUNK`] rows, all columns. `by_rows` says whether `epilogue` may get a block a
/// few rows at a time.
///
/// # Panics
/// When there are more rows than a chunk, or the view does not reach them.
pub fn matmul_chunk(worker: &Worker, rows: Rows, layer: &Linear, epilogue: EpilogueFn, by_rows: bool) {
    layer.check(&rows);
    match &layer.panels {
        // SAFETY: the view was checked above; a worker is prepared.
        Panels::Bf16(panels) => unsafe {
            bf16_chunk(worker, rows, layer, panels, 0..layer.blocks(), epilogue);
        },
        Panels::Int8(panels) => QUANTIZED.with_borrow_mut(|quantized| {
            let stride = quantized.reserve(rows.count(), layer.inputs);
            let (numbers, scales) = (quantized.numbers.as_mut_ptr(), quantized.scales.as_mut_ptr());
            let quantized_rows = Int8Rows { start: numbers, stride, scales, count: rows.count() };
            // SAFETY: the view was checked above, and there is room for its rows; a worker is prepared.
            unsafe {
                quantize_rows(worker.compute(), rows, layer.inputs, numbers, stride, scales);
                int8_chunk(worker, quantized_rows, layer, panels, 0..layer.blocks(), epilogue, by_rows);
            }
        }),
    }
}

/// # Safety
/// The view was checked, and `blocks` are the layer's.
unsafe fn bf16_chunk(
    worker: &Worker,
    rows: Rows,
    layer: &Linear,
    panels: &Buffer<u16>,
    blocks: Range<usize>,
    epilogue: EpilogueFn,
) {
    let whole_depth = layer.inputs.div_ceil(DEPTH);
    in_parts(layer, rows.count(), whole_depth, blocks, epilogue, |block, tile, depth, sums| {
        let panel = |index: usize| panels[index * whole_depth * TILE..].as_ptr();
        let (left, right) = (panel(block * 2), panel(block * 2 + 1));
        for row in (0..rows.count()).step_by(BLOCK) {
            // SAFETY: `rows` and the panels have the stated shapes and padding; `sums` has CHUNK rows.
            unsafe {
                (worker.kernels().block)(&Block {
                    a: rows.at(row, tile * DEPTH),
                    a_stride: rows.stride(),
                    left: left.add(tile * TILE),
                    right: right.add(tile * TILE),
                    c: sums.add(row * BLOCK),
                    c_stride: BLOCK,
                    depth,
                    rows: BLOCK.min(rows.count() - row),
                    accumulate: tile > 0,
                });
            }
        }
    });
}

/// # Safety
/// As for [`bf16_chunk`]; the rows have been quantized.
unsafe fn int8_chunk(
    worker: &Worker,
    rows: Int8Rows,
    layer: &Linear,
    panels: &Int8Panels,
    blocks: Range<usize>,
    epilogue: EpilogueFn,
    by_rows: bool,
) {
    let whole_depth = layer.inputs.div_ceil(INT8_DEPTH);
    if let Some(chunk) = worker.compute().int8.chunk
        && (rows.count.is_multiple_of(BLOCK) || rows.count % BLOCK > BLOCK / 2)
    {
        assert!(rows.count <= CHUNK && blocks.end <= layer.blocks(), "a chunk of the product");
        // SAFETY: `rows` and the panels have the stated shapes and padding.
        unsafe {
            chunk(&Int8Chunk {
                a: rows.start,
                a_stride: rows.stride,
                row_scales: rows.scales,
                rows: rows.count,
                panels: panels.numbers.as_ptr(),
                depth: whole_depth,
                offsets: panels.offsets.as_ptr(),
                column_scales: panels.scales.as_ptr(),
                bias: layer.bias.as_ptr(),
                blocks,
                epilogue,
                by_rows,
            });
        }
        return;
    }
    in_parts(layer, rows.count, whole_depth, blocks, epilogue, |block, tile, depth, sums| {
        let panel = |index: usize| panels.numbers[index * whole_depth * INT8_TILE..].as_ptr();
        let (left, right) = (panel(block * 2), panel(block * 2 + 1));
        for row in (0..rows.count).step_by(BLOCK) {
            // SAFETY: `rows` and the panels have the stated shapes and padding; `sums` has CHUNK rows.
            unsafe {
                (worker.compute().int8.block)(&Int8Block {
                    a: rows.start.add(row * rows.stride + tile * INT8_DEPTH),
                    a_stride: rows.stride,
                    left: left.add(tile * INT8_TILE),
                    right: right.add(tile * INT8_TILE),
                    sums: sums.add(row * BLOCK).cast(),
                    depth,
                    rows: BLOCK.min(rows.count - row),
                    offsets: panels.offsets[block * BLOCK..].as_ptr(),
                    is_first: tile == 0,
                    is_last: tile + depth == whole_depth,
                    row_scales: rows.scales.add(row),
                    column_scales: panels.scales[block * BLOCK..].as_ptr(),
                });
            }
        }
    });
}

/// For every block of columns: the sums of up to [`CHUNK`] rows by `sum(block, first tile, tiles, sums)`, part by part of
/// the depth, and their epilogue.
fn in_parts(
    layer: &Linear,
    rows: usize,
    whole_depth: usize,
    blocks: Range<usize>,
    epilogue: EpilogueFn,
    sum: impl Fn(usize, usize, usize, *mut f32),
) {
    assert!(rows <= CHUNK, "a chunk of rows");
    let mut sums = Sums(std::mem::MaybeUninit::uninit());
    let sums = sums.0.as_mut_ptr().cast::<f32>();
    for block in blocks {
        for tile in (0..whole_depth).step_by(DEPTH_CHUNK) {
            sum(block, tile, DEPTH_CHUNK.min(whole_depth - tile), sums);
        }
        for row in (0..rows).step_by(BLOCK) {
            let done = BlockEpilogue {
                // SAFETY: inside the CHUNK × 32 sums; these rows were written above.
                sums: unsafe { std::slice::from_raw_parts(sums.add(row * BLOCK), BLOCK.min(rows - row) * BLOCK) },
                rows: BLOCK.min(rows - row),
                bias: &layer.bias[block * BLOCK..][..BLOCK],
                gelu: false,
            };
            epilogue(&done, row, block * BLOCK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::math::to_bf16;
    use crate::{Isa, Weights};
    use std::sync::Mutex;

    #[test]
    fn int8_chunks_are_the_same_on_every_set_whole_or_by_rows() {
        let mut state = 5u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        // One tile, a few, as many as are taken at once, and more; blocks of rows that are whole, long and short.
        for (inputs, count) in [
            (64, 32usize),
            (240, 192),
            (512, 156),
            (1024, 60),
            (1280, 64),
            (1536, 192),
            (1280, 33),
            (2048, 192),
            (2048, 28),
        ] {
            let outputs = 96;
            let weights: Vec<f32> = (0..outputs * inputs).map(|_| next()).collect();
            let bias: Vec<f32> = (0..outputs).map(|_| next()).collect();
            let layer = Linear::pack(&weights, outputs, inputs, Some(&bias), Weights::Int8);
            let stride = inputs + 32;
            let mut input = Buffer::<u16>::zeroed(count.next_multiple_of(BLOCK) * stride);
            input.iter_mut().for_each(|x| *x = to_bf16(next()));
            let run = |isa: Isa, by_rows: bool| {
                let out = Mutex::new(vec![f32::NAN; count * outputs]);
                let rows = Rows::new(&input, stride, count);
                Compute::new(1, isa).parallel_for(1, |_, worker| {
                    let epilogue = |done: &BlockEpilogue, row: usize, column: usize| {
                        let mut out = out.lock().expect("nothing panicked");
                        for beside in 0..done.rows * BLOCK {
                            let sum = done.sums[beside] + done.bias[beside % BLOCK];
                            let place = &mut out[(row + beside / BLOCK) * outputs + column + beside % BLOCK];
                            assert!(place.is_nan(), "a sum is finished once");
                            *place = sum;
                        }
                    };
                    matmul_chunk(worker, rows, &layer, &epilogue, by_rows);
                });
                out.into_inner().expect("nothing panicked")
            };
            let expected = run(Isa::Portable, false);
            assert!(expected.iter().all(|sum| sum.is_finite()), "all sums are made");
            for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
                for by_rows in [false, true] {
                    let message = format!("{}, {count} rows of {inputs}, by rows: {by_rows}", isa.name());
                    assert_eq!(run(isa, by_rows), expected, "{message}");
                }
            }
        }
    }
}
