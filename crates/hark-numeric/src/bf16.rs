//! bfloat16.

/// The `f32` whose upper half these bits are.
#[inline]
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest bf16, ties to even; a NaN stays one.
#[inline]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_round_to_the_nearest_bf16_with_ties_to_even() {
        for (float, bits) in [
            (1.0, 0x3f80),
            (f32::from_bits(0x3f80_8000), 0x3f80),
            (f32::from_bits(0x3f81_8000), 0x3f82),
            (f32::from_bits(0x3f80_8001), 0x3f81),
            (f32::MAX, 0x7f80),
            (f32::NEG_INFINITY, 0xff80),
            (-0.0, 0x8000),
        ] {
            assert_eq!(f32_to_bf16(float), bits, "{float}");
        }
        assert!(bf16_to_f32(f32_to_bf16(f32::from_bits(0x7f80_0001))).is_nan());
        for bits in 0..=u16::MAX {
            let float = bf16_to_f32(bits);
            assert!(float.is_nan() || f32_to_bf16(float) == bits, "{bits:#06x}");
        }
    }
}
