//! What is spoken: sentences and short texts out of the conversations of `bench/text`.

use std::path::Path;

use hark_say::{Options, TextReader};
use hark_tts::phoneme_id;

use super::failed;
use crate::error::BenchError;
use crate::systems;

/// The English conversations among them.
const TEXTS: [&str; 9] = [
    "board-meeting",
    "town-hall",
    "lecture",
    "postmortem",
    "sales-call",
    "doctor-visit",
    "radio-news",
    "product-meeting",
    "podcast",
];
/// Words of a sentence.
const WORDS: std::ops::RangeInclusive<usize> = 6..=25;
/// Characters of a short text.
const CHARACTERS: std::ops::RangeInclusive<usize> = 190..=210;
/// The id that stands before and after the phonemes of a sentence.
const PADDING: u32 = 0;

/// A sentence that is spoken.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sentence {
    pub(super) text: String,
    pub(super) phonemes: String,
}

impl Sentence {
    /// What the network reads: phonemes by number, padded at both ends.
    pub(super) fn ids(&self) -> Vec<u32> {
        let ids = self.phonemes.chars().filter_map(phoneme_id);
        [PADDING].into_iter().chain(ids).chain([PADDING]).collect()
    }
}

/// What the conversations have to speak.
pub(super) struct Texts {
    pub(super) sentences: Vec<Sentence>,
    /// Texts of about 200 characters: of several sentences, and of one.
    pub(super) several: Vec<String>,
    pub(super) single: Vec<String>,
}

impl Texts {
    /// Reads the conversations in `bench/text`.
    pub(super) fn read(bench: &Path) -> Result<Self, BenchError> {
        let dictionary = systems::installed_for(hark_models::Role::Pronunciation).ok();
        let reader = TextReader::new(Options { dictionary, max_characters: usize::MAX, ..Options::default() });
        let mut texts = Texts { sentences: Vec::new(), several: Vec::new(), single: Vec::new() };
        for name in TEXTS {
            let path = bench.join("text").join(name).with_extension("txt");
            let text =
                std::fs::read_to_string(&path).map_err(|source| BenchError::File { path: path.clone(), source })?;
            for turn in text.lines().filter_map(|line| Some(line.split_once(": ")?.1)) {
                let planned = reader.plan(turn, "en-us", &|| false).map_err(|error| failed("hark-say", error))?;
                let sentences =
                    planned.into_iter().map(|one| Sentence { text: one.text, phonemes: one.phonemes }).collect();
                texts.add_turn(sentences);
            }
        }
        Ok(texts)
    }

    fn add_turn(&mut self, sentences: Vec<Sentence>) {
        if let Some(text) = beginning(&sentences) {
            self.several.push(text);
        }
        for sentence in sentences {
            if CHARACTERS.contains(&sentence.text.chars().count()) {
                self.single.push(sentence.text.clone());
            }
            if WORDS.contains(&sentence.text.split_whitespace().count()) {
                self.sentences.push(sentence);
            }
        }
    }
}

/// The first sentences of a turn, at least two, where they are as long as a short text.
fn beginning(sentences: &[Sentence]) -> Option<String> {
    let mut text = String::new();
    for (at, sentence) in sentences.iter().enumerate() {
        if at > 0 {
            text.push(' ');
        }
        text.push_str(&sentence.text);
        if at > 0 && CHARACTERS.contains(&text.chars().count()) {
            return Some(text);
        }
    }
    None
}

/// `count` items spread evenly over all, each once.
pub(super) fn spread<T>(all: &[T], count: usize) -> Vec<&T> {
    let count = count.min(all.len());
    (0..count).map(|at| &all[at * all.len() / count]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(text: &str) -> Sentence {
        Sentence { text: text.to_owned(), phonemes: "əz.".to_owned() }
    }

    #[test]
    fn what_is_chosen_lies_everywhere_and_comes_once() {
        assert_eq!(spread(&[1, 2, 3, 4, 5, 6], 3), [&1, &3, &5]);
        assert_eq!(spread(&[1, 2], 5), [&1, &2]);
        assert!(spread::<u8>(&[], 5).is_empty());
    }

    #[test]
    fn short_texts_are_whole_sentences_of_about_two_hundred_characters() {
        let (half, word) = ("w".repeat(99), "one two three four five six.");
        let mut texts = Texts { sentences: Vec::new(), several: Vec::new(), single: Vec::new() };
        texts.add_turn(vec![sentence(&half), sentence(&half), sentence(word)]);
        assert_eq!(texts.several, [format!("{half} {half}")]);
        texts.add_turn(vec![sentence(&"w".repeat(200))]);
        assert_eq!((texts.several.len(), texts.single.len()), (1, 1));
        assert_eq!(texts.sentences, [sentence(word)]);
    }

    #[test]
    fn ids_are_padded() {
        assert_eq!(sentence("").ids(), [0, 83, 68, 4, 0]);
    }
}
