//! The encoder: 30 s of mel frames in, 1500 states out.

use super::Compute;
use super::attention::{KeyValues, attend_frames, round_to_bf16};
use super::buffer::{Buffer, SharedMut};
use super::kernels::{BLOCK, Finish};
use super::linear::{CHUNK, Linear, Rows, Weights, apply, apply_chunk};
use crate::weights::{Checkpoint, Dims, WeightsError};

/// Mel frames of a window.
pub const MEL_FRAMES: usize = 3000;
/// bf16 elements of a cache line.
const LINE: usize = 32;
/// Rows that one member norms at a time.
const NORM_ROWS: usize = 64;

/// Gain and bias of a layer norm.
pub struct LayerNorm {
    gain: Buffer<f32>,
    bias: Buffer<f32>,
}

impl LayerNorm {
    /// Reads `name.weight` and `name.bias`.
    pub fn load(checkpoint: &Checkpoint, name: &str) -> Result<Self, WeightsError> {
        let read = |part: &str| -> Result<Buffer<f32>, WeightsError> {
            let values = checkpoint.tensor(&format!("{name}.{part}"))?;
            let mut buffer = Buffer::zeroed(values.len());
            buffer.copy_from_slice(&values);
            Ok(buffer)
        };
        Ok(LayerNorm { gain: read("weight")?, bias: read("bias")? })
    }

    /// Norms `rows` rows of float32 into bf16 rows that begin `stride` elements apart.
    pub fn apply(&self, compute: &Compute, input: &[f32], rows: usize, out: &mut Buffer<u16>, stride: usize) {
        let width = self.gain.len();
        assert!(input.len() >= rows * width && out.len() >= rows * stride, "both sides hold the rows");
        let (input, out) = (SharedMut::new(input.as_ptr().cast_mut()), out.shared());
        compute.each(rows.div_ceil(NORM_ROWS), |piece, _| {
            let first = piece * NORM_ROWS;
            let count = NORM_ROWS.min(rows - first);
            self.apply_rows(compute, input.at(first * width), count, out.at(first * stride), stride);
        });
    }

    /// The calling member's own norm of `rows` rows, which both sides must hold and nobody else writes.
    fn apply_rows(&self, compute: &Compute, input: *const f32, rows: usize, out: *mut u16, stride: usize) {
        let width = self.gain.len();
        for row in 0..rows {
            // SAFETY: the caller vouches for the rows.
            unsafe {
                let (from, to) = (input.add(row * width), out.add(row * stride));
                (compute.kernels.layer_norm)(from, self.gain.as_ptr(), self.bias.as_ptr(), width, to);
            }
        }
    }
}

/// Reads `name.weight [outputs][inputs]` and its bias, where it has one.
pub fn load_linear(checkpoint: &Checkpoint, name: &str, kept: Weights) -> Result<Linear, WeightsError> {
    load_stacked(checkpoint, &[name], kept)
}

/// Reads several layers with the same input as one, their outputs side by side.
pub fn load_stacked(checkpoint: &Checkpoint, names: &[&str], kept: Weights) -> Result<Linear, WeightsError> {
    let (mut weights, mut bias, mut inputs) = (Vec::new(), Vec::new(), 0);
    for name in names {
        let shape = checkpoint.shape(&format!("{name}.weight"))?;
        inputs = shape[1];
        weights.extend(checkpoint.tensor(&format!("{name}.weight"))?);
        let bias_name = format!("{name}.bias");
        if checkpoint.has(&bias_name) {
            bias.extend(checkpoint.tensor(&bias_name)?);
        } else {
            bias.resize(bias.len() + shape[0], 0.0);
        }
    }
    Ok(Linear::pack(&weights, bias.len(), inputs, Some(&bias), kept))
}

/// Reads a convolution of width 3 as a linear layer over three neighbouring frames.
fn load_convolution(checkpoint: &Checkpoint, name: &str, kept: Weights) -> Result<Linear, WeightsError> {
    let shape = checkpoint.shape(&format!("{name}.weight"))?;
    let (outputs, channels) = (shape[0], shape[1]);
    let weights = checkpoint.tensor(&format!("{name}.weight"))?;
    let mut unrolled = vec![0f32; weights.len()];
    for output in 0..outputs {
        for channel in 0..channels {
            for tap in 0..3 {
                unrolled[(output * 3 + tap) * channels + channel] = weights[(output * channels + channel) * 3 + tap];
            }
        }
    }
    let bias = checkpoint.tensor(&format!("{name}.bias"))?;
    Ok(Linear::pack(&unrolled, outputs, 3 * channels, Some(&bias), kept))
}

/// A finish that writes bf16 rows, after GELU where `gelu` says so.
pub fn store_bf16(
    compute: &Compute,
    out: SharedMut<u16>,
    stride: usize,
    gelu: bool,
) -> impl Fn(&Finish, usize, usize) + Sync + use<> {
    let finish = compute.kernels.finish_bf16;
    // SAFETY: every block is finished once and lands in its own part of `out`, which holds all rows.
    move |done, row, column| unsafe { finish(&Finish { gelu, ..*done }, out.at(row * stride + column), stride) }
}

/// A finish that adds to float32 rows: the residual stream.
pub fn add_to(
    compute: &Compute,
    out: SharedMut<f32>,
    stride: usize,
    gelu: bool,
) -> impl Fn(&Finish, usize, usize) + Sync + use<> {
    let finish = compute.kernels.finish_add;
    // SAFETY: every block is finished once and lands in its own part of `out`, which holds all rows.
    move |done, row, column| unsafe { finish(&Finish { gelu, ..*done }, out.at(row * stride + column), stride) }
}

struct Layer {
    attention_norm: LayerNorm,
    query_key_value: Linear,
    out: Linear,
    mlp_norm: LayerNorm,
    up: Linear,
    down: Linear,
}

/// The encoder's weights and the room it works in.
pub struct Encoder {
    width: usize,
    /// Elements from one bf16 row to the next: a cache line more than the width. Rows that lie a power of two apart
    /// fall on the same few cache sets; the line more makes the products a tenth faster.
    stride: usize,
    hidden_stride: usize,
    heads: usize,
    frames: usize,
    mels: usize,
    convolutions: [Linear; 2],
    positions: Vec<f32>,
    layers: Vec<Layer>,
    last_norm: LayerNorm,
    /// Mel frames with one empty frame before the first.
    mel: Buffer<u16>,
    /// Output of the first convolution with one empty row before the first.
    convolved: Buffer<u16>,
    /// The residual stream.
    stream: Buffer<f32>,
    normed: Buffer<u16>,
    query: Buffer<u16>,
    key_values: KeyValues,
    attended: Buffer<u16>,
    /// A chunk of rows for each member.
    hidden: Buffer<u16>,
}

impl Encoder {
    /// Packs the encoder's weights; a team of `members` will run it.
    pub fn load(checkpoint: &Checkpoint, weights: Weights, members: usize) -> Result<Self, WeightsError> {
        let Dims { n_mels, n_audio_ctx, n_audio_state: width, n_audio_head, n_audio_layer, .. } = checkpoint.dims;
        let layers = (0..n_audio_layer)
            .map(|index| {
                let name = |part: &str| format!("encoder.blocks.{index}.{part}");
                Ok(Layer {
                    attention_norm: LayerNorm::load(checkpoint, &name("attn_ln"))?,
                    query_key_value: load_stacked(
                        checkpoint,
                        &[&name("attn.query"), &name("attn.key"), &name("attn.value")],
                        weights,
                    )?,
                    out: load_linear(checkpoint, &name("attn.out"), weights)?,
                    mlp_norm: LayerNorm::load(checkpoint, &name("mlp_ln"))?,
                    up: load_linear(checkpoint, &name("mlp.0"), weights)?,
                    down: load_linear(checkpoint, &name("mlp.2"), weights)?,
                })
            })
            .collect::<Result<_, WeightsError>>()?;
        let rows = n_audio_ctx.next_multiple_of(BLOCK);
        let (stride, hidden_stride) = (width + LINE, 4 * width + LINE);
        Ok(Encoder {
            width,
            stride,
            hidden_stride,
            heads: n_audio_head,
            frames: n_audio_ctx,
            mels: n_mels,
            convolutions: [
                load_convolution(checkpoint, "encoder.conv1", weights)?,
                load_convolution(checkpoint, "encoder.conv2", weights)?,
            ],
            positions: checkpoint.tensor("encoder.positional_embedding")?,
            layers,
            last_norm: LayerNorm::load(checkpoint, "encoder.ln_post")?,
            // The products read whole blocks of rows and whole tiles, so each buffer ends in a few spare rows.
            mel: Buffer::zeroed((MEL_FRAMES + 2 * BLOCK) * n_mels),
            convolved: Buffer::zeroed((MEL_FRAMES + 3 * BLOCK) * width),
            stream: Buffer::zeroed(rows * width),
            normed: Buffer::zeroed(rows * stride),
            query: Buffer::zeroed(rows * stride),
            key_values: KeyValues::new(n_audio_head, n_audio_ctx),
            attended: Buffer::zeroed(rows * stride),
            hidden: Buffer::zeroed(members * CHUNK * hidden_stride),
        })
    }

    /// Encodes one window of frame-major mel values; the states stay in the encoder until the next call.
    pub fn encode(&mut self, compute: &Compute, mel: &[f32]) -> Rows {
        assert_eq!(mel.len(), MEL_FRAMES * self.mels, "a window is 3000 frames");
        let (width, frames, stride) = (self.width, self.frames, self.stride);
        round_to_bf16(mel, &mut self.mel[self.mels..]);
        // A row of the first convolution is three frames, which lie one after the other: frame r-1 starts at r.
        let rows = Rows { start: self.mel.as_ptr(), stride: self.mels, count: MEL_FRAMES };
        let out = SharedMut::new(self.convolved.shared().at(width));
        apply(compute, rows, &self.convolutions[0], &store_bf16(compute, out, width, true));
        // The second has stride two.
        self.stream[..frames * width].copy_from_slice(&self.positions[..frames * width]);
        let rows = Rows { start: self.convolved.as_ptr(), stride: 2 * width, count: frames };
        apply(compute, rows, &self.convolutions[1], &add_to(compute, self.stream.shared(), width, true));

        self.project(compute, None);
        for index in 0..self.layers.len() {
            let queries = Rows { start: self.query.as_ptr(), stride, count: frames };
            attend_frames(compute, queries, &self.key_values, self.heads, self.attended.shared(), stride);
            self.project(compute, Some(index));
        }
        Rows { start: self.normed.as_ptr(), stride, count: frames }
    }

    /// Everything between two attentions, a chunk of rows at a time: the output and the MLP of layer `after` (none
    /// before the first), then the norm, queries, keys and values of the next layer, or the last norm.
    ///
    /// A chunk's part of the residual stream and what is made of it stay in its member's second-level cache; done
    /// matrix by matrix for all rows they would go through memory ten times a layer.
    fn project(&mut self, compute: &Compute, after: Option<usize>) {
        let (width, frames, stride, hidden_stride) = (self.width, self.frames, self.stride, self.hidden_stride);
        let (stream, normed, query) = (self.stream.shared(), self.normed.shared(), self.query.shared());
        let hidden = self.hidden.shared();
        let attended = Rows { start: self.attended.as_ptr(), stride, count: frames };
        let keys = self.key_values.key_writer(compute);
        let values = self.key_values.value_writer(compute);
        let (layers, last_norm) = (&self.layers, &self.last_norm);
        let next = after.map_or(0, |layer| layer + 1);
        compute.each(frames.div_ceil(CHUNK), |piece, member| {
            let first = piece * CHUNK;
            let count = CHUNK.min(frames - first);
            // SAFETY (of the finishes and norms below): every row belongs to one piece, and `hidden` has a chunk of
            // rows for each member.
            let stream = SharedMut::new(stream.at(first * width));
            let hidden = SharedMut::new(hidden.at(member * CHUNK * hidden_stride));
            let normed_rows = Rows { start: normed.at(first * stride), stride, count };
            let norm =
                |norm: &LayerNorm| norm.apply_rows(compute, stream.at(0), count, normed.at(first * stride), stride);
            if let Some(layer) = after.map(|index| &layers[index]) {
                let add = add_to(compute, stream, width, false);
                apply_chunk(compute, attended.part(first, count, 0), &layer.out, &add);
                norm(&layer.mlp_norm);
                let store = store_bf16(compute, hidden, hidden_stride, true);
                apply_chunk(compute, normed_rows, &layer.up, &store);
                let hidden_rows = Rows { start: hidden.at(0), stride: hidden_stride, count };
                apply_chunk(compute, hidden_rows, &layer.down, &add);
            }
            let Some(layer) = layers.get(next) else {
                norm(last_norm);
                return;
            };
            norm(&layer.attention_norm);
            let query = store_bf16(compute, SharedMut::new(query.at(first * stride)), stride, false);
            let projections = &layer.query_key_value;
            apply_chunk(compute, normed_rows, projections, &|done, row, column| match column / width {
                0 => query(done, row, column),
                1 => keys(done, first + row, column - width),
                _ => values(done, first + row, column - 2 * width),
            });
        });
    }

    /// The states of the last window, rounded to bf16: `1500 × width`.
    pub fn states(&self) -> Vec<u16> {
        let rows = self.normed.chunks_exact(self.stride).take(self.frames);
        rows.flat_map(|row| &row[..self.width]).copied().collect()
    }
}
