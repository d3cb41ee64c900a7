//! Every set against the definition.

use super::*;
use crate::kernels::math::{from_bf16, to_bf16};

/// Numbers between -1 and 1 that look random and are always the same.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state as f32 / 2f32.powi(31) - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn sets() -> impl Iterator<Item = &'static Ops> {
    [Isa::Avx512Bf16, Isa::Avx512, Isa::Avx2, Isa::Portable].into_iter().filter(|isa| isa.is_available()).map(Ops::of)
}

fn assert_close(got: &[u16], wanted: &[f32], what: &str) {
    for (got, wanted) in got.iter().zip(wanted) {
        let off = (from_bf16(*got) - wanted).abs();
        assert!(off <= wanted.abs() / 250.0 + 1e-5, "{what}: {} instead of {wanted}", from_bf16(*got));
    }
}

#[test]
fn lstm_steps_follow_the_definition() {
    let rows = 5;
    // Gates far beyond what saturates, too.
    let sums: Vec<f32> = numbers(rows * 64, 1).iter().map(|x| x.powi(3) * 60.0).collect();
    let bias = numbers(64, 2);
    let before = numbers(rows * 16, 3);
    let gate = |row: usize, gate: usize, lane: usize| {
        f64::from((sums[row * 64 + gate * 16 + lane] + bias[gate * 16 + lane]) * -std::f32::consts::LN_2)
    };
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    for set in sets() {
        let (mut cells, mut out) = (before.clone(), vec![0u16; rows * 16]);
        set.lstm_step(&sums, &bias, &mut cells, MatMut::new(&mut out, rows, 16, 16));
        let mut hidden = Vec::new();
        for row in 0..rows {
            for lane in 0..16 {
                let [i, f, g, o] = [0, 1, 2, 3].map(|index| gate(row, index, lane));
                let cell = sigmoid(f) * f64::from(before[row * 16 + lane]) + sigmoid(i) * (g / 2.0).tanh();
                assert!((f64::from(cells[row * 16 + lane]) - cell).abs() < 2e-5, "cell {row} {lane}");
                hidden.push((sigmoid(o) * cell.tanh()) as f32);
            }
        }
        assert_close(&out, &hidden, "outputs");
    }
}

#[test]
fn pooling_takes_the_largest_of_three_rows() {
    let sums = numbers(6 * 32, 4);
    for set in sets() {
        for magnitudes in [false, true] {
            let mut out = vec![0f32; 2 * 40];
            set.max_pool(&sums, MatMut::new(&mut out, 2, 32, 40), magnitudes);
            for (row, column) in (0..2).flat_map(|row| (0..32).map(move |column| (row, column))) {
                let three = (0..3).map(|k| sums[(row * 3 + k) * 32 + column]);
                let three = three.map(|x| if magnitudes { x.abs() } else { x });
                assert_eq!(out[row * 40 + column], three.fold(f32::MIN, f32::max));
            }
        }
    }
}

#[test]
fn columns_come_out_with_the_mean_and_spread_they_are_given() {
    for width in [64, 80] {
        let rows = 301;
        let values: Vec<f32> = numbers(rows * 96, 5).iter().map(|x| 3.0 + x * 0.5).collect();
        let (gain, shift) = (numbers(width, 6), numbers(width, 7));
        for set in sets() {
            let mut out = vec![0u16; rows * width];
            let out_view = MatMut::new(&mut out, rows, width, width);
            set.instance_norm(MatRef::new(&values, rows, width, 96), &gain, &shift, out_view);
            for column in 0..width {
                let of = |row: usize| f64::from(values[row * 96 + column]);
                let mean = (0..rows).map(of).sum::<f64>() / rows as f64;
                let variance = (0..rows).map(|row| (of(row) - mean).powi(2)).sum::<f64>() / rows as f64;
                for row in [0, 17, rows - 1] {
                    let x = (of(row) - mean) / (variance + 1e-5).sqrt() * f64::from(gain[column]);
                    let x = (x + f64::from(shift[column])) as f32;
                    let wanted = if x < 0.0 { x * 0.01 } else { x };
                    assert_close(&out[row * width + column..][..1], &[wanted], "a column");
                }
            }
        }
    }
}

#[test]
fn leaky_relu_adds_the_bias_first() {
    let (sums, bias) = (numbers(3 * 32, 8), numbers(32, 9));
    for set in sets() {
        let mut out = vec![0u16; 3 * 48];
        set.leaky_relu(&sums, &bias, MatMut::new(&mut out, 3, 32, 48));
        for row in 0..3 {
            let x = (0..32).map(|column| sums[row * 32 + column] + bias[column]);
            let wanted: Vec<f32> = x.map(|x| if x < 0.0 { x * 0.01 } else { x }).collect();
            assert_close(&out[row * 48..][..32], &wanted, "a row");
        }
    }
}

#[test]
fn logarithms_are_right_from_the_smallest_to_the_largest() {
    for set in sets() {
        let numbers: Vec<f32> = (0..4000).map(|step| 1.2e-7 * 1.02f32.powi(step)).take_while(|x| *x < 1e30).collect();
        let mut out = numbers.clone();
        set.ln(&mut out);
        for (number, out) in numbers.iter().zip(&out) {
            let wanted = f64::from(*number).ln();
            assert!((f64::from(*out) - wanted).abs() < 4e-6 + wanted.abs() * 3e-7, "ln {number} = {out}, not {wanted}");
        }
    }
}

#[test]
fn an_epilogue_adds_bias_and_residual_before_relu() {
    let (sums, bias) = (numbers(3 * 32, 10), numbers(32, 11));
    let residuals: Vec<u16> = numbers(3 * 36, 12).iter().map(|x| to_bf16(*x)).collect();
    for (set, relu, added) in sets().flat_map(|set| [(set, true, false), (set, true, true), (set, false, true)]) {
        let mut out = vec![0u16; 3 * 40];
        // Rows of the residual lie closer together than those of the result.
        let residual = added.then(|| MatRef::new(&residuals, 3, 32, 36));
        set.epilogue(&Epilogue { sums: &sums, bias: &bias, residual, relu }, MatMut::new(&mut out, 3, 32, 40));
        for row in 0..3 {
            let wanted: Vec<f32> = (0..32)
                .map(|column| {
                    let residual = if added { from_bf16(residuals[row * 36 + column]) } else { 0.0 };
                    let x = sums[row * 32 + column] + bias[column] + residual;
                    if relu { x.max(0.0) } else { x }
                })
                .collect();
            assert_close(&out[row * 40..][..32], &wanted, "a finished row");
            assert_eq!(out[row * 40 + 32..][..8], [0; 8], "what lies between rows");
        }
    }
}

#[test]
fn scaling_and_its_moments_agree() {
    let (count, width) = (7, 96);
    let rows: Vec<u16> = numbers(count * 100, 13).iter().map(|x| to_bf16(*x)).collect();
    let (gain, shift) = (numbers(width, 14), numbers(width, 15));
    for set in sets() {
        let mut out = vec![0u16; count * 128];
        let view = MatRef::new(&rows, count, width, 100);
        let (mut sums, mut squares) = (vec![0f32; width], vec![0f32; width]);
        set.scale_relu(view, &gain, &shift, MatMut::new(&mut out, count, width, 128));
        set.moments(view, &gain, &shift, &mut sums, &mut squares);
        for column in 0..width {
            let wanted = |row: usize| (from_bf16(rows[row * 100 + column]) * gain[column] + shift[column]).max(0.0);
            for row in 0..count {
                assert_close(&out[row * 128 + column..][..1], &[wanted(row)], "a scaled number");
            }
            assert!((sums[column] - (0..count).map(wanted).sum::<f32>()).abs() < 1e-4);
            assert!((squares[column] - (0..count).map(|row| wanted(row).powi(2)).sum::<f32>()).abs() < 1e-4);
        }
    }
}

#[test]
fn masks_sums_and_products_follow_their_definitions() {
    let (sums, masks, which) = (numbers(3 * 32, 16), numbers(2 * 32, 17), [1u32, 0, 1]);
    let (weights, x) = (numbers(5 * 32, 18), numbers(5, 19));
    let rows: Vec<u16> = numbers(4 * 40, 20).iter().map(|x| to_bf16(*x)).collect();
    for set in sets() {
        let (mut out, mut added, mut product) = (vec![0u16; 3 * 32], vec![0f32; 32], vec![1f32; 32]);
        set.mask(&sums, masks.as_chunks::<32>().0, &which, MatMut::new(&mut out, 3, 32, 32));
        set.column_sums(MatRef::new(&rows, 4, 32, 40), &mut added);
        set.gemv(&weights, &x, &mut product);
        for column in 0..32 {
            for row in 0..3 {
                let wanted = sums[row * 32 + column] * masks[which[row] as usize * 32 + column];
                assert_close(&out[row * 32 + column..][..1], &[wanted], "a masked number");
            }
            let wanted: f32 = (0..4).map(|row| from_bf16(rows[row * 40 + column])).sum();
            assert!((added[column] - wanted).abs() < 1e-5);
            let wanted: f32 = 1.0 + (0..5).map(|k| x[k] * weights[k * 32 + column]).sum::<f32>();
            assert!((product[column] - wanted).abs() < 1e-5);
        }
    }
}
