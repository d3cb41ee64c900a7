//! Every set against the definition.

use super::stft::{BINS, CHUNK, CONTEXT, FRAMES};
use super::*;

const UNITS: usize = 128;

/// A small generator (xorshift), so that inputs differ but runs repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
    fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.next()).collect()
    }
}

fn assert_near(what: &str, got: f32, want: f64, tolerance: f64) {
    assert!((got as f64 - want).abs() <= tolerance, "{what}: got {got}, want {want}");
}

#[test]
fn every_gemm_kernel_equals_the_plain_sum() {
    let mut random = Random(7);
    for set in Vectors::available() {
        for (rows, depth, columns) in [(16, 1, 16), (32, 7, 32), (64, 129, 48), (128, 387, 64), (48, 33, 80)] {
            let matrix = random.floats(rows * depth);
            let packed = PackedF32::pack(rows, depth, LINE, |r, k| matrix[r * depth + k]);
            let stride = columns + 16;
            let right = random.floats(depth * stride);
            let bias = random.floats(rows);
            let left = packed.columns(0, depth);
            for bias in [None, Some(&bias[..])] {
                let mut out = vec![f32::NAN; rows * stride];
                set.gemm(left, &right, columns, stride, bias, &mut out);
                for r in 0..rows {
                    for c in 0..columns {
                        let sum: f64 =
                            (0..depth).map(|k| matrix[r * depth + k] as f64 * right[k * stride + c] as f64).sum();
                        let want = bias.map_or(sum, |b| (sum + b[r] as f64).max(0.0));
                        assert_near(
                            &format!("{} {rows}x{depth}x{columns}", set.name()),
                            out[r * stride + c],
                            want,
                            1e-4,
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn every_gemv_kernel_equals_the_plain_sum() {
    let mut random = Random(8);
    for set in Vectors::available() {
        for (rows, depth, width) in [(64, 5, 16), (128, 64, 16), (512, 128, 128), (512, 128, 512), (192, 31, 16)] {
            let matrix = random.floats(rows * depth);
            let packed = PackedF32::pack(rows, depth, width, |r, k| matrix[r * depth + k]);
            let first = depth / 3;
            let x = random.floats(depth - first - 1);
            let start = random.floats(rows);
            let mut out = start.clone();
            set.gemv(&packed, first, &x, &mut out);
            for r in 0..rows {
                let sum: f64 =
                    x.iter().enumerate().map(|(k, x)| matrix[r * depth + first + k] as f64 * *x as f64).sum();
                assert_near(&format!("{} {rows}x{depth}/{width}", set.name()), out[r], start[r] as f64 + sum, 1e-4);
            }
        }
    }
}

#[test]
fn every_spectrum_kernel_equals_the_defining_sum() {
    let mut random = Random(9);
    let window: [f32; 256] = std::array::from_fn(|_| random.next());
    let stft = Stft::new(window);
    for set in Vectors::available() {
        for (chunks, stride) in [(1, 16), (3, 16), (19, 32)] {
            let audio = random.floats(CONTEXT + chunks * CHUNK);
            let mut out = vec![f32::NAN; FRAMES * BINS * stride];
            let gains: Vec<f32> = random.floats(chunks).iter().map(|x| 1.5 + x).collect();
            set.spectrum(&stft, &audio, &gains, stride, &mut out);
            let mut of_first = vec![f32::NAN; BINS * LINE];
            set.spectrum_of_one(&stft, &audio, gains[0], &mut of_first);
            for chunk in 0..chunks {
                let mut sound = audio[chunk * CHUNK..chunk * CHUNK + CONTEXT + CHUNK].to_vec();
                let end = sound.len();
                sound.extend((2..66).map(|back| audio[chunk * CHUNK + end - back]).collect::<Vec<_>>());
                for frame in 0..FRAMES {
                    for bin in 0..BINS {
                        let (mut re, mut im) = (0.0f64, 0.0f64);
                        for i in 0..256 {
                            let x = gains[chunk] as f64 * sound[frame * 128 + i] as f64 * window[i] as f64;
                            let angle = std::f64::consts::TAU * (bin * i) as f64 / 256.0;
                            re += x * angle.cos();
                            im -= x * angle.sin();
                        }
                        let got = out[(frame * BINS + bin) * stride + chunk];
                        let what = format!("{} chunk {chunk} frame {frame} bin {bin}", set.name());
                        assert_near(&what, got, re.hypot(im), 5e-5);
                        if chunk == 0 {
                            assert_near(&what, of_first[bin * LINE + frame], re.hypot(im), 5e-5);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn every_lstm_kernel_equals_the_textbook_cell() {
    let mut random = Random(10);
    for set in Vectors::available() {
        // From tame to far outside what a float's exponential can hold.
        for scale in [0.1, 3.0, 20.0, 1e4, f32::MAX] {
            let sums: Vec<f32> = random.floats(4 * UNITS).iter().map(|x| x * scale).collect();
            let bias = random.floats(4 * UNITS);
            let (mut cell, mut hidden) = (random.floats(UNITS), vec![0.0; UNITS]);
            let before = cell.clone();
            set.lstm_step(&sums, &bias, &mut cell, &mut hidden);
            let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
            for u in 0..UNITS {
                let gate = |g: usize| (sums[g * UNITS + u] + bias[g * UNITS + u]) as f64;
                let now = sigmoid(gate(1)) * before[u] as f64 + sigmoid(gate(0)) * gate(2).tanh();
                assert_near(&format!("{} cell at {scale}", set.name()), cell[u], now, 1e-6);
                assert_near(
                    &format!("{} hidden at {scale}", set.name()),
                    hidden[u],
                    sigmoid(gate(3)) * now.tanh(),
                    1e-6,
                );
            }
        }
    }
}

#[test]
fn every_gru_kernel_equals_the_textbook_cell() {
    let mut random = Random(11);
    for set in Vectors::available() {
        // From tame to far outside what a float's exponential can hold.
        for scale in [0.1, 3.0, 20.0, 1e4, 1e30] {
            let mut sums = || random.floats(3 * UNITS).iter().map(|x| x * scale).collect::<Vec<f32>>();
            let (input, recurrent) = (sums(), sums());
            let (bias, mut hidden) = (random.floats(3 * UNITS), random.floats(UNITS));
            let before = hidden.clone();
            set.gru_step(&input, &bias, &recurrent, &mut hidden);
            let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
            for u in 0..UNITS {
                let of_input = |gate: usize| (input[gate * UNITS + u] + bias[gate * UNITS + u]) as f64;
                let of_hidden = |gate: usize| recurrent[gate * UNITS + u] as f64;
                let update = sigmoid(of_input(0) + of_hidden(0));
                let reset = sigmoid(of_input(1) + of_hidden(1));
                let new = (of_input(2) + reset * of_hidden(2)).tanh();
                let now = (1.0 - update) * new + update * before[u] as f64;
                // The arguments are sums of float32, whose rounding the steep part of a sigmoid shows.
                let tolerance = 1e-6 * f64::from(scale).clamp(1.0, 1e4);
                assert_near(&format!("{} hidden at {scale}", set.name()), hidden[u], now, tolerance);
            }
        }
    }
}

#[test]
fn every_activation_kernel_equals_the_definition() {
    let mut random = Random(12);
    for set in Vectors::available() {
        for scale in [1e-3, 1.0, 30.0, f32::MAX] {
            let values: Vec<f32> = random.floats(80).iter().map(|x| x * scale).collect();
            let (mut sigmoids, mut tangents) = (values.clone(), values.clone());
            set.sigmoid(&mut sigmoids);
            set.tanh(&mut tangents);
            for (index, x) in values.iter().enumerate() {
                let x = f64::from(*x);
                assert_near(&format!("{} sigmoid({x})", set.name()), sigmoids[index], 1.0 / (1.0 + (-x).exp()), 2e-7);
                assert_near(&format!("{} tanh({x})", set.name()), tangents[index], x.tanh(), 4e-7);
            }
        }
    }
}

#[test]
fn every_dot_kernel_equals_the_plain_sum() {
    let mut state = 7u32;
    let mut random = |count: usize| -> Vec<f32> {
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state as f32 / u32::MAX as f32 - 0.5
            })
            .collect()
    };
    for (length, stride) in [(16, 0), (16, 3), (432, 441), (480, 1), (3696, 24)] {
        let (row, input) = (random(length), random(length + 7 * stride));
        for set in Vectors::available() {
            let sums = set.dots::<8>(&input, stride, &row);
            for (n, got) in sums.into_iter().enumerate() {
                let want = input[n * stride..].iter().zip(&row).map(|(a, b)| *a as f64 * *b as f64).sum::<f64>();
                assert_near(&format!("{} {length} by {stride}", set.name()), got, want, 1e-4);
            }
        }
    }
}

/// What a call that is refused says.
fn refusal(call: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).expect_err("the call is refused");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

#[test]
fn shapes_whose_size_overflows_are_refused_and_not_taken_for_small_ones() {
    let vectors = Vectors::of(Isa::Portable);
    let (data, mut out) = ([0f32; 64], [0f32; 512]);
    // The second panel would begin 16 elements before the first.
    let left = Left { data: &data, panel: usize::MAX - 15, step: LINE, rows: 32, depth: 1 };
    assert_eq!(refusal(|| vectors.gemm(left, &data, 16, 16, None, &mut out)), "the left side has all panels");
    let left = Left { data: &data, panel: LINE, step: LINE, rows: 16, depth: 3 };
    let stride = 1 << 63;
    let said = refusal(|| vectors.gemm(left, &data, 16, stride, None, &mut out));
    assert_eq!(said, "the right side and the sums have all rows");
    let weights = PackedF32::pack(64, 2, 16, |_, _| 0.0);
    assert_eq!(refusal(|| vectors.gemv(&weights, usize::MAX, &[1.0], &mut out)), "columns of the matrix");
    let bank = Filters::pack(Isa::Portable, 16, 4, |_, _| 0.0).expect("plain Rust has a bank");
    let said = refusal(|| bank.multiply(&data, usize::MAX / 11 + 1, 1, 0, &mut out));
    assert_eq!(said, "windows lie within the samples");
}
