//! Attention over the frames of a window: the encoder's own, and the decoder's look at the encoder.
//!
//! Keys and values are kept in panels, ready to be the right-hand side of a product, one [`KeyValues`] for each
//! layer of each window. Scores are made, exponentiated and used chunk by chunk in the first-level cache; they never
//! go to memory.

use std::cell::RefCell;
use std::marker::PhantomData;

use crate::Compute;
use crate::buffer::{Buffer, SharedMut};
use crate::cache::FrameCache;
use crate::kernels::math::{from_bf16, to_bf16};
use crate::kernels::{
    BLOCK, Block, DEPTH, Finish, FramesAttention, HEAD, Kernels, PANEL, SCORE_UNIT, SoftmaxBlock, TILE,
};
use crate::linear::Rows;

/// Scores are base-2 exponents: 1/sqrt(64) · log2(e).
pub const SCALE: f32 = 0.125 * std::f32::consts::LOG2_E;
/// What the encoder's queries are multiplied by, once and for all in their weights.
pub const QUERY_SCALE: f32 = SCALE * SCORE_UNIT;

/// Pairs of frames in the order in which a tile of values holds them, unless kernels want another.
pub const IN_ORDER: [usize; DEPTH / 2] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Keys of one chunk: 32 query rows × 128 scores and their weights are 28 KB.
const CHUNK: usize = 128;
/// A row of scores is padded by a cache line, so that rows do not fall on the same cache sets.
const SCORES_STRIDE: usize = CHUNK + 16;
/// A row of bf16 weights is padded by a cache line so that rows do not fall on the same cache sets.
const WEIGHTS_STRIDE: usize = CHUNK + 32;
/// Elements from one widened panel of values to the next.
const VALUES_STRIDE: usize = CHUNK * PANEL;

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

    /// Frames, padded to whole blocks.
    pub fn padded(&self) -> usize {
        Self::padded_frames(self.frames)
    }

    /// How many heads there is room for.
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
    fn a_head(&self) -> usize {
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
    pub unsafe fn write(&self, done: &Finish, row: usize, column: usize) {
        check_block(done, row, column, self.padded, self.columns);
        let mut block = [[0u16; BLOCK]; BLOCK];
        // SAFETY: the block has 32 rows of 32, and its tiles lie inside the keys.
        unsafe {
            (self.kernels.finish_bf16)(done, block.as_mut_ptr().cast(), BLOCK);
            let panel = self.keys.at(column / HEAD * self.padded * HEAD + row / PANEL * PANEL * HEAD);
            let tile = panel.add(column % HEAD / DEPTH * TILE);
            for half in 0..done.rows.div_ceil(PANEL) {
                (self.kernels.turn_keys)(block[half * PANEL..].as_ptr().cast(), tile.add(half * PANEL * HEAD));
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
    pub unsafe fn write(&self, done: &Finish, row: usize, column: usize) {
        check_block(done, row, column, self.padded, self.columns);
        let mut block = [[0u16; BLOCK]; BLOCK];
        // SAFETY: as for the keys.
        unsafe {
            (self.kernels.finish_bf16)(done, block.as_mut_ptr().cast(), BLOCK);
            for half in 0..2 {
                let column = column + half * PANEL;
                let head = column / HEAD * self.padded * HEAD;
                let panel = self.values.at(head + column % HEAD / PANEL * PANEL * self.padded);
                let from = block.as_ptr().cast::<u16>().add(half * PANEL);
                (self.kernels.pair_values)(from, self.pairs, panel.add(row / DEPTH * TILE));
            }
        }
    }
}

/// Checks that a block lies at a whole block of `padded` frames and `columns` columns.
fn check_block(done: &Finish, row: usize, column: usize, padded: usize, columns: usize) {
    let is_whole = row.is_multiple_of(BLOCK) && column.is_multiple_of(BLOCK);
    assert!(is_whole && row < padded && column < columns && done.rows <= BLOCK, "a block of the projection");
}

/// A chunk of a rounded window's keys in bf16: panel after panel, as they lie.
fn widen_keys(compute: &Compute, cache: &FrameCache, head: usize, first: usize, width: usize, room: &mut [u16]) {
    let keys = cache.keys(head, first, width);
    assert!(room.len() >= keys.len(), "room for the chunk");
    // SAFETY: checked above.
    unsafe { (compute.kernels.widen)(keys.as_ptr(), keys.len(), room.as_mut_ptr()) };
}

/// A chunk of a rounded window's values in bf16, panels [`VALUES_STRIDE`] apart.
fn widen_values(compute: &Compute, cache: &FrameCache, head: usize, first: usize, width: usize, room: &mut [u16]) {
    for (panel, room) in room.chunks_exact_mut(VALUES_STRIDE).enumerate() {
        let values = cache.values(head, panel * PANEL, first, width);
        assert!(room.len() >= values.len(), "room for the chunk");
        // SAFETY: checked above.
        unsafe { (compute.kernels.widen)(values.as_ptr(), values.len(), room.as_mut_ptr()) };
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

thread_local! {
    /// A thread's own, made once: it is as large as a first-level cache.
    static SCRATCH: RefCell<Box<Scratch>> = RefCell::new(Box::new(Scratch {
        query: [0; BLOCK * HEAD],
        widened: [0; CHUNK * HEAD],
        scores: [0.0; BLOCK * SCORES_STRIDE],
        weights: [0; BLOCK * WEIGHTS_STRIDE],
        sums: [0.0; BLOCK * HEAD],
    }));
}

/// Where raw scores are copied to while attention runs: `(row in block, first frame, scores)`.
pub type ScoreTap<'a> = &'a mut dyn FnMut(usize, usize, &[f32]);

/// Attention of up to 32 query rows of one head over a window rounded to 8 bits; writes bf16 rows to `out`.
///
/// # Safety
/// `out` has room for the query's rows of 64 elements, `out_stride` apart, which nobody else uses; the thread has been
/// prepared.
pub unsafe fn attend_block(
    compute: &Compute,
    query: Rows,
    cache: &FrameCache,
    head: usize,
    out: *mut u16,
    out_stride: usize,
    tap: Option<ScoreTap>,
) {
    // SAFETY: the caller vouches for the rows and the thread.
    SCRATCH
        .with_borrow_mut(|scratch| unsafe { attend_with(compute, query, cache, head, out, out_stride, tap, scratch) });
}

/// # Safety
/// As for [`attend_block`].
unsafe fn attend_with(
    compute: &Compute,
    query: Rows,
    cache: &FrameCache,
    head: usize,
    out: *mut u16,
    out_stride: usize,
    mut tap: Option<ScoreTap>,
    scratch: &mut Scratch,
) {
    let rows = query.count();
    assert!(rows <= BLOCK, "at most a block of rows");
    query.check(HEAD, 1);
    for row in 0..rows {
        for (element, unit) in cache.key_units(head).iter().enumerate() {
            // SAFETY: the view was checked to reach `rows` rows of 64 elements.
            let value = unsafe { from_bf16(*query.at(row, element)) };
            scratch.query[row * HEAD + element] = to_bf16(value * unit);
        }
    }
    let mut softmax = SoftmaxBlock {
        scores: scratch.scores.as_ptr(),
        scores_stride: SCORES_STRIDE,
        weights: scratch.weights.as_mut_ptr(),
        weights_stride: WEIGHTS_STRIDE,
        ..new_softmax(rows)
    };
    let padded = KeyValues::padded_frames(cache.frames);
    for first in (0..padded).step_by(CHUNK) {
        let width = CHUNK.min(padded - first);
        widen_keys(compute, cache, head, first, width, &mut scratch.widened);
        let keys = scratch.widened.as_ptr();
        for frame in (0..width).step_by(BLOCK) {
            // SAFETY: the panels hold `padded` frames; `scores` has 32 rows of SCORES_STRIDE.
            unsafe {
                (compute.kernels.block)(&Block {
                    a: scratch.query.as_ptr(),
                    a_stride: HEAD,
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
        let real = width.min(cache.frames - first);
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
        widen_values(compute, cache, head, first, width, &mut scratch.widened);
        let values = scratch.widened.as_ptr();
        for dim in (0..HEAD).step_by(BLOCK) {
            // SAFETY: the panels hold `padded` frames; `sums` has 32 rows of 64.
            unsafe {
                (compute.kernels.block)(&Block {
                    a: scratch.weights.as_ptr(),
                    a_stride: WEIGHTS_STRIDE,
                    left: values.add(dim / PANEL * VALUES_STRIDE),
                    right: values.add((dim / PANEL + 1) * VALUES_STRIDE),
                    c: scratch.sums.as_mut_ptr().add(dim),
                    c_stride: HEAD,
                    depth: width / DEPTH,
                    rows,
                    accumulate: first > 0,
                });
            }
        }
    }
    for sums in scratch.sums.chunks_exact_mut(HEAD).take(rows) {
        sums.iter_mut().zip(cache.value_units(head)).for_each(|(sum, unit)| *sum *= unit);
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

/// An online softmax of `rows` rows that has seen nothing yet, and knows no buffers.
fn new_softmax(rows: usize) -> SoftmaxBlock {
    SoftmaxBlock {
        scores: std::ptr::null(),
        scores_stride: 0,
        rows: 0..rows,
        width: 0,
        weights: std::ptr::null_mut(),
        weights_stride: 0,
        scale: SCALE,
        is_first: true,
        reference: [0.0; BLOCK],
        sums: [[0.0; 16]; BLOCK],
        rescale: [1.0; BLOCK],
    }
}

/// Keys of one step of the encoder's attention: the scores and weights of two steps, and the sums, are 42 KB.
const STEP: usize = 64;
const STEP_SCORES_STRIDE: usize = STEP + 16;
const STEP_WEIGHTS_STRIDE: usize = STEP + 32;

/// What two neighbouring steps work on.
#[repr(C, align(64))]
struct Steps {
    scores: [[f32; BLOCK * STEP_SCORES_STRIDE]; 2],
    weights: [[u16; BLOCK * STEP_WEIGHTS_STRIDE]; 2],
    sums: [f32; BLOCK * HEAD],
}

/// Attention of up to 32 query rows of one head over all frames of the encoder's window; bf16 rows to `out`.
///
/// Products and exponentials take turns in small pieces: while one step's exponentials run, the scores of the next and
/// the sums of the one before are in flight. Tiles and vectors are different parts of a core; one after the other,
/// each would wait for the other.
///
/// # Safety
/// As for [`attend_block`].
unsafe fn attend_interleaved(
    compute: &Compute,
    query: Rows,
    frames: &KeyValues,
    head: usize,
    out: *mut u16,
    out_stride: usize,
) {
    let mut room = std::mem::MaybeUninit::<Steps>::uninit();
    let room = room.as_mut_ptr();
    // SAFETY: addresses inside the room.
    let (scores, weights, sums) = unsafe {
        let scores = [0, 1].map(|half| (&raw mut (*room).scores[half]).cast::<f32>());
        let weights = [0, 1].map(|half| (&raw mut (*room).weights[half]).cast::<u16>());
        (scores, weights, (&raw mut (*room).sums).cast::<f32>())
    };
    let (rows, padded) = (query.count(), frames.padded());
    let (keys, values) = (frames.keys_of(head), frames.values_of(head));
    let width = |step: usize| STEP.min(padded - step * STEP);
    // SAFETY: the panels hold `padded` frames, the room 32 rows of scores.
    let score = |step: usize, block: usize| unsafe {
        let frame = step * STEP + block * BLOCK;
        let scores = scores[step % 2];
        (compute.kernels.block)(&Block {
            a: query.at(0, 0),
            a_stride: query.stride(),
            left: keys[frame * HEAD..].as_ptr(),
            right: keys[(frame + PANEL) * HEAD..].as_ptr(),
            c: scores.add(block * BLOCK),
            c_stride: STEP_SCORES_STRIDE,
            depth: HEAD / DEPTH,
            rows,
            accumulate: false,
        });
        for beyond in (frames.frames.max(frame) - frame)..BLOCK {
            (0..rows).for_each(|row| *scores.add(row * STEP_SCORES_STRIDE + block * BLOCK + beyond) = f32::MIN);
        }
    };
    // SAFETY: as for the scores; the weights that are read were written by an earlier piece.
    let weigh = |step: usize, block: usize| unsafe {
        let panel = |index: usize| values[index * PANEL * padded + step * STEP * PANEL..].as_ptr();
        (compute.kernels.block)(&Block {
            a: weights[step % 2],
            a_stride: STEP_WEIGHTS_STRIDE,
            left: panel(block * 2),
            right: panel(block * 2 + 1),
            c: sums.add(block * BLOCK),
            c_stride: HEAD,
            depth: width(step) / DEPTH,
            rows,
            accumulate: step > 0,
        });
    };

    let steps = padded.div_ceil(STEP);
    let mut softmax = new_softmax(rows);
    (softmax.scores_stride, softmax.weights_stride) = (STEP_SCORES_STRIDE, STEP_WEIGHTS_STRIDE);
    softmax.scale = 1.0 / SCORE_UNIT;
    (0..width(0) / BLOCK).for_each(|block| score(0, block));
    for step in 0..steps {
        (softmax.width, softmax.is_first) = (width(step), step == 0);
        (softmax.scores, softmax.weights) = (scores[step % 2], weights[step % 2]);
        let ahead = if step + 1 < steps { width(step + 1) / BLOCK } else { 0 };
        let behind = if step > 0 { HEAD / BLOCK } else { 0 };
        let pieces = (ahead + behind).max(1);
        let share = rows.div_ceil(pieces);
        for piece in 0..pieces {
            if piece < ahead {
                score(step + 1, piece);
            } else if piece - ahead < behind {
                weigh(step - 1, piece - ahead);
            }
            softmax.rows = (piece * share).min(rows)..((piece + 1) * share).min(rows);
            // SAFETY: scores and weights have 32 rows of at least `width` elements.
            unsafe { (compute.kernels.softmax_block)(&mut softmax) };
        }
        if step > 0 {
            for (row, &rescale) in softmax.rescale[..rows].iter().enumerate().filter(|(_, rescale)| **rescale != 1.0) {
                // SAFETY: a row of the sums, written by the steps before.
                (0..HEAD).for_each(|dim| unsafe { *sums.add(row * HEAD + dim) *= rescale });
            }
        }
    }
    (0..HEAD / BLOCK).for_each(|block| weigh(steps - 1, block));
    for row in 0..rows {
        let total: f32 = softmax.sums[row].iter().sum();
        // SAFETY: `out` reaches `rows` rows of 64 elements.
        unsafe { (compute.kernels.scale_to_bf16)(sums.add(row * HEAD), 1.0 / total, HEAD, out.add(row * out_stride)) };
    }
}

/// The order in which the encoder's attention wants pairs of frames in its values.
pub fn frame_pairs(compute: &Compute) -> &'static [usize; DEPTH / 2] {
    compute.kernels.attend_frames.map_or(&IN_ORDER, |kernel| kernel.pairs)
}

/// Query rows that one member takes at a time in the encoder; a head's keys and values stay in its second-level cache.
const ENCODER_ROWS: usize = 12 * BLOCK;

/// The encoder's attention: every frame looks at every frame, `heads` heads. Queries come multiplied by
/// [`QUERY_SCALE`], values in the order of [`frame_pairs`].
pub fn attend_frames(
    compute: &Compute,
    query: Rows,
    frames: &KeyValues,
    heads: usize,
    out: &mut [u16],
    out_stride: usize,
) {
    if query.count() == 0 {
        return;
    }
    query.check(heads * HEAD, BLOCK);
    let last = (query.count() - 1).checked_mul(out_stride).and_then(|last| last.checked_add(heads * HEAD));
    assert!(last.is_some_and(|last| last <= out.len()), "there is room for the result of every row");
    assert!(heads * HEAD <= out_stride, "rows of the result lie apart");
    assert!(heads * frames.a_head() <= frames.keys.len(), "the window has so many heads");
    let out = SharedMut::new(out.as_mut_ptr());
    let chunks = query.count().div_ceil(ENCODER_ROWS);
    let members = compute.team.members();
    compute.each(heads * chunks, |piece, _| {
        // As many heads as members are done side by side, so that a member mostly stays with one head's keys and values.
        let group = piece / (chunks * members) * members;
        let beside = members.min(heads - group);
        let place = piece - group * chunks;
        let (head, chunk) = (group + place % beside, place / beside);
        let last = ((chunk + 1) * ENCODER_ROWS).min(query.count());
        for row in (chunk * ENCODER_ROWS..last).step_by(BLOCK) {
            let block = query.part(row, BLOCK.min(last - row), head * HEAD);
            // SAFETY: rows and columns of this piece belong to it alone, and all of them were checked above.
            unsafe {
                let out = out.at(row * out_stride + head * HEAD);
                match compute.kernels.attend_frames {
                    Some(kernel) => (kernel.attend)(&FramesAttention {
                        query: block.at(0, 0),
                        query_stride: block.stride(),
                        rows: block.count(),
                        keys: frames.keys_of(head).as_ptr(),
                        values: frames.values_of(head).as_ptr(),
                        frames: frames.frames,
                        out,
                        out_stride,
                    }),
                    None => attend_interleaved(compute, block, frames, head, out, out_stride),
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    /// The same numbers in every run, in -1..1.
    fn noise(seed: u32) -> impl FnMut() -> f32 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        }
    }

    /// Softmax of the scores times the values, by the definition.
    fn plain(query: &[f32], keys: &[Vec<f32>], values: &[Vec<f32>]) -> Vec<f64> {
        let dot = |key: &Vec<f32>| query.iter().zip(key).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        let exponents: Vec<f64> = keys.iter().map(|key| dot(key) / f64::from(SCORE_UNIT)).collect();
        let top = exponents.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = exponents.iter().map(|exponent| (exponent - top).exp2()).collect();
        let total: f64 = weights.iter().sum();
        let element = |e: usize| weights.iter().zip(values).map(|(w, v)| w * f64::from(v[e])).sum::<f64>() / total;
        (0..HEAD).map(element).collect()
    }

    #[test]
    fn every_frame_looks_at_every_frame_as_the_definition_says() {
        let heads = 2;
        let mut next = noise(7);
        let mut row =
            |scale: f32| -> Vec<f32> { (0..heads * HEAD).map(|_| from_bf16(to_bf16(next() * scale))).collect() };
        // Exponents of a few, of hundreds, and of thousands; whole and broken pairs of panels, and a single one.
        for (frames, size) in [(224, 0.7), (97, 0.7), (64, 3.0), (28, 3.0), (160, 12.0), (70, 40.0)] {
            let queries: Vec<Vec<f32>> = (0..frames).map(|_| row(size * QUERY_SCALE)).collect();
            let keys: Vec<Vec<f32>> = (0..frames).map(|_| row(size)).collect();
            let values: Vec<Vec<f32>> = (0..frames).map(|_| row(1.0)).collect();
            for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
                let compute = Compute::new(2, isa);
                let mut key_values = KeyValues::new(heads, frames);
                let (write_keys, write_values) = key_values.writers(&compute, frame_pairs(&compute));
                let bias = [0f32; BLOCK];
                for first in (0..frames).step_by(BLOCK) {
                    let rows = BLOCK.min(frames - first);
                    for column in (0..heads * HEAD).step_by(BLOCK) {
                        let part = |all: &[Vec<f32>]| -> Vec<f32> {
                            all[first..first + rows]
                                .iter()
                                .flat_map(|row| row[column..column + BLOCK].to_vec())
                                .collect()
                        };
                        let (keys, values) = (part(&keys), part(&values));
                        let done =
                            |sums: &[f32]| Finish { sums: sums.as_ptr(), rows, bias: bias.as_ptr(), gelu: false };
                        // SAFETY: blocks are written one after the other.
                        unsafe {
                            write_keys.write(&done(&keys), first, column);
                            write_values.write(&done(&values), first, column);
                        }
                    }
                }
                let stride = heads * HEAD + 32;
                let mut query = Buffer::<u16>::zeroed(frames.next_multiple_of(BLOCK) * stride);
                for (frame, from) in queries.iter().enumerate() {
                    round_to_bf16(from, &mut query[frame * stride..]);
                }
                let mut out = Buffer::<u16>::zeroed(frames.next_multiple_of(BLOCK) * stride);
                let rows = Rows::new(&query, stride, frames);
                attend_frames(&compute, rows, &key_values, heads, &mut out, stride);
                for frame in (0..frames).step_by(7).chain([frames - 1]) {
                    for head in 0..heads {
                        let of_head = |all: &[Vec<f32>]| -> Vec<Vec<f32>> {
                            all.iter().map(|row| row[head * HEAD..(head + 1) * HEAD].to_vec()).collect()
                        };
                        let query = &queries[frame][head * HEAD..(head + 1) * HEAD];
                        let expected = plain(query, &of_head(&keys), &of_head(&values));
                        for (element, expected) in expected.into_iter().enumerate() {
                            let got = f64::from(from_bf16(out[frame * stride + head * HEAD + element]));
                            let message =
                                format!("{}, {frames} frames, size {size}: {got}, not {expected}", isa.name());
                            assert!((got - expected).abs() < 0.006, "{message}");
                        }
                    }
                }
            }
        }
    }
}
