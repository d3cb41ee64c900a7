//! ggml's quantized blocks: their bytes as integers and scales, for kernels that multiply them without making floats of them.

use hark_numeric::{QuantBlock, SUPER_BLOCK, f16_to_f32};

use crate::Dtype;

/// f16 scale and scale of minima, 12 bytes of 6-bit scales and minima, 128 of half bytes.
pub(crate) const Q4_K_BYTES: usize = 2 + 2 + 12 + 128;
/// As Q4_K, and 32 bytes of fifth bits.
pub(crate) const Q5_K_BYTES: usize = Q4_K_BYTES + 32;
/// 128 half bytes, 64 bytes of two upper bits, 16 scales, an f16 scale.
pub(crate) const Q6_K_BYTES: usize = 128 + 64 + 16 + 2;

/// Reads a block of `dtype` from its bytes, of which there are [`Dtype::block_bytes`].
pub(crate) fn read_block(dtype: Dtype, bytes: &[u8], out: &mut QuantBlock) {
    let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    (out.scale, out.min) = match dtype {
        Dtype::Q6_K => (half(208), 0),
        Dtype::Q4_0 | Dtype::Q5_0 | Dtype::Q8_0 => (half(0), 0),
        _ => (half(0), half(2)),
    };
    match dtype {
        Dtype::Q4_0 => nibbles(out, &bytes[2..], 0),
        Dtype::Q4_1 => nibbles(out, &bytes[4..], 0),
        Dtype::Q5_0 => nibbles(out, &bytes[6..], u32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]])),
        Dtype::Q5_1 => nibbles(out, &bytes[8..], u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])),
        Dtype::Q8_0 => {
            for (value, byte) in out.values.iter_mut().zip(&bytes[2..]) {
                *value = byte ^ 0x80;
            }
        }
        Dtype::Q4_K => {
            six_bit_scales(out, &bytes[4..16]);
            pairs_of_blocks(out, &bytes[16..], None);
        }
        Dtype::Q5_K => {
            six_bit_scales(out, &bytes[4..16]);
            pairs_of_blocks(out, &bytes[48..], Some(&bytes[16..48]));
        }
        Dtype::Q6_K => {
            six_bits(out, &bytes[..128], &bytes[128..192]);
            out.scales.copy_from_slice(&bytes[192..208]);
        }
        _ => unreachable!("{dtype:?} is not quantized"),
    }
}

/// 32 values: low half bytes are the first 16, bits of `high` their fifth bits.
fn nibbles(out: &mut QuantBlock, quants: &[u8], high: u32) {
    for i in 0..16 {
        out.values[i] = quants[i] & 15 | ((high >> i & 1) as u8) << 4;
        out.values[i + 16] = quants[i] >> 4 | ((high >> (i + 16) & 1) as u8) << 4;
    }
}

/// Eight 6-bit scales and minima in 12 bytes: the first four of each in the low bits of a byte, the others in half bytes
/// whose upper two bits are the upper bits of the first.
fn six_bit_scales(out: &mut QuantBlock, packed: &[u8]) {
    for i in 0..4 {
        out.scales[i] = packed[i] & 63;
        out.mins[i] = packed[i + 4] & 63;
        out.scales[i + 4] = packed[i + 8] & 15 | packed[i] >> 6 << 4;
        out.mins[i + 4] = packed[i + 8] >> 4 | packed[i + 4] >> 6 << 4;
    }
}

/// 256 values: each 32 bytes have 32 values in their low half bytes and the next 32 in their high ones; `fifth` has bit
/// `b` of byte `i` for value `i` of block `b`.
fn pairs_of_blocks(out: &mut QuantBlock, quants: &[u8], fifth: Option<&[u8]>) {
    for block in 0..8 {
        let bytes = &quants[block / 2 * 32..][..32];
        for (i, byte) in bytes.iter().enumerate() {
            let nibble = if block % 2 == 0 { byte & 15 } else { byte >> 4 };
            let bit = fifth.map_or(0, |fifth| fifth[i] >> block & 1);
            out.values[block * 32 + i] = nibble | bit << 4;
        }
    }
}

/// 256 values in two halves: 64 bytes have values `i` and `i + 64` in their half bytes; 32 bytes have the upper two bits of
/// values `i`, `i + 32`, `i + 64` and `i + 96`.
fn six_bits(out: &mut QuantBlock, low: &[u8], high: &[u8]) {
    for half in 0..2 {
        let (low, high) = (&low[half * 64..][..64], &high[half * 32..][..32]);
        let values = &mut out.values[half * 128..][..128];
        for i in 0..64 {
            let upper = high[i % 32] >> (i / 32 * 2);
            values[i] = low[i] & 15 | (upper & 3) << 4;
            values[i + 64] = low[i] >> 4 | (upper >> 4 & 3) << 4;
        }
    }
}

/// Converts blocks of 256 to floats.
pub(crate) fn decode_super_blocks(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    let Some(size) = dtype.block_bytes() else { return };
    let mut block = QuantBlock::default();
    for (bytes, out) in bytes.chunks_exact(size).zip(out.chunks_exact_mut(SUPER_BLOCK)) {
        read_block(dtype, bytes, &mut block);
        let (scale, min) = (f16_to_f32(block.scale), f16_to_f32(block.min));
        for (i, value) in out.iter_mut().enumerate() {
            let number = f32::from(block.values[i]);
            *value = if dtype == Dtype::Q6_K {
                (number - 32.0) * (f32::from(block.scales[i / 16] as i8) * scale)
            } else {
                number * (f32::from(block.scales[i / 32]) * scale) - f32::from(block.mins[i / 32]) * min
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bit_super_blocks_take_scales_and_halves_from_the_right_places() {
        let mut bytes = [0u8; Q4_K_BYTES];
        bytes[..2].copy_from_slice(&0x3c00u16.to_le_bytes()); // scale 1
        bytes[2..4].copy_from_slice(&0x4000u16.to_le_bytes()); // minima times 2
        bytes[4 + 1] = 0b11_000101; // scale of block 1 is 5; upper bits of block 5's are 3
        bytes[4 + 5] = 0b10_000011; // minimum of block 1 is 3; upper bits of block 5's are 2
        bytes[4 + 9] = 0b0110_0111; // scale of block 5 is 3 << 4 | 7, its minimum 2 << 4 | 6
        bytes[16 + 4] = 0xb2; // value 4 of block 0 is 2, of block 1 it is 11
        bytes[16 + 64 + 9] = 0xf0; // value 9 of block 5 is 15
        let mut out = [0.0; SUPER_BLOCK];
        decode_super_blocks(Dtype::Q4_K, &bytes, &mut out);
        assert_eq!((out[4], out[32 + 4], out[5 * 32 + 9]), (0.0, 55.0 - 6.0, 15.0 * 55.0 - 76.0));
        assert_eq!(out[5 * 32], -76.0);

        let mut five = [0u8; Q5_K_BYTES];
        five[..16].copy_from_slice(&bytes[..16]);
        five[16 + 4] = 1 << 1; // fifth bit of value 4 of block 1
        five[48..].copy_from_slice(&bytes[16..]);
        decode_super_blocks(Dtype::Q5_K, &five, &mut out);
        assert_eq!((out[32 + 4], out[5 * 32 + 9]), (27.0 * 5.0 - 6.0, 15.0 * 55.0 - 76.0));
    }

    #[test]
    fn six_bit_super_blocks_take_scales_and_upper_bits_from_the_right_places() {
        let mut bytes = [0u8; Q6_K_BYTES];
        bytes[208..].copy_from_slice(&0x3800u16.to_le_bytes()); // scale 0.5
        bytes[192..208].fill(2);
        bytes[192 + 15] = 0xff; // the last scale is -1
        bytes[3] = 0x91; // value 3 has 1, value 67 has 9
        bytes[128 + 3] = 0b01_10_11_00; // upper bits: value 3 has 0, 35 has 3, 67 has 2, 99 has 1
        bytes[64 + 63] = 0x70; // value 128 + 127 has 7
        let mut out = [0.0; SUPER_BLOCK];
        decode_super_blocks(Dtype::Q6_K, &bytes, &mut out);
        assert_eq!((out[3], out[35], out[67], out[99]), (1.0 - 32.0, 48.0 - 32.0, 41.0 - 32.0, 16.0 - 32.0));
        assert_eq!(out[255], (7.0 - 32.0) * -0.5);
    }

    #[test]
    fn small_blocks_give_the_integers_that_their_floats_are_made_of() {
        for (dtype, zero) in
            [(Dtype::Q4_0, 8.0), (Dtype::Q4_1, 0.0), (Dtype::Q5_0, 16.0), (Dtype::Q5_1, 0.0), (Dtype::Q8_0, 128.0)]
        {
            let size = dtype.block_bytes().expect("it is quantized");
            let mut bytes: Vec<u8> = (0..size).map(|i| (i * 37 + 11) as u8).collect();
            bytes[..2].copy_from_slice(&0x3800u16.to_le_bytes());
            if zero == 0.0 {
                bytes[2..4].copy_from_slice(&0x4200u16.to_le_bytes());
            }
            let mut floats = [0.0; 32];
            dtype.decode(&bytes, &mut floats);
            let mut block = QuantBlock::default();
            read_block(dtype, &bytes, &mut block);
            for (value, float) in block.values.iter().zip(floats) {
                assert_eq!((f32::from(*value) - zero) * 0.5 + f16_to_f32(block.min), float, "{dtype:?}");
            }
        }
    }
}
