//! int8 products against their plain twin, on random shapes.

use super::int8::{self, INT8_DEPTH, INT8_TILE, Int8Block, Int8Kernels};
use super::math::{from_bf16, to_bf16};
use super::*;
use crate::buffer::Buffer;
use crate::isa::Isa;

/// A small repeatable generator.
struct Numbers(u32);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 8
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit
    }
}

/// All sets of this machine, prepared.
fn sets() -> Vec<(Isa, &'static Int8Kernels)> {
    let sets: Vec<Isa> = Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect();
    for isa in &sets {
        // SAFETY: the set is available.
        unsafe { (Kernels::of(*isa).prepare)() };
    }
    sets.into_iter().map(|isa| (isa, Int8Kernels::of(isa))).collect()
}

#[test]
fn int8_product_blocks_are_exact_on_every_set() {
    let mut numbers = Numbers(1);
    for round in 0..60 {
        let (rows, depth) = (1 + numbers.below(32), 1 + numbers.below(20));
        let stride = depth * INT8_DEPTH + 64 * numbers.below(3);
        let (mut a, mut b) = (Buffer::<u8>::zeroed(32 * stride), Buffer::<i8>::zeroed(2 * depth * INT8_TILE));
        // Now and then the largest numbers that may come, where sums of 16 bits would overflow.
        let largest = round % 5 == 0;
        a.iter_mut().for_each(|x| *x = if largest { 255 } else { 1 + numbers.below(255) as u8 });
        b.iter_mut().for_each(|x| *x = if largest { 127 } else { (numbers.below(255) as i32 - 127) as i8 });
        let (mut row_scales, mut column_scales) = (Buffer::<f32>::zeroed(32), Buffer::<f32>::zeroed(32));
        row_scales.iter_mut().chain(column_scales.iter_mut()).for_each(|x| *x = numbers.next() as f32 * 1e-9);
        let b_at = |k: usize, column: usize| {
            i32::from(b[column / PANEL * depth * INT8_TILE + int8::index_in_panel(k, column % PANEL)])
        };
        let mut offsets = Buffer::<i32>::zeroed(32);
        for column in 0..32 {
            offsets[column] = -128 * (0..depth * INT8_DEPTH).map(|k| b_at(k, column)).sum::<i32>();
        }
        // Every other round in two parts, as a deep product comes.
        let cut = if round % 2 == 0 { depth / 2 } else { 0 };
        let parts = [0..cut, cut..depth];
        for (isa, set) in sets() {
            let mut sums = Buffer::<f32>::zeroed(32 * 32);
            sums.fill(f32::NAN);
            for part in parts.iter().filter(|part| !part.is_empty()) {
                // SAFETY: the buffers have the stated shapes.
                unsafe {
                    (set.block)(&Int8Block {
                        a: a[part.start * INT8_DEPTH..].as_ptr(),
                        a_stride: stride,
                        left: b[part.start * INT8_TILE..].as_ptr(),
                        right: b[(depth + part.start) * INT8_TILE..].as_ptr(),
                        sums: sums.as_mut_ptr().cast(),
                        depth: part.len(),
                        rows,
                        offsets: offsets.as_ptr(),
                        is_first: part.start == 0,
                        is_last: part.end == depth,
                        row_scales: row_scales.as_ptr(),
                        column_scales: column_scales.as_ptr(),
                    });
                }
            }
            for row in 0..rows {
                for column in 0..32 {
                    let exact: i32 =
                        (0..depth * INT8_DEPTH).map(|k| (i32::from(a[row * stride + k]) - 128) * b_at(k, column)).sum();
                    let expected = exact as f32 * (row_scales[row] * column_scales[column]);
                    let got = sums[row * 32 + column];
                    assert_eq!(got, expected, "{} rows, depth {depth}, on {}", rows, isa.name());
                }
            }
        }
    }
}

#[test]
fn rows_are_quantized_to_the_nearest_number_on_every_set() {
    let mut numbers = Numbers(2);
    for n in [16, 80, 240, 256, 384, 512, 2048] {
        let row: Vec<u16> = (0..n).map(|_| to_bf16(numbers.next() as f32 / (1 << 22) as f32 - 2.0)).collect();
        let largest = row.iter().map(|&half| from_bf16(half).abs()).fold(0.0, f32::max);
        for (isa, set) in sets() {
            let mut out = vec![7u8; n + 1];
            // SAFETY: both sides have `n` elements.
            let scale = unsafe { (set.quantize_row)(row.as_ptr(), n, out.as_mut_ptr()) };
            assert_eq!(scale, largest / 127.0);
            assert_eq!(out[n], 7, "{} writes beyond the row", isa.name());
            for (&half, &byte) in row.iter().zip(&out) {
                let error = (f32::from(byte) - 128.0) * scale - from_bf16(half);
                assert!(error.abs() <= scale * 0.5001, "{}: {error} of a scale of {scale}", isa.name());
            }
            // SAFETY: as above.
            let scale = unsafe { (set.quantize_row)(vec![0; n].as_ptr(), n, out.as_mut_ptr()) };
            assert_eq!(scale, 0.0);
            assert!(out[..n].iter().all(|&byte| byte == int8::ZERO), "a row of zeros on {}", isa.name());
        }
    }
}
