//! The shape of an encoder: `config.json`, and `sentence_bert_config.json` where there is one.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::EmbedError;

/// The longest configuration or tokenizer that is read.
const MAX_JSON: u64 = 64 << 20;

/// The shape of a BERT encoder.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Config {
    model_type: String,
    hidden_act: String,
    pub(crate) hidden_size: usize,
    pub(crate) intermediate_size: usize,
    pub(crate) num_hidden_layers: usize,
    pub(crate) num_attention_heads: usize,
    pub(crate) max_position_embeddings: usize,
    pub(crate) vocab_size: usize,
    pub(crate) layer_norm_eps: f32,
    /// Most tokens of a text, the two at its ends included.
    #[serde(skip)]
    pub(crate) max_tokens: usize,
}

/// How sentence-transformers uses the encoder.
#[derive(Deserialize)]
struct SentenceConfig {
    max_seq_length: Option<usize>,
}

impl Config {
    pub(crate) fn read(folder: &Path) -> Result<Self, EmbedError> {
        let path = folder.join("config.json");
        let mut config: Config = read_json(&path)?;
        let sentences: Result<SentenceConfig, _> = read_json(&folder.join("sentence_bert_config.json"));
        let wanted = sentences.ok().and_then(|config| config.max_seq_length).unwrap_or(usize::MAX);
        config.max_tokens = wanted.min(config.max_position_embeddings);
        match config.problem() {
            Some(problem) => Err(EmbedError::malformed(&path, problem)),
            None => Ok(config),
        }
    }

    fn problem(&self) -> Option<String> {
        let Config { hidden_size: width, num_attention_heads: heads, .. } = *self;
        if self.model_type != "bert" || self.hidden_act != "gelu" {
            return Some(format!("it is a {} with {}, not a bert with gelu", self.model_type, self.hidden_act));
        }
        let in_range = |value: usize, most: usize| (1..=most).contains(&value);
        let is_possible = in_range(width, 8192)
            && in_range(self.intermediate_size, 65_536)
            && in_range(self.num_hidden_layers, 128)
            && in_range(heads, 256)
            && in_range(self.vocab_size, 1 << 24)
            && in_range(self.max_position_embeddings, 1 << 16)
            && self.max_tokens >= 3
            && self.layer_norm_eps.is_finite()
            && self.layer_norm_eps >= 0.0;
        if !is_possible || !width.is_multiple_of(heads) {
            return Some("its sizes are impossible".to_owned());
        }
        let whole = width.is_multiple_of(32) && self.intermediate_size.is_multiple_of(32);
        if !whole || !(width / heads).is_multiple_of(32) {
            return Some("its rows and heads must be multiples of 32 elements".to_owned());
        }
        None
    }

    /// Elements of a head.
    pub(crate) fn head_dim(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }
}

/// Reads a JSON file of the model.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, EmbedError> {
    let unreadable = |source| EmbedError::Unreadable { path: path.to_owned(), source };
    let length = std::fs::metadata(path).map_err(unreadable)?.len();
    if length > MAX_JSON {
        return Err(EmbedError::malformed(path, format!("it has {length} bytes")));
    }
    let text = std::fs::read(path).map_err(unreadable)?;
    serde_json::from_slice(&text).map_err(|error| EmbedError::malformed(path, error.to_string()))
}
