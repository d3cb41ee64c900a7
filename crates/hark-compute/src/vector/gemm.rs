//! float32 GEMM and GEMV for small layers: nothing is rounded.
//!
//! SAFETY of every block: the callers are the kernel sets of [`super`], whose safe methods check bounds and CPU.

use super::LINE;
use crate::buffer::Buffer;
use crate::simd::Simd;

/// A `rows × depth` matrix cut into panels of `width` rows, each stored depth by depth.
pub struct PackedF32 {
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) width: usize,
    pub(super) data: Buffer<f32>,
}

impl PackedF32 {
    /// Packs a matrix given by its entries `(row, depth)`; `width` is a multiple of 16 and divides `rows`.
    pub fn pack(rows: usize, depth: usize, width: usize, entry: impl Fn(usize, usize) -> f32) -> Self {
        assert!(width > 0 && width.is_multiple_of(LINE) && rows.is_multiple_of(width), "whole panels");
        let mut data = Buffer::zeroed(rows * depth);
        for row in 0..rows {
            for k in 0..depth {
                data[(row / width) * width * depth + k * width + row % width] = entry(row, k);
            }
        }
        PackedF32 { rows, depth, width, data }
    }

    /// Rows of the matrix.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// All numbers, panel after panel.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// `depth` columns from `first` on as the left side of a product.
    ///
    /// # Panics
    /// When panels are not 16 rows wide or there are fewer columns.
    pub fn columns(&self, first: usize, depth: usize) -> Left<'_> {
        assert!(self.width == LINE && first + depth <= self.depth, "columns of panels of 16 rows");
        Left { data: &self.data[first * LINE..], panel: self.depth * LINE, step: LINE, rows: self.rows, depth }
    }
}

/// The left side of a product: entry `(row, k)` stands at `(row / 16) * panel + k * step + row % 16`.
#[derive(Clone, Copy)]
pub struct Left<'a> {
    /// The numbers.
    pub data: &'a [f32],
    /// Elements from one panel of 16 rows to the next.
    pub panel: usize,
    /// Elements from one `k` to the next.
    pub step: usize,
    /// Rows, a multiple of 16.
    pub rows: usize,
    /// Columns.
    pub depth: usize,
}

/// Columns outside, rows inside: the columns of `right` stay in L1 while the weights stream from L2.
#[inline(always)]
pub(super) unsafe fn gemm<S: Simd, const ROWS: usize>(
    left: Left,
    right: &[f32],
    columns: usize,
    stride: usize,
    bias: Option<&[f32]>,
    out: &mut [f32],
) {
    let mut column = 0;
    while column < columns {
        let vectors = ((columns - column) / S::LANES).min(3);
        for row in (0..left.rows).step_by(ROWS) {
            // SAFETY: `row + ROWS <= rows` since ROWS divides 16, and the tile's columns end by `columns`.
            unsafe {
                let a = left.data.as_ptr().add((row / LINE) * left.panel + row % LINE);
                let b = right.as_ptr().add(column);
                let to = out.as_mut_ptr().add(row * stride + column);
                let bias = bias.map(|bias| bias.as_ptr().add(row));
                match vectors {
                    3 => tile::<S, ROWS, 3>(a, left.step, left.depth, b, stride, bias, to),
                    2 => tile::<S, ROWS, 2>(a, left.step, left.depth, b, stride, bias, to),
                    _ => tile::<S, ROWS, 1>(a, left.step, left.depth, b, stride, bias, to),
                }
            }
        }
        column += vectors * S::LANES;
    }
}

#[inline(always)]
unsafe fn tile<S: Simd, const ROWS: usize, const VECTORS: usize>(
    mut a: *const f32,
    a_step: usize,
    depth: usize,
    mut b: *const f32,
    stride: usize,
    bias: Option<*const f32>,
    out: *mut f32,
) {
    // SAFETY: `a` has ROWS floats at each of `depth` steps, `b` and `out` VECTORS vectors on each row.
    unsafe {
        let mut sums = [[S::splat(0.0); VECTORS]; ROWS];
        for _ in 0..depth {
            let mut x = [S::splat(0.0); VECTORS];
            for (v, x) in x.iter_mut().enumerate() {
                *x = S::load(b.add(v * S::LANES));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let weight = S::splat(*a.add(r));
                for v in 0..VECTORS {
                    sums[v] = S::fma(weight, x[v], sums[v]);
                }
            }
            // Wrapping, since the step after the last row may leave the allocation (it is not read).
            a = a.wrapping_add(a_step);
            b = b.wrapping_add(stride);
        }
        for (r, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                let sum = match bias {
                    Some(bias) => S::max(S::add(*sum, S::splat(*bias.add(r))), S::splat(0.0)),
                    None => *sum,
                };
                S::store(out.add(r * stride + v * S::LANES), sum);
            }
        }
    }
}

/// Eight sums at a time: four cycles of latency times two multiply-add ports.
#[inline(always)]
pub(super) unsafe fn gemv<S: Simd>(weights: &PackedF32, first: usize, x: &[f32], out: &mut [f32]) {
    let mut row = 0;
    while row < weights.rows {
        // SAFETY: the rows of a call end by `rows`, since 4 · 16 divides it and LANES divides 16.
        unsafe {
            if weights.rows - row >= 8 * S::LANES {
                gemv_rows::<S, 8>(weights, first, x, row, out);
                row += 8 * S::LANES;
            } else {
                gemv_rows::<S, 4>(weights, first, x, row, out);
                row += 4 * S::LANES;
            }
        }
    }
}

#[inline(always)]
unsafe fn gemv_rows<S: Simd, const VECTORS: usize>(
    weights: &PackedF32,
    first: usize,
    x: &[f32],
    row: usize,
    out: &mut [f32],
) {
    let width = weights.width;
    // SAFETY: vectors of rows below `rows`, each inside one panel since LANES divides its width.
    unsafe {
        let out = out.as_mut_ptr().add(row);
        let mut from = [std::ptr::null(); VECTORS];
        let mut sums = [S::splat(0.0); VECTORS];
        for v in 0..VECTORS {
            let row = row + v * S::LANES;
            let offset = (row / width) * width * weights.depth + first * width + row % width;
            from[v] = weights.data.as_ptr().add(offset);
            sums[v] = S::load(out.add(v * S::LANES));
        }
        for (k, &x) in x.iter().enumerate() {
            let x = S::splat(x);
            for v in 0..VECTORS {
                sums[v] = S::fma(x, S::load(from[v].add(k * width)), sums[v]);
            }
        }
        for v in 0..VECTORS {
            S::store(out.add(v * S::LANES), sums[v]);
        }
    }
}
