//! Marian's transformers with a full decoder, as OPUS-MT has them and the hub stores them (MarianMT): encoder and decoder layers with norms behind their residuals,
//! sinusoidal positions, one table of embeddings for source, target and output.
//!
//! Weights are bf16, states f32; activations, keys and values of the decoder are bf16, those of encoder and cross-attention f16.

mod config;
mod decoder;
mod load;
mod model;
mod vocabulary;

use std::path::Path;

use hark_compute::Compute;
use hark_weights::Tensor;

pub use crate::decoding::Search;
use crate::marian::{AddNorm, Batch, CrossAttention, EncoderLayer, FeedForward, Linear, Transformer};
use crate::{TranslateError, decoding};
use config::Config;
pub use model::MarianMtModel;
pub use vocabulary::Vocabulary;

/// Longest source sentence in tokens, the end included: sentences in training were not much longer.
pub const MAX_SOURCE_TOKENS: usize = 128;

/// A network in memory.
pub struct MarianMt {
    transformer: Transformer,
    config: Config,
    /// Rows of word embeddings, read from the mapped file as they are needed.
    embeddings: Tensor,
    /// The sinusoids of all positions, one row behind the other.
    positions: Vec<f32>,
    encoder: Vec<EncoderLayer>,
    decoder: Vec<DecoderLayer>,
    /// The projection to words by the table of embeddings, in stretches.
    output: Vec<Linear>,
}

struct DecoderLayer {
    attention: SelfAttention,
    cross_attention: CrossAttention,
    feed_forward: FeedForward,
}

struct SelfAttention {
    /// Queries, keys, values.
    qkv: [Linear; 3],
    output: AddNorm,
}

impl MarianMt {
    /// Loads the network in a folder: `config.json` with `model.safetensors`, its shards and their index, or `pytorch_model.bin`.
    pub fn load(compute: &Compute, folder: &Path) -> Result<Self, TranslateError> {
        load::load(compute, folder)
    }

    /// Whether a folder says that it has such a network.
    pub fn is_in(folder: &Path) -> bool {
        Config::is_in(folder)
    }

    /// Words of the vocabulary.
    pub fn words(&self) -> usize {
        self.config.words
    }

    /// The token of the end of a sentence.
    pub fn end(&self) -> u32 {
        self.config.end
    }

    /// Tokens that its configuration says are never generated.
    pub fn never(&self) -> &[u32] {
        &self.config.never
    }

    /// Hypotheses of a sentence by its configuration.
    pub fn beams(&self) -> usize {
        self.config.beams
    }

    /// Most tokens of a source sentence, its end included.
    pub fn max_source_tokens(&self) -> usize {
        MAX_SOURCE_TOKENS.min(self.config.positions)
    }

    /// Bytes of packed weights and of the mapped table of embeddings.
    pub fn bytes(&self) -> u64 {
        let encoder = self.encoder.iter().map(EncoderLayer::bytes);
        let decoder = self.decoder.iter().map(|layer| {
            let own = Linear::sum_of_bytes(layer.attention.qkv.iter().chain([&layer.attention.output.linear]));
            own + layer.cross_attention.bytes() + layer.feed_forward.bytes()
        });
        let tables = self.embeddings.bytes().len() as u64 + 4 * self.positions.len() as u64;
        encoder.chain(decoder).sum::<u64>() + Linear::sum_of_bytes(&self.output) + tables
    }

    /// Translates sentences of one batch: source tokens with the end of the sentence in, target tokens without it out.
    ///
    /// `is_cancelled` is asked between layers and steps.
    ///
    /// # Panics
    /// When a sentence is empty or longer than [`MarianMt::max_source_tokens`], or a token lies beyond the vocabulary.
    pub fn translate(
        &self,
        sentences: &[&[u32]],
        search: Search<'_>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<u32>>, TranslateError> {
        assert!(
            sentences.iter().all(|sentence| sentence.len() <= self.max_source_tokens()),
            "sentences have positions"
        );
        let batch = Batch::new(sentences);
        let mut states = vec![0.0; batch.tokens.len() * self.transformer.config.width];
        let positions = batch.sentences.iter().flat_map(|rows| 0..rows.len());
        self.embed(batch.tokens.iter().copied().zip(positions), &mut states);
        self.transformer.encode(&self.encoder, &batch, &mut states, is_cancelled)?;
        let cross_attentions = self.decoder.iter().map(|layer| &layer.cross_attention);
        let source = self.transformer.source(batch, &states, cross_attentions);
        // The token that a decoder begins with takes a position, too.
        let limit = |sentence: &&[u32]| decoding::length_limit(sentence.len()).min(self.config.positions - 1);
        let limits: Vec<usize> = sentences.iter().map(limit).collect();
        decoding::search(self, &source, &limits, search, is_cancelled)
    }

    /// The scaled embeddings of words plus the sinusoids of their positions.
    fn embed(&self, words: impl Iterator<Item = (u32, usize)>, states: &mut [f32]) {
        let (width, scale) = (self.transformer.config.width, self.config.embedding_scale);
        for ((word, position), state) in words.zip(states.chunks_exact_mut(width)) {
            let row = word as usize;
            self.embeddings.rows_f32(row..row + 1, state);
            let signal = &self.positions[position * width..][..width];
            state.iter_mut().zip(signal).for_each(|(value, signal)| *value = *value * scale + signal);
        }
    }
}
