//! Number formats that weights are stored and computed in: IEEE half, bfloat16, e4m3, and blocks of quantized weights; and a generator of pseudo-random numbers.
//!
//! In: bits. Out: floats, and the other way round. Readers of files (`hark-weights`) and kernels (`hark-compute`) share these
//! formats and know nothing of each other. None of its business: how files or kernels lay numbers out.

mod bf16;
mod block;
mod e4m3;
mod f16;
mod random;

pub use bf16::{bf16_to_f32, f32_to_bf16};
pub use block::{QuantBlock, SUPER_BLOCK};
pub use e4m3::{E4M3_MAX, e4m3_to_f32, f32_to_e4m3};
pub use f16::{f16_to_f32, f32_to_f16};
pub use random::SplitMix64;
