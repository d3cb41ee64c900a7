//! English sentences as phonemes: words by dictionary and context, other words by espeak-ng or by spelling rules.

use std::collections::{HashMap, HashSet};

use unicode_normalization::UnicodeNormalization;

use super::dictionary::{self, Dictionary, Stress, Tag, apply_stress, is_capitals};
use super::espeak::Espeak;
use super::{Lexicon, ipa, letters};
use crate::SayError;

/// Longer words are no compound of two words.
const MAX_COMPOUND_BYTES: usize = 64;

/// What pronounces English.
pub(crate) struct English<'a> {
    pub(crate) dictionary: Option<&'a Dictionary>,
    pub(crate) espeak: Option<&'a Espeak>,
    pub(crate) lexicon: &'a Lexicon,
    pub(crate) voice: &'static str,
    pub(crate) british: bool,
}

/// A part of a sentence.
#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Sign(char),
    Space,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_part = |c: char| c.is_alphabetic() || unicode_normalization::char::is_combining_mark(c);
        if is_part(c) || (c == '\'' && rest[1..].starts_with(is_part)) {
            let mut end = c.len_utf8();
            for (at, c) in rest.char_indices().skip(1) {
                let joins = matches!(c, '\'' | '-') && rest[at + 1..].starts_with(is_part);
                if !is_part(c) && !joins && c != '\'' {
                    break;
                }
                end = at + c.len_utf8();
            }
            tokens.push(Token::Word(&rest[..end]));
            rest = &rest[end..];
        } else {
            tokens.push(if c.is_whitespace() { Token::Space } else { Token::Sign(c) });
            rest = &rest[c.len_utf8()..];
        }
    }
    tokens
}

impl English<'_> {
    /// The phonemes of each sentence. Words in no dictionary are asked of espeak-ng in one call.
    pub(crate) fn pronounce(
        &self,
        sentences: &[&str],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, SayError> {
        let sentences: Vec<Vec<Token>> = sentences.iter().map(|sentence| tokens(sentence)).collect();
        let mut unknown: Vec<String> = Vec::new();
        let mut seen: HashSet<String> = HashSet::new();
        for token in sentences.iter().flatten() {
            if let Token::Word(word) = token {
                let word = fold(word);
                if seen.insert(word.clone()) && self.known(&word, Tag::Unknown).is_none() {
                    unknown.push(word);
                }
            }
        }
        let mut guessed: HashMap<String, String> = HashMap::new();
        if let Some(espeak) = self.espeak
            && !unknown.is_empty()
        {
            let words: Vec<&str> = unknown.iter().map(String::as_str).collect();
            for (word, answer) in words.iter().zip(espeak.phonemes(self.voice, &words, is_cancelled)?) {
                let phonemes = ipa::english(&answer, self.british).replace(' ', "");
                if !phonemes.is_empty() {
                    guessed.insert((*word).to_owned(), phonemes);
                }
            }
        }
        Ok(sentences.iter().map(|tokens| self.sentence(tokens, &guessed)).collect())
    }

    /// From the end to the start, since function words depend on what follows.
    fn sentence(&self, tokens: &[Token], guessed: &HashMap<String, String>) -> String {
        let words: Vec<String> = tokens
            .iter()
            .filter_map(|token| match token {
                Token::Word(word) => Some(fold(word)),
                _ => None,
            })
            .collect();
        let is_mixed = is_mixed(&words);
        let mut index = words.len();
        let mut parts: Vec<String> = Vec::with_capacity(tokens.len());
        // Whether the next sound is a vowel; none before a pause.
        let mut next_vowel: Option<bool> = None;
        for token in tokens.iter().rev() {
            match token {
                Token::Space => parts.push(" ".to_owned()),
                Token::Sign(c) => {
                    if crate::alphabet::is_punctuation(*c) {
                        parts.push(c.to_string());
                    }
                    if matches!(c, ',' | '.' | ';' | ':' | '!' | '?' | '—' | '…') {
                        next_vowel = None;
                    }
                }
                Token::Word(_) => {
                    index -= 1;
                    let phonemes = self.word_in_context(&words, is_mixed, index, next_vowel, guessed);
                    next_vowel = phonemes
                        .chars()
                        .find_map(|c| match c {
                            _ if dictionary::is_vowel(c) => Some(true),
                            _ if dictionary::is_consonant(c) => Some(false),
                            _ => None,
                        })
                        .or(next_vowel);
                    parts.push(phonemes);
                }
            }
        }
        parts.reverse();
        // In Kokoro's notation the flap is "T", and a glottal stop is written "t".
        parts.concat().replace('ɾ', "T").replace('ʔ', "t")
    }

    fn word_in_context(
        &self,
        words: &[String],
        is_mixed: bool,
        index: usize,
        next_vowel: Option<bool>,
        guessed: &HashMap<String, String>,
    ) -> String {
        let word = words[index].as_str();
        if let Some(phonemes) = self.lexicon.get(word) {
            return phonemes.to_owned();
        }
        if self.dictionary.is_some()
            && let Some(phonemes) = self.function_word(words, index, next_vowel)
        {
            return phonemes;
        }
        let tag = if next_vowel.is_none() && index + 1 == words.len() {
            tag_at_end(words, is_mixed, index)
        } else {
            tag(words, is_mixed, index)
        };
        if let Some(phonemes) = self.known(word, tag) {
            return phonemes;
        }
        match guessed.get(word) {
            Some(phonemes) => phonemes.clone(),
            None => letters::pronounce(word, self.british),
        }
    }

    /// Words that are reduced before others.
    fn function_word(&self, words: &[String], index: usize, next_vowel: Option<bool>) -> Option<String> {
        let word = words[index].as_str();
        let next = words.get(index + 1).map(String::as_str).unwrap_or_default();
        let phonemes = match word {
            // A letter, as in "A B C" and "Plan A", is not the article.
            "A" if index > 0 || next.chars().count() == 1 || next_vowel.is_none() => "ˈA",
            "a" if next_vowel.is_none() => "ˈA",
            "a" | "A" => "ɐ",
            "an" | "An" => "ɐn",
            "am" if next_vowel.is_some() => "ɐm",
            "AM" => return self.dictionary?.letters("AM"),
            "PM" => return self.dictionary?.letters("PM"),
            "I" => "ˌI",
            "to" | "To" => match next_vowel {
                Some(true) => "tʊ",
                Some(false) => "tə",
                None if self.british => "tuː",
                None => "tu",
            },
            "in" | "In" if next_vowel.is_none() => "ˈɪn",
            "in" | "In" => "ɪn",
            "the" | "The" | "THE" => {
                if next_vowel == Some(true) {
                    "ði"
                } else {
                    "ðə"
                }
            }
            "used" | "Used" if next == "to" => {
                if self.british {
                    "jˈuːst"
                } else {
                    "jˈust"
                }
            }
            "WHO" if index > 0 && words[index - 1].eq_ignore_ascii_case("the") => {
                return self.dictionary?.letters("WHO");
            }
            _ => return None,
        };
        Some(phonemes.to_owned())
    }

    /// A word by dictionary: whole, in parts at hyphens and capitals, or as two words.
    fn known(&self, word: &str, tag: Tag) -> Option<String> {
        if let Some(phonemes) = self.lexicon.get(word) {
            return Some(phonemes.to_owned());
        }
        let dictionary = self.dictionary?;
        if let Some(phonemes) = dictionary.word(word, tag) {
            return Some(phonemes);
        }
        let trimmed = word.trim_matches('\'');
        if trimmed != word && !trimmed.is_empty() {
            return self.known(trimmed, tag);
        }
        let parts = split_word(word);
        if parts.len() > 1 {
            let spelled =
                |part: &&str| (part.len() > 1 && is_capitals(part)).then(|| dictionary.letters(part)).flatten();
            let known: Option<Vec<String>> =
                parts.iter().map(|part| spelled(part).or_else(|| self.known(part, Tag::Unknown))).collect();
            return known.map(|parts| join_parts(&parts));
        }
        self.compound(word).map(|parts| join_parts(&parts))
    }

    /// "webhook" as "web" and "hook": two words of the checked list, in lower case only, since names are no compounds.
    fn compound(&self, word: &str) -> Option<Vec<String>> {
        let dictionary = self.dictionary?;
        if !(7..=MAX_COMPOUND_BYTES).contains(&word.len()) || !word.bytes().all(|b| b.is_ascii_lowercase()) {
            return None;
        }
        let is_checked = |part: &str| dictionary.is_checked(part) && part.bytes().any(|b| b"aeiouy".contains(&b));
        let at = (3..=word.len() - 3)
            .filter(|&at| is_checked(&word[..at]) && is_checked(&word[at..]))
            .max_by_key(|&at| at.min(word.len() - at))?;
        Some(vec![dictionary.word(&word[..at], Tag::Noun)?, dictionary.word(&word[at..], Tag::Noun)?])
    }
}

/// Letters without accents, as the dictionary has them: "café" is "cafe". Letters outside Latin stay.
fn fold(word: &str) -> String {
    if word.is_ascii() {
        return word.to_owned();
    }
    let mut out = String::with_capacity(word.len());
    for c in word.nfd().filter(|c| !unicode_normalization::char::is_combining_mark(*c)) {
        match c {
            'ß' => out.push_str("ss"),
            'æ' => out.push_str("ae"),
            'Æ' => out.push_str("Ae"),
            'œ' => out.push_str("oe"),
            'ø' => out.push('o'),
            'Ø' => out.push('O'),
            'ł' => out.push('l'),
            'Ł' => out.push('L'),
            'đ' => out.push('d'),
            'ð' => out.push_str("th"),
            'þ' => out.push_str("th"),
            'Þ' => out.push_str("Th"),
            'ı' => out.push('i'),
            _ => out.push(c),
        }
    }
    out
}

/// Parts of a word at hyphens and where capitals begin: "well-known", "PostgreSQL".
fn split_word(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for piece in word.split('-').filter(|piece| !piece.is_empty()) {
        let mut start = 0;
        let chars: Vec<(usize, char)> = piece.char_indices().collect();
        for index in 1..chars.len() {
            let (at, c) = chars[index];
            let before = chars[index - 1].1;
            let next_lower = chars.get(index + 1).is_some_and(|(_, next)| next.is_lowercase());
            let begins = c.is_uppercase()
                && (before.is_lowercase() || (before.is_uppercase() && next_lower && chars.len() > index + 2));
            if begins && at > start {
                parts.push(&piece[start..at]);
                start = at;
            }
        }
        parts.push(&piece[start..]);
    }
    parts
}

/// Joins parts of a compound; when most are stressed the lighter half becomes secondary.
fn join_parts(parts: &[String]) -> String {
    let weight = |phonemes: &str| phonemes.chars().map(|c| if "AIOQWYʤʧ".contains(c) { 2 } else { 1 }).sum::<usize>();
    let mut order: Vec<(bool, usize, usize)> =
        parts.iter().enumerate().map(|(index, part)| (part.contains('ˈ'), weight(part), index)).collect();
    let stressed = order.iter().filter(|(is_stressed, ..)| *is_stressed).count();
    if order.len() < 2 || stressed <= order.len().div_ceil(2) {
        return parts.concat();
    }
    order.sort_unstable();
    let mut is_demoted = vec![false; parts.len()];
    for &(_, _, index) in &order[..order.len() / 2] {
        is_demoted[index] = true;
    }
    let joined = parts
        .iter()
        .enumerate()
        .map(|(index, part)| if is_demoted[index] { apply_stress(part, Stress::Demoted) } else { part.clone() });
    joined.collect()
}

/// Whether a sentence has lower case, so that its words in capitals stand out.
fn is_mixed(words: &[String]) -> bool {
    words.iter().any(|word| word.chars().any(char::is_lowercase))
}

fn tag_at_end(words: &[String], is_mixed: bool, index: usize) -> Tag {
    if words[index] == "that" {
        return Tag::Determiner;
    }
    // Function words before a pause have a stressed form; others keep their part of speech.
    let function = matches!(
        words[index].as_str(),
        "by" | "for"
            | "of"
            | "at"
            | "from"
            | "with"
            | "on"
            | "have"
            | "has"
            | "had"
            | "do"
            | "does"
            | "can"
            | "could"
            | "would"
            | "should"
            | "will"
            | "was"
            | "were"
            | "is"
            | "are"
            | "am"
            | "there"
            | "them"
            | "than"
            | "as"
    );
    if function { Tag::Final } else { tag(words, is_mixed, index) }
}

/// The part of speech by the words around: enough for words whose sound depends on it, as "read", "live", "object", "use".
fn tag(words: &[String], is_mixed: bool, index: usize) -> Tag {
    let lower = |at: Option<usize>| at.and_then(|at| words.get(at)).map(|word| word.to_lowercase()).unwrap_or_default();
    let (previous, next) = (lower(index.checked_sub(1)), lower(Some(index + 1)));
    let earlier = lower(index.checked_sub(2));
    let is_object = |word: &str| {
        matches!(
            word,
            "the"
                | "a"
                | "an"
                | "this"
                | "that"
                | "these"
                | "those"
                | "my"
                | "your"
                | "his"
                | "her"
                | "its"
                | "our"
                | "their"
                | "it"
                | "them"
                | "him"
                | "me"
                | "us"
                | "you"
                | "all"
                | "every"
                | "some"
                | "any"
        )
    };
    if is_mixed && words[index].len() > 1 && is_capitals(&words[index]) {
        return Tag::Noun;
    }
    if words[index].eq_ignore_ascii_case("that") {
        return if index == 0 || matches!(next.as_str(), "is" | "was" | "one" | "day" | "time" | "way" | "year") {
            Tag::Determiner
        } else {
            Tag::Unknown
        };
    }
    match previous.as_str() {
        "to" | "will" | "would" | "can" | "could" | "should" | "must" | "may" | "might" | "shall" | "don't"
        | "doesn't" | "didn't" | "can't" | "won't" | "couldn't" | "wouldn't" | "shouldn't" | "let's" | "please"
        | "cannot" | "not" | "never" | "always" | "often" | "also" | "do" | "did" | "does" | "i'll" | "you'll"
        | "we'll" | "they'll" | "he'll" | "she'll" | "it'll" | "and"
            if (previous != "and" || is_object(&next)) =>
        {
            if previous == "not"
                && matches!(earlier.as_str(), "is" | "are" | "was" | "were" | "have" | "has" | "had" | "been")
            {
                Tag::Participle
            } else {
                Tag::Verb
            }
        }
        "i" | "you" | "we" | "they" | "who" => Tag::Present,
        "he" | "she" | "it" => Tag::Past,
        "have" | "has" | "had" | "having" | "was" | "were" | "been" | "be" | "being" | "get" | "got" | "i've"
        | "we've" | "you've" | "they've" | "widely" => Tag::Participle,
        "is" | "are" | "very" | "so" | "too" | "more" | "most" | "quite" | "really" | "am" | "i'm" | "that's"
        | "it's" | "seems" | "looks" | "how" => Tag::Adjective,
        "the" | "a" | "an" | "this" | "that" | "these" | "those" | "my" | "your" | "his" | "her" | "its" | "our"
        | "their" | "some" | "any" | "no" | "each" | "every" | "another" | "of" | "for" | "in" | "on" | "with"
        | "from" | "by" | "about" | "at" | "into" | "first" | "second" | "last" | "new" | "old" | "good" | "bad"
        | "great" | "small" | "big" | "long" | "one" | "world" | "two" | "three" | "many" => {
            let modifies = !next.is_empty()
                && !is_object(&next)
                && !is_function(&next)
                && !next.ends_with("ed")
                && !next.ends_with("ing");
            if modifies
                && matches!(
                    previous.as_str(),
                    "the" | "a" | "an" | "this" | "that" | "my" | "your" | "his" | "her" | "its" | "our" | "their"
                )
            {
                Tag::Adjective
            } else {
                Tag::Noun
            }
        }
        "" if is_object(&next) => Tag::Verb,
        "" => Tag::Unknown,
        _ if previous.ends_with("ly") && previous.len() > 4 => Tag::Verb,
        // "Smith lives at": a name before and a place after.
        _ if matches!(next.as_str(), "in" | "at" | "on" | "near" | "with")
            && words[index - 1].starts_with(char::is_uppercase) =>
        {
            Tag::Verb
        }
        _ if is_object(&next)
            || matches!(next.as_str(), "in" | "to" | "with" | "at" | "on") && previous.ends_with('s') =>
        {
            Tag::Verb
        }
        _ => Tag::Unknown,
    }
}

fn is_function(word: &str) -> bool {
    matches!(
        word,
        "of" | "in"
            | "on"
            | "at"
            | "to"
            | "for"
            | "with"
            | "from"
            | "by"
            | "and"
            | "or"
            | "but"
            | "is"
            | "are"
            | "was"
            | "were"
            | "be"
            | "has"
            | "have"
            | "had"
            | "will"
            | "would"
            | "can"
            | "could"
            | "should"
            | "as"
            | "than"
            | "that"
            | "which"
            | "who"
            | "when"
            | "where"
            | "if"
            | "because"
            | "so"
            | "not"
            | "i"
            | "we"
            | "he"
            | "she"
            | "they"
            | "near"
            | "about"
            | "into"
            | "over"
            | "after"
            | "before"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_hyphens_and_capitals() {
        for (word, parts) in [
            ("well-known", vec!["well", "known"]),
            ("PostgreSQL", vec!["Postgre", "SQL"]),
            ("GitHub", vec!["Git", "Hub"]),
            ("NASA", vec!["NASA"]),
            ("iPhone", vec!["i", "Phone"]),
            ("word", vec!["word"]),
        ] {
            assert_eq!(split_word(word), parts);
        }
    }

    #[test]
    fn accents_fold_to_the_letters_of_the_dictionary() {
        assert_eq!(
            (fold("café"), fold("naïve"), fold("Łódź"), fold("Ærø")),
            ("cafe".into(), "naive".into(), "Lodz".into(), "Aero".into())
        );
    }

    #[test]
    fn the_words_around_tell_the_part_of_speech() {
        let words: Vec<String> = "I want to object to the object".split(' ').map(str::to_owned).collect();
        assert_eq!((tag(&words, true, 3), tag(&words, true, 6)), (Tag::Verb, Tag::Noun));
    }
}
