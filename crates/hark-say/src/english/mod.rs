//! English text as it is spoken: numbers, dates, money, units, abbreviations and signs become words.
//!
//! A scanner goes through a sentence once. At the start of each token the rules are tried in order; the first that matches says how many bytes it
//! reads and what is spoken for them. What no rule matches is copied.

mod dates;
mod money;
pub(crate) mod numbers;
mod quantities;
mod roman;
mod signs;
mod units;
mod web;
mod words;

/// A compiled pattern, built when first used.
macro_rules! pattern {
    ($name:ident, $($part:expr),+ $(,)?) => {
        static $name: std::sync::LazyLock<regex::Regex> =
            std::sync::LazyLock::new(|| regex::Regex::new(concat!($($part),+)).expect("a constant pattern"));
    };
}
pub(crate) use pattern;

/// How many bytes before its position a rule may look at. Words that matter there are short, and a text without spaces must not be read again from its start at every token.
const LOOK_BACK: usize = 128;
/// The longest text that a rule reads before it may still decline: the longest name of a host has 253 bytes, the longest mail address 254.
const LOOK_AHEAD: usize = 256;

/// Where the scanner stands.
pub(crate) struct Position<'a> {
    /// The sentence.
    text: &'a str,
    /// The byte that is next.
    at: usize,
    /// Whether the text is British.
    pub(crate) british: bool,
}

/// What a rule read and what is spoken for it.
pub(crate) struct Reading {
    /// Bytes of the source.
    pub(crate) len: usize,
    /// The words.
    pub(crate) words: String,
}

/// A rule: looks at a position and reads a token there, or declines.
type Rule = fn(&Position) -> Option<Reading>;

/// In this order: a rule that needs more context stands before one that needs less.
const RULES: &[Rule] = &[
    web::address,
    web::handle,
    web::file_name,
    dates::iso,
    dates::numeric,
    dates::month_first,
    dates::day_first,
    dates::decade,
    dates::era,
    dates::time,
    quantities::phone,
    quantities::code,
    money::symbol_first,
    money::code_first,
    money::amount_first,
    quantities::version,
    quantities::feet_and_inches,
    quantities::power,
    quantities::dimensions,
    quantities::fraction,
    quantities::range,
    quantities::measure,
    quantities::ordinal,
    dates::year_in_context,
    quantities::number,
    words::abbreviation,
    words::initials,
    roman::numeral,
    words::slashed,
    words::word,
    signs::sign,
];

/// Rewrites one cleaned sentence into words.
pub(crate) fn normalize(text: &str, british: bool) -> String {
    let lowered = words::lower_shouting(text);
    let text = lowered.as_deref().unwrap_or(text);
    let mut out = String::with_capacity(text.len() * 2);
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if c.is_whitespace() {
            if !out.ends_with(' ') {
                out.push(' ');
            }
            at += c.len_utf8();
            continue;
        }
        let position = Position { text, at, british };
        match RULES.iter().find_map(|rule| rule(&position)) {
            Some(reading) => {
                append(&mut out, &reading.words);
                at += reading.len.max(c.len_utf8());
            }
            None => {
                append(&mut out, c.encode_utf8(&mut [0; 4]));
                at += c.len_utf8();
            }
        }
    }
    tidy(&out)
}

/// Appends words with a space where two words would touch.
fn append(out: &mut String, words: &str) {
    let touches = out.ends_with(|c: char| c.is_alphanumeric()) && words.starts_with(|c: char| c.is_alphanumeric());
    if touches {
        out.push(' ');
    }
    out.push_str(words);
}

/// One space between words, none before punctuation.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ' ' if out.is_empty() || out.ends_with([' ', '(', '“']) => {}
            ',' | '.' | ';' | ':' | '!' | '?' | ')' | '”' => {
                out.truncate(out.trim_end_matches(' ').len());
                // Two commas, or a comma before a full stop, come from signs that were read as pauses.
                if c == ',' && out.ends_with([',', ';', ':', '—']) {
                    continue;
                }
                if matches!(c, '.' | '!' | '?') && out.ends_with(',') {
                    out.pop();
                }
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out.truncate(out.trim_end_matches([' ', ',']).len());
    out.trim_start_matches([',', ' ', ';']).to_owned()
}

impl<'a> Position<'a> {
    /// What is left to read.
    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The beginning of what is left, for patterns that may read a long run of characters and then decline: at every token of that run they would read it again.
    pub(crate) fn head(&self) -> &'a str {
        let rest = self.rest();
        &rest[..rest.floor_char_boundary(LOOK_AHEAD)]
    }

    /// What stands shortly before, without the space at its end.
    fn before(&self) -> &'a str {
        let start = self.text.ceil_char_boundary(self.at.saturating_sub(LOOK_BACK));
        self.text[start..self.at].trim_end()
    }

    /// The character before, if any.
    pub(crate) fn previous_char(&self) -> Option<char> {
        self.text[..self.at].chars().next_back()
    }

    /// Whether a token can begin here: the character before is no letter or digit.
    pub(crate) fn is_token_start(&self) -> bool {
        self.previous_char().is_none_or(|c| !c.is_alphanumeric())
    }

    /// Whether a number can begin here: no digit before, nor the separator of a longer number.
    pub(crate) fn is_number_start(&self) -> bool {
        let before = &self.text[..self.at];
        let mut chars = before.chars().rev();
        match chars.next() {
            None => true,
            Some(c) if c.is_ascii_digit() => false,
            Some('.' | ',') => !chars.next().is_some_and(|c| c.is_ascii_digit()),
            Some(_) => true,
        }
    }

    /// Whether a token that reads `len` bytes ends there: no letter or digit follows.
    pub(crate) fn ends_at(&self, len: usize) -> bool {
        self.rest()[len..].chars().next().is_none_or(|c| !c.is_alphanumeric())
    }

    /// The word before, without signs around it; empty at the start.
    pub(crate) fn previous_word(&self) -> &'a str {
        let before = self.before();
        let start = before.rfind(char::is_whitespace).map_or(0, |index| index + 1);
        // `rfind` gives the first byte of a space, which is one byte after cleaning.
        before[start..].trim_matches(|c: char| !c.is_alphanumeric())
    }

    /// The two words before, in lower case, as "world war".
    pub(crate) fn previous_two_words(&self) -> String {
        let mut words: Vec<&str> = self.before().rsplit(char::is_whitespace).take(2).collect();
        words.reverse();
        words.join(" ").trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase()
    }

    /// The word after `len` bytes when only one space lies between, else empty.
    pub(crate) fn next_word(&self, len: usize) -> &'a str {
        let after = &self.rest()[len..];
        let Some(after) = after.strip_prefix([' ', '-']) else { return "" };
        let end = after.find(|c: char| !c.is_alphanumeric() && c != '\'').unwrap_or(after.len());
        &after[..end]
    }

    /// Whether the sentence ends after `len` bytes, but for closing signs.
    pub(crate) fn is_end(&self, len: usize) -> bool {
        self.rest()[len..].chars().all(|c| c.is_whitespace() || matches!(c, '"' | '”' | '\'' | ')' | '.' | '!' | '?'))
    }
}

impl Reading {
    /// What is spoken for `len` bytes.
    pub(crate) fn new(len: usize, words: impl Into<String>) -> Option<Self> {
        Some(Reading { len, words: words.into() })
    }
}
