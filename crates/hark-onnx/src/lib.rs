//! Networks in ONNX files, run by ONNX Runtime.
//!
//! In: the path of ONNX Runtime's shared library, ONNX files (with their weights beside them where they are external data), and tensors by the names of inputs. Out: tensors by
//! the names of outputs. Out of scope: what the networks mean, and where files come from.
//!
//! Nothing of ONNX Runtime is needed to build this crate or linked into a program: [`Runtime::load`] opens the library when the first network is wanted. Networks that have kernels
//! of our own do not use it.

mod error;
mod network;
mod runtime;
mod tensor;
#[cfg(feature = "test-support")]
pub mod testing;

pub use error::OnnxError;
pub use network::{Network, Outputs, Port};
pub use runtime::{CATALOGUE_NAME, LIBRARY, Runtime};
pub use tensor::{Kind, Tensor};
