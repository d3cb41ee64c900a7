//! What a device must be able to do, in batches: encode windows, step all live rows, align a text.
//!
//! A **slot** holds one window: its encoder states as the decoder's keys and values. A slot has a few **rows**, the
//! hypotheses of its beam; a row is a sequence of tokens whose keys and values the device remembers. States and caches
//! never leave the device. The rules of decoding are written once, above this trait, and reach the device as
//! [`Rules`], so that choosing the next token needs no copy of the scores.
//!
//! Every call can fail, and the kind of a [`BackendError`] says what is left: after out of memory everything is as it was
//! before the call, after anything else nothing that the device holds may be trusted and it is to be loaded again.

use crate::weights::Dims;

/// One token of one row, to be put through the decoder.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The window.
    pub slot: usize,
    /// The row of the slot that grows by this token.
    pub row: usize,
    /// The row (of the same slot, as it was before this step) whose past this token follows.
    pub parent: usize,
    /// Where the token stands; positions before it come from `parent`, or from earlier entries of this step.
    pub position: usize,
    /// The token.
    pub token: u32,
    /// What is asked of the scores that follow it.
    pub ask: Option<Ask>,
}

/// A question to the scores after an entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ask {
    /// Which tokens may come next.
    pub rules: Rules,
    /// How many of the best to return.
    pub best: usize,
    /// Where set, one token is drawn instead.
    pub draw: Option<Draw>,
    /// Whether to return the probability that there is no speech.
    pub no_speech: bool,
    /// Whether to return the probabilities of the languages.
    pub languages: bool,
}

/// A random choice: softmax of the scores divided by `temperature`, at `uniform` in 0..1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draw {
    /// Above zero.
    pub temperature: f32,
    /// Where to cut the cumulative distribution.
    pub uniform: f32,
}

/// Which tokens may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// Text tokens.
    pub text: bool,
    /// The end of the text.
    pub end: bool,
    /// At the very beginning neither a lone blank nor the end may come.
    pub at_start: bool,
    /// Timestamp tokens `first..last`; when together they are likelier than every other token, one of them must come.
    pub times: Option<(u32, u32)>,
}

/// What the device must know of the tokens.
#[derive(Debug, Clone, Default)]
pub struct TokenMap {
    /// End of the text; lower numbers are text.
    pub end: u32,
    /// The token whose probability, right after the start, says that there is no speech.
    pub no_speech: Option<u32>,
    /// First timestamp token.
    pub first_time: u32,
    /// Tokens that never come.
    pub never: Vec<u32>,
    /// Tokens that never come first.
    pub never_first: Vec<u32>,
    /// The language tokens.
    pub languages: Vec<u32>,
}

/// The answer to an [`Ask`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// Tokens with their log-probabilities among the allowed ones, likeliest first (or the one drawn).
    pub best: Vec<(u32, f32)>,
    /// Probability of no speech, when asked for.
    pub no_speech: f32,
    /// Probabilities among the languages, in the order of [`TokenMap::languages`], when asked for.
    pub languages: Vec<f32>,
}

impl Answer {
    /// Whether all numbers are numbers, as those of a sound network are.
    pub fn is_sound(&self) -> bool {
        let log_probs = self.best.iter().map(|(_, log_prob)| log_prob);
        !log_probs.chain([&self.no_speech]).chain(&self.languages).any(|number| number.is_nan())
    }
}

/// A text to be aligned with the window of a slot.
#[derive(Debug, Clone, Copy)]
pub struct AlignmentRequest<'a> {
    /// The window.
    pub slot: usize,
    /// The tokens, put through the decoder on a row of their own.
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

/// A window that is looked at again and again while it grows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Again {
    /// The same for all looks at the window.
    pub key: u64,
    /// Frames of 20 ms that are to be encoded; all others stay as the last look left them, though each of them saw the
    /// sound before it changed. None for all.
    pub changed: Option<std::ops::Range<usize>>,
}

/// Why a device did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// There is no memory for what was asked. Windows that are being decoded are as they were: fewer at a time may do.
    #[error("the device is out of memory: {0}")]
    OutOfMemory(String),
    /// The device does not answer any more; what it held is lost.
    #[error("the device was lost: {0}")]
    DeviceLost(String),
    /// The device was asked for what it can't do, or computed what can't be right; what it holds may not be trusted.
    #[error("the device failed: {0}")]
    Fault(String),
}

impl BackendError {
    /// Whether the device and the windows it holds can be used as before.
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
    /// Set for a window that is looked at more than once: the device may remember it, and encode only what changed of one that it
    /// remembers. It may as well remember none.
    pub again: Option<&'a Again>,
}

impl<'a> Admission<'a> {
    /// A window that is looked at once.
    pub fn once(slot: usize, mel: &'a [f32]) -> Self {
        Admission { slot, mel, again: None }
    }
}

/// Bytes that a device takes for a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// Weights, and what is there from the beginning.
    pub fixed: u64,
    /// Everything, with a window in every slot.
    pub most: u64,
}

/// A device that runs one checkpoint.
pub trait Backend: Send {
    /// The sizes of the network.
    fn dims(&self) -> &Dims;

    /// How many slots there are; their numbers lie below this, and it never changes.
    fn slots(&self) -> usize;

    /// How many slots may hold windows at present: fewer than there are when memory is short. It may change with every call.
    fn capacity(&self) -> usize {
        self.slots()
    }

    /// How many rows a slot has.
    fn rows(&self) -> usize;

    /// How many windows are best encoded in one call. Whoever is more urgent waits for the call to end.
    fn encode_batch(&self) -> usize {
        1
    }

    /// A short name for reports, such as `cpu (amx, 2 threads)`.
    fn name(&self) -> String;

    /// The memory that it takes.
    fn memory(&self) -> MemoryUse;

    /// Whether the device answers: asked while nothing is decoded, so that a lost device is found before the next window.
    fn health(&mut self) -> Result<(), BackendError>;

    /// Encodes windows into their slots: all of them, or none where it fails.
    fn encode(&mut self, windows: &[Admission]) -> Result<(), BackendError>;

    /// Nobody looks at the slot's window any more.
    fn release(&mut self, slot: usize) -> Result<(), BackendError>;

    /// Puts all entries through the decoder and answers those that ask, in their order.
    ///
    /// What a row remembers stays when its slot gets another window, until its positions are written again: entries may
    /// follow tokens that were put through over an earlier look at the window.
    ///
    /// Entries of one slot stand together; entries of one row stand in the order of their positions.
    fn step(&mut self, entries: &[Entry]) -> Result<Vec<Answer>, BackendError>;

    /// The alignment heads' scores of texts over their windows, in the order of the requests.
    fn align(&mut self, requests: &[AlignmentRequest]) -> Result<Vec<AlignmentScores>, BackendError>;

    /// Gives back the memory of windows, rows and workspaces while no slot holds a window. What was remembered of windows is
    /// forgotten.
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

    fn trim(&mut self) -> Result<(), BackendError> {
        (**self).trim()
    }
}
