//! The front of the network: convolutions of 3 × 3 over frequency and time, 80 lines of frequency becoming 10.
//!
//! A plane holds 32 channels for each place, time running fastest, with a border of zeros. One tap is then one tile of
//! 32 numbers and three neighbours in time are three tiles in a row: a convolution is three products, one for each
//! line of frequency that it sees. A piece of 1.5 s costs 0.36 G multiply-adds.

use hark_compute::Worker;
use hark_compute::buffer::Buffer;
use hark_compute::gemm::PackedBf16;
use hark_compute::kernels::BLOCK;
use hark_compute::kernels::math::to_bf16;
use hark_compute::linear::Rows;
use hark_compute::ops::Epilogue;
use hark_compute::view::{MatMut, MatRef};

use super::weights::{Norm, PLANES, Tensors, folded};
use crate::fbank::BINS;

/// Lines of frequency that go out.
pub(super) const LINES: usize = BINS / 8;
/// Numbers of a step that goes out: line by line the channels.
pub(super) const WIDTH: usize = LINES * PLANES;
/// Numbers of a place of the input: the line below, the line itself, the line above, and a zero.
const PLACE: usize = 4;
/// Places beyond the last that a product may read.
const BEYOND: usize = 2 * BLOCK;

/// The packed front.
pub(super) struct Head {
    first: PackedBf16,
    first_bias: Vec<f32>,
    blocks: [ResidualBlock; 4],
    last: Convolution,
}

/// A convolution of 3 × 3.
struct Convolution {
    /// One for each line of frequency that is seen: `[channel out][3 steps × 32 channels]`.
    lines: [PackedBf16; 3],
    bias: Vec<f32>,
}

/// Two convolutions and a shortcut around them.
struct ResidualBlock {
    /// Lines from one output to the next.
    stride: usize,
    first: Convolution,
    second: Convolution,
    /// Where the shortcut is a layer itself; its shift is in the second convolution's bias.
    shortcut: Option<PackedBf16>,
}

/// 32 channels for each place of some lines, with a border of zeros all around.
struct Plane {
    data: Buffer<u16>,
}

/// Where one thread works on one piece.
pub(super) struct Workspace {
    steps: usize,
    input: Buffer<u16>,
    /// Planes of 80, three of 40, three of 20 lines: borders are never written, so they stay zero.
    planes: [Plane; 7],
}

impl Workspace {
    /// Workspace for pieces of `steps` frames.
    pub(super) fn new(steps: usize) -> Self {
        let plane = |lines| Plane { data: Buffer::zeroed(((lines + 2) * (steps + 2) + BEYOND) * PLANES) };
        Workspace {
            steps,
            input: Buffer::zeroed((BINS * (steps + 2) + BEYOND) * PLACE),
            planes: [BINS, BINS / 2, BINS / 2, BINS / 2, BINS / 4, BINS / 4, BINS / 4].map(plane),
        }
    }

    pub(super) fn steps(&self) -> usize {
        self.steps
    }
}

/// Where a place lies in a plane; line and step may be one beyond, into the border.
fn place(steps: usize, line: usize, step: usize) -> usize {
    (line * (steps + 2) + step) * PLANES
}

#[repr(C, align(64))]
struct Sums([f32; BLOCK * BLOCK]);

impl Head {
    pub(super) fn pack(tensors: &Tensors) -> Result<Self, String> {
        let norm = Norm::read(tensors, "head.bn1", PLANES)?;
        let first = folded(tensors, "head.conv1", &[PLANES, 1, 3, 3], &norm)?;
        Ok(Head {
            // `[line][step]` in the file, `[step][line]` in memory.
            first: PackedBf16::pack(PLANES, 3 * PLACE, |output, input| match (input % PLACE, input / PLACE) {
                (3, _) => 0.0,
                (line, step) => first[output * 9 + line * 3 + step],
            }),
            first_bias: norm.shift,
            blocks: [
                ResidualBlock::pack(tensors, "head.layer1.0", 2)?,
                ResidualBlock::pack(tensors, "head.layer1.1", 1)?,
                ResidualBlock::pack(tensors, "head.layer2.0", 2)?,
                ResidualBlock::pack(tensors, "head.layer2.1", 1)?,
            ],
            last: Convolution::pack(tensors, "head.conv2", "head.bn2")?,
        })
    }

    /// Runs one piece: `features` has [`BINS`] numbers a frame without their mean; `out` gets [`WIDTH`] numbers a frame.
    pub(super) fn run(&self, worker: &Worker, workspace: &mut Workspace, features: &[[f32; BINS]], out: &mut [u16]) {
        let steps = workspace.steps;
        assert_eq!(features.len(), steps, "a piece of the workspace's length");
        workspace.take_in(features);
        let pass = Pass { worker, steps };
        let [whole, half, half_inside, half_out, quarter, quarter_inside, quarter_out] = &mut workspace.planes;
        pass.first(&self.first, &self.first_bias, &workspace.input, whole);
        let [first, second, third, fourth] = &self.blocks;
        pass.residual(first, whole, half_inside, half, BINS / 2);
        pass.residual(second, half, half_inside, half_out, BINS / 2);
        pass.residual(third, half_out, quarter_inside, quarter, BINS / 4);
        pass.residual(fourth, quarter, quarter_inside, quarter_out, BINS / 4);
        let target = Target { data: out, line: PLANES, step: WIDTH };
        pass.convolve(&self.last, quarter_out, 2, None, LINES, target);
    }
}

impl Workspace {
    fn take_in(&mut self, features: &[[f32; BINS]]) {
        let width = self.steps + 2;
        for (step, frame) in features.iter().enumerate() {
            for line in 0..BINS {
                let at = (line * width + step + 1) * PLACE;
                let near = |line: usize| frame.get(line).map_or(0, |x| to_bf16(*x));
                self.input[at..at + 3].copy_from_slice(&[near(line.wrapping_sub(1)), near(line), near(line + 1)]);
            }
        }
    }
}

impl Convolution {
    fn pack(tensors: &Tensors, name: &str, norm: &str) -> Result<Self, String> {
        let norm = Norm::read(tensors, norm, PLANES)?;
        let weights = folded(tensors, name, &[PLANES, PLANES, 3, 3], &norm)?;
        let of_line = |line: usize| {
            PackedBf16::pack(PLANES, 3 * PLANES, |output, input| {
                let (step, channel) = (input / PLANES, input % PLANES);
                weights[((output * PLANES + channel) * 3 + line) * 3 + step]
            })
        };
        Ok(Convolution { lines: [of_line(0), of_line(1), of_line(2)], bias: norm.shift })
    }
}

impl ResidualBlock {
    fn pack(tensors: &Tensors, name: &str, stride: usize) -> Result<Self, String> {
        let part = |part: &str| format!("{name}.{part}");
        let first = Convolution::pack(tensors, &part("conv1"), &part("bn1"))?;
        let mut second = Convolution::pack(tensors, &part("conv2"), &part("bn2"))?;
        let shortcut = if stride == 1 {
            None
        } else {
            let norm = Norm::read(tensors, &part("shortcut.1"), PLANES)?;
            let weights = folded(tensors, &part("shortcut.0"), &[PLANES, PLANES, 1, 1], &norm)?;
            second.bias.iter_mut().zip(&norm.shift).for_each(|(bias, shift)| *bias += shift);
            Some(PackedBf16::pack(PLANES, PLANES, |output, input| weights[output * PLANES + input]))
        };
        Ok(ResidualBlock { stride, first, second, shortcut })
    }
}

/// What is added to a convolution's sums.
struct Shortcut<'a> {
    from: &'a Plane,
    stride: usize,
    layer: Option<&'a PackedBf16>,
}

/// Where finished lines go.
struct Target<'a> {
    /// From the first line's first step on.
    data: &'a mut [u16],
    /// Numbers from one line to the next, and from one step to the next.
    line: usize,
    step: usize,
}

impl<'a> Target<'a> {
    fn plane(plane: &'a mut Plane, steps: usize) -> Self {
        Target { data: &mut plane.data[place(steps, 1, 1)..], line: (steps + 2) * PLANES, step: PLANES }
    }
}

/// One piece on its way through the layers.
struct Pass<'a> {
    worker: &'a Worker<'a>,
    steps: usize,
}

impl Pass<'_> {
    /// The first convolution, from one channel to 32.
    fn first(&self, weights: &PackedBf16, bias: &[f32], input: &Buffer<u16>, out: &mut Plane) {
        let width = self.steps + 2;
        let mut target = Target::plane(out, self.steps);
        let mut sums = Sums([0.0; BLOCK * BLOCK]);
        for line in 0..BINS {
            for step in (0..self.steps).step_by(BLOCK) {
                let rows = BLOCK.min(self.steps - step);
                // The neighbour before a step stands where the step's own number would without a border.
                let input = Rows::new(&input[(line * width + step) * PLACE..], PLACE, rows);
                weights.multiply(self.worker, input, 0, &mut sums.0, BLOCK, false);
                self.store(&sums.0, rows, bias, None, &mut target, line, step);
            }
        }
    }

    /// Two convolutions and the shortcut around them.
    fn residual(&self, block: &ResidualBlock, from: &Plane, inside: &mut Plane, to: &mut Plane, lines: usize) {
        let shortcut = Shortcut { from, stride: block.stride, layer: block.shortcut.as_ref() };
        self.convolve(&block.first, from, block.stride, None, lines, Target::plane(inside, self.steps));
        self.convolve(&block.second, inside, 1, Some(shortcut), lines, Target::plane(to, self.steps));
    }

    /// A convolution over `lines` output lines, `stride` input lines apart.
    fn convolve(
        &self,
        layer: &Convolution,
        from: &Plane,
        stride: usize,
        shortcut: Option<Shortcut>,
        lines: usize,
        mut target: Target,
    ) {
        let mut sums = Sums([0.0; BLOCK * BLOCK]);
        for line in 0..lines {
            for first in (0..self.steps).step_by(BLOCK) {
                let rows = BLOCK.min(self.steps - first);
                for (near, weights) in layer.lines.iter().enumerate() {
                    let input = &from.data[place(self.steps, line * stride + near, first)..];
                    weights.multiply(self.worker, Rows::new(input, PLANES, rows), 0, &mut sums.0, BLOCK, near > 0);
                }
                let mut residual = None;
                if let Some(shortcut) = &shortcut {
                    let at = place(self.steps, line * shortcut.stride + 1, first + 1);
                    let input = &shortcut.from.data[at..];
                    match shortcut.layer {
                        Some(weights) => {
                            let input = Rows::new(input, PLANES, rows);
                            weights.multiply(self.worker, input, 0, &mut sums.0, BLOCK, true);
                        }
                        None => residual = Some(MatRef::new(input, rows, PLANES, PLANES)),
                    }
                }
                self.store(&sums.0, rows, &layer.bias, residual, &mut target, line, first);
            }
        }
    }

    /// Bias, residual, ReLU.
    fn store(
        &self,
        sums: &[f32],
        rows: usize,
        bias: &[f32],
        residual: Option<MatRef<u16>>,
        target: &mut Target,
        line: usize,
        first: usize,
    ) {
        let data = &mut target.data[line * target.line + first * target.step..];
        let out = MatMut::new(data, rows, PLANES, target.step);
        self.worker.compute().ops.epilogue(&Epilogue { sums, bias, residual, relu: true }, out);
    }
}
