//! AMX kernels: products on tiles, everything else as in AVX-512.
//!
//! A tile is 16 rows of 64 bytes. A block of 32×32 sums sits in tiles 0 to 3; each step along `k` loads two tiles of
//! activations (4, 5) and two of weights (6, 7) and does four `tdpbf16ps`, each 16×16×32 multiply-adds in 16 cycles:
//! 64 cycles of products against 32 of loads, so the loads hide as long as they come from the first two caches.
//! Stable Rust has no AMX intrinsics; the instructions are written as assembly.

use std::arch::asm;

use super::avx512;
use super::{Block, Isa, Kernels, SelfAttentionKernel};

/// The AMX set.
pub static KERNELS: Kernels = Kernels {
    isa: Isa::Amx,
    prepare: load_tile_shapes,
    block,
    epilogue_bf16: avx512::epilogue_bf16_native,
    epilogue_add: avx512::KERNELS_BF16.epilogue_add,
    transpose_keys: avx512::KERNELS_BF16.transpose_keys,
    interleave_values: avx512::KERNELS_BF16.interleave_values,
    layer_norm: avx512::KERNELS_BF16.layer_norm,
    softmax_block: avx512::softmax_block_native,
    scale_to_bf16: avx512::scale_to_bf16_native,
    attend_int8: Some(super::vnni::attend_int8),
    self_attention: Some(SelfAttentionKernel {
        attend: super::amx_attention::attend,
        pairs: &super::amx_attention::PAIRS,
    }),
    int8_to_bf16: avx512::int8_to_bf16_native,
    causal_attention: avx512::KERNELS_BF16.causal_attention,
    log_sum: avx512::KERNELS_BF16.log_sum,
};

/// The argument of `ldtilecfg`: palette 1, eight tiles of 16 rows of 64 bytes.
#[repr(C, align(64))]
struct TileShapes([u8; 64]);

static TILE_SHAPES: TileShapes = {
    let mut bytes = [0u8; 64];
    bytes[0] = 1;
    let mut tile = 0;
    while tile < 8 {
        bytes[16 + 2 * tile] = 64;
        bytes[48 + tile] = 16;
        tile += 1;
    }
    TileShapes(bytes)
};

/// Gives the calling thread its tile shapes; they stay until the thread ends.
unsafe fn load_tile_shapes() {
    // SAFETY: AMX is there and permitted (checked when the set was chosen); the operand is 64 readable bytes.
    unsafe { asm!("ldtilecfg [{}]", in(reg) TILE_SHAPES.0.as_ptr(), options(nostack, readonly)) }
}

/// Sums begin with this line, sixteen times: `tilezero` would wait until all products before it are done.
static ZERO: TileShapes = TileShapes([0; 64]);

pub(super) unsafe fn block(block: &Block) {
    // SAFETY: the caller vouches for the shapes and has called `load_tile_shapes` on this thread.
    unsafe {
        if block.rows <= 16 {
            half_block(block);
        } else {
            full_block(block);
        }
    }
}

/// 32 rows × 32 columns.
#[inline(always)]
unsafe fn full_block(block: &Block) {
    let a_bytes = block.a_stride * 2;
    let c_bytes = block.c_stride * 4;
    // SAFETY: as in `block`; rows 16 to 31 exist because buffers are padded to a multiple of 16 rows.
    unsafe {
        asm!(
            "test {accumulate:e}, {accumulate:e}",
            "jz 3f",
            "tileloadd tmm0, [{c0} + {c_bytes}*1]",
            "tileloadd tmm1, [{c0} + {c_bytes}*1 + 64]",
            "tileloadd tmm2, [{c1} + {c_bytes}*1]",
            "tileloadd tmm3, [{c1} + {c_bytes}*1 + 64]",
            "jmp 2f",
            "3:",
            "tileloadd tmm0, [{zero} + {none}*1]",
            "tileloadd tmm1, [{zero} + {none}*1]",
            "tileloadd tmm2, [{zero} + {none}*1]",
            "tileloadd tmm3, [{zero} + {none}*1]",
            "2:",
            "tileloadd tmm6, [{left} + {line}*1]",
            "tileloadd tmm4, [{a0} + {a_bytes}*1]",
            "tileloadd tmm7, [{right} + {line}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm5, [{a1} + {a_bytes}*1]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {a0}, 64",
            "add {a1}, 64",
            "add {left}, 1024",
            "add {right}, 1024",
            "dec {depth}",
            "jnz 2b",
            "tilestored [{c0} + {c_bytes}*1], tmm0",
            "tilestored [{c0} + {c_bytes}*1 + 64], tmm1",
            "tilestored [{c1} + {c_bytes}*1], tmm2",
            "tilestored [{c1} + {c_bytes}*1 + 64], tmm3",
            accumulate = in(reg) i32::from(block.accumulate),
            zero = in(reg) ZERO.0.as_ptr(),
            none = in(reg) 0usize,
            a0 = inout(reg) block.a => _,
            a1 = inout(reg) block.a.add(16 * block.a_stride) => _,
            a_bytes = in(reg) a_bytes,
            left = inout(reg) block.left => _,
            right = inout(reg) block.right => _,
            line = in(reg) 64usize,
            c0 = in(reg) block.c,
            c1 = in(reg) block.c.add(16 * block.c_stride),
            c_bytes = in(reg) c_bytes,
            depth = inout(reg) block.depth => _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}

/// 16 rows × 32 columns.
#[inline(always)]
unsafe fn half_block(block: &Block) {
    let a_bytes = block.a_stride * 2;
    let c_bytes = block.c_stride * 4;
    // SAFETY: as in `block`; rows up to 15 exist because buffers are padded to a multiple of 16 rows.
    unsafe {
        asm!(
            "test {accumulate:e}, {accumulate:e}",
            "jz 3f",
            "tileloadd tmm0, [{c} + {c_bytes}*1]",
            "tileloadd tmm1, [{c} + {c_bytes}*1 + 64]",
            "jmp 2f",
            "3:",
            "tileloadd tmm0, [{zero} + {none}*1]",
            "tileloadd tmm1, [{zero} + {none}*1]",
            "2:",
            "tileloadd tmm4, [{a} + {a_bytes}*1]",
            "tileloadd tmm6, [{left} + {line}*1]",
            "tileloadd tmm7, [{right} + {line}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "add {a}, 64",
            "add {left}, 1024",
            "add {right}, 1024",
            "dec {depth}",
            "jnz 2b",
            "tilestored [{c} + {c_bytes}*1], tmm0",
            "tilestored [{c} + {c_bytes}*1 + 64], tmm1",
            accumulate = in(reg) i32::from(block.accumulate),
            zero = in(reg) ZERO.0.as_ptr(),
            none = in(reg) 0usize,
            a = inout(reg) block.a => _,
            a_bytes = in(reg) a_bytes,
            left = inout(reg) block.left => _,
            right = inout(reg) block.right => _,
            line = in(reg) 64usize,
            c = in(reg) block.c,
            c_bytes = in(reg) c_bytes,
            depth = inout(reg) block.depth => _,
            out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}
