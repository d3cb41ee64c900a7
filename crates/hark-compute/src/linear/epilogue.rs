//! Epilogues that write a product to memory.

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
