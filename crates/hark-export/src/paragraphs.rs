//! Paragraphs: what a reader takes in as one piece, the same in plain text, Word documents and pages.

use hark_transcript::TranscriptionResult;

use crate::atoms::{Atom, line_text, turns};
use crate::script::Ending;

/// A pause that ends a paragraph with a finished clause.
const PAUSE: f64 = 2.0;
/// A pause that ends a paragraph wherever it falls.
const LONG_PAUSE: f64 = 5.0;
/// A paragraph this wide ends with its sentence: about ten lines of a page.
const LONG_PARAGRAPH: usize = 800;
/// A paragraph this wide ends with its word, since some speech comes without any sentence marks.
const LONGEST_PARAGRAPH: usize = 2400;

/// A turn or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Paragraph {
    pub(crate) speaker: Option<String>,
    /// Whether its speaker begins to speak here.
    pub(crate) begins_turn: bool,
    /// Seconds from the start of the recording.
    pub(crate) start: f64,
    pub(crate) text: String,
}

/// Cuts a transcript into paragraphs: a new one where the speaker changes, pauses long or spoke long.
pub(crate) fn paragraphs(transcript: &TranscriptionResult) -> Vec<Paragraph> {
    let mut paragraphs = Vec::new();
    for turn in turns(transcript) {
        for (n, atoms) in split(&turn.atoms).into_iter().enumerate() {
            paragraphs.push(Paragraph {
                speaker: turn.speaker.clone(),
                begins_turn: n == 0,
                start: atoms[0].start,
                text: line_text(atoms),
            });
        }
    }
    paragraphs
}

fn split(atoms: &[Atom]) -> Vec<&[Atom]> {
    let mut paragraphs = Vec::new();
    let mut from = 0;
    let mut width = 0;
    for to in 1..atoms.len() {
        let (last, next) = (&atoms[to - 1], &atoms[to]);
        width += last.width + usize::from(last.spaced);
        let pause = next.start - last.end;
        let is_pause = pause >= LONG_PAUSE || (pause >= PAUSE && last.ending != Ending::Open);
        let is_long = width >= LONG_PARAGRAPH && last.ending == Ending::Sentence;
        // Unspaced scripts may bring thousands of characters as one word.
        let is_longest = (width >= LONGEST_PARAGRAPH && last.ends_word) || width >= 2 * LONGEST_PARAGRAPH;
        if is_pause || is_long || is_longest {
            paragraphs.push(&atoms[from..to]);
            (from, width) = (to, 0);
        }
    }
    if from < atoms.len() {
        paragraphs.push(&atoms[from..]);
    }
    paragraphs
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_transcript::Segment;

    #[test]
    fn speech_without_sentence_marks_is_cut_after_a_word() {
        let text = "word after word ".repeat(600);
        let segments = vec![Segment { end: 60.0, text, ..Default::default() }];
        let paragraphs = paragraphs(&TranscriptionResult { segments, ..Default::default() });
        assert_eq!(paragraphs.len(), 4);
        assert!(paragraphs.iter().all(|paragraph| paragraph.text.len() < LONGEST_PARAGRAPH + 10));
        assert!(paragraphs[0].begins_turn && !paragraphs[1].begins_turn);
        assert!(paragraphs[1].start > 10.0 && paragraphs[1].start < 20.0);
    }
}
