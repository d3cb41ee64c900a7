//! int8 products on AMX tiles: the shapes of [`super::amx`], with 64 instead of 32 `k` in a tile.
//!
//! `tdpbusd` does 16×16×64 multiply-adds in the 16 cycles that `tdpbf16ps` takes for half as many.

use std::arch::asm;
use std::arch::x86_64::*;

use super::int8::{INT8_DEPTH, INT8_TILE, Int8Block, Int8Chunk, Int8Kernels};
use super::int8_avx512::{dequantize, quantize_row};
use super::{BLOCK, BlockEpilogue, PANEL};

/// The int8 kernels on AMX tiles.
pub static KERNELS: Int8Kernels = Int8Kernels { block, chunk: Some(chunk), quantize_row };

/// Bytes from one row of sums to the next.
const SUMS_BYTES: usize = 32 * 4;

#[target_feature(enable = "avx512f")]
unsafe fn block(block: &Int8Block) {
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
                    let done = dequantize(block, row, half, _mm512_loadu_si512(place.cast()));
                    _mm512_storeu_si512(place.cast(), done);
                }
            }
        }
    }
}

/// Where the sums of the first 16 rows begin, where those of the next 16 do, and how many bytes one row lies behind the
/// other: in the first part of the depth all rows begin with the same line.
#[inline(always)]
unsafe fn initial_sums(block: &Int8Block) -> (*const i32, *const i32, usize) {
    match block.is_first {
        true => (block.offsets, block.offsets, 0),
        // SAFETY: the sums have 32 rows of 32.
        false => unsafe { (block.sums.cast_const(), block.sums.cast_const().add(16 * 32), SUMS_BYTES) },
    }
}

/// 32 rows × 32 columns.
#[inline(always)]
unsafe fn full_block(block: &Int8Block) {
    // SAFETY: as in `block`; rows 16 to 31 exist because buffers are padded to a multiple of 16 rows.
    unsafe {
        let (from0, from1, from_bytes) = initial_sums(block);
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
unsafe fn half_block(block: &Int8Block) {
    // SAFETY: as in `block`; rows up to 15 exist because buffers are padded to a multiple of 16 rows.
    unsafe {
        let (from, _, from_bytes) = initial_sums(block);
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

/// Sums of a block of 32 × 32.
const SUMS: usize = BLOCK * BLOCK;
/// Most tiles along `k` taken at once: two panels are then 32 KB and stay in the first-level cache.
const PART: usize = 16;
/// Most blocks of rows whose sums are kept between two parts of the depth.
const ROW_BLOCKS: usize = 6;

#[repr(C, align(64))]
struct Workspace(std::mem::MaybeUninit<[i32; ROW_BLOCKS * SUMS]>);

/// A block whose sums have been made and whose epilogue has not run yet.
#[derive(Clone, Copy)]
struct MadeBlock {
    sums: *mut i32,
    row: usize,
    block: usize,
    is_last: bool,
    /// Rows whose epilogue has run.
    finished: usize,
}

/// See [`Int8Kernels::chunk`].
///
/// Epilogues run beside the products of the next block, a few rows at each step along `k`: tiles and vectors are
/// different parts of a core. A block's sums are stored when the next one's first operands have been loaded, since
/// loads wait for stores before them and stores for their products.
#[target_feature(enable = "avx512f")]
unsafe fn chunk(chunk: &Int8Chunk) {
    let mut workspace = Workspace(std::mem::MaybeUninit::uninit());
    let workspace = workspace.0.as_mut_ptr().cast::<i32>();
    let row_blocks = chunk.rows.div_ceil(BLOCK);
    let is_whole = chunk.depth <= PART;
    // With one part, two slots are enough: what is finished and what is being made.
    assert!(is_whole || row_blocks <= ROW_BLOCKS, "workspace for the sums of all rows");
    let (mut pending, mut in_epilogue): (Option<MadeBlock>, Option<MadeBlock>) = (None, None);
    let mut slot = 0;
    for block in chunk.blocks.clone() {
        for part in (0..chunk.depth).step_by(PART) {
            let depth = PART.min(chunk.depth - part);
            let rows_a_step = BLOCK.div_ceil(depth);
            for row_block in 0..row_blocks {
                let row = row_block * BLOCK;
                slot = if is_whole { (slot + 1) % 2 } else { row_block };
                // SAFETY: the caller vouches for the shapes and has given this thread its tile shapes.
                unsafe {
                    let sums = workspace.add(slot * SUMS);
                    let mut a = chunk.a.add(row * chunk.a_stride + part * INT8_DEPTH);
                    let mut b = chunk.panels.add((block * 2 * chunk.depth + part) * INT8_TILE);
                    let (a_half, b_half) = (16 * chunk.a_stride, chunk.depth * INT8_TILE);
                    load_operands(a, a_half, chunk.a_stride, b, b_half);
                    // The last rows of the block before, while the products of this one's forerunner end.
                    if let Some(mut done) = in_epilogue.take() {
                        run_epilogue(chunk, &mut done, BLOCK);
                    }
                    if let Some(done) = pending.take() {
                        store_sums(done.sums);
                        in_epilogue = Some(done).filter(|done| done.is_last);
                    }
                    match part {
                        0 => load_sums(chunk.offsets.add(block * BLOCK), 0, 0),
                        _ => load_sums(sums, 16 * BLOCK, SUMS_BYTES),
                    }
                    multiply();
                    for _ in 1..depth {
                        (a, b) = (a.add(INT8_DEPTH), b.add(INT8_TILE));
                        load_operands(a, a_half, chunk.a_stride, b, b_half);
                        multiply();
                        if let Some(done) = &mut in_epilogue {
                            let rows = if chunk.by_rows { rows_a_step } else { BLOCK };
                            run_epilogue(chunk, done, rows);
                        }
                    }
                    pending = Some(MadeBlock { sums, row, block, is_last: part + depth == chunk.depth, finished: 0 });
                }
            }
        }
    }
    // SAFETY: the caller vouches for the chunk; the sums of the last two blocks lie in the tiles and in their place.
    unsafe {
        if let Some(mut done) = in_epilogue {
            run_epilogue(chunk, &mut done, BLOCK);
        }
        if let Some(mut done) = pending {
            store_sums(done.sums);
            run_epilogue(chunk, &mut done, BLOCK);
        }
    }
}

/// Finishes the next `count` rows of a block, or as many of them as are left.
#[target_feature(enable = "avx512f")]
unsafe fn run_epilogue(chunk: &Int8Chunk, done: &mut MadeBlock, count: usize) {
    let from = done.finished;
    let to = (from + count).min(chunk.rows - done.row).min(BLOCK);
    if from >= to {
        return;
    }
    done.finished = to;
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        let sums = done.sums.add(from * BLOCK);
        let first_column = done.block * BLOCK;
        let columns: [__m512; 2] =
            std::array::from_fn(|half| _mm512_loadu_ps(chunk.column_scales.add(first_column + half * PANEL)));
        for row in 0..to - from {
            let row_scale = _mm512_set1_ps(*chunk.row_scales.add(done.row + from + row));
            for half in 0..2 {
                let place = sums.add(row * BLOCK + half * PANEL);
                let sum = _mm512_cvtepi32_ps(_mm512_loadu_si512(place.cast()));
                _mm512_storeu_ps(place.cast(), _mm512_mul_ps(sum, _mm512_mul_ps(row_scale, columns[half])));
            }
        }
        let epilogue = BlockEpilogue {
            sums: std::slice::from_raw_parts(sums.cast(), (to - from) * BLOCK),
            rows: to - from,
            bias: std::slice::from_raw_parts(chunk.bias.add(first_column), BLOCK),
            gelu: false,
        };
        (chunk.epilogue)(&epilogue, done.row + from, first_column);
    }
}

// These blocks hand tiles to one another: why they may is said at `tiles!` in `amx_attention`.

/// Two tiles of activations to tiles 4 and 5, two of weights to 6 and 7.
#[inline(always)]
unsafe fn load_operands(a: *const u8, a_half: usize, a_stride: usize, b: *const i8, b_half: usize) {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        asm!(
            "tileloadd tmm6, [{left} + {line}*1]",
            "tileloadd tmm4, [{a0} + {a_stride}*1]",
            "tileloadd tmm7, [{right} + {line}*1]",
            "tileloadd tmm5, [{a1} + {a_stride}*1]",
            left = in(reg) b,
            right = in(reg) b.add(b_half),
            line = in(reg) 64usize,
            a0 = in(reg) a,
            a1 = in(reg) a.add(a_half),
            a_stride = in(reg) a_stride,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, preserves_flags),
        );
    }
}

/// Four products into tiles 0 to 3.
#[inline(always)]
unsafe fn multiply() {
    // SAFETY: tiles only; the compiler uses none (see `amx_attention`).
    unsafe {
        asm!(
            "tdpbusd tmm0, tmm4, tmm6",
            "tdpbusd tmm1, tmm4, tmm7",
            "tdpbusd tmm2, tmm5, tmm6",
            "tdpbusd tmm3, tmm5, tmm7",
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, nomem, preserves_flags),
        );
    }
}

/// Tiles 0 to 3 from two lines or from 32 rows, `below` numbers from the upper tiles to the lower ones.
#[inline(always)]
unsafe fn load_sums(from: *const i32, below: usize, stride: usize) {
    // SAFETY: the caller vouches for the shapes; with a stride of 0 all four tiles begin with the same two lines.
    unsafe {
        asm!(
            "tileloadd tmm0, [{upper} + {stride}*1]",
            "tileloadd tmm1, [{upper} + {stride}*1 + 64]",
            "tileloadd tmm2, [{lower} + {stride}*1]",
            "tileloadd tmm3, [{lower} + {stride}*1 + 64]",
            upper = in(reg) from,
            lower = in(reg) from.add(below),
            stride = in(reg) stride,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, preserves_flags),
        );
    }
}

/// Tiles 0 to 3 to 32 rows of 32.
#[inline(always)]
unsafe fn store_sums(to: *mut i32) {
    // SAFETY: the caller vouches for the workspace.
    unsafe {
        asm!(
            "tilestored [{sums} + {stride}*1], tmm0",
            "tilestored [{sums} + {stride}*1 + 64], tmm1",
            "tilestored [{sums} + {stride}*1 + 2048], tmm2",
            "tilestored [{sums} + {stride}*1 + 2112], tmm3",
            sums = in(reg) to,
            stride = in(reg) SUMS_BYTES,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, preserves_flags),
        );
    }
}
