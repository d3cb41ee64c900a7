//! The step of an LSTM whose state is float32: a recurrence over hours must not gather the error of a quick exponential.
//!
//! SAFETY of every block: the callers are the kernel sets of [`super`], whose safe methods check bounds and CPU.

use super::activation::{sigmoid, tanh};
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
