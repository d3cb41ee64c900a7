//! The front of the network: convolutions of 3 × 3 over frequency and time, 80 lines of frequency becoming 10.
//!
//! A plane holds 32 channels for each place, time running fastest, with a border of zeros. One tap is then one tile of
//! 32 numbers and three neighbours in time are three tiles in a row: a convolution is three products, one for each
//! line of frequency that it sees. A piece of 1.5 s costs 0.36 G multiply-adds.

use hark_compute::Compute;
use hark_compute::buffer::Buffer;
use hark_compute::kernels::BLOCK;
use hark_compute::kernels::math::to_bf16;

use super::weights::{Norm, PLANES, Tensors, folded};
use crate::fbank::BINS;
use crate::lanes::{Finish, Lanes};
use crate::panels::Panels;

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
    first: Panels,
    first_bias: Vec<f32>,
    blocks: [Residual; 4],
    last: Convolution,
}

/// A convolution of 3 × 3.
struct Convolution {
    /// One for each line of frequency that is seen: `[channel out][3 steps × 32 channels]`.
    lines: [Panels; 3],
    bias: Vec<f32>,
}

/// Two convolutions and a way around them.
struct Residual {
    /// Lines from one output to the next.
    step: usize,
    one: Convolution,
    two: Convolution,
    /// Where the way around is a layer itself; its shift is in `two`'s bias.
    around: Option<Panels>,
}

/// 32 channels for each place of some lines, with a border of zeros all around.
struct Plane {
    data: Buffer<u16>,
}

/// Where one thread works on one piece.
pub(super) struct Room {
    steps: usize,
    input: Buffer<u16>,
    /// Planes of 80, three of 40, three of 20 lines: borders are never written, so they stay zero.
    planes: [Plane; 7],
}

impl Room {
    /// Room for pieces of `steps` frames.
    pub(super) fn new(steps: usize) -> Self {
        let plane = |lines| Plane { data: Buffer::zeroed(((lines + 2) * (steps + 2) + BEYOND) * PLANES) };
        Room {
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
            first: Panels::pack(PLANES, 3 * PLACE, |output, input| match (input % PLACE, input / PLACE) {
                (3, _) => 0.0,
                (line, step) => first[output * 9 + line * 3 + step],
            }),
            first_bias: norm.shift,
            blocks: [
                Residual::pack(tensors, "head.layer1.0", 2)?,
                Residual::pack(tensors, "head.layer1.1", 1)?,
                Residual::pack(tensors, "head.layer2.0", 2)?,
                Residual::pack(tensors, "head.layer2.1", 1)?,
            ],
            last: Convolution::pack(tensors, "head.conv2", "head.bn2")?,
        })
    }

    /// Runs one piece: `features` has [`BINS`] numbers a frame without their mean; `out` gets [`WIDTH`] numbers a frame.
    ///
    /// # Safety
    /// `out` must reach that far, and nobody else writes there. The calling thread is prepared.
    pub(super) unsafe fn run(
        &self,
        compute: &Compute,
        lanes: &Lanes,
        room: &mut Room,
        features: &[[f32; BINS]],
        out: *mut u16,
    ) {
        let steps = room.steps;
        assert_eq!(features.len(), steps, "a piece of the room's length");
        room.take_in(features);
        let work = Work { compute, lanes, steps };
        let [whole, half, half_inside, half_out, quarter, quarter_inside, quarter_out] = &mut room.planes;
        // SAFETY: the planes have been made for these lines and steps; the caller vouches for `out`.
        unsafe {
            work.first(&self.first, &self.first_bias, &room.input, whole);
            let [first, second, third, fourth] = &self.blocks;
            work.residual(first, whole, half_inside, half, BINS / 2);
            work.residual(second, half, half_inside, half_out, BINS / 2);
            work.residual(third, half_out, quarter_inside, quarter, BINS / 4);
            work.residual(fourth, quarter, quarter_inside, quarter_out, BINS / 4);
            let target = Target { start: out, line: PLANES, step: WIDTH };
            work.convolve(&self.last, quarter_out, 2, None, LINES, target);
        }
    }
}

impl Room {
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
            Panels::pack(PLANES, 3 * PLANES, |output, input| {
                let (step, channel) = (input / PLANES, input % PLANES);
                weights[((output * PLANES + channel) * 3 + line) * 3 + step]
            })
        };
        Ok(Convolution { lines: [of_line(0), of_line(1), of_line(2)], bias: norm.shift })
    }
}

impl Residual {
    fn pack(tensors: &Tensors, name: &str, step: usize) -> Result<Self, String> {
        let part = |part: &str| format!("{name}.{part}");
        let one = Convolution::pack(tensors, &part("conv1"), &part("bn1"))?;
        let mut two = Convolution::pack(tensors, &part("conv2"), &part("bn2"))?;
        let around = if step == 1 {
            None
        } else {
            let norm = Norm::read(tensors, &part("shortcut.1"), PLANES)?;
            let weights = folded(tensors, &part("shortcut.0"), &[PLANES, PLANES, 1, 1], &norm)?;
            two.bias.iter_mut().zip(&norm.shift).for_each(|(bias, shift)| *bias += shift);
            Some(Panels::pack(PLANES, PLANES, |output, input| weights[output * PLANES + input]))
        };
        Ok(Residual { step, one, two, around })
    }
}

/// What is added to a convolution's sums.
struct Around<'a> {
    from: &'a Plane,
    step: usize,
    layer: Option<&'a Panels>,
}

/// Where finished lines go.
struct Target {
    /// The first line's first step.
    start: *mut u16,
    /// Numbers from one line to the next, and from one step to the next.
    line: usize,
    step: usize,
}

impl Target {
    fn plane(plane: &mut Plane, steps: usize) -> Self {
        let start = plane.data[place(steps, 1, 1)..].as_mut_ptr();
        Target { start, line: (steps + 2) * PLANES, step: PLANES }
    }
}

struct Work<'a> {
    compute: &'a Compute,
    lanes: &'a Lanes,
    steps: usize,
}

impl Work<'_> {
    /// The first convolution, from one channel to 32.
    ///
    /// # Safety
    /// As [`Head::run`].
    unsafe fn first(&self, weights: &Panels, bias: &[f32], input: &Buffer<u16>, out: &mut Plane) {
        let width = self.steps + 2;
        let target = Target::plane(out, self.steps);
        let mut sums = Sums([0.0; BLOCK * BLOCK]);
        let sums = sums.0.as_mut_ptr();
        for line in 0..BINS {
            for step in (0..self.steps).step_by(BLOCK) {
                let rows = BLOCK.min(self.steps - step);
                // SAFETY: the input has room beyond its last place for a whole block of rows.
                unsafe {
                    // The neighbour before a step stands where the step's own number would without a border.
                    let a = input[(line * width + step) * PLACE..].as_ptr();
                    weights.multiply(self.compute.kernels, a, PLACE, rows, 0, sums, BLOCK, false);
                    self.finish(sums, rows, bias, std::ptr::null(), &target, line, step);
                }
            }
        }
    }

    /// Two convolutions and the way around them.
    ///
    /// # Safety
    /// As [`Head::run`].
    unsafe fn residual(&self, block: &Residual, from: &Plane, inside: &mut Plane, to: &mut Plane, lines: usize) {
        let around = Around { from, step: block.step, layer: block.around.as_ref() };
        // SAFETY: same contract.
        unsafe {
            self.convolve(&block.one, from, block.step, None, lines, Target::plane(inside, self.steps));
            self.convolve(&block.two, inside, 1, Some(around), lines, Target::plane(to, self.steps));
        }
    }

    /// A convolution over `lines` output lines, `step` input lines apart.
    ///
    /// # Safety
    /// As [`Head::run`]; the planes have as many lines as that takes.
    unsafe fn convolve(
        &self,
        layer: &Convolution,
        from: &Plane,
        step: usize,
        around: Option<Around>,
        lines: usize,
        target: Target,
    ) {
        let kernels = self.compute.kernels;
        let mut sums = Sums([0.0; BLOCK * BLOCK]);
        let sums = sums.0.as_mut_ptr();
        for line in 0..lines {
            for first in (0..self.steps).step_by(BLOCK) {
                let rows = BLOCK.min(self.steps - first);
                // SAFETY: planes have a border of one and room beyond their last place for a whole block of rows.
                unsafe {
                    for (near, weights) in layer.lines.iter().enumerate() {
                        let a = from.data[place(self.steps, line * step + near, first)..].as_ptr();
                        weights.multiply(kernels, a, PLANES, rows, 0, sums, BLOCK, near > 0);
                    }
                    let mut other = std::ptr::null();
                    if let Some(around) = &around {
                        let a = around.from.data[place(self.steps, line * around.step + 1, first + 1)..].as_ptr();
                        match around.layer {
                            Some(weights) => weights.multiply(kernels, a, PLANES, rows, 0, sums, BLOCK, true),
                            None => other = a,
                        }
                    }
                    self.finish(sums, rows, &layer.bias, other, &target, line, first);
                }
            }
        }
    }

    /// Bias, the way around, nothing below zero.
    ///
    /// # Safety
    /// `target` must reach the line and its steps.
    unsafe fn finish(
        &self,
        sums: *const f32,
        rows: usize,
        bias: &[f32],
        other: *const u16,
        target: &Target,
        line: usize,
        first: usize,
    ) {
        let bias = bias.as_ptr();
        // SAFETY: the caller vouches for the target.
        unsafe {
            let out = target.start.add(line * target.line + first * target.step);
            (self.lanes.finish)(&Finish { sums, rows, bias, other, cut: true, out, stride: target.step });
        }
    }
}
