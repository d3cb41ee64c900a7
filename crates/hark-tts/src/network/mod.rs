//! Kokoro's network: phoneme ids and a style vector in, 24 kHz samples out.
//!
//! ```text
//! ids ─▶ PL-BERT ─▶ predictor ─▶ frames of each phoneme, pitch, energy ─┐
//!  └──▶ text encoder ─▶ repeated for its frames ───────────────────────┴─▶ decoder ─▶ generator ─▶ samples
//! ```
//!
//! What decides over time and pitch runs with split numbers ([`Precision::Split`]), so that durations are those of float32; the
//! decoder and the generator run in bf16.

mod bert;
mod decoder;
mod generator;
mod graph;
mod layers;
mod lstm;
mod predictor;
mod residual;
mod source;
#[cfg(test)]
mod tests;
mod text;

use std::path::Path;

use hark_compute::Compute;
use hark_compute::conv1d::Precision;
use hark_weights::FileError;

use crate::TtsError;
use bert::Bert;
use decoder::Decoder;
use generator::Generator;
use graph::Graph;
use layers::{Pass, STYLE};
use predictor::{Predictor, repeated};
use text::TextEncoder;

pub(crate) use source::SAMPLE_RATE;

/// Elements of a style vector: one half for the decoder, one for the predictor.
pub(crate) const STYLE_WIDTH: usize = 2 * STYLE;

/// All layers.
pub(crate) struct Network {
    bert: Bert,
    text: TextEncoder,
    predictor: Predictor,
    decoder: Decoder,
    generator: Generator,
}

impl Network {
    /// Reads the weights of an exported graph and packs them for the kernels.
    pub(crate) fn open(path: &Path, precision: Precision) -> Result<Self, FileError> {
        let graph = Graph::open(path)?;
        Ok(Network {
            bert: Bert::read(&graph)?,
            text: TextEncoder::read(&graph)?,
            predictor: Predictor::read(&graph)?,
            decoder: Decoder::read(&graph, precision)?,
            generator: Generator::read(&graph, precision)?,
        })
    }

    /// The samples of a sentence; `style` has 256 elements.
    pub(crate) fn run(
        &self,
        compute: &Compute,
        ids: &[u32],
        style: &[f32],
        speed: f32,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<f32>, TtsError> {
        let pass = &mut Pass::new(compute, is_cancelled);
        let (sound, prosody) = style.split_at(STYLE);
        let bert = self.bert.run(pass, ids)?;
        let prosody = self.predictor.run(pass, prosody, &bert, speed)?;
        let text = repeated(&self.text.run(pass, ids)?, &prosody.durations);
        let decoded = self.decoder.run(pass, sound, &text, &prosody.pitch, &prosody.energy)?;
        let samples = self.generator.run(pass, sound, decoded, &prosody.pitch)?;
        if samples.iter().all(|sample| sample.is_finite()) { Ok(samples) } else { Err(TtsError::NotFinite) }
    }

    /// Bytes of packed weights.
    pub(crate) fn memory(&self) -> u64 {
        self.bert.memory()
            + self.text.memory()
            + self.predictor.memory()
            + self.decoder.memory()
            + self.generator.memory()
    }
}
