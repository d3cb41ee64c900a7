//! Products in whole numbers: activations and weights of one byte each, sums of 32 bits.
//!
//! Weights are signed bytes with one scale for each output column, activations unsigned bytes with one scale for each row, found
//! when the row is known. Sums are exact, so every instruction set gives the very same whole numbers; only then are
//! they multiplied by their two scales.
//!
//! Activations lie 128 higher than they are, because `vpdpbusd` wants them unsigned; sums therefore begin at -128
//! times the sum of a column's weights.
//!
//! **Panel layout**: panels of 16 columns; a panel is a sequence of tiles of 64 `k`; a tile is 16 rows of 64 bytes, row
//! `q` holding `b[4q..4q+4][n]` for its 16 columns:
//! `index(k, n) = (n/16) * 16*K + (k/64) * 1024 + ((k%64)/4) * 64 + (n%16) * 4 + k%4`.

use super::math::from_bf16;
use super::{BlockEpilogue, PANEL};
#[cfg(target_arch = "x86_64")]
use super::{amx_int8, int8_avx2, int8_avx512};
use crate::Isa;

/// Depth of an int8 tile: `k` is padded to a multiple of this.
pub const INT8_DEPTH: usize = 64;
/// Bytes of a tile.
pub const INT8_TILE: usize = INT8_DEPTH * PANEL;
/// What an activation of zero is.
pub const ZERO: u8 = 128;
/// The largest magnitude of a weight or an activation.
pub const LARGEST: f32 = 127.0;

/// One product block in whole numbers: `sums[rows][32] = a[rows][64*depth] · b`, `b` two panels.
///
/// Rows beyond `rows` up to the next multiple of 16 may be read and written: buffers are padded for that.
#[derive(Clone, Copy)]
pub struct Int8Block {
    /// First activation row.
    pub a: *const u8,
    /// Bytes between activation rows.
    pub a_stride: usize,
    /// First tile of the left panel.
    pub left: *const i8,
    /// First tile of the right panel.
    pub right: *const i8,
    /// Where the block goes, rows of 32: whole numbers, and float32 numbers after the last part of the depth.
    pub sums: *mut i32,
    /// Number of tiles along `k`.
    pub depth: usize,
    /// Rows that matter, 1 to 32.
    pub rows: usize,
    /// The 32 numbers that sums begin with: -128 times the sum of each column's weights.
    pub offsets: *const i32,
    /// Whether this is the first part of the depth, which overwrites `sums`; later parts add to them.
    pub is_first: bool,
    /// Whether this is the last part of the depth, after which sums are multiplied by their scales.
    pub is_last: bool,
    /// The scale of each row.
    pub row_scales: *const f32,
    /// The scale of each of the 32 columns.
    pub column_scales: *const f32,
}

/// An int8 product of many rows with many columns, whose epilogue runs as it comes.
pub struct Int8Chunk<'a> {
    /// First activation row; rows up to a multiple of 32 can be read.
    pub a: *const u8,
    /// Bytes between activation rows.
    pub a_stride: usize,
    /// The scale of each row.
    pub row_scales: *const f32,
    /// Number of rows.
    pub rows: usize,
    /// All panels of the weights.
    pub panels: *const i8,
    /// Number of tiles along `k`.
    pub depth: usize,
    /// For each column what its sums begin with.
    pub offsets: *const i32,
    /// The scale of each column.
    pub column_scales: *const f32,
    /// For each column its bias.
    pub bias: *const f32,
    /// Blocks of 32 columns to do.
    pub blocks: std::ops::Range<usize>,
    /// Gets the sums of up to 32 rows, its first row and its first column.
    pub epilogue: &'a dyn Fn(&BlockEpilogue, usize, usize),
    /// Whether a block's epilogue may run a few rows at a time.
    pub by_rows: bool,
}

/// The kernels for whole numbers of one instruction set.
#[non_exhaustive]
pub struct Int8Kernels {
    /// A product block.
    pub block: unsafe fn(&Int8Block),
    /// A whole chunk, where the set has a way of its own: more than 16 rows in the last block.
    pub chunk: Option<unsafe fn(&Int8Chunk)>,
    /// Quantizes a bf16 row: `(row, how many, out)`; returns its scale.
    pub quantize_row: unsafe fn(*const u16, usize, *mut u8) -> f32,
}

static PORTABLE: Int8Kernels = Int8Kernels { block, chunk: None, quantize_row };

impl Int8Kernels {
    /// The kernels for `isa`, which this machine must have.
    pub(crate) fn of(isa: Isa) -> &'static Int8Kernels {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Amx => &amx_int8::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16 | Isa::Avx512Vnni => &int8_avx512::KERNELS_VNNI,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => &int8_avx512::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni => &int8_avx2::KERNELS_VNNI,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => &int8_avx2::KERNELS,
            _ => &PORTABLE,
        }
    }
}

/// The product block, straight from the definition of the panel layout.
///
/// # Safety
/// `block` must describe live memory of the stated shapes.
pub unsafe fn block(block: &Int8Block) {
    for row in 0..block.rows {
        for (panel, first_column) in [(block.left, 0), (block.right, PANEL)] {
            // SAFETY: the caller vouches for the shapes; a panel's lines of 64 bytes lie one after the other.
            unsafe {
                let out = &mut *block.sums.add(row * 32 + first_column).cast::<[i32; PANEL]>();
                let mut sums = if block.is_first { *block.offsets.add(first_column).cast() } else { *out };
                for line in 0..block.depth * INT8_DEPTH / 4 {
                    let four = &*block.a.add(row * block.a_stride + line * 4).cast::<[u8; 4]>();
                    let columns = &*panel.add(line * 4 * PANEL).cast::<[[i8; 4]; PANEL]>();
                    for (sum, weights) in sums.iter_mut().zip(columns) {
                        for k in 0..4 {
                            *sum += i32::from(four[k]) * i32::from(weights[k]);
                        }
                    }
                }
                if block.is_last {
                    let scales = &*block.column_scales.add(first_column).cast::<[f32; PANEL]>();
                    let row_scale = *block.row_scales.add(row);
                    for (sum, scale) in sums.iter_mut().zip(scales) {
                        *sum = (*sum as f32 * (row_scale * scale)).to_bits() as i32;
                    }
                }
                *out = sums;
            }
        }
    }
}

/// Where element `(k, column)` lies inside a panel.
#[inline(always)]
pub fn index_in_panel(k: usize, column: usize) -> usize {
    k / INT8_DEPTH * INT8_TILE + k % INT8_DEPTH / 4 * 4 * PANEL + column * 4 + k % 4
}

/// Quantizes a bf16 row of `n` numbers, the largest magnitude becoming 127; returns its scale.
///
/// # Safety
/// `row` and `out` reach `n` elements.
#[inline(always)]
pub unsafe fn quantize_row(row: *const u16, n: usize, out: *mut u8) -> f32 {
    // SAFETY: the caller vouches for the lengths.
    let (row, out) = unsafe { (std::slice::from_raw_parts(row, n), std::slice::from_raw_parts_mut(out, n)) };
    // Magnitudes of bf16 are ordered as whole numbers are.
    let largest = from_bf16(row.iter().fold(0, |largest, half| largest.max(half & 0x7fff)));
    let inverse = inverse_scale(largest);
    for (half, out) in row.iter().zip(out) {
        *out = nearest(from_bf16(*half) * inverse).wrapping_add_unsigned(ZERO) as u8;
    }
    largest / LARGEST
}

/// Units in one; none in a row so small that there would be more than float32 can count.
#[inline(always)]
pub fn inverse_scale(largest: f32) -> f32 {
    if largest > 1e-30 { LARGEST / largest } else { 0.0 }
}

/// The nearest whole number.
#[inline(always)]
pub fn nearest(x: f32) -> i8 {
    // Adding 1.5·2²³ rounds and leaves the whole number in the low bits.
    (x + 12_582_912.0).to_bits() as i8
}
