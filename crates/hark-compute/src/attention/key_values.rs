//! Keys and values as bf16 panels.

use std::marker::PhantomData;

use crate::Compute;
use crate::buffer::{Buffer, SharedMut};
use crate::kernels::{BLOCK, BlockEpilogue, DEPTH, HEAD, Kernels, PANEL, TILE};

/// Pairs of frames in the order in which a tile of values holds them, unless kernels want another.
pub const IN_ORDER: [usize; DEPTH / 2] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// The keys and values of one layer of one window, in panels, head by head.
pub struct KeyValues {
    keys: Buffer<u16>,
    values: Buffer<u16>,
    pub(super) frames: usize,
}

impl KeyValues {
    /// Workspace for `heads` heads and `frames` frames.
    ///
    /// # Panics
    /// When so many do not fit the address space.
    pub fn new(heads: usize, frames: usize) -> Self {
        // Checked, since kernels rely on the panels being as long as the frames say.
        let len =
            frames.checked_next_multiple_of(BLOCK).and_then(|padded| padded.checked_mul(HEAD)?.checked_mul(heads));
        let len = len.expect("keys fit the address space");
        KeyValues { keys: Buffer::zeroed(len), values: Buffer::zeroed(len), frames }
    }

    /// Frames with the padding up to whole blocks.
    pub fn padded_frames(frames: usize) -> usize {
        frames.next_multiple_of(BLOCK)
    }

    /// Frames, padded to whole blocks.
    pub fn padded(&self) -> usize {
        Self::padded_frames(self.frames)
    }

    /// How many heads there is workspace for.
    pub fn heads(&self) -> usize {
        self.keys.len() / self.a_head()
    }

    /// Gives its memory back until it is written again.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.keys.bytes() + self.values.bytes()
    }

    /// All keys of a head, panel after panel.
    pub fn keys_of(&self, head: usize) -> &[u16] {
        &self.keys[head * self.a_head()..][..self.a_head()]
    }

    /// All values of a head, panel after panel.
    pub fn values_of(&self, head: usize) -> &[u16] {
        &self.values[head * self.a_head()..][..self.a_head()]
    }

    /// Elements of the keys, or the values, of one head.
    pub(super) fn a_head(&self) -> usize {
        self.padded() * HEAD
    }

    /// What writes finished blocks of the key and value projections, pairs of frames of the values in the order of `pairs`.
    pub fn writers<'a>(
        &'a mut self,
        compute: &Compute,
        pairs: &'static [usize; DEPTH / 2],
    ) -> (KeyWriter<'a>, ValueWriter<'a>) {
        let (padded, kernels) = (self.padded(), compute.kernels);
        let columns = self.keys.len() / padded;
        let keys = KeyWriter { keys: self.keys.shared(), padded, columns, kernels, owner: PhantomData };
        let values = ValueWriter { values: self.values.shared(), padded, columns, pairs, kernels, owner: PhantomData };
        (keys, values)
    }
}

/// Writes finished blocks of the key projection.
pub struct KeyWriter<'a> {
    keys: SharedMut<u16>,
    padded: usize,
    columns: usize,
    kernels: &'static Kernels,
    owner: PhantomData<&'a mut KeyValues>,
}

impl KeyWriter<'_> {
    /// Writes a block: frames `row..`, columns `column..`, both at whole blocks.
    ///
    /// # Safety
    /// `done` describes a block, and nobody writes or reads the same frames and columns at the same time.
    pub unsafe fn write(&self, done: &BlockEpilogue, row: usize, column: usize) {
        check_block(done, row, column, self.padded, self.columns);
        let mut block = [[0u16; BLOCK]; BLOCK];
        // SAFETY: the block has 32 rows of 32, and its tiles lie inside the keys.
        unsafe {
            (self.kernels.epilogue_bf16)(done, block.as_mut_ptr().cast(), BLOCK);
            let panel = self.keys.at(column / HEAD * self.padded * HEAD + row / PANEL * PANEL * HEAD);
            let tile = panel.add(column % HEAD / DEPTH * TILE);
            for half in 0..done.rows.div_ceil(PANEL) {
                (self.kernels.transpose_keys)(block[half * PANEL..].as_ptr().cast(), tile.add(half * PANEL * HEAD));
            }
        }
    }
}

/// Writes finished blocks of the value projection.
pub struct ValueWriter<'a> {
    values: SharedMut<u16>,
    padded: usize,
    columns: usize,
    pairs: &'static [usize; DEPTH / 2],
    kernels: &'static Kernels,
    owner: PhantomData<&'a mut KeyValues>,
}

impl ValueWriter<'_> {
    /// Writes a block, as [`KeyWriter::write`] does.
    ///
    /// # Safety
    /// As for [`KeyWriter::write`].
    pub unsafe fn write(&self, done: &BlockEpilogue, row: usize, column: usize) {
        check_block(done, row, column, self.padded, self.columns);
        let mut block = [[0u16; BLOCK]; BLOCK];
        // SAFETY: the block has 32 rows of 32, and its tiles lie inside the values.
        unsafe {
            (self.kernels.epilogue_bf16)(done, block.as_mut_ptr().cast(), BLOCK);
            for half in 0..2 {
                let column = column + half * PANEL;
                let head = column / HEAD * self.padded * HEAD;
                let panel = self.values.at(head + column % HEAD / PANEL * PANEL * self.padded);
                let from = block.as_ptr().cast::<u16>().add(half * PANEL);
                (self.kernels.interleave_values)(from, self.pairs, panel.add(row / DEPTH * TILE));
            }
        }
    }
}

/// Checks that a block lies at a whole block of `padded` frames and `columns` columns.
fn check_block(done: &BlockEpilogue, row: usize, column: usize, padded: usize, columns: usize) {
    let is_whole = row.is_multiple_of(BLOCK) && column.is_multiple_of(BLOCK);
    assert!(is_whole && row < padded && column < columns, "a block of the projection");
    done.check();
}
