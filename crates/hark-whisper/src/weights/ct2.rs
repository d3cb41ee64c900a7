//! Whisper in CTranslate2's `model.bin`: its names, and the queries, keys and values that it stacks in one matrix.

use std::collections::HashMap;
use std::path::Path;

use hark_weights::ct2::Ct2Model;
use hark_weights::{Quantization, WeightsFile};

use super::folder::Facts;
use super::source::Source;
use super::{Format, Found, WeightsError};

pub(super) fn open(path: &Path, facts: Facts) -> Result<Found, WeightsError> {
    let file = WeightsFile::open(path)?;
    let model = Ct2Model::read(&file)?;
    if model.spec != "WhisperSpec" {
        return Err(file.unsupported(format!("it holds a {:?}, not a Whisper model", model.spec)).into());
    }
    let mut tensors = HashMap::new();
    for name in model.tensors.names() {
        for (canonical, part, parts) in canonical_names(name) {
            let tensor = model.tensors.get(name)?;
            if tensor.dtype().is_integer() && *tensor.quantization() == Quantization::None {
                return Err(file.damaged(format!("{name} has integers without scales")).into());
            }
            let tensor = if parts == 1 { tensor.clone() } else { tensor.part(part, parts)? };
            tensors.insert(canonical, Source::Stored(tensor));
        }
    }
    let heads = |side: &str| model.attribute(&format!("{side}/num_heads")).map(|heads| heads as usize);
    let (audio_heads, text_heads) = (heads("encoder"), heads("decoder"));
    Ok(Found {
        format: Format::CTranslate2,
        file: path.to_owned(),
        tensors,
        audio_heads,
        text_heads,
        vocabulary: None,
        facts,
    })
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
