//! Fault injection and a small model for the tests of this crate and of those above it (feature `test-support`).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::{
    Admission, AlignmentMatrix, AlignmentRequest, AlignmentScores, Answer, Backend, BackendError, Entry, MemoryUse,
    TokenMap,
};
use crate::cpu::{Compute, CpuBackend, CpuOptions, Isa, Weights};
use crate::tokenizer::Tokenizer;
use crate::weights::{Checkpoint, Dims, Vocabulary};

/// Dimensions of a model that loads and runs in milliseconds.
pub const SMALL_DIMS: Dims = Dims {
    n_mels: 80,
    n_audio_ctx: 1500,
    n_audio_state: 64,
    n_audio_head: 1,
    n_audio_layer: 1,
    n_text_ctx: 448,
    n_text_state: 64,
    n_text_head: 1,
    n_text_layer: 1,
    n_vocab: 51_865,
};

/// Pseudo-random weights, the same in every run.
pub fn small_weights(name: &str, shape: &[usize]) -> Vec<f32> {
    let mut state = name.bytes().fold(9u32, |state, byte| state.rotate_left(5) ^ u32::from(byte)) | 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..shape.iter().product()).map(|_| next()).collect()
}

/// A CPU backend over [`small_weights`] with this many slots, and its tokenizer.
///
/// # Panics
/// When the model does not load.
pub fn small_backend(dims: Dims, slots: usize) -> (CpuBackend, Arc<Tokenizer>) {
    let checkpoint = Checkpoint::generated(dims, Vocabulary::bytes_only(dims.n_vocab), small_weights);
    let tokenizer = Arc::new(Tokenizer::new(&checkpoint.vocabulary));
    let tokens = TokenMap {
        end: tokenizer.eot,
        first_timestamp: tokenizer.timestamp_begin,
        languages: tokenizer.languages().iter().filter_map(|code| tokenizer.language_token(code)).collect(),
        ..TokenMap::default()
    };
    let options = CpuOptions { weights: Weights::Int8, slots, rows: 2, encoder_caches: 1 };
    let backend = CpuBackend::load(&checkpoint, tokens, &Compute::new(1, Isa::Portable), options);
    (backend.expect("the small model loads"), tokenizer)
}

/// A CPU backend of a checkpoint in bf16, with three slots of `rows` rows: what other devices are compared with.
///
/// # Panics
/// When the checkpoint does not load.
pub fn backend_of(checkpoint: &Checkpoint, tokens: TokenMap, rows: usize) -> CpuBackend {
    let options = CpuOptions { weights: Weights::Bf16, slots: 3, rows, encoder_caches: 0 };
    CpuBackend::load(checkpoint, tokens, &Compute::new(2, Isa::best()), options).expect("the checkpoint loads")
}

/// Which calls fail, and how; steps are numbered from 0 over all backends that share the [`Faults`].
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    /// Steps that panic.
    pub panic_at: Vec<usize>,
    /// Steps that return [`BackendError::DeviceLost`].
    pub lost_at: Vec<usize>,
    /// Steps whose log probabilities are NaN.
    pub nan_at: Vec<usize>,
    /// A window whose first mel value is this panics in every step.
    pub poison: Option<f32>,
    /// Windows that fit in memory; encoding another one returns [`BackendError::OutOfMemory`].
    pub max_windows: Option<usize>,
    /// Whether the reported capacity is `max_windows` after the first [`BackendError::OutOfMemory`].
    pub shrinks_capacity: bool,
    /// Overrides the backend's encode batch.
    pub encode_batch: Option<usize>,
}

/// A fault plan and a record of the steps, shared by the backends of a test.
#[derive(Debug, Default)]
pub struct Faults {
    plan: Mutex<FaultPlan>,
    steps: AtomicUsize,
    entries: Mutex<Vec<usize>>,
}

impl Faults {
    /// Faults by this plan.
    pub fn new(plan: FaultPlan) -> Arc<Self> {
        Arc::new(Faults { plan: Mutex::new(plan), ..Faults::default() })
    }

    /// The plan, to read or change.
    pub fn plan(&self) -> MutexGuard<'_, FaultPlan> {
        // Injected panics may happen while it is locked.
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of steps so far.
    pub fn steps(&self) -> usize {
        self.steps.load(Ordering::SeqCst)
    }

    /// Takes the number of entries of each step since the last call.
    pub fn take_entries(&self) -> Vec<usize> {
        std::mem::take(&mut self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A backend that injects faults into another one.
pub struct FaultyBackend<B> {
    inner: B,
    faults: Arc<Faults>,
    /// Slots with a poisoned window.
    poisoned: Vec<usize>,
    windows: usize,
    was_full: bool,
}

impl<B: Backend> FaultyBackend<B> {
    /// Injects `faults` into `inner`.
    pub fn new(inner: B, faults: &Arc<Faults>) -> Self {
        FaultyBackend { inner, faults: Arc::clone(faults), poisoned: Vec::new(), windows: 0, was_full: false }
    }
}

impl<B: Backend> Backend for FaultyBackend<B> {
    fn dims(&self) -> &Dims {
        self.inner.dims()
    }

    fn slots(&self) -> usize {
        self.inner.slots()
    }

    fn capacity(&self) -> usize {
        let plan = self.faults.plan();
        let shrunk = plan.max_windows.filter(|_| plan.shrinks_capacity && self.was_full);
        shrunk.unwrap_or_else(|| self.inner.capacity())
    }

    fn rows(&self) -> usize {
        self.inner.rows()
    }

    fn encode_batch(&self) -> usize {
        self.faults.plan().encode_batch.unwrap_or_else(|| self.inner.encode_batch())
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn memory(&self) -> MemoryUse {
        self.inner.memory()
    }

    fn health(&mut self) -> Result<(), BackendError> {
        self.inner.health()
    }

    fn encode(&mut self, windows: &[Admission]) -> Result<(), BackendError> {
        let FaultPlan { max_windows, poison, .. } = *self.faults.plan();
        if max_windows.is_some_and(|max| self.windows >= max) {
            self.was_full = true;
            return Err(BackendError::OutOfMemory("no memory for another window".to_owned()));
        }
        self.poisoned.extend(windows.iter().filter(|window| Some(window.mel[0]) == poison).map(|window| window.slot));
        self.windows += windows.len();
        self.inner.encode(windows)
    }

    fn release(&mut self, slot: usize) -> Result<(), BackendError> {
        self.windows = self.windows.saturating_sub(1);
        self.poisoned.retain(|poisoned| *poisoned != slot);
        self.inner.release(slot)
    }

    fn step(&mut self, entries: &[Entry]) -> Result<Vec<Answer>, BackendError> {
        let step = self.faults.steps.fetch_add(1, Ordering::SeqCst);
        self.faults.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entries.len());
        let plan = self.faults.plan().clone();
        assert!(!plan.panic_at.contains(&step), "step {step} panics");
        assert!(!entries.iter().any(|entry| self.poisoned.contains(&entry.slot)), "the poisoned window panics");
        if plan.lost_at.contains(&step) {
            return Err(BackendError::DeviceLost(format!("in step {step}")));
        }
        let mut answers = self.inner.step(entries)?;
        if plan.nan_at.contains(&step) {
            answers.iter_mut().flat_map(|answer| &mut answer.best).for_each(|(_, log_prob)| *log_prob = f32::NAN);
        }
        Ok(answers)
    }

    fn align(&mut self, requests: &[AlignmentRequest]) -> Result<Vec<AlignmentScores>, BackendError> {
        self.inner.align(requests)
    }

    fn agree(
        &mut self,
        requests: &[AlignmentRequest],
        leading: &[usize],
    ) -> Result<Option<Vec<AlignmentMatrix>>, BackendError> {
        self.inner.agree(requests, leading)
    }

    fn trim(&mut self) -> Result<(), BackendError> {
        self.inner.trim()
    }
}
