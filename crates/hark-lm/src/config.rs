//! The shape of a model, read from GGUF metadata and checked.

use std::collections::BTreeMap;
use std::path::Path;

use hark_compute::row_ops::Gate;
use hark_weights::FileError;
use hark_weights::gguf::{GgufModel, Value};

/// A family of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// Llama 2 and 3, SmolLM, Mistral.
    Llama,
    /// Qwen 2 and 2.5: biases on queries, keys and values.
    Qwen2,
    /// Qwen 3: RMS norm of each query and key head.
    Qwen3,
    /// Gemma 2: scaled embeddings, norms before and behind each part, GeGLU, capped scores and logits, every other layer local.
    Gemma2,
    /// Gemma 3: as Gemma 2 with norms of query and key heads instead of caps; five of six layers are local, with a rotary base of their own.
    Gemma3,
    /// Phi 3 and 4: queries, keys and values in one matrix, gate and up in one; rotary factors for short and for long contexts.
    Phi3,
}

impl Architecture {
    /// Every family, by its name in `general.architecture`.
    const ALL: [(&'static str, Architecture); 6] = [
        ("llama", Architecture::Llama),
        ("qwen2", Architecture::Qwen2),
        ("qwen3", Architecture::Qwen3),
        ("gemma2", Architecture::Gemma2),
        ("gemma3", Architecture::Gemma3),
        ("phi3", Architecture::Phi3),
    ];

    fn is_gemma(self) -> bool {
        matches!(self, Architecture::Gemma2 | Architecture::Gemma3)
    }

    /// Whether each query and key head has an RMS norm.
    pub(crate) fn has_qk_norm(self) -> bool {
        matches!(self, Architecture::Qwen3 | Architecture::Gemma3)
    }

    /// Whether attention and feed-forward are normed again before they join the residual stream.
    pub(crate) fn has_post_norms(self) -> bool {
        self.is_gemma()
    }

    fn rope_style(self) -> RopeStyle {
        if self == Architecture::Llama { RopeStyle::Interleaved } else { RopeStyle::Halves }
    }
}

/// Which elements of a head rotary embedding turns together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeStyle {
    /// Neighbours: `2i` and `2i + 1`.
    Interleaved,
    /// One of each half: `i` and `i + n/2`.
    Halves,
}

/// The shape of a model.
#[derive(Debug, Clone)]
pub struct Config {
    /// The family.
    pub architecture: Architecture,
    /// Layers.
    pub layers: usize,
    /// Elements of the residual stream.
    pub width: usize,
    /// Elements between the two products of a feed-forward layer.
    pub feed_forward: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Tokens of the vocabulary.
    pub vocabulary: usize,
    /// Positions that the model was trained for.
    pub context: usize,
    /// Added to the mean square in RMS norms.
    pub norm_epsilon: f32,
    /// Base of the rotary embedding's frequencies.
    pub rope_base: f64,
    /// Positions are divided by this (linear scaling).
    pub rope_factor: f64,
    /// Base of the frequencies in local layers, which are not scaled.
    pub local_rope_base: f64,
    /// Sines and cosines are multiplied by this (longrope).
    pub rope_magnitude: f32,
    /// Contexts beyond this take the rotary factors for long contexts, where the file has some.
    pub original_context: usize,
    /// Elements of a head that are rotated.
    pub rope_dims: usize,
    /// Which elements are rotated together.
    pub rope_style: RopeStyle,
    /// The activation of the feed-forward gate.
    pub activation: Gate,
    /// Embeddings are multiplied by this.
    pub embedding_scale: f32,
    /// Products of queries and keys are multiplied by this.
    pub attention_scale: f32,
    /// Attention scores go through `cap * tanh(score / cap)`.
    pub attention_softcap: Option<f32>,
    /// Logits go through `cap * tanh(logit / cap)`.
    pub logit_softcap: Option<f32>,
    /// Positions that a row sees in local layers.
    pub window: Option<usize>,
    /// Of so many layers the last is global and the others are local; 1 without local layers.
    pub window_pattern: usize,
}

/// Largest sizes of any kind that are believed; the largest published model has 128 heads, 126 layers, a width of 16,384.
const MAX_SIZE: u64 = 1 << 20;

impl Config {
    /// Reads and checks the configuration of a model.
    pub fn read(file: &Path, model: &GgufModel) -> Result<Self, FileError> {
        let metadata = Metadata { file, values: &model.metadata };
        let name = metadata.text("general.architecture")?;
        let found = Architecture::ALL.into_iter().find(|(known, _)| *known == name);
        let Some((_, architecture)) = found else {
            let known = Architecture::ALL.map(|(name, _)| name).join(", ");
            return Err(FileError::unsupported(file, format!("architecture {name:?} is not supported ({known} are)")));
        };
        let key = |rest: &str| format!("{name}.{rest}");
        let width = metadata.size(&key("embedding_length"))?;
        let heads = metadata.size(&key("attention.head_count"))?;
        let kv_heads = metadata.size_or(&key("attention.head_count_kv"), heads)?;
        let head_dim = metadata.size_or(&key("attention.key_length"), width / heads)?;
        let value_dim = metadata.size_or(&key("attention.value_length"), head_dim)?;
        let rope_dims = metadata.size_or(&key("rope.dimension_count"), head_dim)?;
        let vocabulary = match model.metadata.get("tokenizer.ggml.tokens") {
            Some(Value::Array(tokens)) => tokens.len(),
            _ => return Err(FileError::damaged(file, "it has no vocabulary")),
        };
        let scaling = metadata.text_or(&key("rope.scaling.type"), "none")?;
        let rope_factor = match scaling {
            "none" => 1.0,
            "linear" => metadata.float_or(&key("rope.scaling.factor"), 1.0)?,
            "longrope" if architecture == Architecture::Phi3 => 1.0,
            other => {
                let what = format!("rotary embedding with {other} scaling is not supported");
                return Err(FileError::unsupported(file, what));
            }
        };
        let layers = metadata.size(&key("block_count"))?;
        let context = metadata.size_or(&key("context_length"), 2048)?;
        let rope_base = metadata.float_or(&key("rope.freq_base"), 10_000.0)?;
        let softcap = |rest: &str, otherwise: f64| {
            let cap = metadata.float_or(&key(rest), otherwise)? as f32;
            Ok::<_, FileError>((cap > 0.0).then_some(cap))
        };
        let is_gemma2 = architecture == Architecture::Gemma2;
        // The largest of both Gemmas divides by the elements of the residual stream for each head.
        let is_largest = matches!((architecture, layers), (Architecture::Gemma2, 46) | (Architecture::Gemma3, 62));
        let attention_divisor = if is_largest { width / heads } else { head_dim };
        let (window, window_pattern, local_rope_base) = match architecture {
            Architecture::Gemma2 => (4096, 2, rope_base),
            Architecture::Gemma3 => (0, 6, 10_000.0),
            _ => (0, 1, rope_base),
        };
        let window = match architecture.is_gemma() {
            true => Some(metadata.size_or(&key("attention.sliding_window"), window)?).filter(|window| *window > 0),
            false => None,
        };
        let window_pattern = match window {
            Some(_) => metadata.size_or(&key("attention.sliding_window_pattern"), window_pattern)?,
            None => 1,
        };
        let config = Config {
            architecture,
            layers,
            width,
            feed_forward: metadata.size(&key("feed_forward_length"))?,
            heads,
            kv_heads,
            head_dim,
            vocabulary,
            context,
            norm_epsilon: metadata.float_or(&key("attention.layer_norm_rms_epsilon"), 1e-5)? as f32,
            rope_base,
            rope_factor,
            local_rope_base: metadata.float_or(&key("rope.freq_base_swa"), local_rope_base)?,
            rope_magnitude: metadata.float_or(&key("rope.scaling.attn_factor"), 1.0)? as f32,
            original_context: metadata.size_or(&key("rope.scaling.original_context_length"), context)?,
            rope_dims,
            rope_style: architecture.rope_style(),
            activation: if architecture.is_gemma() { Gate::Gelu } else { Gate::Silu },
            embedding_scale: if architecture.is_gemma() { (width as f32).sqrt() } else { 1.0 },
            attention_scale: 1.0 / (attention_divisor as f32).sqrt(),
            attention_softcap: softcap("attn_logit_softcapping", if is_gemma2 { 50.0 } else { 0.0 })?,
            logit_softcap: softcap("final_logit_softcapping", if is_gemma2 { 30.0 } else { 0.0 })?,
            window,
            window_pattern,
        };
        let experts = metadata.size_or(&key("expert_count"), 0)?;
        let problem = if experts > 0 {
            Some("mixtures of experts are not supported".to_owned())
        } else if !config.heads.is_multiple_of(kv_heads) {
            Some(format!("{heads} query heads do not share {kv_heads} KV heads"))
        } else if !head_dim.is_multiple_of(32) || value_dim != head_dim {
            Some(format!("heads of {head_dim} keys and {value_dim} values are not supported"))
        } else if rope_dims > head_dim || !rope_dims.is_multiple_of(2) {
            Some(format!("{rope_dims} of {head_dim} elements can't be rotated"))
        } else if !width.is_multiple_of(32) || !config.feed_forward.is_multiple_of(32) {
            Some(format!("widths {width} and {} are no multiples of 32", config.feed_forward))
        } else if config.rope_magnitude <= 0.0
            || config.local_rope_base < 1.0
            || config.rope_base < 1.0
            || config.rope_factor <= 0.0
            || config.norm_epsilon < 0.0
        {
            Some("its rotary embedding or norm has impossible parameters".to_owned())
        } else {
            None
        };
        problem.map_or(Ok(config), |what| Err(FileError::unsupported(file, what)))
    }

    /// Whether the rows of a layer see only the positions of [`Config::window`].
    pub fn is_local(&self, layer: usize) -> bool {
        self.window.is_some() && !(layer + 1).is_multiple_of(self.window_pattern.max(1))
    }
}

/// Typed access to metadata.
pub(crate) struct Metadata<'a> {
    pub(crate) file: &'a Path,
    pub(crate) values: &'a BTreeMap<String, Value>,
}

impl<'a> Metadata<'a> {
    fn wrong(&self, key: &str) -> FileError {
        FileError::damaged(self.file, format!("its metadata {key} is missing or has an impossible value"))
    }

    pub(crate) fn text(&self, key: &str) -> Result<&'a str, FileError> {
        self.values.get(key).and_then(Value::as_str).ok_or_else(|| self.wrong(key))
    }

    pub(crate) fn text_or(&self, key: &str, otherwise: &'static str) -> Result<&'a str, FileError> {
        if self.values.contains_key(key) { self.text(key) } else { Ok(otherwise) }
    }

    /// A size between 1 and [`MAX_SIZE`]; one for all layers where the file has an array of equal ones.
    pub(crate) fn size(&self, key: &str) -> Result<usize, FileError> {
        let value = match self.values.get(key) {
            Some(Value::Array(values)) if values.windows(2).all(|pair| pair[0] == pair[1]) => values.first(),
            other => other,
        };
        let size = value.and_then(Value::as_u64).filter(|size| (1..=MAX_SIZE).contains(size));
        size.map(|size| size as usize).ok_or_else(|| self.wrong(key))
    }

    pub(crate) fn size_or(&self, key: &str, otherwise: usize) -> Result<usize, FileError> {
        if self.values.get(key).is_some_and(|value| value.as_u64() != Some(0)) { self.size(key) } else { Ok(otherwise) }
    }

    pub(crate) fn float_or(&self, key: &str, otherwise: f64) -> Result<f64, FileError> {
        match self.values.get(key) {
            None => Ok(otherwise),
            Some(Value::Float(value)) if value.is_finite() => Ok(*value),
            Some(_) => Err(self.wrong(key)),
        }
    }
}
