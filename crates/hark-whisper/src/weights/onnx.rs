//! Whisper in ONNX graphs as transformers.js uses them, mostly quantized: one for the encoder, one for the decoder.
//!
//! Embeddings, biases, norms and convolutions are initializers under Hugging Face's names. The matrices of linears
//! have names such as `onnx::MatMul_603_quantized` that say nothing: the node that multiplies by one carries the
//! module in its own name, `/layers.0/self_attn/q_proj/MatMul_quant`. A merged decoder adds `_merged_0` to names and
//! keeps its nodes in the branches of an `If`.

use std::collections::HashMap;
use std::path::Path;

use hark_weights::onnx::OnnxModel;
use hark_weights::{Tensor, WeightsFile};

use super::folder::Facts;
use super::names::from_hugging_face;
use super::source::Source;
use super::{Format, Found, WeightsError};

pub(super) fn open(encoder: &Path, decoder: &Path, facts: Facts) -> Result<Found, WeightsError> {
    let mut tensors = HashMap::new();
    for (side, path) in [("encoder", encoder), ("decoder", decoder)] {
        let model = OnnxModel::read(&WeightsFile::open(path)?)?;
        for (name, tensor) in named_tensors(&model)? {
            let name = name.strip_prefix("model.").unwrap_or(&name);
            let name = name.strip_prefix(side).and_then(|n| n.strip_prefix('.')).unwrap_or(name);
            tensors.insert(from_hugging_face(&format!("{side}.{name}")), Source::Stored(tensor));
        }
    }
    Ok(Found {
        format: Format::Onnx,
        file: encoder.to_owned(),
        tensors,
        audio_heads: facts.encoder_attention_heads,
        text_heads: facts.decoder_attention_heads,
        vocabulary: None,
        facts,
    })
}

/// The tensors of the network under Hugging Face's names.
fn named_tensors(model: &OnnxModel) -> Result<HashMap<String, Tensor>, WeightsError> {
    let mut tensors = HashMap::new();
    for name in model.tensors.names() {
        let name_in_model = without_merge_number(name.strip_suffix("_quantized").unwrap_or(name));
        if name_in_model.ends_with(".weight") || name_in_model.ends_with(".bias") {
            tensors.insert(name_in_model.to_owned(), model.dequantized(name)?);
        }
    }
    for node in &model.nodes {
        let Some((module, step)) = node.name.trim_start_matches('/').rsplit_once('/') else {
            continue;
        };
        let module = module.replace('/', ".");
        let last = module.rsplit('.').next().unwrap_or_default();
        let is_norm = last.ends_with("layer_norm");
        let is_linear = matches!(last, "q_proj" | "k_proj" | "v_proj" | "out_proj" | "fc1" | "fc2");
        if !is_norm && !is_linear {
            continue;
        }
        match (node.op_type.as_str(), node.inputs.get(1)) {
            ("MatMulInteger" | "MatMul", Some(input)) => {
                let name = format!("{module}.weight");
                if model.tensors.contains(input) && !tensors.contains_key(&name) {
                    tensors.insert(name, model.dequantized(input)?.transposed()?);
                }
            }
            // Equal biases and norms may share one constant under another module's name.
            ("Add" | "Mul", _) => {
                let part = match step {
                    "Add" | "Add_1" => "bias",
                    "Mul" if is_norm => "weight",
                    _ => continue,
                };
                let Some(input) = node.inputs.iter().find(|input| model.tensors.contains(input)) else {
                    continue;
                };
                let name = format!("{module}.{part}");
                if tensors.contains_key(&name) {
                    continue;
                }
                let constant = model.dequantized(input)?;
                if constant.shape().len() == 1 {
                    tensors.insert(name, constant);
                }
            }
            _ => {}
        }
    }
    Ok(tensors)
}

/// A name without the `_merged_0` a merged decoder ends it with.
fn without_merge_number(name: &str) -> &str {
    match name.rsplit_once("_merged_") {
        Some((before, number)) if number.bytes().all(|b| b.is_ascii_digit()) => before,
        _ => name,
    }
}
