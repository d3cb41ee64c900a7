//! Epilogues that write a product to memory.

use super::{Linear, Rows, matmul};
use crate::Compute;
use crate::buffer::SharedMut;
use crate::kernels::{BLOCK, BlockEpilogue};
use crate::view::MatMut;

/// Where a block of a product goes.
struct Target<T> {
    start: SharedMut<T>,
    rows: usize,
    width: usize,
    stride: usize,
}

impl<T> Target<T> {
    fn new(mut out: MatMut<T>) -> Self {
        Target { rows: out.rows(), width: out.width(), stride: out.stride(), start: SharedMut::new(out.as_mut_ptr()) }
    }

    /// The first element of a block, all of which lies inside.
    fn at(&self, block: &BlockEpilogue, row: usize, column: usize) -> *mut T {
        block.check();
        let ends_by = |first: usize, count: usize, end: usize| first.checked_add(count).is_some_and(|last| last <= end);
        assert!(ends_by(row, block.rows, self.rows) && ends_by(column, BLOCK, self.width), "a block inside");
        self.start.at(row * self.stride + column)
    }
}

/// An epilogue that writes bf16 rows, after GELU where `gelu` says so.
///
/// # Safety
/// While `'a` lasts, no block is given to it twice at the same time.
pub unsafe fn store_bf16<'a>(
    compute: &Compute,
    out: MatMut<'a, u16>,
    gelu: bool,
) -> impl Fn(&BlockEpilogue, usize, usize) + Sync + use<'a> {
    let (epilogue, target) = (compute.kernels.epilogue_bf16, Target::new(out));
    move |block, row, column| {
        let to = target.at(block, row, column);
        // SAFETY: the block lies inside the output; the caller vouches that nobody else writes it now.
        unsafe { epilogue(&BlockEpilogue { gelu, ..*block }, to, target.stride) }
    }
}

/// An epilogue that adds to float32 rows: the residual stream.
///
/// # Safety
/// As for [`store_bf16`].
pub unsafe fn add_residual<'a>(
    compute: &Compute,
    out: MatMut<'a, f32>,
    gelu: bool,
) -> impl Fn(&BlockEpilogue, usize, usize) + Sync + use<'a> {
    let (epilogue, target) = (compute.kernels.epilogue_add, Target::new(out));
    move |block, row, column| {
        let to = target.at(block, row, column);
        // SAFETY: the block lies inside the output; the caller vouches that nobody else writes it now.
        unsafe { epilogue(&BlockEpilogue { gelu, ..*block }, to, target.stride) }
    }
}

/// `out = rows · weights + bias`, after GELU where `gelu` says so, rounded to bf16.
///
/// # Panics
/// When `out` has fewer rows than `rows` or fewer columns than the layer, or the rows are not as wide as its inputs.
pub fn matmul_bf16(compute: &Compute, rows: Rows, layer: &Linear, gelu: bool, out: MatMut<u16>) {
    // SAFETY: a product gives every block once.
    let epilogue = unsafe { store_bf16(compute, out, gelu) };
    matmul(compute, rows, layer, &epilogue);
}

/// `out += rows · weights + bias`.
///
/// # Panics
/// As [`matmul_bf16`].
pub fn matmul_add(compute: &Compute, rows: Rows, layer: &Linear, out: MatMut<f32>) {
    // SAFETY: a product gives every block once.
    let epilogue = unsafe { add_residual(compute, out, false) };
    matmul(compute, rows, layer, &epilogue);
}

/// `out = rows · weights + bias`.
///
/// # Panics
/// As [`matmul_bf16`].
pub fn matmul_f32(compute: &Compute, rows: Rows, layer: &Linear, out: MatMut<f32>) {
    let target = Target::new(out);
    matmul(compute, rows, layer, &|block: &BlockEpilogue, row: usize, column: usize| {
        let to = target.at(block, row, column);
        let bias = &block.bias[..BLOCK];
        for (row, sums) in block.sums.as_chunks::<BLOCK>().0.iter().enumerate().take(block.rows) {
            // SAFETY: the block lies inside the output, and a product gives every block once.
            let to = unsafe { std::slice::from_raw_parts_mut(to.add(row * target.stride), BLOCK) };
            for ((to, sum), bias) in to.iter_mut().zip(sums).zip(bias) {
                *to = sum + bias;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::kernels::math::{from_bf16, to_bf16};
    use crate::linear::Weights;

    #[test]
    fn products_are_stored_and_added_with_their_bias() {
        let (rows, inputs, outputs) = (45, 64, 96);
        let number = |index: usize| ((index * 2_654_435_761) % 1000) as f32 / 500.0 - 1.0;
        let weights: Vec<f32> = (0..outputs * inputs).map(|index| from_bf16(to_bf16(number(index)))).collect();
        let bias: Vec<f32> = (0..outputs).map(|index| number(index + 7)).collect();
        let stride = inputs + 32;
        let activations: Vec<u16> = (0..64 * stride).map(|index| to_bf16(number(index + 3))).collect();
        let layer = Linear::pack(&weights, outputs, inputs, Some(&bias), Weights::Bf16);
        let expected = |row: usize, column: usize| {
            let product = |k: usize| from_bf16(activations[row * stride + k]) * weights[column * inputs + k];
            (0..inputs).map(product).sum::<f32>() + bias[column]
        };
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let compute = Compute::new(2, isa);
            let view = || Rows::new(&activations, stride, rows);
            let mut stored = vec![f32::NAN; rows * outputs];
            matmul_f32(&compute, view(), &layer, MatMut::new(&mut stored, rows, outputs, outputs));
            let mut added = vec![1.5; rows * outputs];
            matmul_add(&compute, view(), &layer, MatMut::new(&mut added, rows, outputs, outputs));
            let mut rounded = vec![0; rows * outputs];
            matmul_bf16(&compute, view(), &layer, true, MatMut::new(&mut rounded, rows, outputs, outputs));
            for (index, stored) in stored.iter().enumerate() {
                let expected = expected(index / outputs, index % outputs);
                let gelu = 0.5 * expected * (1.0 + (0.797_884_6 * (expected + 0.044_715 * expected.powi(3))).tanh());
                assert!((stored - expected).abs() < 1e-3, "{}: {stored} {expected}", isa.name());
                assert!((added[index] - 1.5 - expected).abs() < 1e-3, "{}", isa.name());
                // The tanh form of GELU is as near to it as bf16 is.
                let found = from_bf16(rounded[index]);
                assert!((found - gelu).abs() < 0.01 + gelu.abs() / 128.0, "{}: {found} {gelu}", isa.name());
            }
        }
    }
}
