//! Cross-attention: query rows over the int8 keys and values of a window.

use std::cell::RefCell;

use super::{Int8KeyValues, KeyValues, SCALE, new_softmax};
use crate::Worker;
use crate::kernels::math::{from_bf16, to_bf16};
use crate::kernels::{
    BLOCK, Block, DEPTH, HEAD, Int8Attention, Kernels, MAX_INT8_FRAMES, MAX_INT8_ROWS, PANEL, RowTap, SoftmaxBlock,
};
use crate::linear::Rows;
use crate::view::MatMut;

/// Keys of one chunk: 32 query rows × 128 scores and their weights are 28 KB.
const CHUNK: usize = 128;
/// A row of scores is padded by a cache line, so that rows do not fall on the same cache sets.
const SCORES_STRIDE: usize = CHUNK + 16;
/// A row of bf16 weights is padded by a cache line so that rows do not fall on the same cache sets.
const WEIGHTS_STRIDE: usize = CHUNK + 32;
/// Elements from one widened panel of values to the next.
const VALUES_STRIDE: usize = CHUNK * PANEL;

/// A chunk of a window's int8 keys in bf16: panel after panel, as they lie.
fn widen_keys(kernels: &Kernels, cache: &Int8KeyValues, head: usize, first: usize, width: usize, widened: &mut [u16]) {
    let keys = cache.keys(head, first, width);
    assert!(widened.len() >= keys.len(), "room for the chunk");
    // SAFETY: checked above.
    unsafe { (kernels.int8_to_bf16)(keys.as_ptr(), keys.len(), widened.as_mut_ptr()) };
}

/// A chunk of a window's int8 values in bf16, panels [`VALUES_STRIDE`] apart.
fn widen_values(
    kernels: &Kernels,
    cache: &Int8KeyValues,
    head: usize,
    first: usize,
    width: usize,
    widened: &mut [u16],
) {
    for (panel, widened) in widened.chunks_exact_mut(VALUES_STRIDE).enumerate() {
        let values = cache.values(head, panel * PANEL, first, width);
        assert!(widened.len() >= values.len(), "room for the chunk");
        // SAFETY: checked above.
        unsafe { (kernels.int8_to_bf16)(values.as_ptr(), values.len(), widened.as_mut_ptr()) };
    }
}

#[repr(C, align(64))]
struct Scratch {
    /// Queries times the scales of a window's keys.
    query: [u16; BLOCK * HEAD],
    /// A chunk of a window's int8 keys or values.
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

/// Attention of the query rows, up to 32, of one head over a window's int8 keys and values; writes bf16 rows to `out`.
///
/// A few rows are multiplied in whole numbers where the instruction set has a kernel for that: tiles would be mostly empty.
///
/// # Panics
/// When the query does not reach 64 elements of every row, or `out` as many.
pub fn cross_attention(
    worker: &Worker,
    query: Rows,
    cache: &Int8KeyValues,
    head: usize,
    out: MatMut<u16>,
    tap: Option<ScoreTap>,
) {
    let rows = query.count();
    assert!(rows <= BLOCK && out.rows() >= rows && out.width() >= HEAD, "at most a block of rows");
    query.check(HEAD, 1);
    let is_small = (1..=MAX_INT8_ROWS).contains(&rows) && KeyValues::padded_frames(cache.frames) <= MAX_INT8_FRAMES;
    match worker.kernels().attend_int8.filter(|_| is_small) {
        Some(kernel) => attend_int8(kernel, query, cache, head, out, tap),
        None => SCRATCH.with_borrow_mut(|scratch| attend_with(worker, query, cache, head, out, tap, scratch)),
    }
}

/// Attention of a few rows, which were checked, in whole numbers.
fn attend_int8(
    kernel: unsafe fn(&mut Int8Attention),
    query: Rows,
    cache: &Int8KeyValues,
    head: usize,
    mut out: MatMut<u16>,
    mut tap: Option<ScoreTap>,
) {
    let (keys, values) = cache.head(head);
    let mut tap_row = tap.as_mut().map(|tap| move |row: usize, scores: &[f32]| tap(row, 0, scores));
    // SAFETY: the kernel is of this machine. Query and output were checked to reach `rows` rows of 64 elements; a head has 64
    // scales of keys and of values, and its keys and values are as long as each other.
    unsafe {
        kernel(&mut Int8Attention {
            query: query.at(0, 0),
            query_stride: query.stride(),
            rows: query.count(),
            keys,
            values,
            key_scales: cache.key_scales(head),
            value_scales: cache.value_scales(head),
            frames: cache.frames,
            scale: SCALE,
            out: out.as_mut_ptr(),
            out_stride: out.stride(),
            tap: tap_row.as_mut().map(|tap| tap as RowTap),
        });
    }
}

/// Attention of a block of rows, which were checked, in bf16 tiles.
fn attend_with(
    worker: &Worker,
    query: Rows,
    cache: &Int8KeyValues,
    head: usize,
    mut out: MatMut<u16>,
    mut tap: Option<ScoreTap>,
    scratch: &mut Scratch,
) {
    let kernels = worker.kernels();
    let rows = query.count();
    for row in 0..rows {
        for (element, scale) in cache.key_scales(head).iter().enumerate() {
            // SAFETY: the view was checked to reach `rows` rows of 64 elements.
            let value = unsafe { from_bf16(*query.at(row, element)) };
            scratch.query[row * HEAD + element] = to_bf16(value * scale);
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
        widen_keys(kernels, cache, head, first, width, &mut scratch.widened);
        let keys = scratch.widened.as_ptr();
        for frame in (0..width).step_by(BLOCK) {
            // SAFETY: the panels hold `padded` frames; `scores` has 32 rows of SCORES_STRIDE.
            unsafe {
                (kernels.block)(&Block {
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
        unsafe { (kernels.softmax_block)(&mut softmax) };
        if first > 0 {
            for (row, &rescale) in softmax.rescale[..rows].iter().enumerate().filter(|(_, rescale)| **rescale != 1.0) {
                scratch.sums[row * HEAD..(row + 1) * HEAD].iter_mut().for_each(|sum| *sum *= rescale);
            }
        }
        widen_values(kernels, cache, head, first, width, &mut scratch.widened);
        let values = scratch.widened.as_ptr();
        for dim in (0..HEAD).step_by(BLOCK) {
            // SAFETY: the panels hold `padded` frames; `sums` has 32 rows of 64.
            unsafe {
                (kernels.block)(&Block {
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
        sums.iter_mut().zip(cache.value_scales(head)).for_each(|(sum, scale)| *sum *= scale);
    }
    for row in 0..rows {
        // SAFETY: `out` reaches `rows` rows of 64 elements.
        unsafe {
            let sums = scratch.sums[row * HEAD..].as_ptr();
            let total: f32 = softmax.sums[row].iter().sum();
            (kernels.scale_to_bf16)(sums, 1.0 / total, HEAD, out.as_mut_ptr().add(row * out.stride()));
        }
    }
}
