//! Scalar formulas of the bodies.

use crate::kernels::math::EXP2;

/// Exponents are kept within this, so that a product of three stays finite.
const MOST_EXPONENT: f32 = 40.0;
/// How much of a negative number leaky ReLU lets through.
const LEAK: f32 = 0.01;

/// `a * b + c`, in one rounding where the machine has that.
#[inline(always)]
pub(super) fn fused<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// `2^x`, x clamped to ±[`MOST_EXPONENT`], to within 3e-6.
#[inline(always)]
pub(super) fn exp2<const FUSED: bool>(x: f32) -> f32 {
    // Adding 1.5·2²³ rounds to the nearest integer and leaves that integer in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-MOST_EXPONENT, MOST_EXPONENT);
    let shifted = x + ROUND;
    let part = x - (shifted - ROUND);
    let mut sum = EXP2[4];
    sum = fused::<FUSED>(sum, part, EXP2[3]);
    sum = fused::<FUSED>(sum, part, EXP2[2]);
    sum = fused::<FUSED>(sum, part, EXP2[1]);
    sum = fused::<FUSED>(sum, part, EXP2[0]);
    sum * f32::from_bits(shifted.to_bits().wrapping_shl(23).wrapping_add(0x3f80_0000))
}

#[inline(always)]
pub(super) fn leaky(x: f32) -> f32 {
    if x < 0.0 { x * LEAK } else { x }
}

/// `ln(2^e · m) = e · ln 2 + 2 artanh((m - 1) / (m + 1))`, m between √½ and √2, to within 1e-7 of the larger part.
#[inline(always)]
pub(super) fn ln<const FUSED: bool>(numbers: &mut [f32]) {
    /// The bits of √½.
    const ROOT: u32 = 0x3f35_04f3;
    for number in numbers {
        let over = number.to_bits().wrapping_sub(ROOT);
        let exponent = (over as i32 >> 23) as f32;
        let mantissa = f32::from_bits((over & 0x007f_ffff) + ROOT);
        let s = (mantissa - 1.0) / (mantissa + 1.0);
        let square = s * s;
        let mut sum = fused::<FUSED>(square, 2.0 / 9.0, 2.0 / 7.0);
        sum = fused::<FUSED>(sum, square, 2.0 / 5.0);
        sum = fused::<FUSED>(sum, square, 2.0 / 3.0);
        sum = fused::<FUSED>(sum, square, 2.0);
        *number = fused::<FUSED>(exponent, std::f32::consts::LN_2, sum * s);
    }
}

#[inline(always)]
pub(super) fn gemv<const FUSED: bool>(weights: &[f32], x: &[f32], out: &mut [f32]) {
    for (weights, &x) in weights.chunks_exact(out.len()).zip(x) {
        for (out, &weight) in out.iter_mut().zip(weights) {
            *out = fused::<FUSED>(weight, x, *out);
        }
    }
}
