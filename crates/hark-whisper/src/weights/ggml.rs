//! whisper.cpp's ggml `.bin`.
//!
//! Little-endian `i32`: magic, eleven sizes, then the mel filterbank (`n_mel`, `n_fft`, `f32` values), the
//! vocabulary (count; each a length and bytes) and tensors until the end of the file: dimensions, name length,
//! type, sizes with the fastest first, name, data. Names are OpenAI's.

use std::collections::HashMap;
use std::path::Path;

use super::file::{Reader, WeightsFile};
use super::folder::Facts;
use super::tensor::{Element, Tensor};
use super::{Format, Found, WeightsError};

/// "ggml" as a little-endian number.
pub(super) const MAGIC: [u8; 4] = *b"lmgg";

pub(super) fn open(path: &Path) -> Result<Found, WeightsError> {
    let files = vec![WeightsFile::open(path)?];
    let file = &files[0];
    let mut reader = Reader::new(file);
    reader.take(MAGIC.len())?;
    // n_vocab, audio: ctx, state, head, layer, text: ctx, state, head, layer, n_mels, file type
    let mut sizes = [0usize; 11];
    for size in &mut sizes {
        *size = reader.size()?;
    }
    let (audio_heads, text_heads) = (sizes[3], sizes[7]);

    let filters = reader.size()?.checked_mul(reader.size()?).and_then(|count| count.checked_mul(4));
    reader.take(filters.ok_or_else(|| file.damaged("absurd filterbank"))?)?;

    let mut vocabulary = Vec::new();
    for _ in 0..reader.u32()? {
        let length = reader.size()?;
        vocabulary.push(reader.take(length)?.to_vec());
    }

    let mut tensors = HashMap::new();
    while !reader.is_at_end() {
        let (rank, name_length, kind) = (reader.size()?, reader.size()?, reader.u32()?);
        if rank > 4 {
            return Err(file.damaged(format!("a tensor with {rank} dimensions")));
        }
        let mut shape = (0..rank).map(|_| reader.size()).collect::<Result<Vec<_>, _>>()?;
        shape.reverse();
        let name = String::from_utf8_lossy(reader.take(name_length)?).into_owned();
        let element = match kind {
            0 => Element::F32,
            1 => Element::F16,
            2 => Element::Q4_0,
            3 => Element::Q4_1,
            6 => Element::Q5_0,
            7 => Element::Q5_1,
            8 => Element::Q8_0,
            other => {
                return Err(file.unsupported(format!(
                    "{name} has ggml type {other}; use a file of f32, f16, q8_0, q5_0, q5_1, q4_0 or q4_1"
                )));
            }
        };
        let columns = shape.get(1..).unwrap_or(&[]).iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let bytes = columns
            .and_then(|columns| element.bytes_for(columns))
            .and_then(|row| row.checked_mul(shape.first().copied().unwrap_or(1)))
            .ok_or_else(|| file.damaged(format!("{name} has an absurd shape {shape:?}")))?;
        let offset = reader.position();
        reader.take(bytes)?;
        let tensor = Tensor::stored(&files, 0, offset, bytes, element, shape)
            .map_err(|what| file.damaged(format!("{name}: {what}")))?;
        tensors.insert(name, tensor);
    }
    Ok(Found {
        format: Format::Ggml,
        tensors,
        audio_heads: Some(audio_heads),
        text_heads: Some(text_heads),
        vocabulary: Some(vocabulary),
        facts: Facts::default(),
        files,
    })
}
