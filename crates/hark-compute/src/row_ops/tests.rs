//! Kernels against plain float64 arithmetic.

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
        RowOps::of(isa).bias_gelu(&mut found, &bias);
        for (x, found) in inputs.iter().zip(found) {
            let expected = exact(f64::from(x + 0.25));
            assert!((f64::from(found) - expected).abs() < 2e-6, "{}: {x}: {found}, not {expected}", isa.name());
        }
        let mut far = vec![0.0f32; 16];
        far[..4].copy_from_slice(&[-1e4, 1e4, -40.0, 40.0]);
        RowOps::of(isa).bias_gelu(&mut far, &[0.0; 16]);
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
        RowOps::of(isa).add_norm(&mut found, &product, &norm);
        for i in 0..width {
            let expected = (sums[i] - mean) / (variance + 1e-12).sqrt() * f64::from(gain[i]) + f64::from(shift[i]);
            assert!((f64::from(found[i]) - expected).abs() < 1e-5, "{}: {} at {i}", isa.name(), found[i]);
        }
    }
}

#[test]
fn norms_and_gates_are_their_formulas_on_every_set() {
    let (x, gain, up) = (numbers(96, 1), numbers(96, 2), numbers(96, 3));
    let x: Vec<f32> = x.iter().map(|x| x * 40.0).collect();
    let rms = (x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / 96.0 + 1e-6).sqrt();
    for isa in available() {
        let ops = RowOps::of(isa);
        let mut out = vec![0.0; 96];
        ops.rms_norm(&x, &gain, 1e-6, &mut out);
        for i in 0..96 {
            let expected = f64::from(x[i]) / rms * f64::from(gain[i]);
            assert!((f64::from(out[i]) - expected).abs() < 1e-5, "norm on {}: {} {expected}", isa.name(), out[i]);
        }
        for activation in [Gate::Silu, Gate::Gelu] {
            let mut gate = x.clone();
            gate[0] = -500.0;
            gate[1] = 500.0;
            let before = gate.clone();
            ops.gate(activation, &mut gate, &up);
            for i in 0..96 {
                let x = f64::from(before[i]);
                let factor = match activation {
                    Gate::Silu => 1.0 / (1.0 + (-x).exp()),
                    Gate::Gelu => 0.5 * (1.0 + (0.797_884_560_8 * (x + 0.044_715 * x.powi(3))).tanh()),
                };
                let expected = x * factor * f64::from(up[i]);
                let close = (f64::from(gate[i]) - expected).abs() < 1e-5 * expected.abs() + 1e-6;
                assert!(close, "{activation:?} of {x} on {}: {} {expected}", isa.name(), gate[i]);
            }
        }
    }
}

#[test]
fn rows_are_rounded_to_the_nearest_bf16_on_every_set() {
    use crate::kernels::math::to_bf16;
    let row: Vec<f32> = numbers(96, 9).iter().map(|x| x * 1e3).collect();
    for isa in available() {
        let mut out = vec![0; row.len()];
        RowOps::of(isa).to_bf16(&row, &mut out);
        assert!(row.iter().zip(out).all(|(x, found)| found == to_bf16(*x)), "{}", isa.name());
    }
}
