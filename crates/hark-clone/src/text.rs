//! Text as the model was trained on it: a language tag, small decomposed letters, plain punctuation, and codes for Chinese characters.

use std::collections::HashMap;
use std::path::Path;

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use crate::CloneError;

/// The codes of the languages of the model.
pub const LANGUAGES: [&str; 23] = [
    "ar", "da", "de", "el", "en", "es", "fi", "fr", "he", "hi", "it", "ja", "ko", "ms", "nl", "no", "pl", "pt", "ru",
    "sv", "sw", "tr", "zh",
];

/// The Cangjie codes of Chinese characters: how their parts are typed.
#[derive(Debug, Default)]
pub(crate) struct Cangjie(HashMap<char, String>);

impl Cangjie {
    /// Reads a list of lines `character TAB code`. Characters of the same code are told apart by their place among them, counted from 1 after the first.
    pub(crate) fn load(path: &Path) -> Result<Self, CloneError> {
        let bytes = std::fs::read(path).map_err(|source| CloneError::Unreadable { path: path.to_owned(), source })?;
        let malformed = |what: String| CloneError::Malformed { path: path.to_owned(), what };
        let lines: Vec<String> = serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))?;
        let (mut codes, mut counts) = (HashMap::new(), HashMap::new());
        for line in &lines {
            let mut fields = line.split('\t');
            let (Some(word), Some(code)) = (fields.next(), fields.next()) else {
                return Err(malformed(format!("{line:?} is no character with its code")));
            };
            let count: &mut usize = counts.entry(code.to_owned()).or_default();
            let code = if *count == 0 { code.to_owned() } else { format!("{code}{count}") };
            *count += 1;
            let mut characters = word.chars();
            if let (Some(character), None) = (characters.next(), characters.next()) {
                codes.insert(character, code);
            }
        }
        Ok(Cangjie(codes))
    }

    fn write(&self, text: &str) -> String {
        let mut out = String::new();
        for character in text.chars() {
            let is_letter = character.general_category() == GeneralCategory::OtherLetter;
            match self.0.get(&character).filter(|_| is_letter) {
                Some(code) => {
                    code.chars().for_each(|part| out.extend(["[cj_", part.encode_utf8(&mut [0; 4]), "]"]));
                    out.push_str("[cj_.]");
                }
                None => out.push(character),
            }
        }
        out
    }
}

/// A sentence as the tokenizer takes it.
pub(crate) fn prepare(text: &str, language: &str, cangjie: &Cangjie) -> Result<String, CloneError> {
    if !LANGUAGES.contains(&language) {
        return Err(CloneError::UnknownLanguage { language: language.chars().take(40).collect() });
    }
    let text = punctuated(&without_brackets(text));
    if !text.chars().any(char::is_alphanumeric) {
        return Err(CloneError::Empty);
    }
    let is_chinese = |character: &char| matches!(character, '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{323af}');
    if language == "ja"
        && let Some(character) = text.chars().find(is_chinese)
    {
        return Err(CloneError::Kanji { character });
    }
    // Korean syllables become their letters by this, too.
    let text: String = text.to_lowercase().nfkd().collect();
    let text = if language == "zh" { cangjie.write(&text) } else { text };
    Ok(format!("[{language}]{text}"))
}

/// Square brackets would name tokens of the model.
fn without_brackets(text: &str) -> String {
    text.replace(['[', ']'], " ")
}

/// Only marks that were frequent where the model learned, and one of them at the end.
fn punctuated(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '…' | ':' | ';' | '；' | '：' => plain.push(','),
            '—' | '–' => plain.push('-'),
            '“' | '”' | '„' | '«' | '»' => plain.push('"'),
            '‘' | '’' => plain.push('\''),
            other => plain.push(other),
        }
    }
    let mut plain = plain.replace("...", ",").replace(" - ", ", ").split_whitespace().collect::<Vec<_>>().join(" ");
    for mark in [",", "."] {
        plain = plain.replace(&format!(" {mark}"), mark);
    }
    let is_end = |character: char| matches!(character, '.' | '!' | '?' | '-' | ',' | '、' | '，' | '。' | '？' | '！');
    if !plain.is_empty() && !plain.trim_end_matches(['"', '\'']).ends_with(is_end) {
        plain.push('.');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str, language: &str) -> String {
        prepare(text, language, &Cangjie::default()).unwrap()
    }

    #[test]
    fn text_gets_its_language_small_letters_and_an_end() {
        assert_eq!(plain("Hello  there", "en"), "[en]hello there.");
        assert_eq!(plain("“Well” – yes; no: it’s…", "en"), "[en]\"well\", yes, no, it's,");
        assert_eq!(plain("Wait ... what?", "en"), "[en]wait, what?");
        assert_eq!(plain("Élan", "fr"), "[fr]e\u{301}lan.");
        assert_eq!(plain("He said \"no.\"", "en"), "[en]he said \"no.\"");
    }

    #[test]
    fn text_can_not_name_tokens_of_the_model() {
        assert_eq!(plain("[STOP] now [fr]oui", "en"), "[en]stop now fr oui.");
    }

    #[test]
    fn korean_syllables_become_their_letters() {
        assert_eq!(plain("한글", "ko"), "[ko]\u{1112}\u{1161}\u{11ab}\u{1100}\u{1173}\u{11af}.");
    }

    #[test]
    fn chinese_characters_become_codes_and_those_of_one_code_differ() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("codes.json");
        std::fs::write(&path, r#"["你\tonf", "好\tvnd", "佳\tonf", "你好\tonvnd"]"#).unwrap();
        let codes = Cangjie::load(&path).unwrap();
        let text = prepare("你好佳。", "zh", &codes).unwrap();
        assert_eq!(text, "[zh][cj_o][cj_n][cj_f][cj_.][cj_v][cj_n][cj_d][cj_.][cj_o][cj_n][cj_f][cj_1][cj_.]。");
        assert_eq!(prepare("你 A", "en", &codes).unwrap(), "[en]你 a.", "only in Chinese");
        std::fs::write(&path, r#"["x"]"#).unwrap();
        assert!(matches!(Cangjie::load(&path), Err(CloneError::Malformed { .. })));
        assert!(matches!(Cangjie::load(&folder.path().join("none")), Err(CloneError::Unreadable { .. })));
    }

    #[test]
    fn what_can_not_be_read_is_refused() {
        let refused = |text: &str, language: &str| prepare(text, language, &Cangjie::default()).unwrap_err();
        assert!(matches!(refused("x", "xx"), CloneError::UnknownLanguage { .. }));
        assert!(matches!(refused("日本語です", "ja"), CloneError::Kanji { character: '日' }));
        assert!(matches!(refused(" ... !?", "en"), CloneError::Empty));
        assert_eq!(plain("カタカナ", "ja"), "[ja]カタカナ.");
    }
}
