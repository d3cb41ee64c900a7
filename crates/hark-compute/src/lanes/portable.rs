//! Lanes as plain arrays: the definition of every method, and what machines without vectors of their own run.

use hark_numeric::{f16_to_f32, f32_to_f16};

use super::{LANES, Lanes};

/// Arrays.
pub(crate) struct Portable;

type F = [f32; LANES];

#[inline(always)]
fn map(f: impl FnMut(usize) -> f32) -> F {
    std::array::from_fn(f)
}

fn rounded_bf16(x: f32) -> u16 {
    (x.to_bits().wrapping_add(0x8000) >> 16) as u16
}

// SAFETY (every block): the trait's contract gives the elements behind each pointer; reads and writes are unaligned.
impl Lanes for Portable {
    type F = F;
    type I = [i32; LANES];

    #[inline(always)]
    unsafe fn splat(x: f32) -> F {
        [x; LANES]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> F {
        // SAFETY: see above.
        unsafe { from.cast::<F>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: F) {
        // SAFETY: see above.
        unsafe { to.cast::<F>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> F {
        // SAFETY: see above.
        unsafe { from.cast::<[u16; LANES]>().read_unaligned() }.map(f16_to_f32)
    }
    #[inline(always)]
    unsafe fn store_f16(to: *mut u16, v: F) {
        // SAFETY: see above.
        unsafe { to.cast::<[u16; LANES]>().write_unaligned(v.map(f32_to_f16)) }
    }
    #[inline(always)]
    unsafe fn store_bf16(to: *mut u16, v: F) {
        // SAFETY: see above.
        unsafe { to.cast::<[u16; LANES]>().write_unaligned(v.map(rounded_bf16)) }
    }
    #[inline(always)]
    unsafe fn store_bf16_pairs(to: *mut u16, even: F, odd: F) {
        let pairs: [[u16; 2]; LANES] = std::array::from_fn(|i| [rounded_bf16(even[i]), rounded_bf16(odd[i])]);
        // SAFETY: see above.
        unsafe { to.cast::<[[u16; 2]; LANES]>().write_unaligned(pairs) }
    }
    #[inline(always)]
    unsafe fn load_u8(from: *const u8) -> F {
        // SAFETY: see above.
        unsafe { from.cast::<[u8; LANES]>().read_unaligned() }.map(f32::from)
    }
    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> F {
        // SAFETY: see above.
        unsafe { from.cast::<[i8; LANES]>().read_unaligned() }.map(f32::from)
    }
    #[inline(always)]
    unsafe fn store_i8(to: *mut i8, v: F) {
        // SAFETY: see above.
        unsafe { to.cast::<[i8; LANES]>().write_unaligned(v.map(|x| x.round_ties_even() as i8)) }
    }
    #[inline(always)]
    unsafe fn add(a: F, b: F) -> F {
        map(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: F, b: F) -> F {
        map(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: F, b: F) -> F {
        map(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn div(a: F, b: F) -> F {
        map(|i| a[i] / b[i])
    }
    #[inline(always)]
    unsafe fn max(a: F, b: F) -> F {
        map(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn abs(a: F) -> F {
        a.map(f32::abs)
    }
    #[inline(always)]
    unsafe fn round(a: F) -> F {
        a.map(f32::round_ties_even)
    }
    #[inline(always)]
    unsafe fn fma(a: F, b: F, c: F) -> F {
        // Not `mul_add`: without FMA in the target it becomes a call into the C library.
        map(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn nearest_and_power(a: F) -> (F, F) {
        // 1.5 * 2^23: adding it leaves the rounded integer in the low bits of the mantissa.
        const MAGIC: f32 = 12_582_912.0;
        let shifted = a.map(|x| x + MAGIC);
        let n = shifted.map(|x| x - MAGIC);
        let power = shifted.map(|x| f32::from_bits(x.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(127) << 23));
        (n, power)
    }
    #[inline(always)]
    unsafe fn sum(a: F) -> f32 {
        a.iter().sum()
    }
    #[inline(always)]
    unsafe fn largest(a: F) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, |m, x| if x > m { x } else { m })
    }

    #[inline(always)]
    unsafe fn zero_i() -> [i32; LANES] {
        [0; LANES]
    }
    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> [i32; LANES] {
        // SAFETY: see above.
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
        // SAFETY: see above.
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
    unsafe fn to_float(a: [i32; LANES]) -> F {
        a.map(|x| x as f32)
    }
    #[inline(always)]
    unsafe fn byte<const BYTE: usize>(bytes: [i32; LANES]) -> F {
        bytes.map(|lane| f32::from(lane.to_le_bytes()[BYTE]))
    }
    #[inline(always)]
    unsafe fn byte_plus_128<const BYTE: usize>(bytes: [i32; LANES]) -> F {
        bytes.map(|lane| 128.0 + f32::from(lane.to_le_bytes()[BYTE]))
    }
}
