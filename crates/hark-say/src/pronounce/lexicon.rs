//! Pronunciations that a user gives.

use std::collections::HashMap;

use crate::{SayError, alphabet};

/// Words and their phonemes, which stand before every other source.
#[derive(Debug, Clone, Default)]
pub struct Lexicon {
    words: HashMap<String, String>,
}

impl Lexicon {
    /// Reads lines of the form `word = phonemes`; empty lines and lines that begin with `#` are skipped.
    pub fn parse(text: &str) -> Result<Self, SayError> {
        let mut lexicon = Lexicon::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |reason: String| SayError::Lexicon { line: index + 1, reason };
            let (word, phonemes) = line.split_once('=').ok_or_else(|| wrong("it has no '='".to_owned()))?;
            lexicon.insert(word.trim(), phonemes.trim()).map_err(wrong)?;
        }
        Ok(lexicon)
    }

    fn insert(&mut self, word: &str, phonemes: &str) -> Result<(), String> {
        if word.is_empty() || word.contains(char::is_whitespace) {
            return Err(format!("'{word}' is not one word"));
        }
        if phonemes.is_empty() {
            return Err(format!("'{word}' has no phonemes"));
        }
        if let Some(unknown) = phonemes.chars().find(|&c| !alphabet::contains(c)) {
            return Err(format!("'{unknown}' is not in Kokoro's alphabet"));
        }
        self.words.insert(word.to_lowercase(), phonemes.to_owned());
        Ok(())
    }

    /// The phonemes of a word, without regard to case.
    pub(crate) fn get(&self, word: &str) -> Option<&str> {
        if self.words.is_empty() { None } else { self.words.get(&word.to_lowercase()).map(String::as_str) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_words_with_phonemes_and_wrong_ones_are_named() {
        let lexicon = Lexicon::parse("# names\n\nHark = hˈɑɹk\nNguyen=nwˈɪn\n").unwrap();
        assert_eq!(
            (lexicon.get("HARK"), lexicon.get("nguyen"), lexicon.get("other")),
            (Some("hˈɑɹk"), Some("nwˈɪn"), None)
        );
        for (text, line) in [("Hark", 1), ("a = b\nHark = ", 2), ("two words = a", 1), ("x = 7", 1)] {
            assert!(
                matches!(Lexicon::parse(text), Err(SayError::Lexicon { line: found, .. }) if found == line),
                "{text}"
            );
        }
    }
}
