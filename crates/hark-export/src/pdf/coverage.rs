//! Which fonts are asked first for a script.

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};
use unicode_script::{Script, UnicodeScript};

use crate::direction::primary;

/// Fonts for Latin, Greek, Cyrillic and signs, best first. Other scripts come to them for what their own font lacks.
const BASE: [&str; 7] = [
    "Noto Sans",
    "DejaVu Sans",
    "Liberation Sans",
    "Noto Sans Symbols",
    "Noto Sans Symbols2",
    "Noto Sans Math",
    "Symbola",
];

/// Whose forms of the shared Chinese characters are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Region {
    SimplifiedChinese,
    TraditionalChinese,
    Japanese,
    Korean,
}

impl Region {
    /// By the language, else by what the text itself shows.
    pub(super) fn of(language: &str, text: &str) -> Self {
        let is_traditional = ["hant", "tw", "hk", "mo"]
            .iter()
            .any(|part| language.to_ascii_lowercase().split(['-', '_']).skip(1).any(|subtag| subtag == *part));
        match primary(language).as_str() {
            "zh" | "yue" if is_traditional => Self::TraditionalChinese,
            "yue" => Self::TraditionalChinese,
            "zh" => Self::SimplifiedChinese,
            "ja" => Self::Japanese,
            "ko" => Self::Korean,
            _ => {
                let found = text.chars().map(|c| c.script()).find_map(|script| match script {
                    Script::Hiragana | Script::Katakana => Some(Self::Japanese),
                    Script::Hangul => Some(Self::Korean),
                    _ => None,
                });
                found.unwrap_or(Self::SimplifiedChinese)
            }
        }
    }

    fn families(self) -> [&'static str; 3] {
        match self {
            Self::SimplifiedChinese => ["Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC"],
            Self::TraditionalChinese => ["Noto Sans CJK TC", "Noto Sans TC", "Source Han Sans TC"],
            Self::Japanese => ["Noto Sans CJK JP", "Noto Sans JP", "Source Han Sans"],
            Self::Korean => ["Noto Sans CJK KR", "Noto Sans KR", "Source Han Sans K"],
        }
    }
}

/// The families to ask for a character of `script`, best first, in small letters.
pub(super) fn families(script: Script, region: Region) -> Vec<String> {
    let mut families: Vec<String> = Vec::new();
    match script {
        Script::Common | Script::Inherited | Script::Unknown => {
            families.extend(BASE.map(str::to_owned));
            families.extend(region.families().map(str::to_owned));
        }
        Script::Latin | Script::Greek | Script::Cyrillic => families.extend(BASE.map(str::to_owned)),
        _ => {
            if is_east_asian(script) {
                families.extend(region.families().map(str::to_owned));
            }
            let name = script.full_name().replace('_', " ");
            families.push(format!("Noto Sans {name}"));
            families.push(format!("Noto Serif {name}"));
            families.extend(BASE.map(str::to_owned));
        }
    }
    families.iter().map(|family| family.to_lowercase()).collect()
}

fn is_east_asian(script: Script) -> bool {
    matches!(script, Script::Han | Script::Hiragana | Script::Katakana | Script::Bopomofo | Script::Hangul)
}

/// Whether no font needs to have `c`, since it only steers the shape of its neighbours.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{3164}' | '\u{FFA0}'
        | '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}')
}

/// Whether `c` means nothing to anybody else: private, or not yet given a meaning. Pages show U+FFFD for it.
pub(super) fn is_unknown(c: char) -> bool {
    matches!(c.general_category(), GeneralCategory::PrivateUse | GeneralCategory::Unassigned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chinese_characters_take_the_forms_of_the_language() {
        assert_eq!(Region::of("zh", ""), Region::SimplifiedChinese);
        assert_eq!(Region::of("zh-Hant", ""), Region::TraditionalChinese);
        assert_eq!(Region::of("en", "漢字かな"), Region::Japanese);
        assert_eq!(families(Script::Han, Region::Korean)[0], "noto sans cjk kr");
        assert_eq!(families(Script::Canadian_Aboriginal, Region::Korean)[0], "noto sans canadian aboriginal");
    }
}
