//! A [`Backend`] over a [`Device`].

use std::collections::HashSet;

use hark_whisper::backend::{
    Admission, AlignmentMatrix, AlignmentRequest, AlignmentScores, Answer, Backend, BackendError, Entry, MemoryUse,
    TokenMap,
};
use hark_whisper::weights::{Checkpoint, Dims};

use crate::device::{
    AlignedText, AnswerBuffers, Device, DeviceBuffer, DeviceQuery, GraphKey, KvCache, MOST_ALIGNED,
    MOST_ALIGNMENT_HEADS, MOST_BEST, MOST_ENTRIES, Output, StepEntry, WindowKeys, as_bytes, as_bytes_mut, f32_of_bytes,
    groups_of, u32_of_bytes,
};
use crate::lineage::Lineage;
use crate::network::decoder::{self, DecoderMemory, DecoderWorkspace, Step};
use crate::network::encoder::{EncoderWorkspace, MEL_FRAMES};
use crate::network::weights::{self, LoadError, NetworkWeights, Precision};

/// Rows of the KV cache that belong to no slot: texts that are aligned at once.
const SPARE_ROWS: usize = MOST_ALIGNED;
/// The useful maximum of windows that are decoded at once.
const MOST_SLOTS: usize = 160;
/// Fewest slots: two that are kept free for clips, and one for everything else.
const FEWEST_SLOTS: usize = 3;
/// Windows of one call to encode: several times those that are encoded at once, so that copies are hidden, and not so many that urgent
/// windows wait long.
const ENCODE_BATCH: usize = 16;
/// The share of the free memory that is used when nothing else is asked for.
const MEMORY_SHARE: f64 = 0.8;

/// The largest vocabulary that the kernels search; those of Whisper have 51,866 tokens at most.
const MOST_TOKENS: usize = 60_000;

/// How a [`GpuBackend`] is set up.
#[derive(Debug, Clone, Copy)]
pub struct GpuOptions {
    /// Windows decoded at once; as many as fit when not given.
    pub slots: Option<usize>,
    /// Rows of a slot: the widest beam.
    pub rows: usize,
    /// Windows encoded at once: enough to fill the device.
    pub encode_at_once: usize,
    /// Which numbers are rounded to e4m3; bf16 on devices that have no e4m3.
    pub precision: Precision,
}

impl Default for GpuOptions {
    fn default() -> Self {
        GpuOptions { slots: None, rows: 5, encode_at_once: 8, precision: Precision::default() }
    }
}

/// What is allocated while windows are decoded.
struct Memory<B> {
    encoder: EncoderWorkspace<B>,
    workspace: DecoderWorkspace<B>,
    decoder: DecoderMemory<B>,
}

/// A checkpoint on a device.
pub struct GpuBackend<D: Device> {
    device: D,
    dims: Dims,
    alignment_heads: Vec<(usize, usize)>,
    weights: NetworkWeights<D::Buffer>,
    rows: usize,
    slots: usize,
    encode_at_once: usize,
    precision: Precision,
    memory: Option<Memory<D::Buffer>>,
    lineage: Lineage,
    /// Slots that have been encoded into since the memory was allocated.
    encoded: Vec<bool>,
}

/// Checks that the kernels support these dimensions, as they do those of every Whisper: a file may have any.
fn fits(dims: &Dims) -> Result<(), String> {
    const HEAD: usize = 64;
    let Dims { n_audio_state, n_audio_head, n_text_state, n_text_head, .. } = *dims;
    for (side, width, heads) in [("encoder", n_audio_state, n_audio_head), ("decoder", n_text_state, n_text_head)] {
        if width != heads * HEAD || width > 2048 {
            return Err(format!("its {side} has {heads} heads on a width of {width}, where each must be {HEAD} wide"));
        }
    }
    if n_audio_state != n_text_state {
        return Err(format!("its encoder is {n_audio_state} wide and its decoder {n_text_state}"));
    }
    for (what, value, most) in
        [("text positions", dims.n_text_ctx, 448), ("audio positions", dims.n_audio_ctx, MEL_FRAMES / 2)]
    {
        if value > most {
            return Err(format!("it has {value} {what}, more than the {most} of any Whisper"));
        }
    }
    if dims.n_vocab > MOST_TOKENS {
        return Err(format!("its vocabulary has {} tokens, more than {MOST_TOKENS}", dims.n_vocab));
    }
    if !dims.n_mels.is_multiple_of(8) {
        return Err(format!("{} mel channels are no multiple of 8", dims.n_mels));
    }
    Ok(())
}

impl<D: Device> GpuBackend<D> {
    /// Puts the weights of `checkpoint` on the device.
    pub fn load(device: D, checkpoint: &Checkpoint, tokens: TokenMap, options: GpuOptions) -> Result<Self, LoadError> {
        let dims = checkpoint.dims;
        fits(&dims).map_err(BackendError::Fault)?;
        let precision = if device.has_fp8() { options.precision } else { Precision::Bf16 };
        let weights = weights::load(&device, checkpoint, tokens, precision)?;
        let rows = options.rows.max(1);
        let encode_at_once = options.encode_at_once.max(1);
        let mut backend = GpuBackend {
            dims,
            alignment_heads: checkpoint.alignment_heads.clone(),
            weights,
            rows,
            slots: 0,
            encode_at_once,
            precision,
            memory: None,
            lineage: Lineage::new(0, rows),
            encoded: Vec::new(),
            device,
        };
        let budget = (backend.device.free_memory()? as f64 * MEMORY_SHARE) as u64;
        let fit = (budget.saturating_sub(backend.workspace_bytes()) / backend.slot_bytes()) as usize;
        let wanted = options.slots.unwrap_or(MOST_SLOTS).max(FEWEST_SLOTS);
        // The rows of the KV cache are counted in 16 bits.
        let countable = (usize::from(u16::MAX) - SPARE_ROWS) / rows;
        let slots = wanted.min(fit).min(countable);
        if slots < FEWEST_SLOTS {
            let needed = backend.workspace_bytes() + FEWEST_SLOTS as u64 * backend.slot_bytes();
            return Err(BackendError::OutOfMemory(format!(
                "{needed} bytes are needed beside the weights, {budget} are free"
            ))
            .into());
        }
        backend.slots = slots;
        backend.lineage = Lineage::new(slots * rows + SPARE_ROWS, rows);
        backend.encoded = vec![false; slots];
        Ok(backend)
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    fn slot_bytes(&self) -> u64 {
        let window = match self.precision {
            Precision::Bf16 => 2 * decoder::slot_numbers(&self.dims),
            Precision::Fp8Windows | Precision::Fp8 => {
                decoder::slot_numbers(&self.dims) + 4 * decoder::slot_scales(&self.dims)
            }
        };
        (window + 2 * self.rows * decoder::row_numbers(&self.dims)) as u64
    }

    /// Bytes that are allocated however many slots there are.
    fn workspace_bytes(&self) -> u64 {
        let languages = self.weights.tokens.map.languages.len();
        self.encode_at_once as u64 * EncoderWorkspace::<D::Buffer>::bytes(&self.dims, self.precision)
            + DecoderWorkspace::<D::Buffer>::bytes(&self.dims, self.alignment_heads.len(), languages)
            + 2 * (SPARE_ROWS * decoder::row_numbers(&self.dims)) as u64
    }

    /// Allocates what windows need, if it is not there.
    fn allocate(&mut self) -> Result<(), BackendError> {
        if self.memory.is_some() {
            return Ok(());
        }
        let (device, dims) = (&self.device, &self.dims);
        let languages = self.weights.tokens.map.languages.len();
        let encoder = EncoderWorkspace::new(device, dims, self.encode_at_once, self.precision)?;
        let workspace = DecoderWorkspace::new(device, dims, self.alignment_heads.len(), languages)?;
        let slot_stride = decoder::slot_numbers(dims);
        let is_fp8 = self.precision != Precision::Bf16;
        let windows = device.allocate(self.slots * slot_stride * if is_fp8 { 1 } else { 2 })?;
        let scales = || device.allocate(self.slots * decoder::slot_scales(dims) * 4);
        let scales = is_fp8.then(scales).transpose()?;
        let rows = self.slots * self.rows + SPARE_ROWS;
        let cache = KvCache {
            numbers: device.allocate(rows * decoder::row_numbers(dims) * 2)?,
            layers: dims.n_text_layer,
            positions: dims.n_text_ctx,
            width: dims.n_text_state,
        };
        self.memory =
            Some(Memory { encoder, workspace, decoder: DecoderMemory { windows, slot_stride, scales, cache } });
        Ok(())
    }

    /// Begins to encode as many windows as the workspace holds into their slots.
    fn encode_some(&self, memory: &Memory<D::Buffer>, windows: &[Admission]) -> Result<(), BackendError> {
        let (device, dims, weights) = (&self.device, &self.dims, &self.weights);
        let (encoder, frames) = (&memory.encoder, dims.n_audio_ctx);
        let mel_bytes = MEL_FRAMES * dims.n_mels * 4;
        for (index, window) in windows.iter().enumerate() {
            device.upload(as_bytes(window.mel), &encoder.mel.offset(index * mel_bytes))?;
        }
        let slots: Vec<u32> = windows.iter().map(|window| window.slot as u32).collect();
        device.upload(as_bytes(&slots), &encoder.slots)?;
        encoder.encode(device, weights, dims, windows.len())?;
        for (layer, decoder) in weights.decoder.iter().enumerate() {
            device.linear(
                windows.len() * frames,
                &encoder.normed,
                &decoder.cross.key_value,
                &encoder.hidden,
                Output::Bf16,
            )?;
            let of_layer = memory.decoder.layer(dims, layer);
            let keys = memory.decoder.keys(dims, &of_layer);
            device.store_window_keys(windows.len(), &encoder.hidden, &encoder.slots, &keys)?;
        }
        Ok(())
    }

    /// Checks the entries, which come from outside.
    fn check(&self, entries: &[Entry]) -> Result<(), BackendError> {
        let fault = |what: &str| Err(BackendError::Fault(format!("a step can't be done: {what}")));
        let mut places = HashSet::with_capacity(entries.len());
        for entry in entries {
            if entry.slot >= self.slots || entry.row.max(entry.parent) >= self.rows {
                return fault("there is no such slot or row");
            }
            if entry.position >= self.dims.n_text_ctx || entry.token as usize >= self.dims.n_vocab {
                return fault("a token or its position is beyond the network");
            }
            if !self.encoded[entry.slot] || self.memory.is_none() {
                return fault("no window was encoded into the slot");
            }
            if entry.query.is_some_and(|query| query.top_k > MOST_BEST) {
                return fault("too many tokens are asked for");
            }
            if !places.insert((entry.slot, entry.row, entry.position)) {
                return fault("a row has two tokens at one position");
            }
        }
        Ok(())
    }

    /// Runs one pass over at most [`MOST_ENTRIES`] entries and answers their queries.
    fn pass(&self, entries: &[Entry], past: &[Vec<u16>]) -> Result<Vec<Answer>, BackendError> {
        let memory = self.allocated()?;
        let (device, dims, weights, workspace) = (&self.device, &self.dims, &self.weights, &memory.workspace);
        let asking: Vec<u32> =
            (0..entries.len() as u32).filter(|&index| entries[index as usize].query.is_some()).collect();
        let queries: Vec<_> = entries.iter().filter_map(|entry| entry.query).collect();
        let mut step = Step {
            entries: entries
                .iter()
                .map(|entry| StepEntry {
                    token: entry.token,
                    position: entry.position as u32,
                    row: self.lineage.row(entry.slot, entry.row) as u32,
                    slot: entry.slot as u32,
                })
                .collect(),
            past,
            queries: queries.iter().enumerate().map(|(row, query)| DeviceQuery::new(row, query)).collect(),
            groups: groups_of(entries.iter().map(|entry| entry.slot as u32)),
            asking,
        };
        let mut rows: Vec<(usize, usize)> = entries.iter().map(|entry| (entry.slot, entry.row)).collect();
        rows.sort_unstable();
        let are_distinct = rows.windows(2).all(|two| two[0] != two[1]);
        let (groups, queried) = (rounded(step.groups.len()), rounded(queries.len()));
        let key = GraphKey { entries: rounded(entries.len()), queries: queried, are_distinct, groups };
        step.entries.resize(key.entries, StepEntry::EMPTY);
        step.groups.resize(key.groups, [0, 0]);
        step.asking.resize(key.queries, 0);
        step.queries.resize(key.queries, DeviceQuery::EMPTY);
        workspace.inputs.upload(device, &step)?;
        device.graph(key, &mut || {
            workspace.forward(device, weights, &memory.decoder, dims, key, None)?;
            match key.queries {
                0 => Ok(()),
                _ => workspace.answer(device, weights, dims, key),
            }
        })?;
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        let languages = weights.tokens.map.languages.len();
        let download = |from: &D::Buffer, bytes: usize| {
            let mut copy = vec![0; bytes];
            device.download(from, &mut copy).map(|()| copy)
        };
        let best = download(&workspace.answers.best, AnswerBuffers::<D::Buffer>::bytes(queries.len()))?;
        let (header, best) = best.split_at(AnswerBuffers::<D::Buffer>::HEADER);
        if header.starts_with(&1u32.to_ne_bytes()) {
            return Err(BackendError::Fault("the decoder's states are not finite".to_owned()));
        }
        let others = match queries.iter().any(|query| query.no_speech || query.languages) {
            true => f32_of_bytes(&download(&workspace.answers.others, queries.len() * (1 + languages) * 4)?),
            false => Vec::new(),
        };
        let each = 2 * AnswerBuffers::<D::Buffer>::TOKENS;
        let answer = |((index, query), best): ((usize, &hark_whisper::backend::TokenQuery), &[u8])| {
            let wanted = 4 * if query.sampling.is_some() { 1 } else { query.top_k };
            let (tokens, log_probs) = best.split_at(each / 2);
            let found = u32_of_bytes(&tokens[..wanted]).into_iter().zip(f32_of_bytes(&log_probs[..wanted]));
            let mut answer =
                Answer { best: found.filter(|(token, _)| *token != StepEntry::NONE).collect(), ..Answer::default() };
            let others = others.get(index * (1 + languages)..(index + 1) * (1 + languages));
            if let Some((no_speech, probabilities)) = others.and_then(<[f32]>::split_first) {
                if query.no_speech && weights.tokens.map.no_speech.is_some() {
                    answer.no_speech = *no_speech;
                }
                if query.languages {
                    answer.languages = probabilities.to_vec();
                }
            }
            answer
        };
        Ok(queries.iter().enumerate().zip(best.chunks_exact(each)).map(answer).collect())
    }

    /// Scores of the alignment heads for texts that fit one pass, each in a spare row; where they are.
    fn score_some(&self, requests: &[AlignmentRequest]) -> Result<Vec<AlignedText>, BackendError> {
        let memory = self.allocated()?;
        let (device, dims, weights, workspace) = (&self.device, &self.dims, &self.weights, &memory.workspace);
        let heads = self.alignment_heads.len();
        let (mut entries, mut past, mut first_rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut texts: Vec<AlignedText> = Vec::new();
        let (mut scores, mut to) = (0, 0);
        for (index, request) in requests.iter().enumerate() {
            let spare = (self.slots * self.rows + index) as u16;
            let count = request.tokens.len().min(dims.n_text_ctx);
            first_rows.push(entries.len() + request.first.min(count));
            for (position, &token) in request.tokens.iter().enumerate().take(count) {
                let (position, row) = (position as u32, u32::from(spare));
                entries.push(StepEntry { token, position, row, slot: request.slot as u32 });
                past.push(vec![spare; position as usize + 1]);
            }
            let (rows, frames) = (count - request.first.min(count), request.frames);
            texts.push(AlignedText { rows, leading: 0, frames, scores, to });
            scores += heads * rows * frames;
            to += rows * frames;
        }
        let count = entries.len();
        let groups = groups_of(entries.iter().map(|entry| entry.slot));
        let key = GraphKey { entries: count, queries: 0, are_distinct: false, groups: groups.len() };
        let step = Step { entries, past: &past, groups, asking: Vec::new(), queries: Vec::new() };
        workspace.inputs.upload(device, &step)?;
        let mut tap = |layer: usize, queries: &D::Buffer, windows: &WindowKeys<D::Buffer>| {
            for (index, &(_, head)) in self.alignment_heads.iter().enumerate().filter(|(_, place)| place.0 == layer) {
                for (text, &first) in texts.iter().zip(&first_rows).filter(|(text, _)| text.rows * text.frames > 0) {
                    let to = text.scores + index * text.rows * text.frames;
                    let rows = (first, text.rows, key);
                    workspace.head_scores(device, queries, windows, rows, (head, text.frames), to)?;
                }
            }
            Ok(())
        };
        workspace.forward(device, weights, &memory.decoder, dims, key, Some(&mut tap))?;
        Ok(texts)
    }

    /// The scores of texts that fit one pass.
    fn align_some(&self, requests: &[AlignmentRequest]) -> Result<Vec<AlignmentScores>, BackendError> {
        let (heads, workspace) = (self.alignment_heads.len(), &self.allocated()?.workspace);
        let scores_of = |text: AlignedText| {
            let AlignedText { rows, frames, .. } = text;
            let scores = self.numbers(&workspace.taps, text.scores, heads * rows * frames)?;
            Ok(AlignmentScores { heads, rows, frames, scores })
        };
        self.score_some(requests)?.into_iter().map(scores_of).collect()
    }

    /// What the heads agree on for texts that fit one pass.
    fn agree_some(
        &self,
        requests: &[AlignmentRequest],
        leading: &[usize],
    ) -> Result<Vec<AlignmentMatrix>, BackendError> {
        let (heads, workspace) = (self.alignment_heads.len(), &self.allocated()?.workspace);
        let mut texts = self.score_some(requests)?;
        for (text, leading) in texts.iter_mut().zip(leading) {
            text.leading = (*leading).min(text.rows);
        }
        let words: Vec<u32> = texts.iter().flat_map(AlignedText::words).collect();
        self.device.upload(as_bytes(&words), &workspace.aligned)?;
        self.device.agree(heads, &texts, &workspace.aligned, &workspace.taps, &workspace.agreed)?;
        let matrix_of = |text: AlignedText| {
            let (rows, frames) = (text.rows - text.leading, text.frames);
            let numbers = self.numbers(&workspace.agreed, text.to, rows * frames)?;
            Ok(AlignmentMatrix { rows, frames, numbers })
        };
        texts.into_iter().map(matrix_of).collect()
    }

    /// Copies numbers of alignment, which must be finite.
    fn numbers(&self, from: &D::Buffer, first: usize, count: usize) -> Result<Vec<f32>, BackendError> {
        let mut numbers = vec![0f32; count];
        self.device.download(&from.offset(first * 4), as_bytes_mut(&mut numbers))?;
        match numbers.iter().all(|number| number.is_finite()) {
            true => Ok(numbers),
            false => Err(BackendError::Fault("the alignment's scores are not finite".to_owned())),
        }
    }

    fn allocated(&self) -> Result<&Memory<D::Buffer>, BackendError> {
        self.memory.as_ref().ok_or_else(|| BackendError::Fault("there is no memory for rows".to_owned()))
    }

    /// Does `some` with as many requests at a time as fit one pass.
    fn by_pass<T>(
        &self,
        requests: &[AlignmentRequest],
        some: impl Fn(std::ops::Range<usize>) -> Result<Vec<T>, BackendError>,
    ) -> Result<Vec<T>, BackendError> {
        let is_known = |token: &u32| (*token as usize) < self.dims.n_vocab;
        let is_valid = |request: &AlignmentRequest| {
            self.encoded.get(request.slot).is_some_and(|encoded| *encoded)
                && request.frames <= self.dims.n_audio_ctx
                && request.tokens.iter().all(is_known)
        };
        if !requests.iter().all(is_valid) {
            return Err(BackendError::Fault("a text can't be aligned: no such window or token".to_owned()));
        }
        let mut done = Vec::with_capacity(requests.len());
        let mut begin = 0;
        while begin < requests.len() {
            let mut total = 0;
            let fits = |request: &&AlignmentRequest| {
                total += request.tokens.len().min(self.dims.n_text_ctx);
                total <= MOST_ENTRIES
            };
            let count = requests[begin..].iter().take(SPARE_ROWS).take_while(fits).count();
            done.extend(some(begin..begin + count)?);
            begin += count;
        }
        Ok(done)
    }
}

/// The size of a batch that a graph is made for: the next one of few.
fn rounded(count: usize) -> usize {
    match count {
        0..=4 => count,
        5..=8 => 8,
        9..=64 => count.next_multiple_of(16),
        65..=256 => count.next_multiple_of(32),
        _ => count.next_multiple_of(128),
    }
}

impl<D: Device> Backend for GpuBackend<D> {
    fn dims(&self) -> &Dims {
        &self.dims
    }

    fn slots(&self) -> usize {
        self.slots
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn encode_batch(&self) -> usize {
        ENCODE_BATCH
    }

    fn name(&self) -> String {
        self.device.name()
    }

    fn memory(&self) -> MemoryUse {
        let fixed = self.weights.bytes + self.workspace_bytes();
        MemoryUse { fixed, most: fixed + self.slots as u64 * self.slot_bytes() }
    }

    fn health(&mut self) -> Result<(), BackendError> {
        self.device.free_memory().map(drop)
    }

    fn encode(&mut self, windows: &[Admission]) -> Result<(), BackendError> {
        let wanted = MEL_FRAMES * self.dims.n_mels;
        if windows.iter().any(|window| window.slot >= self.slots || window.mel.len() != wanted) {
            return Err(BackendError::Fault("a window can't be encoded: no such slot, or not 3000 frames".to_owned()));
        }
        self.allocate()?;
        let Some(memory) = &self.memory else {
            return Err(BackendError::Fault("there is no memory for windows".into()));
        };
        self.device.upload(&[0; 4], &memory.encoder.flag)?;
        // While the device encodes some, the next ones' spectrograms are copied.
        for some in windows.chunks(self.encode_at_once) {
            self.encode_some(memory, some)?;
        }
        let mut flag = [0; 4];
        self.device.download(&memory.encoder.flag, &mut flag)?;
        if flag != [0; 4] {
            return Err(BackendError::Fault("the encoder's states are not finite".to_owned()));
        }
        windows.iter().for_each(|window| self.encoded[window.slot] = true);
        Ok(())
    }

    fn release(&mut self, _: usize) -> Result<(), BackendError> {
        Ok(())
    }

    fn step(&mut self, entries: &[Entry]) -> Result<Vec<Answer>, BackendError> {
        self.check(entries)?;
        let Some(past) = self.lineage.follow(entries) else {
            return Err(BackendError::Fault("a step can't be done: a row skips a position".to_owned()));
        };
        let mut answers = Vec::new();
        for (entries, past) in entries.chunks(MOST_ENTRIES).zip(past.chunks(MOST_ENTRIES)) {
            answers.extend(self.pass(entries, past)?);
        }
        Ok(answers)
    }

    fn align(&mut self, requests: &[AlignmentRequest]) -> Result<Vec<AlignmentScores>, BackendError> {
        self.by_pass(requests, |some| self.align_some(&requests[some]))
    }

    fn agree(
        &mut self,
        requests: &[AlignmentRequest],
        leading: &[usize],
    ) -> Result<Option<Vec<AlignmentMatrix>>, BackendError> {
        if !(1..=MOST_ALIGNMENT_HEADS).contains(&self.alignment_heads.len()) {
            return Ok(None);
        }
        if leading.len() != requests.len() {
            return Err(BackendError::Fault("a text can't be aligned: its leading tokens are not told".to_owned()));
        }
        self.by_pass(requests, |some| self.agree_some(&requests[some.clone()], &leading[some])).map(Some)
    }

    fn trim(&mut self) -> Result<(), BackendError> {
        self.memory = None;
        self.device.forget_graphs();
        self.lineage.clear();
        self.encoded.fill(false);
        Ok(())
    }
}
