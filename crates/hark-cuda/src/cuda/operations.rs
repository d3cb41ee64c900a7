//! The operations of a [`Device`] on a GPU: each checks its buffers and launches its kernel.

use std::ffi::c_void;
use std::sync::Arc;

use super::driver::{Graph, Memory};
use super::matmul::Product;
use super::{CudaBuffer, CudaDevice, CudaError, HEAD, MOST_PARTS};
use crate::device::{
    AnswerBuffers, Device, DeviceResult, DeviceTokens, Entries, GraphKey, KvCache, LinearWeights, NormWeights, Output,
    StepEntry, Unfold, WindowKeys,
};

/// Threads of a kernel over rows.
const ROW_THREADS: u32 = 128;

/// Pointers to the arguments of a kernel.
macro_rules! arguments {
    ($($value:expr),* $(,)?) => { &mut [$((&raw const $value).cast_mut().cast::<c_void>()),*] };
}

impl Device for CudaDevice {
    type Buffer = CudaBuffer;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn free_memory(&self) -> DeviceResult<u64> {
        Ok(self.context.memory()?.0)
    }

    fn allocate(&self, bytes: usize) -> DeviceResult<CudaBuffer> {
        self.context.make_current()?;
        let memory = Memory::new(bytes)?;
        memory.clear(&self.stream)?;
        Ok(CudaBuffer { memory: Arc::new(memory), from: 0, _context: Arc::clone(&self.context) })
    }

    fn upload(&self, from: &[u8], to: &CudaBuffer) -> DeviceResult {
        to.holds(from.len())?;
        self.context.make_current()?;
        // SAFETY: the memory is there; the call returns when `from` was read, since that is not pinned.
        let copied = unsafe { cudarc::driver::result::memcpy_htod_async(to.address(), from, self.stream.raw()) };
        Ok(copied.map_err(CudaError::from)?)
    }

    fn download(&self, from: &CudaBuffer, to: &mut [u8]) -> DeviceResult {
        from.holds(to.len())?;
        self.context.make_current()?;
        // SAFETY: the memory is there, and `to` until the stream has been waited for.
        unsafe { cudarc::driver::result::memcpy_dtoh_async(to, from.address(), self.stream.raw()) }
            .map_err(CudaError::from)?;
        Ok(self.stream.synchronize()?)
    }

    fn graph(&self, key: GraphKey, work: &mut dyn FnMut() -> DeviceResult) -> DeviceResult {
        let known = self.graphs.borrow().get(&key).map(Option::is_some);
        match known {
            // The first time measures products, which can't be recorded.
            None => {
                work()?;
                self.graphs.borrow_mut().insert(key, None);
                return Ok(());
            }
            Some(false) => {
                self.context.make_current()?;
                let mut failed = None;
                let recorded = Graph::record(&self.stream, &mut || {
                    work().map_err(|error| {
                        let what = error.to_string();
                        failed = Some(error);
                        CudaError::Fault(what)
                    })
                });
                if let Some(error) = failed {
                    return Err(error);
                }
                self.graphs.borrow_mut().insert(key, Some(recorded?));
            }
            Some(true) => self.context.make_current()?,
        }
        match self.graphs.borrow().get(&key) {
            Some(Some(graph)) => Ok(graph.launch(&self.stream)?),
            _ => work(),
        }
    }

    fn forget_graphs(&self) {
        if self.context.make_current().is_ok() {
            self.graphs.borrow_mut().clear();
        }
    }

    fn unfold(&self, unfold: &Unfold, from: &CudaBuffer, to: &CudaBuffer) -> DeviceResult {
        let Unfold { windows, frames_in, frames_out, channels, stride, is_f32 } = *unfold;
        from.holds(windows * frames_in * channels * if is_f32 { 4 } else { 2 })?;
        to.holds(windows * frames_out * 3 * channels * 2)?;
        let (source, target) = (from.address(), to.address());
        let (frames_in, wide, channels, stride) = (frames_in as i32, frames_out as i32, channels as i32, stride as i32);
        let kernel = if is_f32 { "unfold_float" } else { "unfold_bf16" };
        self.launch(
            kernel,
            (windows * frames_out, 1, 1),
            ROW_THREADS,
            0,
            arguments![source, target, frames_in, wide, channels, stride],
        )
    }

    fn linear(
        &self,
        rows: usize,
        from: &CudaBuffer,
        layer: &LinearWeights<CudaBuffer>,
        to: &CudaBuffer,
        output: Output,
    ) -> DeviceResult {
        let (outputs, inputs) = (layer.outputs, layer.inputs);
        let (bias, width) = match output {
            Output::Bf16 | Output::Gelu => (&layer.bias_bf16, 2),
            Output::F32 | Output::AddF32 => (&layer.bias_f32, 4),
        };
        from.holds(rows * inputs * 2)?;
        to.holds(rows * outputs * width)?;
        layer.weight.holds(outputs * inputs * 2)?;
        if let Some(bias) = bias {
            bias.holds(outputs * width)?;
        }
        self.context.make_current()?;
        let bias = bias.as_ref().map_or(0, CudaBuffer::address);
        let (from, weight, to) = (from.address(), layer.weight.address(), to.address());
        Ok(self.products.multiply(&self.stream, &Product { rows, outputs, inputs, from, weight, bias, to, output })?)
    }

    fn add_positions(
        &self,
        rows: usize,
        frames: usize,
        width: usize,
        from: &CudaBuffer,
        positions: &CudaBuffer,
        to: &CudaBuffer,
    ) -> DeviceResult {
        from.holds(rows * width * 2)?;
        positions.holds(frames * width * 4)?;
        to.holds(rows * width * 4)?;
        let (from, positions, to) = (from.address(), positions.address(), to.address());
        let (frames, columns) = (frames as i32, width as i32);
        self.launch("add_positions", (rows, 1, 1), ROW_THREADS, 0, arguments![from, positions, to, frames, columns])
    }

    fn layer_norm(
        &self,
        rows: usize,
        width: usize,
        from: &CudaBuffer,
        weights: &NormWeights<CudaBuffer>,
        to: &CudaBuffer,
        rows_of: Option<&CudaBuffer>,
        flag: Option<&CudaBuffer>,
    ) -> DeviceResult {
        to.holds(rows * width * 2)?;
        match rows_of {
            Some(list) => list.holds(rows * 4)?,
            None => from.holds(rows * width * 4)?,
        }
        let (from, gain, bias, to) = (from.address(), weights.gain.address(), weights.bias.address(), to.address());
        let (list, flag) = (rows_of.map_or(0, CudaBuffer::address), flag.map_or(0, CudaBuffer::address));
        let (count, columns) = (rows as i32, width as i32);
        self.launch(
            "layer_norm",
            (rows.div_ceil(4), 1, 1),
            ROW_THREADS,
            0,
            arguments![from, gain, bias, to, list, flag, count, columns],
        )
    }

    fn encoder_attention(
        &self,
        windows: usize,
        frames: usize,
        width: usize,
        query_key_value: &CudaBuffer,
        to: &CudaBuffer,
    ) -> DeviceResult {
        const QUERIES: usize = 128;
        const SHARED: u32 = (128 + 4 * 64) * 128;
        query_key_value.holds(windows * frames * 3 * width * 2)?;
        to.holds(windows * frames * width * 2)?;
        let (from, to) = (query_key_value.address(), to.address());
        let (count, columns, scale) = (frames as i32, width as i32, 0.125f32);
        let grid = (frames.div_ceil(QUERIES), width / HEAD, windows);
        self.launch("encoder_attention", grid, 256, SHARED, arguments![from, to, count, columns, scale])
    }

    fn embed_tokens(
        &self,
        entries: &Entries<CudaBuffer>,
        width: usize,
        embedding: &CudaBuffer,
        positions: &CudaBuffer,
        to: &CudaBuffer,
    ) -> DeviceResult {
        to.holds(entries.count * width * 4)?;
        let (list, embedding, positions, to) =
            (entries.entries.address(), embedding.address(), positions.address(), to.address());
        let columns = width as i32;
        self.launch(
            "embed_tokens",
            (entries.count, 1, 1),
            ROW_THREADS,
            0,
            arguments![list, embedding, positions, to, columns],
        )
    }

    fn store_keys_values(
        &self,
        entries: &Entries<CudaBuffer>,
        query_key_value: &CudaBuffer,
        cache: &KvCache<CudaBuffer>,
        layer: usize,
    ) -> DeviceResult {
        query_key_value.holds(entries.count * 3 * cache.width * 2)?;
        let (list, from, numbers) = (entries.entries.address(), query_key_value.address(), cache.numbers.address());
        let (layer, layers, positions, width) =
            (layer as i32, cache.layers as i32, cache.positions as i32, cache.width as i32);
        self.launch(
            "store_keys_values",
            (entries.count, 1, 1),
            ROW_THREADS,
            0,
            arguments![list, from, numbers, layer, layers, positions, width],
        )
    }

    fn self_attention(
        &self,
        entries: &Entries<CudaBuffer>,
        query_key_value: &CudaBuffer,
        cache: &KvCache<CudaBuffer>,
        layer: usize,
        to: &CudaBuffer,
    ) -> DeviceResult {
        to.holds(entries.count * cache.width * 2)?;
        entries.past.holds(entries.count * cache.positions * 2)?;
        let (list, past, from) = (entries.entries.address(), entries.past.address(), query_key_value.address());
        let (numbers, to) = (cache.numbers.address(), to.address());
        let (layer, layers, positions, width) =
            (layer as i32, cache.layers as i32, cache.positions as i32, cache.width as i32);
        self.launch(
            "self_attention",
            (cache.width / HEAD, entries.count, 1),
            128,
            0,
            arguments![list, past, from, numbers, to, layer, layers, positions, width],
        )
    }

    fn cross_attention(
        &self,
        entries: &Entries<CudaBuffer>,
        queries: &CudaBuffer,
        windows: &WindowKeys<CudaBuffer>,
        to: &CudaBuffer,
    ) -> DeviceResult {
        to.holds(entries.count * windows.width * 2)?;
        let heads = windows.width / HEAD;
        let blocks = (entries.count * heads).max(1);
        // Few rows do not fill the device: then several blocks share a window.
        let parts = (2 * self.processors).div_ceil(blocks).min(8).min(MOST_PARTS / blocks).max(1);
        let (list, from, numbers) = (entries.entries.address(), queries.address(), windows.numbers.address());
        let (stride, target, aside) = (windows.slot_stride as u64, to.address(), self.parts.address());
        let (frames, columns) = (windows.frames as i32, windows.width as i32);
        self.launch(
            "cross_attention",
            (heads, entries.count, parts),
            256,
            0,
            arguments![list, from, numbers, stride, target, aside, frames, columns],
        )?;
        if parts == 1 {
            return Ok(());
        }
        let count = parts as i32;
        self.launch(
            "join_parts",
            (heads, entries.count, 1),
            HEAD as u32,
            0,
            arguments![list, aside, target, count, columns],
        )
    }

    fn head_scores(
        &self,
        entries: &Entries<CudaBuffer>,
        first: usize,
        head: usize,
        queries: &CudaBuffer,
        windows: &WindowKeys<CudaBuffer>,
        to: &CudaBuffer,
    ) -> DeviceResult {
        let rows = entries.count - first;
        to.holds(rows * windows.frames * 4)?;
        let (list, from, numbers) = (entries.entries.address(), queries.address(), windows.numbers.address());
        let (stride, target) = (windows.slot_stride as u64, to.address());
        let (first, head, frames, columns) = (first as i32, head as i32, windows.frames as i32, windows.width as i32);
        self.launch(
            "head_scores",
            (rows, windows.frames.div_ceil(128), 1),
            128,
            0,
            arguments![list, from, numbers, stride, target, first, head, frames, columns],
        )
    }

    fn answer(
        &self,
        count: usize,
        queries: &CudaBuffer,
        logits: &CudaBuffer,
        pitch: usize,
        tokens: &DeviceTokens<CudaBuffer>,
        to: &AnswerBuffers<CudaBuffer>,
    ) -> DeviceResult {
        /// `Tokens` of the kernel.
        #[repr(C)]
        struct Tokens([u32; 5]);
        let map = &tokens.map;
        let none = StepEntry::NONE;
        let special = Tokens([
            tokens.vocabulary as u32,
            map.end,
            map.first_timestamp,
            map.no_speech.unwrap_or(none),
            map.languages.len() as u32,
        ]);
        to.best.holds(count * to.most * 4)?;
        to.others.holds(count * (1 + map.languages.len()) * 4)?;
        let (list, from, pitch) = (queries.address(), logits.address(), pitch as u64);
        let (marks, languages, most) = (tokens.marks.address(), tokens.languages.address(), to.most as i32);
        let (best, log_probs, others) = (to.best.address(), to.log_probs.address(), to.others.address());
        self.launch(
            "answer_queries",
            (count, 1, 1),
            512,
            0,
            arguments![list, from, pitch, marks, languages, special, most, best, log_probs, others],
        )
    }
}
