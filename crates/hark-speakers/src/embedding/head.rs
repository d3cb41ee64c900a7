//! The convolutional head: 3 × 3 residual convolutions over frequency and time, from 80 frequency bins to 10.
//!
//! A plane has 32 channels at each position, `[bin][step][channel]`, with a border of zero padding. Three neighbours in
//! time are then contiguous: a convolution is three GEMMs, one for each frequency bin of its kernel. A piece of 1.5 s
//! costs 0.36 G multiply-adds.

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

/// Frequency bins of the output.
pub(super) const OUT_BINS: usize = BINS / 8;
/// Columns of an output step: `[bin][channel]`.
pub(super) const WIDTH: usize = OUT_BINS * PLANES;
/// Elements of an input position: the bin below, the bin, the bin above, and a zero.
const POSITION: usize = 4;
/// Positions beyond the last that a GEMM may read.
const READ_PADDING: usize = 2 * BLOCK;

/// The head with packed weights.
pub(super) struct Head {
    first: PackedBf16,
    first_bias: Vec<f32>,
    blocks: [ResidualBlock; 4],
    last: Convolution,
}

/// A convolution of 3 × 3.
struct Convolution {
    /// One matrix for each frequency bin of the kernel: `[output channel][3 steps × 32 channels]`.
    bins: [PackedBf16; 3],
    bias: Vec<f32>,
}

/// Two convolutions and a shortcut around them.
struct ResidualBlock {
    /// Stride over frequency.
    stride: usize,
    first: Convolution,
    second: Convolution,
    /// The projection of the shortcut, if it has one; its shift is folded into the second convolution's bias.
    shortcut: Option<PackedBf16>,
}

/// 32 channels at each position, with a border of zero padding.
struct Plane {
    data: Buffer<u16>,
}

/// The buffers of one thread for one piece.
pub(super) struct Workspace {
    steps: usize,
    input: Buffer<u16>,
    /// Planes of 80, three of 40, three of 20 bins: borders are never written, so they stay zero.
    planes: [Plane; 7],
}

impl Workspace {
    /// Workspace for pieces of `steps` frames.
    pub(super) fn new(steps: usize) -> Self {
        let plane = |bins| Plane { data: Buffer::zeroed(((bins + 2) * (steps + 2) + READ_PADDING) * PLANES) };
        Workspace {
            steps,
            input: Buffer::zeroed((BINS * (steps + 2) + READ_PADDING) * POSITION),
            planes: [BINS, BINS / 2, BINS / 2, BINS / 2, BINS / 4, BINS / 4, BINS / 4].map(plane),
        }
    }

    pub(super) fn steps(&self) -> usize {
        self.steps
    }
}

/// The offset of a position in a plane; bin and step may be one beyond, in the border.
fn offset(steps: usize, bin: usize, step: usize) -> usize {
    (bin * (steps + 2) + step) * PLANES
}

#[repr(C, align(64))]
struct Sums([f32; BLOCK * BLOCK]);

impl Head {
    pub(super) fn pack(tensors: &Tensors) -> Result<Self, String> {
        let norm = Norm::read(tensors, "head.bn1", PLANES)?;
        let first = folded(tensors, "head.conv1", &[PLANES, 1, 3, 3], &norm)?;
        Ok(Head {
            // `[bin][step]` in the file, `[step][bin]` in memory.
            first: PackedBf16::pack(PLANES, 3 * POSITION, |output, input| match (input % POSITION, input / POSITION) {
                (3, _) => 0.0,
                (bin, step) => first[output * 9 + bin * 3 + step],
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

    /// Runs one piece: `features` has [`BINS`] mean-subtracted values per frame; `out` gets [`WIDTH`] values per frame.
    pub(super) fn run(&self, worker: &Worker, workspace: &mut Workspace, features: &[[f32; BINS]], out: &mut [u16]) {
        let steps = workspace.steps;
        assert_eq!(features.len(), steps, "a piece of the workspace's length");
        workspace.load_features(features);
        let pass = Pass { worker, steps };
        let [whole, half, half_middle, half_out, quarter, quarter_middle, quarter_out] = &mut workspace.planes;
        pass.first(&self.first, &self.first_bias, &workspace.input, whole);
        let [first, second, third, fourth] = &self.blocks;
        pass.residual(first, whole, half_middle, half, BINS / 2);
        pass.residual(second, half, half_middle, half_out, BINS / 2);
        pass.residual(third, half_out, quarter_middle, quarter, BINS / 4);
        pass.residual(fourth, quarter, quarter_middle, quarter_out, BINS / 4);
        let target = Target { data: out, bin: PLANES, step: WIDTH };
        pass.convolve(&self.last, quarter_out, 2, None, OUT_BINS, target);
    }
}

impl Workspace {
    fn load_features(&mut self, features: &[[f32; BINS]]) {
        let width = self.steps + 2;
        for (step, frame) in features.iter().enumerate() {
            for bin in 0..BINS {
                let at = (bin * width + step + 1) * POSITION;
                let tap = |bin: usize| frame.get(bin).map_or(0, |x| to_bf16(*x));
                self.input[at..at + 3].copy_from_slice(&[tap(bin.wrapping_sub(1)), tap(bin), tap(bin + 1)]);
            }
        }
    }
}

impl Convolution {
    fn pack(tensors: &Tensors, name: &str, norm: &str) -> Result<Self, String> {
        let norm = Norm::read(tensors, norm, PLANES)?;
        let weights = folded(tensors, name, &[PLANES, PLANES, 3, 3], &norm)?;
        let of_bin = |bin: usize| {
            PackedBf16::pack(PLANES, 3 * PLANES, |output, input| {
                let (step, channel) = (input / PLANES, input % PLANES);
                weights[((output * PLANES + channel) * 3 + bin) * 3 + step]
            })
        };
        Ok(Convolution { bins: [of_bin(0), of_bin(1), of_bin(2)], bias: norm.shift })
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

/// The shortcut that is added to a convolution's output.
struct Shortcut<'a> {
    from: &'a Plane,
    stride: usize,
    layer: Option<&'a PackedBf16>,
}

/// The output of a convolution.
struct Target<'a> {
    /// Starts at the first bin's first step.
    data: &'a mut [u16],
    /// Elements from one bin to the next, and from one step to the next.
    bin: usize,
    step: usize,
}

impl<'a> Target<'a> {
    fn plane(plane: &'a mut Plane, steps: usize) -> Self {
        Target { data: &mut plane.data[offset(steps, 1, 1)..], bin: (steps + 2) * PLANES, step: PLANES }
    }
}

/// One piece's pass through the layers.
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
        for bin in 0..BINS {
            for step in (0..self.steps).step_by(BLOCK) {
                let rows = BLOCK.min(self.steps - step);
                // With the border, the left neighbour of a step is at the step's own index.
                let input = Rows::new(&input[(bin * width + step) * POSITION..], POSITION, rows);
                weights.multiply(self.worker, input, 0, &mut sums.0, BLOCK, false);
                self.store(&sums.0, rows, bias, None, &mut target, bin, step);
            }
        }
    }

    /// Two convolutions and the shortcut around them.
    fn residual(&self, block: &ResidualBlock, from: &Plane, middle: &mut Plane, to: &mut Plane, bins: usize) {
        let shortcut = Shortcut { from, stride: block.stride, layer: block.shortcut.as_ref() };
        self.convolve(&block.first, from, block.stride, None, bins, Target::plane(middle, self.steps));
        self.convolve(&block.second, middle, 1, Some(shortcut), bins, Target::plane(to, self.steps));
    }

    /// A convolution with `bins` output bins and this stride over frequency.
    fn convolve(
        &self,
        layer: &Convolution,
        from: &Plane,
        stride: usize,
        shortcut: Option<Shortcut>,
        bins: usize,
        mut target: Target,
    ) {
        let mut sums = Sums([0.0; BLOCK * BLOCK]);
        for bin in 0..bins {
            for first in (0..self.steps).step_by(BLOCK) {
                let rows = BLOCK.min(self.steps - first);
                for (tap, weights) in layer.bins.iter().enumerate() {
                    let input = &from.data[offset(self.steps, bin * stride + tap, first)..];
                    weights.multiply(self.worker, Rows::new(input, PLANES, rows), 0, &mut sums.0, BLOCK, tap > 0);
                }
                let mut residual = None;
                if let Some(shortcut) = &shortcut {
                    let at = offset(self.steps, bin * shortcut.stride + 1, first + 1);
                    let input = &shortcut.from.data[at..];
                    match shortcut.layer {
                        Some(weights) => {
                            let input = Rows::new(input, PLANES, rows);
                            weights.multiply(self.worker, input, 0, &mut sums.0, BLOCK, true);
                        }
                        None => residual = Some(MatRef::new(input, rows, PLANES, PLANES)),
                    }
                }
                self.store(&sums.0, rows, &layer.bias, residual, &mut target, bin, first);
            }
        }
    }

    /// The epilogue: bias, residual, ReLU.
    fn store(
        &self,
        sums: &[f32],
        rows: usize,
        bias: &[f32],
        residual: Option<MatRef<u16>>,
        target: &mut Target,
        bin: usize,
        first: usize,
    ) {
        let data = &mut target.data[bin * target.bin + first * target.step..];
        let out = MatMut::new(data, rows, PLANES, target.step);
        self.worker.compute().ops().epilogue(&Epilogue { sums, bias, residual, relu: true }, out);
    }
}
