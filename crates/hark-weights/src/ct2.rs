//! CTranslate2's `model.bin`.
//!
//! Little-endian: `u32` version, string spec name, `u32` revision, `u32` count of variables, each with a string
//! name, `u8` rank, `u32` dims, `u8` type, `u32` bytes and its data; then `u32` count of aliases, each two strings.
//! A string is a `u16` length with a final NUL. An integer weight has its scales (stored = value × scale) in a
//! variable beside it, `X_scale`.

use std::sync::Arc;

use crate::reader::Reader;
use crate::{Dtype, FileError, Quantization, Tensor, Tensors, WeightsFile};

/// A CTranslate2 model.
pub struct Ct2Model {
    /// The kind of model: "WhisperSpec", "TransformerSpec".
    pub spec: String,
    /// The revision of that kind.
    pub revision: u32,
    /// Its variables; aliases are listed as tensors of their own.
    pub tensors: Tensors,
}

impl Ct2Model {
    /// Reads the table of variables and aliases.
    pub fn read(file: &Arc<WeightsFile>) -> Result<Self, FileError> {
        let mut reader = Reader::new(file);
        let version = reader.u32()?;
        if !(4..=64).contains(&version) {
            return Err(file.unsupported(format!(
                "it is neither ggml nor a CTranslate2 model of version 4 or later (version {version}); convert the model again"
            )));
        }
        let spec = string(&mut reader, file)?;
        let revision = reader.u32()?;
        let mut stored = Tensors::new(file.path());
        for _ in 0..reader.u32()? {
            read_variable(&mut reader, file, &mut stored)?;
        }
        let mut tensors = Tensors::new(file.path());
        for tensor in stored.iter() {
            tensors.insert(scaled(tensor, &stored)?)?;
        }
        for name in stored.names().filter(|name| stored.get(name).is_err()) {
            tensors.insert_unsupported(name.to_owned(), "has an unknown type".into())?;
        }
        if !reader.is_at_end() {
            for _ in 0..reader.u32()? {
                let alias = string(&mut reader, file)?;
                let name = string(&mut reader, file)?;
                // Only a variable can be meant, never another alias: so there are no circles to follow.
                if let (true, false) = (stored.contains(&name), tensors.contains(&alias))
                    && let Ok(tensor) = tensors.get(&name)
                {
                    let tensor = tensor.clone().renamed(alias);
                    tensors.insert(tensor)?;
                }
            }
        }
        Ok(Self { spec, revision, tensors })
    }

    /// An integer attribute, such as `encoder/num_heads`.
    pub fn attribute(&self, name: &str) -> Option<i64> {
        let tensor = self.tensors.get(name).ok()?;
        match (tensor.dtype(), tensor.bytes()) {
            (Dtype::I8, [a]) => Some(i64::from(*a as i8)),
            (Dtype::I16, [a, b]) => Some(i64::from(i16::from_le_bytes([*a, *b]))),
            (Dtype::I32, [a, b, c, d]) => Some(i64::from(i32::from_le_bytes([*a, *b, *c, *d]))),
            _ => None,
        }
    }
}

fn read_variable(reader: &mut Reader, file: &Arc<WeightsFile>, tensors: &mut Tensors) -> Result<(), FileError> {
    let name = string(reader, file)?;
    let rank = reader.u8()?;
    let shape = (0..rank).map(|_| reader.size()).collect::<Result<Vec<_>, _>>()?;
    let dtype = match reader.u8()? {
        0 => Some(Dtype::F32),
        1 => Some(Dtype::I8),
        2 => Some(Dtype::I16),
        3 => Some(Dtype::I32),
        4 => Some(Dtype::F16),
        5 => Some(Dtype::Bf16),
        _ => None,
    };
    let bytes = reader.size()?;
    let start = reader.position();
    reader.bytes(bytes)?;
    match dtype {
        Some(dtype) => tensors.insert(Tensor::new(name, shape, dtype, file, start..start + bytes)?),
        None => tensors.insert_unsupported(name, String::new()),
    }
}

/// The tensor with the scales that lie beside it.
fn scaled(tensor: &Tensor, all: &Tensors) -> Result<Tensor, FileError> {
    let scale = match tensor.dtype() {
        Dtype::I8 | Dtype::I16 => all.get(&format!("{}_scale", tensor.name())).ok(),
        _ => None,
    };
    let Some(scale) = scale.filter(|scale| scale.dtype() == Dtype::F32) else {
        return Ok(tensor.clone());
    };
    let scales: Arc<[f32]> = scale.to_f32().iter().map(|scale| 1.0 / scale).collect();
    tensor.clone().quantized(match scales[..] {
        [scale] => Quantization::PerTensor { scale, zero_point: 0.0 },
        _ => Quantization::PerRow { zero_points: vec![0.0; scales.len()].into(), scales },
    })
}

fn string(reader: &mut Reader, file: &WeightsFile) -> Result<String, FileError> {
    let length = reader.u16()? as usize;
    let bytes = reader.bytes(length)?;
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    String::from_utf8(bytes.to_vec()).map_err(|_| file.damaged("a name is not UTF-8"))
}
