//! Attention over the frames of a window: a network's own (self-attention) and a decoder's (cross-attention); over the tokens
//! of sequences and texts: [`paged`].
//!
//! Keys and values of a window are kept in panels, ready to be the right-hand side of a product, one [`KeyValues`] for each
//! layer of each window. Scores are made, exponentiated and used chunk by chunk in the first-level cache; they never
//! go to memory.

mod causal;
mod cross;
mod int8_key_values;
mod key_values;
pub mod paged;
mod self_attention;

pub use causal::causal_attention;
pub use cross::{ScoreTap, cross_attention};
pub use int8_key_values::Int8KeyValues;
pub use key_values::{IN_ORDER, KeyValues, KeyWriter, ValueWriter};
pub use self_attention::{frame_pairs, self_attention};

use crate::kernels::math::to_bf16;
use crate::kernels::{BLOCK, SCORE_SCALE, SoftmaxBlock};

/// Scores are base-2 exponents: 1/sqrt(64) · log2(e).
pub const SCALE: f32 = 0.125 * std::f32::consts::LOG2_E;
/// What the queries of [`self_attention`] are multiplied by, once and for all in their weights.
pub const QUERY_SCALE: f32 = SCALE * SCORE_SCALE;

/// An online softmax of `rows` rows that has seen nothing yet, and knows no buffers.
fn new_softmax(rows: usize) -> SoftmaxBlock {
    SoftmaxBlock {
        scores: std::ptr::null(),
        scores_stride: 0,
        rows: 0..rows,
        width: 0,
        weights: std::ptr::null_mut(),
        weights_stride: 0,
        scale: SCALE,
        is_first: true,
        reference: [0.0; BLOCK],
        sums: [[0.0; 16]; BLOCK],
        rescale: [1.0; BLOCK],
    }
}

/// bf16 of a float32 slice, for tests and for small inputs.
pub fn round_to_bf16(input: &[f32], out: &mut [u16]) {
    for (out, &x) in out.iter_mut().zip(input) {
        *out = to_bf16(x);
    }
}
