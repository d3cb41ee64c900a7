//! Layers: products with a bias, layer norms behind residuals.

use hark_compute::Compute;
use hark_compute::quantized::{Activations, Format, Product, QuantBlock, QuantizedMatrix, matmul};
use hark_compute::row_ops::{Norm, RowOps};
use hark_weights::{Dtype, Quantization, Tensor};

/// Words of a stretch of the output projection: the logits of 64 rows are 512 KiB.
const STRETCH: usize = 2048;
/// An f16 of 1.
const UNIT_SCALE: u16 = 0x3c00;

/// A linear layer.
///
/// int8 weights are packed as whole numbers, which are exact in every kernel; their scale is applied to the sums.
pub(crate) struct Linear {
    matrix: QuantizedMatrix,
    scale: f32,
    pub(crate) bias: Vec<f32>,
}

/// A linear layer whose outputs are added to the states and normed.
pub(crate) struct AddNorm {
    pub(crate) linear: Linear,
    pub(crate) norm: LayerNorm,
}

pub(crate) struct LayerNorm {
    pub(crate) gain: Vec<f32>,
    pub(crate) shift: Vec<f32>,
    pub(crate) epsilon: f32,
}

impl Linear {
    /// Packs some rows of a matrix of shape `[outputs, inputs]`; none where there is no memory for it.
    ///
    /// # Panics
    /// When inputs are no multiple of 32, or the matrix is of another type than int8 with one scale or floats.
    pub(crate) fn pack(
        compute: &Compute,
        matrix: &Tensor,
        rows: std::ops::Range<usize>,
        bias: Vec<f32>,
    ) -> Option<Self> {
        let inputs = matrix.columns();
        let first = rows.start;
        let (packed, scale) = match (matrix.dtype(), matrix.quantization()) {
            (Dtype::I8, Quantization::PerTensor { scale, .. }) => {
                let bytes = matrix.bytes();
                let read = |row: usize, granule: usize, block: &mut QuantBlock| {
                    block.scale = UNIT_SCALE;
                    let from = &bytes[(first + row) * inputs + granule * 32..][..32];
                    // The zero of the packed numbers is 128.
                    block.values.iter_mut().zip(from).for_each(|(to, from)| *to = from ^ 0x80);
                };
                (QuantizedMatrix::pack(compute, Format::Int8, rows.len(), inputs, read)?, *scale)
            }
            (Dtype::F32 | Dtype::F16 | Dtype::Bf16, _) => {
                let read = |row: usize, granule: usize, block: &mut QuantBlock| {
                    let mut values = [0; 32];
                    matrix.columns_bf16(first + row, granule * 32, &mut values);
                    for (to, from) in block.values.chunks_exact_mut(2).zip(values) {
                        to.copy_from_slice(&from.to_le_bytes());
                    }
                };
                (QuantizedMatrix::pack(compute, Format::Bf16, rows.len(), inputs, read)?, 1.0)
            }
            (dtype, _) => panic!("weights of type {dtype:?}"),
        };
        Some(Linear { matrix: packed, scale, bias })
    }

    /// The projection to words by a table of their embeddings, in stretches; none where there is no memory for it.
    pub(crate) fn stretches(compute: &Compute, table: &Tensor, bias: &[f32]) -> Option<Vec<Self>> {
        // Equal stretches, so that none has fewer than two words.
        let (words, count) = (table.rows(), table.rows().div_ceil(STRETCH));
        (0..count)
            .map(|stretch| stretch * words / count..(stretch + 1) * words / count)
            .map(|words| Linear::pack(compute, table, words.clone(), bias[words].to_vec()))
            .collect()
    }

    /// Outputs.
    pub(crate) fn outputs(&self) -> usize {
        self.matrix.rows()
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.matrix.bytes() + 4 * self.bias.len() as u64
    }

    /// Scale and bias over a row of sums, then `activation`.
    pub(crate) fn finish(&self, row: &mut [f32], activation: impl Fn(f32) -> f32) {
        let scale = self.scale;
        row.iter_mut().zip(&self.bias).for_each(|(value, bias)| *value = activation(*value * scale + bias));
    }
}

/// Multiplies activations with several layers at once; `out[i]` gets the raw sums of `layers[i]`.
pub(crate) fn products<const N: usize>(
    compute: &Compute,
    activations: &Activations,
    layers: [&Linear; N],
    out: [&mut Vec<f32>; N],
) {
    let mut products = Vec::with_capacity(N);
    for (out, layer) in out.into_iter().zip(layers) {
        out.resize(activations.rows() * layer.outputs(), 0.0);
        products.push(Product::new(&layer.matrix, out, layer.outputs()));
    }
    matmul(compute, activations, &mut products);
}

/// As [`products`], with scale, bias and `activation` applied.
pub(crate) fn apply<const N: usize>(
    compute: &Compute,
    activations: &Activations,
    layers: [&Linear; N],
    mut out: [&mut Vec<f32>; N],
    activation: impl Fn(f32) -> f32 + Sync,
) {
    products(compute, activations, layers, out.each_mut().map(|out| &mut **out));
    for (out, layer) in out.into_iter().zip(layers) {
        for_rows(compute, out, layer.outputs(), |_, row| layer.finish(row, &activation));
    }
}

impl AddNorm {
    /// `states = norm(states + product)`
    pub(crate) fn apply(
        &self,
        compute: &Compute,
        activations: &Activations,
        product: &mut Vec<f32>,
        states: &mut [f32],
    ) {
        let (linear, width) = (&self.linear, self.norm.gain.len());
        products(compute, activations, [linear], [&mut *product]);
        let ops = RowOps::of(compute.isa());
        let norm = self.norm.with(&linear.bias);
        let scale = linear.scale;
        // The product is scaled where it lies: its row is this piece's own, as that of the states is.
        for_rows(compute, product, width, |_, row| row.iter_mut().for_each(|value| *value *= scale));
        let product = &*product;
        for_rows(compute, states, width, |row, state| ops.add_norm(state, &product[row * width..][..width], &norm));
    }
}

impl LayerNorm {
    pub(crate) fn with<'a>(&'a self, bias: &'a [f32]) -> Norm<'a> {
        Norm { bias, gain: &self.gain, shift: &self.shift, epsilon: self.epsilon }
    }
}

/// Calls `work` for every row, on several threads where there is enough to do.
pub(crate) fn for_rows(compute: &Compute, data: &mut [f32], width: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
    /// Elements below which waking another thread costs more than it saves.
    const ALONE: usize = 1 << 14;
    if data.len() <= ALONE {
        data.chunks_exact_mut(width).enumerate().for_each(|(row, data)| work(row, data));
        return;
    }
    /// Rows of a piece.
    const ROWS: usize = 8;
    compute.parallel_chunks(data, ROWS * width, |piece, rows, _| {
        rows.chunks_exact_mut(width).enumerate().for_each(|(row, data)| work(piece * ROWS + row, data));
    });
}
