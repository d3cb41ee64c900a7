//! Marian's student networks, as Firefox translates with: a transformer encoder, and a decoder whose self-attention is replaced by a simple
//! recurrent unit (SSRU).
//!
//! Weights stay the int8 numbers of the file, which bf16 holds exactly; activations are bf16, or int8 in blocks of 32 where there are few rows. Marian itself rounds
//! activations to int8 with one scale for each matrix, so its probabilities differ a little and close decisions may fall the other way.

mod batch;
mod config;
mod decoder;
mod linear;
mod load;
mod transformer;

use std::path::Path;

use hark_compute::Compute;
use hark_weights::Tensor;

use crate::TranslateError;
pub(crate) use batch::Batch;
pub(crate) use config::{Activation, Config, NOT_WHOLE};
pub(crate) use linear::{AddNorm, LayerNorm, Linear, apply, products};
pub(crate) use transformer::{CrossAttention, EncoderLayer, FeedForward, Source, Transformer, Workspace};

/// Longest source sentence in tokens, the end included: sentences in training were not much longer.
pub const MAX_SOURCE_TOKENS: usize = 128;
/// Tokens of a sentence for each of its source, at most, as Firefox has it; and so many more, for the shortest.
const LENGTH_FACTOR: f32 = 2.5;
const LENGTH_SLACK: usize = 8;

/// A network in memory.
pub struct Marian {
    transformer: Transformer,
    source_embeddings: Embeddings,
    target_embeddings: Embeddings,
    encoder: Vec<EncoderLayer>,
    decoder: Vec<DecoderLayer>,
    /// Target embeddings as a projection, in stretches of words whose logits stay in the second-level cache.
    output: Vec<Linear>,
}

/// Rows of word embeddings, read from the mapped file as they are needed.
struct Embeddings {
    table: Tensor,
}

struct DecoderLayer {
    /// Forget gate and candidate of the recurrent unit.
    recurrent: [Linear; 2],
    recurrent_norm: LayerNorm,
    cross_attention: CrossAttention,
    feed_forward: FeedForward,
}

impl Marian {
    /// Loads a model file.
    pub fn load(compute: &Compute, path: &Path) -> Result<Self, TranslateError> {
        load::load(compute, path)
    }

    /// Words of the source vocabulary.
    pub fn source_words(&self) -> usize {
        self.source_embeddings.table.rows()
    }

    /// Words of the target vocabulary.
    pub fn target_words(&self) -> usize {
        self.target_embeddings.table.rows()
    }

    /// Bytes of packed weights and of the mapped tables of embeddings.
    pub fn bytes(&self) -> u64 {
        let encoder = self.encoder.iter().map(EncoderLayer::bytes);
        let decoder = self.decoder.iter().map(|layer| {
            Linear::sum_of_bytes(&layer.recurrent) + layer.cross_attention.bytes() + layer.feed_forward.bytes()
        });
        let is_shared = self.source_embeddings.table.name() == self.target_embeddings.table.name();
        let words = self.target_words() + if is_shared { 0 } else { self.source_words() };
        let embeddings = (words * self.transformer.config.width) as u64;
        encoder.chain(decoder).sum::<u64>() + Linear::sum_of_bytes(&self.output) + embeddings
    }

    /// Translates sentences of one batch greedily: source tokens with the end of the sentence in, target tokens without it out.
    ///
    /// `never` is a token that is not generated (unknown words). `is_cancelled` is asked between layers and steps.
    ///
    /// # Panics
    /// When a sentence is empty or a token lies beyond the vocabulary.
    pub fn translate(
        &self,
        sentences: &[&[u32]],
        end: u32,
        never: u32,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<u32>>, TranslateError> {
        let batch = Batch::new(sentences);
        let mut states = self.embed(&batch);
        self.transformer.encode(&self.encoder, &batch, &mut states, is_cancelled)?;
        let cross_attentions = self.decoder.iter().map(|layer| &layer.cross_attention);
        let source = self.transformer.source(batch, &states, cross_attentions);
        self.decode(&source, end, never, is_cancelled)
    }

    /// The embedded source tokens of all sentences.
    fn embed(&self, batch: &Batch) -> Vec<f32> {
        let width = self.transformer.config.width;
        let longest = batch.sentences.iter().map(|rows| rows.len()).max().unwrap_or(0);
        let signals: Vec<Vec<f32>> = (0..longest)
            .map(|position| {
                let mut signal = Vec::new();
                position_signal(position, width, &mut signal);
                signal
            })
            .collect();
        let mut states = vec![0.0; batch.tokens.len() * width];
        for rows in &batch.sentences {
            for (row, signal) in rows.clone().zip(&signals) {
                let state = &mut states[row * width..][..width];
                self.source_embeddings.look_up(Some(batch.tokens[row]), signal, state);
            }
        }
        states
    }
}

impl Embeddings {
    /// The scaled embedding of a word plus the signal of its position. No word at all has an embedding of zeros.
    fn look_up(&self, word: Option<u32>, signal: &[f32], out: &mut [f32]) {
        match word {
            Some(word) => {
                self.table.rows_f32(word as usize..word as usize + 1, out);
                let scale = (out.len() as f32).sqrt();
                out.iter_mut().zip(signal).for_each(|(out, signal)| *out = *out * scale + signal);
            }
            None => out.copy_from_slice(signal),
        }
    }
}

/// The sinusoids of a position: sines, then cosines, of wavelengths from 2π to 20,000π.
fn position_signal(position: usize, width: usize, out: &mut Vec<f32>) {
    out.clear();
    let scales = width / 2;
    let step = 10_000f32.ln() / (scales as f32 - 1.0);
    let angles = (0..scales).map(|i| position as f32 * (i as f32 * -step).exp());
    out.extend(angles.clone().map(f32::sin));
    out.extend(angles.map(f32::cos));
}
