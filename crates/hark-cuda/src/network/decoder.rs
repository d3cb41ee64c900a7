//! The decoder: tokens to answers, for many rows at once.

use hark_whisper::weights::Dims;

use super::weights::NetworkWeights;
use crate::device::{
    AnswerBuffers, Device, DeviceBuffer, DeviceResult, Entries, KvCache, LinearWeights, MOST_ENTRIES, NormWeights,
    Output, StepEntry, WindowKeys,
};

/// Bytes of an entry and of a query on the device.
const ENTRY_BYTES: usize = 16;
const QUERY_BYTES: usize = 32;

/// What changes from step to step, in one buffer that is copied at once: the flag for numbers that are not finite, entries, the rows
/// that are asked about, queries, and the past of each entry.
pub struct StepInputs<B> {
    all: B,
    positions: usize,
}

impl<B: DeviceBuffer> StepInputs<B> {
    const ENTRIES: usize = 256;
    const ROWS: usize = Self::ENTRIES + MOST_ENTRIES * ENTRY_BYTES;
    const QUERIES: usize = Self::ROWS + MOST_ENTRIES * 4;
    const PAST: usize = Self::QUERIES + MOST_ENTRIES * QUERY_BYTES;

    fn bytes(dims: &Dims) -> usize {
        Self::PAST + MOST_ENTRIES * dims.n_text_ctx * 2
    }

    /// Copies a step to the device.
    pub fn upload<D: Device<Buffer = B>>(&self, device: &D, step: &Step) -> DeviceResult {
        let mut bytes = vec![0u8; Self::PAST + step.entries.len() * self.positions * 2];
        let mut put = |at: usize, words: &[u32]| {
            for (index, word) in words.iter().enumerate() {
                bytes[at + index * 4..][..4].copy_from_slice(&word.to_ne_bytes());
            }
        };
        for (index, entry) in step.entries.iter().enumerate() {
            put(Self::ENTRIES + index * ENTRY_BYTES, &entry.words());
        }
        put(Self::ROWS, &step.asking);
        for (index, query) in step.queries.iter().enumerate() {
            put(Self::QUERIES + index * QUERY_BYTES, &query.words());
        }
        for (index, past) in step.past.iter().enumerate() {
            let at = Self::PAST + index * self.positions * 2;
            for (place, row) in bytes[at..].chunks_exact_mut(2).zip(past) {
                place.copy_from_slice(&row.to_ne_bytes());
            }
        }
        device.upload(&bytes, &self.all)
    }
}

/// A step as the device gets it.
#[derive(Default)]
pub struct Step {
    pub entries: Vec<StepEntry>,
    /// Of each entry, which row of the KV cache has the key of each position up to its own.
    pub past: Vec<Vec<u16>>,
    /// The entries that are asked about.
    pub asking: Vec<u32>,
    pub queries: Vec<crate::device::DeviceQuery>,
}

/// The workspace of a step.
pub struct DecoderWorkspace<B> {
    pub inputs: StepInputs<B>,
    stream: B,
    normed: B,
    query_key_value: B,
    query: B,
    attended: B,
    hidden: B,
    asking: B,
    logits: B,
    pub answers: AnswerBuffers<B>,
    /// Scores of alignment heads, f32 `[head][row][frame]`.
    pub taps: B,
}

/// The windows and rows that are decoded.
pub struct DecoderMemory<B> {
    /// bf16 `[slot][layer][key, value][head][frame][64]`.
    pub windows: B,
    pub slot_stride: usize,
    pub cache: KvCache<B>,
}

/// Called in each layer with its number, the queries of cross-attention, and the keys.
pub type Tap<'a, B> = &'a mut dyn FnMut(usize, &B, &WindowKeys<B>) -> DeviceResult;

fn vocabulary(dims: &Dims) -> usize {
    dims.n_vocab.next_multiple_of(8)
}

/// Numbers of a slot's keys and values.
pub fn slot_numbers(dims: &Dims) -> usize {
    dims.n_text_layer * dims.n_audio_ctx * 2 * dims.n_text_state
}

/// Numbers of a row's KV cache.
pub fn row_numbers(dims: &Dims) -> usize {
    dims.n_text_layer * dims.n_text_ctx * 2 * dims.n_text_state
}

impl<B: DeviceBuffer> DecoderWorkspace<B> {
    /// Bytes of it.
    pub fn bytes(dims: &Dims, heads: usize, languages: usize) -> u64 {
        let width = dims.n_text_state;
        let rows = MOST_ENTRIES * (4 + 2 + 6 + 2 + 2 + 8 + 2) * width;
        let logits = MOST_ENTRIES * vocabulary(dims) * 4;
        let answers = AnswerBuffers::<B>::bytes(MOST_ENTRIES) + MOST_ENTRIES * (1 + languages) * 4;
        let taps = heads * MOST_ENTRIES * dims.n_audio_ctx * 4;
        (StepInputs::<B>::bytes(dims) + rows + logits + answers + taps) as u64
    }

    pub fn new<D: Device<Buffer = B>>(device: &D, dims: &Dims, heads: usize, languages: usize) -> DeviceResult<Self> {
        let width = dims.n_text_state;
        let halves = |numbers: usize| device.allocate(MOST_ENTRIES * numbers * 2);
        let words = |numbers: usize| device.allocate(MOST_ENTRIES * numbers * 4);
        Ok(DecoderWorkspace {
            inputs: StepInputs { all: device.allocate(StepInputs::<B>::bytes(dims))?, positions: dims.n_text_ctx },
            stream: words(width)?,
            normed: halves(width)?,
            query_key_value: halves(3 * width)?,
            query: halves(width)?,
            attended: halves(width)?,
            hidden: halves(4 * width)?,
            asking: halves(width)?,
            logits: words(vocabulary(dims))?,
            answers: AnswerBuffers {
                best: device.allocate(AnswerBuffers::<B>::bytes(MOST_ENTRIES))?,
                others: words(1 + languages)?,
            },
            taps: device.allocate((heads * MOST_ENTRIES * dims.n_audio_ctx * 4).max(4))?,
        })
    }

    /// Runs `count` entries through all layers.
    pub fn forward<D: Device<Buffer = B>>(
        &self,
        device: &D,
        weights: &NetworkWeights<B>,
        memory: &DecoderMemory<B>,
        dims: &Dims,
        count: usize,
        mut tap: Option<Tap<B>>,
    ) -> DeviceResult {
        let (width, frames) = (dims.n_text_state, dims.n_audio_ctx);
        let (entries, past) =
            (self.inputs.all.offset(StepInputs::<B>::ENTRIES), self.inputs.all.offset(StepInputs::<B>::PAST));
        let entries = Entries { count, entries: &entries, past: &past };
        device.embed_tokens(&entries, width, &weights.embedding.weight, &weights.decoder_positions, &self.stream)?;
        let normed = |norm: &NormWeights<B>, layer: &LinearWeights<B>, to: &B, output: Output| {
            device.norm_linear(count, &self.stream, norm, &self.normed, layer, to, output)
        };
        for (index, layer) in weights.decoder.iter().enumerate() {
            let (attention, cross, mlp) = (&layer.attention, &layer.cross, &layer.mlp);
            normed(&attention.norm, &attention.query_key_value, &self.query_key_value, Output::Bf16)?;
            device.store_keys_values(&entries, &self.query_key_value, &memory.cache, index)?;
            device.self_attention(&entries, &self.query_key_value, &memory.cache, index, &self.attended)?;
            device.linear(count, &self.attended, &attention.out, &self.stream, Output::AddF32)?;
            normed(&cross.norm, &cross.query, &self.query, Output::Bf16)?;
            let numbers = memory.windows.offset(index * frames * 2 * width * 2);
            let windows = WindowKeys { numbers: &numbers, slot_stride: memory.slot_stride, frames, width };
            if let Some(tap) = &mut tap {
                tap(index, &self.query, &windows)?;
            }
            device.cross_attention(&entries, &self.query, &windows, &self.attended)?;
            device.linear(count, &self.attended, &cross.out, &self.stream, Output::AddF32)?;
            normed(&mlp.norm, &mlp.up, &self.hidden, Output::Gelu)?;
            device.linear(count, &self.hidden, &mlp.down, &self.stream, Output::AddF32)?;
        }
        Ok(())
    }

    /// Answers `queries` queries about the entries after [`DecoderWorkspace::forward`].
    pub fn answer<D: Device<Buffer = B>>(
        &self,
        device: &D,
        weights: &NetworkWeights<B>,
        dims: &Dims,
        queries: usize,
    ) -> DeviceResult {
        let rows = self.inputs.all.offset(StepInputs::<B>::ROWS);
        let flag = &self.inputs.all;
        let norm = &weights.decoder_norm;
        device.layer_norm(queries, dims.n_text_state, &self.stream, norm, &self.asking, Some(&rows), Some(flag))?;
        device.linear(queries, &self.asking, &weights.embedding, &self.logits, Output::F32)?;
        let list = self.inputs.all.offset(StepInputs::<B>::QUERIES);
        device.answer(queries, flag, &list, &self.logits, vocabulary(dims), &weights.tokens, &self.answers)
    }

    /// Scores of a head for the entries `first..first + rows` and the first `frames` frames, to the place `to` of the taps.
    pub fn head_scores<D: Device<Buffer = B>>(
        &self,
        device: &D,
        queries: &B,
        windows: &WindowKeys<B>,
        (first, rows): (usize, usize),
        (head, frames): (usize, usize),
        to: usize,
    ) -> DeviceResult {
        let entries = self.inputs.all.offset(StepInputs::<B>::ENTRIES);
        let past = self.inputs.all.offset(StepInputs::<B>::PAST);
        let entries = Entries { count: first + rows, entries: &entries, past: &past };
        device.head_scores(&entries, first, head, frames, queries, windows, &self.taps.offset(to * 4))
    }
}
