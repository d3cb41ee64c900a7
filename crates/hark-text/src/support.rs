//! Whether a part of a source says what a sentence about it says: its words and numbers must stand near each other.

use std::collections::HashSet;
use std::ops::Range;

use crate::source::Source;
use crate::words::{self, TextIndex};

/// Units of a run that a sentence may be drawn from.
const WINDOW: usize = 8;

/// The share of a sentence's words that its run must have: a summary says things in words of its own.
const MIN_COVERAGE: f64 = 0.5;

/// Sentences with fewer words are not judged.
const MIN_WORDS: usize = 4;

/// How alike two sentences are of which the second says nothing new.
const SAME: f64 = 0.7;

/// Overlapping runs of a part.
pub(crate) struct Support {
    runs: Vec<TextIndex>,
}

impl Support {
    pub(crate) fn new(source: &Source, units: Range<usize>) -> Self {
        let speakers = source.speakers().join("\n");
        let units = &source.units()[units];
        let step = WINDOW / 2;
        let starts = (0..units.len()).step_by(step).filter(|start| *start == 0 || start + step < units.len());
        let run = |start: usize| {
            let run = &units[start..units.len().min(start + WINDOW)];
            let text: Vec<&str> = run.iter().map(|unit| source.content(unit)).collect();
            TextIndex::new(&format!("{}\n{speakers}", text.join("\n")))
        };
        Support { runs: starts.map(run).collect() }
    }

    /// Whether one run has most words of the sentence and all its numbers.
    pub(crate) fn has(&self, sentence: &str) -> bool {
        let numbers = words::numbers(sentence);
        if words::content_words(sentence).len() < MIN_WORDS && numbers.is_empty() {
            return true;
        }
        self.runs.iter().any(|run| {
            let has_numbers = numbers.iter().all(|number| number.is_counted() || run.has_number(number));
            has_numbers && run.coverage(sentence) >= MIN_COVERAGE
        })
    }
}

/// The sentences of a text so far, to recognize one that says nearly the same: a small model repeats itself with one word changed.
#[derive(Default)]
pub(crate) struct Said {
    sentences: Vec<String>,
}

impl Said {
    /// Whether a sentence says something new; it counts as said from now on.
    pub(crate) fn is_new(&mut self, sentence: &str) -> bool {
        let numbers = numbers(sentence);
        let says_it =
            |other: &String| words::similarity(other, sentence) >= SAME && numbers.is_subset(&self::numbers(other));
        let is_new = !self.sentences.iter().any(says_it);
        if is_new {
            self.sentences.push(sentence.to_owned());
        }
        is_new
    }
}

fn numbers(sentence: &str) -> HashSet<String> {
    let numbers = words::numbers(sentence).into_iter().filter(|number| !number.is_counted());
    numbers.flat_map(|number| number.forms).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        let mut text = "Ann: The new mooring lines cost sixty-one thousand pounds.\n".to_owned();
        for n in 0..30 {
            text.push_str(&format!("Bob: Something quite different happens in house {n} of our old street.\n"));
        }
        text.push_str("Ann: The growth of passengers was four percent in spring.\n");
        Source::from_text(&text)
    }

    #[test]
    fn a_sentence_is_supported_where_its_words_and_numbers_stand_together() {
        let source = source();
        let support = Support::new(&source, 0..source.units().len());
        assert!(support.has("Ann said that the mooring lines cost 61,000 pounds."));
        assert!(support.has("The number of passengers grew by 4 percent in spring."));
        assert!(!support.has("The growth of passengers was 61 percent in spring."));
        assert!(!support.has("Bob asked the plumber to repair the heating of the theatre."));
        assert!(support.has("Bob agreed."));
    }

    #[test]
    fn every_unit_is_in_a_run() {
        for count in 1..30 {
            let text: String =
                (0..count).map(|n| format!("Ann: Our item{n} wanders around word{n} today.\n")).collect();
            let source = Source::from_text(&text);
            let support = Support::new(&source, 0..source.units().len());
            for n in 0..count {
                assert!(support.has(&format!("Our item{n} wanders around word{n}")), "{n} of {count}");
            }
        }
        assert!(!Support::new(&source(), 0..0).has("Nothing supports this long sentence."));
    }

    #[test]
    fn the_second_of_two_like_sentences_goes_unless_it_has_another_number() {
        let sentences = [
            "Margaret then asked Piet about the budget for the next year.",
            "Margaret then asked Piet about the budget of the next years.",
            "Nordhavn asks 38 million for the boat.",
            "Nordhavn asks 42 million for the boat.",
        ];
        let mut said = Said::default();
        assert_eq!(sentences.map(|sentence| said.is_new(sentence)), [true, false, true, true]);
    }
}
