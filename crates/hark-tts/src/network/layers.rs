//! Layers over steps of time: rows of float32, a column for each channel, columns up to a multiple of 32.

use hark_compute::Compute;
use hark_compute::buffer::Buffer;
use hark_compute::conv1d::{Conv1d, ConvOutput, Moments, Precision};
use hark_compute::ops::Activation;
use hark_compute::view::{MatMut, MatRef};

use crate::TtsError;

/// Channels are padded to a multiple of this.
const BLOCK: usize = 32;
/// Rows that one thread activates at a time.
const ROWS: usize = 32;
/// Below the square root of a variance.
const EPSILON: f32 = 1e-5;

/// The columns of that many channels.
pub(crate) fn padded(channels: usize) -> usize {
    channels.next_multiple_of(BLOCK)
}

/// What a pass through the network works with.
pub(crate) struct Pass<'a> {
    pub(crate) compute: &'a Compute,
    /// The bf16 rows of the layer that runs.
    rows: Buffer<u16>,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(compute: &'a Compute, is_cancelled: &'a dyn Fn() -> bool) -> Self {
        Pass { compute, rows: Buffer::zeroed(0), is_cancelled }
    }

    /// An error where the caller cancelled.
    pub(crate) fn check(&self) -> Result<(), TtsError> {
        if (self.is_cancelled)() { Err(TtsError::Cancelled) } else { Ok(()) }
    }
}

/// A scale and a shift of every column.
#[derive(Clone)]
pub(crate) struct Affine {
    pub(crate) scale: Vec<f32>,
    pub(crate) shift: Vec<f32>,
}

impl Affine {
    /// One that multiplies by `scale`.
    pub(crate) fn uniform(columns: usize, scale: f32) -> Self {
        Affine { scale: vec![scale; columns], shift: vec![0.0; columns] }
    }
}

/// A matrix of float32 that owns its numbers: `steps` rows of `columns`.
#[derive(Clone)]
pub(crate) struct Steps {
    pub(crate) data: Vec<f32>,
    pub(crate) columns: usize,
}

impl Steps {
    pub(crate) fn zeroed(steps: usize, columns: usize) -> Self {
        Steps { data: vec![0.0; steps * columns], columns }
    }

    pub(crate) fn len(&self) -> usize {
        self.data.len() / self.columns
    }

    pub(crate) fn row(&self, step: usize) -> &[f32] {
        &self.data[step * self.columns..][..self.columns]
    }

    pub(crate) fn row_mut(&mut self, step: usize) -> &mut [f32] {
        &mut self.data[step * self.columns..][..self.columns]
    }

    pub(crate) fn moments(&self) -> Moments {
        let mut moments = Moments::default();
        moments.add(&self.data, self.columns);
        moments
    }
}

/// Where a layer writes: see [`ConvOutput`].
pub(crate) struct Target<'a> {
    pub(crate) data: &'a mut [f32],
    pub(crate) stride: usize,
    /// Added: rows and the distance between them.
    pub(crate) residual: Option<(&'a [f32], usize)>,
    pub(crate) accumulate: bool,
    pub(crate) scale: f32,
    pub(crate) moments: Option<&'a mut Moments>,
}

impl<'a> Target<'a> {
    pub(crate) fn new(data: &'a mut [f32], stride: usize) -> Self {
        Target { data, stride, residual: None, accumulate: false, scale: 1.0, moments: None }
    }
}

/// A convolution over time with its padding.
pub(crate) struct Convolution {
    conv: Conv1d,
    /// Columns of an input step.
    inputs: usize,
    /// Steps of zeros before the first and after the last.
    padding: usize,
    stride: usize,
    dilation: usize,
}

impl Convolution {
    /// One of stride and dilation 1.
    pub(crate) fn new(conv: Conv1d, inputs: usize, padding: usize) -> Self {
        Convolution { conv, inputs, padding, stride: 1, dilation: 1 }
    }

    /// The same over every `dilation`-th step; its padding grows with it.
    pub(crate) fn dilated(self, dilation: usize) -> Self {
        Convolution { dilation, ..self }
    }

    /// The same with one output for every `stride` steps.
    pub(crate) fn strided(self, stride: usize, padding: usize) -> Self {
        Convolution { stride, padding, ..self }
    }

    /// Output columns.
    pub(crate) fn columns(&self) -> usize {
        self.conv.columns()
    }

    pub(crate) fn memory(&self) -> u64 {
        self.conv.memory()
    }

    /// Output steps of so many input steps.
    pub(crate) fn steps(&self, steps: usize) -> usize {
        (steps + 2 * self.padding - self.conv.taps()) / self.stride + 1
    }

    /// Applies the activation to `x` and convolves it into `target`.
    pub(crate) fn run(
        &self,
        pass: &mut Pass,
        (x, x_stride, steps): (&[f32], usize, usize),
        affine: &Affine,
        activation: Activation,
        target: Target,
    ) -> Result<(), TtsError> {
        pass.check()?;
        let Target { data, stride, residual, accumulate, scale, mut moments } = target;
        for phase in 0..self.dilation.min(steps) {
            let inputs = (steps - phase).div_ceil(self.dilation);
            self.fill_rows(pass, &x[phase * x_stride..], self.dilation * x_stride, inputs, affine, activation);
            let outputs = self.steps(inputs);
            let (first, apart) = (phase * stride, self.dilation * stride);
            let columns = self.conv.columns();
            let output = ConvOutput {
                out: MatMut::new(&mut data[first..], outputs, columns, apart),
                residual: residual.map(|(rows, stride)| {
                    MatRef::new(&rows[phase * stride..], outputs, columns, self.dilation * stride)
                }),
                accumulate,
                scale,
                moments: moments.as_deref_mut(),
            };
            self.conv.apply(pass.compute, &pass.rows, self.stride, output);
        }
        Ok(())
    }

    /// Writes the activated rows between rows of zeros.
    fn fill_rows(
        &self,
        pass: &mut Pass,
        x: &[f32],
        x_stride: usize,
        steps: usize,
        affine: &Affine,
        activation: Activation,
    ) {
        let split = self.conv.precision() == Precision::Split;
        let width = self.inputs * self.conv.precision().parts();
        let needed = self.conv.input_len(self.steps(steps), self.stride).max((steps + 2 * self.padding) * width);
        if pass.rows.len() < needed {
            pass.rows = Buffer::zeroed(needed);
        }
        let (before, rest) = pass.rows.split_at_mut(self.padding * width);
        let (rows, after) = rest.split_at_mut(steps * width);
        before.fill(0);
        let last = needed - self.padding * width - steps * width;
        after[..last].fill(0);
        let affine = (&affine.scale[..], &affine.shift[..]);
        let ops = pass.compute.ops();
        pass.compute.parallel_chunks(rows, ROWS * width, |chunk, rows, _| {
            let count = rows.len() / width;
            let from = MatRef::new(&x[chunk * ROWS * x_stride..], count, self.inputs, x_stride);
            ops.activate(from, affine, activation, split, MatMut::new(rows, count, width, width));
        });
    }

    /// A new matrix of the result.
    pub(crate) fn apply(&self, pass: &mut Pass, x: &Steps, activation: Activation) -> Result<Steps, TtsError> {
        let mut out = Steps::zeroed(self.steps(x.len()), self.columns());
        let affine = Affine::uniform(x.columns, 1.0);
        let target = Target::new(&mut out.data, out.columns);
        self.run(pass, (&x.data, x.columns, x.len()), &affine, activation, target)?;
        Ok(out)
    }
}

/// Adaptive instance norm: the style gives every channel its scale and shift after the norm over time.
pub(crate) struct AdaptiveNorm {
    /// `[style][scale of each channel, shift of each channel]`.
    weights: Vec<f32>,
    bias: Vec<f32>,
    channels: usize,
}

/// Elements of each half of a style vector.
pub(crate) const STYLE: usize = 128;

impl AdaptiveNorm {
    /// `weights[2 · channels][128]` and as many biases.
    pub(crate) fn new(weights: &[f32], bias: Vec<f32>, channels: usize) -> Self {
        let rows = 2 * channels;
        let weights = (0..STYLE * rows).map(|index| weights[index % rows * STYLE + index / rows]).collect();
        AdaptiveNorm { weights, bias, channels }
    }

    /// The scale (less one) and the shift of each channel.
    pub(crate) fn parameters(&self, compute: &Compute, style: &[f32]) -> Vec<f32> {
        let mut out = self.bias.clone();
        compute.ops().gemv(&self.weights, style, &mut out);
        out
    }

    /// What normalizes columns of these moments.
    pub(crate) fn affine(&self, compute: &Compute, style: &[f32], moments: &Moments) -> Affine {
        let parameters = self.parameters(compute, style);
        let (mean, variance) = moments.mean_and_variance();
        let (mut scale, mut shift) = (vec![0.0; mean.len()], vec![0.0; mean.len()]);
        for channel in 0..self.channels {
            scale[channel] = (1.0 + parameters[channel]) / (variance[channel] + EPSILON).sqrt();
            shift[channel] = parameters[self.channels + channel] - mean[channel] * scale[channel];
        }
        Affine { scale, shift }
    }
}

/// `(x - mean) / deviation` of a row, times `gain` plus `shift`.
pub(crate) fn layer_norm(row: &mut [f32], epsilon: f64, affine: impl Fn(usize, f32) -> f32) {
    let count = row.len() as f64;
    let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
    let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / count;
    let inverse = 1.0 / (variance + epsilon).sqrt();
    for (column, x) in row.iter_mut().enumerate() {
        *x = affine(column, ((f64::from(*x) - mean) * inverse) as f32);
    }
}
