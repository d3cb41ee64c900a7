//! The CPU backend: the network on the kernels and threads of [`hark_compute`].

mod capacity;
mod decoder;
mod encoder;
mod kv_cache;
pub mod times;

pub use hark_compute::{Compute, Isa, Weights};

use crate::backend::{
    Admission, AlignmentRequest, AlignmentScores, Answer, Backend, BackendError, Entry, MemoryUse, Reencode, TokenMap,
};
use crate::weights::{Checkpoint, Dims, WeightsError};
use decoder::{MAX_HEADS, MAX_POSITIONS};
use encoder::MEL_FRAMES;
use hark_compute::kernels::{BLOCK, HEAD};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use times::Part;

/// How a [`CpuBackend`] is set up.
#[derive(Debug, Clone, Copy)]
pub struct CpuOptions {
    /// The format of the linear layers.
    pub weights: Weights,
    /// Windows decoded at once.
    pub slots: usize,
    /// Rows of a slot: the widest beam.
    pub rows: usize,
    /// Windows that can be re-encoded in part: number of encoder caches.
    pub encoder_caches: usize,
}

impl CpuOptions {
    /// As many slots and encoder caches as fit `workspace` bytes, up to a useful maximum, for a beam of `rows`.
    pub fn within(dims: &Dims, weights: Weights, rows: usize, workspace: u64) -> Self {
        let encoder_caches = capacity::encoder_caches(dims, workspace);
        CpuOptions { weights, slots: capacity::slots(dims, rows, workspace), rows, encoder_caches }
    }
}

/// A checkpoint on the CPU.
pub struct CpuBackend {
    dims: Dims,
    options: CpuOptions,
    compute: Compute,
    encoder: encoder::Encoder,
    decoder: decoder::Decoder,
    encoder_caches: Vec<CachedWindow>,
    /// Slots that may hold windows: fewer than all after an out of memory.
    capacity: usize,
    /// Slots that hold windows.
    occupied: Vec<bool>,
    /// Counts encodings that use a cache, for cache replacement.
    clock: u64,
}

/// The encoder cache of a window.
#[derive(Default)]
struct CachedWindow {
    key: Option<u64>,
    /// The clock at its last use.
    used: u64,
    /// The slot that uses it.
    slot: Option<usize>,
    layers: encoder::EncoderCache,
}

impl CpuBackend {
    /// Packs the weights of `checkpoint`, to run on the threads and kernels of `compute`.
    pub fn load(
        checkpoint: &Checkpoint,
        tokens: TokenMap,
        compute: &Compute,
        options: CpuOptions,
    ) -> Result<Self, WeightsError> {
        fits(&checkpoint.dims).map_err(|what| checkpoint.unsupported(what))?;
        Ok(CpuBackend {
            dims: checkpoint.dims,
            options,
            compute: compute.clone(),
            encoder: encoder::Encoder::load(checkpoint, options.weights, compute.threads())?,
            decoder: decoder::Decoder::load(checkpoint, tokens, options)?,
            encoder_caches: (0..options.encoder_caches).map(|_| CachedWindow::default()).collect(),
            capacity: options.slots,
            occupied: vec![false; options.slots],
            clock: 0,
        })
    }

    /// The encoder cache of a window, or one to replace: an empty one, or that of a window not used for long. With more
    /// windows than caches the later windows get none, otherwise all would evict each other.
    fn cache_for(&self, key: u64) -> Option<usize> {
        let known = self.encoder_caches.iter().position(|cache| cache.key == Some(key));
        if known.is_some_and(|index| self.encoder_caches[index].slot.is_some()) {
            // Encoded twice at once: the second pass must not change what the first one reads.
            return None;
        }
        known.or_else(|| {
            let unused = self.encoder_caches.iter().enumerate().filter(|(_, cache)| cache.slot.is_none());
            let (index, oldest) = unused.min_by_key(|(_, cache)| cache.used)?;
            let is_free = oldest.key.is_none() || oldest.used + 4 * (self.encoder_caches.len() as u64) < self.clock;
            is_free.then_some(index)
        })
    }

    /// Switches to the kernels of `isa`, for comparisons: the weights are packed alike for all of them. Clears the
    /// encoder caches.
    pub fn use_kernels(&mut self, isa: Isa) {
        self.compute = Compute::on(Arc::clone(self.compute.pool()), isa);
        // Kernels differ in the layout of the cached values.
        self.encoder_caches.iter_mut().for_each(|cache| *cache = CachedWindow::default());
    }

    /// The encoder's states of one window, rounded to bf16, for comparison with a reference.
    pub fn encoder_states(&mut self, mel: &[f32]) -> Vec<u16> {
        self.encoder.encode(&self.compute, mel);
        self.encoder.states()
    }

    /// Encodes one window and returns the time of each part, summed over threads.
    pub fn time_encoder(&mut self, mel: &[f32]) -> [Duration; Part::ALL.len()] {
        self.encoder.times.take();
        self.encoder.encode(&self.compute, mel);
        self.encoder.times.take()
    }
}

/// Checks that the kernels support these dimensions, as they do those of every Whisper: a file may have any.
fn fits(dims: &Dims) -> Result<(), String> {
    for (side, width, heads) in
        [("encoder", dims.n_audio_state, dims.n_audio_head), ("decoder", dims.n_text_state, dims.n_text_head)]
    {
        if width != heads * HEAD {
            return Err(format!("its {side} has {heads} heads on a width of {width}, where each must be {HEAD} wide"));
        }
    }
    for (what, value, most) in [
        ("decoder heads", dims.n_text_head, MAX_HEADS),
        ("text positions", dims.n_text_ctx, MAX_POSITIONS),
        ("audio positions", dims.n_audio_ctx, MEL_FRAMES / 2),
    ] {
        if value > most {
            return Err(format!("it has {value} {what}, more than the {most} of any Whisper"));
        }
    }
    if dims.n_text_ctx < MIN_POSITIONS {
        return Err(format!("it has {} text positions, too few for a prompt and a text", dims.n_text_ctx));
    }
    let sizes = [dims.n_mels, dims.n_audio_ctx, dims.n_audio_head, dims.n_text_head, dims.n_vocab];
    if sizes.contains(&0) || dims.n_audio_layer == 0 || dims.n_text_layer == 0 {
        return Err("one of its sizes is zero".to_owned());
    }
    Ok(())
}

/// The minimum of text positions: a prompt, a start sequence and a text; every Whisper has 448.
const MIN_POSITIONS: usize = 16;

impl CpuBackend {
    /// Encodes one window into its slot.
    fn admit(&mut self, window: &Admission) -> Result<(), BackendError> {
        let &Admission { slot, mel, reencode } = window;
        if slot >= self.options.slots || mel.len() != MEL_FRAMES * self.dims.n_mels {
            return Err(BackendError::Fault("a window can't be encoded: no such slot, or not 3000 frames".to_owned()));
        }
        if let Some(reencode) = reencode {
            self.clock += 1;
            if let Some(index) = self.cache_for(reencode.key) {
                let admitted = self.admit_cached(slot, mel, reencode, index);
                if admitted.is_err() {
                    self.encoder_caches[index] = CachedWindow::default();
                }
                return admitted;
            }
        }
        self.encoder.encode(&self.compute, mel);
        let rows = 0..self.dims.n_audio_ctx;
        self.check_states(rows.clone())?;
        self.decoder.admit(&self.compute, slot, self.encoder.rows(rows))
    }

    /// Encodes a window, or its changed frames, with the encoder cache of that index.
    fn admit_cached(
        &mut self,
        slot: usize,
        mel: &[f32],
        reencode: &Reencode,
        index: usize,
    ) -> Result<(), BackendError> {
        let frames = self.dims.n_audio_ctx;
        let cache = &mut self.encoder_caches[index];
        let is_known = cache.key == Some(reencode.key);
        (cache.key, cache.used, cache.slot) = (Some(reencode.key), self.clock, Some(slot));
        let part = reencode.changed.clone().filter(|_| is_known).map(|changed| {
            let end = changed.end.next_multiple_of(BLOCK);
            let end = if end >= frames { frames } else { end };
            (changed.start / BLOCK * BLOCK).min(end.saturating_sub(1) / BLOCK * BLOCK)..end
        });
        let rows = part.clone().unwrap_or(0..frames);
        self.encoder.encode_cached(&self.compute, mel, rows.clone(), &mut cache.layers);
        self.check_states(rows.clone())?;
        let states = self.encoder.rows(rows);
        self.decoder.admit_cached(&self.compute, slot, index, states, part.map(|part| part.start))
    }

    /// Fails if encoder states are not finite. Checked before quantization, which makes every number finite.
    fn check_states(&self, rows: Range<usize>) -> Result<(), BackendError> {
        match self.encoder.is_finite(rows) {
            true => Ok(()),
            false => Err(BackendError::Fault("the encoder's states are not finite".to_owned())),
        }
    }
}

impl Backend for CpuBackend {
    fn dims(&self) -> &Dims {
        &self.dims
    }

    fn slots(&self) -> usize {
        self.options.slots
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn rows(&self) -> usize {
        self.options.rows
    }

    fn name(&self) -> String {
        format!("cpu ({}, {} threads)", self.compute.isa().name(), self.compute.threads())
    }

    fn memory(&self) -> MemoryUse {
        let fixed = self.encoder.weight_bytes() + self.encoder.workspace_bytes() + self.decoder.weight_bytes();
        let windows = self.options.slots as u64 * capacity::slot_bytes(&self.dims, self.options.rows);
        let caches = self.options.encoder_caches as u64 * capacity::encoder_cache_bytes(&self.dims);
        MemoryUse { fixed, most: fixed + windows + caches }
    }

    fn health(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    fn encode(&mut self, windows: &[Admission]) -> Result<(), BackendError> {
        for window in windows {
            let admitted = self.admit(window);
            if let Err(BackendError::OutOfMemory(_)) = &admitted {
                // No more than now, until `trim`.
                self.capacity = self.occupied.iter().filter(|occupied| **occupied).count();
            }
            admitted?;
        }
        windows.iter().for_each(|window| self.occupied[window.slot] = true);
        Ok(())
    }

    fn release(&mut self, slot: usize) -> Result<(), BackendError> {
        for cache in self.encoder_caches.iter_mut().filter(|cache| cache.slot == Some(slot)) {
            cache.slot = None;
        }
        if let Some(occupied) = self.occupied.get_mut(slot) {
            *occupied = false;
        }
        Ok(())
    }

    fn step(&mut self, entries: &[Entry]) -> Result<Vec<Answer>, BackendError> {
        self.decoder.step(&self.compute, entries)
    }

    fn align(&mut self, requests: &[AlignmentRequest]) -> Result<Vec<AlignmentScores>, BackendError> {
        requests.iter().map(|request| self.decoder.align(&self.compute, request)).collect()
    }

    fn trim(&mut self) -> Result<(), BackendError> {
        self.encoder_caches.iter_mut().for_each(|cache| *cache = CachedWindow::default());
        self.encoder.trim();
        self.decoder.trim();
        self.capacity = self.options.slots;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::Vocabulary;

    #[test]
    fn sizes_that_kernels_cannot_run_are_refused() {
        let dims = Dims {
            n_mels: 80,
            n_audio_ctx: 8,
            n_audio_state: 64,
            n_audio_head: 1,
            n_audio_layer: 1,
            n_text_ctx: 16,
            n_text_state: 64,
            n_text_head: 1,
            n_text_layer: 1,
            n_vocab: 2000,
        };
        let load = |dims: Dims| {
            let zeros = |_: &str, shape: &[usize]| vec![0.0; shape.iter().product()];
            let checkpoint = Checkpoint::generated(dims, Vocabulary::bytes_only(dims.n_vocab), zeros);
            let weights = Weights::default();
            let options = CpuOptions { weights, slots: 1, rows: 1, encoder_caches: 0 };
            let compute = Compute::new(1, Isa::Portable);
            CpuBackend::load(&checkpoint, TokenMap::default(), &compute, options).map(drop)
        };
        load(dims).expect("a small Whisper");
        for (dims, what) in [
            (Dims { n_audio_head: 2, ..dims }, "encoder has 2 heads"),
            (Dims { n_text_head: 2, ..dims }, "decoder has 2 heads"),
            (Dims { n_text_state: 24 * 64, n_text_head: 24, ..dims }, "24 decoder heads"),
            (Dims { n_text_ctx: 449, ..dims }, "449 text positions"),
            (Dims { n_text_ctx: 15, ..dims }, "15 text positions"),
            (Dims { n_text_layer: 0, ..dims }, "sizes is zero"),
            (Dims { n_audio_ctx: 1501, ..dims }, "1501 audio positions"),
        ] {
            let error = load(dims).expect_err(what).to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
