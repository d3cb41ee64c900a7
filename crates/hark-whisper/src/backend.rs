//! The interface of a device, in batches: encode windows, step all live rows, align texts.
//!
//! A **slot** holds one window: its encoder states as cross-attention keys and values. A slot has a few **rows**, the
//! hypotheses of its beam; a row is a sequence of tokens with its KV cache. States and caches
//! never leave the device. The rules of decoding are written once, above this trait, and reach the device as
//! [`TokenRules`], so that choosing the next token needs no copy of the logits.
//!
//! Every call can fail, and the kind of a [`BackendError`] says what remains valid: after out of memory everything is as it was
//! before the call, after any other error nothing on the device may be used and it must be reloaded.

use crate::weights::Dims;

/// One token of one row, to be put through the decoder.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The window.
    pub slot: usize,
    /// The row of the slot that grows by this token.
    pub row: usize,
    /// The row (of the same slot, as it was before this step) whose KV cache this token follows.
    pub parent: usize,
    /// The position of the token; positions before it come from `parent`, or from earlier entries of this step.
    pub position: usize,
    /// The token.
    pub token: u32,
    /// A query to the logits after it.
    pub query: Option<TokenQuery>,
}

/// A query to the logits after an entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenQuery {
    /// Which tokens may come next.
    pub rules: TokenRules,
    /// How many of the likeliest tokens to return.
    pub top_k: usize,
    /// If set, one token is sampled instead.
    pub sampling: Option<Sampling>,
    /// Whether to return the probability that there is no speech.
    pub no_speech: bool,
    /// Whether to return the probabilities of the languages.
    pub languages: bool,
}

/// Sampling from the softmax of the logits divided by `temperature`, at `uniform` in 0..1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Above zero.
    pub temperature: f32,
    /// The position in the cumulative distribution.
    pub uniform: f32,
}

/// Which tokens may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenRules {
    /// Text tokens.
    pub text: bool,
    /// The end of the text.
    pub end: bool,
    /// Whether this is the first token of the text, which may be neither a lone space nor the end.
    pub at_start: bool,
    /// Timestamp tokens `first..last`; if together they are likelier than every other token, the next token is one of them.
    pub timestamps: Option<(u32, u32)>,
}

/// The special tokens that a device must know.
#[derive(Debug, Clone, Default)]
pub struct TokenMap {
    /// End of the text; lower numbers are text.
    pub end: u32,
    /// The token whose probability after the start token is the no-speech probability.
    pub no_speech: Option<u32>,
    /// First timestamp token.
    pub first_timestamp: u32,
    /// Tokens that are never generated.
    pub suppress_tokens: Vec<u32>,
    /// Tokens that are never generated first.
    pub begin_suppress_tokens: Vec<u32>,
    /// The language tokens.
    pub languages: Vec<u32>,
}

/// The answer to a [`TokenQuery`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Tokens with their log-probabilities among the allowed ones, likeliest first (or the one sampled).
    pub best: Vec<(u32, f32)>,
    /// Probability of no speech, when asked for.
    pub no_speech: f32,
    /// Probabilities among the languages, in the order of [`TokenMap::languages`], when asked for.
    pub languages: Vec<f32>,
}

impl Answer {
    /// Whether no number is NaN.
    pub fn has_no_nan(&self) -> bool {
        let log_probs = self.best.iter().map(|(_, log_prob)| log_prob);
        !log_probs.chain([&self.no_speech]).chain(&self.languages).any(|number| number.is_nan())
    }
}

/// A text to be aligned with the window of a slot.
#[derive(Debug, Clone, Copy)]
pub struct AlignmentRequest<'a> {
    /// The window.
    pub slot: usize,
    /// The tokens, decoded in a row of their own.
    pub tokens: &'a [u32],
    /// The first token whose scores are wanted.
    pub first: usize,
    /// Frames whose scores are wanted, from the first on.
    pub frames: usize,
}

/// Cross-attention scores of the alignment heads: `heads × rows × frames`, scaled, before softmax.
#[derive(Debug, Clone, Default)]
pub struct AlignmentScores {
    /// How many heads.
    pub heads: usize,
    /// How many tokens.
    pub rows: usize,
    /// How many frames of 20 ms.
    pub frames: usize,
    /// The scores.
    pub scores: Vec<f32>,
}

/// What the alignment heads agree on, higher where a token sounds like a frame: `rows × frames`.
#[derive(Debug, Clone, Default)]
pub struct AlignmentMatrix {
    /// How many tokens.
    pub rows: usize,
    /// How many frames of 20 ms.
    pub frames: usize,
    /// The numbers.
    pub numbers: Vec<f32>,
}

/// Identifies a window that is re-encoded while it grows, and its frames that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reencode {
    /// The key of the window's encoder cache.
    pub key: u64,
    /// Frames of 20 ms to re-encode; all others are reused from the encoder cache, although they attended to the
    /// audio before it changed. `None` for all frames.
    pub changed: Option<std::ops::Range<usize>>,
}

/// The error of a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// Out of memory. Windows that are being decoded are unaffected; fewer at a time may fit.
    #[error("the device is out of memory: {0}")]
    OutOfMemory(String),
    /// The device no longer responds; its contents are lost.
    #[error("the device was lost: {0}")]
    DeviceLost(String),
    /// The device got an invalid request or computed an invalid result; its contents may not be used.
    #[error("the device failed: {0}")]
    Fault(String),
}

impl BackendError {
    /// Whether the device and its windows can be used as before.
    pub fn keeps_windows(&self) -> bool {
        matches!(self, BackendError::OutOfMemory(_))
    }
}

/// A window to be encoded into a slot.
#[derive(Debug, Clone, Copy)]
pub struct Admission<'a> {
    /// The slot, which holds no window that is being decoded.
    pub slot: usize,
    /// Log-mel values, frame-major, 3000 frames.
    pub mel: &'a [f32],
    /// Set for a window that is encoded more than once: the device may cache it, and encode only what changed of a cached
    /// window. It need not cache any.
    pub reencode: Option<&'a Reencode>,
}

impl<'a> Admission<'a> {
    /// A window that is encoded once.
    pub fn once(slot: usize, mel: &'a [f32]) -> Self {
        Admission { slot, mel, reencode: None }
    }
}

/// Memory that a device uses for a checkpoint, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// Weights, and what is allocated at load.
    pub fixed: u64,
    /// The total with a window in every slot.
    pub most: u64,
}

/// A device that runs one checkpoint.
pub trait Backend: Send {
    /// The sizes of the network.
    fn dims(&self) -> &Dims;

    /// How many slots there are; their numbers lie below this, and it never changes.
    fn slots(&self) -> usize;

    /// How many slots may currently hold windows: fewer than [`Backend::slots`] when memory is short. It may change with every call.
    fn capacity(&self) -> usize {
        self.slots()
    }

    /// How many rows a slot has.
    fn rows(&self) -> usize;

    /// The best number of windows to encode in one call. More urgent windows wait for the call to end.
    fn encode_batch(&self) -> usize {
        1
    }

    /// A short name for reports, such as `cpu (amx, 2 threads)`.
    fn name(&self) -> String;

    /// The memory that it uses.
    fn memory(&self) -> MemoryUse;

    /// Checks that the device responds. Called while nothing is decoded, so that a lost device is found before the next window.
    fn health(&mut self) -> Result<(), BackendError>;

    /// Encodes windows into their slots: all of them, or none on error.
    fn encode(&mut self, windows: &[Admission]) -> Result<(), BackendError>;

    /// Frees the slot of a window.
    fn release(&mut self, slot: usize) -> Result<(), BackendError>;

    /// Runs all entries through the decoder and answers their queries, in order.
    ///
    /// The KV cache of a row stays when its slot gets another window, until its positions are overwritten: entries may
    /// follow tokens that were decoded over an earlier encoding of the window.
    ///
    /// Entries of one slot are adjacent; entries of one row are in the order of their positions.
    fn step(&mut self, entries: &[Entry]) -> Result<Vec<Answer>, BackendError>;

    /// The alignment heads' scores of texts over their windows, in the order of the requests.
    fn align(&mut self, requests: &[AlignmentRequest]) -> Result<Vec<AlignmentScores>, BackendError>;

    /// What the heads agree on ([`crate::words::agreement`]) for each request, without its first `leading` rows, where the device does that too:
    /// the scores of all heads are many times as much to copy.
    fn agree(
        &mut self,
        _requests: &[AlignmentRequest],
        _leading: &[usize],
    ) -> Result<Option<Vec<AlignmentMatrix>>, BackendError> {
        Ok(None)
    }

    /// Frees the memory of windows, rows, workspaces and encoder caches while no slot holds a window.
    fn trim(&mut self) -> Result<(), BackendError>;
}

impl Backend for Box<dyn Backend> {
    fn dims(&self) -> &Dims {
        (**self).dims()
    }

    fn slots(&self) -> usize {
        (**self).slots()
    }

    fn capacity(&self) -> usize {
        (**self).capacity()
    }

    fn rows(&self) -> usize {
        (**self).rows()
    }

    fn encode_batch(&self) -> usize {
        (**self).encode_batch()
    }

    fn name(&self) -> String {
        (**self).name()
    }

    fn memory(&self) -> MemoryUse {
        (**self).memory()
    }

    fn health(&mut self) -> Result<(), BackendError> {
        (**self).health()
    }

    fn encode(&mut self, windows: &[Admission]) -> Result<(), BackendError> {
        (**self).encode(windows)
    }

    fn release(&mut self, slot: usize) -> Result<(), BackendError> {
        (**self).release(slot)
    }

    fn step(&mut self, entries: &[Entry]) -> Result<Vec<Answer>, BackendError> {
        (**self).step(entries)
    }

    fn align(&mut self, requests: &[AlignmentRequest]) -> Result<Vec<AlignmentScores>, BackendError> {
        (**self).align(requests)
    }

    fn agree(
        &mut self,
        requests: &[AlignmentRequest],
        leading: &[usize],
    ) -> Result<Option<Vec<AlignmentMatrix>>, BackendError> {
        (**self).agree(requests, leading)
    }

    fn trim(&mut self) -> Result<(), BackendError> {
        (**self).trim()
    }
}
