//! Japanese from kana: each mora by table. Kanji have readings that need a dictionary and are refused.

use super::sign_of;
use crate::{SayError, alphabet};

/// Rows of the syllabary: the consonant and the five morae a, i, u, e, o in katakana.
const ROWS: &[(&str, [char; 5])] = &[
    ("", ['ア', 'イ', 'ウ', 'エ', 'オ']),
    ("k", ['カ', 'キ', 'ク', 'ケ', 'コ']),
    ("ɡ", ['ガ', 'ギ', 'グ', 'ゲ', 'ゴ']),
    ("s", ['サ', 'シ', 'ス', 'セ', 'ソ']),
    ("z", ['ザ', 'ジ', 'ズ', 'ゼ', 'ゾ']),
    ("t", ['タ', 'チ', 'ツ', 'テ', 'ト']),
    ("d", ['ダ', 'ヂ', 'ヅ', 'デ', 'ド']),
    ("n", ['ナ', 'ニ', 'ヌ', 'ネ', 'ノ']),
    ("h", ['ハ', 'ヒ', 'フ', 'ヘ', 'ホ']),
    ("b", ['バ', 'ビ', 'ブ', 'ベ', 'ボ']),
    ("p", ['パ', 'ピ', 'プ', 'ペ', 'ポ']),
    ("m", ['マ', 'ミ', 'ム', 'メ', 'モ']),
    ("ɽ", ['ラ', 'リ', 'ル', 'レ', 'ロ']),
    ("v", ['ヷ', 'ヸ', 'ヴ', 'ヹ', 'ヺ']),
];

/// The phonemes of sentences in kana.
pub(crate) fn pronounce(sentences: &[&str]) -> Result<Vec<String>, SayError> {
    sentences.iter().map(|sentence| sentence_phonemes(sentence)).collect()
}

fn sentence_phonemes(sentence: &str) -> Result<String, SayError> {
    let kana: Vec<char> = sentence.chars().map(katakana).collect();
    let mut out = String::new();
    for (index, &c) in kana.iter().enumerate() {
        let next = kana.get(index + 1).copied();
        if is_kanji(c) {
            return Err(SayError::KanjiReading { example: c });
        }
        match c {
            'ッ' => out.push('ʔ'),
            'ン' => out.push('ɴ'),
            'ー' => out.push('ː'),
            'ヤ' => out.push_str("ja"),
            'ユ' => out.push_str("jɯ"),
            'ヨ' => out.push_str("jo"),
            'ワ' => out.push_str("βa"),
            'ヲ' => out.push('o'),
            'ャ' | 'ュ' | 'ョ' | 'ァ' | 'ィ' | 'ゥ' | 'ェ' | 'ォ' | 'ヮ' => {
                // Read with the mora before.
            }
            _ if c.is_whitespace() => out.push(' '),
            _ => match mora(c) {
                Some((consonant, vowel)) => out.push_str(&with_small(consonant, vowel, next)),
                None => out.push_str(sign_of(c)),
            },
        }
    }
    Ok(alphabet::keep(&out))
}

fn katakana(c: char) -> char {
    match c {
        'ぁ'..='ゖ' => char::from_u32(c as u32 + 0x60).unwrap_or(c),
        _ => c,
    }
}

fn is_kanji(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' | '々')
}

fn mora(c: char) -> Option<(&'static str, usize)> {
    ROWS.iter().find_map(|(consonant, row)| row.iter().position(|&kana| kana == c).map(|vowel| (*consonant, vowel)))
}

const VOWELS: [&str; 5] = ["a", "i", "ɯ", "e", "o"];

/// The consonant as it sounds before its vowel.
fn onset(consonant: &'static str, vowel: usize) -> &'static str {
    match (consonant, vowel) {
        ("s", 1) => "ɕ",
        ("z", 1) | ("d", 1) => "ʥ",
        ("t", 1) => "ʨ",
        ("t", 2) => "ʦ",
        ("d", 2) => "ʥ",
        ("n", 1) => "ɲ",
        ("h", 1) => "ç",
        ("h", 2) => "ɸ",
        _ => consonant,
    }
}

/// A mora with the small kana after it: キャ, ファ, ティ.
fn with_small(consonant: &'static str, vowel: usize, next: Option<char>) -> String {
    let onset = onset(consonant, vowel);
    let plain_vowel = match (onset, vowel) {
        ("s" | "z" | "ʦ", 2) => "ɨ",
        ("ʥ", 2) => "ɨ",
        _ => VOWELS[vowel],
    };
    let glide = |small: &'static str| {
        if matches!(onset, "ɕ" | "ʥ" | "ʨ" | "ɲ" | "ç") {
            format!("{onset}{small}")
        } else {
            format!("{onset}ʲ{small}")
        }
    };
    match next {
        Some('ャ') => glide("a"),
        Some('ュ') => glide("ɨ"),
        Some('ョ') => glide("o"),
        Some('ェ') if vowel == 1 && !consonant.is_empty() => glide("e"),
        Some(small @ ('ァ' | 'ィ' | 'ゥ' | 'ェ' | 'ォ' | 'ヮ')) => {
            let small = match small {
                'ァ' | 'ヮ' => "a",
                'ィ' => "i",
                'ゥ' => "ɯ",
                'ェ' => "e",
                _ => "o",
            };
            match (consonant, vowel) {
                ("", 2) => format!("β{small}"),
                ("", 1) => format!("j{small}"),
                ("k" | "ɡ", 2) => format!("{consonant}ᵝ{small}"),
                ("t", 3 | 4) | ("d", 3 | 4) => format!("{consonant}{small}"),
                _ => format!("{onset}{small}"),
            }
        }
        _ => format!("{onset}{plain_vowel}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kana_are_read_mora_by_mora() {
        for (kana, phonemes) in [
            ("こんにちは", "koɴɲiʨiha"),
            ("ありがとう。", "aɽiɡatoɯ."),
            ("キャット", "kʲaʔto"),
            ("ファイル", "ɸaiɽɯ"),
            ("パーティー", "paːtiː"),
            ("しゅくだい、ちょっと", "ɕɨkɯdai, ʨoʔto"),
        ] {
            assert_eq!(pronounce(&[kana]).unwrap(), [phonemes], "{kana}");
        }
    }

    #[test]
    fn kanji_are_refused_by_name() {
        assert!(matches!(pronounce(&["世界"]), Err(SayError::KanjiReading { example: '世' })));
    }
}
