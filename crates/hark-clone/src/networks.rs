//! The four networks of the model and what they must look like.

use std::path::Path;

use hark_onnx::{Kind, Network, OnnxError, Runtime};

use crate::CloneError;
use crate::sample::STOP;

/// The language model's files, best first for a CPU: int4 weights are read fastest, and its 16-bit forms are made for GPUs.
const LANGUAGE_MODELS: [&str; 4] =
    ["language_model_q4.onnx", "language_model.onnx", "language_model_q4f16.onnx", "language_model_fp16.onnx"];
const ENCODER: &str = "speech_encoder.onnx";
const EMBEDDER: &str = "embed_tokens.onnx";
const DECODER: &str = "conditional_decoder.onnx";

/// Numbers of a speaker embedding.
pub(crate) const SPEAKER: usize = 192;
/// Mel bands of the features of a voice.
pub(crate) const BANDS: usize = 80;

/// Whether a folder holds the export of Chatterbox.
pub fn is_in(folder: &Path) -> bool {
    folder.join(DECODER).is_file() && folder.join(ENCODER).is_file()
}

/// The networks, loaded and checked.
pub(crate) struct Networks {
    /// Clip to conditioning, speech tokens, speaker embedding and features.
    pub(crate) encoder: Network,
    /// Tokens to embeddings.
    pub(crate) embedder: Network,
    /// Embeddings and caches to logits and caches.
    pub(crate) language: Network,
    /// Speech tokens in a voice to samples.
    pub(crate) decoder: Network,
    /// Inputs of the caches and the outputs that become them.
    pub(crate) caches: Vec<(String, String)>,
    pub(crate) cache_kind: Kind,
    /// Attention heads of a cache, and numbers of each.
    pub(crate) heads: usize,
    pub(crate) head_width: usize,
    /// Numbers of an embedding.
    pub(crate) width: usize,
    /// Logits of a step.
    pub(crate) vocabulary: usize,
}

impl Networks {
    pub(crate) fn load(runtime: &Runtime, folder: &Path, threads: usize) -> Result<Self, CloneError> {
        let load = |name: &str| Network::load(runtime, &folder.join(name), threads);
        let name = LANGUAGE_MODELS.into_iter().find(|name| folder.join(name).is_file());
        let name = name.ok_or_else(|| OnnxError::Missing { path: folder.join(LANGUAGE_MODELS[0]) })?;
        let (embedder, language) = (load(EMBEDDER)?, load(name)?);
        let width = check_embedder(&embedder)?;
        let (vocabulary, caches) = check_language(&language, width)?;
        let Caches { names, kind, heads, width: head_width } = caches;
        let (encoder, decoder) = (load(ENCODER)?, load(DECODER)?);
        check_encoder(&encoder, width)?;
        check_decoder(&decoder)?;
        Ok(Networks {
            encoder,
            embedder,
            language,
            decoder,
            caches: names,
            cache_kind: kind,
            heads,
            head_width,
            width,
            vocabulary,
        })
    }
}

/// Dimension `at` of a port, which the file must fix.
fn fixed(network: &Network, name: &str, shape: &[Option<usize>], at: usize) -> Result<usize, OnnxError> {
    let size = shape.get(at).copied().flatten().filter(|size| *size > 0);
    size.ok_or_else(|| network.unlike(format!("dimension {at} of {name} is not fixed")))
}

fn must_be(network: &Network, name: &str, shape: &[Option<usize>], at: usize, size: usize) -> Result<(), OnnxError> {
    match shape.get(at).copied().flatten() {
        Some(found) if found != size => Err(network.unlike(format!("dimension {at} of {name} is {found}, not {size}"))),
        _ => Ok(()),
    }
}

fn check_embedder(network: &Network) -> Result<usize, OnnxError> {
    network.input("input_ids", Kind::I64, 2)?;
    network.input("position_ids", Kind::I64, 2)?;
    network.input("exaggeration", Kind::F32, 1)?;
    let embeddings = network.output("inputs_embeds", Kind::F32, 3)?;
    fixed(network, "inputs_embeds", &embeddings.shape, 2)
}

struct Caches {
    names: Vec<(String, String)>,
    kind: Kind,
    heads: usize,
    width: usize,
}

fn check_language(network: &Network, width: usize) -> Result<(usize, Caches), OnnxError> {
    let embeddings = network.input("inputs_embeds", Kind::F32, 3)?;
    must_be(network, "inputs_embeds", &embeddings.shape, 2, width)?;
    network.input("attention_mask", Kind::I64, 2)?;
    let logits = network.output("logits", Kind::F32, 3)?;
    let vocabulary = fixed(network, "logits", &logits.shape, 2)?;
    if vocabulary <= STOP as usize {
        return Err(
            network.unlike(format!("it has {vocabulary} logits, which do not reach the token that ends speech"))
        );
    }
    let first = network.inputs().iter().find(|port| port.name == "past_key_values.0.key");
    let first = first.ok_or_else(|| network.unlike("it has no input past_key_values.0.key"))?;
    let kind = first.kind.ok_or_else(|| network.unlike("its caches hold numbers of an unknown kind"))?;
    let heads = fixed(network, &first.name, &first.shape, 1)?;
    let head_width = fixed(network, &first.name, &first.shape, 3)?;
    let mut names = Vec::new();
    for port in network.inputs() {
        if let Some(place) = port.name.strip_prefix("past_key_values.") {
            let present = format!("present.{place}");
            network.input(&port.name, kind, 4)?;
            must_be(network, &port.name, &port.shape, 1, heads)?;
            must_be(network, &port.name, &port.shape, 3, head_width)?;
            network.output(&present, kind, 4)?;
            names.push((port.name.clone(), present));
        } else if !["inputs_embeds", "attention_mask"].contains(&port.name.as_str()) {
            return Err(network.unlike(format!("it wants an input {} that is not known", port.name)));
        }
    }
    Ok((vocabulary, Caches { names, kind, heads, width: head_width }))
}

fn check_encoder(network: &Network, width: usize) -> Result<(), OnnxError> {
    network.input("audio_values", Kind::F32, 2)?;
    let conditioning = network.output("audio_features", Kind::F32, 3)?;
    must_be(network, "audio_features", &conditioning.shape, 2, width)?;
    network.output("audio_tokens", Kind::I64, 2)?;
    let speaker = network.output("speaker_embeddings", Kind::F32, 2)?;
    must_be(network, "speaker_embeddings", &speaker.shape, 1, SPEAKER)?;
    let features = network.output("speaker_features", Kind::F32, 3)?;
    must_be(network, "speaker_features", &features.shape, 2, BANDS)
}

fn check_decoder(network: &Network) -> Result<(), OnnxError> {
    network.input("speech_tokens", Kind::I64, 2)?;
    let speaker = network.input("speaker_embeddings", Kind::F32, 2)?;
    must_be(network, "speaker_embeddings", &speaker.shape, 1, SPEAKER)?;
    let features = network.input("speaker_features", Kind::F32, 3)?;
    must_be(network, "speaker_features", &features.shape, 2, BANDS)?;
    network.output("waveform", Kind::F32, 2).map(drop)
}
