//! The encoder's attention on AMX tiles: 32 query rows of one head over all frames.
//!
//! A *pair* is two panels of keys, 32 frames. For every 64 frames there are 16 products of scores and 16 of sums, 16 cycles
//! each, and 64 vectors of exponentials. All three kinds of work stand side by side in the program, so that tiles and
//! vectors work at the same time: while two pairs are scored, the pair before them is exponentiated; while the two
//! pairs before are summed, the first of the new ones is. What was measured about tiles decides the order:
//!
//! - `tilezero` waits until all products before it are done; loading a line of zeros does not.
//! - A tile load waits for the tile stores before it, and a store for its products (52 cycles). So loads come first, and
//!   stores once other products are under way.
//! - Products keep the second unit for float arithmetic busy, but not that for whole numbers: see [`exponentiate`].
//! - Keys and values stream from the second-level cache, so everything else has to stay in the first: scores and weights
//!   of three pairs, and the sums, lie tile by tile in 28 KB.

use std::arch::asm;
use std::arch::x86_64::*;

use super::{BLOCK, HEAD, PANEL, SCORE_SCALE, SelfAttention, TILE};

/// See [`super::SelfAttentionKernel::pairs`]: `vpackssdw` takes four frames from one panel and four from the other by turns.
pub(super) const PAIRS: [usize; 16] = [0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15];

/// Totals of a row's weights that need no second pass. Weights are powers of two, not divided by the highest of their
/// row; as long as the total is far from what bf16 can hold, that changes nothing.
const TOTALS: std::ops::Range<f32> = 1e-18..1e30;

/// Elements of one tile of sums or scores.
const SUMS: usize = 256;

/// What the work of one block needs at hand.
#[repr(C, align(4096))]
struct Workspace {
    /// Scores of three pairs: for 16 rows and 16 more, the tiles of both panels.
    scores: [[f32; 4 * SUMS]; 3],
    /// Weights of three pairs, 32 rows of 32.
    weights: [[u16; BLOCK * 32]; 3],
    /// For both bf16_numbers of the dimensions a block of 2 × 2 tiles.
    sums: [[f32; 4 * SUMS]; 2],
    /// The sums of each row's weights, in 16 lanes.
    totals: [[f32; 16]; BLOCK],
    /// The highest score of each row, where it is needed.
    tops: [f32; BLOCK],
}

/// A line of a tile.
#[repr(C, align(64))]
struct Line([u16; 32]);

static ZEROS: Line = Line([0; 32]);

/// What a weight's mantissa is less than its exponent's fraction, in 128ths: `f - (2^f - 1)`.
#[repr(C, align(64))]
struct MantissaCorrection([u8; 128]);

static MANTISSA_CORRECTION: MantissaCorrection = {
    // 2^(1/128), multiplied up: constant functions have no powers.
    const STEP: f64 = 1.005_429_900_903_173_3;
    let mut correction = [0; 128];
    let (mut power, mut index) = (1.0, 0);
    while index < 128 {
        correction[index] = (index as f64 - (power - 1.0) * 128.0 + 0.5) as u8;
        power *= STEP;
        index += 1;
    }
    MantissaCorrection(correction)
};

/// Constants of the exponentials.
struct Numbers {
    correction: [__m512i; 2],
    /// The bits of bf16's one: exponent 127, mantissa 0.
    one: __m512i,
    zero: __m512i,
}

/// Tile instructions.
///
/// Every block says that it overwrites all tiles, so that the compiler keeps nothing of its own in them across one. That they
/// keep their contents from one block to the next rests on this: no function of this program is compiled with the `amx-tile`
/// feature, without which the compiler has no instruction that touches a tile, and nothing is called in between that does.
macro_rules! tiles {
    ($($line:literal),+ ; $($operand:tt)*) => {
        asm!(
            $($line),+, $($operand)*,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, preserves_flags)
        )
    };
}

/// A product of tiles, which touches no memory.
macro_rules! product {
    ($line:literal) => {
        asm!(
            $line,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, nomem, preserves_flags)
        )
    };
}

/// See [`super::Kernels::self_attention`].
///
/// # Safety
/// The machine has AMX and this thread its tile shapes; the attention describes live memory of the stated shapes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vbmi,avx512bf16")]
pub(super) unsafe fn attend(attention: &SelfAttention) {
    let mut workspace = std::mem::MaybeUninit::<Workspace>::uninit();
    let workspace = workspace.as_mut_ptr();
    // SAFETY: the caller vouches for the shapes; `attend_with` writes what it reads of the workspace.
    unsafe {
        attend_with::<false>(attention, workspace);
        let totals: [f32; BLOCK] = std::array::from_fn(|row| total(workspace, row));
        if !totals[..attention.rows].iter().all(|total| TOTALS.contains(total)) {
            find_tops(attention, workspace);
            attend_with::<true>(attention, workspace);
        }
        for row in 0..attention.rows {
            let factor = _mm512_set1_ps(1.0 / total(workspace, row));
            for half in 0..2 {
                let sums = (&raw const (*workspace).sums[half]).cast::<f32>().add(row / 16 * 2 * SUMS + row % 16 * 16);
                let low = _mm512_mul_ps(_mm512_load_ps(sums), factor);
                let high = _mm512_mul_ps(_mm512_load_ps(sums.add(SUMS)), factor);
                let to = attention.out.add(row * attention.out_stride + half * 32);
                _mm512_storeu_si512(
                    to.cast(),
                    std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low)),
                );
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn total(workspace: *const Workspace, row: usize) -> f32 {
    // SAFETY: the caller has summed the row.
    unsafe { _mm512_reduce_add_ps(_mm512_load_ps((&raw const (*workspace).totals[row]).cast())) }
}

/// The weights of one row over one pair: `2^score`, or `2^(score - top)` if `TOPS`.
///
/// A score is a base-2 exponent in 128ths. As a whole number plus 127 · 128 it has the bits of a bf16 whose exponent is right and
/// whose mantissa is linear between two powers of two; a table correction the mantissa. That is 32 weights at a time and takes
/// hardly any float arithmetic. The error is that of rounding the score to a 128th (0.27 % at most) beside that of bf16 itself.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512bf16")]
unsafe fn exponentiate<const TOPS: bool>(
    numbers: &Numbers,
    workspace: *mut Workspace,
    slot: usize,
    row: usize,
    mask: u32,
) {
    // SAFETY: the caller vouches for the workspace, the slot and the row.
    unsafe {
        let scores =
            (&raw const (*workspace).scores).cast::<f32>().add(slot * 4 * SUMS + row / 16 * 2 * SUMS + row % 16 * 16);
        let [low, high] = [0, SUMS].map(|panel| {
            let scores = _mm512_load_ps(scores.add(panel));
            match TOPS {
                true => _mm512_cvtps_epi32(_mm512_sub_ps(scores, _mm512_set1_ps((*workspace).tops[row]))),
                false => _mm512_cvtps_epi32(scores),
            }
        });
        let linear = _mm512_max_epi16(_mm512_adds_epi16(_mm512_packs_epi32(low, high), numbers.one), numbers.zero);
        // Bytes that hold mantissas are the even ones; the lookup uses their lower seven bits.
        let correction = _mm512_permutex2var_epi8(numbers.correction[0], linear, numbers.correction[1]);
        let weights = _mm512_sub_epi16(linear, _mm512_and_si512(correction, _mm512_set1_epi16(0xff)));
        let weights = if mask == !0 { weights } else { _mm512_maskz_mov_epi16(mask, weights) };
        _mm512_store_si512(
            (&raw mut (*workspace).weights).cast::<u16>().add((slot * BLOCK + row) * 32).cast(),
            weights,
        );
        let total = (&raw mut (*workspace).totals).cast::<f32>().add(row * 16);
        let (weights, ones) =
            (std::mem::transmute::<__m512i, __m512bh>(weights), std::mem::transmute::<__m512i, __m512bh>(numbers.one));
        _mm512_store_ps(total, _mm512_dpbf16_ps(_mm512_load_ps(total), weights, ones));
    }
}

/// The highest score of every row.
#[target_feature(enable = "avx512f")]
unsafe fn find_tops(attention: &SelfAttention, workspace: *mut Workspace) {
    // SAFETY: the caller vouches for the shapes; the workspace holds one pair's scores, here 32 rows of 32.
    unsafe {
        (*workspace).tops = [f32::MIN; BLOCK];
        for frame in (0..attention.frames).step_by(BLOCK) {
            let keys = attention.keys.add(frame * HEAD);
            let scores = (&raw mut (*workspace).scores[0]).cast::<f32>();
            super::amx::block(&super::Block {
                a: attention.query,
                a_stride: attention.query_stride,
                left: keys,
                right: keys.add(PANEL * HEAD),
                c: scores,
                c_stride: BLOCK,
                depth: HEAD / super::DEPTH,
                rows: BLOCK,
                accumulate: false,
            });
            for row in 0..attention.rows {
                for beside in 0..BLOCK.min(attention.frames - frame) {
                    (*workspace).tops[row] = (*workspace).tops[row].max(*scores.add(row * BLOCK + beside));
                }
            }
        }
    }
}

/// All products and exponentials of a block; leaves the workspace's `sums` and `totals`.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512bf16")]
unsafe fn attend_with<const TOPS: bool>(attention: &SelfAttention, workspace: *mut Workspace) {
    // SAFETY: the caller vouches for the shapes. Tiles of scores, weights and sums lie inside the workspace.
    unsafe {
        let numbers = Numbers {
            correction: [
                _mm512_load_si512(MANTISSA_CORRECTION.0.as_ptr().cast()),
                _mm512_load_si512(MANTISSA_CORRECTION.0[64..].as_ptr().cast()),
            ],
            one: _mm512_set1_epi16(127 * 128),
            zero: _mm512_setzero_si512(),
        };
        (*workspace).totals = [[0.0; 16]; BLOCK];
        let (query, query_bytes) = (attention.query, attention.query_stride * 2);
        let (scores, weights) =
            ((&raw mut (*workspace).scores).cast::<f32>(), (&raw mut (*workspace).weights).cast::<u16>());
        let sums = (&raw mut (*workspace).sums).cast::<f32>();
        let padded = attention.frames.next_multiple_of(BLOCK);
        let values = |half: usize, pair: usize| attention.values.add(half * 2 * PANEL * padded + pair * TILE);
        let pairs = padded / BLOCK;
        let last = pairs - 1;
        // Lanes of the last pair's weights that stand for frames.
        let mask = (0..32).fold(0, |mask, lane| {
            let frame = last * BLOCK + PAIRS[lane / 2] * 2 + lane % 2;
            mask | u32::from(frame < attention.frames) << lane
        });
        macro_rules! two_rows {
            ($wanted:expr, $slot:expr, $row:expr) => {
                if $wanted {
                    exponentiate::<TOPS>(&numbers, workspace, $slot, $row, !0);
                    exponentiate::<TOPS>(&numbers, workspace, $slot, $row + 1, !0);
                }
            };
        }
        // The sums of the second half of the dimensions, in tiles 0 to 3.
        macro_rules! store_second_half {
            () => {
                tiles!(
                    "tilestored [{sums} + {line}*1 + 4096], tmm0",
                    "tilestored [{sums} + {line}*1 + 5120], tmm1",
                    "tilestored [{sums} + {line}*1 + 6144], tmm2",
                    "tilestored [{sums} + {line}*1 + 7168], tmm3";
                    sums = in(reg) sums, line = in(reg) 64usize
                )
            };
        }

        let rounds = pairs.div_ceil(2);
        for round in 0..=rounds {
            let first = 2 * round;
            // Pairs to score now, and pairs of the round before, to sum now.
            let scored = pairs.saturating_sub(first).min(2);
            let summed = if round > 0 { (pairs - (first - 2)).min(2) } else { 0 };
            // Every pair has its slot until three pairs later.
            let (slot, second_slot, slot_before) = (first % 3, (first + 1) % 3, (first + 2) % 3);

            let is_before_open = summed == 2 && first - 1 != last;
            let mut pending = scores;
            if scored > 0 {
                tiles!(
                    "tileloadd tmm4, [{upper} + {stride}*1]",
                    "tileloadd tmm5, [{upper} + {stride}*1 + 64]",
                    "tileloadd tmm6, [{lower} + {stride}*1]",
                    "tileloadd tmm7, [{lower} + {stride}*1 + 64]";
                    upper = in(reg) query, lower = in(reg) query.add(16 * attention.query_stride), stride = in(reg) query_bytes
                );
            }
            if round > 1 {
                store_second_half!();
            }
            for panel in 0..2 * scored {
                let keys = attention.keys.add((first * 2 + panel) * PANEL * HEAD);
                let row = panel * 8;
                tiles!("tileloadd tmm2, [{keys} + {line}*1]"; keys = in(reg) keys, line = in(reg) 64usize);
                if panel > 0 {
                    tiles!("tilestored [{to} + {line}*1], tmm0"; to = in(reg) pending, line = in(reg) 64usize);
                }
                tiles!(
                    "tileloadd tmm0, [{zeros} + {none}*1]",
                    "tdpbf16ps tmm0, tmm4, tmm2";
                    zeros = in(reg) ZEROS.0.as_ptr(), none = in(reg) 0usize
                );
                two_rows!(is_before_open, slot_before, row);
                if panel > 0 {
                    tiles!("tilestored [{to} + {line}*1 + 2048], tmm1"; to = in(reg) pending, line = in(reg) 64usize);
                }
                tiles!(
                    "tileloadd tmm1, [{zeros} + {none}*1]",
                    "tdpbf16ps tmm1, tmm6, tmm2",
                    "tileloadd tmm3, [{keys} + {line}*1 + 1024]";
                    zeros = in(reg) ZEROS.0.as_ptr(), none = in(reg) 0usize, keys = in(reg) keys, line = in(reg) 64usize
                );
                two_rows!(is_before_open, slot_before, row + 2);
                product!("tdpbf16ps tmm0, tmm5, tmm3");
                two_rows!(is_before_open, slot_before, row + 4);
                product!("tdpbf16ps tmm1, tmm7, tmm3");
                two_rows!(is_before_open, slot_before, row + 6);
                pending = scores.add(if panel < 2 { slot } else { second_slot } * 4 * SUMS + panel % 2 * SUMS);
            }
            for row in (scored * 16..BLOCK).step_by(2) {
                two_rows!(is_before_open, slot_before, row);
            }
            if summed == 2 && first - 1 == last {
                (0..BLOCK).for_each(|row| exponentiate::<TOPS>(&numbers, workspace, slot_before, row, mask));
            }

            let is_open = scored > 0 && first != last;
            if summed > 0 {
                // The first half of the dimensions, in tiles 4 to 7.
                let (from, stride) = if round > 1 { (sums, 64usize) } else { (ZEROS.0.as_ptr().cast_mut().cast(), 0) };
                let next = if round > 1 { SUMS } else { 0 };
                tiles!(
                    "tileloadd tmm4, [{a} + {stride}*1]",
                    "tileloadd tmm5, [{b} + {stride}*1]",
                    "tileloadd tmm6, [{c} + {stride}*1]",
                    "tileloadd tmm7, [{d} + {stride}*1]";
                    a = in(reg) from, b = in(reg) from.add(next), c = in(reg) from.add(2 * next), d = in(reg) from.add(3 * next),
                    stride = in(reg) stride
                );
                for pair in 0..summed {
                    let left = values(0, first - 2 + pair);
                    let weights = weights.add(if pair == 0 { second_slot } else { slot_before } * BLOCK * 32);
                    let row = pair * 8;
                    tiles!(
                        "tileloadd tmm2, [{weights} + {line}*1]",
                        "tileloadd tmm3, [{left} + {line}*1]";
                        weights = in(reg) weights, left = in(reg) left, line = in(reg) 64usize
                    );
                    if pair == 0 && scored > 0 {
                        tiles!("tilestored [{to} + {line}*1], tmm0"; to = in(reg) pending, line = in(reg) 64usize);
                    }
                    product!("tdpbf16ps tmm4, tmm2, tmm3");
                    two_rows!(is_open, slot, row);
                    if pair == 0 && scored > 0 {
                        tiles!("tilestored [{to} + {line}*1 + 2048], tmm1"; to = in(reg) pending, line = in(reg) 64usize);
                    }
                    tiles!(
                        "tileloadd tmm1, [{right} + {line}*1]",
                        "tdpbf16ps tmm5, tmm2, tmm1";
                        right = in(reg) left.add(PANEL * padded), line = in(reg) 64usize
                    );
                    two_rows!(is_open, slot, row + 2);
                    tiles!(
                        "tileloadd tmm0, [{weights} + {line}*1 + 1024]",
                        "tdpbf16ps tmm6, tmm0, tmm3";
                        weights = in(reg) weights, line = in(reg) 64usize
                    );
                    two_rows!(is_open, slot, row + 4);
                    product!("tdpbf16ps tmm7, tmm0, tmm1");
                    two_rows!(is_open, slot, row + 6);
                }
                // The second half, in tiles 0 to 3; the first half is stored as its tiles are wanted.
                let from = if round > 1 { sums.add(4 * SUMS) } else { from };
                tiles!(
                    "tileloadd tmm0, [{a} + {stride}*1]",
                    "tileloadd tmm1, [{b} + {stride}*1]",
                    "tileloadd tmm2, [{c} + {stride}*1]",
                    "tileloadd tmm3, [{d} + {stride}*1]";
                    a = in(reg) from, b = in(reg) from.add(next), c = in(reg) from.add(2 * next), d = in(reg) from.add(3 * next),
                    stride = in(reg) stride
                );
                for pair in 0..summed {
                    let left = values(1, first - 2 + pair);
                    let weights = weights.add(if pair == 0 { second_slot } else { slot_before } * BLOCK * 32);
                    let row = 16 + pair * 8;
                    if pair == 0 {
                        tiles!("tilestored [{sums} + {line}*1], tmm4"; sums = in(reg) sums, line = in(reg) 64usize);
                    }
                    tiles!("tileloadd tmm4, [{weights} + {line}*1]"; weights = in(reg) weights, line = in(reg) 64usize);
                    if pair == 0 {
                        tiles!("tilestored [{sums} + {line}*1 + 1024], tmm5"; sums = in(reg) sums, line = in(reg) 64usize);
                    }
                    tiles!(
                        "tileloadd tmm5, [{left} + {line}*1]",
                        "tdpbf16ps tmm0, tmm4, tmm5";
                        left = in(reg) left, line = in(reg) 64usize
                    );
                    two_rows!(is_open, slot, row);
                    if pair == 0 {
                        tiles!("tilestored [{sums} + {line}*1 + 2048], tmm6"; sums = in(reg) sums, line = in(reg) 64usize);
                    }
                    tiles!(
                        "tileloadd tmm6, [{right} + {line}*1]",
                        "tdpbf16ps tmm1, tmm4, tmm6";
                        right = in(reg) left.add(PANEL * padded), line = in(reg) 64usize
                    );
                    two_rows!(is_open, slot, row + 2);
                    if pair == 0 {
                        tiles!("tilestored [{sums} + {line}*1 + 3072], tmm7"; sums = in(reg) sums, line = in(reg) 64usize);
                    }
                    tiles!(
                        "tileloadd tmm7, [{weights} + {line}*1 + 1024]",
                        "tdpbf16ps tmm2, tmm7, tmm5";
                        weights = in(reg) weights, line = in(reg) 64usize
                    );
                    two_rows!(is_open, slot, row + 4);
                    product!("tdpbf16ps tmm3, tmm7, tmm6");
                    two_rows!(is_open, slot, row + 6);
                }
            } else {
                tiles!(
                    "tilestored [{to} + {line}*1], tmm0",
                    "tilestored [{to} + {line}*1 + 2048], tmm1";
                    to = in(reg) pending, line = in(reg) 64usize
                );
                for row in (0..BLOCK).step_by(2) {
                    two_rows!(is_open, slot, row);
                }
            }
            if scored > 0 && first == last {
                (0..BLOCK).for_each(|row| exponentiate::<TOPS>(&numbers, workspace, slot, row, mask));
            }
        }
        store_second_half!();
    }
}

const _: () = assert!(SCORE_SCALE == 128.0, "bf16 has seven bits of mantissa");
