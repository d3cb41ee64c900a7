//! Vectors on AVX-512 and AVX2.

use std::arch::x86_64::*;

use super::{Pair, Simd, Simd16, methods};

/// Sixteen floats in a register. [`Simd`] needs AVX-512 F, [`Simd16`] also BW, VL, DQ and VNNI.
pub(crate) struct Avx512;

/// Eight floats in a register. [`Simd`] needs AVX2 and FMA, [`Simd16`] of a [`Pair`] also F16C.
pub(crate) struct Avx2;

impl Simd for Avx512 {
    type F = __m512;
    const LANES: usize = 16;

    methods! {
        splat(x: f32) -> __m512 { _mm512_set1_ps(x) }
        load(from: *const f32) -> __m512 { _mm512_loadu_ps(from) }
        store(to: *mut f32, v: __m512) { _mm512_storeu_ps(to, v) }
        add(a: __m512, b: __m512) -> __m512 { _mm512_add_ps(a, b) }
        sub(a: __m512, b: __m512) -> __m512 { _mm512_sub_ps(a, b) }
        mul(a: __m512, b: __m512) -> __m512 { _mm512_mul_ps(a, b) }
        div(a: __m512, b: __m512) -> __m512 { _mm512_div_ps(a, b) }
        max(a: __m512, b: __m512) -> __m512 { _mm512_max_ps(a, b) }
        min(a: __m512, b: __m512) -> __m512 { _mm512_min_ps(a, b) }
        abs(a: __m512) -> __m512 { _mm512_abs_ps(a) }
        sqrt(a: __m512) -> __m512 { _mm512_sqrt_ps(a) }
        round(a: __m512) -> __m512 { _mm512_roundscale_ps::<0x08>(a) }
        fma(a: __m512, b: __m512, c: __m512) -> __m512 { _mm512_fmadd_ps(a, b, c) }
        fnma(a: __m512, b: __m512, c: __m512) -> __m512 { _mm512_fnmadd_ps(a, b, c) }
        nearest_and_power(a: __m512) -> (__m512, __m512) {
            let n = _mm512_cvtps_epi32(a);
            let biased = _mm512_add_epi32(n, _mm512_set1_epi32(127));
            (_mm512_cvtepi32_ps(n), _mm512_castsi512_ps(_mm512_slli_epi32::<23>(biased)))
        }
        sum(a: __m512) -> f32 { _mm512_reduce_add_ps(a) }
        largest(a: __m512) -> f32 { _mm512_reduce_max_ps(a) }
    }
}

impl Simd16 for Avx512 {
    type I = __m512i;

    methods! {
        prefetch(address: *const u8) { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
        load_f16(from: *const u16) -> __m512 { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
        store_f16(to: *mut u16, v: __m512) { _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v)) }
        store_bf16(to: *mut u16, v: __m512) {
            let rounded = _mm512_add_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(0x8000));
            _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded)));
        }
        store_bf16_pairs(to: *mut u16, even: __m512, odd: __m512) {
            let half = _mm512_set1_epi32(0x8000);
            let even = _mm512_srli_epi32::<16>(_mm512_add_epi32(_mm512_castps_si512(even), half));
            let odd = _mm512_add_epi32(_mm512_castps_si512(odd), half);
            // even | (odd & upper half)
            let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
            _mm512_storeu_si512(to.cast(), _mm512_ternarylogic_epi32::<0xf8>(even, odd, upper));
        }
        load_u8(from: *const u8) -> __m512 { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))) }
        load_i8(from: *const i8) -> __m512 { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))) }
        store_i8(to: *mut i8, v: __m512) { _mm_storeu_si128(to.cast(), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v))) }
        zero_i() -> __m512i { _mm512_setzero_si512() }
        load_bytes(from: *const u8) -> __m512i { _mm512_loadu_si512(from.cast()) }
        low_nibbles(bytes: __m512i) -> __m512i { _mm512_and_si512(bytes, _mm512_set1_epi8(0x0f)) }
        high_nibbles(bytes: __m512i) -> __m512i { _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), _mm512_set1_epi8(0x0f)) }
        add_fifth_bits(nibbles: __m512i, bits: *const u8) -> __m512i {
            let mask = bits.cast::<u64>().read_unaligned();
            _mm512_mask_add_epi8(nibbles, mask, nibbles, _mm512_set1_epi8(16))
        }
        add_two_bits<const FIELD: usize>(nibbles: __m512i, fields: __m512i) -> __m512i {
            let shifted = match FIELD {
                0 => _mm512_slli_epi16::<4>(fields),
                1 => _mm512_slli_epi16::<2>(fields),
                2 => fields,
                _ => _mm512_srli_epi16::<2>(fields),
            };
            // nibbles | (shifted & 0x30)
            _mm512_ternarylogic_epi32::<0xf8>(nibbles, shifted, _mm512_set1_epi8(0x30))
        }
        dot<const BITS: usize>(sums: __m512i, bytes: __m512i, x: i32) -> __m512i {
            _mm512_dpbusd_epi32(sums, bytes, _mm512_set1_epi32(x))
        }
        to_float(a: __m512i) -> __m512 { _mm512_cvtepi32_ps(a) }
        byte<const BYTE: usize>(bytes: __m512i) -> __m512 {
            let shifted = match BYTE {
                0 => bytes,
                1 => _mm512_srli_epi32::<8>(bytes),
                2 => _mm512_srli_epi32::<16>(bytes),
                _ => _mm512_srli_epi32::<24>(bytes),
            };
            _mm512_cvtepi32_ps(_mm512_and_si512(shifted, _mm512_set1_epi32(0xff)))
        }
        byte_plus_128<const BYTE: usize>(bytes: __m512i) -> __m512 {
            let third = match BYTE {
                0 => _mm512_slli_epi32::<16>(bytes),
                1 => _mm512_slli_epi32::<8>(bytes),
                2 => bytes,
                _ => _mm512_srli_epi32::<8>(bytes),
            };
            // (third & mask) | the exponent of 128
            let (mask, exponent) = (_mm512_set1_epi32(0x00ff_0000), _mm512_set1_epi32(0x4300_0000));
            _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0xea>(third, mask, exponent))
        }
    }
}

impl Simd for Avx2 {
    type F = __m256;
    const LANES: usize = 8;

    methods! {
        splat(x: f32) -> __m256 { _mm256_set1_ps(x) }
        load(from: *const f32) -> __m256 { _mm256_loadu_ps(from) }
        store(to: *mut f32, v: __m256) { _mm256_storeu_ps(to, v) }
        add(a: __m256, b: __m256) -> __m256 { _mm256_add_ps(a, b) }
        sub(a: __m256, b: __m256) -> __m256 { _mm256_sub_ps(a, b) }
        mul(a: __m256, b: __m256) -> __m256 { _mm256_mul_ps(a, b) }
        div(a: __m256, b: __m256) -> __m256 { _mm256_div_ps(a, b) }
        max(a: __m256, b: __m256) -> __m256 { _mm256_max_ps(a, b) }
        min(a: __m256, b: __m256) -> __m256 { _mm256_min_ps(a, b) }
        abs(a: __m256) -> __m256 { _mm256_andnot_ps(_mm256_set1_ps(-0.0), a) }
        sqrt(a: __m256) -> __m256 { _mm256_sqrt_ps(a) }
        round(a: __m256) -> __m256 { _mm256_round_ps::<0x08>(a) }
        fma(a: __m256, b: __m256, c: __m256) -> __m256 { _mm256_fmadd_ps(a, b, c) }
        fnma(a: __m256, b: __m256, c: __m256) -> __m256 { _mm256_fnmadd_ps(a, b, c) }
        nearest_and_power(a: __m256) -> (__m256, __m256) {
            let n = _mm256_cvtps_epi32(a);
            let biased = _mm256_add_epi32(n, _mm256_set1_epi32(127));
            (_mm256_cvtepi32_ps(n), _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased)))
        }
        sum(a: __m256) -> f32 {
            let mut lanes = [0f32; 8];
            _mm256_storeu_ps(lanes.as_mut_ptr(), a);
            lanes.iter().sum()
        }
        largest(a: __m256) -> f32 {
            let mut lanes = [0f32; 8];
            _mm256_storeu_ps(lanes.as_mut_ptr(), a);
            lanes.into_iter().fold(f32::NEG_INFINITY, |m, x| if x > m { x } else { m })
        }
    }
}

// What a method of a pair does to one of its vectors. Not closures: those are compiled without the features of the kernel.
methods! {
    load_f16(from: *const u16) -> __m256 { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    load_u8(from: *const u8) -> __m256 { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()))) }
    load_i8(from: *const i8) -> __m256 { _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()))) }
    half_up(v: __m256) -> __m256i { _mm256_add_epi32(_mm256_castps_si256(v), _mm256_set1_epi32(0x8000)) }
    products(bytes: __m256i, x: __m256i) -> __m256i {
        _mm256_madd_epi16(_mm256_maddubs_epi16(bytes, x), _mm256_set1_epi16(1))
    }
}

impl Simd16 for Pair<Avx2> {
    type I = [__m256i; 2];

    methods! {
        prefetch(address: *const u8) { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
        load_f16(from: *const u16) -> [__m256; 2] { [load_f16(from), load_f16(from.add(8))] }
        store_f16(to: *mut u16, v: [__m256; 2]) {
            _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v[0]));
            _mm_storeu_si128(to.add(8).cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v[1]));
        }
        store_bf16(to: *mut u16, v: [__m256; 2]) {
            let (low, high) = (_mm256_srli_epi32::<16>(half_up(v[0])), _mm256_srli_epi32::<16>(half_up(v[1])));
            let packed = _mm256_packus_epi32(low, high);
            _mm256_storeu_si256(to.cast(), _mm256_permute4x64_epi64::<0b11_01_10_00>(packed));
        }
        store_bf16_pairs(to: *mut u16, even: [__m256; 2], odd: [__m256; 2]) {
            for half in 0..2 {
                let upper = _mm256_set1_epi32(0xffff_0000_u32 as i32);
                let even = _mm256_srli_epi32::<16>(half_up(even[half]));
                let both = _mm256_or_si256(even, _mm256_and_si256(half_up(odd[half]), upper));
                _mm256_storeu_si256(to.add(16 * half).cast(), both);
            }
        }
        load_u8(from: *const u8) -> [__m256; 2] { [load_u8(from), load_u8(from.add(8))] }
        load_i8(from: *const i8) -> [__m256; 2] { [load_i8(from), load_i8(from.add(8))] }
        store_i8(to: *mut i8, v: [__m256; 2]) {
            let words = _mm256_packs_epi32(_mm256_cvtps_epi32(v[0]), _mm256_cvtps_epi32(v[1]));
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(words);
            let bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(to.cast(), bytes);
        }
        zero_i() -> [__m256i; 2] { [_mm256_setzero_si256(); 2] }
        load_bytes(from: *const u8) -> [__m256i; 2] { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())] }
        low_nibbles(bytes: [__m256i; 2]) -> [__m256i; 2] {
            let mask = _mm256_set1_epi8(0x0f);
            [_mm256_and_si256(bytes[0], mask), _mm256_and_si256(bytes[1], mask)]
        }
        high_nibbles(bytes: [__m256i; 2]) -> [__m256i; 2] {
            Self::low_nibbles([_mm256_srli_epi16::<4>(bytes[0]), _mm256_srli_epi16::<4>(bytes[1])])
        }
        add_fifth_bits(nibbles: [__m256i; 2], bits: *const u8) -> [__m256i; 2] {
            // Each byte takes a copy of the byte that has its bit, then its bit alone.
            let copies = _mm256_setr_epi8(
                0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3,
            );
            let own = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
            let mut out = nibbles;
            for half in 0..2 {
                let bytes = _mm256_set1_epi32(bits.add(4 * half).cast::<i32>().read_unaligned());
                let bit = _mm256_and_si256(_mm256_shuffle_epi8(bytes, copies), own);
                let sixteens = _mm256_and_si256(_mm256_cmpeq_epi8(bit, own), _mm256_set1_epi8(16));
                out[half] = _mm256_or_si256(nibbles[half], sixteens);
            }
            out
        }
        add_two_bits<const FIELD: usize>(nibbles: [__m256i; 2], fields: [__m256i; 2]) -> [__m256i; 2] {
            let mut out = nibbles;
            for half in 0..2 {
                let shifted = match FIELD {
                    0 => _mm256_slli_epi16::<4>(fields[half]),
                    1 => _mm256_slli_epi16::<2>(fields[half]),
                    2 => fields[half],
                    _ => _mm256_srli_epi16::<2>(fields[half]),
                };
                out[half] = _mm256_or_si256(nibbles[half], _mm256_and_si256(shifted, _mm256_set1_epi8(0x30)));
            }
            out
        }
        dot<const BITS: usize>(sums: [__m256i; 2], bytes: [__m256i; 2], x: i32) -> [__m256i; 2] {
            let x = _mm256_set1_epi32(x);
            let mut out = sums;
            if BITS < 8 {
                out[0] = _mm256_add_epi32(out[0], products(bytes[0], x));
                out[1] = _mm256_add_epi32(out[1], products(bytes[1], x));
                return out;
            }
            // Eight bits would saturate the sums of pairs: half bytes do not.
            let (low, high) = (Self::low_nibbles(bytes), Self::high_nibbles(bytes));
            for half in 0..2 {
                let sixteens = _mm256_slli_epi32::<4>(products(high[half], x));
                out[half] = _mm256_add_epi32(out[half], _mm256_add_epi32(products(low[half], x), sixteens));
            }
            out
        }
        to_float(a: [__m256i; 2]) -> [__m256; 2] { [_mm256_cvtepi32_ps(a[0]), _mm256_cvtepi32_ps(a[1])] }
        byte<const BYTE: usize>(bytes: [__m256i; 2]) -> [__m256; 2] {
            let mut out = [_mm256_setzero_ps(); 2];
            for half in 0..2 {
                let shifted = match BYTE {
                    0 => bytes[half],
                    1 => _mm256_srli_epi32::<8>(bytes[half]),
                    2 => _mm256_srli_epi32::<16>(bytes[half]),
                    _ => _mm256_srli_epi32::<24>(bytes[half]),
                };
                out[half] = _mm256_cvtepi32_ps(_mm256_and_si256(shifted, _mm256_set1_epi32(0xff)));
            }
            out
        }
        byte_plus_128<const BYTE: usize>(bytes: [__m256i; 2]) -> [__m256; 2] {
            let mut out = [_mm256_setzero_ps(); 2];
            for half in 0..2 {
                let third = match BYTE {
                    0 => _mm256_slli_epi32::<16>(bytes[half]),
                    1 => _mm256_slli_epi32::<8>(bytes[half]),
                    2 => bytes[half],
                    _ => _mm256_srli_epi32::<8>(bytes[half]),
                };
                let masked = _mm256_and_si256(third, _mm256_set1_epi32(0x00ff_0000));
                out[half] = _mm256_castsi256_ps(_mm256_or_si256(masked, _mm256_set1_epi32(0x4300_0000)));
            }
            out
        }
    }
}
