//! Matrices of quantized weights and their products.
//!
//! Weights stay in 4, 5, 6 or 8 bits with a scale for every 32 (or 16) of a row, as ggml's types have them, interleaved by 16
//! rows so that a vector's lane is a row. A product of a few rows of activations quantizes those to int8 and reads every
//! weight once, at memory speed (`kernel`). A product of many rows dequantizes weights to bf16 panels in the first-level
//! cache, a stretch at a time, and multiplies them there ([`matmul()`]).

mod activations;
mod kernel;
mod matmul;
mod pack;
#[cfg(test)]
mod tests;

pub use activations::{Activations, FEW_ROWS};
pub use hark_numeric::{QuantBlock, SUPER_BLOCK};
pub use matmul::{Product, matmul};
pub use pack::QuantizedMatrix;

use crate::Isa;
use crate::kernels::PANEL;
use kernel::{DequantizeFn, GemvFn, QuantizeRowFn};

/// Weights of a row that share a scale record: a block.
pub const QUANT_BLOCK: usize = 32;

/// How the weights of a [`QuantizedMatrix`] are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// 4 bits; an f16 scale, and an f16 minimum or a zero at 8.
    Int4 {
        /// Whether blocks have a minimum.
        mins: bool,
    },
    /// 5 bits; an f16 scale, and an f16 minimum or a zero at 16.
    Int5 {
        /// Whether blocks have a minimum.
        mins: bool,
    },
    /// 8 bits with a zero at 128; an f16 scale.
    Int8,
    /// 4 bits; scale and minimum are 6-bit integers times an f16 for 256 weights.
    Super4,
    /// 5 bits; scale and minimum are 6-bit integers times an f16 for 256 weights.
    Super5,
    /// 6 bits with a zero at 32; scales of 16 weights are 8-bit integers times an f16 for 256.
    Super6,
    /// bf16, not quantized.
    Bf16,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 9] = [
        Format::Int4 { mins: false },
        Format::Int4 { mins: true },
        Format::Int5 { mins: false },
        Format::Int5 { mins: true },
        Format::Int8,
        Format::Super4,
        Format::Super5,
        Format::Super6,
        Format::Bf16,
    ];

    /// Bits of a weight.
    pub fn bits(self) -> usize {
        match self {
            Format::Int4 { .. } | Format::Super4 => 4,
            Format::Int5 { .. } | Format::Super5 => 5,
            Format::Super6 => 6,
            Format::Int8 => 8,
            Format::Bf16 => 16,
        }
    }

    /// Whether a scale of scales stands above 256 weights.
    pub fn is_two_level(self) -> bool {
        matches!(self, Format::Super4 | Format::Super5 | Format::Super6)
    }

    /// Whether blocks have a minimum; else the zero lies in the middle.
    pub fn has_mins(self) -> bool {
        matches!(self, Format::Int4 { mins: true } | Format::Int5 { mins: true } | Format::Super4 | Format::Super5)
    }

    /// Weights of a row that must be there as a whole.
    pub fn granule(self) -> usize {
        if self.is_two_level() { SUPER_BLOCK } else { QUANT_BLOCK }
    }

    /// Bytes of scales at the start of the record of 16 rows and [`Format::granule`] weights.
    fn header_bytes(self) -> usize {
        if self == Format::Bf16 {
            return 0;
        }
        header_bytes(self.bits(), self.is_two_level(), self.has_mins())
    }

    /// Bytes of a record.
    fn record_bytes(self) -> usize {
        self.header_bytes() + self.granule() / QUANT_BLOCK * data_bytes(self.bits())
    }
}

/// Bytes of 16 rows of one block without their scales.
const fn data_bytes(bits: usize) -> usize {
    PANEL * QUANT_BLOCK * bits / 8
}

/// See [`Format::header_bytes`].
///
/// One level: 16 f16 scales and, with `mins`, 16 f16 minima. Two levels: with `mins` the same, then 16 scales and behind
/// all of those 16 minima of a byte for each of the eight blocks; else 16 `f32` scales, then 16 signed bytes for each 16 weights.
const fn header_bytes(bits: usize, two_level: bool, mins: bool) -> usize {
    match (two_level, mins) {
        (false, false) => 32,
        (false, true) => 64,
        (true, true) => 64 + 2 * 8 * PANEL,
        (true, false) => {
            assert!(bits == 6, "the only format of two levels without minima");
            64 + 16 * PANEL
        }
    }
}

/// The kernels of one instruction set; given out only where the machine has it.
#[derive(Clone, Copy)]
pub(crate) struct QuantizedKernels {
    gemv: fn(Format, usize) -> Option<GemvFn>,
    dequantize: fn(Format) -> DequantizeFn,
    quantize_row: QuantizeRowFn,
    to_bf16: unsafe fn(&[f32], &mut [u16]),
}

impl QuantizedKernels {
    /// Those of `isa`, which the caller has found available.
    fn of(isa: Isa) -> Self {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Amx | Isa::Avx512Bf16 | Isa::Avx512Vnni => kernel::vnni::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::AvxVnni | Isa::Avx2 => kernel::avx2::KERNELS,
            _ => kernel::portable::KERNELS,
        }
    }
}
