//! Cutting text into words before BPE: scanners that do what the models' regular expressions say, in linear time.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// How a family of models cuts text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PreTokenizer {
    /// GPT-2: a word takes the space before it, digits stand together.
    Gpt2,
    /// GPT-2 after every digit was set apart.
    SmolLm,
    /// Llama 3: up to three digits, a word takes any one character before it that is no letter, digit or line break.
    Llama3,
    /// As Llama 3 with single digits.
    Qwen2,
    /// As Llama 3, merged by rank even where a whole word is in the vocabulary (Phi 4).
    Dbrx,
    /// A word begins at a capital behind small letters and takes its contraction (Phi 4 mini).
    Gpt4o,
    /// As GPT-4o with single digits and without contractions (Mistral Nemo).
    Tekken,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Number,
    Space,
    Other,
}

fn class(c: char) -> Class {
    if c.is_ascii() {
        return match c {
            'a'..='z' | 'A'..='Z' => Class::Letter,
            '0'..='9' => Class::Number,
            '\t'..='\r' | ' ' => Class::Space,
            _ => Class::Other,
        };
    }
    match c.general_category_group() {
        GeneralCategoryGroup::Letter => Class::Letter,
        GeneralCategoryGroup::Number => Class::Number,
        _ if c.is_whitespace() => Class::Space,
        _ => Class::Other,
    }
}

fn is_break(c: char) -> bool {
    c == '\r' || c == '\n'
}

impl PreTokenizer {
    /// By ggml's name. `default` is cut as GPT-2 does.
    pub(super) fn by_name(name: &str) -> Option<Self> {
        match name {
            "gpt-2" | "gpt2" | "default" => Some(Self::Gpt2),
            "smollm" => Some(Self::SmolLm),
            "llama-bpe" | "llama3" | "llama-v3" => Some(Self::Llama3),
            "qwen2" | "deepseek-r1-qwen" => Some(Self::Qwen2),
            "dbrx" => Some(Self::Dbrx),
            "gpt-4o" => Some(Self::Gpt4o),
            "tekken" => Some(Self::Tekken),
            _ => None,
        }
    }

    /// Whether sequences begin with the token for that where the file does not say.
    pub(super) fn adds_bos(self) -> bool {
        matches!(self, Self::Llama3 | Self::Tekken)
    }

    /// Whether a word that is in the vocabulary as a whole is taken as it is, whatever the merges would make of it.
    pub(super) fn prefers_whole_words(self) -> bool {
        matches!(self, Self::Llama3 | Self::Tekken)
    }

    /// Calls `word` for each word; together they are the text.
    pub(super) fn split(self, text: &str, word: &mut dyn FnMut(&str)) {
        if self != Self::SmolLm {
            self.split_stretch(text, word);
            return;
        }
        let mut rest = text;
        while let Some(at) = rest.find(|c| class(c) == Class::Number) {
            self.split_stretch(&rest[..at], word);
            let digit = rest[at..].chars().next().map_or(0, char::len_utf8);
            word(&rest[at..at + digit]);
            rest = &rest[at + digit..];
        }
        self.split_stretch(rest, word);
    }

    fn split_stretch(self, mut text: &str, word: &mut dyn FnMut(&str)) {
        while !text.is_empty() {
            let length = match self {
                Self::Gpt2 | Self::SmolLm => gpt2_word(text),
                Self::Llama3 | Self::Dbrx => llama3_word(text, 3),
                Self::Gpt4o => cased_word(text, 3, true),
                Self::Tekken => cased_word(text, 1, false),
                Self::Qwen2 => llama3_word(text, 1),
            };
            let (first, rest) = text.split_at(length);
            word(first);
            text = rest;
        }
    }
}

/// Bytes of the longest start of `text` whose characters pass.
fn run(text: &str, passes: impl Fn(char) -> bool) -> usize {
    text.find(|c| !passes(c)).unwrap_or(text.len())
}

/// Bytes of an English contraction at the start of `text`: `'s`, `'ll`.
fn contraction(text: &str, ignores_case: bool) -> Option<usize> {
    let rest = text.strip_prefix('\'')?.as_bytes();
    ["s", "t", "re", "ve", "m", "ll", "d"].into_iter().find_map(|ending| {
        let start = rest.get(..ending.len())?;
        let is_equal =
            if ignores_case { start.eq_ignore_ascii_case(ending.as_bytes()) } else { start == ending.as_bytes() };
        is_equal.then_some(1 + ending.len())
    })
}

/// Bytes of white space that stand alone: all but the last character where a word follows, which takes that.
fn space_run(text: &str) -> usize {
    let length = run(text, |c| class(c) == Class::Space);
    if length == text.len() {
        return length;
    }
    let last = text[..length].chars().next_back().map_or(0, char::len_utf8);
    if length > last { length - last } else { length }
}

/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
fn gpt2_word(text: &str) -> usize {
    if let Some(length) = contraction(text, false) {
        return length;
    }
    let space = usize::from(text.starts_with(' '));
    match text[space..].chars().next().map(class) {
        Some(kind) if kind != Class::Space => space + run(&text[space..], |c| class(c) == kind),
        _ => space_run(text),
    }
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
fn llama3_word(text: &str, digits: usize) -> usize {
    if let Some(length) = contraction(text, true) {
        return length;
    }
    let mut characters = text.chars();
    let Some(first) = characters.next() else { return 0 };
    let second = characters.next().map(class);
    let letters = |text: &str| run(text, |c| class(c) == Class::Letter);
    match class(first) {
        Class::Letter => return letters(text),
        Class::Number => {
            let count = text.chars().take(digits).take_while(|c| class(*c) == Class::Number);
            return count.map(char::len_utf8).sum();
        }
        _ if !is_break(first) && second == Some(Class::Letter) => {
            return first.len_utf8() + letters(&text[first.len_utf8()..]);
        }
        _ => {}
    }
    other_word(text, is_break)
}

/// ` ?[^\s\p{L}\p{N}]+[…]*|\s*[\r\n]+|\s+(?!\S)|\s+` where `ends` says what `[…]` is.
fn other_word(text: &str, ends: impl Fn(char) -> bool) -> usize {
    let space = usize::from(text.starts_with(' '));
    let others = run(&text[space..], |c| class(c) == Class::Other);
    if others > 0 {
        let end = space + others;
        return end + run(&text[end..], ends);
    }
    let white = run(text, |c| class(c) == Class::Space);
    match text[..white].rfind(is_break) {
        Some(last) => last + 1,
        None => space_run(text),
    }
}

/// Whether a character of a cased word may stand among capitals, and among small letters.
fn cases(c: char) -> (bool, bool) {
    use unicode_properties::GeneralCategory as Category;
    match c.general_category() {
        Category::UppercaseLetter | Category::TitlecaseLetter => (true, false),
        Category::LowercaseLetter => (false, true),
        Category::ModifierLetter | Category::OtherLetter => (true, true),
        Category::NonspacingMark | Category::SpacingMark | Category::EnclosingMark => (true, true),
        _ => (false, false),
    }
}

/// Bytes of `U*L+` at the start of a text, else of `U+L*`: capitals and small letters, each with letters that have no case and marks.
fn cased_letters(text: &str) -> usize {
    let capitals = run(text, |c| cases(c).0);
    let small = run(&text[capitals..], |c| cases(c).1);
    if small > 0 {
        return capitals + small;
    }
    // The capitals give back as much as the small letters need: up to the last that is both.
    let both = text[..capitals].char_indices().rev().find(|(_, c)| cases(*c).1);
    both.map_or(capitals, |(at, c)| at + c.len_utf8())
}

/// `[^\r\n\p{L}\p{N}]?U*L+(?i:'s|…)?|[^\r\n\p{L}\p{N}]?U+L*(?i:'s|…)?|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
fn cased_word(text: &str, digits: usize, contracts: bool) -> usize {
    let Some(first) = text.chars().next() else { return 0 };
    if class(first) == Class::Number {
        let count = text.chars().take(digits).take_while(|c| class(*c) == Class::Number);
        return count.map(char::len_utf8).sum();
    }
    let before = if is_break(first) || class(first) == Class::Letter { 0 } else { first.len_utf8() };
    for before in [before, 0] {
        let letters = cased_letters(&text[before..]);
        if letters > 0 {
            let end = before + letters;
            let ending = if contracts { contraction(&text[end..], true).unwrap_or(0) } else { 0 };
            return end + ending;
        }
    }
    other_word(text, |c| is_break(c) || c == '/')
}
