//! int8 products on 256-bit vectors, with and without AVX-VNNI.
//!
//! With AVX-VNNI, six rows × 16 columns are 12 sums in registers, enough to cover the latency of `vpdpbusd`.
//!
//! Without, `vpmaddubsw` would saturate on bytes up to 255. So activations are taken without their offset, as a magnitude
//! (at most 127) and a sign that goes to the weights: two products of 127 · 127 fit 16 bits, and the sums stay exact.

use std::arch::x86_64::*;

use super::PANEL;
use super::int8::{self, INT8_DEPTH, INT8_TILE, Int8Block, Int8Kernels};

/// AVX2 with AVX-VNNI.
pub static KERNELS_VNNI: Int8Kernels = Int8Kernels { block: block_vnni, chunk: None, quantize_row };

/// AVX2.
pub static KERNELS: Int8Kernels = Int8Kernels { block, chunk: None, quantize_row };

#[target_feature(enable = "avx2,fma")]
unsafe fn quantize_row(row: *const u16, n: usize, out: *mut u8) -> f32 {
    // SAFETY: same contract as the body.
    unsafe { int8::quantize_row(row, n, out) }
}

/// Rows done together with AVX-VNNI.
const ROWS: usize = 6;

#[target_feature(enable = "avx2,fma,avxvnni")]
unsafe fn block_vnni(block: &Int8Block) {
    let mut first = 0;
    while first < block.rows {
        // SAFETY: the caller vouches for the shapes.
        unsafe {
            match block.rows - first {
                1 => rows_of::<1>(block, first),
                2 => rows_of::<2>(block, first),
                3 => rows_of::<3>(block, first),
                4 => rows_of::<4>(block, first),
                5 => rows_of::<5>(block, first),
                _ => rows_of::<ROWS>(block, first),
            }
        }
        first += ROWS;
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,avxvnni")]
unsafe fn rows_of<const N: usize>(block: &Int8Block, first: usize) {
    for (panel, column) in [(block.left, 0), (block.right, PANEL)] {
        // SAFETY: the caller vouches for the shapes; a panel's lines of 64 bytes lie one after the other.
        unsafe {
            let a: [*const u8; N] = std::array::from_fn(|row| block.a.add((first + row) * block.a_stride));
            let mut sums = [[_mm256_setzero_si256(); 2]; N];
            for line in 0..block.depth * 16 {
                let low = _mm256_loadu_si256(panel.add(line * 64).cast());
                let high = _mm256_loadu_si256(panel.add(line * 64 + 32).cast());
                for row in 0..N {
                    let four = _mm256_set1_epi32(a[row].add(line * 4).cast::<i32>().read_unaligned());
                    sums[row][0] = _mm256_dpbusd_avx_epi32(sums[row][0], four, low);
                    sums[row][1] = _mm256_dpbusd_avx_epi32(sums[row][1], four, high);
                }
            }
            for (row, sums) in sums.iter().enumerate() {
                for half in 0..2 {
                    let at = column + half * 8;
                    let offsets = _mm256_loadu_si256(block.offsets.add(at).cast());
                    store(block, first + row, at, offsets, sums[half]);
                }
            }
        }
    }
}

/// Rows done together without: 4 rows × 16 columns are 8 sums.
const PLAIN_ROWS: usize = 4;

#[target_feature(enable = "avx2,fma")]
unsafe fn block(block: &Int8Block) {
    let ones = _mm256_set1_epi16(1);
    let offset = _mm256_set1_epi8(-128);
    // The activations of one group of rows and one tile without their offset, and their magnitudes.
    let mut signed = [[0i8; INT8_DEPTH]; PLAIN_ROWS];
    let mut sizes = [[0u8; INT8_DEPTH]; PLAIN_ROWS];
    let mut first = 0;
    while first < block.rows {
        let rows = PLAIN_ROWS.min(block.rows - first);
        // SAFETY: the caller vouches for the shapes; a missing row of the last group repeats its first one.
        unsafe {
            let mut sums = [[[_mm256_setzero_si256(); 2]; PLAIN_ROWS]; 2];
            for tile in 0..block.depth {
                for row in 0..PLAIN_ROWS {
                    let from = (first + if row < rows { row } else { 0 }) * block.a_stride + tile * INT8_DEPTH;
                    for half in [0, 32] {
                        let number = _mm256_loadu_si256(block.a.add(from + half).cast());
                        let number = _mm256_xor_si256(number, offset);
                        _mm256_storeu_si256(signed[row].as_mut_ptr().add(half).cast(), number);
                        _mm256_storeu_si256(sizes[row].as_mut_ptr().add(half).cast(), _mm256_abs_epi8(number));
                    }
                }
                for (panel, sums) in [block.left, block.right].into_iter().zip(&mut sums) {
                    let panel = panel.add(tile * INT8_TILE);
                    for line in 0..INT8_DEPTH / 4 {
                        let weights: [__m256i; 2] =
                            std::array::from_fn(|half| _mm256_loadu_si256(panel.add(line * 64 + half * 32).cast()));
                        for row in 0..PLAIN_ROWS {
                            let four = |bytes: *const u8| bytes.add(line * 4).cast::<i32>().read_unaligned();
                            let sign = _mm256_set1_epi32(four(signed[row].as_ptr().cast()));
                            let size = _mm256_set1_epi32(four(sizes[row].as_ptr()));
                            for half in 0..2 {
                                let pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(weights[half], sign));
                                let fours = _mm256_madd_epi16(pairs, ones);
                                sums[row][half] = _mm256_add_epi32(sums[row][half], fours);
                            }
                        }
                    }
                }
            }
            for (panel, sums) in sums.iter().enumerate() {
                for (row, sums) in sums.iter().enumerate().take(rows) {
                    for half in 0..2 {
                        let column = panel * PANEL + half * 8;
                        store(block, first + row, column, _mm256_setzero_si256(), sums[half]);
                    }
                }
            }
        }
        first += PLAIN_ROWS;
    }
}

/// Writes eight sums, which begin with `offsets` in the first part of the depth and with what is there in later ones.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn store(block: &Int8Block, row: usize, column: usize, offsets: __m256i, sums: __m256i) {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        let to = block.sums.add(row * 32 + column);
        let before = if block.is_first { offsets } else { _mm256_loadu_si256(to.cast()) };
        let sum = _mm256_add_epi32(before, sums);
        if !block.is_last {
            _mm256_storeu_si256(to.cast(), sum);
            return;
        }
        let row_scale = _mm256_set1_ps(*block.row_scales.add(row));
        let scales = _mm256_mul_ps(row_scale, _mm256_loadu_ps(block.column_scales.add(column)));
        _mm256_storeu_ps(to.cast(), _mm256_mul_ps(_mm256_cvtepi32_ps(sum), scales));
    }
}
