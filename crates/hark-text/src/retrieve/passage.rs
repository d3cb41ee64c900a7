//! Passages: what a source is retrieved by.

use std::ops::Range;

use crate::parts;
use crate::sentences;
use crate::source::Source;

/// Words of the longest passage. Embedding models read about 256 tokens, and a passage should be about one subject.
const MAX_WORDS: usize = 120;

/// A run of units of some 60 to 120 words.
#[derive(Debug, Clone, PartialEq)]
pub struct Passage {
    /// The units that it has; a unit that is longer than a passage is in several.
    pub units: Range<usize>,
    /// Bytes of the source's text: spans of all passages follow each other without gaps.
    pub span: Range<usize>,
    /// Seconds from the start of the recording; none in a text.
    pub start: Option<f64>,
    /// Seconds from the start of the recording; none in a text.
    pub end: Option<f64>,
}

impl Passage {
    /// The passage as it is embedded and indexed: a line for each turn, which begins with the speaker's label.
    pub fn text(&self, source: &Source) -> String {
        source.render(self.units.clone(), self.span.clone())
    }
}

/// Cuts a source into passages: at turns and where the subject changes, inside a unit only where one is longer than a passage. None
/// is left out; a source without words has none.
pub fn passages(source: &Source) -> Vec<Passage> {
    let parts = parts::split(source, MAX_WORDS, &sentences::count_words);
    let units = source.units();
    let passage = |part: parts::Part| Passage {
        start: units.get(part.units.start).and_then(|unit| unit.start),
        end: units[part.units.clone()].iter().filter_map(|unit| unit.end).reduce(f64::max),
        units: part.units,
        span: part.span,
    };
    let has_words = |part: &parts::Part| {
        let has_content =
            |unit: &crate::source::Unit| unit.content.start.max(part.span.start) < unit.content.end.min(part.span.end);
        units[part.units.clone()].iter().any(has_content)
    };
    parts.into_iter().filter(has_words).map(passage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_transcript::Segment;

    fn words(source: &Source, passage: &Passage) -> usize {
        sentences::count_words(&source.text()[passage.span.clone()])
    }

    fn conversation(turns: usize) -> Vec<Segment> {
        let segment = |at: usize| Segment {
            speaker: Some(["Ann", "Bob"][at / 3 % 2].to_owned()),
            start: at as f64 * 4.0,
            end: at as f64 * 4.0 + 3.5,
            text: format!("This is segment number {at} and it has a dozen words in all."),
            ..Segment::default()
        };
        (0..turns).map(segment).collect()
    }

    #[test]
    fn passages_have_every_unit_of_a_transcript_once_and_their_times() {
        let source = Source::from_segments(&conversation(200), "en");
        let passages = passages(&source);
        let mut at = 0;
        for passage in &passages {
            assert_eq!(passage.units.start, at);
            at = passage.units.end;
            assert_eq!(passage.start, source.units()[passage.units.start].start);
            assert_eq!(passage.end, source.units()[passage.units.end - 1].end);
        }
        assert_eq!(at, 200);
        // The last one is the rest.
        for passage in &passages[..passages.len() - 1] {
            assert!((60..=120).contains(&words(&source, passage)), "{} words", words(&source, passage));
        }
    }

    #[test]
    fn most_passages_begin_with_a_turn() {
        let source = Source::from_segments(&conversation(300), "en");
        let passages = passages(&source);
        let at_turns = passages.iter().filter(|passage| source.units()[passage.units.start].starts_turn).count();
        assert!(at_turns * 10 >= passages.len() * 8, "{at_turns} of {}", passages.len());
    }

    #[test]
    fn a_unit_of_thousands_of_words_becomes_several_passages() {
        let text = "word ".repeat(5000);
        let source = Source::from_text(&text);
        let passages = passages(&source);
        assert!(passages.len() > 40, "{}", passages.len());
        assert!(passages.iter().all(|passage| words(&source, passage) <= 120));
        let joined: String = passages.iter().map(|passage| &source.text()[passage.span.clone()]).collect();
        assert_eq!(joined, text);
    }

    #[test]
    fn a_source_without_words_has_no_passages() {
        assert_eq!(passages(&Source::from_text("")), []);
        assert_eq!(passages(&Source::from_text(" \n ")), []);
        assert_eq!(passages(&Source::from_segments(&[], "en")), []);
    }

    #[test]
    fn a_short_text_is_one_passage() {
        let source = Source::from_text("Ann: Hello there.\nBob: Good morning.\nAnn: Fine.");
        let passages = passages(&source);
        assert_eq!(passages.len(), 1);
        assert_eq!(passages[0].text(&source), "Ann: Hello there.\nBob: Good morning.\nAnn: Fine.");
        assert_eq!((passages[0].start, passages[0].end), (None, None));
    }
}
