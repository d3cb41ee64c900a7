//! Where a tensor's bytes lie in a file, and how they become `f32`.

use std::ops::Range;

use super::file::WeightsFile;

/// How one value, or one block of values, is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    F32,
    F16,
    Bf16,
    I8,
    U8,
    I16,
    /// ggml's blocks of 32 values along a row.
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
}

/// Values in a ggml block.
const BLOCK: usize = 32;

impl Element {
    /// Bytes that `count` values of one row (or whole rows) take; none when they do not fill whole blocks.
    pub fn bytes_for(self, count: usize) -> Option<usize> {
        let blocks = |bytes: usize| count.is_multiple_of(BLOCK).then_some(count / BLOCK)?.checked_mul(bytes);
        match self {
            Self::F32 => count.checked_mul(4),
            Self::F16 | Self::Bf16 | Self::I16 => count.checked_mul(2),
            Self::I8 | Self::U8 => Some(count),
            Self::Q4_0 => blocks(2 + 16),
            Self::Q4_1 => blocks(2 + 2 + 16),
            Self::Q5_0 => blocks(2 + 4 + 16),
            Self::Q5_1 => blocks(2 + 2 + 4 + 16),
            Self::Q8_0 => blocks(2 + 32),
        }
    }
}

/// Turns stored integers into values: `(stored - zero) * scale`.
#[derive(Debug, Clone)]
pub(super) enum Scaling {
    /// Stored values are the values.
    None,
    /// One pair for the whole tensor.
    Whole { scale: f32, zero: f32 },
    /// One pair for each stored row.
    Rows { scales: Vec<f32>, zeros: Vec<f32> },
    /// One pair for each stored column.
    Columns { scales: Vec<f32>, zeros: Vec<f32> },
}

/// A tensor as its network wants it, and the bytes it comes from.
#[derive(Debug, Clone)]
pub(super) struct Tensor {
    /// The shape the network sees.
    pub shape: Vec<usize>,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    Stored {
        file: usize,
        /// First byte of the first stored row that belongs to this tensor.
        offset: usize,
        element: Element,
        /// Stored rows and columns; the network's are the other way round when transposed.
        stored: (usize, usize),
        transposed: bool,
        scaling: Scaling,
    },
    /// Whisper's fixed encoder positions, which some formats leave out.
    Sinusoids,
    /// Nothing: the tensor's values are generated.
    Absent,
}

impl Tensor {
    /// A tensor stored at `offset` of file number `file`, if that many bytes are there.
    pub fn stored(
        files: &[WeightsFile],
        file: usize,
        offset: usize,
        available: usize,
        element: Element,
        shape: Vec<usize>,
    ) -> Result<Self, String> {
        let count = element_count(&shape).ok_or_else(|| format!("absurd shape {shape:?}"))?;
        let columns = columns_of(&shape);
        let needed = element
            .bytes_for(columns)
            .and_then(|row| row.checked_mul(count / columns.max(1)))
            .ok_or_else(|| format!("shape {shape:?} does not fit {element:?}"))?;
        if needed != available {
            return Err(format!("shape {shape:?} of {element:?} needs {needed} bytes, not {available}"));
        }
        let end = offset.checked_add(available);
        if end.is_none_or(|end| end > files[file].bytes().len()) {
            return Err(format!("{available} bytes at byte {offset} lie past the end of the file"));
        }
        let stored = (count / columns.max(1), columns);
        let source = Source::Stored { file, offset, element, stored, transposed: false, scaling: Scaling::None };
        Ok(Self { shape, source })
    }

    pub fn sinusoids(shape: [usize; 2]) -> Self {
        Self { shape: shape.to_vec(), source: Source::Sinusoids }
    }

    pub fn without_data(shape: Vec<usize>) -> Self {
        Self { shape, source: Source::Absent }
    }

    /// The same tensor with its stored integers scaled.
    pub fn scaled(mut self, new: Scaling) -> Result<Self, String> {
        if let Source::Stored { stored: (rows, columns), scaling, .. } = &mut self.source {
            let fits = match &new {
                Scaling::None | Scaling::Whole { .. } => true,
                Scaling::Rows { scales, zeros } => scales.len() == *rows && zeros.len() == *rows,
                Scaling::Columns { scales, zeros } => scales.len() == *columns && zeros.len() == *columns,
            };
            if !fits {
                return Err(format!("scales do not fit a tensor of {rows} x {columns}"));
            }
            *scaling = new;
        }
        Ok(self)
    }

    /// The matrix with rows and columns exchanged.
    pub fn transposed(mut self) -> Result<Self, String> {
        let [rows, columns] = self.shape[..] else {
            return Err(format!("a tensor of shape {:?} is no matrix", self.shape));
        };
        if let Source::Stored { transposed, .. } = &mut self.source {
            *transposed = !*transposed;
        }
        self.shape = vec![columns, rows];
        Ok(self)
    }

    /// Part number `part` of `parts` equal parts stacked along the first dimension.
    pub fn part(&self, part: usize, parts: usize) -> Result<Self, String> {
        let mut cut = self.clone();
        let rows = self.rows();
        if !rows.is_multiple_of(parts) {
            return Err(format!("{rows} rows are not {parts} equal parts"));
        }
        let rows = rows / parts;
        cut.shape[0] = rows;
        if let Source::Stored { offset, element, stored, transposed, scaling, .. } = &mut cut.source {
            debug_assert!(!*transposed, "parts are cut before transposing");
            let row_bytes = element.bytes_for(stored.1).unwrap_or(0);
            *offset += part * rows * row_bytes;
            stored.0 = rows;
            if let Scaling::Rows { scales, zeros } = scaling {
                *scales = scales[part * rows..(part + 1) * rows].to_vec();
                *zeros = zeros[part * rows..(part + 1) * rows].to_vec();
            }
        }
        Ok(cut)
    }

    /// Takes on `shape` when it differs only in dimensions of one, as ggml's `[d, 1]` biases do; else says what it was.
    pub fn take_shape(&mut self, shape: &[usize]) -> Result<(), Vec<usize>> {
        let without_ones = |s: &[usize]| -> Vec<usize> { s.iter().copied().filter(|n| *n != 1).collect() };
        if without_ones(&self.shape) != without_ones(shape) {
            return Err(self.shape.clone());
        }
        let count = element_count(shape).unwrap_or(0);
        let columns = columns_of(shape);
        if let Source::Stored { element, stored, transposed, .. } = &mut self.source {
            let (rows, columns) = (count / columns.max(1), columns);
            let now = if *transposed { (columns, rows) } else { (rows, columns) };
            if element.bytes_for(now.1).is_none() {
                return Err(self.shape.clone());
            }
            *stored = now;
        }
        self.shape = shape.to_vec();
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Values in a row: all dimensions but the first.
    pub fn columns(&self) -> usize {
        columns_of(&self.shape)
    }

    /// Reads rows of the network's tensor into `out`, which must have their size.
    pub fn read(&self, files: &[WeightsFile], rows: Range<usize>, out: &mut [f32]) {
        match &self.source {
            Source::Absent => out.fill(0.0),
            Source::Sinusoids => sinusoids(self.columns(), rows, out),
            Source::Stored { file, offset, element, stored, transposed, scaling } => {
                let (stored_rows, columns) = *stored;
                let row_bytes = element.bytes_for(columns).unwrap_or(0);
                let bytes = &files[*file].bytes()[*offset..][..stored_rows * row_bytes];
                if !*transposed {
                    let bytes = &bytes[rows.start * row_bytes..rows.end * row_bytes];
                    decode(*element, bytes, out);
                    scale(scaling, rows.start, columns, out);
                    return;
                }
                // A few stored rows at a time, so that the columns being written stay in cache.
                const ROWS: usize = 16;
                let mut buffer = vec![0.0; ROWS * columns];
                for first in (0..stored_rows).step_by(ROWS) {
                    let count = ROWS.min(stored_rows - first);
                    let buffer = &mut buffer[..count * columns];
                    decode(*element, &bytes[first * row_bytes..(first + count) * row_bytes], buffer);
                    scale(scaling, first, columns, buffer);
                    for (i, column) in rows.clone().enumerate() {
                        let out = &mut out[i * stored_rows + first..][..count];
                        for (r, value) in out.iter_mut().enumerate() {
                            *value = buffer[r * columns + column];
                        }
                    }
                }
            }
        }
    }
}

fn element_count(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1usize, |count, n| count.checked_mul(*n))
}

fn columns_of(shape: &[usize]) -> usize {
    shape.get(1..).map_or(1, |rest| rest.iter().product())
}

/// OpenAI's fixed encoder positions: sines in the first half of a row, cosines in the second, over wavelengths
/// from 2π to 20000π.
fn sinusoids(width: usize, rows: Range<usize>, out: &mut [f32]) {
    let half = width / 2;
    let step = 10000f64.ln() / (half.max(2) - 1) as f64;
    for (row, out) in rows.zip(out.chunks_exact_mut(width)) {
        for i in 0..half {
            let angle = row as f64 * (-step * i as f64).exp();
            out[i] = angle.sin() as f32;
            out[half + i] = angle.cos() as f32;
        }
    }
}

fn scale(scaling: &Scaling, first_row: usize, columns: usize, values: &mut [f32]) {
    match scaling {
        Scaling::None => {}
        Scaling::Whole { scale, zero } => {
            for value in values {
                *value = (*value - zero) * scale;
            }
        }
        Scaling::Rows { scales, zeros } => {
            let pairs = scales.iter().zip(zeros).skip(first_row);
            for (row, (scale, zero)) in values.chunks_exact_mut(columns.max(1)).zip(pairs) {
                for value in row {
                    *value = (*value - zero) * scale;
                }
            }
        }
        Scaling::Columns { scales, zeros } => {
            for row in values.chunks_exact_mut(columns.max(1)) {
                for ((value, scale), zero) in row.iter_mut().zip(scales).zip(zeros) {
                    *value = (*value - zero) * scale;
                }
            }
        }
    }
}

/// Decodes whole rows of stored elements, unscaled but for ggml's own blocks.
fn decode(element: Element, bytes: &[u8], out: &mut [f32]) {
    let half_at = |block: &[u8], at: usize| f16_to_f32(u16::from_le_bytes([block[at], block[at + 1]]));
    match element {
        Element::F32 => {
            for (value, b) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *value = f32::from_le_bytes(*b);
            }
        }
        Element::F16 => {
            for (value, b) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *value = f16_to_f32(u16::from_le_bytes(*b));
            }
        }
        Element::Bf16 => {
            for (value, b) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *value = f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
            }
        }
        Element::I16 => {
            for (value, b) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *value = f32::from(i16::from_le_bytes(*b));
            }
        }
        Element::I8 => {
            for (value, b) in out.iter_mut().zip(bytes) {
                *value = f32::from(*b as i8);
            }
        }
        Element::U8 => {
            for (value, b) in out.iter_mut().zip(bytes) {
                *value = f32::from(*b);
            }
        }
        Element::Q8_0 => {
            for (out, block) in out.chunks_exact_mut(BLOCK).zip(bytes.as_chunks::<34>().0) {
                let d = half_at(block, 0);
                for (value, q) in out.iter_mut().zip(&block[2..]) {
                    *value = f32::from(*q as i8) * d;
                }
            }
        }
        Element::Q4_0 => {
            for (out, block) in out.chunks_exact_mut(BLOCK).zip(bytes.as_chunks::<18>().0) {
                nibbles(out, &block[2..], 0, half_at(block, 0), -8.0 * half_at(block, 0));
            }
        }
        Element::Q4_1 => {
            for (out, block) in out.chunks_exact_mut(BLOCK).zip(bytes.as_chunks::<20>().0) {
                nibbles(out, &block[4..], 0, half_at(block, 0), half_at(block, 2));
            }
        }
        Element::Q5_0 => {
            for (out, block) in out.chunks_exact_mut(BLOCK).zip(bytes.as_chunks::<22>().0) {
                let high = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
                nibbles(out, &block[6..], high, half_at(block, 0), -16.0 * half_at(block, 0));
            }
        }
        Element::Q5_1 => {
            for (out, block) in out.chunks_exact_mut(BLOCK).zip(bytes.as_chunks::<24>().0) {
                let high = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
                nibbles(out, &block[8..], high, half_at(block, 0), half_at(block, 2));
            }
        }
    }
}

/// One ggml block of four-bit values with a fifth bit in `high`: low nibbles are the first 16 values.
fn nibbles(out: &mut [f32], quants: &[u8], high: u32, d: f32, minimum: f32) {
    for (i, byte) in quants.iter().enumerate() {
        let low_value = u32::from(byte & 15) | ((high >> i) & 1) << 4;
        let high_value = u32::from(byte >> 4) | ((high >> (i + 16)) & 1) << 4;
        out[i] = low_value as f32 * d + minimum;
        out[i + 16] = high_value as f32 * d + minimum;
    }
}

/// An IEEE half as `f32`, without branches so that loops over it become vector code.
#[inline]
pub(super) fn f16_to_f32(half: u16) -> f32 {
    let magnitude = u32::from(half & 0x7fff) << 13;
    let sign = u32::from(half & 0x8000) << 16;
    // Shifting the exponent's bias from 15 to 127 is a multiplication by 2^112, exact for subnormals too.
    let finite = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let infinite_or_nan = 0x7f80_0000 | (magnitude & 0x007f_ffff);
    let bits = if magnitude >= 0x0f80_0000 { infinite_or_nan } else { finite };
    f32::from_bits(bits | sign)
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
    fn five_bit_blocks_take_their_fifth_bit_from_the_right_place() {
        // d = 1, minimum 0: value 1 is nibble 2 with the high bit, value 17 nibble 5 without.
        let mut block = [0u8; 24];
        block[..2].copy_from_slice(&0x3c00u16.to_le_bytes());
        block[4..8].copy_from_slice(&(1u32 << 1).to_le_bytes());
        block[8 + 1] = 0x52;
        let mut out = [0.0; 32];
        decode(Element::Q5_1, &block, &mut out);
        assert_eq!((out[0], out[1], out[17]), (0.0, 18.0, 5.0));
        let mut block = [0u8; 18];
        block[..2].copy_from_slice(&0x4000u16.to_le_bytes());
        block[2] = 0xf1;
        decode(Element::Q4_0, &block, &mut out);
        assert_eq!((out[0], out[16], out[3]), (-14.0, 14.0, -16.0));
    }
}
