//! The layers over time: 52 dense layers in three blocks, each adding 32 channels, and the statistics at the end.
//!
//! The weights have 14 MB, so several pieces run together: every weight is read once for all of them. The steps of the
//! pieces stand one below the other with two empty steps between, which serve as the zeros around each piece; a layer
//! is then one product over all rows. A piece of 1.5 s costs 0.45 G multiply-adds.

use hark_compute::Worker;
use hark_compute::buffer::Buffer;
use hark_compute::gemm::PackedBf16;
use hark_compute::kernels::BLOCK;
use hark_compute::linear::Rows;
use hark_compute::ops::{Epilogue, Ops};
use hark_compute::view::{MatMut, MatRef};

use super::EMBEDDING_WIDTH;
use super::head::{LINES, WIDTH};
use super::weights::{
    BLOCKS, CONTEXT, FIRST, FIRST_TAPS, GROWTH, INSIDE, LAST, Norm, PLANES, SEGMENT, Tensors, folded,
};

/// Empty steps between pieces, as far as the widest layer sees.
const GAP: usize = 2;
/// Rows that go through a layer at once: what is made of them stays in the second-level cache.
const ROWS: usize = 6 * BLOCK;
/// The widest layer, and 32 more so that rows do not fall on the same few cache sets.
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
    /// Steps between the taps of its layers.
    dilation: usize,
    layers: Vec<Layer>,
    transit: Linear,
}

struct Layer {
    inside: Linear,
    /// One for each of the three taps.
    local: [PackedBf16; 3],
    /// `[INSIDE][CONTEXT]` and `[CONTEXT][GROWTH]`.
    context: [Vec<f32>; 2],
    context_bias: [Vec<f32>; 2],
}

/// A product of rows that go through a norm and ReLU first.
struct Linear {
    norm: Norm,
    weights: PackedBf16,
    bias: Vec<f32>,
    /// Whether the result goes through ReLU as well.
    relu: bool,
    inputs: usize,
}

/// Where one thread works on a group of pieces.
pub(super) struct Workspace {
    /// Steps of a piece before and after the first layer.
    steps: usize,
    halved: usize,
    pieces: usize,
    /// What the head puts out, `[row][WIDTH]`, two rows of zeros first.
    input: Buffer<u16>,
    /// The growing channels, by turns.
    channels: [Buffer<u16>; 2],
    /// What is inside a layer, two rows of zeros first.
    inside: Buffer<u16>,
    scaled: Buffer<u16>,
    sums: Buffer<f32>,
    /// For each row the mask that applies; the last mask is zero.
    which: Vec<u32>,
    masks: Buffer<f32>,
}

impl Workspace {
    /// A workspace for up to `pieces` of `steps` frames each.
    pub(super) fn new(steps: usize, pieces: usize) -> Self {
        let halved = steps.div_ceil(2);
        let rows = pieces * (halved + GAP);
        let padded = rows.next_multiple_of(BLOCK) + BLOCK;
        let segments = halved.div_ceil(SEGMENT);
        let which = (0..padded)
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
            inside: Buffer::zeroed((padded + 2 * GAP) * INSIDE),
            scaled: Buffer::zeroed(ROWS * STRIDE),
            sums: Buffer::zeroed(ROWS * BLOCK),
            which,
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

    /// Where the head's output of a piece goes.
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
        let norm = Norm::read_plain(tensors, "xvector.dense.nonlinear.batchnorm", EMBEDDING_WIDTH)?;
        let last = folded(tensors, "xvector.dense.linear", &[EMBEDDING_WIDTH, 2 * LAST, 1], &norm)?;
        Ok(Dense {
            first: PackedBf16::pack(FIRST, FIRST_TAPS * WIDTH, |output, input| {
                // The file's channels are `[channel][line]`, the head's output `[line][channel]`.
                let (tap, line, channel) = (input / WIDTH, input % WIDTH / PLANES, input % PLANES);
                first[(output * WIDTH + channel * LINES + line) * FIRST_TAPS + tap]
            }),
            first_bias,
            blocks,
            out: Norm::read(tensors, "xvector.out_nonlinear.batchnorm", LAST)?,
            last: transposed(&last, EMBEDDING_WIDTH, 2 * LAST),
            last_bias: norm.shift,
        })
    }

    /// Runs `pieces` pieces whose head has been put in the workspace; one vector each, not yet of length 1.
    pub(super) fn run(&self, worker: &Worker, workspace: &mut Workspace, pieces: usize) -> Vec<[f32; EMBEDDING_WIDTH]> {
        assert!(pieces <= workspace.pieces, "room for the pieces");
        let ops = worker.compute().ops;
        let pass = Pass { worker, ops, rows: pieces * workspace.period() };
        pass.first(self, workspace);
        let mut now = 0;
        for block in &self.blocks {
            let mut width = block.layers[0].inside.inputs;
            for layer in &block.layers {
                pass.layer(layer, block.dilation, workspace, pieces, now, width);
                width += GROWTH;
            }
            pass.transit(&block.transit, workspace, now);
            now = 1 - now;
        }
        (0..pieces).map(|piece| self.pool(ops, workspace, piece, now)).collect()
    }

    /// Mean and deviation of each channel over a piece, and the last layer.
    fn pool(&self, ops: &Ops, workspace: &Workspace, piece: usize, now: usize) -> [f32; EMBEDDING_WIDTH] {
        let (mut sums, mut squares) = ([0f32; LAST], [0f32; LAST]);
        let rows = &workspace.channels[now][piece * workspace.period() * STRIDE..];
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
        let norm = Norm::read(tensors, &part("nonlinear2.batchnorm"), INSIDE)?;
        let inside = folded(tensors, &part("linear1"), &[INSIDE, inputs, 1], &norm)?;
        let local = tensors.get(&part("cam_layer.linear_local.weight"), &[GROWTH, INSIDE, 3])?;
        let tap =
            |tap: usize| PackedBf16::pack(GROWTH, INSIDE, |output, input| local[(output * INSIDE + input) * 3 + tap]);
        let one = tensors.get(&part("cam_layer.linear1.weight"), &[CONTEXT, INSIDE, 1])?;
        let two = tensors.get(&part("cam_layer.linear2.weight"), &[GROWTH, CONTEXT, 1])?;
        Ok(Layer {
            inside: Linear {
                norm: Norm::read(tensors, &part("nonlinear1.batchnorm"), inputs)?,
                weights: PackedBf16::pack(INSIDE, inputs, |output, input| inside[output * inputs + input]),
                bias: norm.shift,
                relu: true,
                inputs,
            },
            local: [tap(0), tap(1), tap(2)],
            context: [transposed(one, CONTEXT, INSIDE), transposed(two, GROWTH, CONTEXT)],
            context_bias: [
                tensors.get(&part("cam_layer.linear1.bias"), &[CONTEXT])?.to_vec(),
                tensors.get(&part("cam_layer.linear2.bias"), &[GROWTH])?.to_vec(),
            ],
        })
    }
}

/// All rows on their way through the layers.
struct Pass<'a> {
    worker: &'a Worker<'a>,
    ops: &'a Ops,
    rows: usize,
}

impl Pass<'_> {
    /// Five taps over the head's steps, every second of them.
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

    /// Norm and ReLU of the rows of `from`, the product, and its epilogue into `out`.
    fn linear(
        &self,
        layer: &Linear,
        from: &Buffer<u16>,
        scaled: &mut Buffer<u16>,
        sums: &mut Buffer<f32>,
        out: &mut [u16],
        stride: usize,
    ) {
        // Rows of a multiple of 64 lines would fall on the same cache sets.
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

    fn transit(&self, layer: &Linear, workspace: &mut Workspace, now: usize) {
        let Workspace { channels: [one, other], scaled, sums, .. } = workspace;
        let (from, to) = if now == 0 { (&*one, other) } else { (&*other, one) };
        self.linear(layer, from, scaled, sums, to, STRIDE);
    }

    /// A dense layer: it reads the first `width` channels and writes the 32 behind them.
    fn layer(
        &self,
        layer: &Layer,
        dilation: usize,
        workspace: &mut Workspace,
        pieces: usize,
        now: usize,
        width: usize,
    ) {
        let period = workspace.period();
        let Workspace { channels, inside, scaled, sums, masks, which, halved, pieces: most, .. } = workspace;
        let channels = &mut channels[now];
        self.linear(&layer.inside, channels, scaled, sums, &mut inside[GAP * INSIDE..], INSIDE);
        // The empty steps behind each piece are the zeros around it.
        for piece in 0..pieces {
            inside[(GAP + piece * period + *halved) * INSIDE..][..GAP * INSIDE].fill(0);
        }
        let segments = halved.div_ceil(SEGMENT);
        debug_assert_eq!(masks.len(), (*most * segments + 1) * GROWTH);
        for piece in 0..pieces {
            self.masks_of(layer, inside, piece * period, *halved, &mut masks[piece * segments * GROWTH..]);
        }
        for first in (0..self.rows).step_by(BLOCK) {
            let count = BLOCK.min(self.rows - first);
            for (tap, weights) in layer.local.iter().enumerate() {
                let input = &inside[(GAP + first + tap * dilation - dilation) * INSIDE..];
                weights.multiply(self.worker, Rows::new(input, INSIDE, count), 0, sums, BLOCK, tap > 0);
            }
            let out = MatMut::new(&mut channels[first * STRIDE + width..], count, BLOCK, STRIDE);
            self.ops.mask(sums, masks.as_chunks::<BLOCK>().0, &which[first..], out);
        }
    }

    /// What a layer lets through of each channel, for each segment of a piece.
    fn masks_of(&self, layer: &Layer, inside: &Buffer<u16>, row: usize, steps: usize, masks: &mut [f32]) {
        let segments = steps.div_ceil(SEGMENT);
        let mut means = vec![[0f32; INSIDE]; segments];
        let mut whole = [0f32; INSIDE];
        for (segment, mean) in means.iter_mut().enumerate() {
            let count = SEGMENT.min(steps - segment * SEGMENT);
            let rows = &inside[(GAP + row + segment * SEGMENT) * INSIDE..];
            self.ops.column_sums(MatRef::new(rows, count, INSIDE, INSIDE), mean);
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
