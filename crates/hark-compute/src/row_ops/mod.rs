//! What happens between products of float32 rows in language models and text encoders: RMS and layer norms, activations,
//! rounding to f16.
//!
//! Kernels are written once over `Simd` and compiled for each instruction set in 16 lanes; every method checks its shapes once.

#[cfg(test)]
mod tests;

use crate::Isa;
use crate::simd::{LANES, Simd, Simd16, exp2};

/// The activation of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// `x * sigmoid(x)`
    Silu,
    /// GELU by its tanh approximation.
    Gelu,
}

/// What a row goes through behind a product.
pub struct Norm<'a> {
    /// Added to the row before it is normed: the bias of the product.
    pub bias: &'a [f32],
    /// Multiplied with the normed row.
    pub gain: &'a [f32],
    /// Added to it then.
    pub shift: &'a [f32],
    /// Added to the variance.
    pub epsilon: f32,
}

/// The kernels of one instruction set; given out only where the machine has it.
#[derive(Clone, Copy)]
pub struct RowOps {
    rms_norm: unsafe fn(&[f32], &[f32], f32, &mut [f32]),
    add_norm: unsafe fn(&mut [f32], &[f32], &Norm),
    silu: unsafe fn(&mut [f32], &[f32]),
    gelu: unsafe fn(&mut [f32], &[f32]),
    bias_gelu: unsafe fn(&mut [f32], &[f32]),
    to_f16: unsafe fn(&[f32], &mut [u16]),
    to_bf16: unsafe fn(&[f32], &mut [u16]),
}

impl RowOps {
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
        // SAFETY: the set is the machine's; lengths were checked.
        unsafe { kernel(gate, up) }
    }

    /// `x = norm(x + product + bias)`: mean 0 and variance 1, then gain and shift.
    ///
    /// # Panics
    /// When lengths differ or are no multiple of 16.
    pub fn add_norm(&self, x: &mut [f32], product: &[f32], norm: &Norm) {
        let same =
            [product.len(), norm.bias.len(), norm.gain.len(), norm.shift.len()].iter().all(|len| *len == x.len());
        assert!(same && x.len().is_multiple_of(LANES), "rows of whole vectors");
        // SAFETY: the set is the machine's; lengths were checked.
        unsafe { (self.add_norm)(x, product, norm) }
    }

    /// `x = gelu(x + bias)` with the exact (erf) GELU, to 2e-7.
    ///
    /// # Panics
    /// When lengths differ or are no multiple of 16.
    pub fn bias_gelu(&self, x: &mut [f32], bias: &[f32]) {
        assert!(x.len() == bias.len() && x.len().is_multiple_of(LANES), "rows of whole vectors");
        // SAFETY: the set is the machine's; lengths were checked.
        unsafe { (self.bias_gelu)(x, bias) }
    }

    /// Rounds to IEEE halves.
    ///
    /// # Panics
    /// When lengths differ or are no multiple of 16.
    pub fn to_f16(&self, from: &[f32], out: &mut [u16]) {
        assert!(from.len() == out.len() && out.len().is_multiple_of(LANES), "rows of whole vectors");
        // SAFETY: the set is the machine's; lengths were checked.
        unsafe { (self.to_f16)(from, out) }
    }

    /// Rounds to bf16.
    ///
    /// # Panics
    /// When lengths differ or are no multiple of 16.
    pub fn to_bf16(&self, from: &[f32], out: &mut [u16]) {
        assert!(from.len() == out.len() && out.len().is_multiple_of(LANES), "rows of whole vectors");
        // SAFETY: the set is the machine's; lengths were checked.
        unsafe { (self.to_bf16)(from, out) }
    }
}

#[inline(always)]
unsafe fn rms_norm<S: Simd>(x: &[f32], gain: &[f32], epsilon: f32, out: &mut [f32]) {
    // SAFETY: the caller vouches for the CPU and equal lengths of whole vectors.
    unsafe {
        let mut squares = S::splat(0.0);
        for i in (0..x.len()).step_by(S::LANES) {
            let v = S::load(x.as_ptr().add(i));
            squares = S::fma(v, v, squares);
        }
        let inverse = S::splat(1.0 / (S::sum(squares) / x.len() as f32 + epsilon).sqrt());
        for i in (0..x.len()).step_by(S::LANES) {
            let v = S::mul(S::load(x.as_ptr().add(i)), inverse);
            S::store(out.as_mut_ptr().add(i), S::mul(v, S::load(gain.as_ptr().add(i))));
        }
    }
}

#[inline(always)]
unsafe fn add_norm<S: Simd>(x: &mut [f32], product: &[f32], norm: &Norm) {
    // SAFETY: the caller vouches for the CPU and equal lengths of whole vectors.
    unsafe {
        let (len, to) = (x.len(), x.as_mut_ptr());
        let mut sum = S::splat(0.0);
        for i in (0..len).step_by(S::LANES) {
            let bias = S::load(norm.bias.as_ptr().add(i));
            let v = S::add(S::add(S::load(to.add(i)), S::load(product.as_ptr().add(i))), bias);
            sum = S::add(sum, v);
            S::store(to.add(i), v);
        }
        let mean = S::splat(S::sum(sum) / len as f32);
        let mut squares = S::splat(0.0);
        for i in (0..len).step_by(S::LANES) {
            let v = S::sub(S::load(to.add(i)), mean);
            squares = S::fma(v, v, squares);
        }
        let inverse = S::splat(1.0 / (S::sum(squares) / len as f32 + norm.epsilon).sqrt());
        for i in (0..len).step_by(S::LANES) {
            let v = S::mul(S::sub(S::load(to.add(i)), mean), inverse);
            let (gain, shift) = (S::load(norm.gain.as_ptr().add(i)), S::load(norm.shift.as_ptr().add(i)));
            S::store(to.add(i), S::fma(v, gain, shift));
        }
    }
}

/// `1 / (1 + 2^(-x))`
#[inline(always)]
unsafe fn logistic2<S: Simd>(x: S::F) -> S::F {
    // SAFETY: the caller vouches for the CPU.
    unsafe {
        let one = S::splat(1.0);
        // Above 120 the exponential of a negative number would overflow; the quotient is zero there anyway.
        let exponent = S::sub(S::splat(0.0), S::max(x, S::splat(-120.0)));
        S::div(one, S::add(one, exp2::<S>(exponent)))
    }
}

#[inline(always)]
unsafe fn silu<S: Simd>(gate: &mut [f32], up: &[f32]) {
    // SAFETY: the caller vouches for the CPU and equal lengths of whole vectors.
    unsafe {
        for i in (0..up.len()).step_by(S::LANES) {
            let x = S::load(gate.as_ptr().add(i));
            let sigmoid = logistic2::<S>(S::mul(x, S::splat(std::f32::consts::LOG2_E)));
            S::store(gate.as_mut_ptr().add(i), S::mul(S::mul(x, sigmoid), S::load(up.as_ptr().add(i))));
        }
    }
}

#[inline(always)]
unsafe fn gelu<S: Simd>(gate: &mut [f32], up: &[f32]) {
    /// `sqrt(2 / pi)`
    const FACTOR: f32 = 0.797_884_6;
    // SAFETY: the caller vouches for the CPU and equal lengths of whole vectors.
    unsafe {
        for i in (0..up.len()).step_by(S::LANES) {
            let x = S::load(gate.as_ptr().add(i));
            let inner = S::mul(x, S::fma(S::mul(x, x), S::splat(0.044_715), S::splat(1.0)));
            // 0.5 * (1 + tanh(z)) is the logistic function of 2z.
            let half = logistic2::<S>(S::mul(inner, S::splat(2.0 * FACTOR * std::f32::consts::LOG2_E)));
            S::store(gate.as_mut_ptr().add(i), S::mul(S::mul(x, half), S::load(up.as_ptr().add(i))));
        }
    }
}

/// GELU is `max(x, 0) - |x| q`, where `q` is the tail of the normal distribution beyond `|x|`: Abramowitz and Stegun 7.1.26.
#[inline(always)]
unsafe fn bias_gelu<S: Simd>(x: &mut [f32], bias: &[f32]) {
    use std::f32::consts::{FRAC_1_SQRT_2, LOG2_E};
    // SAFETY: the caller vouches for the CPU and equal lengths of whole vectors.
    unsafe {
        let (zero, one) = (S::splat(0.0), S::splat(1.0));
        for i in (0..x.len()).step_by(S::LANES) {
            let v = S::add(S::load(x.as_ptr().add(i)), S::load(bias.as_ptr().add(i)));
            let magnitude = S::abs(v);
            let t = S::div(one, S::fma(magnitude, S::splat(0.327_591_1 * FRAC_1_SQRT_2), one));
            let mut p = S::splat(1.061_405_4);
            for c in [-1.453_152, 1.421_413_8, -0.284_496_72, 0.254_829_6] {
                p = S::fma(p, t, S::splat(c));
            }
            let density = exp2::<S>(S::mul(S::mul(v, v), S::splat(-0.5 * LOG2_E)));
            let tail = S::mul(S::mul(S::mul(p, t), density), S::splat(0.5));
            S::store(x.as_mut_ptr().add(i), S::sub(S::max(v, zero), S::mul(magnitude, tail)));
        }
    }
}

#[inline(always)]
unsafe fn to_f16<S: Simd16>(from: &[f32], out: &mut [u16]) {
    for i in (0..from.len()).step_by(S::LANES) {
        // SAFETY: the caller vouches for the CPU and equal lengths of whole vectors.
        unsafe { S::store_f16(out.as_mut_ptr().add(i), S::load(from.as_ptr().add(i))) };
    }
}

#[inline(always)]
unsafe fn to_bf16<S: Simd16>(from: &[f32], out: &mut [u16]) {
    for i in (0..from.len()).step_by(S::LANES) {
        // SAFETY: the caller vouches for the CPU and equal lengths of whole vectors.
        unsafe { S::store_bf16(out.as_mut_ptr().add(i), S::load(from.as_ptr().add(i))) };
    }
}

/// Compiles the kernels for one implementation of [`Simd16`].
macro_rules! op_set {
    ($module:ident, $simd:ty $(, $feature:literal)?) => {
        mod $module {
            use super::{Norm, RowOps};

            pub(super) const OPS: RowOps = RowOps { rms_norm, add_norm, silu, gelu, bias_gelu, to_f16, to_bf16 };

            $(#[target_feature(enable = $feature)])?
            unsafe fn rms_norm(x: &[f32], gain: &[f32], epsilon: f32, out: &mut [f32]) {
                // SAFETY: `RowOps::of` checked the CPU, `RowOps::rms_norm` the lengths.
                unsafe { super::rms_norm::<$simd>(x, gain, epsilon, out) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn add_norm(x: &mut [f32], product: &[f32], norm: &Norm) {
                // SAFETY: `RowOps::of` checked the CPU, `RowOps::add_norm` the lengths.
                unsafe { super::add_norm::<$simd>(x, product, norm) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn silu(gate: &mut [f32], up: &[f32]) {
                // SAFETY: `RowOps::of` checked the CPU, `RowOps::gate` the lengths.
                unsafe { super::silu::<$simd>(gate, up) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn gelu(gate: &mut [f32], up: &[f32]) {
                // SAFETY: `RowOps::of` checked the CPU, `RowOps::gate` the lengths.
                unsafe { super::gelu::<$simd>(gate, up) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn bias_gelu(x: &mut [f32], bias: &[f32]) {
                // SAFETY: `RowOps::of` checked the CPU, `RowOps::bias_gelu` the lengths.
                unsafe { super::bias_gelu::<$simd>(x, bias) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn to_f16(from: &[f32], out: &mut [u16]) {
                // SAFETY: `RowOps::of` checked the CPU, `RowOps::to_f16` the lengths.
                unsafe { super::to_f16::<$simd>(from, out) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn to_bf16(from: &[f32], out: &mut [u16]) {
                // SAFETY: `RowOps::of` checked the CPU, `RowOps::to_bf16` the lengths.
                unsafe { super::to_bf16::<$simd>(from, out) }
            }
        }
    };
}

op_set!(portable, crate::simd::Portable<16>);
#[cfg(target_arch = "x86_64")]
op_set!(avx2, crate::simd::Pair<crate::simd::Avx2>, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
op_set!(vnni, crate::simd::Avx512, "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c");
