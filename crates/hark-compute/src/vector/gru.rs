//! The step of a GRU whose reset gate applies after the recurrent product (ONNX: `linear_before_reset = 1`, PyTorch, cuDNN).
//!
//! SAFETY of every block: the callers are the kernel sets of [`super`], whose safe methods check bounds and CPU.

use super::activation::{sigmoid, tanh};
use crate::simd::Simd;

/// Gates z (update), r (reset), n (new) one after the other, each of as many units as `hidden` has:
/// `z, r = σ(input + bias + recurrent)`, `n = tanh(input + bias + r · recurrent)`, `hidden = (1 - z) · n + z · hidden`.
#[inline(always)]
pub(super) unsafe fn step<S: Simd>(input: &[f32], bias: &[f32], recurrent: &[f32], hidden: &mut [f32]) {
    let units = hidden.len();
    for unit in (0..units).step_by(S::LANES) {
        // SAFETY: `unit + LANES <= units`, and the three gates have as many sums and biases each.
        unsafe {
            let (z, r, n) = (unit, units + unit, 2 * units + unit);
            let update = sigmoid::<S>(S::add(sum::<S>(input, bias, z), S::load(recurrent.as_ptr().add(z))));
            let reset = sigmoid::<S>(S::add(sum::<S>(input, bias, r), S::load(recurrent.as_ptr().add(r))));
            let new = tanh::<S>(S::fma(reset, S::load(recurrent.as_ptr().add(n)), sum::<S>(input, bias, n)));
            let old = S::load(hidden.as_ptr().add(unit));
            S::store(hidden.as_mut_ptr().add(unit), S::fma(update, S::sub(old, new), new));
        }
    }
}

#[inline(always)]
unsafe fn sum<S: Simd>(a: &[f32], b: &[f32], at: usize) -> S::F {
    // SAFETY: the caller's vector at `at` lies within both arrays.
    unsafe { S::add(S::load(a.as_ptr().add(at)), S::load(b.as_ptr().add(at))) }
}
