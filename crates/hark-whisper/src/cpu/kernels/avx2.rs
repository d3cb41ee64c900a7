//! AVX2 and FMA kernels.

use std::arch::x86_64::*;

use super::portable::bodies;
use super::{Block, DEPTH, Finish, Isa, Kernels, PANEL, PastAttention, SoftmaxBlock, TILE, math};

/// The AVX2 set.
pub static KERNELS: Kernels = Kernels {
    isa: Isa::Avx2,
    prepare: super::nothing_to_prepare,
    block,
    finish_bf16,
    finish_add,
    turn_keys,
    pair_values,
    layer_norm,
    softmax_block,
    scale_to_bf16,
    attend_rounded: None,
    attend_frames: None,
    widen,
    attend_past,
    log_sum,
};

bodies!(#[target_feature(enable = "avx2,fma")]);

/// Rows done together: 4 rows × 16 columns are 8 accumulators, which leaves room for the expanded weights.
const ROWS: usize = 4;

/// Product block: bf16 pairs are split into two float32 vectors by a shift and a mask.
#[target_feature(enable = "avx2,fma")]
unsafe fn block(block: &Block) {
    let high_half = _mm256_set1_epi32(0xffff_0000_u32 as i32);
    let mut first = 0;
    while first < block.rows {
        let rows = ROWS.min(block.rows - first);
        for (panel, column) in [(block.left, 0), (block.right, PANEL)] {
            // SAFETY: the caller vouches for the shapes; a missing row of the last group repeats its first one.
            unsafe {
                let row_at = |row: usize| if row < rows { first + row } else { first };
                let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
                for tile in 0..block.depth {
                    let a: [*const u16; ROWS] =
                        std::array::from_fn(|row| block.a.add(row_at(row) * block.a_stride + tile * DEPTH));
                    let b = panel.add(tile * TILE);
                    for pair in 0..DEPTH / 2 {
                        let b0 = _mm256_loadu_si256(b.add(pair * 32).cast());
                        let b1 = _mm256_loadu_si256(b.add(pair * 32 + 16).cast());
                        let low0 = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(b0));
                        let low1 = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(b1));
                        let high0 = _mm256_castsi256_ps(_mm256_and_si256(b0, high_half));
                        let high1 = _mm256_castsi256_ps(_mm256_and_si256(b1, high_half));
                        for row in 0..ROWS {
                            let both = _mm256_set1_epi32(a[row].add(pair * 2).cast::<i32>().read_unaligned());
                            let low = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(both));
                            let high = _mm256_castsi256_ps(_mm256_and_si256(both, high_half));
                            sums[row][0] = _mm256_fmadd_ps(low, low0, sums[row][0]);
                            sums[row][1] = _mm256_fmadd_ps(low, low1, sums[row][1]);
                            sums[row][0] = _mm256_fmadd_ps(high, high0, sums[row][0]);
                            sums[row][1] = _mm256_fmadd_ps(high, high1, sums[row][1]);
                        }
                    }
                }
                for (row, sums) in sums.iter().enumerate().take(rows) {
                    for half in 0..2 {
                        let c = block.c.add((first + row) * block.c_stride + column + half * 8);
                        let before = if block.accumulate { _mm256_loadu_ps(c) } else { _mm256_setzero_ps() };
                        _mm256_storeu_ps(c, _mm256_add_ps(before, sums[half]));
                    }
                }
            }
        }
        first += ROWS;
    }
}
