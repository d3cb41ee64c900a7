//! The languages that can be spoken.

/// How a language's words become phonemes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// The English dictionary, with espeak-ng for words that it does not have.
    English {
        /// British pronunciation and reading.
        british: bool,
    },
    /// espeak-ng's phonemes.
    Espeak,
    /// Kana by table.
    Japanese,
}

/// A language and how it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Language {
    /// Its code here: ISO 639-1, with a region where that changes the reading.
    pub code: &'static str,
    /// Its name in English.
    pub name: &'static str,
    /// espeak-ng's voice.
    pub(crate) voice: &'static str,
    pub(crate) method: Method,
}

const fn espeak(code: &'static str, name: &'static str, voice: &'static str) -> Language {
    Language { code, name, voice, method: Method::Espeak }
}

/// All languages, by code.
pub const LANGUAGES: &[Language] = &[
    espeak("ar", "Arabic", "ar"),
    espeak("da", "Danish", "da"),
    espeak("de", "German", "de"),
    espeak("el", "Greek", "el"),
    Language { code: "en-us", name: "American English", voice: "en-us", method: Method::English { british: false } },
    Language { code: "en-gb", name: "British English", voice: "en-gb", method: Method::English { british: true } },
    espeak("es", "Spanish", "es"),
    espeak("fi", "Finnish", "fi"),
    espeak("fr", "French", "fr-fr"),
    espeak("he", "Hebrew", "he"),
    espeak("hi", "Hindi", "hi"),
    espeak("it", "Italian", "it"),
    Language { code: "ja", name: "Japanese", voice: "ja", method: Method::Japanese },
    espeak("ko", "Korean", "ko"),
    espeak("ms", "Malay", "ms"),
    espeak("nl", "Dutch", "nl"),
    espeak("no", "Norwegian", "nb"),
    espeak("pl", "Polish", "pl"),
    espeak("pt-br", "Brazilian Portuguese", "pt-br"),
    espeak("ru", "Russian", "ru"),
    espeak("sv", "Swedish", "sv"),
    espeak("sw", "Swahili", "sw"),
    espeak("tr", "Turkish", "tr"),
];

impl Language {
    /// The language of a code: "en-US", "en_us", "en", "pt" and "nb" are understood too.
    pub fn find(code: &str) -> Option<&'static Language> {
        let code = code.trim().to_ascii_lowercase().replace('_', "-");
        let exact = LANGUAGES.iter().find(|language| language.code == code);
        exact.or_else(|| {
            let code = match code.as_str() {
                "en" => "en-us",
                "en-uk" | "en-au" | "en-nz" | "en-ie" | "en-in" | "en-za" => "en-gb",
                "pt" | "pt-pt" => "pt-br",
                "nb" | "nn" => "no",
                other => other.split('-').next().unwrap_or_default(),
            };
            let code = if code == "en" { "en-us" } else { code };
            LANGUAGES.iter().find(|language| language.code == code)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_with_regions_and_other_spellings() {
        for (code, found) in [
            ("en", "en-us"),
            ("en-GB", "en-gb"),
            ("EN_us", "en-us"),
            ("pt", "pt-br"),
            ("fr-CA", "fr"),
            ("nb", "no"),
            ("es-MX", "es"),
        ] {
            assert_eq!(Language::find(code).map(|language| language.code), Some(found), "{code}");
        }
        for code in ["", "xx", "english", "--"] {
            assert_eq!(Language::find(code), None, "{code}");
        }
    }
}
