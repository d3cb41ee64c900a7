//! Every kernel against its plain twin, on random shapes.

use super::*;
use crate::buffer::Buffer;
use crate::kernels::math::{from_bf16, to_bf16};

/// A small repeatable generator of numbers in -1..1.
struct Numbers(u32);

impl Numbers {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as f32 / (1 << 23) as f32 - 1.0
    }

    fn below(&mut self, limit: usize) -> usize {
        ((self.next() + 1.0) / 2.0 * limit as f32) as usize % limit
    }

    fn floats(&mut self, len: usize, scale: f32) -> Buffer<f32> {
        let mut buffer = Buffer::zeroed(len);
        buffer.iter_mut().for_each(|x| *x = self.next() * scale);
        buffer
    }

    fn bf16_numbers(&mut self, len: usize, scale: f32) -> Buffer<u16> {
        let mut buffer = Buffer::zeroed(len);
        buffer.iter_mut().for_each(|x| *x = to_bf16(self.next() * scale));
        buffer
    }
}

/// The vectorized sets of this machine.
fn fast_sets() -> Vec<&'static Kernels> {
    let sets: Vec<_> =
        Isa::ALL.into_iter().filter(|isa| *isa != Isa::Portable && isa.is_available()).map(Kernels::of).collect();
    for set in &sets {
        // SAFETY: the set is available.
        unsafe { (set.prepare)() };
    }
    sets
}

fn assert_close(name: &str, isa: Isa, got: f32, expected: f32, tolerance: f32) {
    assert!((got - expected).abs() <= tolerance, "{name} on {}: {got}, expected {expected}", isa.name());
}

#[test]
fn product_blocks_agree() {
    let mut numbers = Numbers(1);
    for round in 0..40 {
        let (rows, depth) = (1 + numbers.below(32), 1 + numbers.below(20));
        let stride = depth * DEPTH + 32 * numbers.below(3);
        let a = numbers.bf16_numbers(32 * stride + 64, 1.0);
        let b = numbers.bf16_numbers(2 * depth * TILE, 1.0);
        let start = numbers.floats(32 * 48, 1.0);
        let run = |set: &Kernels| {
            let mut c = Buffer::zeroed(start.len());
            c.copy_from_slice(&start);
            // SAFETY: the buffers have the stated shapes.
            unsafe {
                (set.block)(&Block {
                    a: a.as_ptr(),
                    a_stride: stride,
                    left: b.as_ptr(),
                    right: b[depth * TILE..].as_ptr(),
                    c: c.as_mut_ptr(),
                    c_stride: 48,
                    depth,
                    rows,
                    accumulate: round % 2 == 0,
                });
            }
            c
        };
        let expected = run(&portable::KERNELS);
        for set in fast_sets() {
            let got = run(set);
            for row in 0..rows {
                for column in 0..32 {
                    let index = row * 48 + column;
                    assert_close("block", set.isa, got[index], expected[index], 1e-3);
                }
            }
        }
    }
}

#[test]
fn the_plain_block_is_a_matrix_product() {
    let mut numbers = Numbers(2);
    let (rows, depth) = (5, 3);
    let a = numbers.bf16_numbers(32 * depth * DEPTH, 1.0);
    let b = numbers.bf16_numbers(2 * depth * TILE, 1.0);
    let mut c = Buffer::zeroed(32 * 32);
    // SAFETY: the buffers have the stated shapes.
    unsafe {
        (portable::KERNELS.block)(&Block {
            a: a.as_ptr(),
            a_stride: depth * DEPTH,
            left: b.as_ptr(),
            right: b[depth * TILE..].as_ptr(),
            c: c.as_mut_ptr(),
            c_stride: 32,
            depth,
            rows,
            accumulate: false,
        });
    }
    for row in 0..rows {
        for column in 0..32 {
            let expected: f64 = (0..depth * DEPTH)
                .map(|k| {
                    let place = column / PANEL * depth * TILE + crate::linear::index_in_panel(k, column % PANEL);
                    f64::from(from_bf16(a[row * depth * DEPTH + k])) * f64::from(from_bf16(b[place]))
                })
                .sum();
            assert_close("block", Isa::Portable, c[row * 32 + column], expected as f32, 1e-4);
        }
    }
}

#[test]
fn epilogues_agree() {
    let mut numbers = Numbers(3);
    for round in 0..20 {
        let rows = 1 + numbers.below(32);
        let sums = numbers.floats(32 * 32, 6.0);
        let bias = numbers.floats(32, 1.0);
        let before = numbers.floats(32 * 40, 1.0);
        let epilogue = BlockEpilogue { sums: &sums, rows, bias: &bias, gelu: round % 2 == 0 };
        let run = |set: &Kernels| {
            let (mut bf16_numbers, mut floats) = (Buffer::<u16>::zeroed(32 * 40), Buffer::zeroed(32 * 40));
            floats.copy_from_slice(&before);
            // SAFETY: the buffers have the stated shapes.
            unsafe {
                (set.epilogue_bf16)(&epilogue, bf16_numbers.as_mut_ptr(), 40);
                (set.epilogue_add)(&epilogue, floats.as_mut_ptr(), 40);
            }
            (bf16_numbers, floats)
        };
        let expected = run(&portable::KERNELS);
        for set in fast_sets() {
            let got = run(set);
            for index in 0..rows * 40 {
                let tolerance = 2e-4 + expected.1[index].abs() * 1e-5;
                assert_close("epilogue_add", set.isa, got.1[index], expected.1[index], tolerance);
                let (half, plain) = (from_bf16(got.0[index]), from_bf16(expected.0[index]));
                assert_close("epilogue_bf16", set.isa, half, plain, 2e-4 + plain.abs() / 128.0);
            }
        }
    }
}

#[test]
fn tiles_of_keys_and_values_agree() {
    let mut numbers = Numbers(11);
    let frames = numbers.bf16_numbers(32 * 32, 1.0);
    let pairs: [usize; 16] = std::array::from_fn(|line| (line * 5 + 3) % 16);
    let run = |set: &Kernels| {
        let mut tiles = [[0u16; TILE]; 2];
        // SAFETY: 32 frames of 32 elements, and two tiles.
        unsafe {
            (set.transpose_keys)(frames.as_ptr(), tiles[0].as_mut_ptr());
            (set.interleave_values)(frames.as_ptr(), &pairs, tiles[1].as_mut_ptr());
        }
        tiles
    };
    let [keys, values] = run(&portable::KERNELS);
    for (index, (key, value)) in keys.iter().zip(&values).enumerate() {
        let (line, column, beside) = (index / 32, index % 32 / 2, index % 2);
        assert_eq!(*key, frames[column * 32 + 2 * line + beside]);
        assert_eq!(*value, frames[(2 * pairs[line] + beside) * 32 + column]);
    }
    for set in fast_sets() {
        assert_eq!(run(set), [keys, values], "{}", set.isa.name());
    }
}

#[test]
fn layer_norms_agree_and_have_mean_zero() {
    let mut numbers = Numbers(4);
    for width in [384, 512, 768, 1280] {
        let row = numbers.floats(width, 3.0);
        let (mut gain, bias) = (Buffer::zeroed(width), Buffer::zeroed(width));
        gain.fill(1.0);
        let run = |set: &Kernels| {
            let mut out = Buffer::<u16>::zeroed(width);
            // SAFETY: all rows have `width` elements.
            unsafe { (set.layer_norm)(row.as_ptr(), gain.as_ptr(), bias.as_ptr(), width, out.as_mut_ptr()) };
            out.iter().map(|&half| from_bf16(half)).collect::<Vec<f32>>()
        };
        let expected = run(&portable::KERNELS);
        let mean = expected.iter().sum::<f32>() / width as f32;
        let square = expected.iter().map(|x| x * x).sum::<f32>() / width as f32;
        assert!(mean.abs() < 1e-3 && (square - 1.0).abs() < 1e-2, "mean {mean}, square {square}");
        for set in fast_sets() {
            for (got, expected) in run(set).into_iter().zip(&expected) {
                assert_close("layer_norm", set.isa, got, *expected, 0.01 + expected.abs() / 128.0);
            }
        }
    }
}

#[test]
fn softmax_blocks_agree_and_sum_to_one_over_chunks() {
    let mut numbers = Numbers(5);
    for round in 0..20 {
        let (rows, width, scale) = (1 + numbers.below(32), 32 * (1 + numbers.below(8)), 0.18);
        // Every other round the second chunk goes so far beyond the first that references must move.
        let chunks = [numbers.floats(rows * width, 40.0), numbers.floats(rows * width, [60.0, 900.0][round % 2])];
        let run = |set: &Kernels| {
            let mut out = vec![Vec::new(); rows];
            let mut block = SoftmaxBlock {
                scores: std::ptr::null(),
                scores_stride: width,
                rows: 0..rows,
                width,
                weights: std::ptr::null_mut(),
                weights_stride: width,
                scale,
                is_first: true,
                reference: [0.0; BLOCK],
                sums: [[0.0; 16]; BLOCK],
                rescale: [1.0; BLOCK],
            };
            for chunk in &chunks {
                let mut weights = Buffer::<u16>::zeroed(rows * width);
                (block.scores, block.weights) = (chunk.as_ptr(), weights.as_mut_ptr());
                // SAFETY: both sides have `rows` rows of `width` elements.
                unsafe { (set.softmax_block)(&mut block) };
                block.is_first = false;
                for (row, out) in out.iter_mut().enumerate() {
                    out.iter_mut().for_each(|weight| *weight *= block.rescale[row]);
                    out.extend(weights[row * width..(row + 1) * width].iter().map(|&half| from_bf16(half)));
                }
            }
            for (row, out) in out.iter_mut().enumerate() {
                let sum: f32 = block.sums[row].iter().sum();
                out.iter_mut().for_each(|weight| *weight /= sum);
            }
            out
        };
        let expected = run(&portable::KERNELS);
        for (row, expected) in expected.iter().enumerate() {
            let scores: Vec<f64> = chunks
                .iter()
                .flat_map(|chunk| &chunk[row * width..(row + 1) * width])
                .map(|&score| f64::from(score))
                .collect();
            let top = scores.iter().copied().fold(f64::MIN, f64::max);
            let power = |score: &f64| ((score - top) * f64::from(scale)).exp2();
            let total: f64 = scores.iter().map(power).sum();
            for (weight, score) in expected.iter().zip(&scores) {
                let exact = (power(score) / total) as f32;
                assert_close("softmax", Isa::Portable, *weight, exact, 1e-5 + exact / 100.0);
            }
        }
        for set in fast_sets() {
            for (got, expected) in run(set).iter().flatten().zip(expected.iter().flatten()) {
                assert_close("softmax", set.isa, *got, *expected, 1e-6 + expected / 100.0);
            }
        }
    }
}

#[test]
fn causal_attention_agrees() {
    let mut numbers = Numbers(6);
    for _ in 0..10 {
        let (heads, positions) = (1 + numbers.below(20), 1 + numbers.below(448));
        let width = heads * HEAD;
        let query = numbers.bf16_numbers(width, 2.0);
        let cache = numbers.bf16_numbers(positions * 2 * width, 2.0);
        let past: Vec<usize> = (0..positions).map(|position| position * 2 * width).collect();
        let run = |set: &Kernels| {
            let (mut out, mut weights) = (Buffer::<u16>::zeroed(width), vec![0.0; heads * positions]);
            // SAFETY: every row of the cache holds a key and a value of `width` elements.
            unsafe {
                (set.causal_attention)(&mut CausalAttention {
                    query: &query,
                    cache: &cache,
                    past: &past,
                    value_offset: width,
                    heads,
                    scale: 0.18,
                    weights: &mut weights,
                    out: &mut out,
                });
            }
            out.iter().map(|&half| from_bf16(half)).collect::<Vec<f32>>()
        };
        let expected = run(&portable::KERNELS);
        for set in fast_sets() {
            for (got, expected) in run(set).into_iter().zip(&expected) {
                assert_close("causal_attention", set.isa, got, *expected, 0.01 + expected.abs() / 64.0);
            }
        }
    }
}

#[test]
fn log_sums_agree_with_double_precision() {
    let mut numbers = Numbers(7);
    for len in [1, 31, 32, 33, 1000, 51_865] {
        let mut row = numbers.floats(len, 20.0);
        if len > 40 {
            row[3] = f32::NEG_INFINITY;
        }
        let top = row.iter().copied().fold(f32::MIN, f32::max);
        let sum: f64 = row.iter().map(|&x| (f64::from(x) - f64::from(top)).exp()).sum();
        for set in fast_sets().into_iter().chain([&portable::KERNELS]) {
            // SAFETY: the row has `len` elements.
            let (got_top, got_sum) = unsafe { (set.log_sum)(row.as_ptr(), len) };
            assert_eq!(got_top, top);
            assert_close("log_sum", set.isa, got_sum, sum as f32, sum as f32 * 1e-4);
            let never = vec![f32::NEG_INFINITY; len];
            // SAFETY: as above.
            let (_, nothing) = unsafe { (set.log_sum)(never.as_ptr(), len) };
            assert_eq!(nothing, 0.0, "nothing adds up to nothing on {}", set.isa.name());
        }
    }
}

#[test]
fn int8_attention_follows_the_definition() {
    let mut numbers = Numbers(8);
    for rows in 1..=MAX_INT8_ROWS {
        let (frames, padded) = (1500 - 7 * rows, 1504);
        let mut whole = |len: usize| -> Vec<i8> { (0..len).map(|_| (numbers.next() * 127.0) as i8).collect() };
        let (keys, values) = (whole(padded * HEAD), whole(padded * HEAD));
        let (key_scales, value_scales) = (numbers.floats(HEAD, 0.01), numbers.floats(HEAD, 0.01));
        let query = numbers.bf16_numbers(rows * HEAD, 3.0);
        let expected: Vec<[f64; HEAD]> = (0..rows)
            .map(|row| {
                let element = |frame: usize, element: usize| {
                    let place = element / 32 * 512 + element % 32 / 2 * 32 + frame % PANEL * 2 + element % 2;
                    f64::from(keys[frame / PANEL * PANEL * HEAD + place]) * f64::from(key_scales[element])
                };
                let score = |frame: usize| -> f64 {
                    (0..HEAD).map(|e| f64::from(from_bf16(query[row * HEAD + e])) * element(frame, e)).sum::<f64>()
                };
                let powers: Vec<f64> = (0..frames).map(|frame| (score(frame) * 0.18).exp2()).collect();
                let total: f64 = powers.iter().sum();
                std::array::from_fn(|e| {
                    let value = |frame: usize| {
                        let line = e / PANEL * PANEL * padded + frame / 2 * 2 * PANEL;
                        f64::from(values[line + e % PANEL * 2 + frame % 2]) * f64::from(value_scales[e])
                    };
                    powers.iter().enumerate().map(|(frame, power)| power / total * value(frame)).sum()
                })
            })
            .collect();
        for set in fast_sets() {
            let Some(attend_int8) = set.attend_int8 else { continue };
            let mut out = Buffer::<u16>::zeroed(rows * HEAD);
            let mut heard = 0;
            // SAFETY: keys, values, queries and output have the stated shapes.
            unsafe {
                attend_int8(&mut Int8Attention {
                    query: query.as_ptr(),
                    query_stride: HEAD,
                    rows,
                    keys: &keys,
                    values: &values,
                    key_scales: &key_scales,
                    value_scales: &value_scales,
                    frames,
                    scale: 0.18,
                    out: out.as_mut_ptr(),
                    out_stride: HEAD,
                    tap: Some(&mut |_, scores| heard += scores.len()),
                });
            }
            assert_eq!(heard, rows * frames);
            for (got, expected) in out.iter().zip(expected.iter().flatten()) {
                let expected = *expected as f32;
                assert_close("attend_int8", set.isa, from_bf16(*got), expected, 0.003 + expected.abs() / 64.0);
            }
        }
    }
}

#[test]
fn whole_numbers_widen_exactly_and_scaled_rows_agree() {
    let mut numbers = Numbers(9);
    let whole: Vec<i8> = (0..256).map(|number| (number - 128) as i8).collect();
    let row = numbers.floats(HEAD, 5.0);
    for set in fast_sets().into_iter().chain([&portable::KERNELS]) {
        let (mut widened, mut scaled) = (Buffer::<u16>::zeroed(256), Buffer::<u16>::zeroed(HEAD));
        // SAFETY: both sides of each call have the stated lengths.
        unsafe {
            (set.int8_to_bf16)(whole.as_ptr(), whole.len(), widened.as_mut_ptr());
            (set.scale_to_bf16)(row.as_ptr(), 0.3, HEAD, scaled.as_mut_ptr());
        }
        for (got, expected) in widened.iter().zip(&whole) {
            assert_eq!(from_bf16(*got), f32::from(*expected), "int8_to_bf16 on {}", set.isa.name());
        }
        for (got, x) in scaled.iter().zip(row.iter()) {
            assert_eq!(*got, to_bf16(x * 0.3), "scale_to_bf16 on {}", set.isa.name());
        }
    }
}
