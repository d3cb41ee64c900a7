//! The 8-bit float with four bits of exponent and three of mantissa: no infinities, 448 at most.

/// The largest number.
pub const E4M3_MAX: f32 = 448.0;
/// The only NaN, beside its negative.
const NAN: u8 = 0x7f;

/// The number of these bits.
pub fn e4m3_to_f32(bits: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
    let size = match (exponent, bits & 7) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa * 2f32.powi(-9),
        _ => (8.0 + mantissa) * 2f32.powi(exponent - 10),
    };
    if bits & 0x80 == 0 { size } else { -size }
}

/// The nearest number, ties to even; what is too large becomes the largest. A NaN stays one.
pub fn f32_to_e4m3(value: f32) -> u8 {
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    if value.is_nan() {
        return sign | NAN;
    }
    let size = value.abs().min(E4M3_MAX);
    // Below 2^-6 numbers are 2^-9 apart.
    let exponent = ((size.to_bits() >> 23) as i32 - 127).max(-6);
    let steps = (size * 2f32.powi(3 - exponent)).round_ties_even() as u32;
    // From 8 steps on the leading one is the exponent's; 16 carry into the next one.
    let bits = match steps {
        0..8 => steps,
        _ => ((exponent + 7) as u32) * 8 + (steps - 8),
    };
    sign | bits as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back() {
        for bits in 0..=u8::MAX {
            let number = e4m3_to_f32(bits);
            match number.is_nan() {
                true => assert_eq!(bits & 0x7f, NAN),
                false => assert_eq!(f32_to_e4m3(number), bits, "{number}"),
            }
        }
        assert_eq!((e4m3_to_f32(0x7e), e4m3_to_f32(0x08), e4m3_to_f32(0x01)), (448.0, 0.015625, 0.001953125));
    }

    #[test]
    fn numbers_between_two_round_to_the_nearest_with_ties_to_even() {
        for low in 0..0x7eu8 {
            let (one, other) = (e4m3_to_f32(low), e4m3_to_f32(low + 1));
            let middle = (one + other) / 2.0;
            assert_eq!(f32_to_e4m3(middle), if low % 2 == 0 { low } else { low + 1 }, "{middle}");
            assert_eq!((f32_to_e4m3(middle * 0.999), f32_to_e4m3(middle * 1.001)), (low, low + 1));
            assert_eq!(f32_to_e4m3(-middle * 1.001), 0x80 | (low + 1));
        }
        for (float, bits) in [(1e9, 0x7e), (f32::NEG_INFINITY, 0xfe), (460.0, 0x7e), (1e-9, 0), (-0.0, 0x80)] {
            assert_eq!(f32_to_e4m3(float), bits, "{float}");
        }
        assert!(e4m3_to_f32(f32_to_e4m3(f32::NAN)).is_nan());
    }
}
