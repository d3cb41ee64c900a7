//! Blocks of quantized weights.

/// Most weights in a block: those of ggml's K types.
pub const SUPER_BLOCK: usize = 256;

/// The integers and scales of one block of a row.
///
/// What they stand for is said by the type they are stored in: ggml's name, then that of the kernels' format.
///
/// | type | format | weight `i` |
/// |---|---|---|
/// | Q4_0, Q5_0, Q8_0 | `Int4`, `Int5` without minima, `Int8` | `(values[i] - zero) * scale`, zero being 8, 16, 128 |
/// | Q4_1, Q5_1 | `Int4`, `Int5` with minima | `values[i] * scale + min` |
/// | Q4_K, Q5_K | `Super4`, `Super5` | `values[i] * scales[i / 32] * scale - mins[i / 32] * min` |
/// | Q6_K | `Super6` | `(values[i] - 32) * scales[i / 16] * scale`, the integer scales being signed |
/// | bf16 | `Bf16` | not quantized: `values` holds 32 weights of two bytes, little-endian |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuantBlock {
    /// The integers without sign: 32 of them, or 256 in the K types.
    pub values: [u8; SUPER_BLOCK],
    /// f16 bits of the scale.
    pub scale: u16,
    /// f16 bits of the minimum, or of the scale of minima.
    pub min: u16,
    /// Integer scales of the K types.
    pub scales: [u8; 16],
    /// Integer minima of Q4_K and Q5_K.
    pub mins: [u8; 8],
}

impl Default for QuantBlock {
    fn default() -> Self {
        QuantBlock { values: [0; SUPER_BLOCK], scale: 0, min: 0, scales: [0; 16], mins: [0; 8] }
    }
}
