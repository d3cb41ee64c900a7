//! Hugging Face safetensors: a `u64` header length, a JSON header, then the data that its offsets count from.
//!
//! The `safetensors` crate parses the header and checks that the tensors fill the data without gaps or overlaps.

use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path};
use std::sync::Arc;

use safetensors::Dtype as Stored;
use safetensors::tensor::Metadata;
use serde::Deserialize;

use crate::{Dtype, FileError, Tensor, Tensors, WeightsFile};

/// Longest header, the format's own limit.
const MAX_HEADER: usize = 100_000_000;
/// Longest index of a sharded model: the largest published ones take a few MB.
const MAX_INDEX: usize = 64 << 20;

/// The index of a sharded model: which file holds each tensor.
#[derive(Deserialize)]
struct Index {
    weight_map: HashMap<String, String>,
}

/// The tensors of one file.
pub fn read(file: &Arc<WeightsFile>) -> Result<Tensors, FileError> {
    let (length, rest) =
        file.bytes().split_first_chunk::<8>().ok_or_else(|| file.damaged("it is too short for safetensors"))?;
    let header = usize::try_from(u64::from_le_bytes(*length))
        .ok()
        .filter(|length| *length <= MAX_HEADER)
        .and_then(|length| rest.get(..length))
        .ok_or_else(|| file.damaged("its header is longer than the file or the format allows"))?;
    let metadata: Metadata =
        serde_json::from_slice(header).map_err(|error| file.damaged(format!("its header: {error}")))?;
    let data = 8 + header.len();
    if data.checked_add(metadata.data_len()) != Some(file.bytes().len()) {
        return Err(file.damaged(format!(
            "its header describes {} bytes of data, but {} follow",
            metadata.data_len(),
            file.bytes().len() - data
        )));
    }
    let mut tensors = Tensors::new(file.path());
    for (name, info) in metadata.tensors() {
        let dtype = match info.dtype {
            Stored::F64 => Dtype::F64,
            Stored::F32 => Dtype::F32,
            Stored::F16 => Dtype::F16,
            Stored::BF16 => Dtype::Bf16,
            Stored::I64 => Dtype::I64,
            Stored::I32 => Dtype::I32,
            Stored::I16 => Dtype::I16,
            Stored::I8 => Dtype::I8,
            Stored::U8 => Dtype::U8,
            other => {
                tensors.insert_unsupported(name, format!("has type {other}, which is not supported"))?;
                continue;
            }
        };
        let (start, end) = info.data_offsets;
        tensors.insert(Tensor::new(name, info.shape.clone(), dtype, file, data + start..data + end)?)?;
    }
    Ok(tensors)
}

/// The tensors of a model in several files, by its `model.safetensors.index.json`.
pub fn read_sharded(index: &Path) -> Result<Tensors, FileError> {
    let file = WeightsFile::open(index)?;
    if file.bytes().len() > MAX_INDEX {
        return Err(file.damaged("it is too large for an index"));
    }
    let table: Index = serde_json::from_slice(file.bytes()).map_err(|error| file.damaged(error.to_string()))?;
    let folder = index.parent().unwrap_or(Path::new("."));
    let names: BTreeSet<&String> = table.weight_map.values().collect();
    if names.is_empty() {
        return Err(file.damaged("it names no files"));
    }
    let mut tensors = Tensors::new(index);
    for name in names {
        // A shard lies beside its index: a name that climbs out of the folder is an attack, not a model.
        let mut components = Path::new(name).components();
        if !matches!((components.next(), components.next()), (Some(Component::Normal(_)), None)) {
            return Err(file.damaged(format!("{name:?} is no file beside it")));
        }
        tensors.extend(read(&WeightsFile::open(&folder.join(name))?)?)?;
    }
    Ok(tensors)
}
