//! Prosody: how long each phoneme lasts, the pitch and the energy.

use hark_compute::conv1d::Precision;
use hark_compute::ops::Activation;
use hark_weights::FileError;

use super::graph::Graph;
use super::layers::{AdaptiveNorm, Convolution, Pass, STYLE, Steps, layer_norm};
use super::lstm::BiLstm;
use super::residual::{Place, ResidualBlock, adaptive_norm};
use crate::TtsError;

const WIDTH: usize = 512;
/// The outputs of the duration layer, which are probabilities that the phoneme lasts longer.
const DURATIONS: usize = 50;
const EPSILON: f64 = 1e-5;

/// What the decoder is told besides the phonemes.
pub(crate) struct Prosody {
    /// Frames of each phoneme.
    pub(crate) durations: Vec<usize>,
    /// The pitch in Hz, two of each frame.
    pub(crate) pitch: Vec<f32>,
    /// The energy, two of each frame.
    pub(crate) energy: Vec<f32>,
}

/// The predictor's layers.
pub(crate) struct Predictor {
    /// LSTMs, each with a layer norm whose scale and shift come from the style.
    encoder: Vec<(BiLstm, AdaptiveNorm)>,
    duration: BiLstm,
    duration_out: Convolution,
    shared: BiLstm,
    pitch: Curve,
    energy: Curve,
}

/// Three residual blocks and a linear layer of one output.
struct Curve {
    blocks: [ResidualBlock; 3],
    weights: Vec<f32>,
    bias: f32,
}

impl Curve {
    fn read(graph: &Graph, name: &str) -> Result<Self, FileError> {
        let block = |index: usize, shape: (usize, usize), doubles: bool| {
            let (node, weights) = (format!("/encoder/{name}.{index}"), format!("encoder.predictor.{name}.{index}"));
            ResidualBlock::read(graph, Place { node: &node, weights: &weights }, shape, doubles, Precision::Split)
        };
        let out = format!("/encoder/{name}_proj/Conv");
        Ok(Curve {
            blocks: [
                block(0, (WIDTH, WIDTH), false)?,
                block(1, (WIDTH, WIDTH / 2), true)?,
                block(2, (WIDTH / 2, WIDTH / 2), false)?,
            ],
            weights: graph.constant(&out, 1, &[1, WIDTH / 2, 1])?,
            bias: graph.constant(&out, 2, &[1])?[0],
        })
    }

    /// Two numbers of each frame.
    fn run(&self, pass: &mut Pass, style: &[f32], x: &Steps) -> Result<Vec<f32>, TtsError> {
        let [first, second, third] = &self.blocks;
        let mut wide = Steps::zeroed(x.len(), WIDTH);
        first.run(pass, style, x, &mut wide.data, WIDTH)?;
        let mut narrow = Steps::zeroed(2 * x.len(), WIDTH / 2);
        second.run(pass, style, &wide, &mut narrow.data, WIDTH / 2)?;
        let mut last = Steps::zeroed(narrow.len(), WIDTH / 2);
        third.run(pass, style, &narrow, &mut last.data, WIDTH / 2)?;
        let out = |row: &[f32]| row.iter().zip(&self.weights).map(|(x, weight)| x * weight).sum::<f32>() + self.bias;
        Ok(last.data.chunks_exact(WIDTH / 2).map(out).collect())
    }
}

impl Predictor {
    pub(crate) fn read(graph: &Graph) -> Result<Self, FileError> {
        let encoder = (0..3).map(|index| {
            let node = format!("/encoder/predictor/text_encoder/lstms.{}/LSTM", 2 * index);
            let norm = format!("encoder.predictor.text_encoder.lstms.{}", 2 * index + 1);
            Ok((BiLstm::read(graph, &node, WIDTH + STYLE)?, adaptive_norm(graph, &norm, WIDTH)?))
        });
        Ok(Predictor {
            encoder: encoder.collect::<Result<_, FileError>>()?,
            duration: BiLstm::read(graph, "/encoder/predictor/lstm/LSTM", WIDTH + STYLE)?,
            duration_out: graph.linear("/encoder/predictor/duration_proj/linear_layer", DURATIONS, WIDTH)?,
            shared: BiLstm::read(graph, "/encoder/shared/LSTM", WIDTH + STYLE)?,
            pitch: Curve::read(graph, "F0")?,
            energy: Curve::read(graph, "N")?,
        })
    }

    /// The prosody of what PL-BERT says of the phonemes.
    pub(crate) fn run(&self, pass: &mut Pass, style: &[f32], bert: &Steps, speed: f32) -> Result<Prosody, TtsError> {
        let mut x = with_style(bert, style);
        for (lstm, norm) in &self.encoder {
            let mut out = lstm.run(pass, &x)?;
            let parameters = norm.parameters(pass.compute, style);
            for row in out.data.chunks_exact_mut(WIDTH) {
                layer_norm(row, EPSILON, |column, x| (1.0 + parameters[column]) * x + parameters[WIDTH + column]);
            }
            x = with_style(&out, style);
        }
        let states = self.duration.run(pass, &x)?;
        let lasting = self.duration_out.apply(pass, &states, Activation::Identity)?;
        let frames = |row: &[f32]| {
            let expected: f32 = row[..DURATIONS].iter().map(|x| 1.0 / (1.0 + (-x).exp())).sum();
            (expected / speed).round_ties_even().max(1.0) as usize
        };
        let durations: Vec<usize> = lasting.data.chunks_exact(lasting.columns).map(frames).collect();
        let shared = self.shared.run(pass, &repeated(&x, &durations))?;
        let pitch = self.pitch.run(pass, style, &shared)?;
        let energy = self.energy.run(pass, style, &shared)?;
        Ok(Prosody { durations, pitch, energy })
    }

    pub(crate) fn memory(&self) -> u64 {
        let lstms = self.encoder.iter().map(|(lstm, _)| lstm).chain([&self.duration, &self.shared]);
        let blocks = self.pitch.blocks.iter().chain(&self.energy.blocks);
        lstms.map(BiLstm::memory).sum::<u64>() + blocks.map(ResidualBlock::memory).sum::<u64>()
    }
}

/// Each row with the style behind it.
fn with_style(x: &Steps, style: &[f32]) -> Steps {
    let rows = x.data.chunks_exact(x.columns);
    Steps { data: rows.flat_map(|row| row.iter().chain(style).copied()).collect(), columns: x.columns + style.len() }
}

/// Each row as many times as its phoneme has frames.
pub(crate) fn repeated(x: &Steps, durations: &[usize]) -> Steps {
    let rows = durations.iter().enumerate().flat_map(|(row, frames)| std::iter::repeat_n(x.row(row), *frames));
    Steps { data: rows.flat_map(|row| row.iter().copied()).collect(), columns: x.columns }
}
