//! What operations compute, from its definition, on numbers of the CPU.

use hark_numeric::e4m3_to_f32;

use super::{HEAD, PlainBuffer};
use crate::device::{DeviceBuffer, Fp8Rows, NormWeights, Output, WindowKeys, to_fp8};

pub(super) fn dot(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// The softmax of the scores over values of a head's width.
pub(super) fn attend(scores: &[f32], value: impl Fn(usize) -> Vec<f32>) -> Vec<f32> {
    let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f32> = scores.iter().map(|score| (score - top).exp()).collect();
    let total: f32 = weights.iter().sum();
    let mut sums = vec![0.0; HEAD];
    for (index, weight) in weights.iter().enumerate() {
        sums.iter_mut().zip(value(index)).for_each(|(sum, value)| *sum += weight / total * value);
    }
    sums
}

/// GELU by the tanh approximation, as cuBLASLt has it.
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh())
}

/// The median over 7 frames, edges reflected; too short a row is as it is.
pub(super) fn median(row: &[f32], frame: usize) -> f32 {
    if row.len() <= 3 {
        return row[frame];
    }
    let last = row.len() as isize - 1;
    let at = |offset: isize| {
        let place = (frame as isize + offset).abs();
        row[if place > last { 2 * last - place } else { place } as usize]
    };
    let mut around: Vec<f32> = (-3..=3).map(at).collect();
    around.sort_by(f32::total_cmp);
    around[3]
}

/// Rows through a layer, before what becomes of them.
pub(super) fn products(numbers: &[f32], weight: &[f32], bias: Option<&[f32]>, inputs: usize) -> Vec<f32> {
    let rows = numbers.chunks_exact(inputs);
    let outputs = |row: &[f32]| -> Vec<f32> {
        let sums = weight.chunks_exact(inputs).map(|weight| dot(row, weight));
        sums.enumerate().map(|(index, sum)| sum + bias.map_or(0.0, |bias| bias[index])).collect()
    };
    rows.flat_map(outputs).collect()
}

pub(super) fn store(to: &PlainBuffer, output: Output, result: &[f32]) {
    match output {
        Output::Bf16 => to.write_bf16(result),
        Output::Gelu => to.write_bf16(&result.iter().copied().map(gelu).collect::<Vec<_>>()),
        Output::F32 => to.write_f32(result),
        Output::AddF32 => {
            let before = to.f32(result.len());
            to.write_f32(&result.iter().zip(before).map(|(add, before)| add + before).collect::<Vec<_>>());
        }
    }
}

/// The layer norm of these rows.
pub(super) fn norm(rows: &[u32], width: usize, from: &PlainBuffer, weights: &NormWeights<PlainBuffer>) -> Vec<f32> {
    let (gain, bias) = (weights.gain.f32(width), weights.bias.f32(width));
    let mut result = Vec::with_capacity(rows.len() * width);
    for row in rows {
        let row = from.offset(*row as usize * width * 4).f32(width);
        let mean = row.iter().sum::<f32>() / width as f32;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / width as f32;
        let scale = 1.0 / (variance + 1e-5).sqrt();
        result.extend((0..width).map(|column| (row[column] - mean) * scale * gain[column] + bias[column]));
    }
    result
}

pub(super) fn write_fp8(numbers: &[f32], width: usize, to: &Fp8Rows<PlainBuffer>) {
    let (bytes, scales) = to_fp8(numbers, width);
    to.numbers.write(&bytes);
    to.scales.write_f32(&scales);
}

pub(super) fn from_fp8(rows: &Fp8Rows<PlainBuffer>, count: usize, width: usize) -> Vec<f32> {
    let (bytes, scales) = (rows.numbers.read(count * width), rows.scales.f32(count));
    let row = |(row, scale): (&[u8], f32)| row.iter().map(|bits| e4m3_to_f32(*bits) * scale).collect::<Vec<_>>();
    bytes.chunks_exact(width).zip(scales).flat_map(row).collect()
}

/// Keys and values of a window, `[key, value][head][frame][64]`.
pub(super) fn window(windows: &WindowKeys<PlainBuffer>, slot: usize) -> Vec<f32> {
    let count = windows.frames * 2 * windows.width;
    match windows.scales {
        None => windows.numbers.bf16_at(slot * windows.slot_stride, count),
        Some(scales) => {
            let numbers = windows.numbers.offset(slot * windows.slot_stride);
            let scales = scales.offset(slot * windows.scale_stride * 4);
            from_fp8(&Fp8Rows { numbers, scales }, 2 * windows.width / HEAD, windows.frames * HEAD)
        }
    }
}
