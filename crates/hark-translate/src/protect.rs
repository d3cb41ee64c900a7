//! What must survive translation: URLs, e-mail addresses, tags, placeholders, marks of songs, numbers, and characters that the model does not know (names in
//! another script, emoji).
//!
//! Networks usually copy these. Where one did not, the sentence is translated again with a made-up number in the place of each, which networks copy more
//! reliably (`mask`); where that fails too, what lies between them is translated on its own (`between`).

use std::ops::Range;

/// What must occur in the translation as it does in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) range: Range<usize>,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Copied to the letter.
    Verbatim,
    /// Its digits are copied; the marks between them follow the language.
    Number,
}

/// Bytes of a tag or placeholder.
const MAX_TOKEN: usize = 256;
/// Bytes of an address.
const MAX_ADDRESS: usize = 1024;

/// Whether a model has no piece for a character.
pub(crate) type IsForeign<'a> = &'a dyn Fn(char) -> bool;

/// The tokens of a text, in order.
pub(crate) fn tokens(text: &str, is_foreign: IsForeign) -> Vec<Token> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let before = text[..at].chars().next_back();
        let (length, kind) = match c {
            '<' => (tag(&text[at..]), Kind::Verbatim),
            '{' | '$' => (braces(&text[at..]), Kind::Verbatim),
            '%' if !before.is_some_and(char::is_alphanumeric) => (conversion(&text[at..]), Kind::Verbatim),
            '&' => (entity(&text[at..]), Kind::Verbatim),
            '♪' | '♫' | '♬' => (c.len_utf8(), Kind::Verbatim),
            _ if is_word_start(before, c) => match address(&text[at..]) {
                0 if c.is_ascii_digit() => (number(&text[at..]), Kind::Number),
                length => (length, Kind::Verbatim),
            },
            _ if is_foreign(c) => (foreign(&text[at..], is_foreign), Kind::Verbatim),
            _ => (0, Kind::Verbatim),
        };
        if length > 0 {
            found.push(Token { range: at..at + length, kind });
        }
        at += length.max(c.len_utf8());
    }
    found
}

/// Whether a text has tokens that are copied to the letter.
pub(crate) fn has_verbatim(text: &str, is_foreign: IsForeign) -> bool {
    tokens(text, is_foreign).iter().any(|token| token.kind == Kind::Verbatim)
}

/// Numbers may begin behind letters ("R2"), addresses only at a word's beginning.
fn is_word_start(before: Option<char>, c: char) -> bool {
    match before {
        None => c.is_ascii_alphanumeric(),
        Some(before) if c.is_ascii_digit() => !before.is_ascii_digit(),
        Some(before) => c.is_ascii_alphanumeric() && !before.is_alphanumeric(),
    }
}

/// The beginning of a text: what is looked for ends within so many bytes, or costs would grow with the square of the text.
fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Characters that the model does not know, and spaces between them.
fn foreign(text: &str, is_foreign: IsForeign) -> usize {
    let end = text.find(|c: char| !is_foreign(c) && c != ' ').unwrap_or(text.len());
    text[..end].trim_end().len()
}

/// `<b>`, `</b>`, `<br/>`, `<a href="…">`
fn tag(text: &str) -> usize {
    let inner = text[1..].strip_prefix('/').unwrap_or(&text[1..]);
    if !inner.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return 0;
    }
    match head(text, MAX_TOKEN).find('>') {
        Some(end) if !text[1..end].contains(['<', '\n']) => end + 1,
        _ => 0,
    }
}

/// `{name}`, `{{name}}`, `{0}`, `${name}`
fn braces(text: &str) -> usize {
    let dollar = usize::from(text.starts_with('$'));
    let open = text[dollar..].bytes().take(3).take_while(|byte| *byte == b'{').count();
    if !(1..=2).contains(&open) {
        return 0;
    }
    let inner = &text[dollar + open..];
    let length = head(inner, MAX_TOKEN).find('}').unwrap_or(0);
    let is_name = inner[..length].chars().all(|c| c.is_alphanumeric() || "_.:-,# $|".contains(c));
    let close = &inner[length..];
    match length > 0 && is_name && close.starts_with(&"}}"[..open]) {
        true => dollar + open + length + open,
        false => 0,
    }
}

/// `%s`, `%d`, `%1$s`, `%.2f`, `%(name)s`, `%@`
fn conversion(text: &str) -> usize {
    let rest = &text[1..];
    let named = rest.strip_prefix('(').and_then(|rest| head(rest, MAX_TOKEN).find(')')).map_or(0, |end| end + 2);
    let flags = rest[named..].len()
        - rest[named..].trim_start_matches(|c: char| c.is_ascii_digit() || ".$-+".contains(c)).len();
    let after = &rest[named + flags..];
    let is_conversion = after.starts_with(['s', 'd', 'i', 'u', 'f', 'g', 'x', 'c', '@']);
    let is_alone = !after.chars().nth(1).is_some_and(char::is_alphanumeric);
    if is_conversion && is_alone { 1 + named + flags + 1 } else { 0 }
}

/// `&amp;`, `&#39;`
fn entity(text: &str) -> usize {
    match head(&text[1..], MAX_TOKEN).find(';') {
        Some(end @ 2..=8) if text[1..=end].chars().all(|c| c.is_ascii_alphanumeric() || c == '#') => end + 2,
        _ => 0,
    }
}

/// A URL or an e-mail address.
fn address(text: &str) -> usize {
    let text = head(text, MAX_ADDRESS);
    let word = &text[..text.find(|c: char| c.is_whitespace() || "<>\"«»“”{}|".contains(c)).unwrap_or(text.len())];
    let word = word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '\'', '…']);
    let is_scheme = |scheme: &str| {
        (2..=16).contains(&scheme.len()) && scheme.chars().all(|c| c.is_ascii_alphanumeric() || c == '+')
    };
    let is_url = word.split_once("://").is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty())
        || word.strip_prefix("www.").is_some_and(|rest| rest.contains('.'));
    let is_mail = word.split_once('@').is_some_and(|(name, host)| {
        let is_host = host.split('.').count() > 1 && host.split('.').all(|part| !part.is_empty());
        !name.is_empty() && is_host && host.chars().all(|c| c.is_alphanumeric() || ".-".contains(c))
    });
    if is_url || is_mail { word.len() } else { 0 }
}

/// Digits with single marks between them: `1,234.56`, `12:30`, `2026-11-18`.
fn number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = 0;
    while let Some(byte) = bytes.get(end) {
        let joins = b".,:/-".contains(byte) && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
        if !byte.is_ascii_digit() && !joins {
            break;
        }
        end += 1;
    }
    end
}

fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}

/// Whether all tokens of the source occur in the target, as often as there, and tags still stand around text.
pub(crate) fn survived(source: &str, target: &str, is_foreign: IsForeign) -> bool {
    let expected = tokens(source, is_foreign);
    if expected.is_empty() {
        return true;
    }
    let found = tokens(target, is_foreign);
    let mut numbers: Vec<String> = found.iter().map(|token| digits(&target[token.range.clone()])).collect();
    let mut rest = target.to_owned();
    let all_there = expected.iter().all(|token| {
        let text = &source[token.range.clone()];
        match token.kind {
            Kind::Verbatim => match rest.find(text) {
                Some(at) => {
                    rest.replace_range(at..at + text.len(), " ");
                    true
                }
                None => false,
            },
            Kind::Number => {
                let wanted = digits(text);
                let place = numbers.iter().position(|number| *number == wanted);
                place.map(|place| numbers.swap_remove(place)).is_some()
            }
        }
    });
    all_there && tags(source, &expected) == tags(target, &found)
}

/// The tags of a text, each with whether letters stand between it and the next.
fn tags<'a>(text: &'a str, tokens: &[Token]) -> Vec<(&'a str, bool)> {
    let tags: Vec<&Token> = tokens.iter().filter(|token| text[token.range.clone()].starts_with('<')).collect();
    let next = tags.iter().skip(1).map(|tag| tag.range.start).chain([text.len()]);
    let with_text = tags.iter().zip(next).map(|(tag, next)| {
        let has_letters = text[tag.range.end..next].chars().any(char::is_alphabetic);
        (&text[tag.range.clone()], has_letters && next < text.len())
    });
    with_text.collect()
}

/// A sentence whose tokens are replaced by made-up numbers.
pub(crate) struct Masked {
    pub(crate) text: String,
    masks: Vec<Mask>,
}

struct Mask {
    number: String,
    original: String,
    /// Whether a space was put before or behind it.
    spaced: (bool, bool),
}

/// Replaces every token of a sentence by a number that does not occur in it.
pub(crate) fn mask(source: &str, is_foreign: IsForeign) -> Masked {
    let mut masked = Masked { text: String::new(), masks: Vec::new() };
    // Numbers of four digits, far from years and from each other.
    let mut candidates = (0..7000).map(|i| (4817 + i * 1109) % 7000 + 2500).map(|n: u32| n.to_string());
    let mut done = 0;
    for token in tokens(source, is_foreign) {
        let Some(number) = candidates.find(|number| !source.contains(number.as_str())) else { break };
        masked.text.push_str(&source[done..token.range.start]);
        let before = masked.text.ends_with(char::is_alphanumeric);
        let behind = source[token.range.end..].starts_with(char::is_alphanumeric);
        if before {
            masked.text.push(' ');
        }
        masked.text.push_str(&number);
        if behind {
            masked.text.push(' ');
        }
        let original = source[token.range.clone()].to_owned();
        masked.masks.push(Mask { number, original, spaced: (before, behind) });
        done = token.range.end;
    }
    masked.text.push_str(&source[done..]);
    masked
}

impl Masked {
    /// The translation with the tokens in the place of their numbers; none where a number is missing or there twice.
    pub(crate) fn restore(&self, translation: &str) -> Option<String> {
        let mut text = translation.to_owned();
        for mask in &self.masks {
            let found = tokens(&text, &|_| false);
            let mut places = found.iter().filter(|token| digits(&text[token.range.clone()]) == mask.number);
            let (Some(place), None) = (places.next(), places.next()) else { return None };
            let mut range = place.range.clone();
            if mask.spaced.0 && text[..range.start].ends_with(' ') {
                range.start -= 1;
            }
            if mask.spaced.1 && text[range.end..].starts_with(' ') {
                range.end += 1;
            }
            text.replace_range(range, &mask.original);
        }
        Some(text)
    }
}

/// A sentence as pieces to translate (`true`) and tokens to copy.
pub(crate) fn between<'a>(source: &'a str, is_foreign: IsForeign) -> Vec<(&'a str, bool)> {
    let mut pieces = Vec::new();
    let mut done = 0;
    for token in tokens(source, is_foreign) {
        pieces.push((&source[done..token.range.start], true));
        pieces.push((&source[token.range.clone()], false));
        done = token.range.end;
    }
    pieces.push((&source[done..], true));
    pieces.retain(|(piece, _)| !piece.is_empty());
    pieces
}

#[cfg(test)]
mod tests {
    use super::{Masked, Token, head};

    // Models know Latin letters here.
    fn is_foreign(c: char) -> bool {
        !c.is_ascii() && !('à'..='ÿ').contains(&c) && !"–“”…".contains(c)
    }
    fn tokens(text: &str) -> Vec<Token> {
        super::tokens(text, &is_foreign)
    }
    fn survived(source: &str, target: &str) -> bool {
        super::survived(source, target, &is_foreign)
    }
    fn mask(source: &str) -> Masked {
        super::mask(source, &is_foreign)
    }
    fn between(source: &str) -> Vec<(&str, bool)> {
        super::between(source, &is_foreign)
    }

    fn found(text: &str) -> Vec<&str> {
        tokens(text).into_iter().map(|token| &text[token.range]).collect()
    }

    #[test]
    fn addresses_tags_placeholders_and_numbers_are_found() {
        let text = "See https://example.org/a?b=1, mail a.b@c.org. or <a href=\"x\">www.x.org</a>!";
        assert_eq!(found(text), ["https://example.org/a?b=1", "a.b@c.org", "<a href=\"x\">", "www.x.org", "</a>"]);
        assert_eq!(
            found("{name}: {{count}} of ${total}, %s and %1$d, %(who)s &amp; more"),
            ["{name}", "{{count}}", "${total}", "%s", "%1$d", "%(who)s", "&amp;"]
        );
        assert_eq!(
            found("At 12:30 on 2026-11-18, 1,234.50 of R2 won 5%."),
            ["12:30", "2026-11-18", "1,234.50", "2", "5"]
        );
    }

    #[test]
    fn plain_text_has_no_tokens() {
        for text in
            ["a < b and c > d", "50 % sure".split_at(3).1, "{ not a name! }", "me@home", "R&D; not", "<3", "100%"]
        {
            assert!(found(text).iter().all(|token| token.bytes().all(|byte| byte.is_ascii_digit())), "{text}");
        }
        assert_eq!(found("ünïcödé – “quotes” …"), Vec::<&str>::new());
    }

    #[test]
    fn numbers_may_change_their_marks_but_not_their_digits() {
        assert!(survived("It costs 1,234.50 now.", "Custa 1.234,50 agora."));
        assert!(!survived("I have 7 apples.", "Tenho sete maçãs."));
        assert!(!survived("7 and 7", "7 e sete"));
        assert!(survived("no tokens", ""));
        assert!(!survived("{a} {a}", "{a}"));
    }

    #[test]
    fn tags_keep_their_order_and_the_text_between_them() {
        let source = "Open the <a href=\"/x\">settings</a> page.";
        assert!(survived(source, "Abra a página de <a href=\"/x\">configurações</a>."));
        assert!(!survived(source, "Abra as configurações <a href=\"/x\"></a> página."));
        assert!(!survived(source, "Abra a </a>página<a href=\"/x\"> de configurações."));
    }

    #[test]
    fn masked_tokens_come_back_where_their_numbers_are() {
        let masked = mask("Ask <b>Ana</b> for 7 of {name}.");
        assert_eq!(masked.text, "Ask 7317 Ana 8426 for 2535 of 3644.");
        assert_eq!(masked.restore(&masked.text).unwrap(), "Ask <b>Ana</b> for 7 of {name}.");
        assert!(masked.restore("nothing").is_none());
        let twice = format!("{0} {0}", masked.text);
        assert!(masked.restore(&twice).is_none());
    }

    #[test]
    fn pieces_between_tokens_make_up_the_sentence() {
        let pieces = between("{a} is <b>here</b>");
        assert_eq!(pieces, [("{a}", false), (" is ", true), ("<b>", false), ("here", true), ("</b>", false)]);
    }

    #[test]
    fn what_the_model_has_no_piece_for_is_copied() {
        assert_eq!(found("I met 田中 さん and Пётр 🙂!"), ["田中 さん", "Пётр 🙂"]);
        assert!(!survived("I met 田中.", "Conheci."));
        assert_eq!(between("田中"), [("田中", false)]);
    }

    #[test]
    fn beginnings_of_tokens_that_never_end_are_looked_at_so_far_only() {
        // Each of these begins a token that never ends.
        for text in ["<a ", "{", "%(", "&", "a.", "${", "田"] {
            tokens(&text.repeat(10_000));
        }
        assert_eq!(head("äää", 3), "ä");
    }
}
