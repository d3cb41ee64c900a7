//! Finding the weights in a folder, and reading the small JSON files beside them.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use hark_weights::ggml::{self, GgmlModel};
use hark_weights::{FileError, Tensors, WeightsFile, safetensors};
use serde::Deserialize;

use super::names::from_hugging_face;
use super::source::Source;
use super::{Format, Found, WeightsError, ct2, onnx};

/// Facts of generation found in `config.json` and `generation_config.json`.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct Facts {
    pub alignment_heads: Option<Vec<(usize, usize)>>,
    #[serde(alias = "suppress_ids")]
    pub suppress_tokens: Option<Vec<u32>>,
    #[serde(alias = "suppress_ids_begin")]
    pub begin_suppress_tokens: Option<Vec<u32>>,
    pub encoder_attention_heads: Option<usize>,
    pub decoder_attention_heads: Option<usize>,
}

/// JSON companions larger than this are no configuration.
const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// Finds the weights at a path and reads their tables.
pub(super) fn find(path: &Path) -> Result<Found, WeightsError> {
    let metadata = fs::metadata(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    if metadata.is_file() {
        return open_file(path);
    }
    for folder in [path.to_owned(), path.join("onnx")] {
        for name in ["model.safetensors.index.json", "model.safetensors", "model.bin"] {
            let file = folder.join(name);
            if file.is_file() {
                return open_file(&file);
            }
        }
        if let Some((encoder, decoder)) = onnx_pair(&folder) {
            return onnx::open(&encoder, &decoder, read_facts(path)?);
        }
    }
    let entries = fs::read_dir(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        if file.extension().is_some_and(|e| e == "bin") && starts_with(&file, &ggml::MAGIC) {
            return open_file(&file);
        }
    }
    Err(WeightsError::NothingFound { path: path.to_owned() })
}

fn open_file(path: &Path) -> Result<Found, WeightsError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    if name.ends_with(".safetensors.index.json") {
        return Ok(hugging_face(safetensors::read_sharded(path)?, read_facts(folder)?));
    }
    if name.ends_with(".safetensors") {
        return Ok(hugging_face(safetensors::read(&WeightsFile::open(path)?)?, read_facts(folder)?));
    }
    if name.ends_with(".onnx") {
        let Some((encoder, decoder)) = onnx_pair(folder) else {
            return Err(WeightsError::NothingFound { path: folder.to_owned() });
        };
        // transformers.js keeps the graphs one folder below their configuration.
        let beside = folder.join("config.json").is_file();
        let configuration = if beside { folder } else { folder.parent().unwrap_or(folder) };
        return onnx::open(&encoder, &decoder, read_facts(configuration)?);
    }
    if starts_with(path, &ggml::MAGIC) {
        return whisper_cpp(path);
    }
    ct2::open(path, read_facts(folder)?)
}

/// Safetensors under Hugging Face's names; tensors of other types, which a fine-tune may add, are not needed.
fn hugging_face(tensors: Tensors, facts: Facts) -> Found {
    Found {
        format: Format::Safetensors,
        file: tensors.path().to_owned(),
        tensors: tensors
            .iter()
            .filter(|tensor| !tensor.dtype().is_integer())
            .map(|tensor| (from_hugging_face(tensor.name()), Source::Stored(tensor.clone())))
            .collect(),
        audio_heads: facts.encoder_attention_heads,
        text_heads: facts.decoder_attention_heads,
        vocabulary: None,
        facts,
    }
}

/// whisper.cpp's file, whose names are OpenAI's.
fn whisper_cpp(path: &Path) -> Result<Found, WeightsError> {
    let model = GgmlModel::read(&WeightsFile::open(path)?)?;
    Ok(Found {
        format: Format::Ggml,
        file: path.to_owned(),
        tensors: model
            .tensors
            .iter()
            .map(|tensor| (tensor.name().to_owned(), Source::Stored(tensor.clone())))
            .collect(),
        audio_heads: Some(model.sizes[3]),
        text_heads: Some(model.sizes[7]),
        vocabulary: Some(model.vocabulary),
        facts: Facts::default(),
    })
}

/// The encoder and decoder graphs of a folder, the quantized ones first as they are what registries carry.
fn onnx_pair(folder: &Path) -> Option<(PathBuf, PathBuf)> {
    for kind in ["_quantized", "_int8", "", "_fp16"] {
        let encoder = folder.join(format!("encoder_model{kind}.onnx"));
        for merged in ["_merged", ""] {
            let decoder = folder.join(format!("decoder_model{merged}{kind}.onnx"));
            if encoder.is_file() && decoder.is_file() {
                return Some((encoder, decoder));
            }
        }
    }
    None
}

fn starts_with(path: &Path, magic: &[u8; 4]) -> bool {
    let mut start = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *magic
}

/// Facts from `generation_config.json` first, `config.json` for what it lacks.
fn read_facts(folder: &Path) -> Result<Facts, WeightsError> {
    let mut facts = Facts::default();
    for name in ["generation_config.json", "config.json"] {
        let path = folder.join(name);
        if !path.is_file() {
            continue;
        }
        let more: Facts = serde_json::from_slice(&read_small(&path)?)
            .map_err(|error| WeightsError::damaged(&path, error.to_string()))?;
        facts.alignment_heads = facts.alignment_heads.or(more.alignment_heads);
        facts.suppress_tokens = facts.suppress_tokens.or(more.suppress_tokens);
        facts.begin_suppress_tokens = facts.begin_suppress_tokens.or(more.begin_suppress_tokens);
        facts.encoder_attention_heads = facts.encoder_attention_heads.or(more.encoder_attention_heads);
        facts.decoder_attention_heads = facts.decoder_attention_heads.or(more.decoder_attention_heads);
    }
    Ok(facts)
}

/// A JSON companion's bytes, bounded.
fn read_small(path: &Path) -> Result<Vec<u8>, WeightsError> {
    let file = WeightsFile::open(path)?;
    if file.bytes().len() as u64 > MAX_CONFIG_BYTES {
        return Err(file.damaged("it is too large for a configuration").into());
    }
    Ok(file.bytes().to_vec())
}
