//! Any bytes as a weights file of every format: an error or tensors no larger than the file, never a panic.

use std::sync::Arc;

use hark_weights::ct2::Ct2Model;
use hark_weights::ggml::GgmlModel;
use hark_weights::gguf::GgufModel;
use hark_weights::onnx::OnnxModel;
use hark_weights::{FileError, Tensors, WeightsFile, safetensors, torch};

/// Reads the bytes in every format, and every tensor that is found.
pub fn weights(data: &[u8]) {
    let file = WeightsFile::from_bytes("fuzz", data.to_vec());
    let onnx = OnnxModel::read(&file);
    if let Ok(model) = &onnx {
        for name in model.tensors.names() {
            let _ = model.dequantized(name).map(|tensor| tensor.to_f32());
        }
    }
    check(&file, onnx.map(|model| model.tensors));
    check(&file, safetensors::read(&file));
    check(&file, Ct2Model::read(&file).map(|model| model.tensors));
    check(&file, GgmlModel::read(&file).map(|model| model.tensors));
    check(&file, GgufModel::read(&file).map(|model| model.tensors));
    check(&file, torch::read(&file));
}

fn check(file: &Arc<WeightsFile>, tensors: Result<Tensors, FileError>) {
    let tensors = match tensors {
        Ok(tensors) => tensors,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    // Many tensors may lie over the same bytes; a few of them are enough.
    for tensor in tensors.iter().take(64) {
        // Four bits a value is the densest type.
        assert!(tensor.len() <= 2 * file.bytes().len(), "{} values in {} bytes", tensor.len(), file.bytes().len());
        let values = tensor.to_f32();
        assert_eq!(values.len(), tensor.shape().iter().product::<usize>());
        let mut bf16 = vec![0; values.len()];
        tensor.rows_bf16(0..tensor.rows(), &mut bf16);
        if let Ok(transposed) = tensor.clone().transposed() {
            assert_eq!(transposed.to_f32().len(), values.len());
        }
        if tensor.shape().len() > 1 && tensor.rows() % 2 == 0 {
            let half = tensor.part(1, 2).expect("two halves").to_f32();
            assert!(half.iter().zip(&values[values.len() / 2..]).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }
}
