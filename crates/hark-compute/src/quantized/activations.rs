//! The left side of a product: rows of activations as int8 and bf16.

use super::kernel::RowPointers;
use super::{QUANT_BLOCK, QuantizedKernels};
use crate::Compute;
use crate::buffer::{Buffer, SharedMut};
use crate::kernels::BLOCK;
use crate::linear::Rows;

/// Most rows that are multiplied in int8 with weights as they are stored; more are multiplied in bf16, weights dequantized.
pub const FEW_ROWS: usize = 8;

/// Rows of activations, rounded for the kernels; its memory is used again for every product.
pub struct Activations {
    rows: usize,
    width: usize,
    /// Elements from one bf16 row to the next: a cache line more than the row, so that rows do not fall on the same sets.
    stride: usize,
    bf16: Buffer<u16>,
    values: Buffer<i8>,
    scales: Buffer<f32>,
    sums: Buffer<f32>,
}

impl Default for Activations {
    fn default() -> Self {
        let (rows, width, stride) = (0, 0, 0);
        let (scales, sums) = (Buffer::zeroed(0), Buffer::zeroed(0));
        Activations { rows, width, stride, bf16: Buffer::zeroed(0), values: Buffer::zeroed(0), scales, sums }
    }
}

fn reserve<T: crate::buffer::Plain>(buffer: &mut Buffer<T>, len: usize) {
    if buffer.len() < len {
        *buffer = Buffer::zeroed(len);
    }
}

impl Activations {
    /// Takes `rows` rows of `width` elements, one behind the other.
    ///
    /// # Panics
    /// When `data` has another length or `width` is no multiple of 32.
    pub fn set(&mut self, compute: &Compute, data: &[f32], rows: usize, width: usize) {
        assert!(
            rows.checked_mul(width) == Some(data.len()) && width.is_multiple_of(QUANT_BLOCK),
            "rows of whole blocks"
        );
        (self.rows, self.width, self.stride) = (rows, width, width + BLOCK);
        let kernels = QuantizedKernels::of(compute.isa());
        reserve(&mut self.bf16, rows.next_multiple_of(BLOCK) * self.stride);
        let blocks = width / QUANT_BLOCK;
        if rows <= FEW_ROWS {
            reserve(&mut self.values, rows * width);
            reserve(&mut self.scales, rows * blocks);
            reserve(&mut self.sums, 2 * rows * blocks);
        }
        let bf16 = self.bf16.shared();
        let (values, scales, sums) = (self.values.shared(), self.scales.shared(), self.sums.shared());
        let is_few = rows <= FEW_ROWS;
        let stride = self.stride;
        let convert = |row: usize| {
            let from = &data[row * width..(row + 1) * width];
            // SAFETY: the set of kernels is the machine's; there is room for all rows, and this one is this piece's own.
            unsafe {
                (kernels.to_bf16)(from, slice(bf16, row * stride, width));
                if is_few {
                    let values = slice(values, row * width, width);
                    let scales = slice(scales, row * blocks, blocks);
                    (kernels.quantize_row)(from, values, scales, slice(sums, 2 * row * blocks, 2 * blocks));
                }
            }
        };
        if rows * width < 1 << 15 {
            (0..rows).for_each(convert);
        } else {
            compute.parallel_for(rows, |row, _| convert(row));
        }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The rows in bf16.
    pub(super) fn bf16(&self) -> Rows<'_> {
        Rows::new(&self.bf16, self.stride, self.rows)
    }

    /// Some rows in int8.
    ///
    /// # Panics
    /// When there are more than [`FEW_ROWS`] or the row is none of them.
    pub(super) fn int8(&self, row: usize) -> RowPointers {
        assert!(row < self.rows && self.rows <= FEW_ROWS, "a row that was quantized");
        let blocks = self.width / QUANT_BLOCK;
        RowPointers {
            values: self.values[row * self.width..].as_ptr(),
            scales: self.scales[row * blocks..].as_ptr(),
            sums: self.sums[2 * row * blocks..].as_ptr(),
        }
    }
}

/// # Safety
/// The range is inside the array, and nobody else uses it.
unsafe fn slice<'a, T>(start: SharedMut<T>, first: usize, len: usize) -> &'a mut [T] {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts_mut(start.at(first), len) }
}
