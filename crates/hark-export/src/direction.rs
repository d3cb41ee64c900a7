//! Which way text runs.

use std::ops::Range;

use unicode_bidi::{BidiClass, BidiInfo, Level, bidi_class};

/// Languages written from right to left, of those that speech models know.
const RIGHT_TO_LEFT: [&str; 12] = ["ar", "he", "iw", "fa", "ur", "ps", "sd", "yi", "ug", "dv", "ckb", "syr"];

/// Whether `language` is written from right to left.
pub(crate) fn is_rtl_language(language: &str) -> bool {
    RIGHT_TO_LEFT.contains(&primary(language).as_str())
}

/// The first part of a language code, in small letters.
pub(crate) fn primary(language: &str) -> String {
    language.split(['-', '_']).next().unwrap_or_default().to_ascii_lowercase()
}

/// Whether a paragraph runs from right to left. In a language written so, one such letter is enough: an Arabic sentence
/// may well begin with a foreign name. Elsewhere most of its letters must be.
pub(crate) fn is_rtl_paragraph(text: &str, language: &str) -> bool {
    let (mut right, mut left) = (0_usize, 0_usize);
    for c in text.chars() {
        match bidi_class(c) {
            BidiClass::R | BidiClass::AL => right += 1,
            BidiClass::L => left += 1,
            _ => {}
        }
    }
    if is_rtl_language(language) { right > 0 || left == 0 } else { right > left }
}

/// The level of every byte of a paragraph: odd where it runs from right to left.
pub(crate) fn levels(text: &str, is_rtl: bool) -> Vec<Level> {
    let base = if is_rtl { Level::rtl() } else { Level::ltr() };
    let mut levels = BidiInfo::new(text, Some(base)).levels;
    levels.resize(text.len(), base);
    levels
}

/// The stretches of `text` that run one way, in order of reading, each with whether it runs from right to left.
pub(crate) fn stretches(text: &str, is_rtl: bool) -> Vec<(Range<usize>, bool)> {
    let levels = levels(text, is_rtl);
    let mut stretches: Vec<(Range<usize>, bool)> = Vec::new();
    for (at, c) in text.char_indices() {
        let rtl = levels[at].is_rtl();
        match stretches.last_mut() {
            Some((range, last)) if *last == rtl => range.end = at + c.len_utf8(),
            _ => stretches.push((at..at + c.len_utf8(), rtl)),
        }
    }
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arabic_sentence_that_begins_with_a_foreign_name_still_runs_from_the_right() {
        assert!(is_rtl_paragraph("Google شركة", "ar"));
        assert!(!is_rtl_paragraph("Google is a company", "ar"));
        assert!(is_rtl_paragraph("123 …", "ar-EG"), "nothing that says otherwise");
        assert!(!is_rtl_paragraph("the word سلام means peace", "en"));
        assert!(is_rtl_paragraph("שלום לכולם ok", "en"));
        assert!(!is_rtl_paragraph("", "en"));
    }

    #[test]
    fn a_stretch_ends_where_the_direction_turns() {
        let text = "قال Google أمس";
        let parts: Vec<_> = stretches(text, true).into_iter().map(|(range, rtl)| (&text[range], rtl)).collect();
        assert_eq!(parts, [("قال ", true), ("Google", false), (" أمس", true)]);
    }
}
