//! The step of an LSTM whose state is float32: a recurrence over hours must not gather the error of a quick exponential.
//!
//! SAFETY of every block: the callers are the kernel sets of [`super`], whose safe methods check bounds and CPU.

use crate::simd::Simd;

/// Gates i, f, g, o one after the other, each of as many units as `cell` has.
#[inline(always)]
pub(super) unsafe fn step<S: Simd>(sums: &[f32], bias: &[f32], cell: &mut [f32], hidden: &mut [f32]) {
    let units = cell.len();
    for unit in (0..units).step_by(S::LANES) {
        // SAFETY: `unit + LANES <= units`, and the four gates have as many sums and biases each.
        unsafe {
            let gate = |g: usize| {
                let at = g * units + unit;
                S::add(S::load(sums.as_ptr().add(at)), S::load(bias.as_ptr().add(at)))
            };
            let (input, forget, output) = (sigmoid::<S>(gate(0)), sigmoid::<S>(gate(1)), sigmoid::<S>(gate(3)));
            let new = tanh::<S>(gate(2));
            let old = S::load(cell.as_ptr().add(unit));
            let now = S::fma(forget, old, S::mul(input, new));
            S::store(cell.as_mut_ptr().add(unit), now);
            S::store(hidden.as_mut_ptr().add(unit), S::mul(output, tanh::<S>(now)));
        }
    }
}

#[inline(always)]
unsafe fn sigmoid<S: Simd>(x: S::F) -> S::F {
    // SAFETY: arithmetic only; the CPU has the features.
    unsafe {
        let one = S::splat(1.0);
        S::div(one, S::add(one, exp::<S>(S::sub(S::splat(0.0), x))))
    }
}

#[inline(always)]
unsafe fn tanh<S: Simd>(x: S::F) -> S::F {
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
