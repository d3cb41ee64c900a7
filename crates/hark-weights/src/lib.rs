//! Readers of model weights, one for each file format.
//!
//! In: a file, memory-mapped ([`WeightsFile`]). Out: its tensors by name ([`Tensors`]), whose values are converted to
//! `f32` or bf16 when rows of them are asked for ([`Tensor`]), and what else the format carries (nodes of a graph,
//! metadata, a vocabulary). None of its business: which network the tensors belong to, how a kernel wants them packed,
//! and where files come from.
//!
//! Files may be hostile. Every length is checked against the file before it is used, a reader allocates a small multiple
//! of what it has read so far, and counts are bounded ([`MAX_TENSORS`]): a bad file is a [`FileError`], never a panic.

pub mod ct2;
mod dtype;
mod error;
mod file;
pub mod ggml;
pub mod gguf;
pub mod marian;
pub mod onnx;
pub mod protobuf;
mod quants;
mod reader;
pub mod safetensors;
mod tensor;
mod tensors;
pub mod torch;

pub use dtype::Dtype;
pub use error::FileError;
pub use file::WeightsFile;
pub use hark_numeric::{QuantBlock, bf16_to_f32, f16_to_f32, f32_to_bf16};
pub use tensor::{Quantization, Tensor};
pub use tensors::Tensors;

/// Most tensors a file may list; the largest published mixtures of experts have some 100,000.
pub const MAX_TENSORS: usize = 1 << 18;
