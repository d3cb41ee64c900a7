//! A tensor: where its stored values lie, the shape its network sees, and its values as rows.

use std::ops::Range;
use std::sync::Arc;

use hark_numeric::{QuantBlock, f32_to_bf16};

use crate::quants::read_block;
use crate::{Dtype, FileError, WeightsFile};

/// How stored integers become values: `(stored - zero_point) * scale`.
#[derive(Debug, Clone, PartialEq)]
pub enum Quantization {
    /// Stored values are the values.
    None,
    /// One pair for the whole tensor.
    PerTensor {
        /// The scale.
        scale: f32,
        /// The stored value that means zero.
        zero_point: f32,
    },
    /// One pair for each stored row.
    PerRow {
        /// The scales.
        scales: Arc<[f32]>,
        /// The stored values that mean zero.
        zero_points: Arc<[f32]>,
    },
    /// One pair for each stored column.
    PerColumn {
        /// The scales.
        scales: Arc<[f32]>,
        /// The stored values that mean zero.
        zero_points: Arc<[f32]>,
    },
}

/// A tensor of a weights file. Cloning it copies no values.
///
/// A row is what one index of the first dimension holds; a tensor of one dimension has rows of one value.
#[derive(Debug, Clone)]
pub struct Tensor {
    name: String,
    shape: Vec<usize>,
    dtype: Dtype,
    file: Arc<WeightsFile>,
    /// First byte of the first stored row that belongs to this tensor.
    offset: usize,
    /// Stored rows and columns; the network's are the other way round when transposed.
    stored: (usize, usize),
    is_transposed: bool,
    quantization: Quantization,
}

impl Tensor {
    /// A tensor of this shape over exactly these bytes of the file.
    pub fn new(
        name: impl Into<String>,
        shape: Vec<usize>,
        dtype: Dtype,
        file: &Arc<WeightsFile>,
        bytes: Range<usize>,
    ) -> Result<Self, FileError> {
        let name = name.into();
        let needed = matrix_of(&shape).and_then(|(rows, columns)| dtype.bytes_for(columns)?.checked_mul(rows));
        let Some(needed) = needed else {
            return Err(file.damaged(format!("{name} has the impossible shape {shape:?} for {dtype:?}")));
        };
        if bytes.start > bytes.end || bytes.end > file.bytes().len() {
            return Err(file.damaged(format!("{name}: bytes {bytes:?} lie past the end of the file")));
        }
        if needed != bytes.len() {
            let what = format!("{name}: shape {shape:?} of {dtype:?} needs {needed} bytes, not {}", bytes.len());
            return Err(file.damaged(what));
        }
        let stored = matrix_of(&shape).unwrap_or((0, 0));
        let (file, offset) = (Arc::clone(file), bytes.start);
        Ok(Self { name, shape, dtype, file, offset, stored, is_transposed: false, quantization: Quantization::None })
    }

    /// The name in its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The shape that the network sees, the slowest dimension first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The type of the stored values.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// How stored integers become values.
    pub fn quantization(&self) -> &Quantization {
        &self.quantization
    }

    /// The file it lies in.
    pub fn file(&self) -> &Arc<WeightsFile> {
        &self.file
    }

    /// The stored bytes, row after row of the stored matrix.
    pub fn bytes(&self) -> &[u8] {
        let (rows, _) = self.stored;
        // Both were checked when the tensor was made, and only ever made smaller.
        &self.file.bytes()[self.offset..][..rows * self.row_bytes()]
    }

    /// Values in the tensor.
    pub fn len(&self) -> usize {
        self.stored.0 * self.stored.1
    }

    /// Whether the tensor has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first dimension.
    pub fn rows(&self) -> usize {
        if self.is_transposed { self.stored.1 } else { self.stored.0 }
    }

    /// Values in a row: all dimensions but the first.
    pub fn columns(&self) -> usize {
        if self.is_transposed { self.stored.0 } else { self.stored.1 }
    }

    /// The same tensor under another name.
    pub(crate) fn renamed(mut self, name: String) -> Self {
        self.name = name;
        self
    }

    /// The same tensor, its stored values scaled.
    pub fn quantized(mut self, quantization: Quantization) -> Result<Self, FileError> {
        let (rows, columns) = self.stored;
        let fits = match &quantization {
            Quantization::None | Quantization::PerTensor { .. } => true,
            Quantization::PerRow { scales, zero_points } => scales.len() == rows && zero_points.len() == rows,
            Quantization::PerColumn { scales, zero_points } => scales.len() == columns && zero_points.len() == columns,
        };
        if !fits {
            return Err(self.damaged(format!("its scales do not fit {rows} x {columns} values")));
        }
        self.quantization = quantization;
        Ok(self)
    }

    /// The matrix with rows and columns exchanged.
    pub fn transposed(mut self) -> Result<Self, FileError> {
        let [rows, columns] = self.shape[..] else {
            return Err(self.damaged(format!("shape {:?} is not a matrix", self.shape)));
        };
        self.is_transposed = !self.is_transposed;
        self.shape = vec![columns, rows];
        Ok(self)
    }

    /// Part number `part` of `parts` equal parts along the first dimension.
    ///
    /// # Panics
    /// When the tensor is transposed, or there is no such part.
    pub fn part(&self, part: usize, parts: usize) -> Result<Self, FileError> {
        assert!(!self.is_transposed && part < parts, "parts are cut before transposing");
        let (rows, columns) = self.stored;
        if self.shape.is_empty() || !rows.is_multiple_of(parts) {
            return Err(self.damaged(format!("{rows} rows do not make {parts} equal parts")));
        }
        let rows = rows / parts;
        let mut cut = self.clone();
        cut.shape[0] = rows;
        cut.offset += part * rows * self.row_bytes();
        cut.stored = (rows, columns);
        if let Quantization::PerRow { scales, zero_points } = &mut cut.quantization {
            *scales = scales[part * rows..(part + 1) * rows].into();
            *zero_points = zero_points[part * rows..(part + 1) * rows].into();
        }
        Ok(cut)
    }

    /// The tensor as one of `shape`, which may differ in dimensions of one only, as ggml's `[d, 1]` biases do.
    pub fn reshaped(mut self, shape: &[usize]) -> Result<Self, FileError> {
        let without_ones = |s: &[usize]| -> Vec<usize> { s.iter().copied().filter(|n| *n != 1).collect() };
        let stored = matrix_of(shape).map(|(r, c)| if self.is_transposed { (c, r) } else { (r, c) });
        let fits = stored.is_some_and(|(_, columns)| self.dtype.bytes_for(columns).is_some());
        let (true, true, Some(stored)) = (without_ones(&self.shape) == without_ones(shape), fits, stored) else {
            return Err(self.damaged(format!("shape {:?} where {shape:?} is needed", self.shape)));
        };
        if stored != self.stored {
            let per_line = matches!(self.quantization, Quantization::PerRow { .. } | Quantization::PerColumn { .. });
            if per_line {
                return Err(self.damaged(format!("its scales do not fit shape {shape:?}")));
            }
            self.stored = stored;
        }
        self.shape = shape.to_vec();
        Ok(self)
    }

    /// All values as `f32`, row after row.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.len()];
        self.rows_f32(0..self.rows(), &mut values);
        values
    }

    /// All values as `f32`, row after row; an error when one of them is infinite or not a number.
    pub fn to_finite_f32(&self) -> Result<Vec<f32>, FileError> {
        let values = self.to_f32();
        // Counted without a branch, so that the loop vectorizes.
        match values.iter().fold(0u32, |count, value| count + u32::from(!value.is_finite())) {
            0 => Ok(values),
            _ => Err(self.file.damaged(format!("{} has values that are not finite", self.name))),
        }
    }

    /// Converts some rows to `f32`.
    ///
    /// # Panics
    /// When the tensor lacks those rows or `out` has another length than they need.
    pub fn rows_f32(&self, rows: Range<usize>, out: &mut [f32]) {
        self.check_rows(&rows, out.len());
        if out.is_empty() {
            return;
        }
        let (stored_rows, columns) = self.stored;
        let row_bytes = self.row_bytes();
        let bytes = self.bytes();
        if !self.is_transposed {
            self.dtype.decode(&bytes[rows.start * row_bytes..rows.end * row_bytes], out);
            self.dequantize(rows.start, out);
            return;
        }
        // A few stored rows at a time, so that the columns being written stay in cache.
        const ROWS: usize = 16;
        let mut buffer = vec![0.0; ROWS.min(stored_rows) * columns];
        for first in (0..stored_rows).step_by(ROWS) {
            let count = ROWS.min(stored_rows - first);
            let buffer = &mut buffer[..count * columns];
            self.dtype.decode(&bytes[first * row_bytes..(first + count) * row_bytes], buffer);
            self.dequantize(first, buffer);
            for (i, column) in rows.clone().enumerate() {
                let out = &mut out[i * stored_rows + first..][..count];
                for (r, value) in out.iter_mut().enumerate() {
                    *value = buffer[r * columns + column];
                }
            }
        }
    }

    /// Converts neighbouring values of one row of plain floats (f32, f16, bf16) to bf16.
    ///
    /// # Panics
    /// When the values are stored otherwise, or the row lacks them.
    pub fn columns_bf16(&self, row: usize, first: usize, out: &mut [u16]) {
        let is_float = matches!(self.dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16);
        assert!(is_float && !self.is_transposed && self.quantization == Quantization::None, "plain floats");
        assert!(row < self.stored.0 && first + out.len() <= self.stored.1, "values of one row");
        let size = if self.dtype == Dtype::F32 { 4 } else { 2 };
        let start = row * self.row_bytes() + first * size;
        let bytes = &self.bytes()[start..start + out.len() * size];
        let mut floats = vec![0.0; out.len()];
        self.dtype.decode(bytes, &mut floats);
        for (value, float) in out.iter_mut().zip(floats) {
            *value = f32_to_bf16(float);
        }
    }

    /// The integers and scales of block number `block` of a row stored in one of ggml's quantized types.
    ///
    /// # Panics
    /// When the type is none of those, or there is no such block.
    pub fn quant_block(&self, row: usize, block: usize, out: &mut QuantBlock) {
        let bytes = self.dtype.block_bytes().expect("a quantized type");
        let row_bytes = self.row_bytes();
        assert!(
            !self.is_transposed && row < self.stored.0 && (block + 1) * bytes <= row_bytes,
            "a block of the tensor"
        );
        read_block(self.dtype, &self.bytes()[row * row_bytes + block * bytes..][..bytes], out);
    }

    /// Converts some rows to bf16, rounded to nearest; stored bf16 is copied as it is.
    ///
    /// # Panics
    /// When the tensor lacks those rows or `out` has another length than they need.
    pub fn rows_bf16(&self, rows: Range<usize>, out: &mut [u16]) {
        self.check_rows(&rows, out.len());
        if out.is_empty() {
            return;
        }
        if self.dtype == Dtype::Bf16 && !self.is_transposed && self.quantization == Quantization::None {
            let bytes = &self.bytes()[rows.start * self.row_bytes()..rows.end * self.row_bytes()];
            for (value, bytes) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *value = u16::from_le_bytes(*bytes);
            }
            return;
        }
        // A transposed tensor decodes all its stored rows for any of its own, so it takes many at a time.
        let columns = self.columns();
        let step = if self.is_transposed { rows.len().max(1) } else { 16 };
        let mut buffer = vec![0.0; step.min(rows.len()) * columns];
        for first in rows.clone().step_by(step) {
            let count = step.min(rows.end - first);
            let buffer = &mut buffer[..count * columns];
            self.rows_f32(first..first + count, buffer);
            let out = &mut out[(first - rows.start) * columns..][..buffer.len()];
            for (value, float) in out.iter_mut().zip(buffer) {
                *value = f32_to_bf16(*float);
            }
        }
    }

    fn check_rows(&self, rows: &Range<usize>, len: usize) {
        let Self { name, .. } = self;
        assert!(rows.start <= rows.end && rows.end <= self.rows(), "{name} has no rows {rows:?}");
        assert_eq!(len, rows.len() * self.columns(), "length of rows {rows:?} of {name}");
    }

    fn row_bytes(&self) -> usize {
        self.dtype.bytes_for(self.stored.1).unwrap_or(0)
    }

    fn damaged(&self, what: String) -> FileError {
        self.file.damaged(format!("{}: {what}", self.name))
    }

    fn dequantize(&self, first_row: usize, values: &mut [f32]) {
        let columns = self.stored.1.max(1);
        match &self.quantization {
            Quantization::None => {}
            Quantization::PerTensor { scale, zero_point } => {
                for value in values {
                    *value = (*value - zero_point) * scale;
                }
            }
            Quantization::PerRow { scales, zero_points } => {
                let pairs = scales.iter().zip(zero_points.iter()).skip(first_row);
                for (row, (scale, zero_point)) in values.chunks_exact_mut(columns).zip(pairs) {
                    for value in row {
                        *value = (*value - zero_point) * scale;
                    }
                }
            }
            Quantization::PerColumn { scales, zero_points } => {
                for row in values.chunks_exact_mut(columns) {
                    for ((value, scale), zero_point) in row.iter_mut().zip(scales.iter()).zip(zero_points.iter()) {
                        *value = (*value - zero_point) * scale;
                    }
                }
            }
        }
    }
}

/// Most dimensions of a tensor; networks have up to five.
const MAX_RANK: usize = 8;

/// Rows and columns of a shape; none where there are too many dimensions or values.
fn matrix_of(shape: &[usize]) -> Option<(usize, usize)> {
    if shape.len() > MAX_RANK {
        return None;
    }
    // Dimensions may be multiplied in any order: a zero at the end does not save what overflows before it.
    shape.iter().filter(|n| **n > 0).try_fold(1usize, |count, n| count.checked_mul(*n))?;
    let (rows, rest) = shape.split_first().unwrap_or((&1, &[]));
    Some((*rows, rest.iter().product()))
}
