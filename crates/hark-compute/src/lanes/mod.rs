//! Sixteen lanes under one name: AVX-512 with VNNI, AVX2, and plain arrays.
//!
//! The kernels of language models ([`crate::quantized`], [`crate::decoder`]) interleave 16 rows of a matrix, one in each
//! lane, so they are written once over [`Lanes`] and compiled once for each implementation. Everything here is
//! `inline(always)`: the intrinsics take on the target features of the kernel that uses them.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

/// Lanes of a vector.
pub(crate) const LANES: usize = 16;

/// Sixteen `f32` lanes, sixteen `i32` lanes, and what kernels do with them.
///
/// # Safety
/// Every method asks that the CPU has the features its implementation names. Loads and stores ask that as many elements
/// as the method's name says are behind the pointer; none asks for alignment.
pub(crate) trait Lanes {
    /// Sixteen `f32`.
    type F: Copy;
    /// Sixteen `i32`, or 64 bytes.
    type I: Copy;

    unsafe fn splat(x: f32) -> Self::F;
    unsafe fn load(from: *const f32) -> Self::F;
    unsafe fn store(to: *mut f32, v: Self::F);
    /// Sixteen IEEE halves.
    unsafe fn load_f16(from: *const u16) -> Self::F;
    /// Rounds to IEEE halves.
    unsafe fn store_f16(to: *mut u16, v: Self::F);
    /// Rounds to bf16, ties away from zero.
    unsafe fn store_bf16(to: *mut u16, v: Self::F);
    /// Rounds to bf16 and stores `even[0], odd[0], even[1], odd[1], …`.
    unsafe fn store_bf16_pairs(to: *mut u16, even: Self::F, odd: Self::F);
    /// Sixteen bytes as numbers.
    unsafe fn load_u8(from: *const u8) -> Self::F;
    /// Sixteen signed bytes as numbers.
    unsafe fn load_i8(from: *const i8) -> Self::F;
    /// Rounds to signed bytes; lanes lie within -127 to 127.
    unsafe fn store_i8(to: *mut i8, v: Self::F);
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn sub(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn abs(a: Self::F) -> Self::F;
    /// The nearest whole number, ties to even.
    unsafe fn round(a: Self::F) -> Self::F;
    /// `a * b + c`
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The nearest integer `n` of each lane and `2^n`, for |a| < 126.
    unsafe fn nearest_and_power(a: Self::F) -> (Self::F, Self::F);
    unsafe fn sum(a: Self::F) -> f32;
    unsafe fn largest(a: Self::F) -> f32;

    unsafe fn zero_i() -> Self::I;
    /// 64 bytes.
    unsafe fn load_bytes(from: *const u8) -> Self::I;
    /// The lower four bits of each byte.
    unsafe fn low_nibbles(bytes: Self::I) -> Self::I;
    /// The upper four bits of each byte.
    unsafe fn high_nibbles(bytes: Self::I) -> Self::I;
    /// `nibbles` plus 16 in every byte whose bit is set in the 64 bits at `bits`.
    unsafe fn add_fifth_bits(nibbles: Self::I, bits: *const u8) -> Self::I;
    /// `nibbles` plus 16 times two bits of each byte of `fields`: those at bit `2 * field`.
    unsafe fn add_two_bits<const FIELD: usize>(nibbles: Self::I, fields: Self::I) -> Self::I;
    /// Adds to each lane the dot product of its four unsigned bytes of `BITS` bits with the four signed bytes of `x`,
    /// none of which is -128.
    unsafe fn dot<const BITS: usize>(sums: Self::I, bytes: Self::I, x: i32) -> Self::I;
    unsafe fn to_float(a: Self::I) -> Self::F;
    /// Byte `BYTE` of each lane.
    unsafe fn byte<const BYTE: usize>(bytes: Self::I) -> Self::F;
    /// Byte `BYTE` of each lane, which is below 128, plus 128: an exponent is put before its bits.
    unsafe fn byte_plus_128<const BYTE: usize>(bytes: Self::I) -> Self::F;
}

/// `2^x`; what lies below 2^-125 becomes about that. Relative error under 2e-7.
#[inline(always)]
pub(crate) unsafe fn exp2<L: Lanes>(x: L::F) -> L::F {
    // SAFETY: the caller vouches for the CPU.
    unsafe {
        let low = L::max(x, L::splat(-125.5));
        let (n, power) = L::nearest_and_power(low);
        let f = L::sub(low, n);
        // Taylor series of 2^f around 0, |f| <= 1/2: ln(2)^k / k!.
        let mut p = L::splat(1.540_353e-4);
        for c in [1.333_355_8e-3, 9.618_129e-3, 5.550_411e-2, 2.402_265e-1, std::f32::consts::LN_2, 1.0] {
            p = L::fma(p, f, L::splat(c));
        }
        L::mul(p, power)
    }
}
