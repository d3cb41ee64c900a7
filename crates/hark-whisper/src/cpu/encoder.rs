//! The encoder: 30 s of mel frames in, 1500 states out.

use std::ops::Range;

use hark_compute::Compute;
use hark_compute::attention::{KeyValues, QUERY_SCALE, frame_pairs, round_to_bf16, self_attention};
use hark_compute::buffer::Buffer;
use hark_compute::kernels::{BLOCK, BlockEpilogue};
use hark_compute::linear::{CHUNK, Linear, Rows, Weights, add_residual, matmul, matmul_chunk, store_bf16};
use hark_compute::norm::LayerNorm;
use hark_compute::view::{MatMut, MatRef};

use super::times::{Part, Times};
use crate::weights::{Checkpoint, Dims, WeightsError};

/// Mel frames of a window.
pub const MEL_FRAMES: usize = 3000;
/// bf16 elements of a cache line.
const LINE: usize = 32;

/// Reads the gain `name.weight` and the bias `name.bias` of a layer norm.
pub fn load_norm(checkpoint: &Checkpoint, name: &str) -> Result<LayerNorm, WeightsError> {
    let (gain, bias) = (checkpoint.tensor(&format!("{name}.weight"))?, checkpoint.tensor(&format!("{name}.bias"))?);
    Ok(LayerNorm::new(&gain, &bias))
}

/// Reads `name.weight [outputs][inputs]` and its bias, where it has one.
pub fn load_linear(checkpoint: &Checkpoint, name: &str, kept: Weights) -> Result<Linear, WeightsError> {
    load_stacked(checkpoint, &[(name, 1.0)], kept)
}

/// Reads several layers with the same input as one, their outputs side by side, each multiplied by its factor.
pub fn load_stacked(checkpoint: &Checkpoint, names: &[(&str, f32)], kept: Weights) -> Result<Linear, WeightsError> {
    let (mut weights, mut bias, mut inputs) = (Vec::new(), Vec::new(), 0);
    for &(name, factor) in names {
        let shape = checkpoint.shape(&format!("{name}.weight"))?;
        inputs = shape[1];
        weights.extend(checkpoint.tensor(&format!("{name}.weight"))?.iter().map(|weight| weight * factor));
        let bias_name = format!("{name}.bias");
        if checkpoint.has(&bias_name) {
            bias.extend(checkpoint.tensor(&bias_name)?.iter().map(|bias| bias * factor));
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

/// Whether all bf16 numbers are finite.
pub fn all_finite(numbers: &[u16]) -> bool {
    // All bits of the exponent set; counted without a branch, so that it takes whole vectors.
    numbers.iter().fold(0u32, |odd, number| odd + u32::from(number & 0x7f80 == 0x7f80)) == 0
}

struct Layer {
    attention_norm: LayerNorm,
    query_key_value: Linear,
    out: Linear,
    mlp_norm: LayerNorm,
    up: Linear,
    down: Linear,
}

/// The encoder's weights and the workspace it works in.
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
    /// One that all layers use in turn.
    key_values: Vec<KeyValues>,
    attended: Buffer<u16>,
    /// A chunk of rows for each thread.
    hidden: Buffer<u16>,
    threads: usize,
    /// What the threads spent where.
    pub times: Times,
}

/// Every layer's keys and values of a window, so that a part of it can be re-encoded.
#[derive(Default)]
pub struct EncoderCache(Vec<KeyValues>);

impl EncoderCache {
    /// Bytes of a network's cache of a window.
    pub fn bytes(dims: &Dims) -> u64 {
        (dims.n_audio_layer * 2 * KeyValues::padded_frames(dims.n_audio_ctx) * dims.n_audio_state * 2) as u64
    }
}

impl Encoder {
    /// Packs the encoder's weights; so many threads will run it.
    pub fn load(checkpoint: &Checkpoint, weights: Weights, threads: usize) -> Result<Self, WeightsError> {
        let Dims { n_mels, n_audio_ctx, n_audio_state: width, n_audio_head, n_audio_layer, .. } = checkpoint.dims;
        let layers = (0..n_audio_layer)
            .map(|index| {
                let name = |part: &str| format!("encoder.blocks.{index}.{part}");
                Ok(Layer {
                    attention_norm: load_norm(checkpoint, &name("attn_ln"))?,
                    query_key_value: load_stacked(
                        checkpoint,
                        &[(&name("attn.query"), QUERY_SCALE), (&name("attn.key"), 1.0), (&name("attn.value"), 1.0)],
                        weights,
                    )?,
                    out: load_linear(checkpoint, &name("attn.out"), weights)?,
                    mlp_norm: load_norm(checkpoint, &name("mlp_ln"))?,
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
            last_norm: load_norm(checkpoint, "encoder.ln_post")?,
            // The products read whole blocks of rows and whole tiles, so each buffer ends in a few spare rows.
            mel: Buffer::zeroed((MEL_FRAMES + 2 * BLOCK) * n_mels),
            convolved: Buffer::zeroed((MEL_FRAMES + 3 * BLOCK) * width),
            stream: Buffer::zeroed(rows * width),
            normed: Buffer::zeroed(rows * stride),
            query: Buffer::zeroed(rows * stride),
            key_values: vec![KeyValues::new(n_audio_head, n_audio_ctx)],
            attended: Buffer::zeroed(rows * stride),
            hidden: Buffer::zeroed(threads * CHUNK * hidden_stride),
            threads,
            times: Times::default(),
        })
    }

    /// Encodes one window of frame-major mel values; the states stay in the encoder until the next call.
    pub fn encode(&mut self, compute: &Compute, mel: &[f32]) -> Rows<'_> {
        let mut key_values = std::mem::take(&mut self.key_values);
        self.encode_rows(compute, mel, 0..self.frames, &mut key_values);
        self.key_values = key_values;
        self.rows(0..self.frames)
    }

    /// Encodes one window and stores every layer's keys and values in `cache`, or re-encodes only the rows `fresh` of a
    /// cached window, which attend to the other rows as cached.
    ///
    /// `fresh` begins and ends at whole blocks, or at the window's end.
    pub fn encode_cached(
        &mut self,
        compute: &Compute,
        mel: &[f32],
        fresh: Range<usize>,
        cache: &mut EncoderCache,
    ) -> Rows<'_> {
        cache.0.resize_with(self.layers.len(), || KeyValues::new(self.heads, self.frames));
        self.encode_rows(compute, mel, fresh.clone(), &mut cache.0);
        self.rows(fresh)
    }

    pub fn rows(&self, rows: Range<usize>) -> Rows<'_> {
        Rows::new(&self.normed[rows.start * self.stride..], self.stride, rows.len())
    }

    /// Whether the states of the last window's `rows` are finite.
    pub fn is_finite(&self, rows: Range<usize>) -> bool {
        let mut states = self.normed[rows.start * self.stride..rows.end * self.stride].chunks_exact(self.stride);
        states.all(|row| all_finite(&row[..self.width]))
    }

    /// Bytes of the weights.
    pub fn weight_bytes(&self) -> u64 {
        let of_layer = |layer: &Layer| {
            [&layer.query_key_value, &layer.out, &layer.up, &layer.down].map(Linear::memory).iter().sum::<u64>()
        };
        let convolutions: u64 = self.convolutions.iter().map(Linear::memory).sum();
        convolutions + self.layers.iter().map(of_layer).sum::<u64>() + (self.positions.len() * 4) as u64
    }

    /// Bytes of the workspace.
    pub fn workspace_bytes(&self) -> u64 {
        let bf16 = [&self.mel, &self.convolved, &self.normed, &self.query, &self.attended, &self.hidden];
        let key_values: u64 = self.key_values.iter().map(KeyValues::bytes).sum();
        bf16.map(Buffer::bytes).iter().sum::<u64>() + self.stream.bytes() + key_values
    }

    /// Frees the workspace until the next window.
    pub fn trim(&mut self) {
        for buffer in [
            &mut self.mel,
            &mut self.convolved,
            &mut self.normed,
            &mut self.query,
            &mut self.attended,
            &mut self.hidden,
        ] {
            buffer.clear();
        }
        self.stream.clear();
        self.key_values.iter_mut().for_each(KeyValues::clear);
    }

    /// Runs `fresh` rows through all layers; `key_values` has one for each layer, or one that all of them use.
    fn encode_rows(&mut self, compute: &Compute, mel: &[f32], fresh: Range<usize>, key_values: &mut [KeyValues]) {
        assert_eq!(mel.len(), MEL_FRAMES * self.mels, "a window is 3000 frames");
        assert!(
            fresh.start.is_multiple_of(BLOCK)
                && (fresh.end.is_multiple_of(BLOCK) && fresh.end < self.frames || fresh.end == self.frames),
            "whole blocks of rows"
        );
        let (width, stride, mels) = (self.width, self.stride, self.mels);
        let mut watch = self.times.watch();
        // A row of the second convolution sees three of the first, and such a row three frames.
        let convolved = (2 * fresh.start).saturating_sub(2)..2 * fresh.end;
        let seen = convolved.start.saturating_sub(1)..(convolved.end + 1).min(MEL_FRAMES);
        round_to_bf16(&mel[seen.start * mels..seen.end * mels], &mut self.mel[(seen.start + 1) * mels..]);
        // A row of the first convolution is three frames, which lie one after the other: frame r-1 starts at r.
        let rows = Rows::new(&self.mel[convolved.start * mels..], mels, convolved.len());
        let out = &mut self.convolved[(convolved.start + 1) * width..][..convolved.len() * width];
        // SAFETY: a product gives every block once.
        unsafe {
            let out = MatMut::new(out, convolved.len(), width, width);
            matmul(compute, rows, &self.convolutions[0], &store_bf16(compute, out, true));
        }
        // The second has stride two.
        let places = fresh.start * width..fresh.end * width;
        self.stream[places.clone()].copy_from_slice(&self.positions[places.clone()]);
        let rows = Rows::new(&self.convolved[2 * fresh.start * width..], 2 * width, fresh.len());
        let out = MatMut::new(&mut self.stream[places], fresh.len(), width, width);
        // SAFETY: a product gives every block once.
        unsafe { matmul(compute, rows, &self.convolutions[1], &add_residual(compute, out, true)) };
        watch.lap_of(self.threads, Part::Convolutions);

        let last = key_values.len() - 1;
        self.project(compute, None, &fresh, &mut key_values[0]);
        for index in 0..self.layers.len() {
            let queries = Rows::new(&self.query[fresh.start * stride..], stride, fresh.len());
            let out = &mut self.attended[fresh.start * stride..];
            let mut watch = self.times.watch();
            self_attention(compute, queries, &key_values[index.min(last)], self.heads, out, stride);
            watch.lap_of(self.threads, Part::Attention);
            self.project(compute, Some(index), &fresh, &mut key_values[(index + 1).min(last)]);
        }
    }

    /// Everything between two attentions, a chunk of rows at a time: the output and the MLP of layer `after` (none
    /// before the first), then the norm, queries, keys and values of the next layer, or the last norm.
    ///
    /// A chunk's part of the residual stream and what is made of it stay in its thread's second-level cache; done
    /// matrix by matrix for all rows they would go through memory ten times a layer.
    fn project(&mut self, compute: &Compute, after: Option<usize>, fresh: &Range<usize>, key_values: &mut KeyValues) {
        let (width, stride, hidden_stride) = (self.width, self.stride, self.hidden_stride);
        let (stream, normed, query) = (self.stream.shared(), self.normed.shared(), self.query.shared());
        let hidden = self.hidden.shared();
        let reach = self.normed.len();
        let attended = Rows::new(&self.attended, stride, self.frames);
        let (keys, values) = key_values.writers(compute, frame_pairs(compute));
        let (layers, last_norm, times) = (&self.layers, &self.last_norm, &self.times);
        let next = after.map_or(0, |layer| layer + 1);
        // Few rows are shared out evenly; many go in chunks as large as fit.
        let chunk = fresh.len().div_ceil(self.threads).next_multiple_of(BLOCK).min(CHUNK);
        compute.parallel_for(fresh.len().div_ceil(chunk), |piece, worker| {
            let first = fresh.start + piece * chunk;
            let count = chunk.min(fresh.end - first);
            let stream = stream.at(first * width);
            let hidden = hidden.at(worker.thread() * CHUNK * hidden_stride);
            // SAFETY: the rows of this piece in the stream and the normed rows belong to it alone, and nothing else uses them
            // during a norm.
            let norm = |norm: &LayerNorm| unsafe {
                let to = MatMut::from_raw(normed.at(first * stride), count, width, stride);
                norm.apply_rows(compute, MatRef::from_raw(stream, count, width, width), to);
            };
            // SAFETY: as above; the buffer goes on for the rest of its length.
            let normed_rows =
                unsafe { Rows::from_raw(normed.at(first * stride), reach - first * stride, stride, count) };
            let mut watch = times.watch();
            if let Some(layer) = after.map(|index| &layers[index]) {
                // SAFETY: rows of the stream belong to one piece, `hidden` has a chunk of rows for each thread, and a product
                // gives every block once.
                unsafe {
                    let add = add_residual(compute, MatMut::from_raw(stream, count, width, width), false);
                    matmul_chunk(worker, attended.part(first, count, 0), &layer.out, &add, true);
                    watch.lap(Part::Out);
                    norm(&layer.mlp_norm);
                    watch.lap(Part::Norm);
                    let to = MatMut::from_raw(hidden, count, 4 * width, hidden_stride);
                    matmul_chunk(worker, normed_rows, &layer.up, &store_bf16(compute, to, true), true);
                    watch.lap(Part::Up);
                    let hidden_rows = Rows::from_raw(hidden, CHUNK * hidden_stride, hidden_stride, count);
                    matmul_chunk(worker, hidden_rows, &layer.down, &add, true);
                    watch.lap(Part::Down);
                }
            }
            let Some(layer) = layers.get(next) else {
                norm(last_norm);
                watch.lap(Part::Norm);
                return;
            };
            norm(&layer.attention_norm);
            watch.lap(Part::Norm);
            let projections = &layer.query_key_value;
            // SAFETY: rows of the queries, keys and values belong to one piece, and a product gives every block once.
            unsafe {
                let to = MatMut::from_raw(query.at(first * stride), count, width, stride);
                let query = store_bf16(compute, to, false);
                let epilogue = |block: &BlockEpilogue, row: usize, column: usize| match column / width {
                    0 => query(block, row, column),
                    1 => keys.write(block, first + row, column - width),
                    _ => values.write(block, first + row, column - 2 * width),
                };
                // Keys and values are transposed block by block.
                matmul_chunk(worker, normed_rows, projections, &epilogue, false);
            }
            watch.lap(Part::QueryKeyValue);
        });
    }

    /// The states of the last window, rounded to bf16: `1500 × width`.
    pub fn states(&self) -> Vec<u16> {
        let rows = self.normed.chunks_exact(self.stride).take(self.frames);
        rows.flat_map(|row| &row[..self.width]).copied().collect()
    }
}
