//! The layers of the network over one block of frames.
//!
//! Activations are rows of [`BLOCK`] frames each, one row for each feature; of a convolution, feature `position * 64 + channel`.
//! Products then run over frames, which are contiguous, whatever the shape of the layer, and a feature map is
//! the input of a linear layer as it is.

use hark_compute::buffer::Buffer;
use hark_compute::vector::{LINE, Left, PackedF32, Vectors};
use hark_weights::FileError;
use hark_weights::onnx::OnnxModel;

use crate::BLOCK;

/// Units of every GRU.
pub(crate) const UNITS: usize = 256;
/// Gates of a GRU: update, reset, new.
const GATES: usize = 3 * UNITS;
/// Channels of every convolution.
pub(crate) const CHANNELS: usize = 64;
/// Numbers of one position of a feature map.
pub(crate) const MAP: usize = CHANNELS * BLOCK;
/// Rows of a panel of recurrent weights: eight AVX-512 vectors, which one step of the GEMV reads.
const PANEL: usize = 128;

/// What a position beyond the edge of a feature map holds.
static ZEROS: [f32; MAP] = [0.0; MAP];
/// A bias that makes a GEMM apply ReLU alone.
static NO_BIAS: [f32; CHANNELS] = [0.0; CHANNELS];

/// The constant that the named node reads as input `index`.
pub(crate) fn constant(model: &OnnxModel, node: &str, index: usize, shape: &[usize]) -> Result<Vec<f32>, FileError> {
    model.tensors.floats(model.node_input(node, index)?, shape)
}

/// A linear layer whose matrix is block-diagonal: each group of inputs has its own outputs.
pub(crate) struct GroupedLinear {
    groups: Vec<PackedF32>,
    inputs: usize,
    outputs: usize,
    has_relu: bool,
}

impl GroupedLinear {
    /// Reads `[groups][inputs][outputs]`.
    pub(crate) fn read(
        model: &OnnxModel,
        name: &str,
        [groups, inputs, outputs]: [usize; 3],
        has_relu: bool,
    ) -> Result<Self, FileError> {
        let weights = model.tensors.floats(name, &[groups, inputs, outputs])?;
        let rows = outputs.next_multiple_of(LINE);
        let groups = weights.chunks(inputs * outputs).map(|weights| {
            PackedF32::pack(rows, inputs, LINE, |row, k| if row < outputs { weights[k * outputs + row] } else { 0.0 })
        });
        Ok(GroupedLinear { groups: groups.collect(), inputs, outputs, has_relu })
    }

    /// Numbers that [`GroupedLinear::apply`] writes: the rows of the last group are padded to whole panels.
    pub(crate) fn output_len(&self) -> usize {
        ((self.groups.len() - 1) * self.outputs + self.outputs.next_multiple_of(LINE)) * BLOCK
    }

    pub(crate) fn apply(&self, vectors: &Vectors, input: &[f32], out: &mut [f32]) {
        let bias = self.has_relu.then_some(&NO_BIAS[..]);
        // In order: what a group's padding overwrites is written by the next.
        for (index, group) in self.groups.iter().enumerate() {
            let input = &input[index * self.inputs * BLOCK..];
            let out = &mut out[index * self.outputs * BLOCK..];
            vectors.gemm(group.columns(0, self.inputs), input, BLOCK, BLOCK, bias, out);
        }
    }
}

/// A GRU of 256 inputs and units.
pub(crate) struct Gru {
    /// `[UNITS][GATES]`.
    input: Buffer<f32>,
    input_bias: Vec<f32>,
    recurrent: PackedF32,
    recurrent_bias: Vec<f32>,
}

/// Workspace of a GRU.
pub(crate) struct GruSpace {
    /// `[BLOCK][GATES]`: products of the inputs.
    gates: Buffer<f32>,
    /// `[GATES]`: the product of the hidden state.
    sums: Vec<f32>,
}

impl GruSpace {
    pub(crate) fn new() -> Self {
        GruSpace { gates: Buffer::zeroed(BLOCK * GATES), sums: vec![0.0; GATES] }
    }
}

impl Gru {
    /// Reads the weights of the named node, whose gates are in ONNX's order: update, reset, new.
    pub(crate) fn read(model: &OnnxModel, node: &str) -> Result<Self, FileError> {
        let weights = constant(model, node, 1, &[1, GATES, UNITS])?;
        let recurrent = constant(model, node, 2, &[1, GATES, UNITS])?;
        let mut input_bias = constant(model, node, 3, &[1, 2 * GATES])?;
        let recurrent_bias = input_bias.split_off(GATES);
        let mut input = Buffer::zeroed(UNITS * GATES);
        for (gate, row) in weights.chunks(UNITS).enumerate() {
            row.iter().enumerate().for_each(|(k, weight)| input[k * GATES + gate] = *weight);
        }
        let recurrent = PackedF32::pack(GATES, UNITS, PANEL, |gate, k| recurrent[gate * UNITS + k]);
        Ok(Gru { input, input_bias, recurrent, recurrent_bias })
    }

    /// Runs `frames` steps over the columns of `input`; `hidden` goes on where the last block ended.
    pub(crate) fn run(
        &self,
        vectors: &Vectors,
        input: &[f32],
        frames: usize,
        hidden: &mut [f32; UNITS],
        out: &mut [f32],
        space: &mut GruSpace,
    ) {
        // Frames are the rows of this product, so the gates of a frame come out contiguous.
        let left = Left { data: input, panel: LINE, step: BLOCK, rows: BLOCK, depth: UNITS };
        vectors.gemm(left, &self.input, GATES, GATES, None, &mut space.gates);
        for (frame, gates) in space.gates.chunks(GATES).take(frames).enumerate() {
            space.sums.copy_from_slice(&self.recurrent_bias);
            vectors.gemv(&self.recurrent, 0, hidden, &mut space.sums);
            vectors.gru_step(gates, &self.input_bias, &space.sums, hidden);
            hidden.iter().enumerate().for_each(|(unit, value)| out[unit * BLOCK + frame] = *value);
        }
    }
}

/// How the positions of a depthwise convolution lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spacing {
    /// As many positions out as in.
    Same,
    /// Every second position.
    Down,
    /// Twice as many: a transposed convolution.
    Up,
}

/// A depthwise convolution of three taps over positions, a 1×1 convolution over channels, and ReLU.
pub(crate) struct Separable {
    /// `[CHANNELS][3]`.
    depthwise: Vec<f32>,
    pointwise: PackedF32,
    bias: Vec<f32>,
    spacing: Spacing,
}

impl Separable {
    /// Reads the weights of the depthwise and of the 1×1 node.
    pub(crate) fn read(
        model: &OnnxModel,
        [depthwise, pointwise]: [&str; 2],
        spacing: Spacing,
    ) -> Result<Self, FileError> {
        let weights = constant(model, pointwise, 1, &[CHANNELS, CHANNELS, 1, 1])?;
        Ok(Separable {
            depthwise: constant(model, depthwise, 1, &[CHANNELS, 1, 1, 3])?,
            pointwise: PackedF32::pack(CHANNELS, CHANNELS, LINE, |row, k| weights[row * CHANNELS + k]),
            bias: constant(model, pointwise, 2, &[CHANNELS])?,
            spacing,
        })
    }

    /// The output at one position, `out[CHANNELS][BLOCK]`.
    pub(crate) fn apply(&self, vectors: &Vectors, input: &[f32], position: usize, out: &mut [f32]) {
        let at = |position: Option<usize>| {
            position.and_then(|position| input.get(position * MAP..(position + 1) * MAP)).unwrap_or(&ZEROS)
        };
        let mut mixed = [0f32; MAP];
        match self.spacing {
            Spacing::Same | Spacing::Down => {
                let middle = if self.spacing == Spacing::Down { 2 * position } else { position };
                let inputs = [at(middle.checked_sub(1)), at(Some(middle)), at(Some(middle + 1))];
                self.mix(inputs, [0, 1, 2], &mut mixed);
            }
            // Even positions see tap 1 of one input, odd ones taps 2 and 0 of the two around them.
            Spacing::Up if position.is_multiple_of(2) => {
                self.mix([at(Some(position / 2)), &ZEROS, &ZEROS], [1, 0, 0], &mut mixed);
            }
            Spacing::Up => {
                self.mix([at(Some(position / 2)), at(Some(position / 2 + 1)), &ZEROS], [2, 0, 1], &mut mixed);
            }
        }
        vectors.gemm(self.pointwise.columns(0, CHANNELS), &mixed, BLOCK, BLOCK, Some(&self.bias), out);
    }

    /// `out[channel] = Σ inputs[i][channel] · depthwise[channel][taps[i]]`
    fn mix(&self, [a, b, c]: [&[f32]; 3], taps: [usize; 3], out: &mut [f32; MAP]) {
        for (channel, out) in out.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
            let [x, y, z] = taps.map(|tap| self.depthwise[channel * 3 + tap]);
            let row = |map: &'_ [f32]| -> [f32; BLOCK] {
                *map[channel * BLOCK..][..BLOCK].as_array().expect("a row of a map")
            };
            let (a, b, c) = (row(a), row(b), row(c));
            for frame in 0..BLOCK {
                out[frame] = x * a[frame] + y * b[frame] + z * c[frame];
            }
        }
    }
}

/// A skip connection: scale, bias and ReLU of each channel, added to what is there.
pub(crate) struct Skip {
    scale: Vec<f32>,
    bias: Vec<f32>,
}

impl Skip {
    pub(crate) fn read(model: &OnnxModel, node: &str) -> Result<Self, FileError> {
        let scale = constant(model, node, 1, &[CHANNELS, 1, 1, 1])?;
        Ok(Skip { scale, bias: constant(model, node, 2, &[CHANNELS])? })
    }

    /// Adds it to a whole feature map.
    pub(crate) fn add(&self, input: &[f32], out: &mut [f32]) {
        for (row, (out, input)) in out.chunks_mut(BLOCK).zip(input.chunks(BLOCK)).enumerate() {
            let (scale, bias) = (self.scale[row % CHANNELS], self.bias[row % CHANNELS]);
            out.iter_mut().zip(input).for_each(|(out, x)| *out += (scale * x + bias).max(0.0));
        }
    }
}
