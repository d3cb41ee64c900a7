//! Vectors under one name: AVX-512, AVX2 and plain arrays.
//!
//! A kernel is written once over a trait and compiled once for each implementation. [`Simd`] has vectors of floats of any width:
//! kernels over long rows use whole registers ([`Avx512`] 16 lanes, [`Avx2`] 8, [`Portable<4>`] 4), which leaves the choice of
//! how many of them make a tile to the kernel. [`Simd16`] adds conversions and int8 products, always in 16 lanes: matrices
//! of quantized weights interleave 16 rows, one to a lane, whatever the machine, so narrower registers come in a [`Pair`].
//!
//! | kernels | trait | AVX-512 | AVX2 | other machines |
//! |---|---|---|---|---|
//! | `vector` | `Simd` | `Avx512` | `Avx2` | `Portable<4>` |
//! | `quantized`, `row_ops`, `attention::paged` | `Simd16` | `Avx512` with VNNI | `Pair<Avx2>` | `Portable<16>` |
//!
//! Everything here is `inline(always)`: intrinsics take on the target features of the kernel that uses them. A closure does not,
//! so kernels pass no vectors through closures.

mod pair;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
pub(crate) use pair::Pair;
pub(crate) use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

/// Lanes of every implementation of [`Simd16`].
pub(crate) const LANES: usize = 16;

/// Vectors of `f32` and what kernels do with them.
///
/// # Safety
/// Every method asks that the CPU has the features its implementation names. `load` and `store` ask for `LANES` floats behind
/// the pointer, at any alignment.
pub(crate) trait Simd {
    /// A vector of floats.
    type F: Copy;
    /// Floats in a vector; divides 16.
    const LANES: usize;

    unsafe fn splat(x: f32) -> Self::F;
    unsafe fn load(from: *const f32) -> Self::F;
    unsafe fn store(to: *mut f32, v: Self::F);
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn sub(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F;
    /// `b` where either is NaN.
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F;
    /// `b` where either is NaN.
    unsafe fn min(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn abs(a: Self::F) -> Self::F;
    unsafe fn sqrt(a: Self::F) -> Self::F;
    /// The nearest whole number, ties to even.
    unsafe fn round(a: Self::F) -> Self::F;
    /// `a * b + c`
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `c - a * b`
    unsafe fn fnma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The nearest integer `n` of each lane and `2^n`, for |a| < 126.
    unsafe fn nearest_and_power(a: Self::F) -> (Self::F, Self::F);
    /// The sum of all lanes.
    unsafe fn sum(a: Self::F) -> f32;
    /// The largest lane.
    unsafe fn largest(a: Self::F) -> f32;
}

/// Sixteen lanes: [`Simd`], conversions of other number formats, and sixteen `i32` or 64 bytes for int8 products.
///
/// # Safety
/// As [`Simd`]; loads and stores ask that as many elements as their description says are behind the pointer, at any alignment.
pub(crate) trait Simd16: Simd {
    /// Sixteen `i32`, or 64 bytes.
    type I: Copy;

    /// Begins to load the cache line that holds this byte; nothing is read, so any address will do.
    unsafe fn prefetch(address: *const u8);
    /// Sixteen IEEE halves.
    unsafe fn load_f16(from: *const u16) -> Self::F;
    /// Rounds to sixteen IEEE halves.
    unsafe fn store_f16(to: *mut u16, v: Self::F);
    /// Rounds to sixteen bf16, ties away from zero.
    unsafe fn store_bf16(to: *mut u16, v: Self::F);
    /// Rounds to 32 bf16 and stores `even[0], odd[0], even[1], odd[1], …`.
    unsafe fn store_bf16_pairs(to: *mut u16, even: Self::F, odd: Self::F);
    /// Sixteen bytes as numbers.
    unsafe fn load_u8(from: *const u8) -> Self::F;
    /// Sixteen signed bytes as numbers.
    unsafe fn load_i8(from: *const i8) -> Self::F;
    /// Rounds to sixteen signed bytes; lanes lie within -127 to 127.
    unsafe fn store_i8(to: *mut i8, v: Self::F);

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

/// Methods of an implementation, each an expression over intrinsics or over another implementation.
///
/// One reason holds for the unsafe block of each: the trait's contract is the contract of the expression. The caller has the
/// features and passes pointers with as many elements as the method reads or writes; loads and stores are the unaligned kind.
macro_rules! methods {
    ($($name:ident $(<const $parameter:ident: usize>)? ($($argument:ident: $type:ty),*) $(-> $result:ty)? { $($body:tt)* })+) => {
        $(#[inline(always)]
        unsafe fn $name $(<const $parameter: usize>)? ($($argument: $type),*) $(-> $result)? {
            // SAFETY: the contract of the trait, see the macro.
            unsafe { $($body)* }
        })+
    };
}
use methods;

/// `2^x`; what lies below 2^-125 becomes about that. Relative error under 2e-7.
///
/// # Safety
/// The CPU has the features of the implementation.
#[inline(always)]
pub(crate) unsafe fn exp2<S: Simd>(x: S::F) -> S::F {
    // SAFETY: arithmetic on the CPU that the caller vouches for; the exponent lies within what `nearest_and_power` takes.
    unsafe {
        let low = S::max(x, S::splat(-125.5));
        let (n, power) = S::nearest_and_power(low);
        let f = S::sub(low, n);
        // Taylor series of 2^f around 0, |f| <= 1/2: ln(2)^k / k!.
        let mut p = S::splat(1.540_353e-4);
        for c in [1.333_355_8e-3, 9.618_129e-3, 5.550_411e-2, 2.402_265e-1, std::f32::consts::LN_2, 1.0] {
            p = S::fma(p, f, S::splat(c));
        }
        S::mul(p, power)
    }
}
