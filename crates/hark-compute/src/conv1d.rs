//! Convolutions over time as matrix products, without copying windows.
//!
//! Activations are bf16 rows, one for each step, right behind each other. The window of an output step is then a run of
//! neighbouring rows, so the left side of the product is a view whose rows overlap: no im2col. A dilated convolution is an
//! ordinary one over every n-th step, which whoever writes the rows puts beside each other.
//!
//! Cost: `steps · taps · inputs · outputs` multiply-adds; three times that with [`Precision::Split`].

use crate::Compute;
use crate::buffer::SharedMut;
use crate::gemm::bf16_residue;
use crate::kernels::BLOCK;
use crate::kernels::{DEPTH, PANEL};
use crate::linear::{Linear, Rows, Weights, matmul};
use crate::ops::Finish;
use crate::view::{MatMut, MatRef};

/// How exact the products of a layer are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// bf16 activations times bf16 weights: 8 bits each.
    Bf16,
    /// Both sides in two bf16 parts, of whose four products the smallest is left out: 16 bits, at three times the cost.
    ///
    /// An input row is `[rounded, residue, rounded]`, a weight row `[rounded, rounded, residue]`.
    Split,
}

impl Precision {
    /// bf16 numbers that stand for one.
    pub fn parts(self) -> usize {
        match self {
            Precision::Bf16 => 1,
            Precision::Split => 3,
        }
    }
}

/// A convolution over time with a bias; with one tap it is a linear layer.
pub struct Conv1d {
    layer: Linear,
    taps: usize,
    /// bf16 numbers of an input step.
    row: usize,
    precision: Precision,
}

impl Conv1d {
    /// Packs `weight(output, input, tap)`. An input step has `inputs` columns, as many numbers as `precision` says of each.
    pub fn pack(
        (outputs, inputs, taps): (usize, usize, usize),
        bias: Option<&[f32]>,
        precision: Precision,
        weight: impl Fn(usize, usize, usize) -> f32,
    ) -> Self {
        let row = inputs * precision.parts();
        let mut weights = vec![0f32; outputs * taps * row];
        for (output, weights) in weights.chunks_exact_mut(taps * row).enumerate() {
            for (tap, weights) in weights.chunks_exact_mut(row).enumerate() {
                for input in 0..inputs {
                    let weight = weight(output, input, tap);
                    weights[input] = weight;
                    if precision == Precision::Split {
                        weights[inputs + input] = weight;
                        weights[2 * inputs + input] = bf16_residue(weight);
                    }
                }
            }
        }
        let layer = Linear::pack(&weights, outputs, taps * row, bias, Weights::Bf16);
        Conv1d { layer, taps, row, precision }
    }

    /// Output columns: those of the layer up to a multiple of 32, the last of which are zero.
    pub fn columns(&self) -> usize {
        self.layer.columns()
    }

    /// Steps that an output step looks at.
    pub fn taps(&self) -> usize {
        self.taps
    }

    /// How exact its products are.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Bytes of packed weights.
    pub fn memory(&self) -> u64 {
        self.layer.memory()
    }

    /// bf16 numbers that an input of so many output steps must hold: products read whole tiles.
    pub fn input_len(&self, steps: usize, stride: usize) -> usize {
        let last = steps.next_multiple_of(PANEL).saturating_sub(1) * stride * self.row;
        last + (self.taps * self.row).next_multiple_of(DEPTH)
    }

    /// Writes `out.rows()` steps; the window of step `n` begins with row `n · stride` of `input`.
    ///
    /// # Panics
    /// When `input` is shorter than [`Conv1d::input_len`] says, or the output or the residual has too few columns.
    pub fn apply(&self, compute: &Compute, input: &[u16], stride: usize, output: ConvOutput) {
        let ConvOutput { mut out, residual, accumulate, scale, moments } = output;
        let (steps, columns) = (out.rows(), self.columns());
        assert!(out.width() >= columns, "a place for every output column");
        if let Some(residual) = &residual {
            assert!(residual.rows() >= steps && residual.width() >= columns, "a residual for every output");
        }
        let mut unused = Moments::default();
        let wanted = moments.is_some();
        let moments = moments.unwrap_or(&mut unused);
        let partial = wanted.then(|| SharedMut::new(moments.grow(steps, columns).as_mut_ptr()));
        let (stride_out, target) = (out.stride(), SharedMut::new(out.as_mut_ptr()));
        let ops = compute.ops();
        let rows = Rows::new(input, stride * self.row, steps);
        matmul(compute, rows, &self.layer, &|block, row, column| {
            block.check();
            assert!(row + block.rows <= steps && column + BLOCK <= columns, "a block inside the output");
            let (residual, residual_stride) = match &residual {
                Some(residual) => (residual.as_ptr().wrapping_add(row * residual.stride() + column), residual.stride()),
                None => (std::ptr::null(), 0),
            };
            let at = (row / BLOCK * columns + column) * 2;
            let block = Finish {
                sums: block.sums.as_ptr(),
                rows: block.rows,
                bias: block.bias.as_ptr(),
                residual,
                residual_stride,
                accumulate,
                scale,
                out: target.at(row * stride_out + column),
                out_stride: stride_out,
                moments: partial.as_ref().map_or(std::ptr::null_mut(), |partial| partial.at(at)),
            };
            // SAFETY: a product gives every block once, its rows a multiple of 32 from the first, inside the output, the residual
            // and the moments, as checked above.
            unsafe { ops.finish(&block) }
        });
    }
}

/// Where the result of a convolution goes: `out = (product + bias + residual + out) · scale`, the last two where asked for.
pub struct ConvOutput<'a> {
    /// The steps.
    pub out: MatMut<'a, f32>,
    /// Added before the scale.
    pub residual: Option<MatRef<'a, f32>>,
    /// Whether what stands in `out` is added before the scale.
    pub accumulate: bool,
    /// The factor at the end.
    pub scale: f32,
    /// Gets the moments of the result, behind those that are there.
    pub moments: Option<&'a mut Moments>,
}

impl<'a> ConvOutput<'a> {
    /// The product with its bias.
    pub fn to(out: MatMut<'a, f32>) -> Self {
        ConvOutput { out, residual: None, accumulate: false, scale: 1.0, moments: None }
    }
}

/// Sums and sums of squares of columns, for groups of up to 32 rows each.
#[derive(Default)]
pub struct Moments {
    /// For each group and each block of 32 columns, 32 sums and 32 sums of squares.
    partial: Vec<f32>,
    rows: usize,
    columns: usize,
}

impl Moments {
    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.partial.clear();
        self.rows = 0;
    }

    /// Room for the groups of `rows` more rows.
    fn grow(&mut self, rows: usize, columns: usize) -> &mut [f32] {
        assert!(self.partial.is_empty() || self.columns == columns, "moments of as many columns");
        let before = self.partial.len();
        self.partial.resize(before + rows.div_ceil(BLOCK) * columns * 2, 0.0);
        (self.rows, self.columns) = (self.rows + rows, columns);
        &mut self.partial[before..]
    }

    /// Adds the rows of a matrix, whose width is a multiple of 32.
    pub fn add(&mut self, rows: &[f32], columns: usize) {
        assert!(columns.is_multiple_of(BLOCK) && rows.len().is_multiple_of(columns), "whole rows of whole blocks");
        let partial = self.grow(rows.len() / columns, columns);
        let groups = rows.chunks(BLOCK * columns).zip(partial.chunks_exact_mut(2 * columns));
        for (rows, partial) in groups {
            for row in rows.chunks_exact(columns) {
                for (numbers, partial) in row.as_chunks::<BLOCK>().0.iter().zip(partial.chunks_exact_mut(2 * BLOCK)) {
                    let (sums, squares) = partial.split_at_mut(BLOCK);
                    for column in 0..BLOCK {
                        sums[column] += numbers[column];
                        squares[column] += numbers[column] * numbers[column];
                    }
                }
            }
        }
    }

    /// Mean and variance of each column over all rows.
    pub fn mean_and_variance(&self) -> (Vec<f32>, Vec<f32>) {
        let (mut sums, mut squares) = (vec![0f64; self.columns], vec![0f64; self.columns]);
        for group in self.partial.chunks_exact(2 * self.columns.max(1)) {
            for (block, partial) in group.as_chunks::<{ 2 * BLOCK }>().0.iter().enumerate() {
                for column in 0..BLOCK {
                    sums[block * BLOCK + column] += f64::from(partial[column]);
                    squares[block * BLOCK + column] += f64::from(partial[BLOCK + column]);
                }
            }
        }
        let count = self.rows.max(1) as f64;
        let mean: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
        let variance = squares.iter().zip(&mean).map(|(square, mean)| (square / count - mean * mean).max(0.0) as f32);
        (mean.iter().map(|mean| *mean as f32).collect(), variance.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::kernels::math::to_bf16;
    use crate::ops::Activation;

    fn number(index: usize, seed: usize) -> f32 {
        let mixed = (index * 2_654_435_761 + seed * 40_503).wrapping_mul(2_246_822_519) >> 7;
        (mixed % 20_001) as f32 / 10_000.0 - 1.0
    }

    /// `(columns, taps, steps)` of the input against the definition, on every set.
    fn check(precision: Precision, tolerance: f32) {
        let (outputs, inputs, taps, stride, steps) = (40, 32, 5, 2, 75);
        let weight = |output: usize, input: usize, tap: usize| number((output * inputs + input) * taps + tap, 1) / 8.0;
        let bias: Vec<f32> = (0..outputs).map(|output| number(output, 2)).collect();
        let conv = Conv1d::pack((outputs, inputs, taps), Some(&bias), precision, weight);
        let columns = conv.columns();
        let rows = steps * stride + taps;
        let x: Vec<f32> = (0..rows * inputs).map(|index| number(index, 3)).collect();
        let residual: Vec<f32> = (0..steps * columns).map(|index| number(index, 4)).collect();
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let compute = Compute::new(2, isa);
            let width = inputs * precision.parts();
            let mut input = vec![0u16; conv.input_len(steps, stride).max(rows * width)];
            let (ones, zeros) = ([1f32; 32], [0f32; 32]);
            let split = precision == Precision::Split;
            let to = MatMut::new(&mut input, rows, width, width);
            let from = MatRef::new(&x, rows, inputs, inputs);
            compute.ops().activate(from, (&ones, &zeros), Activation::Identity, split, to);
            let mut out = vec![0.5f32; steps * columns];
            let mut moments = Moments::default();
            let output = ConvOutput {
                residual: Some(MatRef::new(&residual, steps, columns, columns)),
                accumulate: true,
                scale: 0.5,
                moments: Some(&mut moments),
                ..ConvOutput::to(MatMut::new(&mut out, steps, columns, columns))
            };
            conv.apply(&compute, &input, stride, output);
            let (mean, variance) = moments.mean_and_variance();
            for column in 0..outputs {
                let all = || (0..steps).map(|step| f64::from(out[step * columns + column]));
                for step in 0..steps {
                    let mut sum = f64::from(bias[column] + residual[step * columns + column] + 0.5);
                    for (tap, input) in (0..taps).flat_map(|tap| (0..inputs).map(move |input| (tap, input))) {
                        let x = x[(step * stride + tap) * inputs + input];
                        sum += f64::from(x) * f64::from(weight(column, input, tap));
                    }
                    let found = out[step * columns + column];
                    assert!((f64::from(found) - sum / 2.0).abs() < f64::from(tolerance), "{}: {found}", isa.name());
                }
                let exact = all().sum::<f64>() / steps as f64;
                assert!((f64::from(mean[column]) - exact).abs() < 1e-5, "{}", isa.name());
                let exact = all().map(|x| (x - exact) * (x - exact)).sum::<f64>() / steps as f64;
                assert!((f64::from(variance[column]) - exact).abs() < 1e-4, "{}", isa.name());
            }
        }
    }

    #[test]
    fn a_convolution_in_bf16_follows_the_definition_and_its_moments_are_those_of_the_result() {
        check(Precision::Bf16, 2e-2);
    }

    #[test]
    fn a_convolution_of_split_numbers_is_a_hundred_times_as_exact() {
        check(Precision::Split, 2e-4);
    }

    #[test]
    fn moments_of_a_matrix_are_those_of_its_columns() {
        let columns = 64;
        let rows: Vec<f32> = (0..77 * columns).map(|index| number(index, 5) + 3.0).collect();
        let mut moments = Moments::default();
        moments.add(&rows[..40 * columns], columns);
        moments.add(&rows[40 * columns..], columns);
        let (mean, variance) = moments.mean_and_variance();
        for column in 0..columns {
            let all: Vec<f64> = rows.chunks_exact(columns).map(|row| f64::from(row[column])).collect();
            let exact = all.iter().sum::<f64>() / all.len() as f64;
            assert!((f64::from(mean[column]) - exact).abs() < 1e-5);
            let exact = all.iter().map(|x| (x - exact) * (x - exact)).sum::<f64>() / all.len() as f64;
            assert!((f64::from(variance[column]) - exact).abs() < 1e-5);
        }
    }

    #[test]
    fn activations_follow_their_formulas() {
        let (rows, width) = (7, 64);
        let x: Vec<f32> = (0..rows * width).map(|index| number(index, 6) * 30.0).collect();
        let scale: Vec<f32> = (0..width).map(|column| number(column, 7)).collect();
        let shift: Vec<f32> = (0..width).map(|column| number(column, 8)).collect();
        let alpha: Vec<f32> = (0..width).map(|column| number(column, 9) + 1.5).collect();
        let inverse: Vec<f32> = alpha.iter().map(|alpha| 1.0 / alpha).collect();
        type Definition<'a> = &'a dyn Fn(usize, f64) -> f64;
        let cases: [(Activation, Definition); 4] = [
            (Activation::Identity, &|_, x| x),
            (Activation::LeakyRelu(0.2), &|_, x| if x < 0.0 { x * f64::from(0.2f32) } else { x }),
            (Activation::Snake(&alpha, &inverse), &|column, x| {
                x + (x * f64::from(alpha[column])).sin().powi(2) / f64::from(alpha[column])
            }),
            (Activation::GeluTanh, &|_, x| {
                0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x.powi(3))).tanh())
            }),
        ];
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            for (activation, definition) in cases {
                let mut out = vec![0u16; rows * 3 * width];
                let to = MatMut::new(&mut out, rows, 3 * width, 3 * width);
                let from = MatRef::new(&x, rows, width, width);
                crate::ops::Ops::of(isa).activate(from, (&scale, &shift), activation, true, to);
                for (row, out) in out.chunks_exact(3 * width).enumerate() {
                    for column in 0..width {
                        let from = f64::from(x[row * width + column]);
                        let exact = definition(column, from * f64::from(scale[column]) + f64::from(shift[column]));
                        let part = |part: usize| crate::kernels::math::from_bf16(out[part * width + column]);
                        assert_eq!(part(0).to_bits(), part(2).to_bits());
                        let found = f64::from(part(0)) + f64::from(part(1));
                        let near = 1e-5 * (1.0 + exact.abs() + from.abs());
                        assert!((found - exact).abs() < near, "{}: {activation:?}: {found} {exact}", isa.name());
                        let rounded = crate::kernels::math::from_bf16(to_bf16(exact as f32));
                        assert!((part(0) - rounded).abs() <= exact.abs() as f32 / 100.0 + 1e-4);
                    }
                }
            }
        }
    }
}
