//! What is done with the sums of a product.

use super::math::leaky;
use crate::kernels::math::{from_bf16, to_bf16};
use crate::view::MatRef;

/// A block of 32 columns of sums that becomes bf16: bias, then perhaps a residual, then perhaps ReLU.
#[derive(Clone, Copy)]
pub struct Epilogue<'a> {
    /// Rows of 32.
    pub sums: &'a [f32],
    /// 32 of them.
    pub bias: &'a [f32],
    /// Rows that are added, at least 32 wide.
    pub residual: Option<MatRef<'a, u16>>,
    /// Whether negative results become zero.
    pub relu: bool,
}

/// An [`Epilogue`] whose shapes were checked.
pub(super) struct Block {
    pub(super) sums: *const f32,
    pub(super) rows: usize,
    pub(super) bias: *const f32,
    /// Null where there is none.
    pub(super) residual: *const u16,
    pub(super) residual_stride: usize,
    pub(super) relu: bool,
    pub(super) out: *mut u16,
    pub(super) stride: usize,
}

/// # Safety
/// `block` must describe live memory of the stated shapes.
#[inline(always)]
pub(super) unsafe fn apply(block: &Block) {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        let bias = &*block.bias.cast::<[f32; 32]>();
        for row in 0..block.rows {
            let sums = &*block.sums.add(row * 32).cast::<[f32; 32]>();
            let mut numbers: [f32; 32] = std::array::from_fn(|column| sums[column] + bias[column]);
            if !block.residual.is_null() {
                let residual = &*block.residual.add(row * block.residual_stride).cast::<[u16; 32]>();
                for column in 0..32 {
                    numbers[column] += from_bf16(residual[column]);
                }
            }
            if block.relu {
                for number in &mut numbers {
                    *number = if *number > 0.0 { *number } else { 0.0 };
                }
            }
            let out = &mut *block.out.add(row * block.stride).cast::<[u16; 32]>();
            for column in 0..32 {
                out[column] = to_bf16(numbers[column]);
            }
        }
    }
}

/// # Safety
/// `sums` must reach `rows` rows of 32, `bias` 32, `out` `rows` rows of 32.
#[inline(always)]
pub(super) unsafe fn leaky_relu(sums: *const f32, rows: usize, bias: *const f32, out: *mut u16, stride: usize) {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        let bias = &*bias.cast::<[f32; 32]>();
        for row in 0..rows {
            let sums = &*sums.add(row * 32).cast::<[f32; 32]>();
            let out = &mut *out.add(row * stride).cast::<[u16; 32]>();
            for column in 0..32 {
                out[column] = to_bf16(leaky(sums[column] + bias[column]));
            }
        }
    }
}

/// # Safety
/// `sums` must reach `rows` rows of 32, `which` as many numbers, each of which is a row of 32 `masks`; `out` as many
/// rows of 32.
#[inline(always)]
pub(super) unsafe fn mask(
    sums: *const f32,
    rows: usize,
    masks: *const f32,
    which: *const u32,
    out: *mut u16,
    stride: usize,
) {
    for row in 0..rows {
        // SAFETY: the caller vouches for the shapes.
        unsafe {
            let sums = &*sums.add(row * 32).cast::<[f32; 32]>();
            let mask = &*masks.add(*which.add(row) as usize * 32).cast::<[f32; 32]>();
            let out = &mut *out.add(row * stride).cast::<[u16; 32]>();
            for column in 0..32 {
                out[column] = to_bf16(sums[column] * mask[column]);
            }
        }
    }
}
