//! The CPU backend: the network on the kernels and threads of [`hark_compute`].

mod capacity;
mod decoder;
mod encoder;
mod kv_cache;
pub mod times;

pub use hark_compute::{Compute, Isa, Weights};

use crate::backend::{
    Admission, Again, AlignmentRequest, AlignmentScores, Answer, Backend, BackendError, Entry, MemoryUse, TokenMap,
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
    /// How the linear layers are kept.
    pub weights: Weights,
    /// Windows decoded at once.
    pub slots: usize,
    /// Rows of a window: the widest beam.
    pub rows: usize,
    /// Windows that can be encoded again in part: the encoder's keys and values of each are kept.
    pub encoder_caches: usize,
}

impl CpuOptions {
    /// As many slots and encoder caches as `workspace` bytes hold, within what is of use, for the widest beam of `rows`.
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
    /// Slots that may hold windows: fewer than there are once memory was short.
    capacity: usize,
    /// Slots that hold windows.
    held: Vec<bool>,
    /// Windows encoded so far that wanted a cache: the clock of its replacement.
    clock: u64,
}

/// A window that may be encoded again.
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
            held: vec![false; options.slots],
            clock: 0,
        })
    }

    /// The encoder cache of a window, or one that it can have: an empty one, or that of a window not used for long. With more
    /// windows than caches the later ones get none, lest all evict each other.
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

    /// Computes with the kernels of `isa` from now on, for comparisons: the weights are packed alike for all of them. What
    /// was encoded before is forgotten.
    pub fn use_kernels(&mut self, isa: Isa) {
        self.compute = Compute::on(Arc::clone(&self.compute.pool), isa);
        // Kernels differ in the order in which they keep a window's values.
        self.encoder_caches.iter_mut().for_each(|cache| *cache = CachedWindow::default());
    }

    /// The encoder's states of one window, rounded to bf16, for comparison with a reference.
    pub fn encoder_states(&mut self, mel: &[f32]) -> Vec<u16> {
        self.encoder.encode(&self.compute, mel);
        self.encoder.states()
    }

    /// Encodes one window and says what the threads spent in each part, added up.
    pub fn time_encoder(&mut self, mel: &[f32]) -> [Duration; Part::ALL.len()] {
        self.encoder.times.take();
        self.encoder.encode(&self.compute, mel);
        self.encoder.times.take()
    }
}

/// Whether the kernels can run a network of these sizes, as they can every Whisper: a file may say anything.
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
    if dims.n_text_ctx < FEWEST_POSITIONS {
        return Err(format!("it has {} text positions, too few for a prompt and a text", dims.n_text_ctx));
    }
    let sizes = [dims.n_mels, dims.n_audio_ctx, dims.n_audio_head, dims.n_text_head, dims.n_vocab];
    if sizes.contains(&0) || dims.n_audio_layer == 0 || dims.n_text_layer == 0 {
        return Err("one of its sizes is zero".to_owned());
    }
    Ok(())
}

/// Text positions that a start sequence, something before it and a text need at least; every Whisper has 448.
const FEWEST_POSITIONS: usize = 16;

impl CpuBackend {
    /// Encodes one window into its slot.
    fn admit(&mut self, window: &Admission) -> Result<(), BackendError> {
        let &Admission { slot, mel, again } = window;
        if slot >= self.options.slots || mel.len() != MEL_FRAMES * self.dims.n_mels {
            return Err(BackendError::Fault("a window can't be encoded: no such slot, or not 3000 frames".to_owned()));
        }
        if let Some(again) = again {
            self.clock += 1;
            if let Some(index) = self.cache_for(again.key) {
                let admitted = self.admit_cached(slot, mel, again, index);
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

    /// Encodes a window, or what changed of it, with the encoder cache of that index.
    fn admit_cached(&mut self, slot: usize, mel: &[f32], again: &Again, index: usize) -> Result<(), BackendError> {
        let frames = self.dims.n_audio_ctx;
        let cache = &mut self.encoder_caches[index];
        let is_known = cache.key == Some(again.key);
        (cache.key, cache.used, cache.slot) = (Some(again.key), self.clock, Some(slot));
        let part = again.changed.clone().filter(|_| is_known).map(|changed| {
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

    /// Quantized numbers are always finite: states that are not must be found before.
    fn check_states(&self, rows: Range<usize>) -> Result<(), BackendError> {
        match self.encoder.is_sound(rows) {
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
                // As many as there are now, until memory was given back.
                self.capacity = self.held.iter().filter(|held| **held).count();
            }
            admitted?;
        }
        windows.iter().for_each(|window| self.held[window.slot] = true);
        Ok(())
    }

    fn release(&mut self, slot: usize) -> Result<(), BackendError> {
        for cache in self.encoder_caches.iter_mut().filter(|cache| cache.slot == Some(slot)) {
            cache.slot = None;
        }
        if let Some(held) = self.held.get_mut(slot) {
            *held = false;
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
