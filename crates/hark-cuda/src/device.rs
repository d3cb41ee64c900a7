//! What the network needs of a device: memory, a few operations on it, and graphs of them.
//!
//! There are two: [`crate::cuda::CudaDevice`], and [`crate::plain::PlainDevice`], where each operation is written from its definition on the
//! CPU. The second one is the reference of every kernel, and what the host logic above this trait is tested on.
//!
//! All matrices are row-major. bf16 numbers are in buffers as their bits, in the machine's order.

use hark_numeric::{E4M3_MAX, f32_to_e4m3};
use hark_whisper::backend::{BackendError, TokenMap, TokenQuery};

/// Memory of a device, or a part of it that begins later.
pub trait DeviceBuffer: Clone + Send {
    /// The part that begins `bytes` later.
    fn offset(&self, bytes: usize) -> Self;
}

/// A linear layer: `y = x W + b`.
pub struct LinearWeights<B> {
    /// bf16 `[outputs][inputs]`; e4m3 where there are scales.
    pub weight: B,
    /// f32 `[outputs]`: what the numbers of an output are multiplied by. Such layers take rows in e4m3 ([`Device::linear_fp8`]).
    pub scales: Option<B>,
    /// f32 `[outputs]`, for outputs in f32.
    pub bias_f32: Option<B>,
    /// bf16 `[outputs]`, for outputs in bf16, and for all of layers in e4m3.
    pub bias_bf16: Option<B>,
    /// Columns of the result.
    pub outputs: usize,
    /// Columns of the rows.
    pub inputs: usize,
}

/// Rows of numbers in e4m3.
#[derive(Clone)]
pub struct Fp8Rows<B> {
    /// The numbers.
    pub numbers: B,
    /// f32, one a row: what its numbers are multiplied by.
    pub scales: B,
}

/// Gain and bias of a layer norm, f32.
pub struct NormWeights<B> {
    /// `[width]`.
    pub gain: B,
    /// `[width]`.
    pub bias: B,
}

/// What becomes of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Output {
    /// Stored in bf16.
    Bf16,
    /// GELU of it, stored in bf16.
    Gelu,
    /// Stored in f32.
    F32,
    /// Added to what is there, in f32.
    AddF32,
}

/// What the decoder does with one token. Shared with the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepEntry {
    /// The token.
    pub token: u32,
    /// Its position.
    pub position: u32,
    /// The row of the KV cache, counted over all slots; [`StepEntry::NONE`] for no entry.
    pub row: u32,
    /// The window.
    pub slot: u32,
}

impl StepEntry {
    /// The row of entries that only fill up a batch.
    pub const NONE: u32 = u32::MAX;
    /// An entry that fills up a batch.
    pub const EMPTY: StepEntry = StepEntry { token: 0, position: 0, row: Self::NONE, slot: 0 };
}

/// A [`TokenQuery`] as kernels read it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceQuery {
    /// The row of the logits; [`StepEntry::NONE`] for no query.
    pub row: u32,
    /// What is allowed and asked for: the constants below.
    pub flags: u32,
    /// First timestamp that is allowed.
    pub first: u32,
    /// First timestamp beyond those.
    pub last: u32,
    /// How many tokens are asked for.
    pub top_k: u32,
    /// Of sampling.
    pub temperature: f32,
    /// Of sampling.
    pub uniform: f32,
    /// Zero.
    pub unused: u32,
}

impl DeviceQuery {
    /// Text may come next.
    pub const TEXT: u32 = 1;
    /// The end of the text may come next.
    pub const END: u32 = 2;
    /// It is the first token of the text.
    pub const AT_START: u32 = 4;
    /// Timestamps may come next.
    pub const TIMESTAMPS: u32 = 8;
    /// The probability of no speech is asked for.
    pub const NO_SPEECH: u32 = 16;
    /// The probabilities of the languages are asked for.
    pub const LANGUAGES: u32 = 32;
    /// One token is sampled.
    pub const SAMPLE: u32 = 64;
    /// A query that fills up a batch.
    pub const EMPTY: DeviceQuery = DeviceQuery {
        row: StepEntry::NONE,
        flags: 0,
        first: 0,
        last: 0,
        top_k: 0,
        temperature: 1.0,
        uniform: 0.0,
        unused: 0,
    };

    /// The query of a row of logits.
    pub fn new(row: usize, query: &TokenQuery) -> Self {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let rules = &query.rules;
        let (first, last) = rules.timestamps.unwrap_or_default();
        let flags = flag(rules.text, Self::TEXT)
            | flag(rules.end, Self::END)
            | flag(rules.at_start, Self::AT_START)
            | flag(rules.timestamps.is_some(), Self::TIMESTAMPS)
            | flag(query.no_speech, Self::NO_SPEECH)
            | flag(query.languages, Self::LANGUAGES)
            | flag(query.sampling.is_some(), Self::SAMPLE);
        let (temperature, uniform) = query.sampling.map_or((1.0, 0.0), |draw| (draw.temperature, draw.uniform));
        DeviceQuery { row: row as u32, flags, first, last, top_k: query.top_k as u32, temperature, uniform, unused: 0 }
    }
}

/// The special tokens on the device.
pub struct DeviceTokens<B> {
    /// `[vocabulary]` bytes: bit 0 for tokens that are never generated, bit 1 for those that are never generated first.
    pub marks: B,
    /// The language tokens, u32.
    pub languages: B,
    /// The numbers of the others.
    pub map: TokenMap,
    /// How many tokens there are.
    pub vocabulary: usize,
}

/// Most entries of a step, and most queries.
pub const MOST_ENTRIES: usize = 512;
/// Most tokens that a query can ask for.
pub const MOST_BEST: usize = 64;

/// Where a step leaves its answers, so that one copy fetches them.
pub struct AnswerBuffers<B> {
    /// A header with the flag (u32) for numbers that are not finite, then for each query [`MOST_BEST`] tokens (u32), likeliest first,
    /// [`StepEntry::NONE`] where there is no other, and as many log-probabilities (f32).
    pub best: B,
    /// f32 `[query][1 + languages]`: no speech, then the languages; only what was asked for is written.
    pub others: B,
}

impl<B> AnswerBuffers<B> {
    /// Bytes before the first query's.
    pub const HEADER: usize = 16;
    /// Bytes of the tokens of a query, and of their log-probabilities.
    pub const TOKENS: usize = MOST_BEST * 4;

    /// Bytes of `best` for so many queries.
    pub fn bytes(queries: usize) -> usize {
        Self::HEADER + queries * 2 * Self::TOKENS
    }
}

/// The KV cache of the decoder's rows: bf16 `[row][layer][position][key, value][width]`.
pub struct KvCache<B> {
    /// The numbers.
    pub numbers: B,
    /// Decoder layers.
    pub layers: usize,
    /// Most positions.
    pub positions: usize,
    /// Width of the decoder.
    pub width: usize,
}

/// Keys and values of one layer of all windows: `[key, value][head][frame][64]` for each slot.
pub struct WindowKeys<'a, B> {
    /// Those of the first slot, bf16; e4m3 where there are scales.
    pub numbers: &'a B,
    /// Numbers from one slot to the next.
    pub slot_stride: usize,
    /// f32 `[key, value][head]` for each slot: what numbers in e4m3 are multiplied by.
    pub scales: Option<&'a B>,
    /// Scales from one slot to the next.
    pub scale_stride: usize,
    /// Frames of a window.
    pub frames: usize,
    /// Width of the decoder.
    pub width: usize,
}

/// Identifies a sequence of operations that is the same each time but for what buffers contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GraphKey {
    /// Entries of a decoder step.
    pub entries: usize,
    /// Queries of it.
    pub queries: usize,
    /// As [`Entries::are_distinct`].
    pub are_distinct: bool,
    /// Groups of entries; as many as there are entries where each is of another window.
    pub groups: usize,
}

/// The result of an operation.
pub type DeviceResult<T = ()> = Result<T, BackendError>;

/// A device. Operations are done in the order of the calls; only [`Device::download`] waits for them.
pub trait Device: Send {
    /// Its memory.
    type Buffer: DeviceBuffer;

    /// A short name for reports, such as `cuda:0 (NVIDIA H200)`.
    fn name(&self) -> String;

    /// Bytes of free memory.
    fn free_memory(&self) -> DeviceResult<u64>;

    /// Memory that is zero.
    fn allocate(&self, bytes: usize) -> DeviceResult<Self::Buffer>;

    /// Copies to the device.
    fn upload(&self, from: &[u8], to: &Self::Buffer) -> DeviceResult;

    /// Waits for what was begun, and copies from the device.
    fn download(&self, from: &Self::Buffer, to: &mut [u8]) -> DeviceResult;

    /// Does `work`, or what it did when it was done under this key before. `work` calls operations only, with the same arguments each time.
    fn graph(&self, key: GraphKey, work: &mut dyn FnMut() -> DeviceResult) -> DeviceResult;

    /// Forgets what [`Device::graph`] remembers: buffers that it used are gone.
    fn forget_graphs(&self);

    /// Rows of a convolution of width 3 and padding 1 as rows of a product, bf16 `[windows × frames_out][3 × channels]`, of windows of
    /// f32 or bf16 frames.
    fn unfold(&self, unfold: &Unfold, from: &Self::Buffer, to: &Self::Buffer) -> DeviceResult;

    /// `rows` rows, bf16, through a layer.
    fn linear(
        &self,
        rows: usize,
        from: &Self::Buffer,
        layer: &LinearWeights<Self::Buffer>,
        to: &Self::Buffer,
        output: Output,
    ) -> DeviceResult;

    /// Whether the operations in e4m3 are there.
    fn has_fp8(&self) -> bool;

    /// `rows` rows in e4m3 through a layer that has scales.
    fn linear_fp8(
        &self,
        rows: usize,
        from: &Fp8Rows<Self::Buffer>,
        layer: &LinearWeights<Self::Buffer>,
        to: &Self::Buffer,
        output: Output,
    ) -> DeviceResult;

    /// Rows in bf16 to e4m3, the largest of each to the largest that e4m3 has.
    fn quantize(&self, rows: usize, width: usize, from: &Self::Buffer, to: &Fp8Rows<Self::Buffer>) -> DeviceResult;

    /// [`Device::layer_norm`] of all rows, to e4m3.
    fn layer_norm_fp8(
        &self,
        rows: usize,
        width: usize,
        from: &Self::Buffer,
        weights: &NormWeights<Self::Buffer>,
        to: &Fp8Rows<Self::Buffer>,
    ) -> DeviceResult;

    /// The residual stream of the encoder, f32: convolved frames, bf16, and their positions, f32 `[frames][width]`.
    fn add_positions(
        &self,
        rows: usize,
        frames: usize,
        width: usize,
        from: &Self::Buffer,
        positions: &Self::Buffer,
        to: &Self::Buffer,
    ) -> DeviceResult;

    /// Layer norm of rows of the residual stream, f32, to bf16; of the rows `rows_of` (u32), where given. Sets the number at `flag` (u32)
    /// where a result is not finite.
    fn layer_norm(
        &self,
        rows: usize,
        width: usize,
        from: &Self::Buffer,
        weights: &NormWeights<Self::Buffer>,
        to: &Self::Buffer,
        rows_of: Option<&Self::Buffer>,
        flag: Option<&Self::Buffer>,
    ) -> DeviceResult;

    /// A layer of the layer norm of rows of the residual stream. What is in `normed` afterwards is not told.
    fn norm_linear(
        &self,
        rows: usize,
        stream: &Self::Buffer,
        norm: &NormWeights<Self::Buffer>,
        normed: &Self::Buffer,
        layer: &LinearWeights<Self::Buffer>,
        to: &Self::Buffer,
        output: Output,
    ) -> DeviceResult {
        self.layer_norm(rows, layer.inputs, stream, norm, normed, None, None)?;
        self.linear(rows, normed, layer, to, output)
    }

    /// Self-attention of whole windows: bf16 `[window][frame][query, key, value][width]` to `[window][frame][width]`.
    fn encoder_attention(
        &self,
        windows: usize,
        frames: usize,
        width: usize,
        query_key_value: &Self::Buffer,
        to: &Self::Buffer,
    ) -> DeviceResult;

    /// Keys and values of whole windows, bf16 `[window][frame][key, value][head][64]`, to the slots of `slots` (u32, one for each window); in
    /// e4m3 the largest number of a head becomes the largest that e4m3 has.
    fn store_window_keys(
        &self,
        windows: usize,
        from: &Self::Buffer,
        slots: &Self::Buffer,
        to: &WindowKeys<Self::Buffer>,
    ) -> DeviceResult;

    /// The residual stream of the decoder, f32: embeddings, bf16 `[vocabulary][width]`, and positions, f32.
    fn embed_tokens(
        &self,
        entries: &Entries<Self::Buffer>,
        width: usize,
        embedding: &Self::Buffer,
        positions: &Self::Buffer,
        to: &Self::Buffer,
    ) -> DeviceResult;

    /// Puts keys and values of the entries, bf16 `[entry][query, key, value][width]`, into the cache; then self-attention of the entries to
    /// their past, bf16 `[entry][width]`. An entry's past may have what another one writes only where entries are not distinct.
    fn self_attention(
        &self,
        entries: &Entries<Self::Buffer>,
        query_key_value: &Self::Buffer,
        cache: &KvCache<Self::Buffer>,
        layer: usize,
        to: &Self::Buffer,
    ) -> DeviceResult;

    /// Cross-attention of the entries to their windows, bf16 `[entry][width]` to `[entry][width]`.
    fn cross_attention(
        &self,
        entries: &Entries<Self::Buffer>,
        queries: &Self::Buffer,
        windows: &WindowKeys<Self::Buffer>,
        to: &Self::Buffer,
    ) -> DeviceResult;

    /// Scores of one head of cross-attention of the entries from `first` on, for the first `frames` frames, scaled, before the softmax:
    /// f32 `[entry][frame]`.
    fn head_scores(
        &self,
        entries: &Entries<Self::Buffer>,
        first: usize,
        head: usize,
        frames: usize,
        queries: &Self::Buffer,
        windows: &WindowKeys<Self::Buffer>,
        to: &Self::Buffer,
    ) -> DeviceResult;

    /// What heads agree on for each text, by their scores ([`Device::head_scores`], f32 `[head][row][frame]` of the texts one after the other):
    /// softmax over frames, which takes their place, each frame's values over rows to mean 0 and deviation 1, a median over 7 frames, the
    /// mean over heads; f32 `[row][frame]` of the rows behind the leading ones. `list` has the texts as their numbers ([`AlignedText::words`]).
    fn agree(
        &self,
        heads: usize,
        texts: &[AlignedText],
        list: &Self::Buffer,
        scores: &Self::Buffer,
        to: &Self::Buffer,
    ) -> DeviceResult;

    /// Answers queries ([`DeviceQuery`]) from logits, f32, of which rows are `pitch` numbers apart, and copies the number at `flag` (u32).
    fn answer(
        &self,
        count: usize,
        flag: &Self::Buffer,
        queries: &Self::Buffer,
        logits: &Self::Buffer,
        pitch: usize,
        tokens: &DeviceTokens<Self::Buffer>,
        to: &AnswerBuffers<Self::Buffer>,
    ) -> DeviceResult;
}

/// A text whose words are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlignedText {
    /// Its tokens.
    pub rows: usize,
    /// Those of them that take part in comparing tokens alone.
    pub leading: usize,
    /// Frames of sound.
    pub frames: usize,
    /// Where its scores begin, in numbers.
    pub scores: usize,
    /// Where what the heads agree on goes, in numbers.
    pub to: usize,
}

/// Most texts of one call of [`Device::agree`].
pub const MOST_ALIGNED: usize = 8;
/// Most heads of one; checkpoints that do not name their alignment heads may have more.
pub const MOST_ALIGNMENT_HEADS: usize = 128;

impl AlignedText {
    /// Bytes of its numbers.
    pub const BYTES: usize = 5 * 4;

    /// As the kernels read it.
    pub fn words(&self) -> [u32; 5] {
        [self.rows, self.leading, self.frames, self.scores, self.to].map(|number| number as u32)
    }
}

/// The sizes of an unfolded convolution.
#[derive(Debug, Clone, Copy)]
pub struct Unfold {
    /// Windows.
    pub windows: usize,
    /// Frames of each before it.
    pub frames_in: usize,
    /// Frames of each after it.
    pub frames_out: usize,
    /// Channels before it.
    pub channels: usize,
    /// Frames from one result to the next.
    pub stride: usize,
    /// Whether frames are f32, not bf16.
    pub is_f32: bool,
}

/// Entries of a step on the device.
pub struct Entries<'a, B> {
    /// How many.
    pub count: usize,
    /// [`StepEntry`] for each.
    pub entries: &'a B,
    /// u16 `[entry][positions]`: the row of the KV cache that has the key of each position up to the entry's own.
    pub past: &'a B,
    /// Whether no two entries are of one row.
    pub are_distinct: bool,
    /// Entries that follow each other and have one window, where a device may profit from it.
    pub groups: Option<EntryGroups<'a, B>>,
}

/// Runs of entries of one window on the device ([`groups_of`]).
pub struct EntryGroups<'a, B> {
    /// How many.
    pub count: usize,
    /// u32 `[group][first entry, entries]`; no entries in groups that fill up a batch.
    pub list: &'a B,
}

/// Most entries of a group.
pub const MOST_GROUPED: usize = 16;

/// The runs of entries of one window, the first entry and how many each, by the windows of the entries.
pub fn groups_of(slots: impl IntoIterator<Item = u32>) -> Vec<[u32; 2]> {
    let mut groups: Vec<[u32; 2]> = Vec::new();
    let mut last = None;
    for (index, slot) in slots.into_iter().enumerate() {
        match groups.last_mut() {
            Some(group) if last == Some(slot) && (group[1] as usize) < MOST_GROUPED => group[1] += 1,
            _ => groups.push([index as u32, 1]),
        }
        last = Some(slot);
    }
    groups
}

/// Numbers that may be read and written as bytes.
///
/// # Safety
/// Every byte of a number is initialized, and whatever bytes there are, they are a number.
pub unsafe trait Number: Copy {}
// SAFETY: it has no padding, and all bits are values; so have the others.
unsafe impl Number for f32 {}
// SAFETY: as above.
unsafe impl Number for u32 {}
// SAFETY: as above.
unsafe impl Number for u16 {}

/// Numbers as the bytes that they are in memory.
pub fn as_bytes<N: Number>(numbers: &[N]) -> &[u8] {
    // SAFETY: every byte of a number is initialized, and bytes need no alignment.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

/// The bytes of numbers, to be written.
pub fn as_bytes_mut<N: Number>(numbers: &mut [N]) -> &mut [u8] {
    // SAFETY: as in `as_bytes`, and whatever is written is a number.
    unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().cast(), size_of_val(numbers)) }
}

/// Numbers rounded to bf16 as bytes.
pub fn bytes_of_bf16(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|&number| hark_numeric::f32_to_bf16(number).to_ne_bytes()).collect()
}

/// Rows rounded to e4m3, the largest number of each to the largest that e4m3 has; and the scales.
pub fn to_fp8(numbers: &[f32], width: usize) -> (Vec<u8>, Vec<f32>) {
    let (mut bytes, mut scales) = (Vec::with_capacity(numbers.len()), Vec::with_capacity(numbers.len() / width));
    for row in numbers.chunks_exact(width) {
        let largest = row.iter().fold(0f32, |largest, number| largest.max(number.abs()));
        let (factor, scale) = if largest > 0.0 { (E4M3_MAX / largest, largest / E4M3_MAX) } else { (1.0, 1.0) };
        bytes.extend(row.iter().map(|number| f32_to_e4m3(number * factor)));
        scales.push(scale);
    }
    (bytes, scales)
}

/// Numbers of bytes.
pub fn f32_of_bytes(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|four| f32::from_ne_bytes([four[0], four[1], four[2], four[3]])).collect()
}

/// Numbers of bytes.
pub fn u32_of_bytes(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|four| u32::from_ne_bytes([four[0], four[1], four[2], four[3]])).collect()
}

impl StepEntry {
    /// As the kernels read it.
    pub fn words(&self) -> [u32; 4] {
        [self.token, self.position, self.row, self.slot]
    }
}

impl DeviceQuery {
    /// As the kernels read it.
    pub fn words(&self) -> [u32; 8] {
        let DeviceQuery { row, flags, first, last, top_k, temperature, uniform, unused } = *self;
        [row, flags, first, last, top_k, temperature.to_bits(), uniform.to_bits(), unused]
    }
}
