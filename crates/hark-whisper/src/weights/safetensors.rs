//! Hugging Face safetensors: `u64` length of a JSON table, the table, then the data its offsets count from.

use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path};

use serde::Deserialize;

use super::file::WeightsFile;
use super::folder::{Facts, read_small};
use super::names::from_hugging_face;
use super::tensor::{Element, Tensor};
use super::{Format, Found, WeightsError};

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// The index of a sharded model: which file holds each tensor.
#[derive(Deserialize)]
struct Index {
    weight_map: HashMap<String, String>,
}

pub(super) fn open(path: &Path, facts: Facts) -> Result<Found, WeightsError> {
    open_files(vec![WeightsFile::open(path)?], facts)
}

pub(super) fn open_sharded(index: &Path, facts: Facts) -> Result<Found, WeightsError> {
    let table: Index =
        serde_json::from_slice(&read_small(index)?).map_err(|error| WeightsError::damaged(index, error.to_string()))?;
    let folder = index.parent().unwrap_or(Path::new("."));
    let names: BTreeSet<&String> = table.weight_map.values().collect();
    let mut files = Vec::new();
    for name in names {
        // A shard lies beside its index: a name that climbs out of the folder is an attack, not a model.
        let mut components = Path::new(name).components();
        if !matches!((components.next(), components.next()), (Some(Component::Normal(_)), None)) {
            return Err(WeightsError::damaged(index, format!("{name:?} is no file beside it")));
        }
        files.push(WeightsFile::open(&folder.join(name))?);
    }
    if files.is_empty() {
        return Err(WeightsError::damaged(index, "it names no files"));
    }
    open_files(files, facts)
}

fn open_files(files: Vec<WeightsFile>, facts: Facts) -> Result<Found, WeightsError> {
    let mut tensors = HashMap::new();
    for (number, file) in files.iter().enumerate() {
        let bytes = file.bytes();
        let length = bytes
            .first_chunk::<8>()
            .and_then(|length| usize::try_from(u64::from_le_bytes(*length)).ok())
            .filter(|length| *length <= bytes.len() - 8)
            .ok_or_else(|| file.damaged("its table is longer than the file"))?;
        let (table, data) = bytes[8..].split_at(length);
        let table: HashMap<String, serde_json::Value> =
            serde_json::from_slice(table).map_err(|error| file.damaged(error.to_string()))?;
        for (name, entry) in table {
            if name == "__metadata__" {
                continue;
            }
            let entry: Entry =
                serde_json::from_value(entry).map_err(|error| file.damaged(format!("{name}: {error}")))?;
            let element = match entry.dtype.as_str() {
                "F32" => Element::F32,
                "F16" => Element::F16,
                "BF16" => Element::Bf16,
                // Whisper has no tensors of other types; what a fine-tune adds is not needed.
                _ => continue,
            };
            let (start, end) = entry.data_offsets;
            if start > end || end > data.len() {
                return Err(file.damaged(format!("{name} lies outside the file")));
            }
            let tensor = Tensor::stored(&files, number, 8 + length + start, end - start, element, entry.shape)
                .map_err(|what| file.damaged(format!("{name}: {what}")))?;
            tensors.insert(from_hugging_face(&name), tensor);
        }
    }
    Ok(Found {
        format: Format::Safetensors,
        tensors,
        audio_heads: facts.encoder_attention_heads,
        text_heads: facts.decoder_attention_heads,
        vocabulary: None,
        facts,
        files,
    })
}
