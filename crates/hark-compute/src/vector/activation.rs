//! Sigmoid and tanh in float32, of vectors and of whole arrays.
//!
//! SAFETY of every block: the callers are the kernel sets of [`super`], whose safe methods check bounds and CPU.

use crate::simd::Simd;

/// Replaces every value by its sigmoid; the length is a multiple of 16.
#[inline(always)]
pub(super) unsafe fn sigmoid_all<S: Simd>(values: &mut [f32]) {
    for at in (0..values.len()).step_by(S::LANES) {
        // SAFETY: `at + LANES` is within the array, whose length LANES divides.
        unsafe {
            let to = values.as_mut_ptr().add(at);
            S::store(to, sigmoid::<S>(S::load(to)));
        }
    }
}

/// Replaces every value by its hyperbolic tangent; the length is a multiple of 16.
#[inline(always)]
pub(super) unsafe fn tanh_all<S: Simd>(values: &mut [f32]) {
    for at in (0..values.len()).step_by(S::LANES) {
        // SAFETY: `at + LANES` is within the array, whose length LANES divides.
        unsafe {
            let to = values.as_mut_ptr().add(at);
            S::store(to, tanh::<S>(S::load(to)));
        }
    }
}

#[inline(always)]
pub(super) unsafe fn sigmoid<S: Simd>(x: S::F) -> S::F {
    // SAFETY: arithmetic only; the CPU has the features.
    unsafe {
        let one = S::splat(1.0);
        S::div(one, S::add(one, exp::<S>(S::sub(S::splat(0.0), x))))
    }
}

#[inline(always)]
pub(super) unsafe fn tanh<S: Simd>(x: S::F) -> S::F {
    // SAFETY: arithmetic only; the CPU has the features.
    unsafe {
        let two = S::splat(2.0);
        S::sub(S::mul(two, sigmoid::<S>(S::mul(two, x))), S::splat(1.0))
    }
}

/// `e^x` by `2^n · e^r`, |r| ≤ ln 2 / 2, with the Taylor series to r⁶: relative error below 3e-7. Clamped to
/// ±80, beyond which a sigmoid is 0 or 1 in `f32`.
#[inline(always)]
unsafe fn exp<S: Simd>(x: S::F) -> S::F {
    // SAFETY: arithmetic only; the CPU has the features.
    unsafe {
        let x = S::min(S::max(x, S::splat(-80.0)), S::splat(80.0));
        let (n, power) = S::nearest_and_power(S::mul(x, S::splat(std::f32::consts::LOG2_E)));
        // ln 2 in two parts, the first short enough for an exact product with n.
        let r = S::fnma(n, S::splat(0.693_359_4), x);
        let r = S::fnma(n, S::splat(-2.121_944_4e-4), r);
        let mut sum = S::splat(1.0 / 720.0);
        for factor in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            sum = S::fma(sum, r, S::splat(factor));
        }
        S::mul(sum, power)
    }
}
