//! The best way to cut a text into pieces: the path with the largest sum of scores.

use std::ops::Range;

use super::{Kind, SentencePiece};

/// How much worse than the worst piece a character without a piece is.
const UNKNOWN_PENALTY: f32 = 10.0;

/// The best way to a place in the text.
#[derive(Clone, Copy)]
struct Step {
    /// Where its last piece begins; none where no way leads here yet.
    start: Option<usize>,
    token: u32,
    score: f32,
}

impl SentencePiece {
    /// The pieces of a normalized text, in order.
    ///
    /// Cost: a lookup for every character and every length of a piece.
    pub(super) fn best_path(&self, text: &str) -> Vec<(Range<usize>, u32)> {
        let unknown_score = self.scores.0 - UNKNOWN_PENALTY;
        let mut steps = vec![Step { start: None, token: self.unknown, score: 0.0 }; text.len() + 1];
        for (start, first) in text.char_indices() {
            let till_here = steps[start].score;
            let mut offer = |end: usize, token: u32, score: f32| {
                let step = &mut steps[end];
                if step.start.is_none() || till_here + score > step.score {
                    *step = Step { start: Some(start), token, score: till_here + score };
                }
            };
            let mut has_single = false;
            for (offset, last) in text[start..].char_indices().take(self.longest) {
                let end = start + offset + last.len_utf8();
                let Some(&token) = self.index.get(&text[start..end]) else { continue };
                let piece = &self.pieces[token as usize];
                let score = match piece.kind {
                    Kind::Unused => continue,
                    Kind::UserDefined => (end - start) as f32 * self.scores.1 - 0.1,
                    _ => piece.score,
                };
                has_single |= offset == 0;
                offer(end, token, score);
            }
            if !has_single {
                offer(start + first.len_utf8(), self.unknown, unknown_score);
            }
        }
        let mut path = Vec::new();
        let mut end = text.len();
        while let Some(start) = steps[end].start {
            path.push((start..end, steps[end].token));
            end = start;
        }
        path.reverse();
        path
    }
}
