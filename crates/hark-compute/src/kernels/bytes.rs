//! Products in whole numbers: activations and weights of one byte each, sums of 32 bits.
//!
//! Weights are signed bytes with one unit for each output column, activations bytes with one unit for each row, found
//! when the row is known. Sums are exact, so every instruction set gives the very same whole numbers; only then are
//! they multiplied by their two units.
//!
//! Activations lie 128 higher than they are, because `vpdpbusd` wants them unsigned; sums therefore begin at -128
//! times the sum of a column's weights.
//!
//! **Panel layout**: panels of 16 columns; a panel is a sequence of tiles of 64 `k`; a tile is 16 rows of 64 bytes, row
//! `q` holding `b[4q..4q+4][n]` for its 16 columns:
//! `index(k, n) = (n/16) * 16*K + (k/64) * 1024 + ((k%64)/4) * 64 + (n%16) * 4 + k%4`.

use super::math::from_bf16;
use super::{Finish, PANEL};
#[cfg(target_arch = "x86_64")]
use super::{amx_int8, bytes_avx2, bytes_avx512};
use crate::Isa;

/// Depth of a tile of bytes: `k` is padded to a multiple of this.
pub const BYTE_DEPTH: usize = 64;
/// Bytes of a tile.
pub const BYTE_TILE: usize = BYTE_DEPTH * PANEL;
/// What an activation of zero is.
pub const ZERO: u8 = 128;
/// The largest magnitude of a weight or an activation.
pub const LARGEST: f32 = 127.0;

/// One product block in whole numbers: `sums[rows][32] = a[rows][64*depth] · b`, `b` two panels.
///
/// Rows beyond `rows` up to the next multiple of 16 may be read and written: buffers are padded for that.
#[derive(Clone, Copy)]
pub struct ByteBlock {
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
    pub starts: *const i32,
    /// Whether this is the first part of the depth, which overwrites `sums`; later parts add to them.
    pub is_first: bool,
    /// Whether this is the last part of the depth, after which sums are multiplied by their units.
    pub is_last: bool,
    /// What a unit of each row is worth.
    pub row_units: *const f32,
    /// What a unit of each of the 32 columns is worth.
    pub column_units: *const f32,
}

/// A product of many rows with many columns in whole numbers, finished as it comes.
pub struct ByteChunk<'a> {
    /// First activation row; rows up to a multiple of 32 can be read.
    pub a: *const u8,
    /// Bytes between activation rows.
    pub a_stride: usize,
    /// What a unit of each row is worth.
    pub row_units: *const f32,
    /// Number of rows.
    pub rows: usize,
    /// All panels of the weights.
    pub panels: *const i8,
    /// Number of tiles along `k`.
    pub depth: usize,
    /// For each column what its sums begin with.
    pub starts: *const i32,
    /// For each column what a unit is worth.
    pub column_units: *const f32,
    /// For each column its bias.
    pub bias: *const f32,
    /// Blocks of 32 columns to do.
    pub blocks: std::ops::Range<usize>,
    /// Gets the sums of up to 32 rows, its first row and its first column.
    pub finish: &'a dyn Fn(&Finish, usize, usize),
    /// Whether a block may be finished a few rows at a time.
    pub by_rows: bool,
}

/// The kernels for whole numbers of one instruction set.
#[non_exhaustive]
pub struct ByteKernels {
    /// A product block.
    pub block: unsafe fn(&ByteBlock),
    /// A whole chunk, where the set has a way of its own: more than 16 rows in the last block.
    pub chunk: Option<unsafe fn(&ByteChunk)>,
    /// Rounds a bf16 row: `(row, how many, out)`; returns what a unit is worth.
    pub round_row: unsafe fn(*const u16, usize, *mut u8) -> f32,
}

static PORTABLE: ByteKernels = ByteKernels { block, chunk: None, round_row };

impl ByteKernels {
    /// The kernels for `isa`, which this machine must have.
    pub(crate) fn of(isa: Isa) -> &'static ByteKernels {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Amx => &amx_int8::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16 | Isa::Avx512Vnni => &bytes_avx512::KERNELS_VNNI,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => &bytes_avx512::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni => &bytes_avx2::KERNELS_VNNI,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => &bytes_avx2::KERNELS,
            _ => &PORTABLE,
        }
    }
}

/// The product block, straight from the definition of the panel layout.
///
/// # Safety
/// `block` must describe live memory of the stated shapes.
pub unsafe fn block(block: &ByteBlock) {
    for row in 0..block.rows {
        for (panel, first_column) in [(block.left, 0), (block.right, PANEL)] {
            // SAFETY: the caller vouches for the shapes; a panel's lines of 64 bytes lie one after the other.
            unsafe {
                let out = &mut *block.sums.add(row * 32 + first_column).cast::<[i32; PANEL]>();
                let mut sums = if block.is_first { *block.starts.add(first_column).cast() } else { *out };
                for line in 0..block.depth * BYTE_DEPTH / 4 {
                    let four = &*block.a.add(row * block.a_stride + line * 4).cast::<[u8; 4]>();
                    let columns = &*panel.add(line * 4 * PANEL).cast::<[[i8; 4]; PANEL]>();
                    for (sum, weights) in sums.iter_mut().zip(columns) {
                        for k in 0..4 {
                            *sum += i32::from(four[k]) * i32::from(weights[k]);
                        }
                    }
                }
                if block.is_last {
                    let units = &*block.column_units.add(first_column).cast::<[f32; PANEL]>();
                    let row_unit = *block.row_units.add(row);
                    for (sum, unit) in sums.iter_mut().zip(units) {
                        *sum = (*sum as f32 * (row_unit * unit)).to_bits() as i32;
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
    k / BYTE_DEPTH * BYTE_TILE + k % BYTE_DEPTH / 4 * 4 * PANEL + column * 4 + k % 4
}

/// Rounds a bf16 row of `n` numbers to bytes, the largest magnitude becoming 127; returns what a unit is worth.
///
/// # Safety
/// `row` and `out` reach `n` elements.
#[inline(always)]
pub unsafe fn round_row(row: *const u16, n: usize, out: *mut u8) -> f32 {
    // SAFETY: the caller vouches for the lengths.
    let (row, out) = unsafe { (std::slice::from_raw_parts(row, n), std::slice::from_raw_parts_mut(out, n)) };
    // Magnitudes of bf16 are ordered as whole numbers are.
    let largest = from_bf16(row.iter().fold(0, |largest, half| largest.max(half & 0x7fff)));
    let inverse = inverse_unit(largest);
    for (half, out) in row.iter().zip(out) {
        *out = nearest(from_bf16(*half) * inverse).wrapping_add_unsigned(ZERO) as u8;
    }
    largest / LARGEST
}

/// Units in one; none in a row so small that there would be more than float32 can count.
#[inline(always)]
pub fn inverse_unit(largest: f32) -> f32 {
    if largest > 1e-30 { LARGEST / largest } else { 0.0 }
}

/// The nearest whole number.
#[inline(always)]
pub fn nearest(x: f32) -> i8 {
    // Adding 1.5·2²³ rounds and leaves the whole number in the low bits.
    (x + 12_582_912.0).to_bits() as i8
}
