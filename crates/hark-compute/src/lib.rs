//! CPU compute for every model of the program.
//!
//! In: weights as float32 matrices, activations as float32, bf16 or int8 rows. Out: products, attention and
//! normalized rows, by the kernels of the best instruction set that the machine has, on a pool of threads.
//! None of its business: what a network looks like, files of weights, audio, text.
//!
//! Every kernel has a plain twin in portable Rust, which tests compare it with on random shapes.

pub mod attention;
pub mod bandwidth;
pub mod buffer;
pub mod cache;
mod compute;
pub mod isa;
pub mod kernels;
pub mod linear;
pub mod team;

pub use compute::Compute;
pub use isa::Isa;
pub use linear::Weights;
pub use team::Team;
