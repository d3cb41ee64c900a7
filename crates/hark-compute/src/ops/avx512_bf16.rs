//! AVX-512 where two vectors round to bf16 in one instruction: the two functions that do little else.

use std::arch::x86_64::*;

use super::{Ops, avx512};
use super::{epilogue::Block, norm::Scaled};

pub(super) static OPS: Ops = Ops { epilogue, scale_relu, ..avx512::OPS };

/// 16 bf16 as float32.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn widened(numbers: *const u16) -> __m512 {
    // SAFETY: the caller vouches for 16 numbers.
    let numbers = unsafe { _mm256_loadu_si256(numbers.cast()) };
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(numbers)))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn store(low: __m512, high: __m512, out: *mut u16) {
    // SAFETY: the caller vouches for 32 numbers.
    unsafe { _mm512_storeu_si512(out.cast(), bits(_mm512_cvtne2ps_pbh(high, low))) }
}

#[inline(always)]
fn bits(numbers: __m512bh) -> __m512i {
    // SAFETY: both are 64 bytes without meaning of their own.
    unsafe { std::mem::transmute(numbers) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16,fma")]
unsafe fn epilogue(block: &Block) {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        let zero = _mm512_setzero_ps();
        let (bias_low, bias_high) = (_mm512_loadu_ps(block.bias), _mm512_loadu_ps(block.bias.add(16)));
        for row in 0..block.rows {
            let sums = block.sums.add(row * 32);
            let mut low = _mm512_add_ps(_mm512_loadu_ps(sums), bias_low);
            let mut high = _mm512_add_ps(_mm512_loadu_ps(sums.add(16)), bias_high);
            if !block.residual.is_null() {
                let residual = block.residual.add(row * block.residual_stride);
                low = _mm512_add_ps(low, widened(residual));
                high = _mm512_add_ps(high, widened(residual.add(16)));
            }
            if block.relu {
                (low, high) = (_mm512_max_ps(low, zero), _mm512_max_ps(high, zero));
            }
            store(low, high, block.out.add(row * block.stride));
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16,fma")]
unsafe fn scale_relu(scaled: &Scaled) {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        let zero = _mm512_setzero_ps();
        for column in (0..scaled.width).step_by(32) {
            let (gain, shift) = (scaled.gain.add(column), scaled.shift.add(column));
            let (gain_low, gain_high) = (_mm512_loadu_ps(gain), _mm512_loadu_ps(gain.add(16)));
            let (shift_low, shift_high) = (_mm512_loadu_ps(shift), _mm512_loadu_ps(shift.add(16)));
            for row in 0..scaled.count {
                let numbers = scaled.rows.add(row * scaled.stride + column);
                let low = _mm512_fmadd_ps(widened(numbers), gain_low, shift_low);
                let high = _mm512_fmadd_ps(widened(numbers.add(16)), gain_high, shift_high);
                let out = scaled.out.add(row * scaled.out_stride + column);
                store(_mm512_max_ps(low, zero), _mm512_max_ps(high, zero), out);
            }
        }
    }
}
