//! The shape of a T5 network: `config.json` as the hub has it.

use std::path::Path;

use hark_weights::FileError;
use serde::Deserialize;

/// The longest configuration that is read.
const MAX_JSON: u64 = 1 << 20;

/// The shape of a network.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Config {
    model_type: String,
    feed_forward_proj: String,
    /// Elements of a state.
    #[serde(rename = "d_model")]
    pub(super) width: usize,
    /// Elements of a head; heads need not add up to the width.
    #[serde(rename = "d_kv")]
    pub(super) head_dim: usize,
    #[serde(rename = "d_ff")]
    pub(super) inner: usize,
    #[serde(rename = "num_heads")]
    pub(super) heads: usize,
    #[serde(rename = "num_layers")]
    pub(super) encoder_layers: usize,
    num_decoder_layers: Option<usize>,
    #[serde(rename = "relative_attention_num_buckets")]
    pub(super) buckets: usize,
    #[serde(rename = "relative_attention_max_distance", default = "max_distance")]
    pub(super) max_distance: usize,
    #[serde(rename = "layer_norm_epsilon", default = "epsilon")]
    pub(super) epsilon: f32,
    #[serde(rename = "tie_word_embeddings", default = "yes")]
    pub(super) is_tied: bool,
    #[serde(rename = "vocab_size")]
    pub(super) words: usize,
    /// What the decoder begins with.
    #[serde(rename = "decoder_start_token_id", default)]
    pub(super) start: u32,
}

// What T5's own configuration has where the file says nothing.
fn max_distance() -> usize {
    128
}
fn epsilon() -> f32 {
    1e-6
}
fn yes() -> bool {
    true
}

impl Config {
    pub(super) fn read(path: &Path) -> Result<Self, FileError> {
        let length = std::fs::metadata(path).map_or(0, |file| file.len());
        if length > MAX_JSON {
            return Err(FileError::damaged(path, format!("it has {length} bytes")));
        }
        let text = std::fs::read(path).map_err(|error| FileError::damaged(path, error.to_string()))?;
        let config: Config =
            serde_json::from_slice(&text).map_err(|error| FileError::damaged(path, error.to_string()))?;
        match config.problem() {
            Some(problem) => Err(FileError::unsupported(path, problem)),
            None => Ok(config),
        }
    }

    fn problem(&self) -> Option<String> {
        let Config { model_type, feed_forward_proj, .. } = self;
        if !["t5", "mt5", "umt5"].contains(&model_type.as_str()) || model_type == "umt5" {
            return Some(format!("it is a {model_type}, and only t5 is supported"));
        }
        if feed_forward_proj != "gated-gelu" {
            return Some(format!("its feed-forward layers are {feed_forward_proj}, and only gated-gelu is supported"));
        }
        let in_range = |value: usize, most: usize| (1..=most).contains(&value);
        let is_possible = in_range(self.width, 16_384)
            && in_range(self.head_dim, 1024)
            && in_range(self.inner, 131_072)
            && in_range(self.heads, 256)
            && in_range(self.encoder_layers, 256)
            && in_range(self.decoder_layers(), 256)
            && in_range(self.words, 1 << 20)
            && (4..=1024).contains(&self.buckets)
            && self.buckets.is_multiple_of(2)
            && (self.buckets..=1 << 16).contains(&self.max_distance)
            && self.epsilon.is_finite()
            && self.epsilon > 0.0
            && (self.start as usize) < self.words;
        let is_whole = [self.width, self.inner, self.attended()].iter().all(|size| size.is_multiple_of(32));
        match (is_possible, is_whole) {
            (false, _) => Some("its sizes are impossible".to_owned()),
            (_, false) => Some("its rows must be multiples of 32 elements".to_owned()),
            _ => None,
        }
    }

    pub(super) fn decoder_layers(&self) -> usize {
        self.num_decoder_layers.unwrap_or(self.encoder_layers)
    }

    /// Elements of all heads.
    pub(super) fn attended(&self) -> usize {
        self.heads * self.head_dim
    }
}
