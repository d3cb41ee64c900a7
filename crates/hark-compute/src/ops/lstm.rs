//! The step of an LSTM whose outputs are bf16.
//!
//! The outputs are rounded to bf16, so the quick exponential of `math` is precise enough. The LSTM of
//! [`crate::vector`] keeps its state in float32 over hours and has a more precise one.

use super::math::{exp2, fused};
use crate::kernels::math::to_bf16;

/// Units done together: one panel of weights for each gate.
pub const LSTM_UNITS: usize = 16;
/// Gates of these units: i, f, g, o.
pub const LSTM_GATES: usize = 4 * LSTM_UNITS;

/// One step of 16 units over a few rows.
pub(super) struct Step {
    /// Rows of 64: i, f, g, o of the 16 units.
    pub(super) sums: *const f32,
    pub(super) rows: usize,
    /// 64 of them.
    pub(super) bias: *const f32,
    /// Rows of 16.
    pub(super) cells: *mut f32,
    pub(super) out: *mut u16,
    pub(super) out_stride: usize,
}

/// `c' = σ(f)·c + σ(i)·tanh(g)` and `h = σ(o)·tanh(c')`, each brought to one division.
///
/// # Safety
/// `step` must describe live memory of the stated shapes.
#[inline(always)]
pub(super) unsafe fn step<const FUSED: bool>(step: &Step) {
    const TANH: f32 = -2.0 * std::f32::consts::LOG2_E;
    const UNITS: usize = LSTM_UNITS;
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        let bias = &*step.bias.cast::<[f32; LSTM_GATES]>();
        for row in 0..step.rows {
            let sums = &*step.sums.add(row * LSTM_GATES).cast::<[f32; LSTM_GATES]>();
            let cells = &mut *step.cells.add(row * UNITS).cast::<[f32; UNITS]>();
            let out = &mut *step.out.add(row * step.out_stride).cast::<[u16; UNITS]>();
            for lane in 0..UNITS {
                let i = 1.0 + exp2::<FUSED>(sums[lane] + bias[lane]);
                let f = 1.0 + exp2::<FUSED>(sums[UNITS + lane] + bias[UNITS + lane]);
                let g = exp2::<FUSED>(sums[2 * UNITS + lane] + bias[2 * UNITS + lane]);
                let o = 1.0 + exp2::<FUSED>(sums[3 * UNITS + lane] + bias[3 * UNITS + lane]);
                let both = i * (1.0 + g);
                let cell = fused::<FUSED>(cells[lane], both, (1.0 - g) * f) / (f * both);
                cells[lane] = cell;
                let tanh = exp2::<FUSED>(cell * TANH);
                out[lane] = to_bf16((1.0 - tanh) / (o * (1.0 + tanh)));
            }
        }
    }
}
