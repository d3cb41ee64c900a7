//! Which fonts are asked first for a script, and what to install when none has a character.

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

/// A character that no font of the machine shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no font on this machine shows {character:?} (U+{code:04X}, {script}): install the package {package}, \
     or put a font that has it into the folder of fonts",
    code = *.character as u32,
    script = .script.replace('_', " ")
)]
pub struct MissingCharacter {
    /// The character.
    pub character: char,
    /// The Unicode name of its script, or `Emoji`.
    pub script: &'static str,
    /// The Debian package with a font for it.
    pub package: &'static str,
}

impl MissingCharacter {
    pub(super) fn new(character: char) -> Self {
        let script = character.script();
        let is_picture = matches!(character, '\u{2600}'..='\u{27BF}' | '\u{1F000}'..='\u{1FAFF}');
        let package = match character {
            '\u{20000}'..='\u{3FFFF}' => "fonts-hanazono",
            _ if is_picture => "fonts-symbola",
            _ if is_east_asian(script) => "fonts-noto-cjk",
            '\u{3000}'..='\u{30FF}' | '\u{FE30}'..='\u{FE4F}' | '\u{FF00}'..='\u{FFEF}' => "fonts-noto-cjk",
            _ => "fonts-noto-core",
        };
        Self { character, script: if is_picture { "Emoji" } else { script.full_name() }, package }
    }
}

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
    fn a_missing_character_is_named_with_its_script_and_the_package_that_has_it() {
        assert_eq!(
            MissingCharacter::new('न').to_string(),
            "no font on this machine shows 'न' (U+0928, Devanagari): install the package fonts-noto-core, or put a \
             font that has it into the folder of fonts"
        );
        let package = |c| MissingCharacter::new(c).package;
        assert_eq!(
            (package('漢'), package('한'), package('ー')),
            ("fonts-noto-cjk", "fonts-noto-cjk", "fonts-noto-cjk")
        );
        assert_eq!((package('😀'), package('𠀋')), ("fonts-symbola", "fonts-hanazono"));
        assert_eq!(MissingCharacter::new('😀').script, "Emoji");
    }

    #[test]
    fn chinese_characters_take_the_forms_of_the_language() {
        assert_eq!(Region::of("zh", ""), Region::SimplifiedChinese);
        assert_eq!(Region::of("zh-Hant", ""), Region::TraditionalChinese);
        assert_eq!(Region::of("en", "漢字かな"), Region::Japanese);
        assert_eq!(families(Script::Han, Region::Korean)[0], "noto sans cjk kr");
        assert_eq!(families(Script::Canadian_Aboriginal, Region::Korean)[0], "noto sans canadian aboriginal");
    }
}
