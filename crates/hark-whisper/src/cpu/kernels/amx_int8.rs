//! Products of bytes on AMX tiles: the shapes of [`super::amx`], with 64 instead of 32 `k` in a tile.
//!
//! `tdpbusd` does 16×16×64 multiply-adds in the 16 cycles that `tdpbf16ps` takes for half as many.

use std::arch::asm;
use std::arch::x86_64::*;

use super::PANEL;
use super::bytes::{ByteBlock, ByteKernels};
use super::bytes_avx512::{round_row, worth};

/// AMX tiles of bytes.
pub static KERNELS: ByteKernels = ByteKernels { block, round_row };

/// Bytes from one row of sums to the next.
const SUMS_BYTES: usize = 32 * 4;

#[target_feature(enable = "avx512f")]
unsafe fn block(block: &ByteBlock) {
    // SAFETY: the caller vouches for the shapes and has given this thread its tile shapes.
    unsafe {
        if block.rows <= 16 {
            half_block(block);
        } else {
            full_block(block);
        }
        if block.is_last {
            for row in 0..block.rows {
                for half in 0..2 {
                    let place = block.sums.add(row * 32 + half * PANEL);
                    let done = worth(block, row, half, _mm512_loadu_si512(place.cast()));
                    _mm512_storeu_si512(place.cast(), done);
                }
            }
        }
    }
}

/// Where the sums of the first 16 rows begin, where those of the next 16 do, and how many bytes one row lies behind the
/// other: in the first part of the depth all rows begin with the same line.
#[inline(always)]
unsafe fn beginnings(block: &ByteBlock) -> (*const i32, *const i32, usize) {
    match block.is_first {
        true => (block.starts, block.starts, 0),
        // SAFETY: the sums have 32 rows of 32.
        false => unsafe { (block.sums.cast_const(), block.sums.cast_const().add(16 * 32), SUMS_BYTES) },
    }
}

/// 32 rows × 32 columns.
#[inline(always)]
unsafe fn full_block(block: &ByteBlock) {
    // SAFETY: as in `block`; rows 16 to 31 exist because buffers are padded to a multiple of 16 rows.
    unsafe {
        let (from0, from1, from_bytes) = beginnings(block);
        asm!(
            "tileloadd tmm0, [{from0} + {from_bytes}*1]",
            "tileloadd tmm1, [{from0} + {from_bytes}*1 + 64]",
            "tileloadd tmm2, [{from1} + {from_bytes}*1]",
            "tileloadd tmm3, [{from1} + {from_bytes}*1 + 64]",
            "2:",
            "tileloadd tmm6, [{left} + {line}*1]",
            "tileloadd tmm4, [{a0} + {a_bytes}*1]",
            "tileloadd tmm7, [{right} + {line}*1]",
            "tdpbusd tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{a1} + {a_bytes}*1]",
            "tdpbusd tmm1, tmm4, tmm7",
            "tdpbusd tmm2, tmm5, tmm6",
            "tdpbusd tmm3, tmm5, tmm7",
            "add {a0}, 64",
            "add {a1}, 64",
            "add {left}, 1024",
            "add {right}, 1024",
            "dec {depth}",
            "jnz 2b",
            "tilestored [{sums} + {sums_bytes}*1], tmm0",
            "tilestored [{sums} + {sums_bytes}*1 + 64], tmm1",
            "tilestored [{sums} + {sums_bytes}*1 + 2048], tmm2",
            "tilestored [{sums} + {sums_bytes}*1 + 2112], tmm3",
            from0 = in(reg) from0,
            from1 = in(reg) from1,
            from_bytes = in(reg) from_bytes,
            a0 = inout(reg) block.a => _,
            a1 = inout(reg) block.a.add(16 * block.a_stride) => _,
            a_bytes = in(reg) block.a_stride,
            left = inout(reg) block.left => _,
            right = inout(reg) block.right => _,
            line = in(reg) 64usize,
            sums = in(reg) block.sums,
            sums_bytes = in(reg) SUMS_BYTES,
            depth = inout(reg) block.depth => _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}

/// 16 rows × 32 columns.
#[inline(always)]
unsafe fn half_block(block: &ByteBlock) {
    // SAFETY: as in `block`; rows up to 15 exist because buffers are padded to a multiple of 16 rows.
    unsafe {
        let (from, _, from_bytes) = beginnings(block);
        asm!(
            "tileloadd tmm0, [{from} + {from_bytes}*1]",
            "tileloadd tmm1, [{from} + {from_bytes}*1 + 64]",
            "2:",
            "tileloadd tmm4, [{a} + {a_bytes}*1]",
            "tileloadd tmm6, [{left} + {line}*1]",
            "tileloadd tmm7, [{right} + {line}*1]",
            "tdpbusd tmm0, tmm4, tmm6",
            "tdpbusd tmm1, tmm4, tmm7",
            "add {a}, 64",
            "add {left}, 1024",
            "add {right}, 1024",
            "dec {depth}",
            "jnz 2b",
            "tilestored [{sums} + {sums_bytes}*1], tmm0",
            "tilestored [{sums} + {sums_bytes}*1 + 64], tmm1",
            from = in(reg) from,
            from_bytes = in(reg) from_bytes,
            a = inout(reg) block.a => _,
            a_bytes = in(reg) block.a_stride,
            left = inout(reg) block.left => _,
            right = inout(reg) block.right => _,
            line = in(reg) 64usize,
            sums = in(reg) block.sums,
            sums_bytes = in(reg) SUMS_BYTES,
            depth = inout(reg) block.depth => _,
            out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}
