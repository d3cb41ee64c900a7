//! Linear layers: packed weights and the loop that shares a product out among the team.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::str::FromStr;

use crate::Compute;
use crate::buffer::Buffer;
use crate::kernels::bytes::{self, BYTE_DEPTH, BYTE_TILE, ByteBlock, ByteChunk};
use crate::kernels::math::{from_bf16, to_bf16};
use crate::kernels::{BLOCK, Block, DEPTH, Finish, PANEL, TILE};

/// How the weights of a layer are kept, and so what its products are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weights {
    /// bf16 weights times bf16 activations.
    Bf16,
    /// Bytes times bytes, see [`super::kernels::bytes`].
    #[default]
    Int8,
}

impl Weights {
    /// Every way.
    pub const ALL: [Weights; 2] = [Weights::Bf16, Weights::Int8];

    /// The name used in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Weights::Bf16 => "bf16",
            Weights::Int8 => "int8",
        }
    }
}

impl FromStr for Weights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Weights::ALL.into_iter().find(|weights| weights.name() == text);
        found.ok_or_else(|| format!("unknown kind of weights '{text}': use bf16 or int8"))
    }
}

/// The weights of a linear layer, packed in panels, with the bias.
pub struct Linear {
    panels: Panels,
    bias: Buffer<f32>,
    /// Output columns, a multiple of 32; columns beyond the layer's own are zero.
    columns: usize,
    inputs: usize,
}

enum Panels {
    /// In the layout of [`super::kernels`].
    Halves(Buffer<u16>),
    /// In the layout of [`super::kernels::bytes`].
    Bytes(BytePanels),
}

struct BytePanels {
    numbers: Buffer<i8>,
    /// For each column what one unit is worth.
    units: Buffer<f32>,
    /// For each column what its sums begin with.
    starts: Buffer<i32>,
}

impl Linear {
    /// Packs `weights[outputs][inputs]`; inputs are padded to whole tiles with zeros.
    pub fn pack(weights: &[f32], outputs: usize, inputs: usize, bias: Option<&[f32]>, kept: Weights) -> Self {
        assert_eq!(weights.len(), outputs * inputs, "weights have the stated shape");
        let columns = outputs.next_multiple_of(BLOCK);
        let mut padded_bias = Buffer::zeroed(columns);
        if let Some(bias) = bias {
            padded_bias[..outputs].copy_from_slice(bias);
        }
        let panels = match kept {
            Weights::Bf16 => Panels::Halves(pack_halves(weights, columns, inputs)),
            Weights::Int8 => Panels::Bytes(BytePanels::pack(weights, columns, inputs)),
        };
        Linear { panels, bias: padded_bias, columns, inputs }
    }

    /// Output columns, padded to a multiple of 32.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Blocks of 32 output columns.
    pub fn blocks(&self) -> usize {
        self.columns / BLOCK
    }

    /// Checks that a view can be multiplied: see [`Rows`].
    fn check(&self, rows: &Rows) {
        rows.check(self.inputs.next_multiple_of(DEPTH), PANEL);
    }

    /// Bytes that it takes, bias and scales included.
    pub fn memory(&self) -> u64 {
        let panels = match &self.panels {
            Panels::Halves(panels) => panels.bytes(),
            Panels::Bytes(panels) => panels.numbers.bytes() + panels.units.bytes() + panels.starts.bytes(),
        };
        panels + self.bias.bytes()
    }

    /// Bytes of packed weights, which one application reads.
    pub fn bytes(&self) -> usize {
        match &self.panels {
            Panels::Halves(panels) => panels.len() * 2,
            Panels::Bytes(panels) => panels.numbers.len(),
        }
    }

    /// The weight from input `k` to `output`, as it was rounded.
    pub fn weight(&self, output: usize, k: usize) -> f32 {
        let (panel, column) = (output / PANEL, output % PANEL);
        match &self.panels {
            Panels::Halves(panels) => {
                from_bf16(panels[panel * self.inputs.div_ceil(DEPTH) * TILE + index_in_panel(k, column)])
            }
            Panels::Bytes(panels) => {
                let place = panel * self.inputs.div_ceil(BYTE_DEPTH) * BYTE_TILE + bytes::index_in_panel(k, column);
                f32::from(panels.numbers[place]) * panels.units[output]
            }
        }
    }
}

fn pack_halves(weights: &[f32], columns: usize, inputs: usize) -> Buffer<u16> {
    let a_panel = inputs.div_ceil(DEPTH) * TILE;
    let mut panels = Buffer::zeroed(columns / PANEL * a_panel);
    for (output, row) in weights.chunks_exact(inputs).enumerate() {
        let panel = &mut panels[output / PANEL * a_panel..][..a_panel];
        for (input, &weight) in row.iter().enumerate() {
            panel[index_in_panel(input, output % PANEL)] = to_bf16(weight);
        }
    }
    panels
}

impl BytePanels {
    fn pack(weights: &[f32], columns: usize, inputs: usize) -> Self {
        let a_panel = inputs.div_ceil(BYTE_DEPTH) * BYTE_TILE;
        let mut numbers = Buffer::zeroed(columns / PANEL * a_panel);
        let (mut units, mut starts) = (Buffer::zeroed(columns), Buffer::zeroed(columns));
        for (output, row) in weights.chunks_exact(inputs).enumerate() {
            let largest = row.iter().fold(0f32, |largest, weight| largest.max(weight.abs()));
            let inverse = bytes::inverse_unit(largest);
            let panel = &mut numbers[output / PANEL * a_panel..][..a_panel];
            let mut total = 0;
            for (input, weight) in row.iter().enumerate() {
                let number = bytes::nearest(weight * inverse);
                panel[bytes::index_in_panel(input, output % PANEL)] = number;
                total += i32::from(number);
            }
            units[output] = largest / bytes::LARGEST;
            starts[output] = -i32::from(bytes::ZERO) * total;
        }
        BytePanels { numbers, units, starts }
    }
}

/// Where element `(k, column)` lies inside a panel.
#[inline(always)]
pub fn index_in_panel(k: usize, column: usize) -> usize {
    (k / DEPTH) * TILE + ((k % DEPTH) / 2) * 2 * PANEL + column * 2 + k % 2
}

/// bf16 activations: a view of `count` rows, `stride` elements apart.
///
/// Kernels read whole blocks: rows up to a multiple of 16, and of each up to a multiple of 32 elements. What uses a view
/// checks that so much is there.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    start: *const u16,
    /// Elements that can be read from `start` on.
    reach: usize,
    stride: usize,
    count: usize,
    memory: PhantomData<&'a [u16]>,
}

// SAFETY: a view that is only read through, as a shared slice is.
unsafe impl Send for Rows<'_> {}
// SAFETY: as above.
unsafe impl Sync for Rows<'_> {}

impl<'a> Rows<'a> {
    /// `count` rows that begin with `memory`, `stride` elements apart.
    pub fn new(memory: &'a [u16], stride: usize, count: usize) -> Self {
        Rows { start: memory.as_ptr(), reach: memory.len(), stride, count, memory: PhantomData }
    }

    /// As [`Rows::new`], over memory of which others write other rows meanwhile.
    ///
    /// # Safety
    /// For `'a`, `reach` elements can be read from `start` on, and nobody writes the rows while they are read.
    pub unsafe fn from_raw(start: *const u16, reach: usize, stride: usize, count: usize) -> Self {
        Rows { start, reach, stride, count, memory: PhantomData }
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The address of an element.
    #[inline(always)]
    pub fn at(&self, row: usize, column: usize) -> *const u16 {
        self.start.wrapping_add(row * self.stride + column)
    }

    /// Elements from one row to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// `count` rows from `first` on, starting at `column`.
    pub fn part(&self, first: usize, count: usize, column: usize) -> Rows<'a> {
        let offset = first * self.stride + column;
        assert!(offset <= self.reach, "the part begins inside the view");
        Rows { start: self.at(first, column), reach: self.reach - offset, count, ..*self }
    }

    /// Checks that `width` elements of every row can be read, and of rows up to a multiple of `block`.
    pub fn check(&self, width: usize, block: usize) {
        let rows = self.count.next_multiple_of(block);
        let needed = rows.checked_sub(1).map_or(Some(0), |last| last.checked_mul(self.stride)?.checked_add(width));
        assert!(needed.is_some_and(|needed| needed <= self.reach), "the view reaches all rows and their padding");
    }
}

/// Activations rounded to bytes, with room to read up to a multiple of 32 rows.
#[derive(Clone, Copy)]
struct ByteRows {
    start: *const u8,
    stride: usize,
    /// For each row what a unit is worth.
    units: *const f32,
    count: usize,
}

// SAFETY: a view that members only read through.
unsafe impl Sync for ByteRows {}

impl ByteRows {
    fn part(&self, first: usize, count: usize) -> ByteRows {
        let start = self.start.wrapping_add(first * self.stride);
        ByteRows { start, units: self.units.wrapping_add(first), count, ..*self }
    }
}

/// Where a thread rounds activations to bytes; grows with the largest product.
struct Rounding {
    numbers: Buffer<u8>,
    units: Buffer<f32>,
}

thread_local! {
    static ROUNDING: RefCell<Rounding> = RefCell::new(Rounding { numbers: Buffer::zeroed(0), units: Buffer::zeroed(0) });
}

impl Rounding {
    /// Makes room for `count` rows of `inputs` numbers; they begin a cache line more than their length apart, so that
    /// they do not fall on the same few cache sets.
    fn room(&mut self, count: usize, inputs: usize) -> usize {
        let stride = inputs.next_multiple_of(BYTE_DEPTH) + BYTE_DEPTH;
        let rows = count.next_multiple_of(BLOCK);
        if self.numbers.len() < rows * stride {
            self.numbers = Buffer::zeroed(rows * stride);
        }
        if self.units.len() < rows {
            self.units = Buffer::zeroed(rows);
        }
        stride
    }
}

/// Rounds `rows` of `inputs` numbers to `numbers` and `units`.
///
/// # Safety
/// `numbers` and `units` have room for all rows, nobody else uses it, and the view reaches `inputs` elements of each row.
unsafe fn round_rows(compute: &Compute, rows: Rows, inputs: usize, numbers: *mut u8, stride: usize, units: *mut f32) {
    for row in 0..rows.count {
        // SAFETY: the caller vouches for the rows and the room.
        unsafe {
            let unit = (compute.bytes.round_row)(rows.at(row, 0), inputs, numbers.add(row * stride));
            *units.add(row) = unit;
        }
    }
}

/// Rows that one member works on at a time: with 512 inputs they fill a tenth of the second-level cache, so a
/// panel of weights is read once and used for all of them.
pub const CHUNK: usize = 192;
/// Tiles along the input taken at once: two panels are then 32 KB and stay in the first-level cache.
const DEPTH_CHUNK: usize = 16;
/// Rows that one member rounds at a time.
const ROUND_ROWS: usize = 16;

#[repr(C, align(64))]
struct Sums(std::mem::MaybeUninit<[f32; CHUNK * BLOCK]>);

/// What is done with finished sums: `(block, first row, first column)`.
pub type FinishBlock<'a> = &'a dyn Fn(&Finish, usize, usize);

/// `rows · weights`, block by block, shared out among the team; `finish` gets the sums of up to 32 rows.
///
/// Cost: `rows · columns · inputs` multiply-adds; weights are read once for every 192 rows.
pub fn apply(compute: &Compute, rows: Rows, layer: &Linear, finish: &(dyn Fn(&Finish, usize, usize) + Sync)) {
    // Enough pieces that a late member leaves work to the others, not so many that claiming them costs.
    let wanted = (compute.team.members() * 4).div_ceil(rows.count.div_ceil(CHUNK).max(1));
    let blocks_a_piece = layer.blocks().div_ceil(wanted).clamp(1, RUN / BLOCK);
    in_pieces(compute, rows, layer, blocks_a_piece, &|piece, multiply| {
        multiply(&|done, row, column| finish(done, piece.rows.start + row, column));
    });
}

/// Columns of a [`Run`].
pub const RUN: usize = 16 * BLOCK;
/// Sums from one row of a run to the next: a cache line more than they are, so that rows do not fall on the same cache sets.
const RUN_STRIDE: usize = RUN + 16;

/// The sums of up to 192 rows and [`RUN`] neighbouring columns, in the second-level cache of the member that made them.
pub struct Run<'a> {
    /// The member.
    pub member: usize,
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

/// `rows · weights` without bias, for a layer of many columns whose sums are looked at and forgotten: written to memory
/// they would be as many bytes as the weights.
///
/// A member gets its runs in the order of their columns.
pub fn apply_in_runs(compute: &Compute, rows: Rows, layer: &Linear, look: &(dyn Fn(Run) + Sync)) {
    in_pieces(compute, rows, layer, RUN / BLOCK, &|piece, multiply| {
        RUN_SUMS.with_borrow_mut(|sums| {
            let room = piece.rows.len().next_multiple_of(BLOCK) * RUN_STRIDE;
            if sums.len() < room {
                *sums = Buffer::zeroed(room);
            }
            let first = piece.blocks.start * BLOCK;
            let to = sums.shared();
            multiply(&|done, row, column| {
                for line in 0..done.rows {
                    // SAFETY: a block's sums are 32 columns, and there is room for all rows of the piece.
                    unsafe {
                        let place = to.at((row + line) * RUN_STRIDE + column - first);
                        std::ptr::copy_nonoverlapping(done.sums.add(line * BLOCK), place, BLOCK);
                    }
                }
            });
            let columns = first..piece.blocks.end * BLOCK;
            look(Run { member: piece.member, rows: piece.rows.clone(), columns, sums: &mut sums[..] });
        });
    });
}

/// One member's part of a product: up to [`CHUNK`] rows and some blocks of columns.
struct Piece {
    member: usize,
    rows: Range<usize>,
    blocks: Range<usize>,
}

/// Makes the sums of a piece and hands them to what it is given, rows counted from the piece's first.
type Multiply<'a> = &'a dyn Fn(FinishBlock);

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
        Panels::Halves(panels) => share_out(compute, rows.count, layer, blocks_a_piece, |piece| {
            let part = rows.part(piece.rows.start, piece.rows.len(), 0);
            work(piece, &|finish| {
                // SAFETY: the view was checked above; a piece runs on a prepared member.
                unsafe { chunk_of_halves(compute, part, layer, panels, piece.blocks.clone(), finish) };
            });
        }),
        Panels::Bytes(panels) => ROUNDING.with_borrow_mut(|rounding| {
            let stride = rounding.room(rows.count, layer.inputs);
            let (numbers, units) = (rounding.numbers.shared(), rounding.units.shared());
            compute.each(rows.count.div_ceil(ROUND_ROWS), |piece, _| {
                let first = piece * ROUND_ROWS;
                let part = rows.part(first, ROUND_ROWS.min(rows.count - first), 0);
                // SAFETY: the view was checked above; there is room for all rows, and these are this piece's own.
                unsafe { round_rows(compute, part, layer.inputs, numbers.at(first * stride), stride, units.at(first)) };
            });
            let rounded = ByteRows { start: numbers.at(0), stride, units: units.at(0), count: rows.count };
            share_out(compute, rows.count, layer, blocks_a_piece, |piece| {
                let part = rounded.part(piece.rows.start, piece.rows.len());
                work(piece, &|finish| {
                    // SAFETY: all rows were rounded above; a piece runs on a prepared member.
                    unsafe { chunk_of_bytes(compute, part, layer, panels, piece.blocks.clone(), finish, false) };
                });
            });
        }),
    }
}

fn share_out(compute: &Compute, rows: usize, layer: &Linear, blocks_a_piece: usize, work: impl Fn(&Piece) + Sync) {
    let (row_chunks, blocks) = (rows.div_ceil(CHUNK), layer.blocks());
    let column_pieces = blocks.div_ceil(blocks_a_piece);
    compute.each(row_chunks * column_pieces, |piece, member| {
        let first_row = piece / column_pieces * CHUNK;
        let first_block = piece % column_pieces * blocks_a_piece;
        work(&Piece {
            member,
            rows: first_row..(first_row + CHUNK).min(rows),
            blocks: first_block..(first_block + blocks_a_piece).min(blocks),
        });
    });
}

/// The calling member's own product: up to [`CHUNK`] rows, all columns. `by_rows` says whether `finish` may get a block a
/// few rows at a time.
///
/// # Safety
/// The calling thread has been prepared: it runs a piece of [`Compute::each`].
pub unsafe fn apply_chunk(compute: &Compute, rows: Rows, layer: &Linear, finish: FinishBlock, by_rows: bool) {
    layer.check(&rows);
    match &layer.panels {
        // SAFETY: the view was checked above; the caller vouches for the thread.
        Panels::Halves(panels) => unsafe {
            chunk_of_halves(compute, rows, layer, panels, 0..layer.blocks(), finish);
        },
        Panels::Bytes(panels) => ROUNDING.with_borrow_mut(|rounding| {
            let stride = rounding.room(rows.count, layer.inputs);
            let (numbers, units) = (rounding.numbers.as_mut_ptr(), rounding.units.as_mut_ptr());
            let rounded = ByteRows { start: numbers, stride, units, count: rows.count };
            // SAFETY: the view was checked above, and there is room for its rows; the caller vouches for the thread.
            unsafe {
                round_rows(compute, rows, layer.inputs, numbers, stride, units);
                chunk_of_bytes(compute, rounded, layer, panels, 0..layer.blocks(), finish, by_rows);
            }
        }),
    }
}

/// # Safety
/// The view was checked, the thread prepared, and `blocks` are the layer's.
unsafe fn chunk_of_halves(
    compute: &Compute,
    rows: Rows,
    layer: &Linear,
    panels: &Buffer<u16>,
    blocks: Range<usize>,
    finish: FinishBlock,
) {
    let whole_depth = layer.inputs.div_ceil(DEPTH);
    in_parts(layer, rows.count, whole_depth, blocks, finish, |block, tile, depth, sums| {
        let panel = |index: usize| panels[index * whole_depth * TILE..].as_ptr();
        let (left, right) = (panel(block * 2), panel(block * 2 + 1));
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
    });
}

/// # Safety
/// As for [`chunk_of_halves`]; the rows have been rounded.
unsafe fn chunk_of_bytes(
    compute: &Compute,
    rows: ByteRows,
    layer: &Linear,
    panels: &BytePanels,
    blocks: Range<usize>,
    finish: FinishBlock,
    by_rows: bool,
) {
    let whole_depth = layer.inputs.div_ceil(BYTE_DEPTH);
    if let Some(chunk) = compute.bytes.chunk
        && (rows.count.is_multiple_of(BLOCK) || rows.count % BLOCK > BLOCK / 2)
    {
        assert!(rows.count <= CHUNK && blocks.end <= layer.blocks(), "a chunk of the product");
        // SAFETY: `rows` and the panels have the stated shapes and padding.
        unsafe {
            chunk(&ByteChunk {
                a: rows.start,
                a_stride: rows.stride,
                row_units: rows.units,
                rows: rows.count,
                panels: panels.numbers.as_ptr(),
                depth: whole_depth,
                starts: panels.starts.as_ptr(),
                column_units: panels.units.as_ptr(),
                bias: layer.bias.as_ptr(),
                blocks,
                finish,
                by_rows,
            });
        }
        return;
    }
    in_parts(layer, rows.count, whole_depth, blocks, finish, |block, tile, depth, sums| {
        let panel = |index: usize| panels.numbers[index * whole_depth * BYTE_TILE..].as_ptr();
        let (left, right) = (panel(block * 2), panel(block * 2 + 1));
        for row in (0..rows.count).step_by(BLOCK) {
            // SAFETY: `rows` and the panels have the stated shapes and padding; `sums` has CHUNK rows.
            unsafe {
                (compute.bytes.block)(&ByteBlock {
                    a: rows.start.add(row * rows.stride + tile * BYTE_DEPTH),
                    a_stride: rows.stride,
                    left: left.add(tile * BYTE_TILE),
                    right: right.add(tile * BYTE_TILE),
                    sums: sums.add(row * BLOCK).cast(),
                    depth,
                    rows: BLOCK.min(rows.count - row),
                    starts: panels.starts[block * BLOCK..].as_ptr(),
                    is_first: tile == 0,
                    is_last: tile + depth == whole_depth,
                    row_units: rows.units.add(row),
                    column_units: panels.units[block * BLOCK..].as_ptr(),
                });
            }
        }
    });
}

/// For every block of columns: the sums of up to [`CHUNK`] rows by `sum(block, first tile, tiles, sums)`, part by part of
/// the depth, and their finish.
fn in_parts(
    layer: &Linear,
    rows: usize,
    whole_depth: usize,
    blocks: Range<usize>,
    finish: FinishBlock,
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
            let done = Finish {
                // SAFETY: inside the CHUNK × 32 sums written above.
                sums: unsafe { sums.add(row * BLOCK) },
                rows: BLOCK.min(rows - row),
                bias: layer.bias[block * BLOCK..].as_ptr(),
                gelu: false,
            };
            finish(&done, row, block * BLOCK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use std::cell::RefCell;

    #[test]
    fn chunks_of_bytes_are_the_same_on_every_set_however_they_are_finished() {
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
                let compute = Compute::new(1, isa);
                let out = RefCell::new(vec![f32::NAN; count * outputs]);
                let rows = Rows::new(&input, stride, count);
                let finish = |done: &Finish, row: usize, column: usize| {
                    for beside in 0..done.rows * BLOCK {
                        // SAFETY: the sums have `rows` rows of 32, and there are as many biases.
                        let sum = unsafe { *done.sums.add(beside) + *done.bias.add(beside % BLOCK) };
                        let place = &mut out.borrow_mut()[(row + beside / BLOCK) * outputs + column + beside % BLOCK];
                        assert!(place.is_nan(), "a sum is finished once");
                        *place = sum;
                    }
                };
                // SAFETY: the set is available, and the thread is prepared.
                unsafe {
                    (compute.kernels.prepare)();
                    apply_chunk(&compute, rows, &layer, &finish, by_rows);
                }
                out.into_inner()
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
