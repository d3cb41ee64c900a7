//! The shape of a network and how it is searched: `config.json` and `generation_config.json` as the hub has them.

use std::path::Path;

use hark_weights::FileError;
use serde::Deserialize;

use crate::marian::{Activation, Config as Shape, NOT_WHOLE};

/// The longest configuration that is read.
const MAX_JSON: u64 = 1 << 20;
/// Most hypotheses of a sentence; configurations have 4 or 6.
const MAX_BEAMS: usize = 16;
/// Least positions that a table must have.
const MIN_POSITIONS: usize = 16;

/// What `config.json` says of a network.
#[derive(Debug, Clone)]
pub(super) struct Config {
    pub(super) shape: Shape,
    pub(super) words: usize,
    pub(super) positions: usize,
    /// What embeddings of words are multiplied by.
    pub(super) embedding_scale: f32,
    /// What the decoder begins with.
    pub(super) start: u32,
    pub(super) end: u32,
    /// Tokens that are never generated.
    pub(super) never: Vec<u32>,
    /// Hypotheses of a sentence.
    pub(super) beams: usize,
}

#[derive(Deserialize)]
struct Json {
    model_type: String,
    d_model: usize,
    encoder_layers: usize,
    decoder_layers: usize,
    encoder_attention_heads: usize,
    decoder_attention_heads: usize,
    encoder_ffn_dim: usize,
    decoder_ffn_dim: usize,
    activation_function: String,
    vocab_size: usize,
    decoder_vocab_size: Option<usize>,
    max_position_embeddings: usize,
    #[serde(default)]
    scale_embedding: bool,
    eos_token_id: u32,
    pad_token_id: u32,
    decoder_start_token_id: u32,
    #[serde(default)]
    bad_words_ids: Option<Vec<Vec<u32>>>,
    #[serde(default)]
    num_beams: Option<usize>,
    #[serde(default)]
    normalize_before: bool,
    #[serde(default)]
    normalize_embedding: bool,
    #[serde(default)]
    add_final_layer_norm: bool,
    #[serde(default = "yes")]
    static_position_embeddings: bool,
    #[serde(default = "yes")]
    share_encoder_decoder_embeddings: bool,
    #[serde(default = "yes")]
    tie_word_embeddings: bool,
}

fn yes() -> bool {
    true
}

/// What `generation_config.json` adds in newer folders.
#[derive(Deserialize)]
struct Generation {
    num_beams: Option<usize>,
    bad_words_ids: Option<Vec<Vec<u32>>>,
}

impl Config {
    /// Whether a folder says that it has such a network.
    pub(super) fn is_in(folder: &Path) -> bool {
        #[derive(Deserialize)]
        struct Kind {
            model_type: String,
        }
        read::<Kind>(&folder.join("config.json")).is_ok_and(|kind| kind.model_type == "marian")
    }

    /// Reads the configurations in a folder.
    pub(super) fn read(folder: &Path) -> Result<Self, FileError> {
        let path = folder.join("config.json");
        let json: Json = read(&path)?;
        let generation = folder.join("generation_config.json");
        let generation: Option<Generation> = generation.exists().then(|| read(&generation)).transpose()?;
        if let Some(problem) = json.problem() {
            return Err(FileError::unsupported(&path, problem));
        }
        let mut beams = json.num_beams;
        let mut bad_words = json.bad_words_ids.clone();
        if let Some(generation) = generation {
            beams = generation.num_beams.or(beams);
            bad_words = generation.bad_words_ids.or(bad_words);
        }
        let mut never = vec![json.pad_token_id];
        for word in bad_words.unwrap_or_default() {
            match word[..] {
                [token] => never.push(token),
                _ => return Err(FileError::unsupported(&path, "it forbids sequences of tokens, not only tokens")),
            }
        }
        never.sort_unstable();
        never.dedup();
        let shape = json.shape().map_err(|problem| FileError::unsupported(&path, problem))?;
        Ok(Config {
            words: json.vocab_size,
            positions: json.max_position_embeddings,
            embedding_scale: if json.scale_embedding { (json.d_model as f32).sqrt() } else { 1.0 },
            start: json.decoder_start_token_id,
            end: json.eos_token_id,
            never,
            beams: beams.unwrap_or(1).clamp(1, MAX_BEAMS),
            shape,
        })
    }
}

impl Json {
    /// What is not supported.
    fn problem(&self) -> Option<String> {
        if self.model_type != "marian" {
            return Some(format!("it is a {}, and only marian is supported", self.model_type));
        }
        let wrong = [
            ("normalize_before", self.normalize_before),
            ("normalize_embedding", self.normalize_embedding),
            ("add_final_layer_norm", self.add_final_layer_norm),
            ("static_position_embeddings", !self.static_position_embeddings),
            ("share_encoder_decoder_embeddings", !self.share_encoder_decoder_embeddings),
            ("tie_word_embeddings", !self.tie_word_embeddings),
        ];
        if let Some((key, _)) = wrong.iter().find(|(_, is_wrong)| *is_wrong) {
            let other = if key.starts_with("normalize") || key.starts_with("add") { "false" } else { "true" };
            return Some(format!("only networks whose {key} is {other} are supported"));
        }
        let is_even = self.encoder_attention_heads == self.decoder_attention_heads
            && self.encoder_ffn_dim == self.decoder_ffn_dim
            && self.decoder_vocab_size.is_none_or(|words| words == self.vocab_size);
        if !is_even {
            return Some("its encoder and decoder have different shapes or vocabularies".to_owned());
        }
        let in_range = |value: usize, most: usize| (1..=most).contains(&value);
        let is_possible = in_range(self.d_model, 4096)
            && in_range(self.encoder_attention_heads, 64)
            && in_range(self.encoder_ffn_dim, 16_384)
            && in_range(self.encoder_layers, 64)
            && in_range(self.decoder_layers, 64)
            && (2..=1 << 20).contains(&self.vocab_size)
            && (MIN_POSITIONS..=1 << 14).contains(&self.max_position_embeddings)
            && [self.eos_token_id, self.pad_token_id, self.decoder_start_token_id]
                .iter()
                .all(|token| (*token as usize) < self.vocab_size);
        (!is_possible).then(|| "its sizes are impossible".to_owned())
    }

    fn shape(&self) -> Result<Shape, String> {
        let activation = match self.activation_function.as_str() {
            "swish" | "silu" => Activation::Swish,
            "relu" => Activation::Relu,
            other => return Err(format!("its activation is {other}, and only swish and relu are supported")),
        };
        let shape = Shape {
            width: self.d_model,
            heads: self.encoder_attention_heads,
            inner: self.encoder_ffn_dim,
            encoder_layers: self.encoder_layers,
            decoder_layers: self.decoder_layers,
            activation,
        };
        if shape.is_whole() { Ok(shape) } else { Err(NOT_WHOLE.to_owned()) }
    }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, FileError> {
    let length = std::fs::metadata(path).map_or(0, |file| file.len());
    if length > MAX_JSON {
        return Err(FileError::damaged(path, format!("it has {length} bytes")));
    }
    let text = std::fs::read(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    serde_json::from_slice(&text).map_err(|error| FileError::damaged(path, error.to_string()))
}
