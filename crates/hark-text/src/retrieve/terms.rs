//! The terms by which passages are found: folded words, in scripts without spaces pairs of characters.

use hark_transcript::is_unspaced;
use unicode_normalization::UnicodeNormalization;

use crate::words;

/// Characters of the longest term; what is longer is cut.
const MAX_CHARS: usize = 48;

/// The terms of a text in order: lower case, without accents, plurals and common English endings removed. Words of scripts without spaces are
/// given as pairs of neighbouring characters, a single character as itself.
pub fn terms(text: &str) -> Vec<String> {
    let mut terms = Vec::new();
    for word in words::normalize(text).split(' ').filter(|word| !word.is_empty()) {
        push_terms(word, &mut terms);
    }
    terms
}

/// The terms of a question, each once, without words that say little; all of them where nothing else is left.
pub fn query_terms(question: &str) -> Vec<String> {
    let normalized = words::normalize(question);
    let all: Vec<&str> = normalized.split(' ').filter(|word| !word.is_empty()).collect();
    let telling: Vec<&str> = all.iter().copied().filter(|word| !words::is_stop_word(word)).collect();
    let mut terms = Vec::new();
    for word in if telling.is_empty() { all } else { telling } {
        push_terms(word, &mut terms);
    }
    let mut seen = std::collections::HashSet::new();
    terms.retain(|term| seen.insert(term.clone()));
    terms
}

fn push_terms(word: &str, terms: &mut Vec<String>) {
    if word.chars().any(is_unspaced) {
        let chars: Vec<char> = word.chars().collect();
        if chars.len() == 1 {
            terms.push(word.to_owned());
        }
        terms.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
    } else {
        terms.push(stem(&fold(word)));
    }
}

/// A word in lower case without accents.
fn fold(word: &str) -> String {
    let is_accent = |c: &char| matches!(c, '\u{300}'..='\u{36f}');
    let folded = word.nfd().filter(|c| !is_accent(c)).nfc().take(MAX_CHARS);
    folded.map(|c| if c == 'ß' { 's' } else { c }).collect()
}

/// A word without a plural and the commonest English endings. Both sides of a comparison are treated alike, so that a wrong cut in another
/// language joins words but loses none.
fn stem(word: &str) -> String {
    if word.len() < 4 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let mut stem = word;
    if let Some(rest) = stem.strip_suffix("ies").filter(|rest| rest.len() >= 2) {
        return format!("{rest}y");
    }
    if stem.ends_with('s') && !stem.ends_with("ss") && !stem.ends_with("us") && !stem.ends_with("is") {
        stem = &stem[..stem.len() - 1];
    }
    for ending in ["ing", "ed"] {
        let has_vowel = |rest: &&str| rest.len() >= 3 && rest.contains(['a', 'e', 'i', 'o', 'u', 'y']);
        if let Some(rest) = stem.strip_suffix(ending).filter(has_vowel) {
            stem = undouble(rest);
            break;
        }
    }
    stem.strip_suffix('e').filter(|rest| rest.len() >= 3).unwrap_or(stem).to_owned()
}

/// `plann` is `plan`, but `call` and `pass` stay.
fn undouble(stem: &str) -> &str {
    let bytes = stem.as_bytes();
    let ends_double = bytes.len() >= 2 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2];
    if ends_double && !stem.ends_with(['l', 's', 'z', 'e', 'o']) { &stem[..stem.len() - 1] } else { stem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_have_one_term() {
        for (one, other) in [
            ("Costs", "cost"),
            ("decided", "decide"),
            ("deciding", "decides"),
            ("planned", "plan"),
            ("companies", "company"),
            ("calling", "calls"),
            ("prices", "price"),
            ("Décision", "decision"),
            ("año", "ano"),
            ("Straße", "strase"),
        ] {
            assert_eq!(terms(one), terms(other), "{one}, {other}");
        }
        for (one, other) in [("bus", "bu"), ("red", "r"), ("thing", "th"), ("class", "clas"), ("1990s", "1990")] {
            assert_ne!(terms(one), terms(other), "{one}, {other}");
        }
    }

    #[test]
    fn scripts_without_spaces_give_pairs_of_characters() {
        assert_eq!(terms("今天讨论 Budget"), ["今天", "天讨", "讨论", "budget"]);
        assert_eq!(terms("火"), ["火"]);
    }

    #[test]
    fn a_question_is_reduced_to_words_that_say_something() {
        assert_eq!(query_terms("Who decided what about the budget, the budget?"), ["decid", "budget"]);
        assert_eq!(query_terms("And when?"), ["and", "when"]);
        assert_eq!(query_terms("?!"), Vec::<String>::new());
    }

    #[test]
    fn a_word_without_end_is_cut() {
        assert_eq!(terms(&"x".repeat(10_000))[0].len(), MAX_CHARS);
    }
}
