//! The English pronunciation dictionary that Kokoro was trained with: misaki's word lists, read from a folder.
//!
//! `us_gold.json` and `gb_gold.json` are checked by hand and may have several pronunciations of a word by part of speech; the silver lists were made by machine.
//! Inflected forms that are in no list come from their stem.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use crate::SayError;

/// Part of speech, as far as pronunciations differ by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Noun,
    Verb,
    Past,
    Participle,
    Present,
    Adjective,
    Determiner,
    /// Before a pause: function words are stressed there.
    Final,
    Unknown,
}

impl Tag {
    /// The keys of an entry to try, in order.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Tag::Noun => &["NOUN"],
            Tag::Verb => &["VERB"],
            Tag::Past => &["VBD", "VERB"],
            Tag::Participle => &["VBN", "VERB"],
            Tag::Present => &["VBP", "VERB"],
            Tag::Adjective => &["ADJ"],
            Tag::Determiner => &["DT"],
            Tag::Final => &["None"],
            Tag::Unknown => &[],
        }
    }
}

#[derive(Debug)]
enum Entry {
    One(Box<str>),
    /// By key of a part of speech; no phonemes when the word is spelled there.
    ByTag(Vec<(Box<str>, Option<Box<str>>)>),
}

/// The words of one kind of English.
#[derive(Debug)]
pub(crate) struct Dictionary {
    gold: HashMap<Box<str>, Entry>,
    silver: HashMap<Box<str>, Box<str>>,
    british: bool,
}

/// Longer words are in no list. Taking their endings off one by one would take time by the square of their length, and a call for each.
const MAX_WORD_BYTES: usize = 128;

const PRIMARY: char = 'ˈ';
const SECONDARY: char = 'ˌ';

pub(crate) fn is_vowel(c: char) -> bool {
    "AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻɐ".contains(c)
}

pub(crate) fn is_consonant(c: char) -> bool {
    "bdfhjklmnpstvwzðŋɡɹɾʃʒʤʧθT".contains(c)
}

/// How strongly a word is stressed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stress {
    /// As the dictionary has it.
    AsIs,
    /// A word without stress gets a secondary one: capitalized words.
    AtLeastSecondary,
    /// A word without primary stress gets one: words in capitals.
    Primary,
    /// Primary becomes secondary: the lighter part of a compound.
    Demoted,
}

/// Changes the stress of phonemes.
pub(crate) fn apply_stress(phonemes: &str, stress: Stress) -> String {
    let has = |mark: char| phonemes.contains(mark);
    let unstressed = !has(PRIMARY) && !has(SECONDARY);
    match stress {
        Stress::Demoted if has(PRIMARY) => phonemes.replace(SECONDARY, "").replace(PRIMARY, "ˌ"),
        Stress::AtLeastSecondary if unstressed => mark_first_vowel(phonemes, SECONDARY),
        Stress::Primary if unstressed => mark_first_vowel(phonemes, PRIMARY),
        Stress::Primary if !has(PRIMARY) => phonemes.replace(SECONDARY, "ˈ"),
        _ => phonemes.to_owned(),
    }
}

fn mark_first_vowel(phonemes: &str, mark: char) -> String {
    match phonemes.find(is_vowel) {
        Some(at) => format!("{}{mark}{}", &phonemes[..at], &phonemes[at..]),
        None => phonemes.to_owned(),
    }
}

impl Dictionary {
    /// Reads the two lists of American or British English in `folder`.
    pub(crate) fn load(folder: &Path, british: bool) -> Result<Self, SayError> {
        let prefix = if british { "gb" } else { "us" };
        let mut gold = HashMap::new();
        for (word, value) in read(&folder.join(format!("{prefix}_gold.json")))? {
            let entry = match value {
                Value::String(phonemes) => Entry::One(phonemes.into()),
                Value::Object(map) => Entry::ByTag(
                    map.into_iter().map(|(tag, phonemes)| (tag.into(), phonemes.as_str().map(Into::into))).collect(),
                ),
                _ => continue,
            };
            gold.insert(word.into_boxed_str(), entry);
        }
        let silver = read(&folder.join(format!("{prefix}_silver.json")))?;
        let silver =
            silver.into_iter().filter_map(|(word, value)| Some((word.into(), value.as_str()?.into()))).collect();
        Ok(Dictionary { gold, silver, british })
    }

    fn gold(&self, word: &str) -> Option<&Entry> {
        self.gold.get(word).or_else(|| self.gold.get(other_case(word)?.as_str()))
    }

    fn silver(&self, word: &str) -> Option<&str> {
        self.silver
            .get(word)
            .map(AsRef::as_ref)
            .or_else(|| self.silver.get(other_case(word)?.as_str()).map(AsRef::as_ref))
    }

    fn is_listed(&self, word: &str) -> bool {
        self.gold(word).is_some() || self.silver(word).is_some()
    }

    /// Whether the word is in a hand-checked list.
    pub(crate) fn is_checked(&self, word: &str) -> bool {
        self.gold(word).is_some()
    }

    /// The word as it stands in a list. In capitals, a word of its own stands before the same word in lower case.
    fn listed(&self, word: &str, tag: Tag) -> Option<String> {
        let in_capitals = word.len() > 1 && is_capitals(word);
        let lower;
        let word = if in_capitals && !self.gold.contains_key(word) {
            lower = word.to_lowercase();
            &lower
        } else {
            word
        };
        match self.gold(word) {
            Some(Entry::One(phonemes)) => Some(phonemes.to_string()),
            Some(Entry::ByTag(entries)) => {
                let find = |key: &str| entries.iter().find(|(tag, _)| &**tag == key);
                let found = tag.keys().iter().find_map(|key| find(key)).or_else(|| find("DEFAULT"))?;
                found.1.as_ref().map(|phonemes| phonemes.to_string())
            }
            None => self.silver(word).map(str::to_owned),
        }
    }

    /// The phonemes of a word, by itself or from its stem, with the stress of its capitals; `None` when it is in no list.
    pub(crate) fn word(&self, word: &str, tag: Tag) -> Option<String> {
        let stress = match word.chars().next() {
            Some(first) if first.is_uppercase() && is_capitals(word) && word.len() > 1 => Stress::Primary,
            Some(first) if first.is_uppercase() => Stress::AtLeastSecondary,
            _ => Stress::AsIs,
        };
        let phonemes = self.unstressed_word(word, tag)?;
        Some(apply_stress(&phonemes, stress))
    }

    fn unstressed_word(&self, word: &str, tag: Tag) -> Option<String> {
        if word.len() > MAX_WORD_BYTES {
            return None;
        }
        if let Some(phonemes) = self.listed(word, tag) {
            return Some(phonemes);
        }
        if is_capitals(word) && (self.gold.contains_key(word) || !self.is_listed(&word.to_lowercase())) {
            return self.letters(word);
        }
        // GPUs, CEO's: capitals with an s.
        for ending in ["'s", "s"] {
            if let Some(stem) = word.strip_suffix(ending)
                && stem.len() > 1
                && is_capitals(stem)
            {
                return self.unstressed_word(stem, tag).map(|phonemes| self.with_s(&phonemes));
            }
        }
        self.plural(word, tag)
            .or_else(|| self.past(word, tag))
            .or_else(|| self.gerund(word, tag))
            .or_else(|| self.plural_possessive(word, tag))
    }

    /// Letters by their names, the last one stressed: "FBI".
    pub(crate) fn letters(&self, word: &str) -> Option<String> {
        let mut names = String::new();
        for c in word.chars().filter(|c| c.is_alphabetic()) {
            let upper = c.to_uppercase().next()?;
            match self.gold.get(upper.encode_utf8(&mut [0; 4]) as &str)? {
                Entry::One(name) => names.push_str(&name.replace(PRIMARY, "ˌ")),
                Entry::ByTag(_) => return None,
            }
        }
        let last = names.rfind(SECONDARY)?;
        names.replace_range(last..last + SECONDARY.len_utf8(), "ˈ");
        Some(names)
    }

    fn plural_possessive(&self, word: &str, tag: Tag) -> Option<String> {
        self.unstressed_word(word.strip_suffix('\'')?, tag)
    }

    fn plural(&self, word: &str, tag: Tag) -> Option<String> {
        if word.len() < 3 || !word.is_ascii() || !word.ends_with('s') {
            return None;
        }
        let known = |stem: &str| self.is_listed(stem).then(|| stem.to_owned());
        let by = |count: usize| &word[..word.len() - count];
        let stem = (!word.ends_with("ss")).then(|| known(by(1))).flatten();
        let stem = stem.or_else(|| {
            if word.ends_with("'s") || (word.len() > 4 && word.ends_with("es") && !word.ends_with("ies")) {
                known(by(2))
            } else {
                None
            }
        });
        let stem =
            stem.or_else(|| if word.len() > 4 && word.ends_with("ies") { known(&format!("{}y", by(3))) } else { None });
        let phonemes = match stem {
            Some(stem) => self.listed(&stem, tag)?,
            // The possessive of an inflected form: "the singing's".
            None => self.unstressed_word(word.strip_suffix("'s")?, tag)?,
        };
        Some(self.with_s(&phonemes))
    }

    pub(crate) fn with_s(&self, stem: &str) -> String {
        match stem.chars().next_back() {
            Some('p' | 't' | 'k' | 'f' | 'θ') => format!("{stem}s"),
            Some('s' | 'z' | 'ʃ' | 'ʒ' | 'ʧ' | 'ʤ') => format!("{stem}{}z", if self.british { 'ɪ' } else { 'ᵻ' }),
            _ => format!("{stem}z"),
        }
    }

    fn past(&self, word: &str, tag: Tag) -> Option<String> {
        if word.len() < 4 || !word.is_ascii() || !word.ends_with('d') {
            return None;
        }
        let by = |count: usize| &word[..word.len() - count];
        let stem = if !word.ends_with("dd") && self.is_listed(by(1)) {
            by(1).to_owned()
        } else if word.len() > 4 && word.ends_with("ed") && !word.ends_with("eed") && self.is_listed(by(2)) {
            by(2).to_owned()
        } else if word.len() > 5 && word.ends_with("ied") && self.is_listed(&format!("{}y", by(3))) {
            format!("{}y", by(3))
        } else if word.len() > 5 && is_doubled(by(2)) && self.is_listed(by(3)) {
            by(3).to_owned()
        } else {
            return None;
        };
        let phonemes = self.listed(&stem, if tag == Tag::Unknown { Tag::Verb } else { tag })?;
        let vowel = if self.british { 'ɪ' } else { 'ᵻ' };
        Some(match phonemes.chars().next_back() {
            Some('p' | 'k' | 'f' | 'θ' | 'ʃ' | 's' | 'ʧ') => format!("{phonemes}t"),
            Some('d') => format!("{phonemes}{vowel}d"),
            Some('t') => format!("{}{vowel}d", self.flapped(&phonemes)),
            _ => format!("{phonemes}d"),
        })
    }

    fn gerund(&self, word: &str, tag: Tag) -> Option<String> {
        let stem = word.strip_suffix("ing").filter(|stem| stem.len() >= 2 && stem.is_ascii())?;
        let stem = if stem.len() > 2 && self.is_listed(stem) {
            stem.to_owned()
        } else if self.is_listed(&format!("{stem}e")) {
            format!("{stem}e")
        } else if (is_doubled(stem) || stem.ends_with("ck")) && self.is_listed(&stem[..stem.len() - 1]) {
            stem[..stem.len() - 1].to_owned()
        } else {
            return None;
        };
        let phonemes = self.listed(&stem, if tag == Tag::Unknown { Tag::Verb } else { tag })?;
        if self.british && phonemes.ends_with(['ə', 'ː']) {
            return Some(format!("{phonemes}ɹɪŋ"));
        }
        Some(format!("{}ɪŋ", self.flapped(&phonemes)))
    }

    /// The American flap: a final t between vowels.
    fn flapped(&self, phonemes: &str) -> String {
        match phonemes.strip_suffix('t') {
            Some(stem) if !self.british && stem.ends_with(|c| "AIOWYiuæɑəɛɪɹʊʌ".contains(c)) => {
                format!("{stem}ɾ")
            }
            _ => phonemes.to_owned(),
        }
    }
}

fn read(path: &Path) -> Result<serde_json::Map<String, Value>, SayError> {
    let wrong = |reason: String| SayError::Dictionary { path: path.to_owned(), reason };
    let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))
}

pub(crate) fn is_capitals(word: &str) -> bool {
    word.chars().any(char::is_uppercase) && !word.chars().any(char::is_lowercase)
}

fn is_doubled(stem: &str) -> bool {
    let bytes = stem.as_bytes();
    bytes.len() > 2
        && bytes[bytes.len() - 1] == bytes[bytes.len() - 2]
        && b"bcdgklmnprstvxz".contains(&bytes[bytes.len() - 1])
}

/// "hello" for "Hello" and the other way round; none for other mixtures.
fn other_case(word: &str) -> Option<String> {
    let mut chars = word.chars();
    let first = chars.next()?;
    let rest = chars.as_str();
    if rest.is_empty() || rest.chars().any(char::is_uppercase) {
        return None;
    }
    let first: String =
        if first.is_uppercase() { first.to_lowercase().collect() } else { first.to_uppercase().collect() };
    Some(first + rest)
}
