//! The network's weights in the layout of the file.

use std::path::Path;

use hark_weights::onnx::OnnxModel;
use hark_weights::{FileError, WeightsFile};

use crate::SpeakersError;

/// The model's name in the catalogue.
pub(super) const MODEL: &str = "pyannote-segmentation-3";
/// The file in its folder.
pub(super) const FILE: &str = "segmentation-3.0.onnx";

/// Sinc filters of the first layer.
pub(super) const FILTERS: usize = 80;
/// Taps of a filter.
pub(super) const FILTER_TAPS: usize = 251;
/// Stride of the filters in samples.
pub(super) const FILTER_STRIDE: usize = 10;
/// Channels after the second and the third layer.
pub(super) const CHANNELS: usize = 60;
/// Kernel size of the second and the third layer.
pub(super) const TAPS: usize = 5;
/// Units of an LSTM layer, per direction.
pub(super) const UNITS: usize = 128;
/// LSTM layers.
pub(super) const LAYERS: usize = 4;
/// Width of the linear layers.
pub(super) const WIDTH: usize = 128;

/// Gain and shift of a normalization.
pub(super) struct Norm {
    pub(super) gain: Vec<f32>,
    pub(super) shift: Vec<f32>,
}

/// One direction of an LSTM layer; gates in ONNX's order i, o, f, g.
pub(super) struct Direction {
    /// Input width.
    pub(super) inputs: usize,
    /// `[4 * UNITS][inputs]`.
    pub(super) input: Vec<f32>,
    /// `[4 * UNITS][UNITS]`.
    pub(super) recurrent: Vec<f32>,
    /// `[4 * UNITS]`, the sum of the input and the recurrent bias.
    pub(super) bias: Vec<f32>,
}

/// A linear layer, `[inputs][outputs]`.
pub(super) struct Linear {
    pub(super) weights: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

/// All weights of the network.
pub(super) struct Weights {
    pub(super) wave_norm: Norm,
    /// `[FILTERS][FILTER_TAPS]`.
    pub(super) filters: Vec<f32>,
    /// `[CHANNELS][channels in][TAPS]`, second and third layer. Their biases are omitted: the instance
    /// norm that follows cancels any constant.
    pub(super) convolutions: [Vec<f32>; 2],
    /// The instance norm after each of the three layers.
    pub(super) norms: [Norm; 3],
    /// Forward and backward.
    pub(super) layers: Vec<[Direction; 2]>,
    pub(super) linears: [Linear; 2],
    pub(super) classifier: Linear,
}

impl Weights {
    /// Reads the file in `folder`.
    pub(super) fn load(folder: &Path) -> Result<Self, SpeakersError> {
        let path = folder.join(FILE);
        let read = || Self::read(&OnnxModel::read(&WeightsFile::open(&path)?)?);
        read().map_err(|error| SpeakersError::of_file(error, &path, MODEL))
    }

    fn read(model: &OnnxModel) -> Result<Self, FileError> {
        let file = &model.tensors;
        let norm = |name: &str, width: usize| -> Result<Norm, FileError> {
            Ok(Norm {
                gain: file.floats(&format!("{name}.weight"), &[width])?,
                shift: file.floats(&format!("{name}.bias"), &[width])?,
            })
        };
        let linear = |node: &str, inputs: usize, outputs: usize| -> Result<Linear, FileError> {
            let weights = model.node_input(&format!("/{node}/MatMul"), 1)?;
            Ok(Linear {
                weights: file.floats(weights, &[inputs, outputs])?,
                bias: file.floats(&format!("{node}.bias"), &[outputs])?,
            })
        };
        Ok(Weights {
            wave_norm: norm("sincnet.wav_norm1d", 1)?,
            filters: file.floats("/sincnet/conv1d.0/Concat_2_output_0", &[FILTERS, 1, FILTER_TAPS])?,
            convolutions: [
                file.floats("sincnet.conv1d.1.weight", &[CHANNELS, FILTERS, TAPS])?,
                file.floats("sincnet.conv1d.2.weight", &[CHANNELS, CHANNELS, TAPS])?,
            ],
            norms: [
                norm("sincnet.norm1d.0", FILTERS)?,
                norm("sincnet.norm1d.1", CHANNELS)?,
                norm("sincnet.norm1d.2", CHANNELS)?,
            ],
            layers: (0..LAYERS).map(|layer| directions(model, layer)).collect::<Result<_, _>>()?,
            linears: [linear("linear.0", 2 * UNITS, WIDTH)?, linear("linear.1", WIDTH, WIDTH)?],
            classifier: linear("classifier", WIDTH, super::CLASSES)?,
        })
    }
}

fn directions(model: &OnnxModel, layer: usize) -> Result<[Direction; 2], FileError> {
    let file = &model.tensors;
    let node = if layer == 0 { "/lstm/LSTM".to_owned() } else { format!("/lstm/LSTM_{layer}") };
    let inputs = if layer == 0 { CHANNELS } else { 2 * UNITS };
    let input = file.floats(model.node_input(&node, 1)?, &[2, 4 * UNITS, inputs])?;
    let recurrent = file.floats(model.node_input(&node, 2)?, &[2, 4 * UNITS, UNITS])?;
    let biases = file.floats(model.node_input(&node, 3)?, &[2, 8 * UNITS])?;
    Ok([0, 1].map(|direction| {
        let half = |all: &[f32]| all[direction * all.len() / 2..(direction + 1) * all.len() / 2].to_vec();
        let biases = half(&biases);
        let (of_input, of_recurrent) = biases.split_at(4 * UNITS);
        Direction {
            inputs,
            input: half(&input),
            recurrent: half(&recurrent),
            bias: of_input.iter().zip(of_recurrent).map(|(a, b)| a + b).collect(),
        }
    }))
}
