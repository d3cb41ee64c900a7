//! Vectors of `f32` under one name: AVX-512, AVX2 with FMA, and plain arrays.
//!
//! A kernel is written once over [`Simd`] and compiled once per implementation; everything here is
//! `inline(always)`, so that the intrinsics take on the target features of the kernel that uses them.

/// One width of vector and what kernels do with it.
///
/// # Safety
/// Every method asks that the CPU has the features the implementation names; `load` and `store` ask for
/// `LANES` valid floats behind the pointer.
pub(super) trait Simd {
    /// The vector type.
    type V: Copy;
    /// Floats in a vector; divides 16.
    const LANES: usize;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(from: *const f32) -> Self::V;
    unsafe fn store(to: *mut f32, v: Self::V);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sqrt(a: Self::V) -> Self::V;
    /// `a * b + c`
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `c - a * b`
    unsafe fn fnma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The nearest integer `n` of each lane and `2^n`, for |a| < 126.
    unsafe fn nearest_and_power(a: Self::V) -> (Self::V, Self::V);
    /// The sum of all lanes.
    unsafe fn sum(a: Self::V) -> f32;
}

/// Four floats in an array: what every CPU has (SSE2, NEON) once the compiler vectorizes it.
pub(super) struct Portable;

impl Simd for Portable {
    type V = [f32; 4];
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> [f32; 4] {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> [f32; 4] {
        // SAFETY: the caller vouches for four floats; an unaligned read asks for no alignment.
        unsafe { from.cast::<[f32; 4]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: [f32; 4]) {
        // SAFETY: as for `load`.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn add(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn div(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| a[i] / b[i])
    }
    #[inline(always)]
    unsafe fn max(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn min(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn sqrt(a: [f32; 4]) -> [f32; 4] {
        a.map(f32::sqrt)
    }
    #[inline(always)]
    unsafe fn fma(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        // Not `mul_add`: without FMA in the target it becomes a call into the C library.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn fnma(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| c[i] - a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn nearest_and_power(a: [f32; 4]) -> ([f32; 4], [f32; 4]) {
        // 1.5 * 2^23: adding it leaves the rounded integer in the low bits of the mantissa.
        const MAGIC: f32 = 12_582_912.0;
        let shifted = a.map(|x| x + MAGIC);
        let n = shifted.map(|x| x - MAGIC);
        let power = shifted.map(|x| f32::from_bits(x.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(127) << 23));
        (n, power)
    }
    #[inline(always)]
    unsafe fn sum(a: [f32; 4]) -> f32 {
        a.iter().sum()
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Simd;
    use std::arch::x86_64::*;

    /// Sixteen floats; needs `avx512f`.
    pub(in super::super) struct Avx512;

    /// Eight floats; needs `avx2` and `fma`.
    pub(in super::super) struct Avx2;

    // SAFETY (every block of both implementations): the trait's contract, which each caller meets by being
    // compiled with the features and called only where `is_x86_feature_detected` saw them, and by passing
    // pointers with `LANES` floats behind them; loads and stores are the unaligned kind.
    macro_rules! call {
        ($e:expr) => {
            // SAFETY: the trait's contract, see above.
            unsafe { $e }
        };
    }

    impl Simd for Avx512 {
        type V = __m512;
        const LANES: usize = 16;

        #[inline(always)]
        unsafe fn splat(x: f32) -> __m512 {
            call!(_mm512_set1_ps(x))
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m512 {
            call!(_mm512_loadu_ps(from))
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, v: __m512) {
            call!(_mm512_storeu_ps(to, v))
        }
        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            call!(_mm512_add_ps(a, b))
        }
        #[inline(always)]
        unsafe fn sub(a: __m512, b: __m512) -> __m512 {
            call!(_mm512_sub_ps(a, b))
        }
        #[inline(always)]
        unsafe fn mul(a: __m512, b: __m512) -> __m512 {
            call!(_mm512_mul_ps(a, b))
        }
        #[inline(always)]
        unsafe fn div(a: __m512, b: __m512) -> __m512 {
            call!(_mm512_div_ps(a, b))
        }
        #[inline(always)]
        unsafe fn max(a: __m512, b: __m512) -> __m512 {
            call!(_mm512_max_ps(a, b))
        }
        #[inline(always)]
        unsafe fn min(a: __m512, b: __m512) -> __m512 {
            call!(_mm512_min_ps(a, b))
        }
        #[inline(always)]
        unsafe fn sqrt(a: __m512) -> __m512 {
            call!(_mm512_sqrt_ps(a))
        }
        #[inline(always)]
        unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
            call!(_mm512_fmadd_ps(a, b, c))
        }
        #[inline(always)]
        unsafe fn fnma(a: __m512, b: __m512, c: __m512) -> __m512 {
            call!(_mm512_fnmadd_ps(a, b, c))
        }
        #[inline(always)]
        unsafe fn nearest_and_power(a: __m512) -> (__m512, __m512) {
            call!({
                let n = _mm512_cvtps_epi32(a);
                let biased = _mm512_add_epi32(n, _mm512_set1_epi32(127));
                (_mm512_cvtepi32_ps(n), _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23)))
            })
        }
        #[inline(always)]
        unsafe fn sum(a: __m512) -> f32 {
            call!(_mm512_reduce_add_ps(a))
        }
    }

    impl Simd for Avx2 {
        type V = __m256;
        const LANES: usize = 8;

        #[inline(always)]
        unsafe fn splat(x: f32) -> __m256 {
            call!(_mm256_set1_ps(x))
        }
        #[inline(always)]
        unsafe fn load(from: *const f32) -> __m256 {
            call!(_mm256_loadu_ps(from))
        }
        #[inline(always)]
        unsafe fn store(to: *mut f32, v: __m256) {
            call!(_mm256_storeu_ps(to, v))
        }
        #[inline(always)]
        unsafe fn add(a: __m256, b: __m256) -> __m256 {
            call!(_mm256_add_ps(a, b))
        }
        #[inline(always)]
        unsafe fn sub(a: __m256, b: __m256) -> __m256 {
            call!(_mm256_sub_ps(a, b))
        }
        #[inline(always)]
        unsafe fn mul(a: __m256, b: __m256) -> __m256 {
            call!(_mm256_mul_ps(a, b))
        }
        #[inline(always)]
        unsafe fn div(a: __m256, b: __m256) -> __m256 {
            call!(_mm256_div_ps(a, b))
        }
        #[inline(always)]
        unsafe fn max(a: __m256, b: __m256) -> __m256 {
            call!(_mm256_max_ps(a, b))
        }
        #[inline(always)]
        unsafe fn min(a: __m256, b: __m256) -> __m256 {
            call!(_mm256_min_ps(a, b))
        }
        #[inline(always)]
        unsafe fn sqrt(a: __m256) -> __m256 {
            call!(_mm256_sqrt_ps(a))
        }
        #[inline(always)]
        unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
            call!(_mm256_fmadd_ps(a, b, c))
        }
        #[inline(always)]
        unsafe fn fnma(a: __m256, b: __m256, c: __m256) -> __m256 {
            call!(_mm256_fnmadd_ps(a, b, c))
        }
        #[inline(always)]
        unsafe fn nearest_and_power(a: __m256) -> (__m256, __m256) {
            call!({
                let n = _mm256_cvtps_epi32(a);
                let biased = _mm256_add_epi32(n, _mm256_set1_epi32(127));
                (_mm256_cvtepi32_ps(n), _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23)))
            })
        }
        #[inline(always)]
        unsafe fn sum(a: __m256) -> f32 {
            let mut lanes = [0f32; 8];
            call!(_mm256_storeu_ps(lanes.as_mut_ptr(), a));
            lanes.iter().sum()
        }
    }
}
