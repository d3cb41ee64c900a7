//! AVX2 and FMA kernels.

use std::arch::x86_64::*;

use super::portable::bodies;
use super::{Block, BlockEpilogue, CausalAttention, DEPTH, Isa, Kernels, PANEL, SoftmaxBlock, TILE, math};

/// The AVX2 set.
pub static KERNELS: Kernels = Kernels {
    isa: Isa::Avx2,
    prepare: super::nothing_to_prepare,
    block,
    epilogue_bf16,
    epilogue_add,
    transpose_keys,
    interleave_values,
    layer_norm,
    softmax_block,
    scale_to_bf16,
    attend_int8: None,
    self_attention: None,
    int8_to_bf16,
    causal_attention,
    log_sum,
};

bodies!(#[target_feature(enable = "avx2,fma")]);

/// Rows done together: 4 rows × 16 columns are 8 accumulators, which leaves room for the expanded weights.
const ROWS: usize = 4;

/// Product block: bf16 pairs are split into two float32 vectors by a shift and a mask.
#[target_feature(enable = "avx2,fma")]
unsafe fn block(block: &Block) {
    let high_half = _mm256_set1_epi32(0xffff_0000_u32 as i32);
    // The activations of one group of rows and one tile, as float32: expanded together, so that what is left between
    // the products is a load that fills a vector. Even elements first, then odd ones, eight and eight.
    let mut expanded = [[0f32; DEPTH]; ROWS];
    let mut first = 0;
    while first < block.rows {
        let rows = ROWS.min(block.rows - first);
        for (panel, column) in [(block.left, 0), (block.right, PANEL)] {
            // SAFETY: the caller vouches for the shapes; a missing row of the last group repeats its first one.
            unsafe {
                let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
                for tile in 0..block.depth {
                    for (row, expanded) in expanded.iter_mut().enumerate() {
                        let row = first + if row < rows { row } else { 0 };
                        let a = block.a.add(row * block.a_stride + tile * DEPTH);
                        for half in 0..2 {
                            let both = _mm256_loadu_si256(a.add(half * 16).cast());
                            let low = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(both));
                            let high = _mm256_castsi256_ps(_mm256_and_si256(both, high_half));
                            _mm256_storeu_ps(expanded.as_mut_ptr().add(half * 8), low);
                            _mm256_storeu_ps(expanded.as_mut_ptr().add(16 + half * 8), high);
                        }
                    }
                    let b = panel.add(tile * TILE);
                    for pair in 0..DEPTH / 2 {
                        let b0 = _mm256_loadu_si256(b.add(pair * 32).cast());
                        let b1 = _mm256_loadu_si256(b.add(pair * 32 + 16).cast());
                        let low0 = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(b0));
                        let low1 = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(b1));
                        for row in 0..ROWS {
                            let low = _mm256_broadcast_ss(&expanded[row][pair]);
                            sums[row][0] = _mm256_fmadd_ps(low, low0, sums[row][0]);
                            sums[row][1] = _mm256_fmadd_ps(low, low1, sums[row][1]);
                        }
                        let high0 = _mm256_castsi256_ps(_mm256_and_si256(b0, high_half));
                        let high1 = _mm256_castsi256_ps(_mm256_and_si256(b1, high_half));
                        for row in 0..ROWS {
                            let high = _mm256_broadcast_ss(&expanded[row][16 + pair]);
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
