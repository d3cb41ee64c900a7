//! Norms over columns.

use super::math::{fused, leaky};
use crate::kernels::math::{EPSILON, from_bf16, to_bf16};
use crate::view::MatRef;

/// Columns to be normalized over all rows.
pub(super) struct Columns {
    pub(super) values: *const f32,
    pub(super) stride: usize,
    pub(super) rows: usize,
    /// 64 or 80.
    pub(super) columns: usize,
    pub(super) gain: *const f32,
    pub(super) shift: *const f32,
    pub(super) out: *mut u16,
    pub(super) out_stride: usize,
}

/// `max(x · gain + shift, 0)` by columns, bf16 in and out.
pub(super) struct Scaled {
    pub(super) rows: *const u16,
    pub(super) stride: usize,
    pub(super) count: usize,
    /// A multiple of 32.
    pub(super) width: usize,
    pub(super) gain: *const f32,
    pub(super) shift: *const f32,
    pub(super) out: *mut u16,
    pub(super) out_stride: usize,
}

impl Scaled {
    /// Checks that there is a gain and a shift for each column.
    pub(super) fn new(rows: MatRef<u16>, gain: &[f32], shift: &[f32], out: *mut u16, out_stride: usize) -> Self {
        let width = rows.width();
        assert!(width.is_multiple_of(32), "whole blocks of columns");
        assert!(gain.len() >= width && shift.len() >= width, "gain and shift of every column");
        Scaled {
            rows: rows.as_ptr(),
            stride: rows.stride(),
            count: rows.rows(),
            width,
            gain: gain.as_ptr(),
            shift: shift.as_ptr(),
            out,
            out_stride,
        }
    }
}

/// # Safety
/// `columns` must describe live memory of the stated shapes.
#[inline(always)]
pub(super) unsafe fn instance_norm<const FUSED: bool>(columns: &Columns) {
    // SAFETY: same contract.
    unsafe {
        match columns.columns {
            64 => instance_norm_of::<FUSED, 64>(columns),
            80 => instance_norm_of::<FUSED, 80>(columns),
            other => panic!("{other} columns can't be normalized: 64 or 80 can"),
        }
    }
}

/// Three times over the rows, all columns at once: a row is read from memory in one go.
#[inline(always)]
unsafe fn instance_norm_of<const FUSED: bool, const WIDTH: usize>(columns: &Columns) {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        let at = |row: usize| &*columns.values.add(row * columns.stride).cast::<[f32; WIDTH]>();
        let count = columns.rows as f32;
        let mut means = [0f32; WIDTH];
        for row in 0..columns.rows {
            let values = at(row);
            for column in 0..WIDTH {
                means[column] += values[column];
            }
        }
        for mean in &mut means {
            *mean /= count;
        }
        let mut squares = [0f32; WIDTH];
        for row in 0..columns.rows {
            let values = at(row);
            for column in 0..WIDTH {
                let distance = values[column] - means[column];
                squares[column] = fused::<FUSED>(distance, distance, squares[column]);
            }
        }
        let gain = &*columns.gain.cast::<[f32; WIDTH]>();
        let shift = &*columns.shift.cast::<[f32; WIDTH]>();
        let (mut factors, mut shifts) = ([0f32; WIDTH], [0f32; WIDTH]);
        for column in 0..WIDTH {
            factors[column] = gain[column] / (squares[column] / count + EPSILON).sqrt();
            shifts[column] = shift[column] - means[column] * factors[column];
        }
        for row in 0..columns.rows {
            let values = at(row);
            let out = &mut *columns.out.add(row * columns.out_stride).cast::<[u16; WIDTH]>();
            for column in 0..WIDTH {
                out[column] = to_bf16(leaky(fused::<FUSED>(values[column], factors[column], shifts[column])));
            }
        }
    }
}

/// # Safety
/// `scaled` must describe live memory of the stated shapes.
#[inline(always)]
pub(super) unsafe fn scale_relu<const FUSED: bool>(scaled: &Scaled) {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        let gain = std::slice::from_raw_parts(scaled.gain, scaled.width);
        let shift = std::slice::from_raw_parts(scaled.shift, scaled.width);
        for row in 0..scaled.count {
            let numbers = std::slice::from_raw_parts(scaled.rows.add(row * scaled.stride), scaled.width);
            let out = std::slice::from_raw_parts_mut(scaled.out.add(row * scaled.out_stride), scaled.width);
            for column in 0..scaled.width {
                let x = fused::<FUSED>(from_bf16(numbers[column]), gain[column], shift[column]);
                out[column] = to_bf16(if x > 0.0 { x } else { 0.0 });
            }
        }
    }
}

/// # Safety
/// `scaled` (but for its `out`, which is not used) must describe live memory of the stated shapes; `sums` and
/// `squares` reach its width.
#[inline(always)]
pub(super) unsafe fn moments<const FUSED: bool>(scaled: &Scaled, sums: *mut f32, squares: *mut f32) {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        let gain = std::slice::from_raw_parts(scaled.gain, scaled.width);
        let shift = std::slice::from_raw_parts(scaled.shift, scaled.width);
        let sums = std::slice::from_raw_parts_mut(sums, scaled.width);
        let squares = std::slice::from_raw_parts_mut(squares, scaled.width);
        for row in 0..scaled.count {
            let numbers = std::slice::from_raw_parts(scaled.rows.add(row * scaled.stride), scaled.width);
            for column in 0..scaled.width {
                let x = fused::<FUSED>(from_bf16(numbers[column]), gain[column], shift[column]);
                let x = if x > 0.0 { x } else { 0.0 };
                sums[column] += x;
                squares[column] = fused::<FUSED>(x, x, squares[column]);
            }
        }
    }
}
