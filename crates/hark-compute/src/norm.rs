//! Layer norm of float32 rows.

use crate::Compute;
use crate::buffer::{Buffer, SharedMut};
use crate::view::{MatMut, MatRef, reach};

/// Rows that one thread norms at a time.
const ROWS: usize = 64;

/// Gain and bias of a layer norm.
pub struct LayerNorm {
    gain: Buffer<f32>,
    bias: Buffer<f32>,
}

impl LayerNorm {
    /// A norm of rows as long as both.
    ///
    /// # Panics
    /// When the lengths differ or are no multiple of 32.
    pub fn new(gain: &[f32], bias: &[f32]) -> Self {
        assert!(gain.len() == bias.len() && gain.len().is_multiple_of(32), "gain and bias of whole vectors");
        let copy = |from: &[f32]| {
            let mut buffer = Buffer::zeroed(from.len());
            buffer.copy_from_slice(from);
            buffer
        };
        LayerNorm { gain: copy(gain), bias: copy(bias) }
    }

    /// Elements of a row.
    pub fn width(&self) -> usize {
        self.gain.len()
    }

    /// Norms `rows` rows of float32 into bf16 rows that begin `stride` elements apart, shared out among the threads.
    pub fn apply(&self, compute: &Compute, input: &[f32], rows: usize, out: &mut [u16], stride: usize) {
        let width = self.width();
        let fits = |stride: usize, len: usize| reach(rows, width, stride).is_some_and(|reach| reach <= len);
        assert!(width <= stride && fits(width, input.len()) && fits(stride, out.len()), "both sides hold the rows");
        let out = SharedMut::new(out.as_mut_ptr());
        compute.parallel_for(rows.div_ceil(ROWS), |piece, _| {
            let first = piece * ROWS;
            let count = ROWS.min(rows - first);
            let from = MatRef::new(&input[first * width..], count, width, width);
            // SAFETY: the output was checked to hold all rows; these belong to this piece alone.
            let to = unsafe { MatMut::from_raw(out.at(first * stride), count, width, stride) };
            self.apply_rows(compute, from, to);
        });
    }

    /// The calling thread's own norm of some rows.
    pub fn apply_rows(&self, compute: &Compute, from: MatRef<f32>, mut to: MatMut<u16>) {
        let width = self.width();
        assert!(from.width() >= width && to.width() >= width && to.rows() >= from.rows(), "both sides hold the rows");
        for row in 0..from.rows() {
            // SAFETY: both views hold this row, which is as wide as gain and bias; the kernels are of this machine.
            unsafe {
                let (from, to) = (from.as_ptr().add(row * from.stride()), to.as_mut_ptr().add(row * to.stride()));
                (compute.kernels.layer_norm)(from, self.gain.as_ptr(), self.bias.as_ptr(), width, to);
            }
        }
    }
}
