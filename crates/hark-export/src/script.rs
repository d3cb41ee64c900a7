//! What layout needs to know of writing systems: how wide a text is, and where it may break without a space.

use hark_transcript::is_unspaced;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns `text` takes: two for a wide character, none for a combining mark.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Whether `c` belongs to a script that office programs call complex: written from right to left, or with letters that
/// stack, reorder and join.
pub(crate) fn is_complex(c: char) -> bool {
    matches!(c,
        '\u{0590}'..='\u{08FF}'     // Hebrew to Arabic
        | '\u{0900}'..='\u{0DFF}'   // the scripts of India
        | '\u{0E00}'..='\u{109F}'   // Thai, Lao, Tibetan, Myanmar
        | '\u{1780}'..='\u{17FF}'   // Khmer
        | '\u{FB1D}'..='\u{FDFF}'   // Hebrew and Arabic forms
        | '\u{FE70}'..='\u{FEFE}'
    )
}

/// Whether two texts that follow each other are joined without a space.
pub(crate) fn joins_tightly(before: &str, after: &str) -> bool {
    match (before.chars().next_back(), after.chars().next()) {
        (Some(last), Some(first)) => is_unspaced(last) && is_unspaced(first),
        _ => true,
    }
}

/// The parts of a word between which a line may break: one part for a spaced script, one for each character (with
/// its marks and the punctuation bound to it) for an unspaced one.
pub(crate) fn breakable_parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    let mut previous: Option<char> = None;
    for (at, c) in word.char_indices() {
        if let Some(before) = previous
            && may_break_between(before, c)
        {
            parts.push(&word[begin..at]);
            begin = at;
        }
        previous = Some(c);
    }
    if begin < word.len() {
        parts.push(&word[begin..]);
    }
    parts
}

fn may_break_between(before: char, after: char) -> bool {
    if !is_unspaced(before) && !is_unspaced(after) {
        return false;
    }
    let joiner = |c: char| c == '\u{200D}' || c == '\u{2060}' || c == '\u{00A0}';
    // A combining mark has no width of its own and belongs to the character before it.
    let is_mark = after.width() == Some(0) && after != '\u{200B}';
    !is_mark && !joiner(before) && !never_ends_a_line(before) && !never_starts_a_line(after)
}

/// Closing punctuation, small kana, length and iteration marks (JIS X 4051), and Thai and Lao vowels and marks that
/// follow their consonant.
fn never_starts_a_line(c: char) -> bool {
    matches!(c,
        ',' | '.' | '!' | '?' | ':' | ';' | '%' | ')' | ']' | '}' | '\'' | '"' | '…' | '’' | '”' | '»'
        | '、' | '。' | '，' | '．' | '！' | '？' | '：' | '；' | '・' | '％'
        | '）' | '］' | '｝' | '〉' | '》' | '」' | '』' | '】' | '〕' | '〗' | '〞' | '〟'
        | 'ー' | '〜' | '～' | '々' | 'ゝ' | 'ゞ' | 'ヽ' | 'ヾ'
        | 'ぁ' | 'ぃ' | 'ぅ' | 'ぇ' | 'ぉ' | 'っ' | 'ゃ' | 'ゅ' | 'ょ' | 'ゎ'
        | 'ァ' | 'ィ' | 'ゥ' | 'ェ' | 'ォ' | 'ッ' | 'ャ' | 'ュ' | 'ョ' | 'ヮ' | 'ヵ' | 'ヶ'
        | '\u{FF61}' | '\u{FF63}'..='\u{FF65}' | '\u{FF67}'..='\u{FF70}' | '\u{FF9E}' | '\u{FF9F}'
        | '\u{0E2F}'..='\u{0E33}' | '\u{0E45}' | '\u{0E46}' | '\u{0EAF}'..='\u{0EB3}' | '\u{0EC6}')
}

/// Opening punctuation, and the Thai and Lao vowels written before the consonant they belong to.
fn never_ends_a_line(c: char) -> bool {
    matches!(c,
        '(' | '[' | '{' | '‘' | '“' | '«' | '（' | '［' | '｛' | '〈' | '《' | '「' | '『' | '【' | '〔' | '〖' | '〝'
        | '￥' | '＄' | '\u{FF62}' | '\u{0E40}'..='\u{0E44}' | '\u{0EC0}'..='\u{0EC4}')
}

/// How good a place the end of `text` is to break at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// In the middle of a clause.
    Open,
    /// After a comma, a semicolon, a colon or a dash.
    Clause,
    /// After a full stop, a question mark or their like.
    Sentence,
}

/// What kind of ending `text` has, quotes and brackets after the mark left aside.
pub(crate) fn ending(text: &str) -> Ending {
    let is_closer =
        |c: char| matches!(c, '"' | '\'' | ')' | ']' | '}' | '”' | '’' | '»' | '」' | '』' | '）' | '】' | '》' | '〉');
    match text.trim_end_matches(is_closer).chars().next_back() {
        Some(
            '.' | '!' | '?' | '…' | '。' | '！' | '？' | '．' | '｡' | '؟' | '۔' | '।' | '॥' | '។' | '။' | '።' | '։',
        ) => {
            if is_abbreviation(text) {
                Ending::Open
            } else {
                Ending::Sentence
            }
        }
        Some(',' | ';' | ':' | '–' | '—' | '、' | '，' | '；' | '：' | '､' | '،' | '؛' | '፣' | '၊') => {
            Ending::Clause
        }
        _ => Ending::Open,
    }
}

/// Titles and initials whose full stop ends no sentence.
fn is_abbreviation(word: &str) -> bool {
    let Some(stem) = word.strip_suffix('.') else {
        return false;
    };
    let is_initial = stem.chars().count() == 1 && stem.chars().all(|c| c.is_uppercase() && c != 'I');
    is_initial || matches!(stem, "Mr" | "Mrs" | "Ms" | "Dr" | "Prof" | "St" | "Sr" | "Jr" | "vs" | "e.g" | "i.e" | "No")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_spaced_script_has_one_part() {
        for word in ["internationally", "naïve", "don't", "한국어", "семьдесят", "שלום"] {
            assert_eq!(breakable_parts(word), [word]);
        }
    }

    #[test]
    fn chinese_breaks_between_characters_but_punctuation_stays_with_its_word() {
        assert_eq!(breakable_parts("你好，世界。"), ["你", "好，", "世", "界。"]);
        assert_eq!(breakable_parts("「東京」へ"), ["「東", "京」", "へ"]);
        assert_eq!(breakable_parts("キャット"), ["キャッ", "ト"]);
    }

    #[test]
    fn thai_vowels_and_marks_stay_with_their_consonant() {
        assert_eq!(breakable_parts("เก่งน้ำ"), ["เก่", "ง", "น้ำ"]);
    }

    #[test]
    fn latin_inside_chinese_stays_whole() {
        assert_eq!(breakable_parts("用Rust写"), ["用", "Rust", "写"]);
    }

    #[test]
    fn endings_look_through_quotes_and_know_titles() {
        assert_eq!(ending("done.\""), Ending::Sentence);
        assert_eq!(ending("好。」"), Ending::Sentence);
        assert_eq!(ending("however,"), Ending::Clause);
        assert_eq!(ending("Dr."), Ending::Open);
        assert_eq!(ending("J."), Ending::Open);
        assert_eq!(ending("word"), Ending::Open);
    }
}
