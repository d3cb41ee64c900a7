//! The decoder: from phonemes stretched to frames, pitch and energy to what the generator makes sound of.

use hark_compute::conv1d::Precision;
use hark_compute::ops::Activation;
use hark_weights::FileError;

use super::graph::Graph;
use super::layers::{Convolution, Pass, Steps, padded};
use super::residual::{Place, ResidualBlock};
use crate::TtsError;

const TEXT: usize = 512;
const WIDTH: usize = 1024;
/// Columns of the text that every block sees again.
const TEXT_AGAIN: usize = 64;
/// What a block sees: the result of the one before, the text again, pitch, energy.
const SEEN: usize = WIDTH + TEXT_AGAIN + 2;
/// Output columns.
pub(crate) const OUT: usize = 512;

/// The decoder's layers.
pub(crate) struct Decoder {
    pitch: Halving,
    energy: Halving,
    text_again: Convolution,
    encode: ResidualBlock,
    decode: Vec<ResidualBlock>,
}

/// A convolution of one channel: three taps, stride 2, padding 1.
struct Halving {
    weights: Vec<f32>,
    bias: f32,
}

impl Halving {
    fn read(graph: &Graph, node: &str) -> Result<Self, FileError> {
        let weights = graph.constant(node, 1, &[1, 1, 3])?;
        Ok(Halving { weights, bias: graph.constant(node, 2, &[1])?[0] })
    }

    fn run(&self, x: &[f32]) -> Vec<f32> {
        let at = |index: Option<usize>| index.and_then(|index| x.get(index)).copied().unwrap_or(0.0);
        let step = |step: usize| {
            let near = [(2 * step).checked_sub(1), Some(2 * step), Some(2 * step + 1)];
            near.into_iter().zip(&self.weights).map(|(index, weight)| at(index) * weight).sum::<f32>() + self.bias
        };
        (0..x.len() / 2).map(step).collect()
    }
}

impl Decoder {
    pub(crate) fn read(graph: &Graph, precision: Precision) -> Result<Self, FileError> {
        let block = |name: &str, shape: (usize, usize), doubles: bool| {
            let (node, weights) = (format!("/decoder/decoder/{name}"), format!("decoder.decoder.{name}"));
            ResidualBlock::read(graph, Place { node: &node, weights: &weights }, shape, doubles, precision)
        };
        Ok(Decoder {
            pitch: Halving::read(graph, "/decoder/decoder/F0_conv/Conv")?,
            energy: Halving::read(graph, "/decoder/decoder/N_conv/Conv")?,
            text_again: graph.convolution(
                "/decoder/decoder/asr_res/asr_res.0",
                (TEXT_AGAIN, TEXT, 1),
                true,
                Precision::Split,
            )?,
            encode: block("encode", (TEXT + 2, WIDTH), false)?,
            decode: vec![
                block("decode.0", (SEEN, WIDTH), false)?,
                block("decode.1", (SEEN, WIDTH), false)?,
                block("decode.2", (SEEN, WIDTH), false)?,
                block("decode.3", (SEEN, OUT), true)?,
            ],
        })
    }

    /// Two rows of 512 for each frame.
    pub(crate) fn run(
        &self,
        pass: &mut Pass,
        style: &[f32],
        text: &Steps,
        pitch: &[f32],
        energy: &[f32],
    ) -> Result<Steps, TtsError> {
        let frames = text.len();
        let (pitch, energy) = (self.pitch.run(pitch), self.energy.run(energy));
        let text_again = self.text_again.apply(pass, text, Activation::Identity)?;
        let mut x = Steps::zeroed(frames, padded(TEXT + 2));
        let mut seen = Steps::zeroed(frames, padded(SEEN));
        for frame in 0..frames {
            let row = x.row_mut(frame);
            row[..TEXT].copy_from_slice(text.row(frame));
            (row[TEXT], row[TEXT + 1]) = (pitch[frame], energy[frame]);
            let row = &mut seen.row_mut(frame)[WIDTH..];
            row[..TEXT_AGAIN].copy_from_slice(&text_again.row(frame)[..TEXT_AGAIN]);
            (row[TEXT_AGAIN], row[TEXT_AGAIN + 1]) = (pitch[frame], energy[frame]);
        }
        let stride = seen.columns;
        self.encode.run(pass, style, &x, &mut seen.data, stride)?;
        let mut out = Steps::zeroed(2 * frames, OUT);
        for (index, block) in self.decode.iter().enumerate() {
            if index + 1 < self.decode.len() {
                let before = seen.clone();
                block.run(pass, style, &before, &mut seen.data, stride)?;
            } else {
                block.run(pass, style, &seen, &mut out.data, OUT)?;
            }
        }
        Ok(out)
    }

    pub(crate) fn memory(&self) -> u64 {
        self.decode.iter().chain([&self.encode]).map(ResidualBlock::memory).sum::<u64>() + self.text_again.memory()
    }
}
