//! GGUF, versions 2 and 3: metadata and tensors of llama.cpp's models.
//!
//! Little-endian: magic, `u32` version, `u64` counts of tensors and of metadata; each metadata a string key, a `u32`
//! type and a value; each tensor a string name, `u32` rank, `u64` sizes with the fastest first, a `u32` type and a
//! `u64` offset into the data, which begins at the next multiple of `general.alignment`. A string is a `u64` length
//! and bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ggml::stored_bytes;
use crate::reader::Reader;
use crate::{Dtype, FileError, MAX_TENSORS, Tensor, Tensors, WeightsFile};

/// What a GGUF file starts with.
pub const MAGIC: [u8; 4] = *b"GGUF";

/// Most values of all metadata; a vocabulary of 262,144 tokens with scores, types and merges has 1.3 million.
const MAX_VALUES: usize = 1 << 22;
/// Deepest arrays of arrays.
const MAX_DEPTH: usize = 4;

/// A value of the metadata.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// An integer without a sign, of any width.
    Unsigned(u64),
    /// An integer, of any width.
    Signed(i64),
    /// A float, of either width.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text; what is not UTF-8 in it is replaced.
    Text(String),
    /// Values of one type.
    Array(Vec<Value>),
}

impl Value {
    /// The value as an integer, if it is one.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Unsigned(value) => Some(*value),
            Self::Signed(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// The value as text, if it is some.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// A model in GGUF.
pub struct GgufModel {
    /// The metadata by key: `general.architecture`, `tokenizer.ggml.tokens`.
    pub metadata: BTreeMap<String, Value>,
    /// Its tensors; those of types that are not supported are listed, but can't be read.
    pub tensors: Tensors,
}

impl GgufModel {
    /// Reads the metadata and the table of tensors.
    pub fn read(file: &Arc<WeightsFile>) -> Result<Self, FileError> {
        let mut parser = Parser { reader: Reader::new(file), file, values: 0 };
        if parser.reader.array()? != MAGIC {
            return Err(file.damaged("it does not start as a GGUF file"));
        }
        let version = parser.reader.u32()?;
        if !(2..=3).contains(&version) {
            return Err(file.unsupported(format!("GGUF version {version}; convert the model again")));
        }
        let (tensor_count, metadata_count) = (parser.reader.size64()?, parser.reader.size64()?);
        if tensor_count > MAX_TENSORS {
            return Err(file.damaged(format!("it lists {tensor_count} tensors")));
        }
        let mut metadata = BTreeMap::new();
        for _ in 0..metadata_count {
            let key = parser.text()?;
            let kind = parser.reader.u32()?;
            metadata.insert(key, parser.value(kind, 0)?);
        }
        let entries = (0..tensor_count).map(|_| parser.entry()).collect::<Result<Vec<_>, _>>()?;

        let alignment = match metadata.get("general.alignment").map(Value::as_u64) {
            None => 32,
            Some(alignment) => alignment
                .and_then(|alignment| usize::try_from(alignment).ok())
                .filter(|alignment| alignment.is_power_of_two() && *alignment <= 1 << 20)
                .ok_or_else(|| file.damaged("its general.alignment is no small power of two"))?,
        };
        let data = parser.reader.position().next_multiple_of(alignment);
        let mut tensors = Tensors::new(file.path());
        for Entry { name, shape, kind, offset } in entries {
            let Some(dtype) = Dtype::from_ggml(kind) else {
                tensors.insert_unsupported(name, format!("has ggml type {kind}, which is not supported"))?;
                continue;
            };
            let bytes = stored_bytes(dtype, &shape)
                .ok_or_else(|| file.damaged(format!("{name} has the impossible shape {shape:?} for {dtype:?}")))?;
            let start = data.checked_add(offset);
            let range = start.and_then(|start| Some(start..start.checked_add(bytes)?));
            let range = range.ok_or_else(|| file.damaged(format!("{name} lies past the end of the file")))?;
            tensors.insert(Tensor::new(name, shape, dtype, file, range)?)?;
        }
        Ok(Self { metadata, tensors })
    }
}

/// A tensor as the table lists it.
struct Entry {
    name: String,
    shape: Vec<usize>,
    kind: u32,
    offset: usize,
}

struct Parser<'a> {
    reader: Reader<'a>,
    file: &'a WeightsFile,
    /// Values of the metadata so far.
    values: usize,
}

impl Parser<'_> {
    fn text(&mut self) -> Result<String, FileError> {
        let length = self.reader.size64()?;
        Ok(String::from_utf8_lossy(self.reader.bytes(length)?).into_owned())
    }

    fn value(&mut self, kind: u32, depth: usize) -> Result<Value, FileError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(self.file.damaged(format!("its metadata has more than {MAX_VALUES} values")));
        }
        let reader = &mut self.reader;
        Ok(match kind {
            0 => Value::Unsigned(u64::from(reader.u8()?)),
            1 => Value::Signed(i64::from(i8::from_le_bytes(reader.array()?))),
            2 => Value::Unsigned(u64::from(reader.u16()?)),
            3 => Value::Signed(i64::from(i16::from_le_bytes(reader.array()?))),
            4 => Value::Unsigned(u64::from(reader.u32()?)),
            5 => Value::Signed(i64::from(i32::from_le_bytes(reader.array()?))),
            6 => Value::Float(f64::from(f32::from_le_bytes(reader.array()?))),
            7 => Value::Bool(reader.u8()? != 0),
            8 => Value::Text(self.text()?),
            9 if depth < MAX_DEPTH => {
                let (kind, count) = (reader.u32()?, reader.size64()?);
                // Not `with_capacity`: the count may lie, and only what follows in the file says so.
                let mut values = Vec::new();
                for _ in 0..count {
                    values.push(self.value(kind, depth + 1)?);
                }
                Value::Array(values)
            }
            9 => return Err(self.file.damaged("its metadata nests arrays too deep")),
            10 => Value::Unsigned(reader.u64()?),
            11 => Value::Signed(i64::from_le_bytes(reader.array()?)),
            12 => Value::Float(f64::from_le_bytes(reader.array()?)),
            other => return Err(self.file.damaged(format!("its metadata has the unknown type {other}"))),
        })
    }

    fn entry(&mut self) -> Result<Entry, FileError> {
        let name = self.text()?;
        let rank = self.reader.u32()?;
        if rank > 4 {
            return Err(self.file.damaged(format!("{name} has {rank} dimensions")));
        }
        let mut shape = (0..rank).map(|_| self.reader.size64()).collect::<Result<Vec<_>, _>>()?;
        shape.reverse();
        let kind = self.reader.u32()?;
        Ok(Entry { name, shape, kind, offset: self.reader.size64()? })
    }
}
