//! Errors of ONNX networks.

use std::path::PathBuf;

use crate::tensor::Kind;

/// Why a network was not loaded or not run.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// ONNX Runtime can't be loaded.
    #[error("ONNX Runtime can't be loaded from {}: {why}", path.display())]
    Library {
        /// The library.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// A file is missing.
    #[error("{} is missing", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file is no network that ONNX Runtime can run.
    #[error("{} can't be loaded: {why}", path.display())]
    Unloadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// The network has other inputs or outputs than the caller needs.
    #[error("{} is not the network that it should be: {what}", path.display())]
    Unlike {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: String,
    },
    /// A pass through the network failed.
    #[error("{} failed: {why}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// A tensor was made with a shape that its numbers do not fill.
    #[error("a tensor of shape {shape:?} has {numbers} numbers")]
    Shape {
        /// The shape.
        shape: Vec<usize>,
        /// How many numbers there were.
        numbers: usize,
    },
    /// A tensor holds numbers of another kind than was asked for.
    #[error("a tensor holds {found}, not {wanted}")]
    Kind {
        /// What was asked for.
        wanted: Kind,
        /// What it holds.
        found: String,
    },
    /// ONNX Runtime refused a tensor.
    #[error("ONNX Runtime made no tensor: {why}")]
    Tensor {
        /// The cause.
        why: String,
    },
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
}

/// The cause that ONNX Runtime gives, on one line.
pub(crate) fn reason(error: &dyn std::fmt::Display) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
