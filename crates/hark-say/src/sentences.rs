//! Where sentences end, and where a long one may be cut.

use std::time::Duration;

use crate::english::pattern;
use crate::locale::german_dates;

/// A sentence of the cleaned text, or a part of a long one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) pause: Duration,
}

const AFTER_SENTENCE: Duration = Duration::from_millis(300);
const AFTER_QUESTION: Duration = Duration::from_millis(350);
const AFTER_ELLIPSIS: Duration = Duration::from_millis(450);
const AFTER_PARAGRAPH: Duration = Duration::from_millis(600);
const AFTER_CLAUSE: Duration = Duration::from_millis(180);
const AFTER_COMMA: Duration = Duration::from_millis(120);
const INSIDE_CLAUSE: Duration = Duration::from_millis(40);

/// Abbreviations that never end a sentence.
const NEVER_LAST: &[&str] = &[
    "mr", "mrs", "ms", "dr", "prof", "rev", "gen", "sen", "rep", "gov", "capt", "lt", "col", "sgt", "cpl", "maj",
    "adm", "hon", "pres", "mt", "vs", "e.g", "i.e", "cf", "fig", "figs", "vol", "approx", "nos", "pp", "ca", "viz",
    "al", "eq", "ext", "incl", "sr", "sra", "srta", "dra", "mme", "mlle", "hr", "frau", "z.b", "bzw", "d.h", "u.a",
    "sig", "sig.ra", "dott", "p.ej", "exmo",
];
/// Abbreviations that end a sentence only before a word that begins one.
const SELDOM_LAST: &[&str] = &[
    "etc", "inc", "ltd", "co", "corp", "jr", "bros", "a.m", "p.m", "u.s", "u.k", "u.n", "e.u", "d.c", "st", "ave",
    "rd", "blvd", "ln", "ph.d", "m.d", "b.a", "m.a", "u.s.a", "b.c", "a.d", "jan", "feb", "aug", "sept", "sep", "oct",
    "nov", "dec", "usw", "ecc", "esq", "dept", "univ", "est", "no", "p", "ch", "sec", "art", "min", "max", "ft", "lbs",
    "oz", "hrs", "mon", "tue", "wed", "thu", "fri",
];
/// Words that begin sentences more often than they begin names.
const STARTERS: &[&str] = &[
    "the",
    "it",
    "he",
    "she",
    "they",
    "we",
    "i",
    "you",
    "this",
    "that",
    "these",
    "those",
    "but",
    "and",
    "in",
    "on",
    "at",
    "a",
    "an",
    "if",
    "when",
    "after",
    "before",
    "there",
    "then",
    "so",
    "as",
    "for",
    "what",
    "who",
    "why",
    "how",
    "where",
    "my",
    "our",
    "his",
    "her",
    "its",
    "their",
    "however",
    "also",
    "yes",
    "no",
    "please",
    "let",
    "is",
    "are",
    "was",
    "did",
    "do",
    "does",
    "can",
    "now",
    "today",
    "tomorrow",
    "yesterday",
    "el",
    "la",
    "los",
    "las",
    "un",
    "una",
    "il",
    "lo",
    "le",
    "les",
    "der",
    "die",
    "das",
    "o",
    "os",
    "as",
];

pattern!(MARKER, r"^\s*(?:#{1,6}\s+|[-*•–+]\s+|>\s+)+");
pattern!(RULE, r"^\s*(?:[-*_=]\s*){3,}$");

/// Splits cleaned text of a language into sentences.
pub(crate) fn split(text: &str, language: &str) -> Vec<Piece> {
    let text = without_link_targets(text);
    let mut pieces = Vec::new();
    for paragraph in paragraphs(&text) {
        let first = pieces.len();
        split_paragraph(&paragraph, language, &mut pieces);
        if let Some(last) = pieces[first..].last_mut() {
            last.pause = AFTER_PARAGRAPH;
        }
    }
    pieces
}

/// Markdown's links and images as their labels: "[the docs](https://example.com)" is "the docs".
fn without_link_targets(text: &str) -> String {
    /// No label and no target is longer; without a limit, brackets that nothing closes would be searched from each again.
    const MAX_BYTES: usize = 1024;
    let within = |from: usize| &text[from..text.floor_char_boundary(from + MAX_BYTES)];
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    // Where the next bracket or line ends that closes a label: known until it is passed.
    let mut close = 0;
    for (open, _) in text.match_indices('[') {
        if open < copied {
            continue;
        }
        if close <= open {
            close = text[open..].find([']', '\n']).map_or(text.len(), |at| open + at);
        }
        let label = open + 1..close;
        if label.is_empty() || label.len() > MAX_BYTES || !text[close..].starts_with("](") {
            continue;
        }
        let target = within(close + 2);
        let Some(end) = target
            .find(|c: char| c == ')' || c.is_whitespace())
            .filter(|&end| end > 0 && target[end..].starts_with(')'))
        else {
            continue;
        };
        let before = &text[copied..open];
        out.push_str(before.strip_suffix('!').unwrap_or(before));
        out.push_str(&text[label]);
        copied = close + 2 + end + 1;
    }
    out.push_str(&text[copied..]);
    out
}

/// Lines that belong together: a line that goes on in lower case was wrapped, all others stand alone.
fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.split('\n') {
        let stripped = MARKER.find(line).map_or(line, |marker| &line[marker.end()..]).trim();
        if stripped.is_empty() || RULE.is_match(line) {
            open = false;
            continue;
        }
        let is_marked = stripped.len() != line.trim().len();
        let goes_on = stripped.starts_with(char::is_lowercase);
        match paragraphs.last_mut() {
            Some(last) if open && !is_marked && goes_on && !last.ends_with(['.', '!', '?', ':']) => {
                last.push(' ');
                last.push_str(stripped);
            }
            _ => paragraphs.push(stripped.to_owned()),
        }
        open = true;
    }
    paragraphs
}

fn split_paragraph(text: &str, language: &str, pieces: &mut Vec<Piece>) {
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if !is_terminal(c) {
            continue;
        }
        let mut end = at + c.len_utf8();
        let mut last = c;
        while let Some(&(next_at, next)) = chars.peek() {
            let closes = is_terminal(next) || matches!(next, '"' | '”' | '\'' | ')' | ']');
            if !closes {
                break;
            }
            if is_terminal(next) {
                last = next;
            }
            end = next_at + next.len_utf8();
            chars.next();
        }
        if is_end(text, language, start, at, end, last) {
            push(pieces, &text[start..end], last);
            start = end;
        }
    }
    push(pieces, &text[start..], '.');
}

fn push(pieces: &mut Vec<Piece>, text: &str, last: char) {
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    let pause = match last {
        '?' | '!' | '？' | '！' | '؟' => AFTER_QUESTION,
        '…' => AFTER_ELLIPSIS,
        _ => AFTER_SENTENCE,
    };
    pieces.push(Piece { text: text.to_owned(), pause });
}

fn is_terminal(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…') || is_wide_terminal(c)
}

/// Full stops of scripts that put no space after them, or that mean nothing else.
fn is_wide_terminal(c: char) -> bool {
    matches!(c, '。' | '！' | '？' | '．' | '।' | '॥' | '؟' | '۔')
}

/// Whether a sentence ends with the signs from `at` to `end`.
fn is_end(text: &str, language: &str, start: usize, at: usize, end: usize, last: char) -> bool {
    let after = &text[end..];
    if after.trim().is_empty() || is_wide_terminal(last) {
        return true;
    }
    if !after.starts_with(char::is_whitespace) {
        return false;
    }
    let next = after.trim_start().trim_start_matches(['"', '“', '\'', '(', '[', '¿', '¡']);
    let Some(begins) = next.chars().next() else { return true };
    if begins.is_lowercase() {
        return false;
    }
    let dots = text[at..end].chars().filter(|&c| c == '.').count();
    if last != '.' || dots > 1 {
        return true;
    }
    let word_start = text[start..at]
        .rfind(|c: char| c.is_whitespace() || matches!(c, '(' | '“' | '"'))
        .map_or(start, |index| start + index + text[start + index..].chars().next().map_or(1, char::len_utf8));
    let word = text[word_start..at].trim_start_matches(['\'', '[']).to_lowercase();
    let next_word: String =
        next.chars().take_while(|c| c.is_alphanumeric() || *c == '\'').collect::<String>().to_lowercase();
    let starts_sentence = STARTERS.contains(&next_word.as_str());
    // "1. First" at the start of a line numbers it.
    if word_start == start && !word.is_empty() && word.len() <= 2 && word.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    // "am 3. Oktober": German ordinals are written with a full stop.
    let is_number = (1..=4).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_digit());
    if language == "de" && is_number && !starts_sentence && german_dates::is_ordinal(text, word_start, next) {
        return false;
    }
    if NEVER_LAST.contains(&word.as_str()) {
        return false;
    }
    if SELDOM_LAST.contains(&word.as_str()) {
        let is_numbered = matches!(word.as_str(), "no" | "p" | "ch" | "sec" | "art" | "min" | "max" | "est");
        return if is_numbered { !begins.is_ascii_digit() } else { starts_sentence };
    }
    // Initials: "J. Smith", "J. R. R. Tolkien"; but "vitamin C. The".
    let is_initial = word.chars().count() == 1 && text[word_start..at].starts_with(char::is_uppercase);
    let is_dotted = word.contains('.') && word.split('.').all(|part| part.chars().count() <= 1);
    if is_initial || is_dotted {
        return starts_sentence || word == "i" || !begins.is_uppercase();
    }
    true
}

/// Cuts a sentence in two near its middle: at a clause, else between words, else between characters. `None` when there is nothing to cut.
pub(crate) fn cut(piece: &Piece) -> Option<(Piece, Piece)> {
    let text = piece.text.as_str();
    let count = text.chars().count();
    if count < 2 {
        return None;
    }
    let middle = text.len() / 2;
    let mut best: Option<(usize, usize, usize, Duration)> = None;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        let followed = text[end..].starts_with(char::is_whitespace);
        let (rank, cut, pause) = match c {
            ';' | ':' if followed => (0, end, AFTER_CLAUSE),
            '；' | '：' | '—' => (0, end, AFTER_CLAUSE),
            ',' if followed => (1, end, AFTER_COMMA),
            '，' | '、' | '،' => (1, end, AFTER_COMMA),
            ' ' => (if begins_clause(&text[end..]) { 2 } else { 3 }, end, INSIDE_CLAUSE),
            _ if at > 0 && !is_joined(before, c) => (4, at, INSIDE_CLAUSE),
            _ => {
                before = c;
                continue;
            }
        };
        before = c;
        if cut == 0 || cut >= text.len() || text[..cut].trim().is_empty() || text[cut..].trim().is_empty() {
            continue;
        }
        let distance = cut.abs_diff(middle);
        // A better kind of place counts only in the middle half.
        let rank = if distance * 4 > text.len() { rank + 5 } else { rank };
        if best.is_none_or(|(r, d, ..)| (rank, distance) < (r, d)) {
            best = Some((rank, distance, cut, pause));
        }
    }
    let (_, _, at, pause) = best?;
    let (head, tail) = text.split_at(at);
    Some((Piece { text: head.trim().to_owned(), pause }, Piece { text: tail.trim().to_owned(), pause: piece.pause }))
}

/// Whether two characters are one written sign, which no cut may part.
fn is_joined(before: char, c: char) -> bool {
    unicode_normalization::char::is_combining_mark(c) || (before == '\u{200d}')
}

fn begins_clause(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "and ",
        "but ",
        "or ",
        "because ",
        "which ",
        "that ",
        "while ",
        "when ",
        "where ",
        "who ",
        "if ",
        "although ",
        "so ",
    ];
    WORDS.iter().any(|word| text.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        split(text, "en-us").into_iter().map(|piece| piece.text).collect()
    }

    #[test]
    fn links_are_read_by_their_labels() {
        for (text, read) in [
            ("see [the docs](https://a.b/c_(d) now", "see the docs now"),
            ("![a cat](cat.png)![dog](d)", "a catdog"),
            ("[[x](y)", "[x"),
            ("[a] (b) [c](d e) [](f) [g]() [h\n](i)", "[a] (b) [c](d e) [](f) [g]() [h\n](i)"),
            ("[é](ü) [never closed", "é [never closed"),
        ] {
            assert_eq!(without_link_targets(text), read, "{text:?}");
        }
    }

    #[test]
    fn sentences_end_where_a_reader_ends_them() {
        for (text, sentences) in [
            ("One. Two. Three.", vec!["One.", "Two.", "Three."]),
            ("Dr. Smith met Mr. Jones. They talked.", vec!["Dr. Smith met Mr. Jones.", "They talked."]),
            ("It costs 3.50 today. Really?", vec!["It costs 3.50 today.", "Really?"]),
            ("He lives in the U.S. and likes it.", vec!["He lives in the U.S. and likes it."]),
            ("The U.S. Army came. It left.", vec!["The U.S. Army came.", "It left."]),
            ("I moved to the U.S. The weather is fine.", vec!["I moved to the U.S.", "The weather is fine."]),
            ("We met at 5 p.m. He was late.", vec!["We met at 5 p.m.", "He was late."]),
            ("Wait... what? No!", vec!["Wait... what?", "No!"]),
            ("Wait... What now?", vec!["Wait...", "What now?"]),
            ("“Why?” he asked. “Because!” she said.", vec!["“Why?” he asked.", "“Because!” she said."]),
            ("\"Stop!\" He stopped.", vec!["\"Stop!\"", "He stopped."]),
            ("J. R. R. Tolkien wrote it.", vec!["J. R. R. Tolkien wrote it."]),
            ("Take vitamin C. It helps.", vec!["Take vitamin C.", "It helps."]),
            ("See Fig. 3 and No. 5. Then go.", vec!["See Fig. 3 and No. 5.", "Then go."]),
            ("Apples, pears, etc. are fruit.", vec!["Apples, pears, etc. are fruit."]),
            ("Apples, pears, etc. The rest is here.", vec!["Apples, pears, etc.", "The rest is here."]),
            ("Visit example.com. Then call.", vec!["Visit example.com.", "Then call."]),
            ("1. Wash it.\n2. Dry it.", vec!["1. Wash it.", "2. Dry it."]),
            ("# Heading\n\nText here.\n- item one\n- item two", vec!["Heading", "Text here.", "item one", "item two"]),
            ("A wrapped line\nthat goes on.", vec!["A wrapped line that goes on."]),
            ("你好。世界！", vec!["你好。", "世界！"]),
            ("यह अच्छा है। वह आया।", vec!["यह अच्छा है।", "वह आया।"]),
            ("Really?! Yes!!! OK.", vec!["Really?!", "Yes!!!", "OK."]),
            ("Version 2.0.1 is out. Get it.", vec!["Version 2.0.1 is out.", "Get it."]),
            ("¿Qué? ¡Sí! Bien.", vec!["¿Qué?", "¡Sí!", "Bien."]),
            ("[The docs](https://example.com/a) say so.", vec!["The docs say so."]),
            ("", vec![]),
            ("no end", vec!["no end"]),
            ("---\nText", vec!["Text"]),
        ] {
            assert_eq!(texts(text), sentences, "{text:?}");
        }
    }

    #[test]
    fn a_long_sentence_is_cut_at_a_clause_and_loses_nothing() {
        let piece = Piece {
            text: "the first part of it is here, and the second part is there".to_owned(),
            pause: AFTER_SENTENCE,
        };
        let (head, tail) = cut(&piece).unwrap();
        assert_eq!(
            (head.text.as_str(), tail.text.as_str()),
            ("the first part of it is here,", "and the second part is there")
        );
        assert_eq!(tail.pause, AFTER_SENTENCE);
        let (head, tail) = cut(&Piece { text: "aaaaaaaa".to_owned(), pause: AFTER_SENTENCE }).unwrap();
        assert_eq!((head.text.len(), tail.text.len()), (4, 4));
        assert_eq!(cut(&Piece { text: "a".to_owned(), pause: AFTER_SENTENCE }), None);
    }
}
