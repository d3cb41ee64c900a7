//! The text encoder: what each phoneme sounds like.

use hark_compute::conv1d::Precision;
use hark_compute::ops::Activation;
use hark_weights::FileError;

use super::graph::Graph;
use super::layers::{Convolution, Pass, Steps, layer_norm};
use super::lstm::BiLstm;
use crate::TtsError;
use crate::phonemes::SYMBOLS;

const WIDTH: usize = 512;
const TAPS: usize = 5;
const EPSILON: f64 = 1e-5;
const SLOPE: f32 = 0.2;

/// Embeddings, three convolutions with layer norms, an LSTM.
pub(crate) struct TextEncoder {
    symbols: Vec<f32>,
    layers: Vec<(Convolution, Vec<f32>, Vec<f32>)>,
    lstm: BiLstm,
}

impl TextEncoder {
    pub(crate) fn read(graph: &Graph) -> Result<Self, FileError> {
        let layer = |index: usize| {
            let node = format!("/encoder/text_encoder/cnn.{index}/cnn.{index}.0");
            let conv = graph.convolution(&node, (WIDTH, WIDTH, TAPS), true, Precision::Split)?;
            let norm = |part: &str| graph.named(&format!("encoder.text_encoder.cnn.{index}.1.{part}"), &[WIDTH]);
            Ok((conv, norm("gamma")?, norm("beta")?))
        };
        Ok(TextEncoder {
            symbols: graph.named("encoder.text_encoder.embedding.weight", &[SYMBOLS, WIDTH])?,
            layers: (0..3).map(layer).collect::<Result<_, FileError>>()?,
            lstm: BiLstm::read(graph, "/encoder/text_encoder/lstm/LSTM", WIDTH)?,
        })
    }

    /// A row of 512 for each id.
    pub(crate) fn run(&self, pass: &mut Pass, ids: &[u32]) -> Result<Steps, TtsError> {
        let symbol = |id: &u32| self.symbols[*id as usize * WIDTH..][..WIDTH].iter().copied();
        let mut x = Steps { data: ids.iter().flat_map(symbol).collect(), columns: WIDTH };
        for (index, (conv, gain, shift)) in self.layers.iter().enumerate() {
            // The leaky ReLU of a layer is applied by the one that reads its result.
            let activation = if index == 0 { Activation::Identity } else { Activation::LeakyRelu(SLOPE) };
            x = conv.apply(pass, &x, activation)?;
            for row in x.data.chunks_exact_mut(WIDTH) {
                layer_norm(row, EPSILON, |column, x| x * gain[column] + shift[column]);
            }
        }
        x.data.iter_mut().for_each(|x| *x = if *x < 0.0 { *x * SLOPE } else { *x });
        self.lstm.run(pass, &x)
    }

    pub(crate) fn memory(&self) -> u64 {
        self.layers.iter().map(|(conv, ..)| conv.memory()).sum::<u64>()
            + self.lstm.memory()
            + self.symbols.len() as u64 * 4
    }
}
