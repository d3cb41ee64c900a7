//! The operations of a [`Device`] on a GPU: each checks its buffers and launches its kernel.

use std::ffi::c_void;
use std::sync::Arc;

use super::driver::{Graph, Memory};
use super::encoder_attention::EncoderAttention;
use super::matmul::Product;
use super::{ANSWER_PARTS, CudaBuffer, CudaDevice, CudaError, HEAD, MOST_FRAMES, MOST_PARTS, few_rows};
use crate::device::{
    AlignedText, AnswerBuffers, Device, DeviceResult, DeviceTokens, Entries, Fp8Rows, GraphKey, KvCache, LinearWeights,
    MOST_ALIGNED, MOST_ALIGNMENT_HEADS, MOST_BEST, NormWeights, Output, StepEntry, Unfold, WindowKeys,
};

/// Threads of a kernel over rows.
const ROW_THREADS: u32 = 128;

/// Rows of a layer norm for each multiprocessor, up to which each has a block of its own.
const MOST_BLOCK_ROWS: usize = 16;

/// Pointers to the arguments of a kernel.
macro_rules! arguments {
    ($($value:expr),* $(,)?) => { &mut [$((&raw const $value).cast_mut().cast::<c_void>()),*] };
}
pub(super) use arguments;

/// A product of rows, with the sizes of its buffers checked but for the rows'.
fn product(
    rows: usize,
    from: &CudaBuffer,
    layer: &LinearWeights<CudaBuffer>,
    to: &CudaBuffer,
    output: Output,
) -> DeviceResult<Product> {
    let (outputs, inputs) = (layer.outputs, layer.inputs);
    let (bias, width) = match output {
        Output::Bf16 | Output::Gelu => (&layer.bias_bf16, 2),
        Output::F32 | Output::AddF32 => (&layer.bias_f32, 4),
    };
    to.holds(rows * outputs * width)?;
    layer.weight.holds(outputs * inputs * 2)?;
    if let Some(bias) = bias {
        bias.holds(outputs * width)?;
    }
    let bias = bias.as_ref().map_or(0, CudaBuffer::address);
    let (from, weight, to) = (from.address(), layer.weight.address(), to.address());
    Ok(Product { rows, outputs, inputs, from, weight, bias, to, output, scales: None })
}

/// The same in e4m3.
fn product_fp8(
    rows: usize,
    from: &Fp8Rows<CudaBuffer>,
    layer: &LinearWeights<CudaBuffer>,
    to: &CudaBuffer,
    output: Output,
) -> DeviceResult<Product> {
    let (outputs, inputs) = (layer.outputs, layer.inputs);
    let Some(scales) = &layer.scales else {
        return Err(CudaError::Fault("a layer in e4m3 has no scales".to_owned()).into());
    };
    from.numbers.holds(rows * inputs)?;
    from.scales.holds(rows * 4)?;
    scales.holds(outputs * 4)?;
    layer.weight.holds(outputs * inputs)?;
    to.holds(rows * outputs * if matches!(output, Output::Bf16 | Output::Gelu) { 2 } else { 4 })?;
    if let Some(bias) = &layer.bias_bf16 {
        bias.holds(outputs * 2)?;
    }
    let bias = layer.bias_bf16.as_ref().map_or(0, CudaBuffer::address);
    let (weight, to) = (layer.weight.address(), to.address());
    let scales = Some((from.scales.address(), scales.address()));
    Ok(Product { rows, outputs, inputs, from: from.numbers.address(), weight, bias, to, output, scales })
}

/// Which kernel reads windows of a format, with the addresses of their numbers and scales.
fn by_format(windows: &WindowKeys<CudaBuffer>, kernels: [&'static str; 2]) -> (&'static str, u64, u64) {
    match windows.scales {
        None => (kernels[0], windows.numbers.address(), 0),
        Some(scales) => (kernels[1], windows.numbers.address(), scales.address()),
    }
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
        Ok(self.staging.upload(&self.stream, from, to.address())?)
    }

    fn download(&self, from: &CudaBuffer, to: &mut [u8]) -> DeviceResult {
        from.holds(to.len())?;
        self.context.make_current()?;
        Ok(self.staging.download(&self.stream, from.address(), to)?)
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
        if layer.scales.is_some() {
            return Err(CudaError::Fault("a layer in e4m3 takes rows in e4m3".to_owned()).into());
        }
        from.holds(rows * layer.inputs * 2)?;
        let product = product(rows, from, layer, to, output)?;
        if few_rows::can(&product) {
            return few_rows::launch(self, &product);
        }
        self.context.make_current()?;
        Ok(self.products.multiply(&self.stream, &product)?)
    }

    fn norm_linear(
        &self,
        rows: usize,
        stream: &CudaBuffer,
        norm: &NormWeights<CudaBuffer>,
        normed: &CudaBuffer,
        layer: &LinearWeights<CudaBuffer>,
        to: &CudaBuffer,
        output: Output,
    ) -> DeviceResult {
        stream.holds(rows * layer.inputs * 4)?;
        let product = product(rows, stream, layer, to, output)?;
        if few_rows::can_norm(&product) {
            return few_rows::launch_normed(self, &product, norm);
        }
        self.layer_norm(rows, layer.inputs, stream, norm, normed, None, None)?;
        self.linear(rows, normed, layer, to, output)
    }

    fn has_fp8(&self) -> bool {
        self.has_kernel("quantize_rows")
    }

    fn linear_fp8(
        &self,
        rows: usize,
        from: &Fp8Rows<CudaBuffer>,
        layer: &LinearWeights<CudaBuffer>,
        to: &CudaBuffer,
        output: Output,
    ) -> DeviceResult {
        let product = product_fp8(rows, from, layer, to, output)?;
        self.context.make_current()?;
        Ok(self.products.multiply(&self.stream, &product)?)
    }

    fn quantize(&self, rows: usize, width: usize, from: &CudaBuffer, to: &Fp8Rows<CudaBuffer>) -> DeviceResult {
        from.holds(rows * width * 2)?;
        to.numbers.holds(rows * width)?;
        to.scales.holds(rows * 4)?;
        let (from, numbers, scales, width) = (from.address(), to.numbers.address(), to.scales.address(), width as i32);
        self.launch("quantize_rows", (rows, 1, 1), ROW_THREADS, 0, arguments![from, numbers, scales, width])
    }

    fn layer_norm_fp8(
        &self,
        rows: usize,
        width: usize,
        from: &CudaBuffer,
        weights: &NormWeights<CudaBuffer>,
        to: &Fp8Rows<CudaBuffer>,
    ) -> DeviceResult {
        from.holds(rows * width * 4)?;
        to.numbers.holds(rows * width)?;
        to.scales.holds(rows * 4)?;
        let (from, gain, bias) = (from.address(), weights.gain.address(), weights.bias.address());
        let (numbers, scales, count, columns) = (to.numbers.address(), to.scales.address(), rows as i32, width as i32);
        let arguments = arguments![from, gain, bias, numbers, scales, count, columns];
        self.launch("layer_norm_fp8", (rows.div_ceil(4), 1, 1), ROW_THREADS, 0, arguments)
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
        let (kernel, grid, threads) = match rows <= MOST_BLOCK_ROWS * self.processors {
            true => ("layer_norm_few", rows, 256),
            false => ("layer_norm", rows.div_ceil(4), 128),
        };
        self.launch(kernel, (grid, 1, 1), threads, 0, arguments![from, gain, bias, to, list, flag, count, columns])
    }

    fn encoder_attention(
        &self,
        windows: usize,
        frames: usize,
        width: usize,
        query_key_value: &CudaBuffer,
        to: &CudaBuffer,
    ) -> DeviceResult {
        query_key_value.holds(windows * frames * 3 * width * 2)?;
        to.holds(windows * frames * width * 2)?;
        let (from, to) = (query_key_value.address(), to.address());
        EncoderAttention { windows, frames, width, from, to }.launch(self)
    }

    fn store_window_keys(
        &self,
        windows: usize,
        from: &CudaBuffer,
        slots: &CudaBuffer,
        to: &WindowKeys<CudaBuffer>,
    ) -> DeviceResult {
        let heads = 2 * to.width / HEAD;
        from.holds(windows * to.frames * heads * HEAD * 2)?;
        slots.holds(windows * 4)?;
        let (kernel, numbers, scales) = by_format(to, ["store_window_keys", "store_window_keys_fp8"]);
        let (from, slots) = (from.address(), slots.address());
        let (stride, scale_stride) = (to.slot_stride as u64, to.scale_stride as u64);
        let (frames, columns) = (to.frames as i32, heads as i32);
        let grid = match to.scales {
            None => (to.frames, windows, 1),
            Some(_) => (heads, windows, 1),
        };
        let arguments = arguments![from, slots, numbers, stride, scales, scale_stride, frames, columns];
        self.launch(kernel, grid, 256, 0, arguments)
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

    fn self_attention(
        &self,
        entries: &Entries<CudaBuffer>,
        query_key_value: &CudaBuffer,
        cache: &KvCache<CudaBuffer>,
        layer: usize,
        to: &CudaBuffer,
    ) -> DeviceResult {
        query_key_value.holds(entries.count * 3 * cache.width * 2)?;
        to.holds(entries.count * cache.width * 2)?;
        entries.past.holds(entries.count * cache.positions * 2)?;
        let (list, past, from) = (entries.entries.address(), entries.past.address(), query_key_value.address());
        let (numbers, to) = (cache.numbers.address(), to.address());
        let (layer, layers, positions, width) =
            (layer as i32, cache.layers as i32, cache.positions as i32, cache.width as i32);
        let stores = i32::from(entries.are_distinct);
        if !entries.are_distinct {
            self.launch(
                "store_keys_values",
                (entries.count, 1, 1),
                ROW_THREADS,
                0,
                arguments![list, from, numbers, layer, layers, positions, width],
            )?;
        }
        self.launch(
            "self_attention",
            (cache.width / HEAD, entries.count, 1),
            128,
            0,
            arguments![list, past, from, numbers, to, layer, layers, positions, width, stores],
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
        let (heads, rows) = (windows.width / HEAD, entries.count * (windows.width / HEAD));
        let groups = entries.groups.as_ref().map_or(entries.count, |groups| groups.count);
        // Few blocks do not fill the device: then several share a window.
        let parts = (2 * self.processors).div_ceil((groups * heads).max(1)).min(8).min(MOST_PARTS / rows.max(1)).max(1);
        let (list, from) = (entries.entries.address(), queries.address());
        let (stride, scale_stride) = (windows.slot_stride as u64, windows.scale_stride as u64);
        let (target, aside) = (to.address(), self.scratch.cross_attention.address());
        let (frames, columns) = (windows.frames as i32, windows.width as i32);
        let (counts, grid) = (self.scratch.counts.address(), (heads, groups, parts));
        let Some(groups) = &entries.groups else {
            let (kernel, numbers, scales) = by_format(windows, ["cross_attention", "cross_attention_fp8"]);
            let arguments =
                arguments![list, from, numbers, stride, scales, scale_stride, target, aside, counts, frames, columns];
            return self.launch(kernel, grid, 256, 0, arguments);
        };
        groups.list.holds(groups.count * 8)?;
        let groups = groups.list.address();
        let (kernel, numbers, scales) = by_format(windows, ["shared_cross_attention", "shared_cross_attention_fp8"]);
        let arguments = arguments![
            list,
            groups,
            from,
            numbers,
            stride,
            scales,
            scale_stride,
            target,
            aside,
            counts,
            frames,
            columns
        ];
        self.launch(kernel, grid, 256, 0, arguments)
    }

    fn head_scores(
        &self,
        entries: &Entries<CudaBuffer>,
        first: usize,
        head: usize,
        frames: usize,
        queries: &CudaBuffer,
        windows: &WindowKeys<CudaBuffer>,
        to: &CudaBuffer,
    ) -> DeviceResult {
        let rows = entries.count - first;
        to.holds(rows * frames * 4)?;
        let (list, from, target) = (entries.entries.address(), queries.address(), to.address());
        let (kernel, numbers, scales) = by_format(windows, ["head_scores", "head_scores_fp8"]);
        let (stride, scale_stride) = (windows.slot_stride as u64, windows.scale_stride as u64);
        let (first, head, wanted) = (first as i32, head as i32, frames as i32);
        let (all, columns) = (windows.frames as i32, windows.width as i32);
        self.launch(
            kernel,
            (rows, frames.div_ceil(128), 1),
            128,
            0,
            arguments![list, from, numbers, stride, scales, scale_stride, target, first, head, wanted, all, columns],
        )
    }

    fn agree(
        &self,
        heads: usize,
        texts: &[AlignedText],
        list: &CudaBuffer,
        scores: &CudaBuffer,
        to: &CudaBuffer,
    ) -> DeviceResult {
        let most_of = |size: fn(&AlignedText) -> usize| texts.iter().map(size).max().unwrap_or(0);
        let (rows, frames) = (most_of(|text| text.rows), most_of(|text| text.frames));
        let behind = most_of(|text| text.rows - text.leading);
        if texts.len() > MOST_ALIGNED || frames > MOST_FRAMES || heads > MOST_ALIGNMENT_HEADS {
            return Err(CudaError::Fault(format!("{} texts of {frames} frames and {heads} heads", texts.len())).into());
        }
        list.holds(texts.len() * AlignedText::BYTES)?;
        for text in texts {
            scores.holds((text.scores + heads * text.rows * text.frames) * 4)?;
            to.holds((text.to + (text.rows - text.leading) * text.frames) * 4)?;
        }
        let (list, scores, to) = (list.address(), scores.address(), to.address());
        let stats = self.scratch.alignment.address();
        let (of_frames, most, count) = (frames.div_ceil(128), frames as i32, heads as i32);
        self.launch("softmax_scores", (rows, heads, texts.len()), 128, 0, arguments![list, scores])?;
        let grid = (of_frames, heads, texts.len());
        self.launch("frame_stats", grid, 128, 0, arguments![list, scores, stats, most])?;
        let grid = (of_frames, behind, texts.len());
        self.launch("agree", grid, 128, 0, arguments![list, scores, stats, to, count, most])
    }

    fn answer(
        &self,
        count: usize,
        flag: &CudaBuffer,
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
        to.best.holds(AnswerBuffers::<CudaBuffer>::bytes(count))?;
        to.others.holds(count * (1 + map.languages.len()) * 4)?;
        let (list, from, pitch) = (queries.address(), logits.address(), pitch as u64);
        let (marks, languages, most) = (tokens.marks.address(), tokens.languages.address(), MOST_BEST as i32);
        let (best, others, flag, parts) =
            (to.best.address(), to.others.address(), flag.address(), self.scratch.answers.address());
        self.launch(
            "scan_logits",
            (ANSWER_PARTS, count, 1),
            256,
            0,
            arguments![list, from, pitch, marks, special, parts],
        )?;
        self.launch(
            "answer_queries",
            (count, 1, 1),
            512,
            0,
            arguments![list, from, pitch, marks, languages, special, parts, flag, most, best, others],
        )
    }
}
