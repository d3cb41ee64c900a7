//! A device that is the CPU: every operation as its definition says, slowly, with the rounding to bf16 where a device stores bf16.

mod definitions;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hark_numeric::{bf16_to_f32, f32_to_bf16};
use hark_whisper::backend::BackendError;

use crate::device::{
    AlignedText, AnswerBuffers, Device, DeviceBuffer, DeviceQuery, DeviceResult, DeviceTokens, Entries, Fp8Rows,
    GraphKey, KvCache, LinearWeights, NormWeights, Output, StepEntry, Unfold, WindowKeys, as_bytes, f32_of_bytes,
    u32_of_bytes,
};

use definitions::{attend, dot, from_fp8, median, norm, products, store, window, write_fp8};

/// The width of a head.
const HEAD: usize = 64;
/// Factor of the scores of attention.
const SCALE: f32 = 0.125;

/// The CPU as a device.
#[derive(Default)]
pub struct PlainDevice {
    /// Bytes that may be allocated; no limit when zero.
    limit: u64,
    allocated: Mutex<u64>,
}

/// Memory of it.
#[derive(Clone)]
pub struct PlainBuffer {
    bytes: Arc<Mutex<Vec<u8>>>,
    from: usize,
}

impl DeviceBuffer for PlainBuffer {
    fn offset(&self, bytes: usize) -> Self {
        PlainBuffer { bytes: Arc::clone(&self.bytes), from: self.from + bytes }
    }
}

impl PlainBuffer {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, bytes: usize) -> Vec<u8> {
        self.lock()[self.from..self.from + bytes].to_vec()
    }

    fn write(&self, bytes: &[u8]) {
        self.lock()[self.from..self.from + bytes.len()].copy_from_slice(bytes);
    }

    fn f32(&self, count: usize) -> Vec<f32> {
        f32_of_bytes(&self.read(count * 4))
    }

    fn u32(&self, count: usize) -> Vec<u32> {
        u32_of_bytes(&self.read(count * 4))
    }

    fn u16(&self, count: usize) -> Vec<u16> {
        self.read(count * 2).chunks_exact(2).map(|two| u16::from_ne_bytes([two[0], two[1]])).collect()
    }

    fn bf16(&self, count: usize) -> Vec<f32> {
        self.u16(count).into_iter().map(bf16_to_f32).collect()
    }

    fn write_f32(&self, numbers: &[f32]) {
        self.write(as_bytes(numbers));
    }

    fn write_bf16(&self, numbers: &[f32]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|&number| f32_to_bf16(number).to_ne_bytes()).collect();
        self.write(&bytes);
    }

    /// bf16 numbers from `at` on, counted in numbers.
    fn bf16_at(&self, at: usize, count: usize) -> Vec<f32> {
        self.offset(at * 2).bf16(count)
    }
}

fn entries_of(entries: &Entries<PlainBuffer>) -> Vec<StepEntry> {
    let words = entries.entries.u32(entries.count * 4);
    let entry = |words: &[u32]| StepEntry { token: words[0], position: words[1], row: words[2], slot: words[3] };
    words.chunks_exact(4).map(entry).collect()
}

impl PlainDevice {
    /// A device of so many bytes.
    pub fn with_limit(bytes: u64) -> Self {
        PlainDevice { limit: bytes, ..PlainDevice::default() }
    }

    fn place(cache: &KvCache<PlainBuffer>, row: usize, layer: usize, position: usize) -> usize {
        ((row * cache.layers + layer) * cache.positions + position) * 2 * cache.width
    }
}

impl Device for PlainDevice {
    type Buffer = PlainBuffer;

    fn name(&self) -> String {
        "plain".to_owned()
    }

    fn free_memory(&self) -> DeviceResult<u64> {
        let allocated = *self.allocated.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(if self.limit == 0 { 1 << 30 } else { self.limit.saturating_sub(allocated) })
    }

    fn allocate(&self, bytes: usize) -> DeviceResult<PlainBuffer> {
        let mut allocated = self.allocated.lock().unwrap_or_else(PoisonError::into_inner);
        if self.limit > 0 && *allocated + bytes as u64 > self.limit {
            return Err(BackendError::OutOfMemory(format!("{bytes} bytes do not fit")));
        }
        *allocated += bytes as u64;
        Ok(PlainBuffer { bytes: Arc::new(Mutex::new(vec![0; bytes])), from: 0 })
    }

    fn upload(&self, from: &[u8], to: &PlainBuffer) -> DeviceResult {
        to.write(from);
        Ok(())
    }

    fn download(&self, from: &PlainBuffer, to: &mut [u8]) -> DeviceResult {
        to.copy_from_slice(&from.read(to.len()));
        Ok(())
    }

    fn graph(&self, _: GraphKey, work: &mut dyn FnMut() -> DeviceResult) -> DeviceResult {
        work()
    }

    fn forget_graphs(&self) {}

    fn unfold(&self, unfold: &Unfold, from: &PlainBuffer, to: &PlainBuffer) -> DeviceResult {
        let Unfold { windows, frames_in, frames_out, channels, stride, is_f32 } = *unfold;
        let count = windows * frames_in * channels;
        let numbers = if is_f32 { from.f32(count) } else { from.bf16(count) };
        let mut rows = Vec::with_capacity(windows * frames_out * 3 * channels);
        for window in 0..windows {
            for frame in 0..frames_out {
                for tap in 0..3 {
                    let at = (frame * stride + tap).wrapping_sub(1);
                    match at < frames_in {
                        true => rows.extend_from_slice(&numbers[(window * frames_in + at) * channels..][..channels]),
                        false => rows.extend(std::iter::repeat_n(0.0, channels)),
                    }
                }
            }
        }
        to.write_bf16(&rows);
        Ok(())
    }

    fn linear(
        &self,
        rows: usize,
        from: &PlainBuffer,
        layer: &LinearWeights<PlainBuffer>,
        to: &PlainBuffer,
        output: Output,
    ) -> DeviceResult {
        let (inputs, outputs) = (layer.inputs, layer.outputs);
        let (numbers, weight) = (from.bf16(rows * inputs), layer.weight.bf16(outputs * inputs));
        let bias = match output {
            Output::Bf16 | Output::Gelu => layer.bias_bf16.as_ref().map(|bias| bias.bf16(outputs)),
            Output::F32 | Output::AddF32 => layer.bias_f32.as_ref().map(|bias| bias.f32(outputs)),
        };
        store(to, output, &products(&numbers, &weight, bias.as_deref(), inputs));
        Ok(())
    }

    fn has_fp8(&self) -> bool {
        true
    }

    fn linear_fp8(
        &self,
        rows: usize,
        from: &Fp8Rows<PlainBuffer>,
        layer: &LinearWeights<PlainBuffer>,
        to: &PlainBuffer,
        output: Output,
    ) -> DeviceResult {
        let (inputs, outputs) = (layer.inputs, layer.outputs);
        let Some(scales) = &layer.scales else { return Err(BackendError::Fault("a layer has no scales".to_owned())) };
        let weight = from_fp8(&Fp8Rows { numbers: layer.weight.clone(), scales: scales.clone() }, outputs, inputs);
        let numbers = from_fp8(from, rows, inputs);
        let bias = layer.bias_bf16.as_ref().map(|bias| bias.bf16(outputs));
        store(to, output, &products(&numbers, &weight, bias.as_deref(), inputs));
        Ok(())
    }

    fn quantize(&self, rows: usize, width: usize, from: &PlainBuffer, to: &Fp8Rows<PlainBuffer>) -> DeviceResult {
        write_fp8(&from.bf16(rows * width), width, to);
        Ok(())
    }

    fn layer_norm_fp8(
        &self,
        rows: usize,
        width: usize,
        from: &PlainBuffer,
        weights: &NormWeights<PlainBuffer>,
        to: &Fp8Rows<PlainBuffer>,
    ) -> DeviceResult {
        let all: Vec<u32> = (0..rows as u32).collect();
        write_fp8(&norm(&all, width, from, weights), width, to);
        Ok(())
    }

    fn add_positions(
        &self,
        rows: usize,
        frames: usize,
        width: usize,
        from: &PlainBuffer,
        positions: &PlainBuffer,
        to: &PlainBuffer,
    ) -> DeviceResult {
        let (numbers, positions) = (from.bf16(rows * width), positions.f32(frames * width));
        let sums: Vec<f32> =
            numbers.iter().enumerate().map(|(index, number)| number + positions[index % positions.len()]).collect();
        to.write_f32(&sums);
        Ok(())
    }

    fn layer_norm(
        &self,
        rows: usize,
        width: usize,
        from: &PlainBuffer,
        weights: &NormWeights<PlainBuffer>,
        to: &PlainBuffer,
        rows_of: Option<&PlainBuffer>,
        flag: Option<&PlainBuffer>,
    ) -> DeviceResult {
        let rows_of = rows_of.map_or_else(|| (0..rows as u32).collect(), |list| list.u32(rows));
        let result = norm(&rows_of, width, from, weights);
        if let Some(flag) = flag.filter(|_| result.iter().any(|number| !number.is_finite())) {
            flag.write(as_bytes(&[1u32]));
        }
        to.write_bf16(&result);
        Ok(())
    }

    fn encoder_attention(
        &self,
        windows: usize,
        frames: usize,
        width: usize,
        query_key_value: &PlainBuffer,
        to: &PlainBuffer,
    ) -> DeviceResult {
        let numbers = query_key_value.bf16(windows * frames * 3 * width);
        let mut result = vec![0.0; windows * frames * width];
        for window in 0..windows {
            for head in 0..width / HEAD {
                let part = |frame: usize, which: usize| {
                    &numbers[((window * frames + frame) * 3 + which) * width + head * HEAD..][..HEAD]
                };
                for frame in 0..frames {
                    let scores: Vec<f32> =
                        (0..frames).map(|other| dot(part(frame, 0), part(other, 1)) * SCALE).collect();
                    let sums = attend(&scores, |other| part(other, 2).to_vec());
                    result[(window * frames + frame) * width + head * HEAD..][..HEAD].copy_from_slice(&sums);
                }
            }
        }
        to.write_bf16(&result);
        Ok(())
    }

    fn store_window_keys(
        &self,
        windows: usize,
        from: &PlainBuffer,
        slots: &PlainBuffer,
        to: &WindowKeys<PlainBuffer>,
    ) -> DeviceResult {
        let (frames, heads) = (to.frames, 2 * to.width / HEAD);
        for (window, slot) in slots.u32(windows).into_iter().enumerate() {
            let numbers = from.bf16_at(window * frames * heads * HEAD, frames * heads * HEAD);
            let head_of = |head: usize| {
                let row = |frame: usize| &numbers[(frame * heads + head) * HEAD..][..HEAD];
                (0..frames).flat_map(row).copied().collect::<Vec<f32>>()
            };
            let split: Vec<f32> = (0..heads).flat_map(head_of).collect();
            let place = slot as usize * to.slot_stride;
            match to.scales {
                None => to.numbers.offset(place * 2).write_bf16(&split),
                Some(scales) => {
                    let scales = scales.offset(slot as usize * to.scale_stride * 4);
                    write_fp8(&split, frames * HEAD, &Fp8Rows { numbers: to.numbers.offset(place), scales });
                }
            }
        }
        Ok(())
    }

    fn embed_tokens(
        &self,
        entries: &Entries<PlainBuffer>,
        width: usize,
        embedding: &PlainBuffer,
        positions: &PlainBuffer,
        to: &PlainBuffer,
    ) -> DeviceResult {
        for (index, entry) in entries_of(entries).into_iter().enumerate() {
            let token = embedding.bf16_at(entry.token as usize * width, width);
            let position = positions.offset(entry.position as usize * width * 4).f32(width);
            let sums: Vec<f32> = token.iter().zip(position).map(|(token, position)| token + position).collect();
            to.offset(index * width * 4).write_f32(&sums);
        }
        Ok(())
    }

    fn self_attention(
        &self,
        entries: &Entries<PlainBuffer>,
        query_key_value: &PlainBuffer,
        cache: &KvCache<PlainBuffer>,
        layer: usize,
        to: &PlainBuffer,
    ) -> DeviceResult {
        let width = cache.width;
        let list = entries_of(entries);
        let real = || list.iter().enumerate().filter(|(_, entry)| entry.row != StepEntry::NONE);
        for (index, entry) in real() {
            let numbers = query_key_value.bf16_at((index * 3 + 1) * width, 2 * width);
            let place = Self::place(cache, entry.row as usize, layer, entry.position as usize);
            cache.numbers.offset(place * 2).write_bf16(&numbers);
        }
        for (index, entry) in real() {
            let past = entries.past.offset(index * cache.positions * 2).u16(entry.position as usize + 1);
            let places: Vec<usize> =
                past.iter().enumerate().map(|(at, &row)| Self::place(cache, usize::from(row), layer, at)).collect();
            for head in 0..width / HEAD {
                let query = query_key_value.bf16_at(index * 3 * width + head * HEAD, HEAD);
                let key = |place: &usize| cache.numbers.bf16_at(place + head * HEAD, HEAD);
                let scores: Vec<f32> = places.iter().map(|place| dot(&query, &key(place)) * SCALE).collect();
                let sums = attend(&scores, |at| cache.numbers.bf16_at(places[at] + width + head * HEAD, HEAD));
                to.offset((index * width + head * HEAD) * 2).write_bf16(&sums);
            }
        }
        Ok(())
    }

    fn cross_attention(
        &self,
        entries: &Entries<PlainBuffer>,
        queries: &PlainBuffer,
        windows: &WindowKeys<PlainBuffer>,
        to: &PlainBuffer,
    ) -> DeviceResult {
        let width = windows.width;
        for (index, entry) in
            entries_of(entries).into_iter().enumerate().filter(|(_, entry)| entry.row != StepEntry::NONE)
        {
            let numbers = window(windows, entry.slot as usize);
            for head in 0..width / HEAD {
                let query = queries.bf16_at(index * width + head * HEAD, HEAD);
                let part = |frame: usize, which: usize| {
                    let head = which * width / HEAD + head;
                    &numbers[(head * windows.frames + frame) * HEAD..][..HEAD]
                };
                let scores: Vec<f32> = (0..windows.frames).map(|frame| dot(&query, part(frame, 0)) * SCALE).collect();
                let sums = attend(&scores, |frame| part(frame, 1).to_vec());
                to.offset((index * width + head * HEAD) * 2).write_bf16(&sums);
            }
        }
        Ok(())
    }

    fn head_scores(
        &self,
        entries: &Entries<PlainBuffer>,
        first: usize,
        head: usize,
        frames: usize,
        queries: &PlainBuffer,
        windows: &WindowKeys<PlainBuffer>,
        to: &PlainBuffer,
    ) -> DeviceResult {
        let width = windows.width;
        for (index, entry) in entries_of(entries).into_iter().enumerate().skip(first) {
            let query = queries.bf16_at(index * width + head * HEAD, HEAD);
            let numbers = window(windows, entry.slot as usize);
            let key = |frame: usize| &numbers[(head * windows.frames + frame) * HEAD..][..HEAD];
            let scores: Vec<f32> = (0..frames).map(|frame| dot(&query, key(frame)) * SCALE).collect();
            to.offset((index - first) * frames * 4).write_f32(&scores);
        }
        Ok(())
    }

    fn agree(
        &self,
        heads: usize,
        texts: &[AlignedText],
        _list: &PlainBuffer,
        scores: &PlainBuffer,
        to: &PlainBuffer,
    ) -> DeviceResult {
        for text in texts {
            let AlignedText { rows, leading, frames, .. } = *text;
            let place = scores.offset(text.scores * 4);
            let mut numbers = place.f32(heads * rows * frames);
            for row in numbers.chunks_exact_mut(frames) {
                let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                row.iter_mut().for_each(|score| *score = (*score - top).exp());
                let total: f32 = row.iter().sum();
                row.iter_mut().for_each(|weight| *weight /= total);
            }
            place.write_f32(&numbers);
            let mut agreed = vec![0f32; (rows - leading) * frames];
            for head in numbers.chunks_exact_mut(rows * frames) {
                for frame in 0..frames {
                    let mean = (0..rows).map(|row| head[row * frames + frame]).sum::<f32>() / rows as f32;
                    let squares = (0..rows).map(|row| (head[row * frames + frame] - mean).powi(2)).sum::<f32>();
                    let scale = if squares > 0.0 { 1.0 / (squares / rows as f32).sqrt() } else { 0.0 };
                    (0..rows).for_each(|row| head[row * frames + frame] = (head[row * frames + frame] - mean) * scale);
                }
                for (row, out) in head[leading * frames..].chunks_exact(frames).zip(agreed.chunks_exact_mut(frames)) {
                    for (frame, out) in out.iter_mut().enumerate() {
                        *out += median(row, frame) / heads as f32;
                    }
                }
            }
            to.offset(text.to * 4).write_f32(&agreed);
        }
        Ok(())
    }

    fn answer(
        &self,
        count: usize,
        flag: &PlainBuffer,
        queries: &PlainBuffer,
        logits: &PlainBuffer,
        pitch: usize,
        tokens: &DeviceTokens<PlainBuffer>,
        to: &AnswerBuffers<PlainBuffer>,
    ) -> DeviceResult {
        to.best.write(&flag.read(4));
        let words = queries.u32(count * 8);
        let (languages, marks) =
            (tokens.languages.u32(tokens.map.languages.len()), tokens.marks.read(tokens.vocabulary));
        for (index, query) in words.chunks_exact(8).enumerate() {
            let &[row, flags, first, last, top_k, temperature, uniform, _] = query else { continue };
            if row == StepEntry::NONE {
                continue;
            }
            let has = |flag: u32| flags & flag != 0;
            let scores = logits.offset(row as usize * pitch * 4).f32(tokens.vocabulary);
            let softmax = |among: &[u32]| -> Vec<f32> {
                let top = among.iter().map(|&token| scores[token as usize]).fold(f32::NEG_INFINITY, f32::max);
                let weights: Vec<f32> = among.iter().map(|&token| (scores[token as usize] - top).exp()).collect();
                let total: f32 = weights.iter().sum();
                weights.into_iter().map(|weight| weight / total).collect()
            };
            let others = to.others.offset(index * (1 + languages.len()) * 4);
            if let Some(token) = tokens.map.no_speech.filter(|_| has(DeviceQuery::NO_SPEECH)) {
                let all: Vec<u32> = (0..tokens.vocabulary as u32).collect();
                others.write_f32(&softmax(&all)[token as usize..][..1]);
            }
            if has(DeviceQuery::LANGUAGES) {
                others.offset(4).write_f32(&softmax(&languages));
            }
            let mask = if has(DeviceQuery::AT_START) { 3 } else { 1 };
            let allowed = |token: &u32| marks[*token as usize] & mask == 0;
            let end = tokens.map.end;
            let text_from = if has(DeviceQuery::TEXT) { 0 } else { end };
            let text_to = if has(DeviceQuery::END) { end + 1 } else { end };
            let mut texts: Vec<u32> = (text_from..text_to).filter(allowed).collect();
            let mut times: Vec<u32> = Vec::new();
            if has(DeviceQuery::TIMESTAMPS) {
                times = (first.max(tokens.map.first_timestamp)..last.min(tokens.vocabulary as u32))
                    .filter(allowed)
                    .collect();
            }
            let log_sum = |among: &[u32]| {
                let top = among.iter().map(|&token| scores[token as usize]).fold(f32::NEG_INFINITY, f32::max);
                top + among.iter().map(|&token| (scores[token as usize] - top).exp()).sum::<f32>().ln()
            };
            let likeliest_text = texts.iter().map(|&token| scores[token as usize]).fold(f32::NEG_INFINITY, f32::max);
            let decides = has(DeviceQuery::TEXT) || has(DeviceQuery::END);
            if decides && !times.is_empty() && log_sum(&times) > likeliest_text {
                texts.clear();
            }
            texts.append(&mut times);
            let total = log_sum(&texts);
            let mut chosen = texts.clone();
            if has(DeviceQuery::SAMPLE) {
                let weight =
                    |token: &u32| f64::from(((scores[*token as usize] - total) / f32::from_bits(temperature)).exp());
                let mut left = f64::from(f32::from_bits(uniform)) * texts.iter().map(weight).sum::<f64>();
                let drawn = texts.iter().find(|token| {
                    left -= weight(token);
                    left < 0.0
                });
                chosen = drawn.or(texts.last()).copied().into_iter().collect();
            } else {
                chosen.sort_by(|a, b| scores[*b as usize].total_cmp(&scores[*a as usize]).then(a.cmp(b)));
            }
            let wanted = if has(DeviceQuery::SAMPLE) { 1 } else { top_k as usize };
            chosen.resize(wanted, StepEntry::NONE);
            let log_prob = |token: &u32| scores.get(*token as usize).map_or(f32::NEG_INFINITY, |score| score - total);
            let best = to.best.offset(AnswerBuffers::<PlainBuffer>::bytes(index));
            best.write(as_bytes(&chosen));
            let log_probs = best.offset(AnswerBuffers::<PlainBuffer>::TOKENS);
            log_probs.write_f32(&chosen.iter().map(log_prob).collect::<Vec<_>>());
        }
        Ok(())
    }
}
