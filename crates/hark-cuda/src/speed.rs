//! How fast a device is: kernels beside what the device can do at most, and whole windows. Weights and sound are generated, in the shape of
//! large-v3-turbo.

use std::time::Instant;

use hark_numeric::SplitMix64;
use hark_whisper::backend::{Admission, Backend, Entry, TokenMap, TokenQuery, TokenRules};
use hark_whisper::weights::{Checkpoint, Dims, Vocabulary};

use crate::backend::{GpuBackend, GpuOptions};
use crate::device::{
    Device, DeviceResult, Entries, Fp8Rows, LinearWeights, NormWeights, Output, StepEntry, WindowKeys, as_bytes,
    bytes_of_bf16,
};
use crate::network::weights::{LoadError, Precision};

/// Seconds of sound in a window.
const WINDOW_SECONDS: f64 = 30.0;
/// Calls that are timed together: more than a launch costs.
const CALLS: usize = 20;
/// Windows of the encoder's kernels.
const WINDOWS: usize = 8;

/// The shape of large-v3-turbo.
const TURBO: Dims = Dims {
    n_mels: 128,
    n_audio_ctx: 1500,
    n_audio_state: 1280,
    n_audio_head: 20,
    n_audio_layer: 32,
    n_text_ctx: 448,
    n_text_state: 1280,
    n_text_head: 20,
    n_text_layer: 4,
    n_vocab: 51_866,
};

/// What limits a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Operations of the tensor cores.
    Products,
    /// Bytes of memory.
    Memory,
}

/// How fast a kernel is.
#[derive(Debug, Clone)]
pub struct KernelSpeed {
    /// What it does.
    pub name: String,
    /// Seconds of a call.
    pub seconds: f64,
    /// Operations or bytes of a call.
    pub work: f64,
    /// Which of both.
    pub bound: Bound,
}

/// How fast windows are transcribed that are decoded at once.
#[derive(Debug, Clone, Copy)]
pub struct WindowSpeed {
    /// How many.
    pub windows: usize,
    /// Seconds to encode one of them.
    pub encode: f64,
    /// Seconds of a step of all of them.
    pub step: f64,
    /// Seconds of sound that are transcribed a second.
    pub times_real_time: f64,
}

/// A checkpoint of large-v3-turbo's shape with generated weights, and its special tokens.
pub fn turbo() -> (Checkpoint, TokenMap) {
    let mut random = SplitMix64::new(1);
    let noise: Vec<f32> = (0..1_000_003).map(|_| random.unit() * 2.0 - 1.0).collect();
    let vocabulary = Vocabulary::bytes_only(TURBO.n_vocab);
    let checkpoint = Checkpoint::generated(TURBO, vocabulary, move |name, shape| {
        let is_norm = name.contains("ln") && name.ends_with("weight");
        let inputs = shape.iter().skip(1).product::<usize>() as f32;
        let (scale, shift) = if is_norm { (0.1, 1.0) } else { (1.0 / inputs.max(1.0).sqrt().max(4.0), 0.0) };
        let start = name.bytes().fold(7usize, |hash, byte| (hash * 31 + usize::from(byte)) % noise.len());
        let rows = noise[start..].iter().chain(noise.iter().cycle());
        rows.take(shape.iter().product()).map(|x| x * scale + shift).collect()
    });
    let tokens = TokenMap { end: 50_257, first_timestamp: 50_365, no_speech: Some(50_363), ..TokenMap::default() };
    (checkpoint, tokens)
}

/// What is measured, and how often.
#[derive(Debug, Clone)]
pub struct SpeedOptions {
    /// Windows decoded at once, one figure each.
    pub batches: Vec<usize>,
    /// Tokens of a window.
    pub tokens: usize,
    /// The fastest of so many rounds counts.
    pub rounds: usize,
    /// Rows of each window, as in a beam.
    pub rows: usize,
    /// As [`GpuOptions::encode_at_once`].
    pub encode_at_once: usize,
    /// As [`GpuOptions::precision`].
    pub precision: Precision,
}

impl Default for SpeedOptions {
    fn default() -> Self {
        let GpuOptions { encode_at_once, precision, .. } = GpuOptions::default();
        SpeedOptions { batches: vec![1, 4, 16, 64, 128], tokens: 100, rounds: 4, rows: 1, encode_at_once, precision }
    }
}

/// Transcribes generated windows, engine alone: spectrograms are copied, words are not aligned.
pub fn windows<D: Device>(device: D, options: &SpeedOptions) -> Result<Vec<WindowSpeed>, LoadError> {
    let (checkpoint, tokens) = turbo();
    let most = options.batches.iter().copied().max().unwrap_or(1);
    let SpeedOptions { rows, encode_at_once, precision, .. } = *options;
    let gpu = GpuOptions { slots: Some(most + 2), rows, encode_at_once, precision };
    let mut backend = GpuBackend::load(device, &checkpoint, tokens, gpu)?;
    let mut random = SplitMix64::new(2);
    let mel: Vec<f32> = (0..3000 * TURBO.n_mels).map(|_| random.unit() * 2.0 - 1.0).collect();
    let rules = TokenRules { text: true, end: false, at_start: false, timestamps: None };
    let query = Some(TokenQuery { rules, top_k: 1, sampling: None, no_speech: false, languages: false });
    let mut speeds = Vec::new();
    for &batch in &options.batches {
        let windows: Vec<Admission> = (0..batch).map(|slot| Admission::once(slot, &mel)).collect();
        let mut best: Option<WindowSpeed> = None;
        for _ in 0..options.rounds.max(1) {
            let begun = Instant::now();
            backend.encode(&windows)?;
            let encoded = begun.elapsed().as_secs_f64();
            let mut last = vec![11u32; batch * rows];
            for position in 0..options.tokens {
                let entry = |(index, &token): (usize, &u32)| {
                    let (slot, row) = (index / rows, index % rows);
                    Entry { slot, row, parent: row, position, token, query }
                };
                let entries: Vec<Entry> = last.iter().enumerate().map(entry).collect();
                let answers = backend.step(&entries)?;
                last = answers.iter().filter_map(|answer| answer.best.first()).map(|(token, _)| *token).collect();
            }
            let all = begun.elapsed().as_secs_f64();
            let speed = WindowSpeed {
                windows: batch,
                encode: encoded / batch as f64,
                step: (all - encoded) / options.tokens.max(1) as f64,
                times_real_time: WINDOW_SECONDS * batch as f64 / all,
            };
            best = best.filter(|best| best.times_real_time >= speed.times_real_time).or(Some(speed));
        }
        speeds.extend(best);
    }
    Ok(speeds)
}

/// Measures single operations. The first two are what the device can do: a large product, and a layer norm of many rows.
pub fn kernels<D: Device>(device: &D, rounds: usize) -> DeviceResult<Vec<KernelSpeed>> {
    let bench = KernelBench { device, rounds, figures: Vec::new(), random: SplitMix64::new(3) };
    bench.run()
}

struct KernelBench<'a, D: Device> {
    device: &'a D,
    rounds: usize,
    figures: Vec<KernelSpeed>,
    random: SplitMix64,
}

impl<D: Device> KernelBench<'_, D> {
    fn run(mut self) -> DeviceResult<Vec<KernelSpeed>> {
        let (width, frames) = (TURBO.n_audio_state, TURBO.n_audio_ctx);
        let rows = WINDOWS * frames;
        self.linear("peak: products of 8192 by 8192 by 8192", (8192, 8192, 8192), Output::Bf16, Bound::Products)?;
        self.norm("peak: memory, layer norm of 131072 rows", 131_072, width)?;
        self.attention(&format!("encoder: attention, {WINDOWS} windows"), frames, width)?;
        for (name, inputs, outputs, output) in [
            ("queries, keys, values", width, 3 * width, Output::Bf16),
            ("attention output", width, width, Output::AddF32),
            ("MLP up", width, 4 * width, Output::Gelu),
            ("MLP down", 4 * width, width, Output::AddF32),
        ] {
            self.linear(&format!("encoder: {name}"), (rows, inputs, outputs), output, Bound::Products)?;
        }
        self.norm("encoder: layer norm", rows, width)?;
        if self.device.has_fp8() {
            for (name, inputs, outputs, output) in [
                ("queries, keys, values", width, 3 * width, Output::Bf16),
                ("MLP up", width, 4 * width, Output::Gelu),
                ("MLP down", 4 * width, width, Output::AddF32),
            ] {
                self.linear_fp8(&format!("encoder in e4m3: {name}"), (rows, inputs, outputs), output)?;
            }
            self.quantize("encoder in e4m3: hidden rows quantized", rows, 4 * width)?;
        }
        let vocabulary = TURBO.n_vocab.next_multiple_of(8);
        for rows in [1, 16, 128] {
            for (name, inputs, outputs, output) in [
                ("queries, keys, values", width, 3 * width, Output::Bf16),
                ("MLP down", 4 * width, width, Output::AddF32),
                ("all scores", width, vocabulary, Output::F32),
            ] {
                let name = format!("decoder: {name}, {rows} rows");
                self.linear(&name, (rows, inputs, outputs), output, Bound::Memory)?;
            }
            self.cross_attention(&format!("decoder: cross-attention, {rows} rows"), rows, false)?;
            if self.device.has_fp8() {
                self.cross_attention(&format!("decoder: cross-attention in e4m3, {rows} rows"), rows, true)?;
            }
        }
        Ok(self.figures)
    }

    /// Times `call`, which works on one of several sets of buffers in turn.
    fn time(&mut self, name: &str, (work, bound): (f64, Bound), call: &dyn Fn(usize) -> DeviceResult) -> DeviceResult {
        let wait = self.device.allocate(4)?;
        let mut seconds = f64::INFINITY;
        // The first round measures plans.
        for _ in 0..=self.rounds.max(1) {
            self.device.download(&wait, &mut [0; 4])?;
            let begun = Instant::now();
            for index in 0..CALLS {
                call(index)?;
            }
            self.device.download(&wait, &mut [0; 4])?;
            seconds = seconds.min(begun.elapsed().as_secs_f64() / CALLS as f64);
        }
        self.figures.push(KernelSpeed { name: name.to_owned(), seconds, work, bound });
        Ok(())
    }

    fn bf16(&mut self, count: usize) -> DeviceResult<D::Buffer> {
        let some: Vec<f32> = (0..count.min(1 << 20)).map(|_| self.random.unit() - 0.5).collect();
        let bytes = bytes_of_bf16(&some);
        let buffer = self.device.allocate(count * 2)?;
        for begin in (0..count * 2).step_by(bytes.len()) {
            let part = bytes.len().min(count * 2 - begin);
            self.device.upload(&bytes[..part], &crate::device::DeviceBuffer::offset(&buffer, begin))?;
        }
        Ok(buffer)
    }

    fn linear(
        &mut self,
        name: &str,
        (rows, inputs, outputs): (usize, usize, usize),
        output: Output,
        bound: Bound,
    ) -> DeviceResult {
        // Weights that are not in the cache from the call before, as in a network.
        let copies = (400_000_000 / (inputs * outputs * 2)).clamp(1, CALLS);
        let layers = (0..copies)
            .map(|_| {
                let weight = self.bf16(inputs * outputs)?;
                Ok(LinearWeights { weight, scales: None, bias_f32: None, bias_bf16: None, outputs, inputs })
            })
            .collect::<DeviceResult<Vec<_>>>()?;
        let (from, to) = (self.bf16(rows * inputs)?, self.device.allocate(rows * outputs * 4)?);
        let work = match bound {
            Bound::Products => 2.0 * (rows * inputs * outputs) as f64,
            Bound::Memory => 2.0 * (inputs * outputs) as f64,
        };
        let device = self.device;
        self.time(name, (work, bound), &|index| device.linear(rows, &from, &layers[index % copies], &to, output))
    }

    fn linear_fp8(
        &mut self,
        name: &str,
        (rows, inputs, outputs): (usize, usize, usize),
        output: Output,
    ) -> DeviceResult {
        let ones = |count: usize| -> DeviceResult<D::Buffer> {
            let buffer = self.device.allocate(count * 4)?;
            self.device.upload(as_bytes(&vec![0.01f32; count]), &buffer).map(|()| buffer)
        };
        let (scales_of_rows, scales) = (ones(rows)?, Some(ones(outputs)?));
        // Bytes of bf16 numbers are numbers in e4m3 too.
        let (weight, rows_of) = (self.bf16(inputs * outputs / 2)?, self.bf16(rows * inputs / 2)?);
        let from = Fp8Rows { numbers: rows_of, scales: scales_of_rows };
        let layer = LinearWeights { weight, scales, bias_f32: None, bias_bf16: None, outputs, inputs };
        let to = self.device.allocate(rows * outputs * 4)?;
        let work = (2.0 * (rows * inputs * outputs) as f64, Bound::Products);
        let device = self.device;
        self.time(name, work, &|_| device.linear_fp8(rows, &from, &layer, &to, output))
    }

    fn quantize(&mut self, name: &str, rows: usize, width: usize) -> DeviceResult {
        let from = self.bf16(rows * width)?;
        let to = Fp8Rows { numbers: self.device.allocate(rows * width)?, scales: self.device.allocate(rows * 4)? };
        let device = self.device;
        let work = (3.0 * (rows * width) as f64, Bound::Memory);
        self.time(name, work, &|_| device.quantize(rows, width, &from, &to))
    }

    fn norm(&mut self, name: &str, rows: usize, width: usize) -> DeviceResult {
        let (from, to) = (self.device.allocate(rows * width * 4)?, self.device.allocate(rows * width * 2)?);
        let norm = NormWeights { gain: self.device.allocate(width * 4)?, bias: self.device.allocate(width * 4)? };
        let device = self.device;
        let work = (6.0 * (rows * width) as f64, Bound::Memory);
        self.time(name, work, &|_| device.layer_norm(rows, width, &from, &norm, &to, None, None))
    }

    fn attention(&mut self, name: &str, frames: usize, width: usize) -> DeviceResult {
        let (from, to) =
            (self.bf16(WINDOWS * frames * 3 * width)?, self.device.allocate(WINDOWS * frames * width * 2)?);
        let device = self.device;
        let work = (4.0 * (WINDOWS * frames * frames * width) as f64, Bound::Products);
        self.time(name, work, &|_| device.encoder_attention(WINDOWS, frames, width, &from, &to))
    }

    fn cross_attention(&mut self, name: &str, rows: usize, is_fp8: bool) -> DeviceResult {
        let (width, frames) = (TURBO.n_text_state, TURBO.n_audio_ctx);
        let stride = 2 * frames * width;
        let bytes = if is_fp8 { 1 } else { 2 };
        let (numbers, queries) = (self.bf16(rows * stride * bytes / 2)?, self.bf16(rows * width)?);
        let scale_stride = 2 * width / 64;
        let scales = self.device.allocate(rows * scale_stride * 4)?;
        let scales = is_fp8.then_some(&scales);
        let words: Vec<u32> =
            (0..rows as u32).flat_map(|row| StepEntry { token: 0, position: 0, row, slot: row }.words()).collect();
        let (list, past) = (self.device.allocate(words.len() * 4)?, self.device.allocate(4)?);
        self.device.upload(as_bytes(&words), &list)?;
        let to = self.device.allocate(rows * width * 2)?;
        let device = self.device;
        let work = ((bytes * rows * stride) as f64, Bound::Memory);
        self.time(name, work, &|_| {
            let entries = Entries { count: rows, entries: &list, past: &past, are_distinct: true, groups: None };
            let windows = WindowKeys { numbers: &numbers, slot_stride: stride, scales, scale_stride, frames, width };
            device.cross_attention(&entries, &queries, &windows, &to)
        })
    }
}
