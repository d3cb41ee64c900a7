//! What happens between two convolutions over time: bias, residual and moments behind one, norm and activation before the next.

use super::math::{exp2, fused};
use crate::kernels::BLOCK;
use crate::kernels::math::{from_bf16, to_bf16};

/// An activation, after a scale and a shift of every column.
#[derive(Debug, Clone, Copy)]
pub enum Activation<'a> {
    /// None.
    Identity,
    /// Negative numbers are multiplied by this.
    LeakyRelu(f32),
    /// `x + sin²(αx) / α`, with `α` and `1 / α` of every column.
    Snake(&'a [f32], &'a [f32]),
    /// GELU by its tanh form.
    GeluTanh,
}

/// Rows of float32 that become bf16 rows, with checked shapes.
pub(super) struct Activate {
    pub(super) from: *const f32,
    pub(super) from_stride: usize,
    pub(super) rows: usize,
    /// A multiple of 32.
    pub(super) width: usize,
    pub(super) scale: *const f32,
    pub(super) shift: *const f32,
    pub(super) kind: Kind,
    pub(super) out: *mut u16,
    pub(super) out_stride: usize,
    /// Whether a row becomes `[rounded, residue, rounded]`.
    pub(super) split: bool,
}

/// An [`Activation`] with pointers.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Identity,
    LeakyRelu(f32),
    Snake(*const f32, *const f32),
    GeluTanh,
}

/// The end of a block of 32 columns of a convolution, with checked shapes.
pub(crate) struct Finish {
    /// Rows of 32.
    pub(crate) sums: *const f32,
    pub(crate) rows: usize,
    pub(crate) bias: *const f32,
    /// Null where there is none.
    pub(crate) residual: *const f32,
    pub(crate) residual_stride: usize,
    pub(crate) accumulate: bool,
    pub(crate) scale: f32,
    pub(crate) out: *mut f32,
    pub(crate) out_stride: usize,
    /// 32 sums and 32 sums of squares; null where they are not wanted.
    pub(crate) moments: *mut f32,
}

/// # Safety
/// `block` must describe live memory of the stated shapes.
#[inline(always)]
pub(super) unsafe fn finish<const FUSED: bool>(block: &Finish) {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        let bias = &*block.bias.cast::<[f32; BLOCK]>();
        let (mut sum, mut squares) = ([0f32; BLOCK], [0f32; BLOCK]);
        for row in 0..block.rows {
            let from = &*block.sums.add(row * BLOCK).cast::<[f32; BLOCK]>();
            let out = &mut *block.out.add(row * block.out_stride).cast::<[f32; BLOCK]>();
            let mut numbers = [0f32; BLOCK];
            for column in 0..BLOCK {
                numbers[column] = from[column] + bias[column];
            }
            if !block.residual.is_null() {
                let residual = &*block.residual.add(row * block.residual_stride).cast::<[f32; BLOCK]>();
                for column in 0..BLOCK {
                    numbers[column] += residual[column];
                }
            }
            if block.accumulate {
                for column in 0..BLOCK {
                    numbers[column] += out[column];
                }
            }
            for column in 0..BLOCK {
                let number = numbers[column] * block.scale;
                sum[column] += number;
                squares[column] = fused::<FUSED>(number, number, squares[column]);
                out[column] = number;
            }
        }
        if !block.moments.is_null() {
            *block.moments.cast::<[f32; BLOCK]>() = sum;
            *block.moments.add(BLOCK).cast::<[f32; BLOCK]>() = squares;
        }
    }
}

/// # Safety
/// `rows` must describe live memory of the stated shapes.
#[inline(always)]
pub(super) unsafe fn activate<const FUSED: bool>(rows: &Activate) {
    // SAFETY: same contract; the columns of alpha and its inverse were checked with the others.
    unsafe {
        match rows.kind {
            Kind::Identity => each::<FUSED>(rows, |_, _| {}),
            Kind::LeakyRelu(slope) => each::<FUSED>(rows, |_, numbers| {
                for x in numbers {
                    *x = if *x < 0.0 { *x * slope } else { *x };
                }
            }),
            Kind::Snake(alpha, inverse) => each::<FUSED>(rows, |first, numbers| {
                let alpha = &*alpha.add(first).cast::<[f32; BLOCK]>();
                let inverse = &*inverse.add(first).cast::<[f32; BLOCK]>();
                for column in 0..BLOCK {
                    let sine = sin_within_half_turns::<FUSED>(numbers[column] * alpha[column]);
                    numbers[column] = fused::<FUSED>(sine * sine, inverse[column], numbers[column]);
                }
            }),
            Kind::GeluTanh => each::<FUSED>(rows, |_, numbers| {
                for x in numbers {
                    *x = gelu_tanh::<FUSED>(*x);
                }
            }),
        }
    }
}

/// # Safety
/// As [`activate`].
#[inline(always)]
unsafe fn each<const FUSED: bool>(rows: &Activate, activation: impl Fn(usize, &mut [f32; BLOCK])) {
    for row in 0..rows.rows {
        for first in (0..rows.width).step_by(BLOCK) {
            // SAFETY: the caller vouches for whole blocks of columns on both sides.
            unsafe {
                let from = &*rows.from.add(row * rows.from_stride + first).cast::<[f32; BLOCK]>();
                let scale = &*rows.scale.add(first).cast::<[f32; BLOCK]>();
                let shift = &*rows.shift.add(first).cast::<[f32; BLOCK]>();
                let mut numbers = [0f32; BLOCK];
                for column in 0..BLOCK {
                    numbers[column] = fused::<FUSED>(from[column], scale[column], shift[column]);
                }
                activation(first, &mut numbers);
                let out = rows.out.add(row * rows.out_stride + first);
                let rounded: [u16; BLOCK] = std::array::from_fn(|column| to_bf16(numbers[column]));
                *out.cast::<[u16; BLOCK]>() = rounded;
                if rows.split {
                    let residue = std::array::from_fn(|column| to_bf16(numbers[column] - from_bf16(rounded[column])));
                    *out.add(rows.width).cast::<[u16; BLOCK]>() = residue;
                    *out.add(2 * rows.width).cast::<[u16; BLOCK]>() = rounded;
                }
            }
        }
    }
}

/// The sine of `x`, or its negative: what squares to `sin²(x)`. Within 2e-7 for |x| below 10⁴.
#[inline(always)]
fn sin_within_half_turns<const FUSED: bool>(x: f32) -> f32 {
    // Adding 1.5·2²³ rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    // π in two parts, the first short enough for an exact product with the number of half turns.
    const PI_HIGH: f32 = 3.140_625;
    const PI_LOW: f32 = 9.676_536e-4;
    let turns = fused::<FUSED>(x, std::f32::consts::FRAC_1_PI, ROUND) - ROUND;
    let part = fused::<FUSED>(turns, -PI_LOW, fused::<FUSED>(turns, -PI_HIGH, x));
    let square = part * part;
    let mut sum = fused::<FUSED>(square, -1.0 / 39_916_800.0, 1.0 / 362_880.0);
    sum = fused::<FUSED>(sum, square, -1.0 / 5_040.0);
    sum = fused::<FUSED>(sum, square, 1.0 / 120.0);
    sum = fused::<FUSED>(sum, square, -1.0 / 6.0);
    fused::<FUSED>(sum * square, part, part)
}

/// `x / (1 + e^(-2u))` with `u = √(2/π) (x + 0.044715 x³)`.
#[inline(always)]
fn gelu_tanh<const FUSED: bool>(x: f32) -> f32 {
    const FACTOR: f32 = -2.0 * 0.797_884_6 * std::f32::consts::LOG2_E;
    let inner = fused::<FUSED>(x * x * x, 0.044_715, x);
    x / (1.0 + exp2::<FUSED>(inner * FACTOR))
}
