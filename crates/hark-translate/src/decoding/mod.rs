//! Decoders that write one token of every sentence at a time, whatever network they belong to: their keys and values, attention over them, and search.

mod attention;
mod search;

use hark_compute::Compute;

pub(crate) use attention::{Heads, KeyValues, Query, attend};
pub use search::Search;
pub(crate) use search::search;

/// Most tokens of a translation: so many for each of its source, and so many more.
const LENGTH_FACTOR: usize = 3;
const LENGTH_SLACK: usize = 16;

/// A network that translates by writing one token after the other.
pub(crate) trait Decoder {
    /// The encoded sentences of a batch.
    type Sources;
    /// Memory of a step, used again for the next.
    type Workspace: Default;

    /// What it computes with.
    fn compute(&self) -> &Compute;

    /// A row that begins the translation of a sentence.
    fn begin(&self, source: usize) -> Row;

    /// Computes the states behind the last token of every row, and leaves them in the workspace.
    fn step(&self, workspace: &mut Self::Workspace, sources: &Self::Sources, rows: &mut [Row]);

    /// Calls `take` with the row, the first word and the logits of each stretch of words, for all rows of the last step.
    fn for_logits(&self, workspace: &mut Self::Workspace, rows: usize, take: &(dyn Fn(usize, usize, &[f32]) + Sync));
}

/// A sentence that is being written: the sentence that it translates, and the keys and values of what was written.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) source: usize,
    pub(crate) last: u32,
    pub(crate) position: usize,
    /// Of each layer.
    pub(crate) layers: Vec<KeyValues>,
}

impl Row {
    /// A row that begins with the token `start`.
    pub(crate) fn new(source: usize, start: u32, layers: usize) -> Self {
        Row { source, last: start, position: 0, layers: vec![KeyValues::default(); layers] }
    }
}

/// Most tokens that a source sentence of so many tokens may become.
pub(crate) fn length_limit(source: usize) -> usize {
    LENGTH_FACTOR * source + LENGTH_SLACK
}
