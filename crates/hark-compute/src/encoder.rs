//! What happens between the products of an encoder with norms behind its residuals (BERT): layer norm of float32 rows in place,
//! and GELU.
//!
//! Kernels are written once over `Lanes` and compiled for each instruction set; every function checks its shapes once.

use crate::Isa;
use crate::lanes::{LANES, Lanes, exp2};

/// The kernels of one instruction set; given out only where the machine has it.
#[derive(Clone, Copy)]
pub struct EncoderOps {
    add_norm: unsafe fn(&mut [f32], &[f32], &Norm),
    bias_gelu: unsafe fn(&mut [f32], &[f32]),
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

impl EncoderOps {
    /// The kernels for `isa`.
    ///
    /// # Panics
    /// When this machine does not have that instruction set.
    pub fn of(isa: Isa) -> Self {
        assert!(isa.is_available(), "this machine has no {}", isa.name());
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Amx | Isa::Avx512Bf16 | Isa::Avx512Vnni => avx512::OPS,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::AvxVnni | Isa::Avx2 => avx2::OPS,
            _ => portable::OPS,
        }
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
        // SAFETY: as above.
        unsafe { (self.bias_gelu)(x, bias) }
    }
}

#[inline(always)]
unsafe fn add_norm<L: Lanes>(x: &mut [f32], product: &[f32], norm: &Norm) {
    // SAFETY: the caller vouches for the CPU and equal lengths of whole vectors.
    unsafe {
        let (len, to) = (x.len(), x.as_mut_ptr());
        let mut sum = L::splat(0.0);
        for i in (0..len).step_by(LANES) {
            let bias = L::load(norm.bias.as_ptr().add(i));
            let v = L::add(L::add(L::load(to.add(i)), L::load(product.as_ptr().add(i))), bias);
            sum = L::add(sum, v);
            L::store(to.add(i), v);
        }
        let mean = L::splat(L::sum(sum) / len as f32);
        let mut squares = L::splat(0.0);
        for i in (0..len).step_by(LANES) {
            let v = L::sub(L::load(to.add(i)), mean);
            squares = L::fma(v, v, squares);
        }
        let inverse = L::splat(1.0 / (L::sum(squares) / len as f32 + norm.epsilon).sqrt());
        for i in (0..len).step_by(LANES) {
            let v = L::mul(L::sub(L::load(to.add(i)), mean), inverse);
            let (gain, shift) = (L::load(norm.gain.as_ptr().add(i)), L::load(norm.shift.as_ptr().add(i)));
            L::store(to.add(i), L::fma(v, gain, shift));
        }
    }
}

/// GELU is `max(x, 0) - |x| q`, where `q` is the tail of the normal distribution beyond `|x|`: Abramowitz and Stegun 7.1.26.
#[inline(always)]
unsafe fn bias_gelu<L: Lanes>(x: &mut [f32], bias: &[f32]) {
    use std::f32::consts::{FRAC_1_SQRT_2, LOG2_E};
    // SAFETY: the caller vouches for the CPU and equal lengths of whole vectors.
    unsafe {
        let (zero, one) = (L::splat(0.0), L::splat(1.0));
        for i in (0..x.len()).step_by(LANES) {
            let v = L::add(L::load(x.as_ptr().add(i)), L::load(bias.as_ptr().add(i)));
            let magnitude = L::abs(v);
            let t = L::div(one, L::fma(magnitude, L::splat(0.327_591_1 * FRAC_1_SQRT_2), one));
            let mut p = L::splat(1.061_405_4);
            for c in [-1.453_152, 1.421_413_8, -0.284_496_72, 0.254_829_6] {
                p = L::fma(p, t, L::splat(c));
            }
            let density = exp2::<L>(L::mul(L::mul(v, v), L::splat(-0.5 * LOG2_E)));
            let tail = L::mul(L::mul(L::mul(p, t), density), L::splat(0.5));
            L::store(x.as_mut_ptr().add(i), L::sub(L::max(v, zero), L::mul(magnitude, tail)));
        }
    }
}

/// Compiles the kernels for one implementation of [`Lanes`].
macro_rules! op_set {
    ($module:ident, $lanes:ty $(, $feature:literal)?) => {
        mod $module {
            use super::{EncoderOps, Norm};

            pub(super) const OPS: EncoderOps = EncoderOps { add_norm, bias_gelu };

            // SAFETY (both): the safe functions check the shapes, and `EncoderOps::of` the CPU.
            $(#[target_feature(enable = $feature)])?
            unsafe fn add_norm(x: &mut [f32], product: &[f32], norm: &Norm) {
                // SAFETY: see above.
                unsafe { super::add_norm::<$lanes>(x, product, norm) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn bias_gelu(x: &mut [f32], bias: &[f32]) {
                // SAFETY: see above.
                unsafe { super::bias_gelu::<$lanes>(x, bias) }
            }
        }
    };
}

op_set!(portable, crate::lanes::Portable);
#[cfg(target_arch = "x86_64")]
op_set!(avx2, crate::lanes::Avx2, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
op_set!(avx512, crate::lanes::Avx512, "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c");

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        (0..count).map(|_| next()).collect()
    }

    fn available() -> impl Iterator<Item = Isa> {
        Isa::ALL.into_iter().filter(|isa| isa.is_available())
    }

    #[test]
    fn gelu_is_the_exact_one_on_every_instruction_set() {
        // Phi(x) by the series of the error function in double precision.
        let exact = |x: f64| {
            let z = x / std::f64::consts::SQRT_2;
            let (mut term, mut sum) = (z, z);
            for n in 1..400 {
                term *= -z * z / f64::from(n);
                sum += term / f64::from(2 * n + 1);
            }
            0.5 * x * (1.0 + sum * std::f64::consts::FRAC_2_SQRT_PI)
        };
        let inputs: Vec<f32> = (0..1024).map(|step| (step as f32 - 512.0) / 128.0).collect();
        for isa in available() {
            let (mut found, bias) = (inputs.clone(), vec![0.25; inputs.len()]);
            EncoderOps::of(isa).bias_gelu(&mut found, &bias);
            for (x, found) in inputs.iter().zip(found) {
                let expected = exact(f64::from(x + 0.25));
                assert!((f64::from(found) - expected).abs() < 2e-6, "{}: {x}: {found}, not {expected}", isa.name());
            }
            let mut far = vec![0.0f32; 16];
            far[..4].copy_from_slice(&[-1e4, 1e4, -40.0, 40.0]);
            EncoderOps::of(isa).bias_gelu(&mut far, &[0.0; 16]);
            let expected = [0.0, 1e4, 0.0, 40.0];
            assert!(far.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-30), "{far:?}");
        }
    }

    #[test]
    fn a_normed_sum_has_mean_and_variance_as_gain_and_shift_say() {
        let width = 96;
        let (x, product, bias) = (numbers(width, 1), numbers(width, 2), numbers(width, 3));
        let (gain, shift) = (numbers(width, 4), numbers(width, 5));
        let sums: Vec<f64> = (0..width).map(|i| f64::from(x[i]) + f64::from(product[i]) + f64::from(bias[i])).collect();
        let mean = sums.iter().sum::<f64>() / width as f64;
        let variance = sums.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / width as f64;
        for isa in available() {
            let mut found = x.clone();
            let norm = Norm { bias: &bias, gain: &gain, shift: &shift, epsilon: 1e-12 };
            EncoderOps::of(isa).add_norm(&mut found, &product, &norm);
            for i in 0..width {
                let expected = (sums[i] - mean) / (variance + 1e-12).sqrt() * f64::from(gain[i]) + f64::from(shift[i]);
                assert!((f64::from(found[i]) - expected).abs() < 1e-5, "{}: {} at {i}", isa.name(), found[i]);
            }
        }
    }
}
