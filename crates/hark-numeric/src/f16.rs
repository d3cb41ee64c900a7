//! IEEE half precision.

/// An IEEE half as `f32`, exact; without branches, so that loops over it vectorize.
#[inline(always)]
pub fn f16_to_f32(half: u16) -> f32 {
    let magnitude = u32::from(half & 0x7fff) << 13;
    let sign = u32::from(half & 0x8000) << 16;
    // Shifting the exponent's bias from 15 to 127 is a multiplication by 2^112, exact for subnormals too.
    let finite = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let infinite_or_nan = 0x7f80_0000 | (magnitude & 0x007f_ffff);
    f32::from_bits(if magnitude >= 0x0f80_0000 { infinite_or_nan } else { finite } | sign)
}

/// The nearest IEEE half, ties to even; too large becomes infinite.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00;
    }
    if magnitude >= 0x477f_f000 {
        // 65520 and above round to infinity.
        return sign | 0x7c00;
    }
    if magnitude < 0x3880_0000 {
        // Subnormal: adding 0.5 leaves the multiple of 2^-24 in the low bits, rounded by the addition itself.
        let shifted = f32::from_bits(magnitude) + 0.5;
        return sign | (shifted.to_bits() - 0.5f32.to_bits()) as u16;
    }
    let rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    sign | ((rounded - 0x3800_0000) >> 13) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_become_the_floats_they_stand_for() {
        for (half, float) in [
            (0x0000, 0.0),
            (0x8000, -0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x3555, 0.333_251_95),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ] {
            assert_eq!(f16_to_f32(half).to_bits(), f32::to_bits(float), "{half:#06x}");
        }
        assert!(f16_to_f32(0x7e01).is_nan());
    }

    #[test]
    fn every_half_survives_the_way_to_float_and_back() {
        for bits in 0..=u16::MAX {
            let float = f16_to_f32(bits);
            assert!(float.is_nan() || f32_to_f16(float) == bits, "{bits:#06x}");
        }
        assert_eq!(f32_to_f16(65_519.0), 0x7bff);
        assert_eq!(f32_to_f16(65_520.0), 0x7c00);
        assert_eq!(f32_to_f16(1.0 + 1.0 / 2048.0), 0x3c00, "ties to even");
        assert_eq!(f32_to_f16(1.0 + 3.0 / 2048.0), 0x3c02, "ties to even");
        assert_eq!(f32_to_f16(f32::from_bits(0x3300_0000)), 0, "half of the smallest, ties to even");
        assert_eq!(f32_to_f16(f32::from_bits(0x3300_0001)), 1);
    }
}
