//! Dot products of one row with several stretches of an input: the inner loop of a resampler.

use crate::simd::Simd;

/// `N` dot products: the row is loaded once for all of them.
///
/// # Safety
/// The machine has the vectors, and every input is as long as the row, a multiple of 16.
#[inline(always)]
pub(super) unsafe fn dots<S: Simd, const N: usize>(inputs: [&[f32]; N], row: &[f32]) -> [f32; N] {
    // SAFETY: `at + LANES` is at most the length of the row and of each input, as the caller promises.
    unsafe {
        let mut sums = [S::splat(0.0); N];
        for at in (0..row.len()).step_by(S::LANES) {
            let row = S::load(row.as_ptr().add(at));
            for n in 0..N {
                sums[n] = S::fma(S::load(inputs[n].as_ptr().add(at)), row, sums[n]);
            }
        }
        sums.map(|sum| S::sum(sum))
    }
}
