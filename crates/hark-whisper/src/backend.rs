//! What a device must be able to do, in batches: encode windows, step all live rows, align a text.
//!
//! A **slot** holds one window: its encoder states as the decoder's keys and values. A slot has a few **rows**, the
//! hypotheses of its beam; a row is a sequence of tokens whose keys and values the device remembers. States and caches
//! never leave the device. The rules of decoding are written once, above this trait, and reach the device as
//! [`Rules`], so that choosing the next token needs no copy of the scores.

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

/// A device that runs one checkpoint.
pub trait Backend: Send {
    /// The sizes of the network.
    fn dims(&self) -> &Dims;

    /// How many windows fit.
    fn slots(&self) -> usize;

    /// How many rows a slot has.
    fn rows(&self) -> usize;

    /// A short name for reports, such as `cpu (amx, 2 threads)`.
    fn name(&self) -> String;

    /// Encodes windows (frame-major mel, 3000 frames) into their slots.
    fn encode(&mut self, windows: &[(usize, &[f32])]);

    /// Encodes a window into its slot and remembers it, or encodes again what changed of one that it remembers. A device
    /// may remember none.
    fn encode_again(&mut self, slot: usize, mel: &[f32], again: &Again) {
        let _ = again;
        self.encode(&[(slot, mel)]);
    }

    /// Nobody looks at the slot's window any more.
    fn release(&mut self, slot: usize) {
        let _ = slot;
    }

    /// Puts all entries through the decoder and answers those that ask, in their order.
    ///
    /// What a row remembers stays when its slot gets another window, until its positions are written again: entries may
    /// follow tokens that were put through over an earlier look at the window.
    ///
    /// Entries of one slot stand together; entries of one row stand in the order of their positions.
    fn step(&mut self, entries: &[Entry]) -> Vec<Answer>;

    /// Puts `tokens` through the decoder on a row of its own and returns the alignment heads' scores of
    /// those from `first` on, over the first `frames` frames.
    fn align(&mut self, slot: usize, tokens: &[u32], first: usize, frames: usize) -> AlignmentScores;
}
