//! A plain, slow, obviously right Whisper in f32: what tests compare the fast kernels with.
//!
//! In come a checkpoint, a spectrogram and tokens; out go encoder states, logits and attention scores. It keeps no
//! caches and reuses nothing: every call computes everything from the definition. The matrix product alone is spread over threads, row
//! by row, so that a test takes seconds.

use crate::weights::{Checkpoint, Dims, WeightsError};

/// All weights of a network in f32.
pub struct ReferenceModel {
    dims: Dims,
    conv1: Linear,
    conv2: Linear,
    encoder_positions: Vec<f32>,
    encoder: Vec<Block>,
    encoder_norm: Norm,
    embedding: Vec<f32>,
    decoder_positions: Vec<f32>,
    decoder: Vec<Block>,
    decoder_norm: Norm,
}

/// `y = W x + b` with `W` stored row by row.
struct Linear {
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
}

struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

struct Attention {
    norm: Norm,
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    heads: usize,
}

struct Block {
    attention: Attention,
    cross_attention: Option<Attention>,
    mlp_norm: Norm,
    mlp_in: Linear,
    mlp_out: Linear,
}

/// Cross-attention scores before the softmax that one pass over the decoder leaves behind:
/// `[layer][head][token][position]`.
type Scores = Vec<Vec<Vec<f32>>>;

impl ReferenceModel {
    /// Reads all weights of a checkpoint.
    pub fn load(checkpoint: &Checkpoint) -> Result<Self, WeightsError> {
        let dims = checkpoint.dims;
        let tensor = |name: &str| checkpoint.tensor(name);
        let norm = |name: &str| -> Result<Norm, WeightsError> {
            Ok(Norm { weight: tensor(&format!("{name}.weight"))?, bias: tensor(&format!("{name}.bias"))? })
        };
        let linear = |name: &str| -> Result<Linear, WeightsError> {
            let bias = format!("{name}.bias");
            let bias = if checkpoint.has(&bias) { Some(tensor(&bias)?) } else { None };
            Ok(Linear { weight: tensor(&format!("{name}.weight"))?, bias })
        };
        let attention = |name: &str, heads: usize| -> Result<Attention, WeightsError> {
            Ok(Attention {
                norm: norm(&format!("{name}_ln"))?,
                query: linear(&format!("{name}.query"))?,
                key: linear(&format!("{name}.key"))?,
                value: linear(&format!("{name}.value"))?,
                out: linear(&format!("{name}.out"))?,
                heads,
            })
        };
        let block = |name: String, heads: usize, crosses: bool| -> Result<Block, WeightsError> {
            let cross = format!("{name}.cross_attn");
            Ok(Block {
                attention: attention(&format!("{name}.attn"), heads)?,
                cross_attention: if crosses { Some(attention(&cross, heads)?) } else { None },
                mlp_norm: norm(&format!("{name}.mlp_ln"))?,
                mlp_in: linear(&format!("{name}.mlp.0"))?,
                mlp_out: linear(&format!("{name}.mlp.2"))?,
            })
        };
        Ok(Self {
            dims,
            conv1: linear("encoder.conv1")?,
            conv2: linear("encoder.conv2")?,
            encoder_positions: tensor("encoder.positional_embedding")?,
            encoder: (0..dims.n_audio_layer)
                .map(|i| block(format!("encoder.blocks.{i}"), dims.n_audio_head, false))
                .collect::<Result<_, _>>()?,
            encoder_norm: norm("encoder.ln_post")?,
            embedding: tensor("decoder.token_embedding.weight")?,
            decoder_positions: tensor("decoder.positional_embedding")?,
            decoder: (0..dims.n_text_layer)
                .map(|i| block(format!("decoder.blocks.{i}"), dims.n_text_head, true))
                .collect::<Result<_, _>>()?,
            decoder_norm: norm("decoder.ln")?,
        })
    }

    /// The encoder's states `[n_audio_ctx][n_audio_state]` of a spectrogram `[2 * n_audio_ctx][n_mels]`.
    pub fn encode(&self, mel: &[f32]) -> Vec<f32> {
        let dims = &self.dims;
        assert_eq!(mel.len(), 2 * dims.n_audio_ctx * dims.n_mels, "a full window of mel");
        let mut x = convolve(mel, dims.n_mels, &self.conv1, 1);
        gelu_all(&mut x);
        let mut x = convolve(&x, dims.n_audio_state, &self.conv2, 2);
        gelu_all(&mut x);
        add(&mut x, &self.encoder_positions);
        for block in &self.encoder {
            block.run(&mut x, dims.n_audio_state, None, false, &mut None);
        }
        self.encoder_norm.run(&x)
    }

    /// The logits `[tokens][n_vocab]` after each of the given tokens.
    pub fn decoder_logits(&self, encoder_out: &[f32], tokens: &[u32]) -> Vec<f32> {
        let x = self.decode(encoder_out, tokens, &mut None);
        product(&x, &self.embedding, None, self.dims.n_text_state)
    }

    /// Scaled query-key products `[tokens][n_audio_ctx]`, before the softmax, of each asked `(layer, head)`.
    pub fn cross_attention_scores(
        &self,
        encoder_out: &[f32],
        tokens: &[u32],
        heads: &[(usize, usize)],
    ) -> Vec<Vec<f32>> {
        let mut scores = Some(Vec::new());
        self.decode(encoder_out, tokens, &mut scores);
        let scores: Scores = scores.unwrap_or_default();
        heads.iter().map(|(layer, head)| scores[*layer][*head].clone()).collect()
    }

    /// The decoder's states after its last norm.
    fn decode(&self, encoder_out: &[f32], tokens: &[u32], scores: &mut Option<Scores>) -> Vec<f32> {
        let width = self.dims.n_text_state;
        assert!(tokens.len() <= self.dims.n_text_ctx, "at most {} tokens", self.dims.n_text_ctx);
        let mut x = Vec::with_capacity(tokens.len() * width);
        for token in tokens {
            x.extend_from_slice(&self.embedding[*token as usize * width..][..width]);
        }
        add(&mut x, &self.decoder_positions[..tokens.len() * width]);
        for block in &self.decoder {
            block.run(&mut x, width, Some(encoder_out), true, scores);
        }
        self.decoder_norm.run(&x)
    }
}

impl Block {
    fn run(&self, x: &mut [f32], width: usize, encoder_out: Option<&[f32]>, causal: bool, scores: &mut Option<Scores>) {
        let normed = self.attention.norm.run(x);
        add(x, &self.attention.run(&normed, &normed, width, causal, &mut None));
        if let (Some(cross), Some(encoder_out)) = (&self.cross_attention, encoder_out) {
            let normed = cross.norm.run(x);
            let mut of_layer = scores.is_some().then(Vec::new);
            add(x, &cross.run(&normed, encoder_out, width, false, &mut of_layer));
            if let (Some(scores), Some(of_layer)) = (scores, of_layer) {
                scores.push(of_layer);
            }
        }
        let mut hidden = self.mlp_in.run(&self.mlp_norm.run(x), width);
        gelu_all(&mut hidden);
        add(x, &self.mlp_out.run(&hidden, 4 * width));
    }
}

impl Attention {
    fn run(
        &self,
        x: &[f32],
        source: &[f32],
        width: usize,
        causal: bool,
        keep_scores: &mut Option<Vec<Vec<f32>>>,
    ) -> Vec<f32> {
        let source_width = self.key.weight.len() / width;
        let queries = self.query.run(x, width);
        let keys = self.key.run(source, source_width);
        let values = self.value.run(source, source_width);
        let (rows, columns) = (queries.len() / width, keys.len() / width);
        let head_width = width / self.heads;
        let scale = (head_width as f32).powf(-0.5);
        let mut mixed = vec![0.0; rows * width];
        for head in 0..self.heads {
            let of_head =
                |all: &[f32], row: usize| -> Vec<f32> { all[row * width + head * head_width..][..head_width].to_vec() };
            let keys: Vec<f32> = (0..columns).flat_map(|row| of_head(&keys, row)).collect();
            let queries: Vec<f32> = (0..rows).flat_map(|row| of_head(&queries, row)).collect();
            let mut scores = product(&queries, &keys, None, head_width);
            scores.iter_mut().for_each(|score| *score *= scale);
            if let Some(kept) = keep_scores {
                kept.push(scores.clone());
            }
            // Values with time along a row, so that mixing them is a product too.
            let values: Vec<f32> = (0..head_width)
                .flat_map(|i| (0..columns).map(move |row| (row, i)))
                .map(|(row, i)| values[row * width + head * head_width + i])
                .collect();
            for (row, scores) in scores.chunks_exact_mut(columns).enumerate() {
                if causal {
                    scores[row + 1..].fill(f32::NEG_INFINITY);
                }
                softmax(scores);
            }
            let of_head = product(&scores, &values, None, columns);
            for (row, of_head) in of_head.chunks_exact(head_width).enumerate() {
                mixed[row * width + head * head_width..][..head_width].copy_from_slice(of_head);
            }
        }
        self.out.run(&mixed, width)
    }
}

impl Linear {
    fn run(&self, x: &[f32], width: usize) -> Vec<f32> {
        product(x, &self.weight, self.bias.as_deref(), width)
    }
}

impl Norm {
    fn run(&self, x: &[f32]) -> Vec<f32> {
        let width = self.weight.len();
        let mut out = Vec::with_capacity(x.len());
        for row in x.chunks_exact(width) {
            let mean = row.iter().map(|v| f64::from(*v)).sum::<f64>() / width as f64;
            let variance = row.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / width as f64;
            let scale = 1.0 / (variance + 1e-5).sqrt();
            for ((v, weight), bias) in row.iter().zip(&self.weight).zip(&self.bias) {
                out.push(((f64::from(*v) - mean) * scale) as f32 * weight + bias);
            }
        }
        out
    }
}

/// Every row of `x` times every row of `weight`: `[rows of x][rows of weight]`.
fn product(x: &[f32], weight: &[f32], bias: Option<&[f32]>, width: usize) -> Vec<f32> {
    let (rows, outputs) = (x.len() / width, weight.len() / width);
    let mut out = vec![0.0; rows * outputs];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let rows_each = rows.div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (x, out) in x.chunks(rows_each * width).zip(out.chunks_mut(rows_each * outputs)) {
            scope.spawn(move || product_rows(x, weight, out, width));
        }
    });
    if let Some(bias) = bias {
        out.chunks_exact_mut(outputs).for_each(|row| add(row, bias));
    }
    out
}

/// One thread's rows, with the widest registers the machine has.
fn product_rows(x: &[f32], weight: &[f32], out: &mut [f32], width: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f")]
        fn wide(x: &[f32], weight: &[f32], out: &mut [f32], width: usize) {
            product_plain(x, weight, out, width);
        }
        #[target_feature(enable = "avx2,fma")]
        fn medium(x: &[f32], weight: &[f32], out: &mut [f32], width: usize) {
            product_plain(x, weight, out, width);
        }
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the machine has the feature the function is compiled for.
            return unsafe { wide(x, weight, out, width) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the machine has the features the function is compiled for.
            return unsafe { medium(x, weight, out, width) };
        }
    }
    product_plain(x, weight, out, width);
}

/// Every dot product, four rows of weights at a time so that a value of `x` is loaded once for all four.
#[inline(always)]
fn product_plain(x: &[f32], weight: &[f32], out: &mut [f32], width: usize) {
    let outputs = weight.len() / width;
    // A band of weights that stays in cache while all rows pass over it.
    const BAND: usize = 64;
    for (band, weights) in weight.chunks(BAND * width).enumerate() {
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(outputs)) {
            let out = &mut out[band * BAND..];
            for (weights, out) in weights.chunks(4 * width).zip(out.chunks_mut(4)) {
                if weights.len() == 4 * width {
                    out.copy_from_slice(&four_dots(x, weights, width));
                } else {
                    for (weight, out) in weights.chunks_exact(width).zip(out) {
                        *out = dot(x, weight);
                    }
                }
            }
        }
    }
}

/// The dot products of `x` with four vectors, each in 16 partial sums that fill vector registers.
#[inline(always)]
fn four_dots(x: &[f32], weights: &[f32], width: usize) -> [f32; 4] {
    let (x, x_rest) = x.as_chunks::<16>();
    let rest = width - x_rest.len();
    let of = |i: usize| weights[i * width..(i + 1) * width].as_chunks::<16>().0;
    let (mut s0, mut s1, mut s2, mut s3) = ([0.0f32; 16], [0.0f32; 16], [0.0f32; 16], [0.0f32; 16]);
    for ((((x, w0), w1), w2), w3) in x.iter().zip(of(0)).zip(of(1)).zip(of(2)).zip(of(3)) {
        for i in 0..16 {
            s0[i] += x[i] * w0[i];
            s1[i] += x[i] * w1[i];
            s2[i] += x[i] * w2[i];
            s3[i] += x[i] * w3[i];
        }
    }
    let finish = |sums: [f32; 16], i: usize| {
        let weights = &weights[i * width + rest..(i + 1) * width];
        sums.iter().sum::<f32>() + x_rest.iter().zip(weights).map(|(x, w)| x * w).sum::<f32>()
    };
    [finish(s0, 0), finish(s1, 1), finish(s2, 2), finish(s3, 3)]
}

fn dot(x: &[f32], weight: &[f32]) -> f32 {
    x.iter().zip(weight).map(|(x, w)| x * w).sum()
}

/// A convolution of width 3 with one row of padding on each side, over rows of `channels`.
fn convolve(x: &[f32], channels: usize, weights: &Linear, stride: usize) -> Vec<f32> {
    let rows = x.len() / channels;
    let mut patches = Vec::with_capacity(rows.div_ceil(stride) * channels * 3);
    for row in (0..rows).step_by(stride) {
        // As the weights are laid out: channel by channel, the three taps together.
        for channel in 0..channels {
            for tap in 0..3 {
                let at = (row + tap).checked_sub(1).filter(|at| *at < rows);
                patches.push(at.map_or(0.0, |at| x[at * channels + channel]));
            }
        }
    }
    weights.run(&patches, channels * 3)
}

fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

fn softmax(row: &mut [f32]) {
    let largest = row.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
    let mut sum = 0.0f64;
    for v in row.iter_mut() {
        *v = (*v - largest).exp();
        sum += f64::from(*v);
    }
    for v in row {
        *v = (f64::from(*v) / sum) as f32;
    }
}

/// The exact GELU of every value, spread over threads as it takes longer than one would think.
fn gelu_all(values: &mut [f32]) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let each = values.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for values in values.chunks_mut(each) {
            scope.spawn(move || values.iter_mut().for_each(|v| *v = gelu(*v)));
        }
    });
}

/// The exact GELU, `x Φ(x)`.
pub fn gelu(x: f32) -> f32 {
    let x = f64::from(x);
    (0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))) as f32
}

/// 1/3, 1/5, 1/7, …
const ODD_RECIPROCALS: [f64; 80] = {
    let mut table = [0.0; 80];
    let mut i = 0;
    while i < 80 {
        table[i] = 1.0 / (2 * i + 3) as f64;
        i += 1;
    }
    table
};

/// The error function to nearly f64 precision: its series near zero, a continued fraction far from it.
fn erf(x: f64) -> f64 {
    let magnitude = x.abs();
    let two_over_root_pi = std::f64::consts::FRAC_2_SQRT_PI;
    if magnitude < 2.5 {
        // erf x = 2/√π e^(-x²) Σ 2^n x^(2n+1) / (2n+1)!!, all terms of one sign.
        let mut term = x;
        let mut sum = x;
        for odd in ODD_RECIPROCALS {
            term *= 2.0 * x * x * odd;
            sum += term;
            if term.abs() < 1e-16 * sum.abs() {
                break;
            }
        }
        return two_over_root_pi * (-x * x).exp() * sum;
    }
    if magnitude > 6.0 {
        return x.signum();
    }
    // erfc x = e^(-x²)/√π · 1/(x + ½/(x + 1/(x + 3/2/(x + 2/(x + …))))).
    let mut fraction = magnitude;
    for n in (1..60).rev() {
        fraction = magnitude + f64::from(n) / 2.0 / fraction;
    }
    let complement = 0.5 * two_over_root_pi * (-x * x).exp() / fraction;
    x.signum() * (1.0 - complement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_function_has_its_known_values() {
        for (x, value) in [
            (0.0, 0.0),
            (0.1, 0.112_462_916_018_284_89),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (2.499_999, 0.999_593_045_802_424_8),
            (3.0, 0.999_977_909_503_001_4),
            (4.5, 0.999_999_999_803_383_9),
        ] {
            assert!((erf(x) - value).abs() < 1e-9, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
    }

    #[test]
    fn a_product_is_the_sum_it_stands_for() {
        // Whole numbers, so that the order of summing does not matter; sizes that leave rests everywhere.
        let (rows, outputs, width) = (13, 75, 35);
        let x: Vec<f32> = (0..rows * width).map(|i| (i % 7) as f32 - 3.0).collect();
        let weight: Vec<f32> = (0..outputs * width).map(|i| (i % 11) as f32 - 5.0).collect();
        let bias: Vec<f32> = (0..outputs).map(|i| i as f32).collect();
        let check = |out: &[f32], bias: &[f32]| {
            for row in 0..rows {
                for o in 0..outputs {
                    let plain: f32 = (0..width).map(|i| x[row * width + i] * weight[o * width + i]).sum();
                    assert_eq!(out[row * outputs + o], plain + bias[o]);
                }
            }
        };
        check(&product(&x, &weight, Some(&bias), width), &bias);
        let mut out = vec![0.0; rows * outputs];
        product_plain(&x, &weight, &mut out, width);
        check(&out, &vec![0.0; outputs]);
    }
}
