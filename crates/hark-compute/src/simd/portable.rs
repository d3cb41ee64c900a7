//! Vectors as plain arrays: the definition of every method, and what machines without vectors of their own run.

use hark_numeric::{f16_to_f32, f32_to_f16};

use super::{LANES, Simd, Simd16};

/// `N` floats in an array: what every CPU has (SSE2, NEON) once the compiler vectorizes it.
pub(crate) struct Portable<const N: usize>;

fn rounded_bf16(x: f32) -> u16 {
    (x.to_bits().wrapping_add(0x8000) >> 16) as u16
}

impl<const N: usize> Simd for Portable<N> {
    type F = [f32; N];
    const LANES: usize = N;

    #[inline(always)]
    unsafe fn splat(x: f32) -> [f32; N] {
        [x; N]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> [f32; N] {
        // SAFETY: the caller vouches for `N` floats; the read is unaligned.
        unsafe { from.cast::<[f32; N]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: [f32; N]) {
        // SAFETY: the caller vouches for `N` floats; the write is unaligned.
        unsafe { to.cast::<[f32; N]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn add(a: [f32; N], b: [f32; N]) -> [f32; N] {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: [f32; N], b: [f32; N]) -> [f32; N] {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: [f32; N], b: [f32; N]) -> [f32; N] {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn div(a: [f32; N], b: [f32; N]) -> [f32; N] {
        std::array::from_fn(|i| a[i] / b[i])
    }
    #[inline(always)]
    unsafe fn max(a: [f32; N], b: [f32; N]) -> [f32; N] {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn min(a: [f32; N], b: [f32; N]) -> [f32; N] {
        std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn abs(a: [f32; N]) -> [f32; N] {
        a.map(f32::abs)
    }
    #[inline(always)]
    unsafe fn sqrt(a: [f32; N]) -> [f32; N] {
        a.map(f32::sqrt)
    }
    #[inline(always)]
    unsafe fn round(a: [f32; N]) -> [f32; N] {
        a.map(f32::round_ties_even)
    }
    #[inline(always)]
    unsafe fn fma(a: [f32; N], b: [f32; N], c: [f32; N]) -> [f32; N] {
        // Not `mul_add`: without FMA in the target it becomes a call into the C library.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn fnma(a: [f32; N], b: [f32; N], c: [f32; N]) -> [f32; N] {
        std::array::from_fn(|i| c[i] - a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn nearest_and_power(a: [f32; N]) -> ([f32; N], [f32; N]) {
        // 1.5 * 2^23: adding it leaves the rounded integer in the low bits of the mantissa.
        const MAGIC: f32 = 12_582_912.0;
        let shifted = a.map(|x| x + MAGIC);
        let n = shifted.map(|x| x - MAGIC);
        let power = shifted.map(|x| f32::from_bits(x.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(127) << 23));
        (n, power)
    }
    #[inline(always)]
    unsafe fn sum(a: [f32; N]) -> f32 {
        a.iter().sum()
    }
    #[inline(always)]
    unsafe fn largest(a: [f32; N]) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, |m, x| if x > m { x } else { m })
    }
}

impl Simd16 for Portable<LANES> {
    type I = [i32; LANES];

    #[inline(always)]
    unsafe fn prefetch(_: *const u8) {}
    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> [f32; LANES] {
        // SAFETY: the caller vouches for 16 halves; the read is unaligned.
        unsafe { from.cast::<[u16; LANES]>().read_unaligned() }.map(f16_to_f32)
    }
    #[inline(always)]
    unsafe fn store_f16(to: *mut u16, v: [f32; LANES]) {
        // SAFETY: the caller vouches for 16 halves; the write is unaligned.
        unsafe { to.cast::<[u16; LANES]>().write_unaligned(v.map(f32_to_f16)) }
    }
    #[inline(always)]
    unsafe fn store_bf16(to: *mut u16, v: [f32; LANES]) {
        // SAFETY: the caller vouches for 16 halves; the write is unaligned.
        unsafe { to.cast::<[u16; LANES]>().write_unaligned(v.map(rounded_bf16)) }
    }
    #[inline(always)]
    unsafe fn store_bf16_pairs(to: *mut u16, even: [f32; LANES], odd: [f32; LANES]) {
        let pairs: [[u16; 2]; LANES] = std::array::from_fn(|i| [rounded_bf16(even[i]), rounded_bf16(odd[i])]);
        // SAFETY: the caller vouches for 32 halves; the write is unaligned.
        unsafe { to.cast::<[[u16; 2]; LANES]>().write_unaligned(pairs) }
    }
    #[inline(always)]
    unsafe fn load_u8(from: *const u8) -> [f32; LANES] {
        // SAFETY: the caller vouches for 16 bytes; the read is unaligned.
        unsafe { from.cast::<[u8; LANES]>().read_unaligned() }.map(f32::from)
    }
    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> [f32; LANES] {
        // SAFETY: the caller vouches for 16 bytes; the read is unaligned.
        unsafe { from.cast::<[i8; LANES]>().read_unaligned() }.map(f32::from)
    }
    #[inline(always)]
    unsafe fn store_i8(to: *mut i8, v: [f32; LANES]) {
        // SAFETY: the caller vouches for 16 bytes; the write is unaligned.
        unsafe { to.cast::<[i8; LANES]>().write_unaligned(v.map(|x| x.round_ties_even() as i8)) }
    }

    #[inline(always)]
    unsafe fn zero_i() -> [i32; LANES] {
        [0; LANES]
    }
    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> [i32; LANES] {
        // SAFETY: the caller vouches for 64 bytes; the read is unaligned.
        unsafe { from.cast::<[[u8; 4]; LANES]>().read_unaligned() }.map(i32::from_le_bytes)
    }
    #[inline(always)]
    unsafe fn low_nibbles(bytes: [i32; LANES]) -> [i32; LANES] {
        bytes.map(|lane| lane & 0x0f0f_0f0f)
    }
    #[inline(always)]
    unsafe fn high_nibbles(bytes: [i32; LANES]) -> [i32; LANES] {
        bytes.map(|lane| (lane >> 4) & 0x0f0f_0f0f)
    }
    #[inline(always)]
    unsafe fn add_fifth_bits(nibbles: [i32; LANES], bits: *const u8) -> [i32; LANES] {
        // SAFETY: the caller vouches for 8 bytes; the read is unaligned.
        let bits = u64::from_le_bytes(unsafe { bits.cast::<[u8; 8]>().read_unaligned() });
        std::array::from_fn(|lane| {
            let four = bits >> (4 * lane);
            let spread = (0..4).fold(0, |all, byte| all | (((four >> byte) & 1) as i32) << (8 * byte + 4));
            nibbles[lane] | spread
        })
    }
    #[inline(always)]
    unsafe fn add_two_bits<const FIELD: usize>(nibbles: [i32; LANES], fields: [i32; LANES]) -> [i32; LANES] {
        std::array::from_fn(|lane| nibbles[lane] | ((fields[lane] >> (2 * FIELD)) & 0x0303_0303) << 4)
    }
    #[inline(always)]
    unsafe fn dot<const BITS: usize>(sums: [i32; LANES], bytes: [i32; LANES], x: i32) -> [i32; LANES] {
        let x = x.to_le_bytes().map(|byte| i32::from(byte as i8));
        std::array::from_fn(|lane| {
            let w = bytes[lane].to_le_bytes().map(i32::from);
            sums[lane] + w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3]
        })
    }
    #[inline(always)]
    unsafe fn to_float(a: [i32; LANES]) -> [f32; LANES] {
        a.map(|x| x as f32)
    }
    #[inline(always)]
    unsafe fn byte<const BYTE: usize>(bytes: [i32; LANES]) -> [f32; LANES] {
        bytes.map(|lane| f32::from(lane.to_le_bytes()[BYTE]))
    }
    #[inline(always)]
    unsafe fn byte_plus_128<const BYTE: usize>(bytes: [i32; LANES]) -> [f32; LANES] {
        bytes.map(|lane| 128.0 + f32::from(lane.to_le_bytes()[BYTE]))
    }
}
