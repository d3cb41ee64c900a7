//! Word times of a window, from its text and the alignment scores, outside of the engine.

use super::{Decoded, Task, start_sequence};
use crate::backend::{AlignmentMatrix, AlignmentScores};
use crate::tokenizer::Tokenizer;
use crate::words::{AlignmentRows, word_times, words_of_agreement};

/// A decoded window whose words have no times yet.
///
/// The engine only computes the scores of the alignment heads; finding the path through them takes longer than a decoding
/// step and needs no device.
#[derive(Debug)]
pub struct Untimed {
    decoded: Box<Decoded>,
    /// The start sequence and the text, as decoded.
    tokens: Vec<u32>,
    /// Tokens before the text, the last of the start sequence excluded.
    leading: usize,
    probabilities: Vec<f32>,
    frames: usize,
    pub(super) heads: Heads,
}

/// What the alignment heads say.
#[derive(Debug)]
pub(super) enum Heads {
    /// Their scores.
    Scores(AlignmentScores),
    /// What they agree on.
    Agreement(AlignmentMatrix),
}

impl Untimed {
    /// The alignment of a decoded window; the window itself if it has no text.
    pub(super) fn new(
        decoded: Box<Decoded>,
        tokenizer: &Tokenizer,
        task: Task,
        frames: usize,
        context: usize,
    ) -> Result<Self, Box<Decoded>> {
        let mut tokens = start_sequence(tokenizer, &decoded.language, task);
        let leading = tokens.len();
        tokens.push(tokenizer.no_timestamps);
        let is_text = |token: u32| token < tokenizer.eot;
        let (text, probabilities): (Vec<u32>, Vec<f32>) = decoded
            .tokens
            .iter()
            .zip(&decoded.log_probs)
            .filter(|&(&token, _)| is_text(token))
            .map(|(&token, log_prob)| (token, log_prob.exp()))
            .take(context.saturating_sub(tokens.len()))
            .unzip();
        if text.is_empty() {
            return Err(decoded);
        }
        tokens.extend(text);
        Ok(Untimed {
            decoded,
            tokens,
            leading,
            probabilities,
            frames,
            heads: Heads::Scores(AlignmentScores::default()),
        })
    }

    /// How many of [`Untimed::tokens`] come before the one that predicts the first of the text.
    pub(super) fn leading(&self) -> usize {
        self.leading
    }

    /// The tokens to be aligned.
    pub(super) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The window with the times of its words.
    pub fn decoded(self, tokenizer: &Tokenizer) -> Box<Decoded> {
        let Untimed { mut decoded, tokens, leading, probabilities, frames, heads } = self;
        let (text, language) = (&tokens[leading + 1..], decoded.language.as_str());
        decoded.words = match &heads {
            Heads::Scores(scores) => {
                let heads = match scores.rows * scores.frames {
                    0 => Vec::new(),
                    numbers => scores.scores.chunks_exact(numbers).collect(),
                };
                let rows = AlignmentRows { heads, stride: scores.frames, leading };
                word_times(tokenizer, language, text, &probabilities, &rows, frames)
            }
            Heads::Agreement(matrix) => {
                words_of_agreement(tokenizer, language, text, &probabilities, &matrix.numbers, matrix.frames)
            }
        };
        decoded
    }
}
