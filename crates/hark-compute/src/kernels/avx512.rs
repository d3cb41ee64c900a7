//! AVX-512 kernels, with and without the bf16 dot product.

use std::arch::x86_64::*;
use std::f32::consts::LOG2_E;

use super::math::{EXP2, GELU, GELU_LIMIT};
use super::portable::bodies;
use super::{
    Block, BlockEpilogue, CausalAttention, DEPTH, HEAD, Isa, Kernels, MAX_EXPONENT, PANEL, SoftmaxBlock, TILE, math,
};

/// AVX-512 without bf16 instructions.
pub static KERNELS: Kernels = Kernels {
    isa: Isa::Avx512,
    prepare: super::nothing_to_prepare,
    block,
    epilogue_bf16,
    epilogue_add,
    transpose_keys: transpose_keys_native,
    interleave_values,
    layer_norm,
    softmax_block,
    scale_to_bf16,
    attend_int8: None,
    self_attention: None,
    int8_to_bf16,
    causal_attention,
    log_sum: log_sum_native,
};

/// AVX-512 with VNNI but without bf16 instructions.
pub static KERNELS_VNNI: Kernels =
    Kernels { isa: Isa::Avx512Vnni, attend_int8: Some(super::vnni::attend_int8), ..KERNELS };

/// AVX-512 with bf16 instructions.
pub static KERNELS_BF16: Kernels = Kernels {
    isa: Isa::Avx512Bf16,
    prepare: super::nothing_to_prepare,
    block: block_bf16,
    epilogue_bf16: epilogue_bf16_native,
    epilogue_add: epilogue_add_native,
    transpose_keys: transpose_keys_native,
    interleave_values,
    layer_norm: layer_norm_native,
    softmax_block: softmax_block_native,
    scale_to_bf16: scale_to_bf16_native,
    attend_int8: Some(super::vnni::attend_int8),
    self_attention: None,
    int8_to_bf16: int8_to_bf16_native,
    causal_attention: causal_attention_native,
    log_sum: log_sum_native,
};

/// AVX-512 with bf16 instructions where `vdpbf16ps` is slow, see [`has_slow_bf16_products`].
pub static KERNELS_BF16_WIDENED: Kernels = Kernels { block, ..KERNELS_BF16 };

/// Whether products of bf16 are quicker widened to float32: true on Intel's processors.
///
/// On Sapphire Rapids 32 products by `vdpbf16ps` were measured at 0.78 ns, by two multiply-adds of float32 at 0.37 ns.
pub fn has_slow_bf16_products() -> bool {
    let vendor = __cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"GenuineIntel"
}

bodies!(#[allow(dead_code)] #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]);

/// Rows done together: 8 rows × 32 columns are 16 accumulators.
const ROWS: usize = 8;

/// Product block without bf16 instructions: pairs are split by a shift and a mask.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
unsafe fn block(block: &Block) {
    let high_half = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    // The activations of one group of rows and one tile, as float32: expanded once, used for 32 columns.
    let mut expanded = [[0f32; DEPTH]; ROWS];
    let mut first = 0;
    while first < block.rows {
        let rows = ROWS.min(block.rows - first);
        // SAFETY: the caller vouches for the shapes; a missing row of the last group repeats its first one.
        unsafe {
            let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
            for tile in 0..block.depth {
                for (row, expanded) in expanded.iter_mut().enumerate() {
                    let row = first + if row < rows { row } else { 0 };
                    let both = _mm512_loadu_si512(block.a.add(row * block.a_stride + tile * DEPTH).cast());
                    // Even elements in the first half, odd ones in the second: the order in which pairs use them.
                    _mm512_storeu_ps(expanded.as_mut_ptr(), _mm512_castsi512_ps(_mm512_slli_epi32::<16>(both)));
                    let high = _mm512_castsi512_ps(_mm512_and_si512(both, high_half));
                    _mm512_storeu_ps(expanded.as_mut_ptr().add(16), high);
                }
                let (left, right) = (block.left.add(tile * TILE), block.right.add(tile * TILE));
                for pair in 0..DEPTH / 2 {
                    let b0 = _mm512_loadu_si512(left.add(pair * 32).cast());
                    let b1 = _mm512_loadu_si512(right.add(pair * 32).cast());
                    let low0 = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(b0));
                    let low1 = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(b1));
                    let high0 = _mm512_castsi512_ps(_mm512_and_si512(b0, high_half));
                    let high1 = _mm512_castsi512_ps(_mm512_and_si512(b1, high_half));
                    for row in 0..ROWS {
                        let low = _mm512_set1_ps(expanded[row][pair]);
                        let high = _mm512_set1_ps(expanded[row][16 + pair]);
                        sums[row][0] = _mm512_fmadd_ps(low, low0, sums[row][0]);
                        sums[row][1] = _mm512_fmadd_ps(low, low1, sums[row][1]);
                        sums[row][0] = _mm512_fmadd_ps(high, high0, sums[row][0]);
                        sums[row][1] = _mm512_fmadd_ps(high, high1, sums[row][1]);
                    }
                }
            }
            store(block, first, rows, &sums);
        }
        first += ROWS;
    }
}

/// Product block with `vdpbf16ps`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")]
pub(super) unsafe fn block_bf16(block: &Block) {
    let mut first = 0;
    while first < block.rows {
        let rows = ROWS.min(block.rows - first);
        // SAFETY: the caller vouches for the shapes; a missing row of the last group repeats its first one.
        unsafe {
            let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
            for tile in 0..block.depth {
                let a: [*const u16; ROWS] = std::array::from_fn(|row| {
                    block.a.add((first + if row < rows { row } else { 0 }) * block.a_stride + tile * DEPTH)
                });
                let (left, right) = (block.left.add(tile * TILE), block.right.add(tile * TILE));
                for pair in 0..DEPTH / 2 {
                    let b0: __m512bh = std::mem::transmute(_mm512_loadu_si512(left.add(pair * 32).cast()));
                    let b1: __m512bh = std::mem::transmute(_mm512_loadu_si512(right.add(pair * 32).cast()));
                    for row in 0..ROWS {
                        let both = _mm512_set1_epi32(a[row].add(pair * 2).cast::<i32>().read_unaligned());
                        let both: __m512bh = std::mem::transmute(both);
                        sums[row][0] = _mm512_dpbf16_ps(sums[row][0], both, b0);
                        sums[row][1] = _mm512_dpbf16_ps(sums[row][1], both, b1);
                    }
                }
            }
            store(block, first, rows, &sums);
        }
        first += ROWS;
    }
}

/// Writes or adds a group of rows.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store(block: &Block, first: usize, rows: usize, sums: &[[__m512; 2]; ROWS]) {
    for (row, sums) in sums.iter().enumerate().take(rows) {
        for half in 0..2 {
            // SAFETY: the caller vouches for the shapes.
            unsafe {
                let c = block.c.add((first + row) * block.c_stride + half * PANEL);
                let before = if block.accumulate { _mm512_loadu_ps(c) } else { _mm512_setzero_ps() };
                _mm512_storeu_ps(c, _mm512_add_ps(before, sums[half]));
            }
        }
    }
}

/// GELU of 16 values: the polynomial of [`math::gelu`].
#[inline]
#[target_feature(enable = "avx512f")]
fn gelu(x: __m512) -> __m512 {
    let limit = _mm512_set1_ps(GELU_LIMIT);
    let clamped = _mm512_min_ps(_mm512_max_ps(x, _mm512_sub_ps(_mm512_setzero_ps(), limit)), limit);
    let square = _mm512_mul_ps(clamped, clamped);
    let mut sum = _mm512_set1_ps(GELU[9]);
    let mut index = 9;
    while index > 0 {
        index -= 1;
        sum = _mm512_fmadd_ps(sum, square, _mm512_set1_ps(GELU[index]));
    }
    _mm512_mul_ps(x, _mm512_fmadd_ps(clamped, sum, _mm512_set1_ps(0.5)))
}

/// 2^x of 16 values: the polynomial of [`math::exp2`]; `scalef` takes care of the exponent and of underflow.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn exp2(x: __m512) -> __m512 {
    let whole = _mm512_roundscale_ps::<0x08>(x);
    let part = _mm512_sub_ps(x, whole);
    let mut sum = _mm512_set1_ps(EXP2[4]);
    sum = _mm512_fmadd_ps(sum, part, _mm512_set1_ps(EXP2[3]));
    sum = _mm512_fmadd_ps(sum, part, _mm512_set1_ps(EXP2[2]));
    sum = _mm512_fmadd_ps(sum, part, _mm512_set1_ps(EXP2[1]));
    sum = _mm512_fmadd_ps(sum, part, _mm512_set1_ps(EXP2[0]));
    _mm512_scalef_ps(sum, whole)
}

/// Like [`math::log_sum`], with the exponential above.
#[target_feature(enable = "avx512f")]
unsafe fn log_sum_native(row: *const f32, n: usize) -> (f32, f32) {
    /// Two to this power is nothing beside a sum of at least one, and whole, as minus infinity is not.
    const NOTHING: f32 = -200.0;
    let never = _mm512_set1_ps(f32::NEG_INFINITY);
    // SAFETY: the caller vouches for `n` elements; lanes beyond them are masked.
    let load = |index: usize| unsafe {
        let lanes = n.saturating_sub(index).min(PANEL);
        _mm512_mask_loadu_ps(never, ((1u32 << lanes) - 1) as __mmask16, row.wrapping_add(index))
    };
    let mut tops = [_mm512_set1_ps(f32::MIN); 4];
    for index in (0..n).step_by(4 * PANEL) {
        for turn in 0..4 {
            tops[turn] = _mm512_max_ps(tops[turn], load(index + turn * PANEL));
        }
    }
    let top = tops.map(|top| _mm512_reduce_max_ps(top)).into_iter().fold(f32::MIN, f32::max);
    let (shift, scale) = (_mm512_set1_ps(-top * LOG2_E), _mm512_set1_ps(LOG2_E));
    let mut sums = [_mm512_setzero_ps(); 4];
    for index in (0..n).step_by(4 * PANEL) {
        for turn in 0..4 {
            let power = _mm512_fmadd_ps(load(index + turn * PANEL), scale, shift);
            // Where there is no number, this has the other operand.
            sums[turn] = _mm512_add_ps(sums[turn], exp2(_mm512_max_ps(power, _mm512_set1_ps(NOTHING))));
        }
    }
    (top, sums.map(|sum| _mm512_reduce_add_ps(sum)).into_iter().sum())
}

/// Two float32 vectors as one bf16 vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn pack(low: __m512, high: __m512) -> __m512i {
    // SAFETY: both are 64 plain bytes.
    unsafe { std::mem::transmute(_mm512_cvtne2ps_pbh(high, low)) }
}

#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn epilogue_bf16_native(epilogue: &BlockEpilogue, out: *mut u16, stride: usize) {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        let bias = [_mm512_loadu_ps(epilogue.bias.as_ptr()), _mm512_loadu_ps(epilogue.bias.as_ptr().add(16))];
        for row in 0..epilogue.rows {
            let sums = epilogue.sums.as_ptr().add(row * 32);
            let mut low = _mm512_add_ps(_mm512_loadu_ps(sums), bias[0]);
            let mut high = _mm512_add_ps(_mm512_loadu_ps(sums.add(16)), bias[1]);
            if epilogue.gelu {
                low = gelu(low);
                high = gelu(high);
            }
            _mm512_storeu_si512(out.add(row * stride).cast(), pack(low, high));
        }
    }
}

#[target_feature(enable = "avx512f")]
unsafe fn epilogue_add_native(epilogue: &BlockEpilogue, out: *mut f32, stride: usize) {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        for half in 0..2 {
            let bias = _mm512_loadu_ps(epilogue.bias.as_ptr().add(half * 16));
            for row in 0..epilogue.rows {
                let to = out.add(row * stride + half * 16);
                let mut value = _mm512_add_ps(_mm512_loadu_ps(epilogue.sums.as_ptr().add(row * 32 + half * 16)), bias);
                if epilogue.gelu {
                    value = gelu(value);
                }
                _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), value));
            }
        }
    }
}

/// Pairs of elements are 32 bits each, so a tile is a square of them turned over: first within 128 bits, then those.
#[target_feature(enable = "avx512f")]
unsafe fn transpose_keys_native(frames: *const u16, out: *mut u16) {
    // SAFETY: the caller vouches for 16 lines of 64 bytes on both sides.
    unsafe {
        let rows: [__m512i; 16] = std::array::from_fn(|row| _mm512_loadu_si512(frames.add(row * 32).cast()));
        let pairs: [__m512i; 16] = std::array::from_fn(|index| match index % 2 {
            0 => _mm512_unpacklo_epi32(rows[index], rows[index + 1]),
            _ => _mm512_unpackhi_epi32(rows[index - 1], rows[index]),
        });
        // Quarter `q` of `fours[4 * g + c]` is column `4 * q + c` of rows `4 * g` to `4 * g + 3`.
        let fours: [__m512i; 16] = std::array::from_fn(|index| {
            let first = index / 4 * 4 + index % 4 / 2;
            match index % 2 {
                0 => _mm512_unpacklo_epi64(pairs[first], pairs[first + 2]),
                _ => _mm512_unpackhi_epi64(pairs[first], pairs[first + 2]),
            }
        });
        for column in 0..4 {
            let (even, odd) = (
                [0, 8].map(|row| _mm512_shuffle_i32x4::<0x88>(fours[row + column], fours[row + 4 + column])),
                [0, 8].map(|row| _mm512_shuffle_i32x4::<0xdd>(fours[row + column], fours[row + 4 + column])),
            );
            for (quarter, line) in [
                _mm512_shuffle_i32x4::<0x88>(even[0], even[1]),
                _mm512_shuffle_i32x4::<0x88>(odd[0], odd[1]),
                _mm512_shuffle_i32x4::<0xdd>(even[0], even[1]),
                _mm512_shuffle_i32x4::<0xdd>(odd[0], odd[1]),
            ]
            .into_iter()
            .enumerate()
            {
                _mm512_storeu_si512(out.add((4 * quarter + column) * 32).cast(), line);
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn layer_norm_native(row: *const f32, gain: *const f32, bias: *const f32, width: usize, out: *mut u16) {
    // SAFETY: the caller vouches for the lengths; `width` is a multiple of 32.
    unsafe {
        let mut sums = [_mm512_setzero_ps(); 2];
        for index in (0..width).step_by(32) {
            sums[0] = _mm512_add_ps(sums[0], _mm512_loadu_ps(row.add(index)));
            sums[1] = _mm512_add_ps(sums[1], _mm512_loadu_ps(row.add(index + 16)));
        }
        let mean = _mm512_set1_ps(_mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1])) / width as f32);
        let mut squares = [_mm512_setzero_ps(); 2];
        for index in (0..width).step_by(32) {
            for half in 0..2 {
                let distance = _mm512_sub_ps(_mm512_loadu_ps(row.add(index + half * 16)), mean);
                squares[half] = _mm512_fmadd_ps(distance, distance, squares[half]);
            }
        }
        let variance = _mm512_reduce_add_ps(_mm512_add_ps(squares[0], squares[1])) / width as f32;
        let inverse = _mm512_set1_ps(1.0 / (variance + math::EPSILON).sqrt());
        for index in (0..width).step_by(32) {
            let normed: [__m512; 2] = std::array::from_fn(|half| {
                let at = index + half * 16;
                let unit = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(row.add(at)), mean), inverse);
                _mm512_fmadd_ps(unit, _mm512_loadu_ps(gain.add(at)), _mm512_loadu_ps(bias.add(at)))
            });
            _mm512_storeu_si512(out.add(index).cast(), pack(normed[0], normed[1]));
        }
    }
}

#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) unsafe fn scale_to_bf16_native(input: *const f32, factor: f32, n: usize, out: *mut u16) {
    let factor = _mm512_set1_ps(factor);
    let mut index = 0;
    while index < n {
        // SAFETY: the caller vouches for `n`, a multiple of 32.
        unsafe {
            let low = _mm512_mul_ps(_mm512_loadu_ps(input.add(index)), factor);
            let high = _mm512_mul_ps(_mm512_loadu_ps(input.add(index + 16)), factor);
            _mm512_storeu_si512(out.add(index).cast(), pack(low, high));
        }
        index += 32;
    }
}

/// `2^f` on [0, 1] to within 7.5e-5, relative: a thirtieth of what quantized_rows to bf16 does afterwards.
const EXP2_ROUGH: [f32; 4] = [0.999_925_2, 0.695_833_56, 0.226_067_16, 0.078_024_52];

/// 2^x of 16 values that will be rounded to bf16: half the work of [`exp2`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn exp2_rough(x: __m512) -> __m512 {
    // What is left above the next lower whole number, which is the exponent that `scalef` applies.
    let part = _mm512_reduce_ps::<0x01>(x);
    let mut sum = _mm512_set1_ps(EXP2_ROUGH[3]);
    sum = _mm512_fmadd_ps(sum, part, _mm512_set1_ps(EXP2_ROUGH[2]));
    sum = _mm512_fmadd_ps(sum, part, _mm512_set1_ps(EXP2_ROUGH[1]));
    sum = _mm512_fmadd_ps(sum, part, _mm512_set1_ps(EXP2_ROUGH[0]));
    _mm512_scalef_ps(sum, x)
}

#[target_feature(enable = "avx512f,avx512dq,avx512bf16")]
pub(super) unsafe fn softmax_block_native(block: &mut SoftmaxBlock) {
    let scale = _mm512_set1_ps(block.scale);
    for row in block.rows.clone() {
        // SAFETY: the caller vouches for the shapes; the width is a multiple of 32.
        unsafe {
            let scores = block.scores.add(row * block.scores_stride);
            if block.is_first {
                let mut top = _mm512_loadu_ps(scores);
                for index in (16..block.width).step_by(16) {
                    top = _mm512_max_ps(top, _mm512_loadu_ps(scores.add(index)));
                }
                math::refer(block, row, _mm512_reduce_max_ps(top));
            } else {
                block.rescale[row] = 1.0;
            }
            loop {
                let weights = block.weights.add(row * block.weights_stride);
                let shift = _mm512_set1_ps(block.reference[row] * block.scale);
                let mut sums = [_mm512_loadu_ps(block.sums[row].as_ptr()), _mm512_setzero_ps()];
                let mut top = _mm512_set1_ps(f32::MIN);
                let mut index = 0;
                while index < block.width {
                    let (low, high) = (_mm512_loadu_ps(scores.add(index)), _mm512_loadu_ps(scores.add(index + 16)));
                    top = _mm512_max_ps(top, _mm512_max_ps(low, high));
                    let low = exp2_rough(_mm512_fmsub_ps(low, scale, shift));
                    let high = exp2_rough(_mm512_fmsub_ps(high, scale, shift));
                    sums[0] = _mm512_add_ps(sums[0], low);
                    sums[1] = _mm512_add_ps(sums[1], high);
                    _mm512_storeu_si512(weights.add(index).cast(), pack(low, high));
                    index += 32;
                }
                let limit = _mm512_set1_ps(block.reference[row] + MAX_EXPONENT / block.scale);
                if _mm512_cmp_ps_mask::<_CMP_GT_OQ>(top, limit) == 0 {
                    _mm512_storeu_ps(block.sums[row].as_mut_ptr(), _mm512_add_ps(sums[0], sums[1]));
                    break;
                }
                // Rare: the row's reference is too low for this chunk. With the new one it is done again.
                math::refer(block, row, _mm512_reduce_max_ps(top));
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn int8_to_bf16_native(numbers: *const i8, n: usize, out: *mut u16) {
    let mut index = 0;
    while index < n {
        // SAFETY: the caller vouches for `n`, a multiple of 32.
        unsafe {
            // The next cache lines are asked for early: this is the read that a decoding step waits for.
            _mm_prefetch::<_MM_HINT_T0>(numbers.wrapping_add(index + 2048));
            let bytes = _mm256_loadu_si256(numbers.add(index).cast());
            let low = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(bytes)));
            let high = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_extracti128_si256::<1>(bytes)));
            _mm512_storeu_si512(out.add(index).cast(), pack(low, high));
        }
        index += 32;
    }
}

/// Attention over the past.
///
/// The dot product of a head is two `vdpbf16ps`; sixteen positions are summed across their lanes together, because one
/// by one those sums would cost more than the products.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn causal_attention_native(attention: &mut CausalAttention) {
    let (positions, cache) = (attention.past.len(), attention.cache.as_ptr());
    let scale = _mm512_set1_ps(attention.scale);
    for head in 0..attention.heads {
        let weights = &mut attention.weights[head * positions..(head + 1) * positions];
        // SAFETY: query and output have `heads * 64` elements, and so have the key and the value of every place; loads past the
        // last position repeat it; stores of weights are masked to the positions.
        unsafe {
            let query: [__m512bh; 2] = std::array::from_fn(|half| {
                std::mem::transmute(_mm512_loadu_si512(attention.query.as_ptr().add(head * HEAD + half * 32).cast()))
            });
            for first in (0..positions).step_by(16) {
                let mut sums = [_mm512_setzero_ps(); 16];
                for (lane, sum) in sums.iter_mut().enumerate() {
                    let key = cache.add(attention.past[(first + lane).min(positions - 1)] + head * HEAD);
                    let low: __m512bh = std::mem::transmute(_mm512_loadu_si512(key.cast()));
                    let high: __m512bh = std::mem::transmute(_mm512_loadu_si512(key.add(32).cast()));
                    *sum = _mm512_dpbf16_ps(_mm512_dpbf16_ps(_mm512_setzero_ps(), query[0], low), query[1], high);
                }
                let scores = _mm512_mul_ps(sum_each(sums), scale);
                let count = (positions - first).min(16);
                let mask = ((1u32 << count) - 1) as __mmask16;
                _mm512_mask_storeu_ps(weights.as_mut_ptr().add(first), mask, scores);
            }
            let top = weights.iter().copied().fold(f32::MIN, f32::max);
            let mut total = 0.0;
            for first in (0..positions).step_by(16) {
                let count = (positions - first).min(16);
                let mask = ((1u32 << count) - 1) as __mmask16;
                let scores = _mm512_maskz_loadu_ps(mask, weights.as_ptr().add(first));
                let powers = _mm512_maskz_mov_ps(mask, exp2(_mm512_sub_ps(scores, _mm512_set1_ps(top))));
                total += _mm512_reduce_add_ps(powers);
                _mm512_mask_storeu_ps(weights.as_mut_ptr().add(first), mask, powers);
            }
            // Even and odd elements of the values are summed apart: a shift and a mask expand bf16 in place.
            let high_half = _mm512_set1_epi32(0xffff_0000_u32 as i32);
            let mut even = [_mm512_setzero_ps(); 2];
            let mut odd = [_mm512_setzero_ps(); 2];
            for (&weight, &place) in weights.iter().zip(attention.past) {
                let value = cache.add(place + attention.value_offset + head * HEAD);
                let weight = _mm512_set1_ps(weight);
                for half in 0..2 {
                    let both = _mm512_loadu_si512(value.add(half * 32).cast());
                    let low = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(both));
                    let high = _mm512_castsi512_ps(_mm512_and_si512(both, high_half));
                    even[half] = _mm512_fmadd_ps(weight, low, even[half]);
                    odd[half] = _mm512_fmadd_ps(weight, high, odd[half]);
                }
            }
            let inverse = _mm512_set1_ps(1.0 / total);
            for half in 0..2 {
                let low = _mm512_cvtneps_pbh(_mm512_mul_ps(even[half], inverse));
                let high = _mm512_cvtneps_pbh(_mm512_mul_ps(odd[half], inverse));
                let low = _mm512_cvtepu16_epi32(std::mem::transmute::<__m256bh, __m256i>(low));
                let high = _mm512_cvtepu16_epi32(std::mem::transmute::<__m256bh, __m256i>(high));
                let both = _mm512_or_si512(low, _mm512_slli_epi32::<16>(high));
                _mm512_storeu_si512(attention.out.as_mut_ptr().add(head * HEAD + half * 32).cast(), both);
            }
        }
    }
}

/// Lane `i` of the result is the sum of the lanes of `rows[i]`: four rounds that halve the rows and the lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn sum_each(rows: [__m512; 16]) -> __m512 {
    // Neighbouring lanes: rows i and i+1 of pairs interleave at 32, then 64 bits; then 128-bit quarters are gathered.
    let pair = |a: __m512, b: __m512| _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    let quad = |a: __m512, b: __m512| {
        let (a, b) = (_mm512_castps_pd(a), _mm512_castps_pd(b));
        let (low, high) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
        _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high))
    };
    let mut fours = [_mm512_setzero_ps(); 4];
    for (index, four) in fours.iter_mut().enumerate() {
        let base = index * 4;
        *four = quad(pair(rows[base], rows[base + 1]), pair(rows[base + 2], rows[base + 3]));
    }
    // Each of `fours` holds, in every 128-bit quarter, partial sums of its four rows.
    let bf16_numbers =
        |a: __m512, b: __m512| _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
    bf16_numbers(bf16_numbers(fours[0], fours[1]), bf16_numbers(fours[2], fours[3]))
}
