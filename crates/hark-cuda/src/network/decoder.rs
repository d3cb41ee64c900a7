//! The decoder: tokens to answers, for many rows at once.

use hark_whisper::weights::Dims;

use super::weights::NetworkWeights;
use crate::device::{
    AlignedText, AnswerBuffers, Device, DeviceBuffer, DeviceResult, Entries, EntryGroups, GraphKey, KvCache,
    LinearWeights, MOST_ALIGNED, MOST_ENTRIES, NormWeights, Output, StepEntry, WindowKeys, as_bytes,
};

/// Bytes of an entry and of a query on the device.
const ENTRY_BYTES: usize = 16;
const QUERY_BYTES: usize = 32;
/// Bytes of a group.
const GROUP_BYTES: usize = 8;

/// What changes from step to step, in one buffer that is copied at once: the flag for numbers that are not finite, entries, the rows
/// that are asked about, queries, and the past of each entry.
pub struct StepInputs<B> {
    all: B,
    positions: usize,
}

/// How many entries, queries and groups a step has.
#[derive(Clone, Copy)]
struct Sizes {
    entries: usize,
    queries: usize,
    groups: usize,
}

impl From<GraphKey> for Sizes {
    fn from(step: GraphKey) -> Self {
        Sizes { entries: step.entries, queries: step.queries, groups: step.groups }
    }
}

/// Where the parts of a step's inputs begin, in bytes.
struct Places {
    entries: usize,
    rows: usize,
    queries: usize,
    groups: usize,
    past: usize,
    end: usize,
}

impl<B: DeviceBuffer> StepInputs<B> {
    /// Bytes before the entries, in which the flag is.
    const HEADER: usize = 16;

    /// The places of the parts of a step.
    fn places(positions: usize, step: Sizes) -> Places {
        let rows = Self::HEADER + step.entries * ENTRY_BYTES;
        let queries = (rows + step.queries * 4).next_multiple_of(16);
        let groups = queries + step.queries * QUERY_BYTES;
        let past = (groups + step.groups * GROUP_BYTES).next_multiple_of(16);
        Places { entries: Self::HEADER, rows, queries, groups, past, end: past + step.entries * positions * 2 }
    }

    fn bytes(dims: &Dims) -> usize {
        Self::places(dims.n_text_ctx, Sizes { entries: MOST_ENTRIES, queries: MOST_ENTRIES, groups: MOST_ENTRIES }).end
    }

    /// Copies a step to the device.
    pub fn upload<D: Device<Buffer = B>>(&self, device: &D, step: &Step) -> DeviceResult {
        let sizes = Sizes { entries: step.entries.len(), queries: step.queries.len(), groups: step.groups.len() };
        let places = Self::places(self.positions, sizes);
        let mut bytes = vec![0u8; places.end];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        for (index, entry) in step.entries.iter().enumerate() {
            put(places.entries + index * ENTRY_BYTES, as_bytes(&entry.words()));
        }
        put(places.rows, as_bytes(&step.asking));
        for (index, query) in step.queries.iter().enumerate() {
            put(places.queries + index * QUERY_BYTES, as_bytes(&query.words()));
        }
        put(places.groups, as_bytes(step.groups.as_flattened()));
        for (index, past) in step.past.iter().enumerate() {
            put(places.past + index * self.positions * 2, as_bytes(past));
        }
        device.upload(&bytes, &self.all)
    }

    /// Entries, their past and their groups.
    fn entries(&self, step: Sizes) -> [B; 3] {
        let places = Self::places(self.positions, step);
        [places.entries, places.past, places.groups].map(|place| self.all.offset(place))
    }
}

/// A step as the device gets it.
pub struct Step<'a> {
    pub entries: Vec<StepEntry>,
    /// Of each entry, which row of the KV cache has the key of each position up to its own. Entries that only fill up a batch have none.
    pub past: &'a [Vec<u16>],
    /// Entries that follow each other and have one window.
    pub groups: Vec<[u32; 2]>,
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
    /// Texts that are aligned, and what the heads agree on, f32 `[row][frame]`.
    pub aligned: B,
    pub agreed: B,
}

/// The windows and rows that are decoded.
pub struct DecoderMemory<B> {
    /// `[slot][layer][key, value][head][frame][64]`, bf16; e4m3 where there are scales.
    pub windows: B,
    pub slot_stride: usize,
    /// f32 `[slot][layer][key, value][head]`.
    pub scales: Option<B>,
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

/// Scales of a slot's keys and values, where they are in e4m3.
pub fn slot_scales(dims: &Dims) -> usize {
    dims.n_text_layer * 2 * dims.n_text_head
}

impl<B: DeviceBuffer> DecoderMemory<B> {
    /// Bytes of a number of the windows.
    pub fn number_bytes(&self) -> usize {
        if self.scales.is_some() { 1 } else { 2 }
    }

    /// Keys and values of a layer: its numbers and their scales, to be borrowed.
    pub fn layer(&self, dims: &Dims, layer: usize) -> (B, Option<B>) {
        let at = layer * dims.n_audio_ctx * 2 * dims.n_text_state;
        let scales = self.scales.as_ref().map(|scales| scales.offset(layer * 2 * dims.n_text_head * 4));
        (self.windows.offset(at * self.number_bytes()), scales)
    }

    /// The same as operations take them.
    pub fn keys<'a>(&self, dims: &Dims, (numbers, scales): &'a (B, Option<B>)) -> WindowKeys<'a, B> {
        WindowKeys {
            numbers,
            slot_stride: self.slot_stride,
            scales: scales.as_ref(),
            scale_stride: slot_scales(dims),
            frames: dims.n_audio_ctx,
            width: dims.n_text_state,
        }
    }
}

impl<B: DeviceBuffer> DecoderWorkspace<B> {
    /// Bytes of it.
    pub fn bytes(dims: &Dims, heads: usize, languages: usize) -> u64 {
        let width = dims.n_text_state;
        let rows = MOST_ENTRIES * (4 + 2 + 6 + 2 + 2 + 8 + 2) * width;
        let logits = MOST_ENTRIES * vocabulary(dims) * 4;
        let answers = AnswerBuffers::<B>::bytes(MOST_ENTRIES) + MOST_ENTRIES * (1 + languages) * 4;
        let taps = (heads + 1) * MOST_ENTRIES * dims.n_audio_ctx * 4 + MOST_ALIGNED * AlignedText::BYTES;
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
            aligned: device.allocate(MOST_ALIGNED * AlignedText::BYTES)?,
            agreed: device.allocate(MOST_ENTRIES * dims.n_audio_ctx * 4)?,
        })
    }

    /// Runs the entries of a step through all layers.
    pub fn forward<D: Device<Buffer = B>>(
        &self,
        device: &D,
        weights: &NetworkWeights<B>,
        memory: &DecoderMemory<B>,
        dims: &Dims,
        step: GraphKey,
        mut tap: Option<Tap<B>>,
    ) -> DeviceResult {
        let width = dims.n_text_state;
        let (count, are_distinct) = (step.entries, step.are_distinct);
        let [entries, past, list] = self.inputs.entries(step.into());
        let groups = (step.groups < count).then_some(EntryGroups { count: step.groups, list: &list });
        let entries = Entries { count, entries: &entries, past: &past, are_distinct, groups };
        device.embed_tokens(&entries, width, &weights.embedding.weight, &weights.decoder_positions, &self.stream)?;
        let normed = |norm: &NormWeights<B>, layer: &LinearWeights<B>, to: &B, output: Output| {
            device.norm_linear(count, &self.stream, norm, &self.normed, layer, to, output)
        };
        for (index, layer) in weights.decoder.iter().enumerate() {
            let (attention, cross, mlp) = (&layer.attention, &layer.cross, &layer.mlp);
            normed(&attention.norm, &attention.query_key_value, &self.query_key_value, Output::Bf16)?;
            device.self_attention(&entries, &self.query_key_value, &memory.cache, index, &self.attended)?;
            device.linear(count, &self.attended, &attention.out, &self.stream, Output::AddF32)?;
            normed(&cross.norm, &cross.query, &self.query, Output::Bf16)?;
            let of_layer = memory.layer(dims, index);
            let windows = memory.keys(dims, &of_layer);
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

    /// Answers the queries of a step after [`DecoderWorkspace::forward`].
    pub fn answer<D: Device<Buffer = B>>(
        &self,
        device: &D,
        weights: &NetworkWeights<B>,
        dims: &Dims,
        step: GraphKey,
    ) -> DeviceResult {
        let (queries, places) = (step.queries, StepInputs::<B>::places(dims.n_text_ctx, step.into()));
        let rows = self.inputs.all.offset(places.rows);
        let flag = &self.inputs.all;
        let norm = &weights.decoder_norm;
        device.layer_norm(queries, dims.n_text_state, &self.stream, norm, &self.asking, Some(&rows), Some(flag))?;
        device.linear(queries, &self.asking, &weights.embedding, &self.logits, Output::F32)?;
        let list = self.inputs.all.offset(places.queries);
        device.answer(queries, flag, &list, &self.logits, vocabulary(dims), &weights.tokens, &self.answers)
    }

    /// Scores of a head for the entries `first..first + rows` of a step, and the first `frames` frames, to the place `to` of the taps.
    pub fn head_scores<D: Device<Buffer = B>>(
        &self,
        device: &D,
        queries: &B,
        windows: &WindowKeys<B>,
        (first, rows, all): (usize, usize, GraphKey),
        (head, frames): (usize, usize),
        to: usize,
    ) -> DeviceResult {
        let [entries, past, _] = self.inputs.entries(all.into());
        let entries =
            Entries { count: first + rows, entries: &entries, past: &past, are_distinct: false, groups: None };
        device.head_scores(&entries, first, head, frames, queries, windows, &self.taps.offset(to * 4))
    }
}
