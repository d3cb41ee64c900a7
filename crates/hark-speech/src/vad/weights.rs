//! The weights of Silero VAD, validated and packed for the kernels.
//!
//! The package contains the network twice: `silero_vad_16k_sequence.onnx` has the weights of the current
//! version, `silero_vad_16k.safetensors` those of an earlier training run, which detects less very quiet speech.
//! Both formats are supported.

use std::path::Path;

use hark_compute::vector::stft::BINS;
use hark_compute::vector::{LINE, PackedF32, Stft};
use hark_weights::FileError;

use super::VadError;
use super::tensors::Tensors;

/// Units of the LSTM, each with four gates.
pub(super) const UNITS: usize = 128;

/// A convolution of three taps over frames, its depth ordered `(tap, channel)` so that neighbouring input frames
/// are contiguous rows.
pub(super) struct Convolution {
    pub(super) channels: usize,
    pub(super) weights: PackedF32,
    pub(super) bias: Vec<f32>,
}

/// All layers, in the layout of the kernels.
pub(super) struct Weights {
    pub(super) stft: Stft,
    pub(super) convolutions: [Convolution; 4],
    /// 512 gate rows in one panel: as `[depth][row]` it is also the right operand of a GEMM.
    pub(super) input: PackedF32,
    /// Panels of 128 rows: eight vectors side by side, one stream of reads per step.
    pub(super) recurrent: PackedF32,
    pub(super) gate_bias: Vec<f32>,
    pub(super) output: Vec<f32>,
    pub(super) output_bias: f32,
}

impl Weights {
    pub(super) fn load(path: &Path) -> Result<Self, VadError> {
        let malformed = |what| VadError::Malformed { path: path.to_path_buf(), what };
        let tensors = Tensors::open(path).map_err(|error| match error {
            FileError::Read { source, .. } => VadError::Unreadable { path: path.to_path_buf(), source },
            other => malformed(other.what()),
        })?;
        Weights::pack(&tensors).map_err(malformed)
    }

    fn pack(file: &Tensors) -> Result<Self, String> {
        let basis = file.floats("stft_conv.weight", 258 * 256)?;
        let convolution = |n: usize, outputs: usize, channels: usize| -> Result<Convolution, String> {
            let weights = file.floats(&format!("conv{n}.weight"), outputs * channels * 3)?;
            Ok(Convolution {
                channels,
                weights: PackedF32::pack(outputs, 3 * channels, LINE, |row, k| {
                    weights[row * 3 * channels + (k % channels) * 3 + k / channels]
                }),
                bias: file.floats(&format!("conv{n}.bias"), outputs)?,
            })
        };
        let input = file.floats("lstm_cell.weight_ih", 4 * UNITS * UNITS)?;
        let recurrent = file.floats("lstm_cell.weight_hh", 4 * UNITS * UNITS)?;
        let input_bias = file.floats("lstm_cell.bias_ih", 4 * UNITS)?;
        let recurrent_bias = file.floats("lstm_cell.bias_hh", 4 * UNITS)?;
        Ok(Weights {
            stft: Stft::new(window_of(&basis)?),
            convolutions: [
                convolution(1, 128, BINS)?,
                convolution(2, 64, 128)?,
                convolution(3, 64, 64)?,
                convolution(4, 128, 64)?,
            ],
            input: PackedF32::pack(4 * UNITS, UNITS, 4 * UNITS, |row, k| input[row * UNITS + k]),
            recurrent: PackedF32::pack(4 * UNITS, UNITS, 128, |row, k| recurrent[row * UNITS + k]),
            gate_bias: input_bias.iter().zip(&recurrent_bias).map(|(a, b)| a + b).collect(),
            output: file.floats("final_conv.weight", UNITS)?,
            output_bias: file.floats("final_conv.bias", 1)?[0],
        })
    }
}

/// The window of the STFT. The file has the transform as a 258 × 256 matrix, which is replaced by an FFT; so the
/// matrix must be a windowed Fourier transform: row 0 (frequency 0) is the window, which determines all other rows.
fn window_of(basis: &[f32]) -> Result<[f32; 256], String> {
    let window: [f32; 256] = std::array::from_fn(|i| basis[i]);
    for k in 0..BINS {
        for i in 0..256 {
            let angle = std::f64::consts::TAU * ((k * i) % 256) as f64 / 256.0;
            let (cos, sin) = (window[i] as f64 * angle.cos(), window[i] as f64 * -angle.sin());
            let off = (basis[k * 256 + i] as f64 - cos).abs().max((basis[(BINS + k) * 256 + i] as f64 - sin).abs());
            if off > 1e-5 {
                return Err("its first layer is not a windowed Fourier transform".to_owned());
            }
        }
    }
    Ok(window)
}
