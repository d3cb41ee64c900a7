//! Sentences and words of a text in any script.

use std::ops::Range;

use icu_segmenter::options::{SentenceBreakInvariantOptions, WordBreakInvariantOptions};
use icu_segmenter::{SentenceSegmenter, WordSegmenter};

/// Abbreviations that end with a stop inside a sentence; the rules of Unicode end a sentence there when a capital follows.
const ABBREVIATIONS: &[&str] = &[
    "mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "vs", "etc", "e.g", "i.e", "no", "nr", "fig", "approx", "dept",
    "inc", "ltd", "co", "corp", "gen", "gov", "sen", "rep", "rev", "hon", "capt", "col", "sgt", "z.b", "d.h", "bzw",
    "ca", "hr", "fr", "dra", "sra", "srta", "m", "mme", "mlle", "sig", "dott", "u.s", "u.k", "a.m", "p.m",
];

/// The sentences of a text as byte ranges that cover it without gaps. Line breaks inside a text do not end a sentence.
pub fn split(text: &str) -> Vec<Range<usize>> {
    // The rules of Unicode end a sentence at every line break; one byte for one byte keeps the offsets.
    let unwrapped: String = text.chars().map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c }).collect();
    let mut sentences: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    let segmenter = SentenceSegmenter::new(SentenceBreakInvariantOptions::default());
    for end in segmenter.segment_str(&unwrapped).skip(1) {
        let sentence = &unwrapped[start..end];
        if end < unwrapped.len() && (ends_with_abbreviation(sentence) || sentence.trim().is_empty()) {
            continue;
        }
        sentences.push(start..end);
        start = end;
    }
    if start < text.len() {
        sentences.push(start..text.len());
    }
    sentences
}

fn ends_with_abbreviation(sentence: &str) -> bool {
    let Some(stem) = sentence.trim_end().strip_suffix('.') else { return false };
    let word = stem.rsplit(|c: char| c.is_whitespace() || c == '(').next().unwrap_or_default();
    // An initial, as in "J. Smith"; not the pronoun I.
    let mut letters = word.chars();
    if let (Some(letter), None) = (letters.next(), letters.next()) {
        return letter.is_uppercase() && letter != 'I';
    }
    // Longer than any abbreviation: no need to change its case.
    word.len() <= 6 && ABBREVIATIONS.contains(&word.to_lowercase().as_str())
}

/// How many words a text has; in scripts without spaces, as dictionaries split them.
pub fn count_words(text: &str) -> usize {
    let segmenter = WordSegmenter::new_dictionary(WordBreakInvariantOptions::default());
    segmenter.segment_str(text).iter_with_word_type().filter(|(_, kind)| kind.is_word_like()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(text: &str) -> Vec<&str> {
        split(text).into_iter().map(|range| text[range].trim()).collect()
    }

    #[test]
    fn abbreviations_and_initials_do_not_end_a_sentence() {
        assert_eq!(
            sentences("Dr. Smith met J. Doe at 3.5 km, e.g. There. So did I. Then we left."),
            ["Dr. Smith met J. Doe at 3.5 km, e.g. There.", "So did I.", "Then we left."]
        );
    }

    #[test]
    fn sentences_end_in_scripts_without_spaces() {
        assert_eq!(sentences("今天讨论预算。明天继续！好吗？"), ["今天讨论预算。", "明天继续！", "好吗？"]);
    }

    #[test]
    fn words_are_counted_with_and_without_spaces() {
        assert_eq!(count_words("Don't panic, it's 3.5 km."), 5);
        assert_eq!(count_words(""), 0);
        assert!((4..=8).contains(&count_words("今天我们讨论预算")));
    }
}
