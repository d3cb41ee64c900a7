//! The tensors of a Silero VAD file, ONNX or safetensors, by their names in the safetensors file.

use std::collections::HashMap;
use std::path::Path;

use hark_weights::onnx::OnnxModel;
use hark_weights::{Dtype, FileError, WeightsFile, safetensors};

use super::weights::UNITS;

/// Tensors of 32-bit floats by name.
pub(super) struct Tensors {
    by_name: HashMap<String, Vec<f32>>,
}

impl Tensors {
    /// Reads safetensors or ONNX.
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let file = WeightsFile::open(path)?;
        // Safetensors starts with a length of eight bytes and then JSON; ONNX has no `{` at that offset.
        if file.bytes().get(8) != Some(&b'{') {
            return Ok(Tensors { by_name: from_onnx(&OnnxModel::read(&file)?)? });
        }
        let tensors = safetensors::read(&file)?;
        let floats = tensors.iter().filter(|tensor| tensor.dtype() == Dtype::F32);
        let floats = floats.map(|tensor| Ok((tensor.name().to_owned(), tensor.to_finite_f32()?)));
        Ok(Tensors { by_name: floats.collect::<Result<_, FileError>>()? })
    }

    /// The tensor of that name; an error unless it has `count` values.
    pub(super) fn floats(&self, name: &str, count: usize) -> Result<Vec<f32>, String> {
        let tensor = self.by_name.get(name).ok_or_else(|| format!("it has no tensor {name}"))?;
        if tensor.len() != count {
            return Err(format!("tensor {name} has {} values, not {count}", tensor.len()));
        }
        Ok(tensor.clone())
    }
}

/// The initializers of `silero_vad_16k_sequence.onnx`, renamed.
fn from_onnx(model: &OnnxModel) -> Result<HashMap<String, Vec<f32>>, FileError> {
    let damaged = |what: &str| FileError::damaged(model.tensors.path(), what);
    let take = |from: &str| model.tensors.get(from).and_then(|tensor| tensor.to_finite_f32());
    let mut tensors = HashMap::new();
    for n in 1..=4 {
        for part in ["weight", "bias"] {
            tensors.insert(format!("conv{n}.{part}"), take(&format!("encoder.{}.{part}", n - 1))?);
        }
    }
    for (name, from) in [
        ("stft_conv.weight", "stft.forward_basis_buffer"),
        ("final_conv.weight", "output.weight"),
        ("final_conv.bias", "output.bias"),
    ] {
        tensors.insert(name.to_owned(), take(from)?);
    }
    // The LSTM's inputs: activations, input weights, recurrent weights, both biases concatenated.
    let lstm = model.nodes.iter().find(|node| node.op_type == "LSTM");
    let Some([_, input, hidden, bias, ..]) = lstm.map(|node| &node.inputs[..]) else {
        return Err(damaged("it has no recurrent layer"));
    };
    let bias = take(bias)?;
    let (input_bias, hidden_bias) =
        bias.split_at_checked(4 * UNITS).ok_or_else(|| damaged("its recurrent bias is too short"))?;
    tensors.insert("lstm_cell.bias_ih".to_owned(), reorder_gates(input_bias));
    tensors.insert("lstm_cell.bias_hh".to_owned(), reorder_gates(hidden_bias));
    tensors.insert("lstm_cell.weight_ih".to_owned(), reorder_gates(&take(input)?));
    tensors.insert("lstm_cell.weight_hh".to_owned(), reorder_gates(&take(hidden)?));
    Ok(tensors)
}

/// ONNX orders the gates input, output, forget, cell; the kernels expect input, forget, cell, output.
fn reorder_gates(stacked: &[f32]) -> Vec<f32> {
    let quarter = stacked.len() / 4;
    [0, 2, 3, 1].iter().flat_map(|&gate| stacked[gate * quarter..(gate + 1) * quarter].iter().copied()).collect()
}
