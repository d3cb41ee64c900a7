//! T5 v1.1 encoder–decoders, the architecture of MADLAD-400: RMS norms before each layer, gated GELU, attention without scaling whose positions are biases on
//! the scores, shared by all layers.
//!
//! Matrices are packed as bf16 or as the quantized blocks of the file; activations are bf16, or int8 in blocks of 32 where a batch has at most eight rows. States
//! stay f32, keys and values are bf16.

mod bias;
mod config;
mod forward;
mod load;

use std::path::Path;

use hark_compute::Compute;
use hark_compute::quantized::QuantizedMatrix;
use hark_weights::Tensor;

pub use crate::decoding::Search;
use crate::{TranslateError, decoding};
use bias::PositionBias;
use config::Config;

/// Longest source sentence in tokens, the target language and the end included.
pub const MAX_SOURCE_TOKENS: usize = 192;

/// A network in memory.
pub struct T5 {
    compute: Compute,
    config: Config,
    /// Rows of word embeddings, read from the mapped file as they are needed.
    embeddings: Tensor,
    encoder: Vec<EncoderLayer>,
    decoder: Vec<DecoderLayer>,
    encoder_norm: Vec<f32>,
    decoder_norm: Vec<f32>,
    encoder_bias: PositionBias,
    decoder_bias: PositionBias,
    /// The projection to words, in stretches.
    output: Vec<QuantizedMatrix>,
}

struct EncoderLayer {
    attention: Attention,
    feed_forward: FeedForward,
}

struct DecoderLayer {
    attention: Attention,
    cross_attention: Attention,
    feed_forward: FeedForward,
}

struct Attention {
    norm: Vec<f32>,
    query: QuantizedMatrix,
    key_value: [QuantizedMatrix; 2],
    output: QuantizedMatrix,
}

struct FeedForward {
    norm: Vec<f32>,
    gate_up: [QuantizedMatrix; 2],
    down: QuantizedMatrix,
}

impl T5 {
    /// Loads the network in a folder: `config.json` with `model.safetensors`, its shards and their index, or a GGUF file with the same names.
    pub fn load(compute: &Compute, folder: &Path) -> Result<Self, TranslateError> {
        load::load(compute, folder)
    }

    /// Words of the vocabulary.
    pub fn words(&self) -> usize {
        self.config.words
    }

    /// Bytes of packed weights and of the mapped table of embeddings.
    pub fn bytes(&self) -> u64 {
        let of_attention = |attention: &Attention| {
            let matrices = [&attention.query, &attention.output].into_iter().chain(&attention.key_value);
            matrices.map(QuantizedMatrix::bytes).sum::<u64>()
        };
        let of_feed_forward =
            |layer: &FeedForward| layer.gate_up.iter().chain([&layer.down]).map(QuantizedMatrix::bytes).sum::<u64>();
        let encoder =
            self.encoder.iter().map(|layer| of_attention(&layer.attention) + of_feed_forward(&layer.feed_forward));
        let decoder = self.decoder.iter().map(|layer| {
            of_attention(&layer.attention) + of_attention(&layer.cross_attention) + of_feed_forward(&layer.feed_forward)
        });
        let output = self.output.iter().map(QuantizedMatrix::bytes);
        encoder.chain(decoder).chain(output).sum::<u64>() + self.embeddings.bytes().len() as u64
    }

    /// Translates sentences of one batch: source tokens with the end of the sentence in, target tokens without it out.
    ///
    /// `is_cancelled` is asked between layers and steps.
    ///
    /// # Panics
    /// When a sentence is empty or a token lies beyond the vocabulary.
    pub fn translate(
        &self,
        sentences: &[&[u32]],
        search: Search<'_>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<u32>>, TranslateError> {
        let sources = self.encode(sentences, is_cancelled)?;
        let limits: Vec<usize> = sentences.iter().map(|sentence| decoding::length_limit(sentence.len())).collect();
        decoding::search(self, &sources, &limits, search, is_cancelled)
    }
}
