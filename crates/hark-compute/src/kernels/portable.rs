//! Plain Rust kernels: for machines without vectors, and the twin that the fast ones are compared with.

use super::{Block, BlockEpilogue, CausalAttention, DEPTH, Isa, Kernels, PANEL, SoftmaxBlock, math};

/// The portable set.
pub static KERNELS: Kernels = Kernels {
    isa: Isa::Portable,
    prepare: super::nothing_to_prepare,
    block,
    epilogue_bf16,
    epilogue_add,
    transpose_keys,
    interleave_values,
    layer_norm,
    softmax_block,
    scale_to_bf16,
    attend_int8: None,
    self_attention: None,
    int8_to_bf16,
    causal_attention,
    log_sum,
};

/// The product block, straight from the definition of the panel layout.
///
/// # Safety
/// `block` must describe live memory of the stated shapes.
pub unsafe fn block(block: &Block) {
    for row in 0..block.rows {
        for (panel, first_column) in [(block.left, 0), (block.right, PANEL)] {
            let mut sums = [0f32; PANEL];
            for tile in 0..block.depth {
                for pair in 0..DEPTH / 2 {
                    // SAFETY: the caller vouches for the shapes.
                    let (low, high, columns) = unsafe {
                        let a = block.a.add(row * block.a_stride + tile * DEPTH + pair * 2);
                        let b = panel.add(tile * super::TILE + pair * 2 * PANEL);
                        (math::from_bf16(*a), math::from_bf16(*a.add(1)), &*b.cast::<[u16; 2 * PANEL]>())
                    };
                    for column in 0..PANEL {
                        sums[column] += low * math::from_bf16(columns[2 * column])
                            + high * math::from_bf16(columns[2 * column + 1]);
                    }
                }
            }
            for column in 0..PANEL {
                // SAFETY: the caller vouches for the shapes.
                unsafe {
                    let c = block.c.add(row * block.c_stride + first_column + column);
                    *c = sums[column] + if block.accumulate { *c } else { 0.0 };
                }
            }
        }
    }
}

/// Writes one function for each vectorizable body, compiled for the given features.
macro_rules! bodies {
    ($(#[$attribute:meta])*) => {
        $(#[$attribute])*
        unsafe fn epilogue_bf16(epilogue: &BlockEpilogue, out: *mut u16, stride: usize) {
            // SAFETY: same contract as the body.
            unsafe { math::epilogue_bf16(epilogue, out, stride) }
        }
        $(#[$attribute])*
        unsafe fn epilogue_add(epilogue: &BlockEpilogue, out: *mut f32, stride: usize) {
            // SAFETY: same contract as the body.
            unsafe { math::epilogue_add(epilogue, out, stride) }
        }
        $(#[$attribute])*
        unsafe fn transpose_keys(frames: *const u16, out: *mut u16) {
            // SAFETY: same contract as the body.
            unsafe { math::transpose_keys(frames, out) }
        }
        $(#[$attribute])*
        unsafe fn interleave_values(frames: *const u16, pairs: &[usize; DEPTH / 2], out: *mut u16) {
            // SAFETY: same contract as the body.
            unsafe { math::interleave_values(frames, pairs, out) }
        }
        $(#[$attribute])*
        unsafe fn layer_norm(row: *const f32, gain: *const f32, bias: *const f32, width: usize, out: *mut u16) {
            // SAFETY: same contract as the body.
            unsafe { math::layer_norm(row, gain, bias, width, out) }
        }
        $(#[$attribute])*
        unsafe fn softmax_block(block: &mut SoftmaxBlock) {
            // SAFETY: same contract as the body.
            unsafe { math::softmax_block(block) }
        }
        $(#[$attribute])*
        unsafe fn scale_to_bf16(input: *const f32, factor: f32, n: usize, out: *mut u16) {
            // SAFETY: same contract as the body.
            unsafe { math::scale_to_bf16(input, factor, n, out) }
        }
        $(#[$attribute])*
        unsafe fn int8_to_bf16(numbers: *const i8, n: usize, out: *mut u16) {
            // SAFETY: same contract as the body.
            unsafe { math::int8_to_bf16(numbers, n, out) }
        }
        $(#[$attribute])*
        unsafe fn causal_attention(attention: &mut CausalAttention) {
            // SAFETY: same contract as the body.
            unsafe { math::causal_attention(attention) }
        }
        $(#[$attribute])*
        unsafe fn log_sum(row: *const f32, n: usize) -> (f32, f32) {
            // SAFETY: same contract as the body.
            unsafe { math::log_sum(row, n) }
        }
    };
}
pub(super) use bodies;

bodies!();
