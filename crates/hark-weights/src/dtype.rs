//! How values are stored, and how stored values become `f32`.

use hark_numeric::{SUPER_BLOCK, bf16_to_f32, f16_to_f32};

use crate::quants::{self, Q4_K_BYTES, Q5_K_BYTES, Q6_K_BYTES};

/// The type of a tensor's stored values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the quantized types are known by ggml's names")]
pub enum Dtype {
    /// IEEE double.
    F64,
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// The upper half of an IEEE single.
    Bf16,
    /// 64-bit integer.
    I64,
    /// 32-bit integer.
    I32,
    /// 16-bit integer.
    I16,
    /// 8-bit integer.
    I8,
    /// 8-bit integer without a sign.
    U8,
    /// ggml: blocks of 32 values of 4 bits, an f16 scale.
    Q4_0,
    /// ggml: blocks of 32 values of 4 bits, an f16 scale and an f16 minimum.
    Q4_1,
    /// ggml: blocks of 32 values of 5 bits, an f16 scale.
    Q5_0,
    /// ggml: blocks of 32 values of 5 bits, an f16 scale and an f16 minimum.
    Q5_1,
    /// ggml: blocks of 32 values of 8 bits, an f16 scale.
    Q8_0,
    /// ggml: blocks of 256 values of 4 bits; each 32 have a 6-bit scale and minimum, all an f16 scale of both.
    Q4_K,
    /// ggml: blocks of 256 values of 5 bits; each 32 have a 6-bit scale and minimum, all an f16 scale of both.
    Q5_K,
    /// ggml: blocks of 256 values of 6 bits; each 16 have an 8-bit scale, all an f16 scale of those.
    Q6_K,
}

/// Values in a ggml block.
const BLOCK: usize = 32;

impl Dtype {
    /// Bytes that `count` values of a row take; none when they do not fill whole blocks or overflow.
    pub fn bytes_for(self, count: usize) -> Option<usize> {
        let blocks = |bytes: usize| count.is_multiple_of(BLOCK).then_some(count / BLOCK)?.checked_mul(bytes);
        let super_blocks =
            |bytes: usize| count.is_multiple_of(SUPER_BLOCK).then_some(count / SUPER_BLOCK)?.checked_mul(bytes);
        match self {
            Self::F64 | Self::I64 => count.checked_mul(8),
            Self::F32 | Self::I32 => count.checked_mul(4),
            Self::F16 | Self::Bf16 | Self::I16 => count.checked_mul(2),
            Self::I8 | Self::U8 => Some(count),
            Self::Q4_0 => blocks(2 + 16),
            Self::Q4_1 => blocks(2 + 2 + 16),
            Self::Q5_0 => blocks(2 + 4 + 16),
            Self::Q5_1 => blocks(2 + 2 + 4 + 16),
            Self::Q8_0 => blocks(2 + 32),
            Self::Q4_K => super_blocks(Q4_K_BYTES),
            Self::Q5_K => super_blocks(Q5_K_BYTES),
            Self::Q6_K => super_blocks(Q6_K_BYTES),
        }
    }

    /// Values in a block of a quantized type.
    pub fn block_values(self) -> Option<usize> {
        match self {
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => Some(BLOCK),
            Self::Q4_K | Self::Q5_K | Self::Q6_K => Some(SUPER_BLOCK),
            _ => None,
        }
    }

    /// Bytes of a block of a quantized type.
    pub fn block_bytes(self) -> Option<usize> {
        self.bytes_for(self.block_values()?)
    }

    /// Whether values are whole numbers that need a scale to be weights.
    pub fn is_integer(self) -> bool {
        matches!(self, Self::I64 | Self::I32 | Self::I16 | Self::I8 | Self::U8)
    }

    /// The type that ggml and GGUF files give this number.
    pub(crate) fn from_ggml(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            6 => Self::Q5_0,
            7 => Self::Q5_1,
            8 => Self::Q8_0,
            12 => Self::Q4_K,
            13 => Self::Q5_K,
            14 => Self::Q6_K,
            24 => Self::I8,
            25 => Self::I16,
            26 => Self::I32,
            27 => Self::I64,
            28 => Self::F64,
            30 => Self::Bf16,
            _ => return None,
        })
    }

    /// Converts whole rows of stored values; `out` has one place for each.
    pub(crate) fn decode(self, bytes: &[u8], out: &mut [f32]) {
        match self {
            Self::F64 => each(bytes, out, |b| f64::from_le_bytes(b) as f32),
            Self::F32 => each(bytes, out, f32::from_le_bytes),
            Self::F16 => each(bytes, out, |b| f16_to_f32(u16::from_le_bytes(b))),
            Self::Bf16 => each(bytes, out, |b| bf16_to_f32(u16::from_le_bytes(b))),
            Self::I64 => each(bytes, out, |b| i64::from_le_bytes(b) as f32),
            Self::I32 => each(bytes, out, |b| i32::from_le_bytes(b) as f32),
            Self::I16 => each(bytes, out, |b| f32::from(i16::from_le_bytes(b))),
            Self::I8 => each(bytes, out, |b| f32::from(i8::from_le_bytes(b))),
            Self::U8 => each(bytes, out, |b| f32::from(u8::from_le_bytes(b))),
            Self::Q8_0 => blocks::<34>(bytes, out, |block, out| {
                let scale = f16_at(block, 0);
                for (value, quant) in out.iter_mut().zip(&block[2..]) {
                    *value = f32::from(*quant as i8) * scale;
                }
            }),
            Self::Q4_0 => blocks::<18>(bytes, out, |block, out| {
                let scale = f16_at(block, 0);
                nibbles(out, &block[2..], 0, scale, -8.0 * scale);
            }),
            Self::Q4_1 => {
                blocks::<20>(bytes, out, |block, out| {
                    nibbles(out, &block[4..], 0, f16_at(block, 0), f16_at(block, 2));
                });
            }
            Self::Q5_0 => blocks::<22>(bytes, out, |block, out| {
                let scale = f16_at(block, 0);
                nibbles(out, &block[6..], u32_at(block, 2), scale, -16.0 * scale);
            }),
            Self::Q5_1 => blocks::<24>(bytes, out, |block, out| {
                nibbles(out, &block[8..], u32_at(block, 4), f16_at(block, 0), f16_at(block, 2));
            }),
            Self::Q4_K | Self::Q5_K | Self::Q6_K => quants::decode_super_blocks(self, bytes, out),
        }
    }
}

fn each<const N: usize>(bytes: &[u8], out: &mut [f32], convert: impl Fn([u8; N]) -> f32) {
    for (value, bytes) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *value = convert(*bytes);
    }
}

fn blocks<const N: usize>(bytes: &[u8], out: &mut [f32], decode: impl Fn(&[u8; N], &mut [f32])) {
    for (out, block) in out.chunks_exact_mut(BLOCK).zip(bytes.as_chunks::<N>().0) {
        decode(block, out);
    }
}

fn f16_at(block: &[u8], at: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([block[at], block[at + 1]]))
}

fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

/// One ggml block of 4-bit values with a fifth bit in `high`: low nibbles are the first 16 values.
fn nibbles(out: &mut [f32], quants: &[u8], high: u32, scale: f32, minimum: f32) {
    for (i, byte) in quants.iter().enumerate() {
        let low_value = u32::from(byte & 15) | ((high >> i) & 1) << 4;
        let high_value = u32::from(byte >> 4) | ((high >> (i + 16)) & 1) << 4;
        out[i] = low_value as f32 * scale + minimum;
        out[i + 16] = high_value as f32 * scale + minimum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_bit_blocks_take_their_fifth_bit_from_the_right_place() {
        // Scale 1, minimum 0: value 1 is nibble 2 with the high bit, value 17 nibble 5 without.
        let mut block = [0u8; 24];
        block[..2].copy_from_slice(&0x3c00u16.to_le_bytes());
        block[4..8].copy_from_slice(&(1u32 << 1).to_le_bytes());
        block[8 + 1] = 0x52;
        let mut out = [0.0; 32];
        Dtype::Q5_1.decode(&block, &mut out);
        assert_eq!((out[0], out[1], out[17]), (0.0, 18.0, 5.0));
        let mut block = [0u8; 18];
        block[..2].copy_from_slice(&0x4000u16.to_le_bytes());
        block[2] = 0xf1;
        Dtype::Q4_0.decode(&block, &mut out);
        assert_eq!((out[0], out[16], out[3]), (-14.0, 14.0, -16.0));
        let mut block = [0u8; 34];
        block[..2].copy_from_slice(&0x3800u16.to_le_bytes());
        (block[2], block[33]) = (200, 7);
        Dtype::Q8_0.decode(&block, &mut out);
        assert_eq!((out[0], out[1], out[31]), (-28.0, 0.0, 3.5));
    }
}
