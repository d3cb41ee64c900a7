//! The Whisper engine on NVIDIA GPUs: a [`hark_whisper::backend::Backend`].
//!
//! In: a checkpoint and a device. Out: answers and alignments, as from the CPU. None of its business: rules of decoding, windows, files.
//!
//! [`backend`] has slots, rows and batches; `network` the network as a sequence of operations; [`device`] says what a device is. There are two: the
//! GPU ([`cuda`]) and the CPU, slow and plain ([`plain`]), on which everything above devices is tested.

pub mod backend;
pub mod cuda;
pub mod device;
mod lineage;
mod network;
pub mod plain;
pub mod speed;

pub use backend::{GpuBackend, GpuOptions};
pub use network::weights::{LoadError, Precision};
