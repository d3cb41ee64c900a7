//! Self-attention: every frame of a window over all frames.

use super::{IN_ORDER, KeyValues, new_softmax};
use crate::Compute;
use crate::buffer::SharedMut;
use crate::kernels::{BLOCK, Block, DEPTH, HEAD, PANEL, SCORE_SCALE, SelfAttention};
use crate::linear::Rows;

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
/// As for [`super::cross_attention`].
unsafe fn attend_interleaved(
    compute: &Compute,
    query: Rows,
    frames: &KeyValues,
    head: usize,
    out: *mut u16,
    out_stride: usize,
) {
    let mut workspace = std::mem::MaybeUninit::<Steps>::uninit();
    let workspace = workspace.as_mut_ptr();
    // SAFETY: addresses inside the workspace.
    let (scores, weights, sums) = unsafe {
        let scores = [0, 1].map(|half| (&raw mut (*workspace).scores[half]).cast::<f32>());
        let weights = [0, 1].map(|half| (&raw mut (*workspace).weights[half]).cast::<u16>());
        (scores, weights, (&raw mut (*workspace).sums).cast::<f32>())
    };
    let (rows, padded) = (query.count(), frames.padded());
    let (keys, values) = (frames.keys_of(head), frames.values_of(head));
    let width = |step: usize| STEP.min(padded - step * STEP);
    // SAFETY: the panels hold `padded` frames, the workspace 32 rows of scores.
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
    // SAFETY: the panels hold `padded` frames, the workspace 32 rows of sums; the weights that are read were written by an earlier piece.
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
    softmax.scale = 1.0 / SCORE_SCALE;
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
    compute.kernels.self_attention.map_or(&IN_ORDER, |kernel| kernel.pairs)
}

/// Query rows that one thread takes at a time in the encoder; a head's keys and values stay in its second-level cache.
const ENCODER_ROWS: usize = 12 * BLOCK;

/// Every frame attends to every frame, `heads` heads. Queries come multiplied by
/// [`super::QUERY_SCALE`], values in the order of [`frame_pairs`].
pub fn self_attention(
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
    assert!(last.is_some_and(|last| last <= out.len()), "there is workspace for the result of every row");
    assert!(heads * HEAD <= out_stride, "rows of the result lie apart");
    assert!(heads <= frames.heads(), "the window has so many heads");
    let out = SharedMut::new(out.as_mut_ptr());
    let chunks = query.count().div_ceil(ENCODER_ROWS);
    let threads = compute.threads();
    compute.parallel_for(heads * chunks, |piece, _| {
        // As many heads as threads are done side by side, so that a thread mostly stays with one head's keys and values.
        let group = piece / (chunks * threads) * threads;
        let beside = threads.min(heads - group);
        let place = piece - group * chunks;
        let (head, chunk) = (group + place % beside, place / beside);
        let last = ((chunk + 1) * ENCODER_ROWS).min(query.count());
        for row in (chunk * ENCODER_ROWS..last).step_by(BLOCK) {
            let block = query.part(row, BLOCK.min(last - row), head * HEAD);
            // SAFETY: rows and columns of this piece belong to it alone, and all of them were checked above.
            unsafe {
                let out = out.at(row * out_stride + head * HEAD);
                match compute.kernels.self_attention {
                    Some(kernel) => (kernel.attend)(&SelfAttention {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::attention::{QUERY_SCALE, round_to_bf16};
    use crate::buffer::Buffer;
    use crate::kernels::BlockEpilogue;
    use crate::kernels::math::{from_bf16, to_bf16};

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
        let exponents: Vec<f64> = keys.iter().map(|key| dot(key) / f64::from(SCORE_SCALE)).collect();
        let top = exponents.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = exponents.iter().map(|exponent| (exponent - top).exp2()).collect();
        let total: f64 = weights.iter().sum();
        let element = |e: usize| weights.iter().zip(values).map(|(w, v)| w * f64::from(v[e])).sum::<f64>() / total;
        (0..HEAD).map(element).collect()
    }

    #[test]
    fn every_frame_attends_to_every_frame_as_the_definition_says() {
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
                        let done = |sums| BlockEpilogue { sums, rows, bias: &bias, gelu: false };
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
                self_attention(&compute, rows, &key_values, heads, &mut out, stride);
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
