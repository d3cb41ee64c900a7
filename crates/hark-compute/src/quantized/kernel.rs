//! The kernels over a panel of 16 quantized rows, written once over [`Simd16`].
//!
//! **A block** is 32 weights of each of 16 rows. Its bytes come in lines of 64, in which lane `n` has four weights of row
//! `n`, as `vpdpbusd` wants them: line `t < 4` has weights `4t..4t+4` in its low and `16+4t..16+4t+4` in its high half
//! bytes. Fifth bits stand before the lines, 64 for each four weights; two upper bits of 6-bit weights are two lines of their
//! own, four fields to the byte. 8-bit weights are eight lines. Records of scales are described at [`super::header_bytes`].
//!
//! No closures over vectors: a closure is compiled without the target features of the kernel, and its intrinsics become calls.
//!
//! **Cost** of a block and one row of activations on AVX-512: 4 loads, 12 instructions to unpack, 8 products, about 8 for the
//! scales: some 16 cycles for 290 bytes, several times what memory delivers. More rows share the unpacking.

use std::array::from_fn;

use super::{QUANT_BLOCK, SUPER_BLOCK, data_bytes, header_bytes};
use crate::kernels::{DEPTH, PANEL, TILE};
use crate::simd::Simd16;

/// A row of activations: int8 values, and for every 32 a scale, for every 16 the sum of the scaled values.
#[derive(Clone, Copy)]
pub(super) struct RowPointers {
    pub values: *const i8,
    pub scales: *const f32,
    pub sums: *const f32,
}

/// Most rows that a GEMV kernel does at once; there are kernels for 1, 2 and this many.
pub(super) const MAX_GEMV_ROWS: usize = 4;

/// How many bytes ahead weights are prefetched: the processor's own prefetchers stop at the end of a page of 4 KiB.
const PREFETCH: usize = 4096;

/// `out[row][16] = rows · panel` over that many blocks: `(panel, blocks, rows, out, stride of out)`.
pub(super) type GemvFn = unsafe fn(*const u8, usize, &[RowPointers], *mut f32, usize);
/// bf16 tiles of blocks: `(panel, first block, count, out)`, 512 elements to a block.
pub(super) type DequantizeFn = unsafe fn(*const u8, usize, usize, *mut u16);

/// Quantizes a row: `(row, values, scales, sums)`, see [`RowPointers`].
pub(super) type QuantizeRowFn = unsafe fn(&[f32], &mut [i8], &mut [f32], &mut [f32]);

/// The first byte of a block's data and the scales that belong to it.
#[derive(Clone, Copy)]
struct BlockPlace {
    record: *const u8,
    data: *const u8,
    /// Number of the block in its record.
    index: usize,
}

#[inline(always)]
unsafe fn place<const BITS: usize, const TWO: bool, const MINS: bool>(panel: *const u8, block: usize) -> BlockPlace {
    let (header, data) = const { (header_bytes(BITS, TWO, MINS), data_bytes(BITS)) };
    let blocks = if TWO { SUPER_BLOCK / QUANT_BLOCK } else { 1 };
    // SAFETY: the caller vouches that the panel has the block.
    unsafe {
        let record = panel.add(block / blocks * (header + blocks * data));
        BlockPlace { record, data: record.add(header + block % blocks * data), index: block % blocks }
    }
}

/// Calls `$work` with the unpacked lines of a block, 0 to 7, line `t` holding weights `4t..4t+4`.
macro_rules! lines {
    ($L:ty, $bits:ident, $data:expr, |$t:ident, $line:ident| $work:block) => {{
        let data: *const u8 = $data;
        let nibbles = data.add(if $bits == 5 { 64 } else { 0 });
        let fields = nibbles.add(256);
        macro_rules! line {
            ($number:literal, $field:literal) => {{
                const $t: usize = $number;
                let $line = if $bits == 8 {
                    <$L>::load_bytes(data.add($number * 64))
                } else {
                    let bytes = <$L>::load_bytes(nibbles.add($number % 4 * 64));
                    let half = if $number < 4 { <$L>::low_nibbles(bytes) } else { <$L>::high_nibbles(bytes) };
                    match $bits {
                        5 => <$L>::add_fifth_bits(half, data.add($number * 8)),
                        6 => <$L>::add_two_bits::<$field>(half, <$L>::load_bytes(fields.add($number / 4 * 64))),
                        _ => half,
                    }
                };
                $work
            }};
        }
        line!(0, 0);
        line!(1, 1);
        line!(2, 2);
        line!(3, 3);
        line!(4, 0);
        line!(5, 1);
        line!(6, 2);
        line!(7, 3);
    }};
}

#[inline(always)]
pub(super) unsafe fn gemv<L: Simd16, const BITS: usize, const TWO: bool, const MINS: bool, const ROWS: usize>(
    panel: *const u8,
    blocks: usize,
    rows: &[RowPointers],
    out: *mut f32,
    stride: usize,
) {
    let rows: [RowPointers; ROWS] = from_fn(|row| rows[row]);
    // SAFETY: the caller vouches for the CPU, the panel's blocks and the rows' lengths.
    unsafe {
        let zero = L::splat(-((1usize << (BITS - 1)) as f32));
        let mut totals = [L::splat(0.0); ROWS];
        // Within a record of two levels: sums of integer scale times product, and of integer minimum times sum.
        let mut scaled = [L::splat(0.0); ROWS];
        let mut lowest = [L::splat(0.0); ROWS];
        for block in 0..blocks {
            let BlockPlace { record, data, index } = place::<BITS, TWO, MINS>(panel, block);
            for line in (0..data_bytes(BITS)).step_by(64) {
                L::prefetch(data.wrapping_add(PREFETCH + line));
            }
            let x: [*const i32; ROWS] = from_fn(|row| rows[row].values.add(block * QUANT_BLOCK).cast());
            let mut scale = [L::splat(0.0); ROWS];
            for row in 0..ROWS {
                scale[row] = L::splat(*rows[row].scales.add(block));
            }
            // Two halves of 16 weights, which have scales of their own in 6 bits.
            let mut sums = [[L::zero_i(); 2]; ROWS];
            lines!(L, BITS, data, |T, line| {
                for row in 0..ROWS {
                    sums[row][T / 4] = L::dot::<BITS>(sums[row][T / 4], line, x[row].add(T).read_unaligned());
                }
            });
            if BITS == 6 {
                for half in 0..2 {
                    let weight_scale = L::load_i8(record.add(64 + (2 * index + half) * PANEL).cast());
                    for row in 0..ROWS {
                        let offset = L::mul(zero, L::splat(*rows[row].sums.add(2 * block + half)));
                        let sum = L::fma(L::to_float(sums[row][half]), scale[row], offset);
                        scaled[row] = L::fma(weight_scale, sum, scaled[row]);
                    }
                }
            } else {
                let mut sum = [L::splat(0.0); ROWS];
                for row in 0..ROWS {
                    sum[row] = L::add(L::to_float(sums[row][0]), L::to_float(sums[row][1]));
                }
                let inputs = |row: usize| *rows[row].sums.add(2 * block) + *rows[row].sums.add(2 * block + 1);
                if TWO {
                    let weight_scale = L::load_u8(record.add(64 + index * PANEL));
                    let weight_min = L::load_u8(record.add(64 + (8 + index) * PANEL));
                    for row in 0..ROWS {
                        scaled[row] = L::fma(weight_scale, L::mul(sum[row], scale[row]), scaled[row]);
                        lowest[row] = L::fma(weight_min, L::splat(inputs(row)), lowest[row]);
                    }
                } else {
                    let weight_scale = L::load_f16(record.cast());
                    for row in 0..ROWS {
                        if MINS {
                            let weight_min = L::load_f16(record.add(32).cast());
                            totals[row] = L::fma(weight_scale, L::mul(sum[row], scale[row]), totals[row]);
                            totals[row] = L::fma(weight_min, L::splat(inputs(row)), totals[row]);
                        } else {
                            let offset = L::mul(zero, L::splat(inputs(row)));
                            totals[row] = L::fma(weight_scale, L::fma(sum[row], scale[row], offset), totals[row]);
                        }
                    }
                }
            }
            if TWO && index == SUPER_BLOCK / QUANT_BLOCK - 1 {
                let top = if MINS { L::load_f16(record.cast()) } else { L::load(record.cast()) };
                for row in 0..ROWS {
                    totals[row] = L::fma(top, scaled[row], totals[row]);
                    scaled[row] = L::splat(0.0);
                    if MINS {
                        let top_min = L::load_f16(record.add(32).cast());
                        totals[row] = L::sub(totals[row], L::mul(top_min, lowest[row]));
                        lowest[row] = L::splat(0.0);
                    }
                }
            }
        }
        for row in 0..ROWS {
            L::store(out.add(row * stride), totals[row]);
        }
    }
}

/// The scale and the offset of 16 weights from `half * 16` on: a weight is `number * scale + offset`.
#[inline(always)]
unsafe fn scale_and_offset<L: Simd16, const BITS: usize, const TWO: bool, const MINS: bool>(
    place: BlockPlace,
    half: usize,
) -> (L::F, L::F) {
    let BlockPlace { record, index, .. } = place;
    // SAFETY: the caller vouches for the record.
    unsafe {
        let zero = L::splat(-((1usize << (BITS - 1)) as f32));
        match (TWO, MINS) {
            (false, false) => {
                let scale = L::load_f16(record.cast());
                (scale, L::mul(scale, zero))
            }
            (false, true) => (L::load_f16(record.cast()), L::load_f16(record.add(32).cast())),
            (true, true) => {
                let scale = L::mul(L::load_f16(record.cast()), L::load_u8(record.add(64 + index * PANEL)));
                let min = L::load_u8(record.add(64 + (8 + index) * PANEL));
                (scale, L::mul(L::mul(L::load_f16(record.add(32).cast()), min), L::splat(-1.0)))
            }
            (true, false) => {
                let own = L::load_i8(record.add(64 + (2 * index + half) * PANEL).cast());
                let scale = L::mul(L::load(record.cast()), own);
                (scale, L::mul(scale, zero))
            }
        }
    }
}

#[inline(always)]
pub(super) unsafe fn dequantize<L: Simd16, const BITS: usize, const TWO: bool, const MINS: bool>(
    panel: *const u8,
    first: usize,
    count: usize,
    out: *mut u16,
) {
    // SAFETY: the caller vouches for the CPU, the blocks and the room for their tiles.
    unsafe {
        for block in 0..count {
            let tile = out.add(block * TILE);
            let place = place::<BITS, TWO, MINS>(panel, first + block);
            let mut parts = [(L::splat(0.0), L::splat(0.0)); 2];
            for half in 0..2 {
                let (scale, offset) = scale_and_offset::<L, BITS, TWO, MINS>(place, half);
                // Numbers come with 128 added, see `Simd16::byte_plus_128`.
                parts[half] = if BITS < 8 { (scale, L::fma(scale, L::splat(-128.0), offset)) } else { (scale, offset) };
            }
            lines!(L, BITS, place.data, |T, line| {
                let (scale, offset) = parts[T / 4];
                let numbers = if BITS < 8 {
                    let n = (L::byte_plus_128::<0>(line), L::byte_plus_128::<1>(line));
                    [n.0, n.1, L::byte_plus_128::<2>(line), L::byte_plus_128::<3>(line)]
                } else {
                    [L::byte::<0>(line), L::byte::<1>(line), L::byte::<2>(line), L::byte::<3>(line)]
                };
                for pair in 0..2 {
                    let even = L::fma(numbers[2 * pair], scale, offset);
                    let odd = L::fma(numbers[2 * pair + 1], scale, offset);
                    L::store_bf16_pairs(tile.add((2 * T + pair) * DEPTH), even, odd);
                }
            });
        }
    }
}

/// As [`dequantize`], of weights that are bf16 tiles already.
unsafe fn copy_tiles(panel: *const u8, first: usize, count: usize, out: *mut u16) {
    // SAFETY: the caller vouches for the tiles and the room for them.
    unsafe { std::ptr::copy_nonoverlapping(panel.cast::<u16>().add(first * TILE), out, count * TILE) };
}

/// Body of [`QuantizeRowFn`].
#[inline(always)]
pub(super) unsafe fn quantize_row<L: Simd16>(row: &[f32], values: &mut [i8], scales: &mut [f32], sums: &mut [f32]) {
    for (block, numbers) in row.chunks_exact(QUANT_BLOCK).enumerate() {
        // SAFETY: the caller vouches for the CPU and that all parts are as long as the row needs.
        unsafe {
            let halves = [L::load(numbers.as_ptr()), L::load(numbers.as_ptr().add(16))];
            let largest = L::largest(L::max(L::abs(halves[0]), L::abs(halves[1])));
            let scale = largest / 127.0;
            // A block of zeros, or of subnormals whose inverse overflows, is zero.
            let inverse = if largest > 1e-30 { 127.0 / largest } else { 0.0 };
            *scales.get_unchecked_mut(block) = scale;
            for half in 0..2 {
                let rounded = L::round(L::mul(halves[half], L::splat(inverse)));
                L::store_i8(values.as_mut_ptr().add(block * QUANT_BLOCK + half * 16), rounded);
                *sums.get_unchecked_mut(2 * block + half) = L::sum(rounded) * scale;
            }
        }
    }
}

/// Rounds a row, whose length is a multiple of 16, to bf16.
#[inline(always)]
pub(super) unsafe fn to_bf16<L: Simd16>(row: &[f32], out: &mut [u16]) {
    for first in (0..row.len()).step_by(16) {
        // SAFETY: the caller vouches for the CPU and the lengths.
        unsafe { L::store_bf16(out.as_mut_ptr().add(first), L::load(row.as_ptr().add(first))) };
    }
}

/// Compiles the kernels for one implementation of [`Simd16`].
macro_rules! kernel_set {
    ($module:ident, $simd:ty $(, $feature:literal)?) => {
        pub(super) mod $module {
            use super::super::{Format, QuantizedKernels};
            use super::{DequantizeFn, GemvFn, RowPointers};

            pub(in super::super) const KERNELS: QuantizedKernels =
                QuantizedKernels { gemv: gemv_of, dequantize: dequantize_of, quantize_row, to_bf16 };

            $(#[target_feature(enable = $feature)])?
            unsafe fn gemv<const BITS: usize, const TWO: bool, const MINS: bool, const ROWS: usize>(
                panel: *const u8, blocks: usize, rows: &[RowPointers], out: *mut f32, stride: usize,
            ) {
                // SAFETY: the caller vouches for the CPU, the panel and the rows.
                unsafe { super::gemv::<$simd, BITS, TWO, MINS, ROWS>(panel, blocks, rows, out, stride) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn dequantize<const BITS: usize, const TWO: bool, const MINS: bool>(
                panel: *const u8, first: usize, count: usize, out: *mut u16,
            ) {
                // SAFETY: the caller vouches for the CPU, the panel and the room for its tiles.
                unsafe { super::dequantize::<$simd, BITS, TWO, MINS>(panel, first, count, out) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn quantize_row(row: &[f32], values: &mut [i8], scales: &mut [f32], sums: &mut [f32]) {
                // SAFETY: the caller vouches for the CPU and the lengths.
                unsafe { super::quantize_row::<$simd>(row, values, scales, sums) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn to_bf16(row: &[f32], out: &mut [u16]) {
                // SAFETY: the caller vouches for the CPU and the lengths.
                unsafe { super::to_bf16::<$simd>(row, out) }
            }
            fn gemv_of(format: Format, rows: usize) -> Option<GemvFn> {
                macro_rules! by_rows {
                    ($bits:literal, $two:literal, $mins:literal) => {
                        Some(match rows {
                            1 => gemv::<$bits, $two, $mins, 1>,
                            2 => gemv::<$bits, $two, $mins, 2>,
                            _ => gemv::<$bits, $two, $mins, 4>,
                        })
                    };
                }
                match format {
                    Format::Int4 { mins: false } => by_rows!(4, false, false),
                    Format::Int4 { mins: true } => by_rows!(4, false, true),
                    Format::Int5 { mins: false } => by_rows!(5, false, false),
                    Format::Int5 { mins: true } => by_rows!(5, false, true),
                    Format::Int8 => by_rows!(8, false, false),
                    Format::Super4 => by_rows!(4, true, true),
                    Format::Super5 => by_rows!(5, true, true),
                    Format::Super6 => by_rows!(6, true, false),
                    Format::Bf16 => None,
                }
            }
            fn dequantize_of(format: Format) -> DequantizeFn {
                match format {
                    Format::Int4 { mins: false } => dequantize::<4, false, false>,
                    Format::Int4 { mins: true } => dequantize::<4, false, true>,
                    Format::Int5 { mins: false } => dequantize::<5, false, false>,
                    Format::Int5 { mins: true } => dequantize::<5, false, true>,
                    Format::Int8 => dequantize::<8, false, false>,
                    Format::Super4 => dequantize::<4, true, true>,
                    Format::Super5 => dequantize::<5, true, true>,
                    Format::Super6 => dequantize::<6, true, false>,
                    Format::Bf16 => super::copy_tiles,
                }
            }
        }
    };
}

kernel_set!(portable, crate::simd::Portable<16>);
#[cfg(target_arch = "x86_64")]
kernel_set!(avx2, crate::simd::Pair<crate::simd::Avx2>, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
kernel_set!(vnni, crate::simd::Avx512, "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c");
