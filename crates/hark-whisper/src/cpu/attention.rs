//! Attention over the frames of a window: the encoder's own, and the decoder's look at the encoder.
//!
//! Keys and values are kept in panels, ready to be the right-hand side of a product, one [`KeyValues`] for each
//! layer of each window. Scores are made, exponentiated and used chunk by chunk in the first-level cache; they never
//! go to memory.

use super::Compute;
use super::buffer::{Buffer, SharedMut};
use super::cache::FrameCache;
use super::kernels::math::{from_bf16, to_bf16};
use super::kernels::{BLOCK, Block, DEPTH, Finish, HEAD, PANEL, SoftmaxBlock, TILE};
use super::linear::Rows;

/// Scores are base-2 exponents: 1/sqrt(64) · log2(e).
pub const SCALE: f32 = 0.125 * std::f32::consts::LOG2_E;

/// Keys of one chunk: 32 query rows × 128 scores and their weights are 28 KB.
const CHUNK: usize = 128;
/// A row of scores is padded by a cache line, so that rows do not fall on the same cache sets.
const SCORES_STRIDE: usize = CHUNK + 16;
/// A row of bf16 weights is padded by a cache line so that rows do not fall on the same cache sets.
const WEIGHTS_STRIDE: usize = CHUNK + 32;

/// The keys and values of one layer of one window, in panels, head by head.
pub struct KeyValues {
    keys: Buffer<u16>,
    values: Buffer<u16>,
    frames: usize,
}

impl KeyValues {
    /// Room for `heads` heads and `frames` frames.
    pub fn new(heads: usize, frames: usize) -> Self {
        let a_head = frames.next_multiple_of(BLOCK) * HEAD;
        KeyValues { keys: Buffer::zeroed(heads * a_head), values: Buffer::zeroed(heads * a_head), frames }
    }

    /// Frames with the padding up to whole blocks.
    pub fn padded_frames(frames: usize) -> usize {
        frames.next_multiple_of(BLOCK)
    }

    fn padded(&self) -> usize {
        Self::padded_frames(self.frames)
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
    fn a_head(&self) -> usize {
        self.padded() * HEAD
    }

    /// Where a finished block of the key projection goes: frames `row..`, columns `column..`.
    pub fn key_writer(&mut self, compute: &Compute) -> impl Fn(&Finish, usize, usize) + Sync + use<> {
        let (keys, a_head, finish_bf16) = (self.keys.shared(), self.a_head(), compute.kernels.finish_bf16);
        move |done, row, column| {
            let mut block = [[0u16; BLOCK]; BLOCK];
            // SAFETY: the block has 32 rows of 32; each block of the projection is finished once, and different
            // blocks go to different tiles.
            unsafe {
                finish_bf16(done, block.as_mut_ptr().cast(), BLOCK);
                let panel = keys.at(column / HEAD * a_head + row / PANEL * PANEL * HEAD);
                let tile = panel.add(column % HEAD / DEPTH * TILE);
                for half in 0..done.rows.div_ceil(PANEL) {
                    let out = &mut *tile.add(half * PANEL * HEAD).cast::<[[[u16; 2]; PANEL]; DEPTH / 2]>();
                    for frame in 0..PANEL {
                        let key = &block[half * PANEL + frame];
                        for pair in 0..DEPTH / 2 {
                            out[pair][frame] = [key[2 * pair], key[2 * pair + 1]];
                        }
                    }
                }
            }
        }
    }

    /// Where a finished block of the value projection goes.
    pub fn value_writer(&mut self, compute: &Compute) -> impl Fn(&Finish, usize, usize) + Sync + use<> {
        let (values, a_head, padded) = (self.values.shared(), self.a_head(), self.padded());
        let finish_bf16 = compute.kernels.finish_bf16;
        move |done, row, column| {
            let mut block = [[0u16; BLOCK]; BLOCK];
            // SAFETY: as for the keys.
            unsafe {
                finish_bf16(done, block.as_mut_ptr().cast(), BLOCK);
                for half in 0..2 {
                    let column = column + half * PANEL;
                    let panel = values.at(column / HEAD * a_head + column % HEAD / PANEL * PANEL * padded);
                    let out = &mut *panel.add(row / DEPTH * TILE).cast::<[[[u16; 2]; PANEL]; DEPTH / 2]>();
                    for pair in 0..DEPTH / 2 {
                        for dim in 0..PANEL {
                            let dim_in_block = half * PANEL + dim;
                            out[pair][dim] = [block[2 * pair][dim_in_block], block[2 * pair + 1][dim_in_block]];
                        }
                    }
                }
            }
        }
    }
}

/// What rows look at: a window in bf16, or one rounded to 8 bits.
#[derive(Clone, Copy)]
pub enum Frames<'a> {
    /// As the encoder computes.
    Whole(&'a KeyValues),
    /// As the decoder keeps it.
    Rounded(&'a FrameCache),
}

impl Frames<'_> {
    fn count(&self) -> usize {
        match self {
            Frames::Whole(whole) => whole.frames,
            Frames::Rounded(cache) => cache.frames,
        }
    }

    /// The panels of keys of a chunk, which lie one after the other.
    fn keys(&self, compute: &Compute, head: usize, first: usize, width: usize, room: &mut [u16]) -> *const u16 {
        match self {
            Frames::Whole(whole) => whole.keys_of(head)[first * HEAD..].as_ptr(),
            Frames::Rounded(cache) => {
                let keys = cache.keys(head, first, width);
                // SAFETY: `room` has CHUNK × 64 elements.
                unsafe { (compute.kernels.widen)(keys.as_ptr(), keys.len(), room.as_mut_ptr()) };
                room.as_ptr()
            }
        }
    }

    /// The panels of values of a chunk, and how many elements they lie apart.
    fn values(
        &self,
        compute: &Compute,
        head: usize,
        first: usize,
        width: usize,
        room: &mut [u16],
    ) -> (*const u16, usize) {
        match self {
            Frames::Whole(whole) => (whole.values_of(head)[first * PANEL..].as_ptr(), whole.padded() * PANEL),
            Frames::Rounded(cache) => {
                for (panel, room) in room.chunks_exact_mut(CHUNK * PANEL).enumerate() {
                    let values = cache.values(head, panel * PANEL, first, width);
                    // SAFETY: `room` has CHUNK × 16 elements for each panel.
                    unsafe { (compute.kernels.widen)(values.as_ptr(), values.len(), room.as_mut_ptr()) };
                }
                (room.as_ptr(), CHUNK * PANEL)
            }
        }
    }
}

#[repr(C, align(64))]
struct Scratch {
    /// Queries times the units of a rounded window's keys.
    query: [u16; BLOCK * HEAD],
    /// A chunk of a rounded window's keys or values.
    widened: [u16; CHUNK * HEAD],
    scores: [f32; BLOCK * SCORES_STRIDE],
    weights: [u16; BLOCK * WEIGHTS_STRIDE],
    sums: [f32; BLOCK * HEAD],
}

/// Where raw scores are copied to while attention runs: `(row in block, first frame, scores)`.
pub type ScoreTap<'a> = &'a mut dyn FnMut(usize, usize, &[f32]);

/// Attention of up to 32 query rows of one head over all frames; writes bf16 rows to `out`.
///
/// # Safety
/// `query` reaches `rows` rows (padded to 16) of 64 elements, `out` likewise; the thread has been prepared.
pub unsafe fn attend_block(
    compute: &Compute,
    query: Rows,
    frames: Frames,
    head: usize,
    out: *mut u16,
    out_stride: usize,
    mut tap: Option<ScoreTap>,
) {
    let mut scratch = std::mem::MaybeUninit::<Scratch>::uninit();
    // SAFETY: plain numbers, each written before it is read (rows beyond `query.count` are never used).
    let scratch = unsafe { &mut *scratch.as_mut_ptr() };
    let rows = query.count;
    let query = match frames {
        Frames::Whole(_) => query,
        Frames::Rounded(cache) => {
            let units = cache.key_units(head);
            for row in 0..rows {
                for (element, unit) in units.iter().enumerate() {
                    // SAFETY: the query reaches `rows` rows of 64 elements.
                    let value = unsafe { from_bf16(*query.at(row, element)) };
                    scratch.query[row * HEAD + element] = to_bf16(value * unit);
                }
            }
            Rows { start: scratch.query.as_ptr(), stride: HEAD, count: rows }
        }
    };
    let mut softmax = SoftmaxBlock {
        scores: scratch.scores.as_ptr(),
        scores_stride: SCORES_STRIDE,
        rows,
        width: 0,
        weights: scratch.weights.as_mut_ptr(),
        weights_stride: WEIGHTS_STRIDE,
        scale: SCALE,
        is_first: true,
        reference: [0.0; BLOCK],
        sums: [[0.0; 16]; BLOCK],
        rescale: [1.0; BLOCK],
    };
    let padded = KeyValues::padded_frames(frames.count());
    for first in (0..padded).step_by(CHUNK) {
        let width = CHUNK.min(padded - first);
        let keys = frames.keys(compute, head, first, width, &mut scratch.widened);
        for frame in (0..width).step_by(BLOCK) {
            // SAFETY: the panels hold `padded` frames; `scores` has 32 rows of SCORES_STRIDE.
            unsafe {
                (compute.kernels.block)(&Block {
                    a: query.start,
                    a_stride: query.stride,
                    left: keys.add(frame * HEAD),
                    right: keys.add((frame + PANEL) * HEAD),
                    c: scratch.scores.as_mut_ptr().add(frame),
                    c_stride: SCORES_STRIDE,
                    depth: HEAD / DEPTH,
                    rows,
                    accumulate: false,
                });
            }
        }
        let real = width.min(frames.count() - first);
        if real < width {
            for row in 0..rows {
                scratch.scores[row * SCORES_STRIDE..][real..width].fill(f32::MIN);
            }
        }
        if let Some(tap) = &mut tap {
            for row in 0..rows {
                tap(row, first, &scratch.scores[row * SCORES_STRIDE..][..real]);
            }
        }
        (softmax.width, softmax.is_first) = (width, first == 0);
        // SAFETY: `scores` and `weights` have 32 rows of at least `width` elements.
        unsafe { (compute.kernels.softmax_block)(&mut softmax) };
        if first > 0 {
            for (row, &rescale) in softmax.rescale[..rows].iter().enumerate().filter(|(_, rescale)| **rescale != 1.0) {
                scratch.sums[row * HEAD..(row + 1) * HEAD].iter_mut().for_each(|sum| *sum *= rescale);
            }
        }
        let (values, panel_stride) = frames.values(compute, head, first, width, &mut scratch.widened);
        for dim in (0..HEAD).step_by(BLOCK) {
            // SAFETY: the panels hold `padded` frames; `sums` has 32 rows of 64.
            unsafe {
                (compute.kernels.block)(&Block {
                    a: scratch.weights.as_ptr(),
                    a_stride: WEIGHTS_STRIDE,
                    left: values.add(dim / PANEL * panel_stride),
                    right: values.add((dim / PANEL + 1) * panel_stride),
                    c: scratch.sums.as_mut_ptr().add(dim),
                    c_stride: HEAD,
                    depth: width / DEPTH,
                    rows,
                    accumulate: first > 0,
                });
            }
        }
    }
    if let Frames::Rounded(cache) = frames {
        for sums in scratch.sums.chunks_exact_mut(HEAD).take(rows) {
            sums.iter_mut().zip(cache.value_units(head)).for_each(|(sum, unit)| *sum *= unit);
        }
    }
    for row in 0..rows {
        // SAFETY: `out` reaches `rows` rows of 64 elements.
        unsafe {
            let sums = scratch.sums[row * HEAD..].as_ptr();
            let total: f32 = softmax.sums[row].iter().sum();
            (compute.kernels.scale_to_bf16)(sums, 1.0 / total, HEAD, out.add(row * out_stride));
        }
    }
}

/// Query rows that one member takes at a time in the encoder; a head's keys and values stay in its second-level cache.
const ENCODER_ROWS: usize = 12 * BLOCK;

/// The encoder's attention: every frame looks at every frame, `heads` heads.
pub fn attend_frames(
    compute: &Compute,
    query: Rows,
    frames: &KeyValues,
    heads: usize,
    out: SharedMut<u16>,
    out_stride: usize,
) {
    let chunks = query.count.div_ceil(ENCODER_ROWS);
    compute.each(heads * chunks, |piece, _| {
        let (head, chunk) = (piece / chunks, piece % chunks);
        let last = ((chunk + 1) * ENCODER_ROWS).min(query.count);
        for row in (chunk * ENCODER_ROWS..last).step_by(BLOCK) {
            let block = query.part(row, BLOCK.min(last - row), head * HEAD);
            // SAFETY: rows and columns of this piece belong to it alone; buffers are padded to 32 rows.
            unsafe {
                let out = out.at(row * out_stride + head * HEAD);
                attend_block(compute, block, Frames::Whole(frames), head, out, out_stride, None);
            }
        }
    });
}

/// bf16 of a float32 slice, for tests and for small inputs.
pub fn round_to_bf16(input: &[f32], out: &mut [u16]) {
    for (out, &x) in out.iter_mut().zip(input) {
        *out = to_bf16(x);
    }
}
