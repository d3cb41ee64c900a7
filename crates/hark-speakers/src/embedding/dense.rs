//! The densely connected TDNN: 52 layers in three blocks, each adding 32 channels, and statistics pooling.
//!
//! The weights have 14 MB, so pieces run in batches: every weight is read once per batch. The steps of the pieces are
//! stacked with two zero rows between them, which are the zero padding of each piece; a layer is then one GEMM over all
//! rows. A piece of 1.5 s costs 0.45 G multiply-adds.

use hark_compute::Worker;
use hark_compute::buffer::Buffer;
use hark_compute::gemm::PackedBf16;
use hark_compute::kernels::BLOCK;
use hark_compute::linear::Rows;
use hark_compute::ops::{Epilogue, Ops};
use hark_compute::view::{MatMut, MatRef};

use super::EMBEDDING_WIDTH;
use super::head::{OUT_BINS, WIDTH};
use super::weights::{
    BLOCKS, BOTTLENECK, CONTEXT, FIRST, FIRST_TAPS, GROWTH, LAST, Norm, PLANES, SEGMENT, Tensors, folded,
};

/// Zero rows between pieces: the largest dilation.
const GAP: usize = 2;
/// Rows per tile of a layer: its intermediate results stay in the L2 cache.
const ROWS: usize = 6 * BLOCK;
/// Row stride: the widest layer plus 32, so that rows do not map to the same few cache sets.
const STRIDE: usize = 1024 + 32;

/// The packed layers.
pub(super) struct Dense {
    first: PackedBf16,
    first_bias: Vec<f32>,
    blocks: Vec<Block>,
    out: Norm,
    /// `[2 * LAST][EMBEDDING_WIDTH]`.
    last: Vec<f32>,
    last_bias: Vec<f32>,
}

struct Block {
    /// Dilation of its layers' taps.
    dilation: usize,
    layers: Vec<Layer>,
    transit: Linear,
}

struct Layer {
    bottleneck: Linear,
    /// The dilated convolution, one matrix per tap.
    local: [PackedBf16; 3],
    /// `[BOTTLENECK][CONTEXT]` and `[CONTEXT][GROWTH]`.
    context: [Vec<f32>; 2],
    context_bias: [Vec<f32>; 2],
}

/// Batch norm and ReLU, then a linear layer.
struct Linear {
    norm: Norm,
    weights: PackedBf16,
    bias: Vec<f32>,
    /// Whether ReLU follows.
    relu: bool,
    inputs: usize,
}

/// The buffers of one thread for a batch of pieces.
pub(super) struct Workspace {
    /// Steps of a piece before and after the first layer, which has stride 2.
    steps: usize,
    halved: usize,
    pieces: usize,
    /// The head's output, `[row][WIDTH]`, after two rows of zeros.
    input: Buffer<u16>,
    /// The growing channels, in alternating buffers.
    channels: [Buffer<u16>; 2],
    /// The bottleneck activations of a layer, after two rows of zeros.
    bottleneck: Buffer<u16>,
    scaled: Buffer<u16>,
    sums: Buffer<f32>,
    /// The mask index of each row; the last mask is zero.
    mask_index: Vec<u32>,
    masks: Buffer<f32>,
}

impl Workspace {
    /// A workspace for up to `pieces` of `steps` frames each.
    pub(super) fn new(steps: usize, pieces: usize) -> Self {
        let halved = steps.div_ceil(2);
        let rows = pieces * (halved + GAP);
        let padded = rows.next_multiple_of(BLOCK) + BLOCK;
        let segments = halved.div_ceil(SEGMENT);
        let mask_index = (0..padded)
            .map(|row| match (row / (halved + GAP), row % (halved + GAP)) {
                (piece, step) if piece < pieces && step < halved => (piece * segments + step / SEGMENT) as u32,
                _ => (pieces * segments) as u32,
            })
            .collect();
        Workspace {
            steps,
            halved,
            pieces,
            input: Buffer::zeroed((2 * padded + FIRST_TAPS) * WIDTH),
            channels: [Buffer::zeroed(padded * STRIDE), Buffer::zeroed(padded * STRIDE)],
            bottleneck: Buffer::zeroed((padded + 2 * GAP) * BOTTLENECK),
            scaled: Buffer::zeroed(ROWS * STRIDE),
            sums: Buffer::zeroed(ROWS * BLOCK),
            mask_index,
            masks: Buffer::zeroed((pieces * segments + 1) * GROWTH),
        }
    }

    /// Whether this is a workspace for `pieces` of `steps` frames.
    pub(super) fn is_for(&self, steps: usize, pieces: usize) -> bool {
        self.steps == steps && self.pieces >= pieces
    }

    /// Rows from one piece to the next after the first layer.
    fn period(&self) -> usize {
        self.halved + GAP
    }

    /// The slot for the head's output of a piece.
    pub(super) fn input_of(&mut self, piece: usize) -> &mut [u16] {
        let at = (GAP + piece * 2 * self.period()) * WIDTH;
        &mut self.input[at..]
    }
}

impl Dense {
    pub(super) fn pack(tensors: &Tensors) -> Result<Self, String> {
        let norm = Norm::read(tensors, "xvector.tdnn.nonlinear.batchnorm", FIRST)?;
        let first = folded(tensors, "xvector.tdnn.linear", &[FIRST, WIDTH, FIRST_TAPS], &norm)?;
        let first_bias = norm.shift;
        let mut blocks = Vec::new();
        let mut width = FIRST;
        for (number, (layers, dilation)) in BLOCKS.into_iter().enumerate() {
            let name = format!("xvector.block{}", number + 1);
            let layer =
                |index: usize| Layer::pack(tensors, &format!("{name}.tdnnd{}", index + 1), width + index * GROWTH);
            let layers = (0..layers).map(layer).collect::<Result<Vec<_>, _>>()?;
            width += layers.len() * GROWTH;
            let name = format!("xvector.transit{}", number + 1);
            let weights = tensors.get(&format!("{name}.linear.weight"), &[width / 2, width, 1])?;
            let transit = Linear {
                norm: Norm::read(tensors, &format!("{name}.nonlinear.batchnorm"), width)?,
                weights: PackedBf16::pack(width / 2, width, |output, input| weights[output * width + input]),
                bias: vec![0.0; width / 2],
                relu: false,
                inputs: width,
            };
            blocks.push(Block { dilation, layers, transit });
            width /= 2;
        }
        let norm = Norm::read_without_affine(tensors, "xvector.dense.nonlinear.batchnorm", EMBEDDING_WIDTH)?;
        let last = folded(tensors, "xvector.dense.linear", &[EMBEDDING_WIDTH, 2 * LAST, 1], &norm)?;
        Ok(Dense {
            first: PackedBf16::pack(FIRST, FIRST_TAPS * WIDTH, |output, input| {
                // The file's channels are `[channel][bin]`, the head's output `[bin][channel]`.
                let (tap, bin, channel) = (input / WIDTH, input % WIDTH / PLANES, input % PLANES);
                first[(output * WIDTH + channel * OUT_BINS + bin) * FIRST_TAPS + tap]
            }),
            first_bias,
            blocks,
            out: Norm::read(tensors, "xvector.out_nonlinear.batchnorm", LAST)?,
            last: transposed(&last, EMBEDDING_WIDTH, 2 * LAST),
            last_bias: norm.shift,
        })
    }

    /// Runs `pieces` pieces whose head output is in the workspace; returns embeddings before L2 normalization.
    pub(super) fn run(&self, worker: &Worker, workspace: &mut Workspace, pieces: usize) -> Vec<[f32; EMBEDDING_WIDTH]> {
        assert!(pieces <= workspace.pieces, "the workspace holds the pieces");
        let ops = worker.compute().ops();
        let pass = Pass { worker, ops, rows: pieces * workspace.period() };
        pass.first(self, workspace);
        let mut current = 0;
        for block in &self.blocks {
            let mut width = block.layers[0].bottleneck.inputs;
            for layer in &block.layers {
                pass.layer(layer, block.dilation, workspace, pieces, current, width);
                width += GROWTH;
            }
            pass.transit(&block.transit, workspace, current);
            current = 1 - current;
        }
        (0..pieces).map(|piece| self.pool(ops, workspace, piece, current)).collect()
    }

    /// Statistics pooling (mean and standard deviation of each channel over a piece) and the last layer.
    fn pool(&self, ops: &Ops, workspace: &Workspace, piece: usize, current: usize) -> [f32; EMBEDDING_WIDTH] {
        let (mut sums, mut squares) = ([0f32; LAST], [0f32; LAST]);
        let rows = &workspace.channels[current][piece * workspace.period() * STRIDE..];
        let rows = MatRef::new(rows, workspace.halved, LAST, STRIDE);
        ops.moments(rows, &self.out.gain, &self.out.shift, &mut sums, &mut squares);
        let count = workspace.halved as f32;
        let mut statistics = [0f32; 2 * LAST];
        for channel in 0..LAST {
            let mean = sums[channel] / count;
            statistics[channel] = mean;
            let variance = (squares[channel] - sums[channel] * mean) / (count - 1.0).max(1.0);
            statistics[LAST + channel] = variance.max(0.0).sqrt();
        }
        let mut out = [0f32; EMBEDDING_WIDTH];
        out.copy_from_slice(&self.last_bias);
        ops.gemv(&self.last, &statistics, &mut out);
        out
    }
}

fn transposed(weights: &[f32], outputs: usize, inputs: usize) -> Vec<f32> {
    (0..inputs * outputs).map(|index| weights[index % outputs * inputs + index / outputs]).collect()
}

impl Layer {
    fn pack(tensors: &Tensors, name: &str, inputs: usize) -> Result<Self, String> {
        let part = |part: &str| format!("{name}.{part}");
        let norm = Norm::read(tensors, &part("nonlinear2.batchnorm"), BOTTLENECK)?;
        let bottleneck = folded(tensors, &part("linear1"), &[BOTTLENECK, inputs, 1], &norm)?;
        let local = tensors.get(&part("cam_layer.linear_local.weight"), &[GROWTH, BOTTLENECK, 3])?;
        let tap = |tap: usize| {
            PackedBf16::pack(GROWTH, BOTTLENECK, |output, input| local[(output * BOTTLENECK + input) * 3 + tap])
        };
        let one = tensors.get(&part("cam_layer.linear1.weight"), &[CONTEXT, BOTTLENECK, 1])?;
        let two = tensors.get(&part("cam_layer.linear2.weight"), &[GROWTH, CONTEXT, 1])?;
        Ok(Layer {
            bottleneck: Linear {
                norm: Norm::read(tensors, &part("nonlinear1.batchnorm"), inputs)?,
                weights: PackedBf16::pack(BOTTLENECK, inputs, |output, input| bottleneck[output * inputs + input]),
                bias: norm.shift,
                relu: true,
                inputs,
            },
            local: [tap(0), tap(1), tap(2)],
            context: [transposed(one, CONTEXT, BOTTLENECK), transposed(two, GROWTH, CONTEXT)],
            context_bias: [
                tensors.get(&part("cam_layer.linear1.bias"), &[CONTEXT])?.to_vec(),
                tensors.get(&part("cam_layer.linear2.bias"), &[GROWTH])?.to_vec(),
            ],
        })
    }
}

/// One batch's pass through the layers.
struct Pass<'a> {
    worker: &'a Worker<'a>,
    ops: &'a Ops,
    rows: usize,
}

impl Pass<'_> {
    /// The first TDNN layer: five taps, stride 2.
    fn first(&self, dense: &Dense, workspace: &mut Workspace) {
        for first in (0..self.rows).step_by(ROWS) {
            let count = ROWS.min(self.rows - first);
            let input = Rows::new(&workspace.input[first * 2 * WIDTH..], 2 * WIDTH, count);
            for block in 0..dense.first.blocks() {
                dense.first.multiply(self.worker, input, block, &mut workspace.sums, BLOCK, false);
                let (sums, bias) = (&workspace.sums, &dense.first_bias[block * BLOCK..]);
                let out = &mut workspace.channels[0][first * STRIDE + block * BLOCK..];
                let out = MatMut::new(out, count, BLOCK, STRIDE);
                self.ops.epilogue(&Epilogue { sums, bias, residual: None, relu: true }, out);
            }
        }
    }

    /// Batch norm and ReLU of the rows of `from`, the GEMM, and its epilogue into `out`.
    fn linear(
        &self,
        layer: &Linear,
        from: &Buffer<u16>,
        scaled: &mut Buffer<u16>,
        sums: &mut Buffer<f32>,
        out: &mut [u16],
        stride: usize,
    ) {
        // A row stride of a multiple of 64 cache lines would map rows to the same cache sets.
        let width = layer.inputs + BLOCK;
        for first in (0..self.rows).step_by(ROWS) {
            let count = ROWS.min(self.rows - first);
            let rows = MatRef::new(&from[first * STRIDE..], count, layer.inputs, STRIDE);
            let Norm { gain, shift } = &layer.norm;
            self.ops.scale_relu(rows, gain, shift, MatMut::new(scaled, count, layer.inputs, width));
            for block in 0..layer.weights.blocks() {
                layer.weights.multiply(self.worker, Rows::new(scaled, width, count), block, sums, BLOCK, false);
                let out = MatMut::new(&mut out[first * stride + block * BLOCK..], count, BLOCK, stride);
                let bias = &layer.bias[block * BLOCK..];
                self.ops.epilogue(&Epilogue { sums, bias, residual: None, relu: layer.relu }, out);
            }
        }
    }

    fn transit(&self, layer: &Linear, workspace: &mut Workspace, current: usize) {
        let Workspace { channels: [one, other], scaled, sums, .. } = workspace;
        let (from, to) = if current == 0 { (&*one, other) } else { (&*other, one) };
        self.linear(layer, from, scaled, sums, to, STRIDE);
    }

    /// A dense layer: reads the first `width` channels and appends 32.
    fn layer(
        &self,
        layer: &Layer,
        dilation: usize,
        workspace: &mut Workspace,
        pieces: usize,
        current: usize,
        width: usize,
    ) {
        let period = workspace.period();
        let Workspace { channels, bottleneck, scaled, sums, masks, mask_index, halved, pieces: capacity, .. } =
            workspace;
        let channels = &mut channels[current];
        self.linear(&layer.bottleneck, channels, scaled, sums, &mut bottleneck[GAP * BOTTLENECK..], BOTTLENECK);
        // The rows after each piece are its zero padding.
        for piece in 0..pieces {
            bottleneck[(GAP + piece * period + *halved) * BOTTLENECK..][..GAP * BOTTLENECK].fill(0);
        }
        let segments = halved.div_ceil(SEGMENT);
        debug_assert_eq!(masks.len(), (*capacity * segments + 1) * GROWTH);
        for piece in 0..pieces {
            self.context_masks(layer, bottleneck, piece * period, *halved, &mut masks[piece * segments * GROWTH..]);
        }
        for first in (0..self.rows).step_by(BLOCK) {
            let count = BLOCK.min(self.rows - first);
            for (tap, weights) in layer.local.iter().enumerate() {
                let input = &bottleneck[(GAP + first + tap * dilation - dilation) * BOTTLENECK..];
                weights.multiply(self.worker, Rows::new(input, BOTTLENECK, count), 0, sums, BLOCK, tap > 0);
            }
            let out = MatMut::new(&mut channels[first * STRIDE + width..], count, BLOCK, STRIDE);
            self.ops.mask(sums, masks.as_chunks::<BLOCK>().0, &mask_index[first..], out);
        }
    }

    /// The context-aware masks of a layer: one factor per channel for each segment of a piece.
    fn context_masks(&self, layer: &Layer, bottleneck: &Buffer<u16>, row: usize, steps: usize, masks: &mut [f32]) {
        let segments = steps.div_ceil(SEGMENT);
        let mut means = vec![[0f32; BOTTLENECK]; segments];
        let mut whole = [0f32; BOTTLENECK];
        for (segment, mean) in means.iter_mut().enumerate() {
            let count = SEGMENT.min(steps - segment * SEGMENT);
            let rows = &bottleneck[(GAP + row + segment * SEGMENT) * BOTTLENECK..];
            self.ops.column_sums(MatRef::new(rows, count, BOTTLENECK, BOTTLENECK), mean);
            for (whole, mean) in whole.iter_mut().zip(mean) {
                *whole += *mean / steps as f32;
                *mean /= count as f32;
            }
        }
        for (mean, mask) in means.iter_mut().zip(masks.as_chunks_mut::<GROWTH>().0) {
            mean.iter_mut().zip(&whole).for_each(|(mean, whole)| *mean += whole);
            let mut context = [0f32; CONTEXT];
            context.copy_from_slice(&layer.context_bias[0]);
            self.ops.gemv(&layer.context[0], mean, &mut context);
            context.iter_mut().for_each(|x| *x = x.max(0.0));
            mask.copy_from_slice(&layer.context_bias[1]);
            self.ops.gemv(&layer.context[1], &context, mask);
            mask.iter_mut().for_each(|x| *x = 1.0 / (1.0 + (-*x).exp()));
        }
    }
}
