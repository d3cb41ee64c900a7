//! CPU compute for every model of the program.
//!
//! In: weights as float32 matrices, activations as float32, bf16 or int8 rows. Out: products, attention, convolutions,
//! recurrent cells and normalized rows, by the kernels of the best instruction set that the machine has, on one pool of
//! threads. None of its business: what a network looks like, files of weights, audio formats, text.
//!
//! Every kernel has a plain twin in portable Rust, which tests compare it with on random shapes. Functions that take raw
//! pointers are `unsafe`; all others take views that borrow and check their shapes once a call.

pub mod attention;
pub mod bandwidth;
pub mod buffer;
mod compute;
pub mod conv1d;
pub mod gemm;
pub mod isa;
pub mod kernels;
pub mod linear;
pub mod norm;
pub mod ops;
mod pool;
pub mod quantized;
pub mod row_ops;
mod simd;
pub mod vector;
pub mod view;

pub use compute::{Compute, Worker};
pub use isa::Isa;
pub use linear::Weights;
pub use pool::ThreadPool;
