//! CTranslate2's `model.bin`.
//!
//! Little-endian: `u32` version, string spec name, `u32` revision, `u32` count of variables, each with a string
//! name, `u8` rank, `u32` dims, `u8` type, `u32` bytes and its data; then `u32` count of aliases, each two strings.
//! A string is a `u16` length with a final NUL. Queries, keys and values are stacked in one matrix; an integer
//! weight has its scales (stored = value × scale) in a variable beside it.

use std::collections::HashMap;
use std::path::Path;

use super::file::{Reader, WeightsFile};
use super::folder::Facts;
use super::tensor::{Element, Scaling, Tensor};
use super::{Format, Found, WeightsError};

/// A variable as the file lists it.
struct Variable {
    shape: Vec<usize>,
    kind: u8,
    offset: usize,
    bytes: usize,
}

pub(super) fn open(path: &Path, facts: Facts) -> Result<Found, WeightsError> {
    let files = vec![WeightsFile::open(path)?];
    let file = &files[0];
    let variables = read_table(file)?;

    let mut tensors = HashMap::new();
    for name in variables.keys() {
        for (canonical, part, parts) in canonical_names(name) {
            let tensor = read_tensor(&files, &variables, name)
                .and_then(|tensor| if parts == 1 { Ok(tensor) } else { tensor.part(part, parts) })
                .map_err(|what| file.damaged(format!("{name}: {what}")))?;
            tensors.insert(canonical, tensor);
        }
    }
    let heads = |side: &str| {
        let variable = variables.get(&format!("{side}/num_heads"))?;
        scalar(file, variable).map(|heads| heads as usize)
    };
    let (audio_heads, text_heads) = (heads("encoder"), heads("decoder"));
    Ok(Found { format: Format::CTranslate2, tensors, audio_heads, text_heads, vocabulary: None, facts, files })
}

fn read_table(file: &WeightsFile) -> Result<HashMap<String, Variable>, WeightsError> {
    let mut reader = Reader::new(file);
    let version = reader.u32()?;
    if !(4..=64).contains(&version) {
        return Err(file.unsupported(format!(
            "it is neither ggml nor a CTranslate2 model of version 4 or later (version {version}); convert the model again"
        )));
    }
    let spec = string(&mut reader, file)?;
    if spec != "WhisperSpec" {
        return Err(file.unsupported(format!("it holds a {spec:?}, not a Whisper model")));
    }
    let _revision = reader.u32()?;
    let mut variables = HashMap::new();
    for _ in 0..reader.u32()? {
        let name = string(&mut reader, file)?;
        let rank = reader.u8()?;
        let shape = (0..rank).map(|_| reader.size()).collect::<Result<Vec<_>, _>>()?;
        let kind = reader.u8()?;
        let bytes = reader.size()?;
        let offset = reader.position();
        reader.take(bytes)?;
        variables.insert(name, Variable { shape, kind, offset, bytes });
    }
    if !reader.is_at_end() {
        for _ in 0..reader.u32()? {
            let alias = string(&mut reader, file)?;
            let name = string(&mut reader, file)?;
            // Only a variable can be meant, never another alias: so there are no circles to follow.
            if let Some(Variable { shape, kind, offset, bytes }) = variables.get(&name) {
                let same = Variable { shape: shape.clone(), kind: *kind, offset: *offset, bytes: *bytes };
                variables.entry(alias).or_insert(same);
            }
        }
    }
    Ok(variables)
}

fn string(reader: &mut Reader, file: &WeightsFile) -> Result<String, WeightsError> {
    let length = reader.u16()? as usize;
    let bytes = reader.take(length)?;
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    String::from_utf8(bytes.to_vec()).map_err(|_| file.damaged("a name is not text"))
}

/// An integer attribute.
fn scalar(file: &WeightsFile, variable: &Variable) -> Option<i64> {
    let bytes = &file.bytes()[variable.offset..][..variable.bytes];
    match (variable.kind, bytes) {
        (1, [a]) => Some(i64::from(*a as i8)),
        (2, [a, b]) => Some(i64::from(i16::from_le_bytes([*a, *b]))),
        (3, [a, b, c, d]) => Some(i64::from(i32::from_le_bytes([*a, *b, *c, *d]))),
        _ => None,
    }
}

fn read_tensor(files: &[WeightsFile], variables: &HashMap<String, Variable>, name: &str) -> Result<Tensor, String> {
    let variable = &variables[name];
    let element = match variable.kind {
        0 => Element::F32,
        1 => Element::I8,
        2 => Element::I16,
        4 => Element::F16,
        5 => Element::Bf16,
        other => return Err(format!("unknown type {other}")),
    };
    let tensor = Tensor::stored(files, 0, variable.offset, variable.bytes, element, variable.shape.clone())?;
    if !matches!(element, Element::I8 | Element::I16) {
        return Ok(tensor);
    }
    let scale =
        variables.get(&format!("{name}_scale")).filter(|scale| scale.kind == 0).ok_or("integers without scales")?;
    let scales: Vec<f32> = files[0].bytes()[scale.offset..][..scale.bytes]
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| 1.0 / f32::from_le_bytes(*bytes))
        .collect();
    match scales[..] {
        [scale] => tensor.scaled(Scaling::Whole { scale, zero: 0.0 }),
        _ => tensor.scaled(Scaling::Rows { zeros: vec![0.0; scales.len()], scales }),
    }
}

/// The canonical tensors a variable holds: name, which part of the stack, of how many.
fn canonical_names(variable: &str) -> Vec<(String, usize, usize)> {
    let one = |name: String| vec![(name, 0, 1)];
    let parts: Vec<&str> = variable.split('/').collect();
    let side = parts[0];
    if side != "encoder" && side != "decoder" {
        return Vec::new();
    }
    let norm = |what: &str| match what {
        "gamma" => "weight",
        _ => "bias",
    };
    match parts[1..] {
        ["conv1" | "conv2", "weight" | "bias"] => one(format!("{side}.{}.{}", parts[1], parts[2])),
        ["position_encodings", "encodings"] => one(format!("{side}.positional_embedding")),
        ["embeddings", "weight"] => one(format!("{side}.token_embedding.weight")),
        ["layer_norm", what @ ("gamma" | "beta")] => {
            let ln = if side == "encoder" { "ln_post" } else { "ln" };
            one(format!("{side}.{ln}.{}", norm(what)))
        }
        [layer, module, part, what] => {
            let Some(layer) = layer.strip_prefix("layer_") else {
                return Vec::new();
            };
            let module = match module {
                "self_attention" => "attn",
                "attention" => "cross_attn",
                "ffn" => "mlp",
                _ => return Vec::new(),
            };
            let block = format!("{side}.blocks.{layer}.{module}");
            if part == "layer_norm" && matches!(what, "gamma" | "beta") {
                return one(format!("{block}_ln.{}", norm(what)));
            }
            if !matches!(what, "weight" | "bias") {
                return Vec::new();
            }
            let stack: &[&str] = match (module, part) {
                ("attn", "linear_0") => &["query", "key", "value"],
                ("attn", "linear_1") => &["out"],
                ("cross_attn", "linear_0") => &["query"],
                ("cross_attn", "linear_1") => &["key", "value"],
                ("cross_attn", "linear_2") => &["out"],
                ("mlp", "linear_0") => &["0"],
                ("mlp", "linear_1") => &["2"],
                _ => &[],
            };
            let name = |(i, linear): (usize, &&str)| (format!("{block}.{linear}.{what}"), i, stack.len());
            stack.iter().enumerate().map(name).collect()
        }
        _ => Vec::new(),
    }
}
