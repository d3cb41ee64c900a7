//! Pooling over rows.

use super::lstm::LSTM_UNITS as GROUP;
use crate::kernels::math::from_bf16;

/// # Safety
/// `sums` must reach `3 * rows` rows of 32, `out` `rows` rows of 32.
#[inline(always)]
pub(super) unsafe fn max_pool(sums: *const f32, rows: usize, out: *mut f32, stride: usize, magnitudes: bool) {
    for row in 0..rows {
        // SAFETY: the caller vouches for the shapes.
        let (sums, out) =
            unsafe { (&*sums.add(row * 96).cast::<[f32; 96]>(), &mut *out.add(row * stride).cast::<[f32; 32]>()) };
        for column in 0..32 {
            let three = [sums[column], sums[32 + column], sums[64 + column]];
            let [a, b, c] = if magnitudes { three.map(f32::abs) } else { three };
            let larger = if a > b { a } else { b };
            out[column] = if larger > c { larger } else { c };
        }
    }
}

/// # Safety
/// `rows` must reach `count` rows of `width`, a multiple of 16; `sums` `width` numbers.
#[inline(always)]
pub(super) unsafe fn column_sums(rows: *const u16, stride: usize, count: usize, width: usize, sums: *mut f32) {
    for first in (0..width).step_by(GROUP) {
        // SAFETY: the caller vouches for the shapes.
        unsafe {
            let mut group = [0f32; GROUP];
            for row in 0..count {
                let numbers = &*rows.add(row * stride + first).cast::<[u16; GROUP]>();
                for lane in 0..GROUP {
                    group[lane] += from_bf16(numbers[lane]);
                }
            }
            *sums.add(first).cast::<[f32; GROUP]>() = group;
        }
    }
}
