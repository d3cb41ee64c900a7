//! Names of people: those that are given, those behind a title or an introduction, and common given names.

use std::collections::{HashMap, HashSet};

use hark_transcript::is_unspaced;

use super::text::{Text, WordAt};
use super::{PiiSpan, PiiType};
use crate::names;
use crate::words;

/// Phrases in lower case that a name follows.
const INTRODUCTIONS: &[&str] = &[
    "my name is ",
    "name's ",
    "name is ",
    "name: ",
    "i am called ",
    "i'm called ",
    "ich heiße ",
    "mein name ist ",
    "je m'appelle ",
    "mon nom est ",
    "me llamo ",
    "mi nombre es ",
    "meu nome é ",
    "chamo-me ",
    "me chamo ",
    "mi chiamo ",
    "il mio nome è ",
    "mijn naam is ",
    "nazywam się ",
    "speaking with ",
    "on behalf of ",
    "signed, ",
    "sincerely, ",
    "regards, ",
    "dear ",
];

/// Capitalised words that are no names.
const NO_NAMES: &str = " monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october november \
december i the a an and but or so yes no okay hello hi hey thanks thank please sir madam team all customer support english german french spanish speaker street avenue \
road inc ltd corp gmbh university college bank hospital ";

/// Words in lower case inside a name.
const PARTICLES: &[&str] = &[
    "van", "von", "de", "der", "den", "da", "dos", "del", "della", "di", "la", "le", "bin", "al", "el", "ten", "ter",
    "y",
];

/// Words of the longest name.
const MAX_WORDS: usize = 4;

pub(super) fn find(text: &Text, names: &[String], found: &mut Vec<PiiSpan>) {
    let words = text.words();
    find_given(text, &words, names, found);
    find_introduced(text, &words, found);
    for (at, word) in words.iter().enumerate() {
        let lower = text.lower(word.start, word.end.min(word.start + 20));
        if names::is_title(&lower) && is_capitalised(text, word) && at + 1 < words.len() {
            // The title itself says nothing about who it is.
            push_name(text, &words, at + 1, true, found);
        } else if is_capitalised(text, word) && names::is_given_name(&lower) {
            push_name(text, &words, at, true, found);
        } else if is_capitalised(text, word) && names::may_be_given_name(&lower) {
            // "Will Smith" and "May Miller", not "Will you" and "May 5".
            let has_surname = words
                .get(at + 1)
                .is_some_and(|next| is_name_word(text, next) && text.at(word.end) == ' ' && next.start == word.end + 1);
            if has_surname {
                push_name(text, &words, at, true, found);
            }
        }
    }
}

fn is_capitalised(text: &Text, word: &WordAt) -> bool {
    text.at(word.start).is_uppercase()
}

fn is_name_word(text: &Text, word: &WordAt) -> bool {
    let lower = text.lower(word.start, word.end);
    is_capitalised(text, word)
        && !NO_NAMES.contains(&format!(" {lower} "))
        && text.chars[word.start..word.end].iter().all(|c| !c.is_ascii_digit())
}

/// Pushes the name that begins with word `first`: capitalised words with nothing but a space (or an initial's stop) between them.
fn push_name(text: &Text, words: &[WordAt], first: usize, allow_single: bool, found: &mut Vec<PiiSpan>) {
    if !is_name_word(text, &words[first]) {
        return;
    }
    let mut last = first;
    let mut next = first + 1;
    while next < words.len() && next - first < MAX_WORDS {
        let gap = &text.chars[words[next - 1].end..words[next].start];
        let after_initial = words[next - 1].end - words[next - 1].start == 1;
        let is_joined = gap == [' '] || (after_initial && gap == ['.', ' ']);
        if !is_joined {
            break;
        }
        if is_name_word(text, &words[next]) {
            last = next;
        } else if !PARTICLES.contains(&text.lower(words[next].start, words[next].end).as_str()) {
            break;
        }
        next += 1;
    }
    if last > first || allow_single {
        let end = without_possessive(text, &words[last]);
        found.push(PiiSpan { r#type: PiiType::Person, start: words[first].start, end });
    }
}

/// What a language model takes for a person's name, without titles before it; nothing where it can be none: a small model also names sentences,
/// numbers of telephones and crowds.
pub(crate) fn person_name(proposed: &str) -> Option<String> {
    let is_title = |word: &&str| names::is_title(word.trim_end_matches('.'));
    let words: Vec<&str> = proposed.split_whitespace().skip_while(is_title).collect();
    let is_of_a_name = |word: &&str| {
        let lower = word.to_lowercase();
        let is_capitalised = word.chars().next().is_some_and(|first| !first.is_lowercase());
        let is_common = words::is_stop_word(&lower) && !names::may_be_given_name(&lower);
        let can_be = is_capitalised && !is_common && !word.contains(|c: char| c.is_numeric());
        can_be || PARTICLES.contains(&lower.as_str())
    };
    (!words.is_empty() && words.iter().all(is_of_a_name)).then(|| words.join(" "))
}

fn without_possessive(text: &Text, word: &WordAt) -> usize {
    let is_possessive =
        word.end - word.start > 2 && text.at(word.end - 1) == 's' && matches!(text.at(word.end - 2), '\'' | '’');
    if is_possessive { word.end - 2 } else { word.end }
}

fn find_introduced(text: &Text, words: &[WordAt], found: &mut Vec<PiiSpan>) {
    for phrase in INTRODUCTIONS {
        for end in text.keyword_ends(phrase) {
            let first = words.partition_point(|word| word.start < end);
            let begins = words.get(first).is_some_and(|word| word.start == end);
            // "dear all" and "dear Sir" are nobody.
            if begins
                && is_name_word(text, &words[first])
                && !names::is_title(&text.lower(words[first].start, words[first].end))
            {
                push_name(text, words, first, true, found);
            }
        }
    }
}

/// Names that are known: whole in any case, and each of their words where it is capitalised.
fn find_given(text: &Text, words: &[WordAt], names: &[String], found: &mut Vec<PiiSpan>) {
    let mut whole: HashMap<String, Vec<Vec<String>>> = HashMap::new();
    let mut single: HashSet<String> = HashSet::new();
    for name in names {
        if name.chars().any(is_unspaced) {
            push_literal(text, name, found);
            continue;
        }
        let parts: Vec<String> = words::normalize(name).split(' ').map(str::to_owned).collect();
        if parts[0].is_empty() {
            continue;
        }
        let is_common = |part: &str| {
            part.chars().count() < 3
                || words::is_stop_word(part)
                || names::is_title(part)
                || NO_NAMES.contains(&format!(" {part} "))
        };
        single.extend(parts.iter().filter(|part| !is_common(part)).cloned());
        whole.entry(parts[0].clone()).or_default().push(parts);
    }
    if whole.is_empty() {
        return;
    }
    let normal: Vec<String> =
        words.iter().map(|word| words::normalize(&text.lower(word.start, without_possessive(text, word)))).collect();
    for at in 0..words.len() {
        for parts in whole.get(normal[at].split(' ').next().unwrap_or_default()).into_iter().flatten() {
            if let Some(last) = matching_words(&normal[at..], parts) {
                let end = without_possessive(text, &words[at + last]);
                found.push(PiiSpan { r#type: PiiType::Person, start: words[at].start, end });
            }
        }
        if is_capitalised(text, &words[at]) && single.contains(&normal[at]) {
            found.push(PiiSpan {
                r#type: PiiType::Person,
                start: words[at].start,
                end: without_possessive(text, &words[at]),
            });
        }
    }
}

/// The index of the last word when the words begin with these parts; a hyphenated word has several parts.
fn matching_words(words: &[String], parts: &[String]) -> Option<usize> {
    let mut rest = parts;
    for (at, word) in words.iter().enumerate() {
        for part in word.split(' ') {
            let (first, others) = rest.split_first()?;
            if first != part {
                return None;
            }
            rest = others;
        }
        if rest.is_empty() {
            return Some(at);
        }
    }
    None
}

fn push_literal(text: &Text, name: &str, found: &mut Vec<PiiSpan>) {
    let name: Vec<char> = name.trim().chars().collect();
    if name.len() < 2 {
        return;
    }
    for (start, window) in text.chars.windows(name.len()).enumerate() {
        if window == name {
            found.push(PiiSpan { r#type: PiiType::Person, start, end: start + name.len() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_takes_for_a_person_is_trimmed_or_left_out() {
        for (proposed, name) in [
            ("Mr. Okonkwo", Some("Okonkwo")),
            ("Professor Albus Finch", Some("Albus Finch")),
            ("Frau Weber", Some("Weber")),
            ("Dr. Maria van der Berg", Some("Maria van der Berg")),
            ("Ludwig van Beethoven", Some("Ludwig van Beethoven")),
            ("Will Hargreaves", Some("Will Hargreaves")),
            ("王伟", Some("王伟")),
            ("Dr", None),
            ("Sir", None),
            ("", None),
            ("45 people", None),
            ("His SSN", None),
            ("Ruf mich an", None),
            ("Telefon 0176 1234 5678", None),
            ("NINO CE123456D", None),
        ] {
            assert_eq!(person_name(proposed).as_deref(), name, "{proposed}");
        }
    }
}
