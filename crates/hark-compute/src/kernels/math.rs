//! The scalar formulas that every set of kernels follows, and the bodies that the compiler vectorizes.

/// bf16, rounded to nearest even.
#[inline(always)]
pub fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16
}

/// bf16 to float32, exact.
#[inline(always)]
pub fn from_bf16(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

/// Where the polynomial below stops; beyond it GELU is the identity or zero to within 2e-5 of x.
pub const GELU_LIMIT: f32 = 4.3;

/// `(Φ(x) - 1/2) / x` as a polynomial in `x²` on |x| ≤ 4.3, least maximum error of `Φ` (2e-6), fitted for this file.
pub const GELU: [f32; 10] = [
    0.398_932_5,
    -0.066_448_28,
    0.009_919_932,
    -0.001_155_622_1,
    0.000_104_908_8,
    -7.268_946_3e-6,
    3.670_947_7e-7,
    -1.256_287_3e-8,
    2.575_610_6e-10,
    -2.369_453_6e-12,
];

/// `x·Φ(x)`, the exact (erf) GELU to within 2e-5 of x, far below bf16's quantized_rows.
#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    let clamped = x.clamp(-GELU_LIMIT, GELU_LIMIT);
    let square = clamped * clamped;
    let mut sum = GELU[9];
    let mut index = 9;
    while index > 0 {
        index -= 1;
        sum = sum * square + GELU[index];
    }
    x * (0.5 + clamped * sum)
}

/// `2^f` on [-1/2, 1/2] to within 2.6e-6, relative.
pub const EXP2: [f32; 5] = [0.999_999_3, 0.693_121_8, 0.240_247_44, 0.055_917_86, 0.009_570_101];

/// `2^x` for x ≤ 0 (and a little above); 0 below -126.
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    // Adding 1.5·2²³ rounds to the nearest integer and leaves that integer in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = x.max(-127.0);
    let shifted = x + ROUND;
    let whole = shifted - ROUND;
    let part = x - whole;
    let mut sum = EXP2[4];
    sum = sum * part + EXP2[3];
    sum = sum * part + EXP2[2];
    sum = sum * part + EXP2[1];
    sum = sum * part + EXP2[0];
    let power = f32::from_bits(shifted.to_bits().wrapping_shl(23).wrapping_add(0x3f80_0000));
    if x < -126.0 { 0.0 } else { sum * power }
}

/// Whisper's layer norm epsilon.
pub const EPSILON: f32 = 1e-5;

use super::{BLOCK, BlockEpilogue, CausalAttention, DEPTH, HEAD, MAX_EXPONENT, PANEL, SoftmaxBlock};

/// Lanes of partial sums: enough for one AVX-512 register twice over, so that reductions vectorize.
const LANES: usize = 32;

/// Body of [`super::Kernels::epilogue_bf16`].
///
/// # Safety
/// `epilogue` and `out` must describe live memory of the stated shapes.
#[inline(always)]
pub unsafe fn epilogue_bf16(epilogue: &BlockEpilogue, out: *mut u16, stride: usize) {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        let bias = &*epilogue.bias.as_ptr().cast::<[f32; 32]>();
        for row in 0..epilogue.rows {
            let sums = &*epilogue.sums.as_ptr().add(row * 32).cast::<[f32; 32]>();
            let out = &mut *out.add(row * stride).cast::<[u16; 32]>();
            if epilogue.gelu {
                for column in 0..32 {
                    out[column] = to_bf16(gelu(sums[column] + bias[column]));
                }
            } else {
                for column in 0..32 {
                    out[column] = to_bf16(sums[column] + bias[column]);
                }
            }
        }
    }
}

/// Body of [`super::Kernels::epilogue_add`].
///
/// # Safety
/// `epilogue` and `out` must describe live memory of the stated shapes.
#[inline(always)]
pub unsafe fn epilogue_add(epilogue: &BlockEpilogue, out: *mut f32, stride: usize) {
    // SAFETY: the caller vouches for the shapes.
    unsafe {
        let bias = &*epilogue.bias.as_ptr().cast::<[f32; 32]>();
        for row in 0..epilogue.rows {
            let sums = &*epilogue.sums.as_ptr().add(row * 32).cast::<[f32; 32]>();
            let out = &mut *out.add(row * stride).cast::<[f32; 32]>();
            if epilogue.gelu {
                for column in 0..32 {
                    out[column] += gelu(sums[column] + bias[column]);
                }
            } else {
                for column in 0..32 {
                    out[column] += sums[column] + bias[column];
                }
            }
        }
    }
}

/// Body of [`super::Kernels::transpose_keys`].
///
/// # Safety
/// Both sides are 512 elements.
#[inline(always)]
pub unsafe fn transpose_keys(frames: *const u16, out: *mut u16) {
    // SAFETY: the caller vouches for the lengths; both are pairs of 16 bits.
    let (frames, out) = unsafe {
        (&*frames.cast::<[[[u16; 2]; DEPTH / 2]; PANEL]>(), &mut *out.cast::<[[[u16; 2]; PANEL]; DEPTH / 2]>())
    };
    for (frame, pairs) in frames.iter().enumerate() {
        for (line, pair) in out.iter_mut().zip(pairs) {
            line[frame] = *pair;
        }
    }
}

/// Body of [`super::Kernels::interleave_values`].
///
/// # Safety
/// `frames` reaches 31 · 32 + 16 elements, `out` 512.
#[inline(always)]
pub unsafe fn interleave_values(frames: *const u16, pairs: &[usize; DEPTH / 2], out: *mut u16) {
    for (line, pair) in pairs.iter().enumerate() {
        // SAFETY: the caller vouches for the lengths.
        unsafe {
            let first = &*frames.add(2 * pair * BLOCK).cast::<[u16; PANEL]>();
            let second = &*frames.add((2 * pair + 1) * BLOCK).cast::<[u16; PANEL]>();
            let out = &mut *out.add(line * 2 * PANEL).cast::<[[u16; 2]; PANEL]>();
            for dim in 0..PANEL {
                out[dim] = [first[dim], second[dim]];
            }
        }
    }
}

/// Body of [`super::Kernels::layer_norm`].
///
/// # Safety
/// The pointers must reach `width` elements each; `width` is a multiple of 32.
#[inline(always)]
pub unsafe fn layer_norm(row: *const f32, gain: *const f32, bias: *const f32, width: usize, out: *mut u16) {
    // SAFETY: the caller vouches for the lengths.
    let (row, gain, bias, out) = unsafe {
        (
            std::slice::from_raw_parts(row, width),
            std::slice::from_raw_parts(gain, width),
            std::slice::from_raw_parts(bias, width),
            std::slice::from_raw_parts_mut(out, width),
        )
    };
    let mut sums = [0f32; LANES];
    for chunk in row.chunks_exact(LANES) {
        for lane in 0..LANES {
            sums[lane] += chunk[lane];
        }
    }
    let mean = sums.iter().sum::<f32>() / width as f32;
    let mut squares = [0f32; LANES];
    for chunk in row.chunks_exact(LANES) {
        for lane in 0..LANES {
            let distance = chunk[lane] - mean;
            squares[lane] += distance * distance;
        }
    }
    let variance = squares.iter().sum::<f32>() / width as f32;
    let inverse = 1.0 / (variance + EPSILON).sqrt();
    for index in 0..width {
        out[index] = to_bf16((row[index] - mean) * inverse * gain[index] + bias[index]);
    }
}

/// Body of [`super::Kernels::softmax_block`].
///
/// # Safety
/// `block` must describe live memory of the stated shapes.
#[inline(always)]
pub unsafe fn softmax_block(block: &mut SoftmaxBlock) {
    for row in block.rows.clone() {
        // SAFETY: the caller vouches for the shapes.
        let (scores, weights) = unsafe {
            (
                std::slice::from_raw_parts(block.scores.add(row * block.scores_stride), block.width),
                std::slice::from_raw_parts_mut(block.weights.add(row * block.weights_stride), block.width),
            )
        };
        let mut tops = [f32::MIN; 16];
        for chunk in scores.chunks_exact(16) {
            for lane in 0..16 {
                tops[lane] = if chunk[lane] > tops[lane] { chunk[lane] } else { tops[lane] };
            }
        }
        let top = tops.iter().copied().fold(f32::MIN, f32::max);
        refer(block, row, top);
        let shift = block.reference[row] * block.scale;
        let sums = &mut block.sums[row];
        for (chunk, out) in scores.chunks_exact(16).zip(weights.chunks_exact_mut(16)) {
            for lane in 0..16 {
                let weight = exp2(chunk[lane] * block.scale - shift);
                sums[lane] += weight;
                out[lane] = to_bf16(weight);
            }
        }
    }
}

/// Sets or moves a row's reference for a chunk whose highest score is `top`.
#[inline(always)]
pub fn refer(block: &mut SoftmaxBlock, row: usize, top: f32) {
    block.rescale[row] = 1.0;
    if block.is_first {
        block.reference[row] = top;
        block.sums[row] = [0.0; 16];
    } else if (top - block.reference[row]) * block.scale > MAX_EXPONENT {
        let rescale = exp2((block.reference[row] - top) * block.scale);
        block.sums[row].iter_mut().for_each(|sum| *sum *= rescale);
        block.rescale[row] = rescale;
        block.reference[row] = top;
    }
}

/// Body of [`super::Kernels::scale_to_bf16`].
///
/// # Safety
/// The pointers must reach `n` elements.
#[inline(always)]
pub unsafe fn scale_to_bf16(input: *const f32, factor: f32, n: usize, out: *mut u16) {
    // SAFETY: the caller vouches for the lengths.
    let (input, out) = unsafe { (std::slice::from_raw_parts(input, n), std::slice::from_raw_parts_mut(out, n)) };
    for index in 0..n {
        out[index] = to_bf16(input[index] * factor);
    }
}

/// Body of [`super::Kernels::int8_to_bf16`].
///
/// # Safety
/// The pointers must reach `n` elements.
#[inline(always)]
pub unsafe fn int8_to_bf16(numbers: *const i8, n: usize, out: *mut u16) {
    // SAFETY: the caller vouches for the lengths.
    let (numbers, out) = unsafe { (std::slice::from_raw_parts(numbers, n), std::slice::from_raw_parts_mut(out, n)) };
    for index in 0..n {
        out[index] = (f32::from(numbers[index]).to_bits() >> 16) as u16;
    }
}

/// Body of `Kernels::causal_attention`.
///
/// # Safety
/// The shapes are those that [`crate::attention::causal_attention`] checks.
#[inline(always)]
pub unsafe fn causal_attention(attention: &mut CausalAttention) {
    let (positions, cache) = (attention.past.len(), attention.cache.as_ptr());
    for head in 0..attention.heads {
        // SAFETY: the query has `heads * 64` elements.
        let query = unsafe { &*attention.query.as_ptr().add(head * HEAD).cast::<[u16; HEAD]>() };
        let query: [f32; HEAD] = std::array::from_fn(|index| from_bf16(query[index]));
        let weights = &mut attention.weights[head * positions..(head + 1) * positions];
        let mut top = f32::MIN;
        for (weight, &place) in weights.iter_mut().zip(attention.past) {
            // SAFETY: a key row of `heads * 64` elements begins at `place`.
            let key = unsafe { &*cache.add(place + head * HEAD).cast::<[u16; HEAD]>() };
            let mut sums = [0f32; 16];
            for quarter in 0..4 {
                for lane in 0..16 {
                    sums[lane] += query[quarter * 16 + lane] * from_bf16(key[quarter * 16 + lane]);
                }
            }
            *weight = sums.iter().sum::<f32>() * attention.scale;
            top = top.max(*weight);
        }
        let mut total = 0.0;
        for weight in weights.iter_mut() {
            *weight = exp2(*weight - top);
            total += *weight;
        }
        let mut sums = [0f32; HEAD];
        for (&weight, &place) in weights.iter().zip(attention.past) {
            // SAFETY: a value row of `heads * 64` elements begins `value_offset` behind `place`.
            let value = unsafe { &*cache.add(place + attention.value_offset + head * HEAD).cast::<[u16; HEAD]>() };
            for index in 0..HEAD {
                sums[index] += weight * from_bf16(value[index]);
            }
        }
        // SAFETY: the output has `heads * 64` elements.
        let out = unsafe { &mut *attention.out.as_mut_ptr().add(head * HEAD).cast::<[u16; HEAD]>() };
        for index in 0..HEAD {
            out[index] = to_bf16(sums[index] / total);
        }
    }
}

/// Body of [`super::Kernels::log_sum`].
///
/// # Safety
/// The pointer must reach `n` elements.
#[inline(always)]
pub unsafe fn log_sum(row: *const f32, n: usize) -> (f32, f32) {
    // SAFETY: the caller vouches for the length.
    let row = unsafe { std::slice::from_raw_parts(row, n) };
    let mut tops = [f32::MIN; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for lane in 0..LANES {
            tops[lane] = if chunk[lane] > tops[lane] { chunk[lane] } else { tops[lane] };
        }
    }
    let top = tops.iter().chain(rest).fold(f32::MIN, |a, &b| a.max(b));
    let mut sums = [0f32; LANES];
    for chunk in row.chunks_exact(LANES) {
        for lane in 0..LANES {
            sums[lane] += exp2((chunk[lane] - top) * std::f32::consts::LOG2_E);
        }
    }
    let tail: f32 = rest.iter().map(|&x| exp2((x - top) * std::f32::consts::LOG2_E)).sum();
    (top, sums.iter().sum::<f32>() + tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// erf by its series and continued fraction in double precision.
    fn erf(x: f64) -> f64 {
        let z = x.abs();
        let value = if z < 2.5 {
            let (mut term, mut sum) = (z, z);
            for n in 1..80 {
                term *= -z * z / f64::from(n);
                sum += term / f64::from(2 * n + 1);
            }
            sum * 2.0 / std::f64::consts::PI.sqrt()
        } else {
            let mut fraction = 0.0;
            for n in (1..60).rev() {
                fraction = f64::from(n) / 2.0 / (z + fraction);
            }
            1.0 - (-z * z).exp() / std::f64::consts::PI.sqrt() / (z + fraction)
        };
        value.copysign(x)
    }

    #[test]
    fn gelu_follows_the_error_function() {
        for step in -10_000..=10_000 {
            let x = f64::from(step) / 1000.0;
            let exact = 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2));
            let tolerance = 2e-5 + x.abs() * 2e-5;
            assert!((f64::from(gelu(x as f32)) - exact).abs() < tolerance, "gelu({x})");
        }
    }

    #[test]
    fn exp2_follows_the_power_of_two() {
        for step in 0..=130_000 {
            let x = -f64::from(step) / 1000.0;
            let exact = x.exp2();
            let got = f64::from(exp2(x as f32));
            if x > -126.0 {
                assert!((got / exact - 1.0).abs() < 2e-5, "exp2({x}) = {got}");
            } else {
                assert!(got < 2e-38, "exp2({x}) = {got}");
            }
        }
        assert_eq!(exp2(f32::NEG_INFINITY), 0.0);
    }

    #[test]
    fn bf16_rounds_to_nearest_even() {
        assert_eq!(from_bf16(to_bf16(1.0)), 1.0);
        assert_eq!(to_bf16(f32::from_bits(0x3f80_8000)), 0x3f80);
        assert_eq!(to_bf16(f32::from_bits(0x3f81_8000)), 0x3f82);
        assert_eq!(to_bf16(f32::from_bits(0x3f80_8001)), 0x3f81);
    }
}
