//! What happens between the products of a decoder-only language model: RMS norm, gated activations, and attention over a
//! paged KV cache.
//!
//! Kernels are written once over `Lanes` and compiled for each instruction set; every function checks its shapes once.

mod attention;
mod cache;
#[cfg(test)]
mod tests;

pub use attention::{AttentionRow, paged_attention};
pub use cache::{KvLayout, PAGE};

use crate::Isa;
use crate::lanes::{LANES, Lanes, exp2};
use attention::AttendFn;

/// The activation of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// `x * sigmoid(x)`
    Silu,
    /// GELU by its tanh approximation.
    Gelu,
}

/// The kernels of one instruction set; given out only where the machine has it.
#[derive(Clone, Copy)]
pub struct DecoderOps {
    rms_norm: unsafe fn(&[f32], &[f32], f32, &mut [f32]),
    silu: unsafe fn(&mut [f32], &[f32]),
    gelu: unsafe fn(&mut [f32], &[f32]),
    to_f16: unsafe fn(&[f32], &mut [u16]),
    attend: AttendFn,
}

impl DecoderOps {
    /// The kernels for `isa`.
    ///
    /// # Panics
    /// When this machine does not have that instruction set.
    pub fn of(isa: Isa) -> Self {
        assert!(isa.is_available(), "this machine has no {}", isa.name());
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Amx | Isa::Avx512Bf16 | Isa::Avx512Vnni => vnni::OPS,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::AvxVnni | Isa::Avx2 => avx2::OPS,
            _ => portable::OPS,
        }
    }

    /// `out = x / rms(x) * gain`.
    ///
    /// # Panics
    /// When lengths differ or are no multiple of 16.
    pub fn rms_norm(&self, x: &[f32], gain: &[f32], epsilon: f32, out: &mut [f32]) {
        assert!(
            x.len() == gain.len() && x.len() == out.len() && x.len().is_multiple_of(LANES),
            "rows of whole vectors"
        );
        // SAFETY: the set is the machine's; lengths were checked.
        unsafe { (self.rms_norm)(x, gain, epsilon, out) }
    }

    /// `gate = activation(gate) * up`.
    ///
    /// # Panics
    /// When lengths differ or are no multiple of 16.
    pub fn gate(&self, activation: Gate, gate: &mut [f32], up: &[f32]) {
        assert!(gate.len() == up.len() && up.len().is_multiple_of(LANES), "rows of whole vectors");
        let kernel = match activation {
            Gate::Silu => self.silu,
            Gate::Gelu => self.gelu,
        };
        // SAFETY: as above.
        unsafe { kernel(gate, up) }
    }

    /// Rounds to IEEE halves.
    ///
    /// # Panics
    /// When lengths differ or are no multiple of 16.
    pub fn to_f16(&self, from: &[f32], out: &mut [u16]) {
        assert!(from.len() == out.len() && out.len().is_multiple_of(LANES), "rows of whole vectors");
        // SAFETY: as above.
        unsafe { (self.to_f16)(from, out) }
    }
}

#[inline(always)]
unsafe fn rms_norm<L: Lanes>(x: &[f32], gain: &[f32], epsilon: f32, out: &mut [f32]) {
    // SAFETY: the caller vouches for the CPU and equal lengths of whole vectors.
    unsafe {
        let mut squares = L::splat(0.0);
        for i in (0..x.len()).step_by(LANES) {
            let v = L::load(x.as_ptr().add(i));
            squares = L::fma(v, v, squares);
        }
        let inverse = L::splat(1.0 / (L::sum(squares) / x.len() as f32 + epsilon).sqrt());
        for i in (0..x.len()).step_by(LANES) {
            let v = L::mul(L::load(x.as_ptr().add(i)), inverse);
            L::store(out.as_mut_ptr().add(i), L::mul(v, L::load(gain.as_ptr().add(i))));
        }
    }
}

/// `1 / (1 + 2^(-x))`
#[inline(always)]
unsafe fn logistic2<L: Lanes>(x: L::F) -> L::F {
    // SAFETY: the caller vouches for the CPU.
    unsafe {
        let one = L::splat(1.0);
        // Above 120 the exponential of a negative number would overflow; the quotient is zero there anyway.
        let exponent = L::sub(L::splat(0.0), L::max(x, L::splat(-120.0)));
        L::div(one, L::add(one, exp2::<L>(exponent)))
    }
}

#[inline(always)]
unsafe fn silu<L: Lanes>(gate: &mut [f32], up: &[f32]) {
    // SAFETY: the caller vouches for the CPU and equal lengths of whole vectors.
    unsafe {
        for i in (0..up.len()).step_by(LANES) {
            let x = L::load(gate.as_ptr().add(i));
            let sigmoid = logistic2::<L>(L::mul(x, L::splat(std::f32::consts::LOG2_E)));
            L::store(gate.as_mut_ptr().add(i), L::mul(L::mul(x, sigmoid), L::load(up.as_ptr().add(i))));
        }
    }
}

#[inline(always)]
unsafe fn gelu<L: Lanes>(gate: &mut [f32], up: &[f32]) {
    /// `sqrt(2 / pi)`
    const FACTOR: f32 = 0.797_884_6;
    // SAFETY: the caller vouches for the CPU and equal lengths of whole vectors.
    unsafe {
        for i in (0..up.len()).step_by(LANES) {
            let x = L::load(gate.as_ptr().add(i));
            let inner = L::mul(x, L::fma(L::mul(x, x), L::splat(0.044_715), L::splat(1.0)));
            // 0.5 * (1 + tanh(z)) is the logistic function of 2z.
            let half = logistic2::<L>(L::mul(inner, L::splat(2.0 * FACTOR * std::f32::consts::LOG2_E)));
            L::store(gate.as_mut_ptr().add(i), L::mul(L::mul(x, half), L::load(up.as_ptr().add(i))));
        }
    }
}

#[inline(always)]
unsafe fn to_f16<L: Lanes>(from: &[f32], out: &mut [u16]) {
    for i in (0..from.len()).step_by(LANES) {
        // SAFETY: the caller vouches for the CPU and equal lengths of whole vectors.
        unsafe { L::store_f16(out.as_mut_ptr().add(i), L::load(from.as_ptr().add(i))) };
    }
}

/// Compiles the kernels for one implementation of [`Lanes`].
macro_rules! op_set {
    ($module:ident, $lanes:ty $(, $feature:literal)?) => {
        mod $module {
            use super::DecoderOps;
            use super::attention::Attend;

            pub(super) const OPS: DecoderOps = DecoderOps { rms_norm, silu, gelu, to_f16, attend };

            // SAFETY (all): the safe functions check the shapes, and `DecoderOps::of` the CPU.
            $(#[target_feature(enable = $feature)])?
            unsafe fn rms_norm(x: &[f32], gain: &[f32], epsilon: f32, out: &mut [f32]) {
                // SAFETY: see above.
                unsafe { super::rms_norm::<$lanes>(x, gain, epsilon, out) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn silu(gate: &mut [f32], up: &[f32]) {
                // SAFETY: see above.
                unsafe { super::silu::<$lanes>(gate, up) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn gelu(gate: &mut [f32], up: &[f32]) {
                // SAFETY: see above.
                unsafe { super::gelu::<$lanes>(gate, up) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn to_f16(from: &[f32], out: &mut [u16]) {
                // SAFETY: see above.
                unsafe { super::to_f16::<$lanes>(from, out) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn attend(task: &mut Attend) {
                // SAFETY: see above.
                unsafe { super::attention::attend::<$lanes>(task) }
            }
        }
    };
}

op_set!(portable, crate::lanes::Portable);
#[cfg(target_arch = "x86_64")]
op_set!(avx2, crate::lanes::Avx2, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
op_set!(vnni, crate::lanes::Avx512, "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c");
