//! Key phrases by which answers are judged.

use std::fmt;

use serde::Deserialize;

use crate::english;

/// Alternatives between `|`; the parts of one, between `&`, must all occur as whole words. An empty pattern matches nothing.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct Pattern(String);

impl Pattern {
    #[cfg(test)]
    pub(super) fn new(pattern: &str) -> Self {
        Pattern(pattern.to_owned())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.trim().is_empty()
    }

    /// Whether a text has one of the alternatives. In English numbers match however they are written.
    pub(super) fn matches(&self, text: &str, english: bool) -> bool {
        self.matches_words(&words(text, english), english)
    }

    /// The same for a text whose words are known.
    pub(super) fn matches_words(&self, text: &[String], english: bool) -> bool {
        let has = |part: &str| contains(text, &words(part, english));
        !self.is_empty() && self.0.split('|').any(|alternative| alternative.split('&').all(has))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Whether words follow each other in a text; no words do not.
pub(super) fn contains(text: &[String], part: &[String]) -> bool {
    !part.is_empty() && text.windows(part.len()).any(|window| window == part)
}

/// The words of a text in lower case; in English with numbers spelled out, "the 21st" as "twenty one" and "a hundred" as "one hundred".
pub(super) fn words(text: &str, english: bool) -> Vec<String> {
    if !english {
        let words = text.split(|letter: char| !letter.is_alphanumeric());
        return words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    }
    // A range is two numbers: "9-11".
    let text = text.replace(['–', '—', '-', '/'], " ");
    let mut words: Vec<String> = english::words(&text).iter().map(|word| cardinal(word)).collect();
    for at in 1..words.len() {
        if words[at - 1] == "a" && matches!(words[at].as_str(), "hundred" | "thousand" | "million") {
            words[at - 1] = "one".to_owned();
        }
    }
    // "a hundred and eight": the normalization has dropped the "and" behind "one hundred" only where it was written so.
    let mut at = 1;
    while at + 1 < words.len() {
        let is_inside = words[at] == "and" && words[at - 1] == "hundred" && is_small_number(&words[at + 1]);
        if is_inside {
            words.remove(at);
        }
        at += 1;
    }
    words
}

const CARDINALS: [(&str, &str); 21] = [
    ("first", "one"),
    ("second", "two"),
    ("third", "three"),
    ("fourth", "four"),
    ("fifth", "five"),
    ("sixth", "six"),
    ("seventh", "seven"),
    ("eighth", "eight"),
    ("ninth", "nine"),
    ("tenth", "ten"),
    ("eleventh", "eleven"),
    ("twelfth", "twelve"),
    ("thirteenth", "thirteen"),
    ("fourteenth", "fourteen"),
    ("fifteenth", "fifteen"),
    ("sixteenth", "sixteen"),
    ("seventeenth", "seventeen"),
    ("eighteenth", "eighteen"),
    ("nineteenth", "nineteen"),
    ("twentieth", "twenty"),
    ("thirtieth", "thirty"),
];

fn cardinal(word: &str) -> String {
    CARDINALS.iter().find(|(ordinal, _)| *ordinal == word).map_or(word, |(_, cardinal)| cardinal).to_owned()
}

fn is_small_number(word: &str) -> bool {
    const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    TENS.contains(&word) || CARDINALS.iter().any(|(_, cardinal)| *cardinal == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).matches(text, true)
    }

    #[test]
    fn any_alternative_with_all_of_its_parts_matches() {
        assert!(matches("March & 21 | Easter", "It moves to the 21st of March."));
        assert!(matches("March & 21 | Easter", "It moves to March 21."));
        assert!(matches("March & 21 | Easter", "After easter!"));
        assert!(!matches("March & 21 | Easter", "It moves to the 22nd of March."));
    }

    #[test]
    fn numbers_match_however_they_are_written() {
        assert!(matches("108", "a claim of a hundred and eight thousand pounds"));
        assert!(matches("108", "a claim of £108,000"));
        assert!(matches("35.2", "at most thirty-five point two million"));
        assert!(matches("6,000", "about six thousand a month"));
        assert!(matches("9 to 11", "from 9 to 11"));
        assert!(!matches("108", "eight hundred"));
    }

    #[test]
    fn parts_are_whole_words() {
        assert!(!matches("port", "the report"));
        assert!(matches("port", "the port."));
    }

    #[test]
    fn an_empty_pattern_matches_nothing() {
        assert!(!matches("", "anything"));
        assert!(!matches(" ", ""));
    }

    #[test]
    fn other_languages_keep_their_letters() {
        assert!(Pattern::new("38.000 | trinta e oito mil").matches("Custa 38.000 euros.", false));
        assert!(Pattern::new("Zählerschrank").matches("der zählerschrank fehlt", false));
    }
}
