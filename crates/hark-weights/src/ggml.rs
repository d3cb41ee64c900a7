//! whisper.cpp's ggml `.bin`.
//!
//! Little-endian `u32`: magic, eleven sizes, then the mel filterbank (`n_mel`, `n_fft`, `f32` values), the
//! vocabulary (count; each a length and bytes) and tensors until the end of the file: dimensions, name length,
//! type, sizes with the fastest first, name, data. Names are OpenAI's.

use std::sync::Arc;

use crate::reader::Reader;
use crate::{Dtype, FileError, Tensor, Tensors, WeightsFile};

/// "ggml" as a little-endian number.
pub const MAGIC: [u8; 4] = *b"lmgg";

/// Most tokens of a vocabulary; published ones have up to 262,144.
const MAX_TOKENS: usize = 1 << 20;

/// A model in whisper.cpp's format.
pub struct GgmlModel {
    /// n_vocab, audio: ctx, state, head, layer, text: ctx, state, head, layer, n_mels, file type.
    pub sizes: [usize; 11],
    /// The bytes of each text token.
    pub vocabulary: Vec<Vec<u8>>,
    /// Its tensors.
    pub tensors: Tensors,
}

impl GgmlModel {
    /// Reads the header, the vocabulary and the table of tensors.
    pub fn read(file: &Arc<WeightsFile>) -> Result<Self, FileError> {
        let mut reader = Reader::new(file);
        if reader.array()? != MAGIC {
            return Err(file.damaged("it does not start as a ggml file"));
        }
        let mut sizes = [0usize; 11];
        for size in &mut sizes {
            *size = reader.size()?;
        }
        let filters = reader.size()?.checked_mul(reader.size()?).and_then(|count| count.checked_mul(4));
        reader.bytes(filters.ok_or_else(|| file.damaged("impossible filterbank"))?)?;

        let count = reader.size()?;
        if count > MAX_TOKENS {
            return Err(file.damaged(format!("a vocabulary of {count} tokens")));
        }
        let mut vocabulary = Vec::new();
        for _ in 0..count {
            let length = reader.size()?;
            vocabulary.push(reader.bytes(length)?.to_vec());
        }
        let mut tensors = Tensors::new(file.path());
        while !reader.is_at_end() {
            tensors.insert(read_tensor(&mut reader, file)?)?;
        }
        Ok(Self { sizes, vocabulary, tensors })
    }
}

fn read_tensor(reader: &mut Reader, file: &Arc<WeightsFile>) -> Result<Tensor, FileError> {
    let (rank, name_length, number) = (reader.size()?, reader.size()?, reader.u32()?);
    if rank > 4 {
        return Err(file.damaged(format!("a tensor with {rank} dimensions")));
    }
    let mut shape = (0..rank).map(|_| reader.size()).collect::<Result<Vec<_>, _>>()?;
    shape.reverse();
    let name = String::from_utf8_lossy(reader.bytes(name_length)?).into_owned();
    let Some(dtype) = Dtype::from_ggml(number) else {
        return Err(file.unsupported(format!(
            "{name} has ggml type {number}; use a file of f32, f16, q8_0, q5_0, q5_1, q4_0 or q4_1"
        )));
    };
    let bytes = stored_bytes(dtype, &shape)
        .ok_or_else(|| file.damaged(format!("{name} has the impossible shape {shape:?} for {dtype:?}")))?;
    let start = reader.position();
    reader.bytes(bytes)?;
    Tensor::new(name, shape, dtype, file, start..start + bytes)
}

/// Bytes that a tensor of this shape takes.
pub(crate) fn stored_bytes(dtype: Dtype, shape: &[usize]) -> Option<usize> {
    let (rows, rest) = shape.split_first().unwrap_or((&1, &[]));
    let columns = rest.iter().try_fold(1usize, |count, n| count.checked_mul(*n))?;
    dtype.bytes_for(columns)?.checked_mul(*rows)
}
