//! int8 products on AVX-512, with and without VNNI.
//!
//! With VNNI, eight rows × 32 columns are 16 sums in registers. For every four `k` two lines of weights are loaded, four
//! bytes of each row are spread to all lanes, and 16 `vpdpbusd` do 1,024 products in 8 cycles; the latency of 5 cycles on
//! two scales is covered by the 16 sums.
//!
//! Without, bytes are widened to 16 bits for `vpmaddwd`, which sums pairs: a sum is kept in two lanes until the end. Four
//! rows × 32 columns are 16 sums; 32 instructions do 512 products.

use std::arch::x86_64::*;

use super::PANEL;
use super::int8::{Int8Block, Int8Kernels, LARGEST, ZERO, inverse_scale};

/// AVX-512 with VNNI.
pub static KERNELS_VNNI: Int8Kernels = Int8Kernels { block: block_vnni, chunk: None, quantize_row };

/// AVX-512 without.
pub static KERNELS: Int8Kernels = Int8Kernels { block, chunk: None, quantize_row };

/// Rows done together with VNNI.
const ROWS: usize = 8;

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn block_vnni(block: &Int8Block) {
    let mut first = 0;
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        while first + ROWS <= block.rows {
            rows_of::<ROWS>(block, first);
            first += ROWS;
        }
        match block.rows - first {
            0 => {}
            1 => rows_of::<1>(block, first),
            2 => rows_of::<2>(block, first),
            3 => rows_of::<3>(block, first),
            4 => rows_of::<4>(block, first),
            5 => rows_of::<5>(block, first),
            6 => rows_of::<6>(block, first),
            _ => rows_of::<7>(block, first),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn rows_of<const N: usize>(block: &Int8Block, first: usize) {
    // SAFETY: the caller vouches for the shapes; a panel's tiles, and their lines of 64 bytes, lie one after the other.
    unsafe {
        let out = block.sums.add(first * 32);
        let mut sums: [[__m512i; 2]; N] = std::array::from_fn(|row| {
            std::array::from_fn(|half| match block.is_first {
                true => _mm512_loadu_si512(block.offsets.add(half * PANEL).cast()),
                false => _mm512_loadu_si512(out.add(row * 32 + half * PANEL).cast()),
            })
        });
        let a: [*const u8; N] = std::array::from_fn(|row| block.a.add((first + row) * block.a_stride));
        for line in 0..block.depth * 16 {
            let left = _mm512_loadu_si512(block.left.add(line * 64).cast());
            let right = _mm512_loadu_si512(block.right.add(line * 64).cast());
            for row in 0..N {
                let four = _mm512_set1_epi32(a[row].add(line * 4).cast::<i32>().read_unaligned());
                sums[row][0] = _mm512_dpbusd_epi32(sums[row][0], four, left);
                sums[row][1] = _mm512_dpbusd_epi32(sums[row][1], four, right);
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            for half in 0..2 {
                let to = out.add(row * 32 + half * PANEL);
                let done = if block.is_last { dequantize(block, first + row, half, sums[half]) } else { sums[half] };
                _mm512_storeu_si512(to.cast(), done);
            }
        }
    }
}

/// Rows done together without VNNI.
const WIDE_ROWS: usize = 4;

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn block(block: &Int8Block) {
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    let mut first = 0;
    while first < block.rows {
        let rows = WIDE_ROWS.min(block.rows - first);
        // SAFETY: the caller vouches for the shapes; a missing row of the last group repeats its first one.
        unsafe {
            let mut sums = [[_mm512_setzero_si512(); 4]; WIDE_ROWS];
            let a: [*const u8; WIDE_ROWS] =
                std::array::from_fn(|row| block.a.add((first + if row < rows { row } else { 0 }) * block.a_stride));
            for line in 0..block.depth * 16 {
                let weights: [__m512i; 4] = std::array::from_fn(|quarter| {
                    let panel = if quarter < 2 { block.left } else { block.right };
                    _mm512_cvtepi8_epi16(_mm256_loadu_si256(panel.add(line * 64 + quarter % 2 * 32).cast()))
                });
                for row in 0..WIDE_ROWS {
                    let four = _mm_cvtsi32_si128(a[row].add(line * 4).cast::<i32>().read_unaligned());
                    let four = _mm512_broadcastq_epi64(_mm_cvtepu8_epi16(four));
                    for quarter in 0..4 {
                        let products = _mm512_madd_epi16(four, weights[quarter]);
                        sums[row][quarter] = _mm512_add_epi32(sums[row][quarter], products);
                    }
                }
            }
            for (row, sums) in sums.iter().enumerate().take(rows) {
                for half in 0..2 {
                    let to = block.sums.add((first + row) * 32 + half * PANEL);
                    let [left, right] = [sums[half * 2], sums[half * 2 + 1]];
                    let pairs = _mm512_add_epi32(
                        _mm512_permutex2var_epi32(left, even, right),
                        _mm512_permutex2var_epi32(left, odd, right),
                    );
                    let before = if block.is_first { block.offsets.add(half * PANEL) } else { to.cast_const() };
                    let sum = _mm512_add_epi32(_mm512_loadu_si512(before.cast()), pairs);
                    let done = if block.is_last { dequantize(block, first + row, half, sum) } else { sum };
                    _mm512_storeu_si512(to.cast(), done);
                }
            }
        }
        first += WIDE_ROWS;
    }
}

/// Sixteen finished sums as float32 numbers.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn dequantize(block: &Int8Block, row: usize, half: usize, sums: __m512i) -> __m512i {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        let columns = _mm512_loadu_ps(block.column_scales.add(half * PANEL));
        let scales = _mm512_mul_ps(_mm512_set1_ps(*block.row_scales.add(row)), columns);
        _mm512_castps_si512(_mm512_mul_ps(_mm512_cvtepi32_ps(sums), scales))
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn quantize_row(row: *const u16, n: usize, out: *mut u8) -> f32 {
    // SAFETY: the caller vouches for the lengths; masked lanes are neither read nor written.
    unsafe {
        let magnitude = _mm512_set1_epi16(0x7fff);
        let mut largest = _mm512_setzero_si512();
        for index in (0..n).step_by(32) {
            let bf16_numbers = _mm512_maskz_loadu_epi16(lanes(n - index), row.add(index).cast());
            largest = _mm512_max_epu16(largest, _mm512_and_si512(bf16_numbers, magnitude));
        }
        // Of two neighbours the higher one's bits decide, whatever stands below them.
        let high = _mm512_and_si512(largest, _mm512_set1_epi32(0xffff_0000_u32 as i32));
        let both = _mm512_max_epu32(high, _mm512_slli_epi32::<16>(largest));
        let largest = f32::from_bits(_mm512_reduce_max_epu32(both));
        let inverse = _mm512_set1_ps(inverse_scale(largest));
        let zero = _mm512_set1_epi32(i32::from(ZERO));
        for index in (0..n).step_by(16) {
            let mask = lanes(n - index) as __mmask16;
            let bf16_numbers = _mm256_maskz_loadu_epi16(mask, row.add(index).cast());
            let exact = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bf16_numbers)));
            let whole = _mm512_add_epi32(_mm512_cvtps_epi32(_mm512_mul_ps(exact, inverse)), zero);
            _mm_mask_storeu_epi8(out.add(index).cast(), mask, _mm512_cvtepi32_epi8(whole));
        }
        largest / LARGEST
    }
}

/// A mask of the first `n` lanes.
#[inline(always)]
fn lanes(n: usize) -> __mmask32 {
    if n >= 32 { !0 } else { (1 << n) - 1 }
}
