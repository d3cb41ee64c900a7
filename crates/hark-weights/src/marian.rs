//! Marian's binary models, as Firefox's translation models are published.
//!
//! Little-endian: `u64` version 1, `u64` count of items; for each item four `u64` (bytes of its name with a final NUL, type, rank, bytes of its data); all
//! names; all shapes, `i32` each; a `u64` of padding bytes and the padding; then the data of all items.
//!
//! An item of type intgemm8 is a matrix of int8 followed by the `f32` that its values were multiplied with. It is stored in the order of its outputs:
//! what is declared as `[inputs, outputs]` lies in the file as rows of `inputs` values. Tables of embeddings are declared as they are stored.

use std::sync::Arc;

use crate::reader::Reader;
use crate::{Dtype, FileError, MAX_TENSORS, Quantization, Tensor, Tensors, WeightsFile};

const VERSION: u64 = 1;
const INT8_TEXT: u64 = 0x101;
const FLOAT32: u64 = 0x404;
const INTGEMM8: u64 = 0x4101;
/// The item that holds the configuration as YAML.
const CONFIG: &str = "special:model.yml";
/// Bytes of a name and numbers of a shape that are read.
const MAX_NAME: usize = 4096;
const MAX_RANK: usize = 8;

/// A Marian model.
pub struct MarianModel {
    /// The configuration it was trained with, in YAML.
    pub config: String,
    /// Its items. Matrices have the shape `[outputs, inputs]`, whether they were stored as int8 or float32; embeddings `[words, width]`.
    pub tensors: Tensors,
}

struct Item {
    name_bytes: usize,
    kind: u64,
    rank: usize,
    bytes: usize,
}

impl MarianModel {
    /// Reads the table of items.
    pub fn read(file: &Arc<WeightsFile>) -> Result<Self, FileError> {
        let mut reader = Reader::new(file);
        let version = reader.u64()?;
        if version != VERSION {
            return Err(file.unsupported(format!("it is no Marian model of version {VERSION} (version {version})")));
        }
        let count = reader.size64()?;
        if count > MAX_TENSORS {
            return Err(file.damaged(format!("it announces {count} items")));
        }
        let mut items = Vec::new();
        for _ in 0..count {
            let (name_bytes, kind) = (reader.size64()?, reader.u64()?);
            let (rank, bytes) = (reader.size64()?, reader.size64()?);
            if name_bytes > MAX_NAME || rank > MAX_RANK {
                return Err(file.damaged("an item has an impossible name or shape"));
            }
            items.push(Item { name_bytes, kind, rank, bytes });
        }
        let mut names = Vec::with_capacity(items.len());
        for item in &items {
            let name = reader.bytes(item.name_bytes)?;
            let name = name.strip_suffix(&[0]).unwrap_or(name);
            names.push(std::str::from_utf8(name).map_err(|_| file.damaged("a name is not UTF-8"))?);
        }
        let mut shapes = Vec::with_capacity(items.len());
        for item in &items {
            shapes.push((0..item.rank).map(|_| reader.size()).collect::<Result<Vec<_>, _>>()?);
        }
        let padding = reader.size64()?;
        reader.bytes(padding)?;
        let mut model = MarianModel { config: String::new(), tensors: Tensors::new(file.path()) };
        for ((item, name), shape) in items.iter().zip(names).zip(shapes) {
            let start = reader.position();
            let data = reader.bytes(item.bytes)?;
            if name == CONFIG && item.kind == INT8_TEXT {
                let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
                model.config = String::from_utf8_lossy(text).into_owned();
                continue;
            }
            match tensor(file, name, item.kind, shape, start, data)? {
                Some(tensor) => model.tensors.insert(tensor)?,
                None => model.tensors.insert_unsupported(name.to_owned(), format!("has type {:#x}", item.kind))?,
            }
        }
        Ok(model)
    }
}

/// The tensor of an item; none where its type is not supported.
fn tensor(
    file: &Arc<WeightsFile>,
    name: &str,
    kind: u64,
    mut shape: Vec<usize>,
    start: usize,
    data: &[u8],
) -> Result<Option<Tensor>, FileError> {
    let values = shape.iter().try_fold(1usize, |count, n| count.checked_mul(*n));
    let declared = format!("{name} has too few bytes for shape {shape:?}");
    let too_short = || file.damaged(&*declared);
    let values = values.ok_or_else(too_short)?;
    let is_matrix = shape.len() == 2 && shape[0] > 1 && shape[1] > 1 && !name.ends_with("Wemb");
    match kind {
        FLOAT32 => {
            // Items are padded to whole cache lines.
            let end = values.checked_mul(4).filter(|bytes| *bytes <= data.len()).ok_or_else(too_short)?;
            let tensor = Tensor::new(name, shape, Dtype::F32, file, start..start + end)?;
            Ok(Some(if is_matrix { tensor.transposed()? } else { tensor }))
        }
        INTGEMM8 => {
            let multiplier = data.get(values..).and_then(|rest| rest.first_chunk()).ok_or_else(too_short)?;
            let multiplier = f32::from_le_bytes(*multiplier);
            if !multiplier.is_finite() || multiplier <= 0.0 {
                return Err(file.damaged(format!("{name} has the impossible multiplier {multiplier}")));
            }
            if is_matrix {
                shape.reverse();
            }
            let tensor = Tensor::new(name, shape, Dtype::I8, file, start..start + values)?;
            Ok(Some(tensor.quantized(Quantization::PerTensor { scale: 1.0 / multiplier, zero_point: 0.0 })?))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Part<'a> {
        name: &'a str,
        kind: u64,
        shape: &'a [i32],
        data: Vec<u8>,
    }

    fn write(parts: &[Part]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(VERSION.to_le_bytes());
        out.extend((parts.len() as u64).to_le_bytes());
        for part in parts {
            for number in [part.name.len() as u64 + 1, part.kind, part.shape.len() as u64, part.data.len() as u64] {
                out.extend(number.to_le_bytes());
            }
        }
        for part in parts {
            out.extend(part.name.as_bytes());
            out.push(0);
        }
        parts.iter().flat_map(|part| part.shape).for_each(|n| out.extend(n.to_le_bytes()));
        out.extend(3u64.to_le_bytes());
        out.extend([0; 3]);
        parts.iter().for_each(|part| out.extend(&part.data));
        out
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn example() -> Vec<u8> {
        let mut int8: Vec<u8> = [1i8, 2, 3, -4, -5, -6].map(|value| value as u8).to_vec();
        int8.extend(4f32.to_le_bytes());
        let mut embeddings = vec![8, 0, 0xf8, 4];
        embeddings.extend(2f32.to_le_bytes());
        embeddings.resize(256, 0);
        write(&[
            Part { name: "l1_W", kind: INTGEMM8, shape: &[3, 2], data: int8 },
            Part { name: "l2_W", kind: FLOAT32, shape: &[3, 2], data: floats(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]) },
            Part { name: "Wemb", kind: INTGEMM8, shape: &[2, 2], data: embeddings },
            Part { name: "b", kind: FLOAT32, shape: &[1, 2], data: floats(&[0.5, 1.5, 0.0, 0.0]) },
            Part { name: "odd", kind: 0x208, shape: &[1], data: vec![0; 8] },
            Part { name: CONFIG, kind: INT8_TEXT, shape: &[8], data: b"dim: 2\n\0".to_vec() },
        ])
    }

    #[test]
    fn matrices_have_a_row_for_each_output_however_they_are_stored() {
        let model = MarianModel::read(&WeightsFile::from_bytes("model.bin", example())).unwrap();
        let values = |name: &str| {
            let tensor = model.tensors.get(name).unwrap();
            (tensor.shape().to_vec(), tensor.to_f32())
        };
        assert_eq!(values("l1_W"), (vec![2, 3], vec![0.25, 0.5, 0.75, -1.0, -1.25, -1.5]));
        assert_eq!(values("l2_W"), (vec![2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        assert_eq!(values("Wemb"), (vec![2, 2], vec![4.0, 0.0, -4.0, 2.0]));
        assert_eq!(values("b"), (vec![1, 2], vec![0.5, 1.5]));
        assert!(model.tensors.get("odd").is_err());
        assert_eq!(model.config, "dim: 2\n");
    }

    #[test]
    fn a_file_that_ends_early_or_lies_about_its_sizes_is_an_error() {
        let whole = example();
        for length in 0..whole.len() {
            let cut = WeightsFile::from_bytes("model.bin", whole[..length].to_vec());
            assert!(MarianModel::read(&cut).is_err(), "{length} of {} bytes", whole.len());
        }
        // The count of items, and of the first item its name, rank and bytes.
        for at in [8, 16, 32, 40] {
            let mut lying = whole.clone();
            lying[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
            assert!(MarianModel::read(&WeightsFile::from_bytes("model.bin", lying)).is_err(), "at {at}");
        }
    }
}
