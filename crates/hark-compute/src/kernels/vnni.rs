//! Attention of a few rows over int8 keys and values, in whole numbers.
//!
//! A decoding step has one to five rows for each window. Tiles would be mostly empty, so here the keys and values go
//! straight from memory, widened to 16 bits on the way, into `vpdpwssd`: two products and their sum in each of 16 lanes.
//! Queries and weights are rounded to 16 bits, far below the rounding of the window itself.
//!
//! Cost for each row and head: 1504 × 64 products twice, 6,016 instructions; the widening is shared by the rows.

use std::arch::x86_64::*;

use super::avx512::exp2;
use super::math::from_bf16;
use super::{HEAD, Int8Attention, MAX_INT8_FRAMES, MAX_INT8_ROWS, PANEL};

/// Frames whose products are summed in whole numbers: 128 · 32767 · 127 stays below 2^31.
const CHUNK: usize = 128;
/// The largest 16-bit number.
const LARGEST: f32 = 32_767.0;

/// See [`super::Kernels::attend_int8`].
///
/// # Safety
/// The CPU has the features. `query` and `out` reach `rows` rows of 64 elements, the output being nobody else's; there are 64 scales
/// each for keys and values.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub unsafe fn attend_int8(attention: &mut Int8Attention) {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        match attention.rows {
            1 => attend::<1>(attention),
            2 => attend::<2>(attention),
            3 => attend::<3>(attention),
            4 => attend::<4>(attention),
            5 => attend::<5>(attention),
            6 => attend::<6>(attention),
            7 => attend::<7>(attention),
            8 => attend::<8>(attention),
            rows => unreachable!("{rows} rows are more than {MAX_INT8_ROWS}"),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn attend<const ROWS: usize>(attention: &mut Int8Attention) {
    let padded = attention.keys.len() / HEAD;
    assert!(padded <= MAX_INT8_FRAMES && attention.values.len() == attention.keys.len());
    let mut scores = [[0f32; MAX_INT8_FRAMES]; ROWS];
    let (queries, scales) = round_queries::<ROWS>(attention);
    for (panel, keys) in attention.keys.chunks_exact(PANEL * HEAD).enumerate() {
        let mut sums = [_mm512_setzero_si512(); ROWS];
        for pair in 0..HEAD / 2 {
            // SAFETY: a panel is 32 lines of 32 bytes; the prefetch reads nothing.
            let line = unsafe {
                let line = keys.as_ptr().add(pair * 32);
                _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(4096));
                _mm512_cvtepi8_epi16(_mm256_loadu_si256(line.cast()))
            };
            for row in 0..ROWS {
                sums[row] = _mm512_dpwssd_epi32(sums[row], line, _mm512_set1_epi32(queries[row][pair]));
            }
        }
        for row in 0..ROWS {
            let exact = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[row]), _mm512_set1_ps(scales[row]));
            // SAFETY: the scores have room for all panels.
            unsafe { _mm512_storeu_ps(scores[row].as_mut_ptr().add(panel * PANEL), exact) };
        }
    }
    let mut weights = [[0i16; MAX_INT8_FRAMES]; ROWS];
    let mut totals = [0f32; ROWS];
    for row in 0..ROWS {
        if let Some(tap) = &mut attention.tap {
            tap(row, &scores[row][..attention.frames]);
        }
        scores[row][attention.frames..padded].fill(f32::MIN);
        totals[row] = weigh(&scores[row][..padded], attention.scale, &mut weights[row]);
    }
    for (panel, values) in attention.values.chunks_exact(PANEL * padded).enumerate() {
        let mut sums = [_mm512_setzero_ps(); ROWS];
        for (chunk, values) in values.chunks(CHUNK * PANEL).enumerate() {
            let mut whole = [_mm512_setzero_si512(); ROWS];
            for (pair, line) in values.chunks_exact(32).enumerate() {
                let frame = chunk * CHUNK + 2 * pair;
                // SAFETY: a line is 32 bytes; two weights are 32 bits; the prefetch reads nothing.
                unsafe {
                    _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().wrapping_add(4096));
                    let line = _mm512_cvtepi8_epi16(_mm256_loadu_si256(line.as_ptr().cast()));
                    for row in 0..ROWS {
                        let both = weights[row].as_ptr().add(frame).cast::<i32>().read_unaligned();
                        whole[row] = _mm512_dpwssd_epi32(whole[row], line, _mm512_set1_epi32(both));
                    }
                }
            }
            for row in 0..ROWS {
                sums[row] = _mm512_add_ps(sums[row], _mm512_cvtepi32_ps(whole[row]));
            }
        }
        for row in 0..ROWS {
            // SAFETY: a head has 64 scales and the output row 64 elements.
            unsafe {
                let scales = _mm512_loadu_ps(attention.value_scales.as_ptr().add(panel * PANEL));
                let factor = _mm512_mul_ps(scales, _mm512_set1_ps(1.0 / (LARGEST * totals[row])));
                let out = attention.out.add(row * attention.out_stride + panel * PANEL);
                _mm256_storeu_si256(out.cast(), round_to_bf16(_mm512_mul_ps(sums[row], factor)));
            }
        }
    }
}

/// bf16, rounded to nearest even, without the instruction for it, which not every processor with VNNI has.
#[inline]
#[target_feature(enable = "avx512f")]
fn round_to_bf16(x: __m512) -> __m256i {
    let bits = _mm512_castps_si512(x);
    let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded))
}

/// Queries times the scales of the keys, rounded to 16 bits, in pairs; and the scale of each row's scores.
#[inline]
fn round_queries<const ROWS: usize>(attention: &Int8Attention) -> ([[i32; HEAD / 2]; ROWS], [f32; ROWS]) {
    let mut pairs = [[0i32; HEAD / 2]; ROWS];
    let mut scales = [0f32; ROWS];
    for row in 0..ROWS {
        let mut exact = [0f32; HEAD];
        for (element, exact) in exact.iter_mut().enumerate() {
            // SAFETY: the caller of `attend_int8` vouches for `rows` rows of 64 elements.
            let query = unsafe { *attention.query.add(row * attention.query_stride + element) };
            *exact = from_bf16(query) * attention.key_scales[element];
        }
        let largest = exact.iter().fold(f32::MIN_POSITIVE, |a, b| a.max(b.abs()));
        scales[row] = largest / LARGEST;
        for (pair, out) in pairs[row].iter_mut().enumerate() {
            let rounded = |x: f32| (x * (LARGEST / largest)).round() as i32;
            *out = rounded(exact[2 * pair + 1]) << 16 | rounded(exact[2 * pair]) & 0xffff;
        }
    }
    (pairs, scales)
}

/// Softmax weights as 16-bit numbers, the likeliest frame being the largest; returns the sum of the unrounded ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn weigh(scores: &[f32], scale: f32, weights: &mut [i16; MAX_INT8_FRAMES]) -> f32 {
    let mut top = _mm512_set1_ps(f32::MIN);
    for chunk in scores.chunks_exact(16) {
        // SAFETY: 16 floats.
        top = _mm512_max_ps(top, unsafe { _mm512_loadu_ps(chunk.as_ptr()) });
    }
    let shift = _mm512_set1_ps(_mm512_reduce_max_ps(top) * scale);
    let scale = _mm512_set1_ps(scale);
    let mut total = _mm512_setzero_ps();
    for (chunk, out) in scores.chunks_exact(16).zip(weights.chunks_exact_mut(16)) {
        // SAFETY: 16 floats and 16 shorts.
        unsafe {
            let power = exp2(_mm512_fmsub_ps(_mm512_loadu_ps(chunk.as_ptr()), scale, shift));
            total = _mm512_add_ps(total, power);
            let whole = _mm512_cvtps_epi32(_mm512_mul_ps(power, _mm512_set1_ps(LARGEST)));
            _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm512_cvtsepi32_epi16(whole));
        }
    }
    _mm512_reduce_add_ps(total)
}
