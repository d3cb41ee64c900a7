//! Whisper's languages: codes in the order of their tokens, with English and native names.
//!
//! In comes a code or an English name as a user writes it; out goes the table's entry. Which of these
//! a given checkpoint knows is the tokenizer's business.

/// One language Whisper was trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Language {
    /// The code inside Whisper's language token, as in `<|pt|>`.
    pub code: &'static str,
    /// Its English name, in lower case.
    pub name: &'static str,
    /// Its name as its speakers write it.
    pub native_name: &'static str,
}

const fn language(code: &'static str, name: &'static str, native_name: &'static str) -> Language {
    Language { code, name, native_name }
}

/// All languages, in the order of their tokens; the last one (Cantonese) exists since large-v3 only.
pub const LANGUAGES: [Language; 100] = [
    language("en", "english", "English"),
    language("zh", "chinese", "中文"),
    language("de", "german", "Deutsch"),
    language("es", "spanish", "Español"),
    language("ru", "russian", "Русский"),
    language("ko", "korean", "한국어"),
    language("fr", "french", "Français"),
    language("ja", "japanese", "日本語"),
    language("pt", "portuguese", "Português"),
    language("tr", "turkish", "Türkçe"),
    language("pl", "polish", "Polski"),
    language("ca", "catalan", "Català"),
    language("nl", "dutch", "Nederlands"),
    language("ar", "arabic", "العربية"),
    language("sv", "swedish", "Svenska"),
    language("it", "italian", "Italiano"),
    language("id", "indonesian", "Bahasa Indonesia"),
    language("hi", "hindi", "हिन्दी"),
    language("fi", "finnish", "Suomi"),
    language("vi", "vietnamese", "Tiếng Việt"),
    language("he", "hebrew", "עברית"),
    language("uk", "ukrainian", "Українська"),
    language("el", "greek", "Ελληνικά"),
    language("ms", "malay", "Bahasa Melayu"),
    language("cs", "czech", "Čeština"),
    language("ro", "romanian", "Română"),
    language("da", "danish", "Dansk"),
    language("hu", "hungarian", "Magyar"),
    language("ta", "tamil", "தமிழ்"),
    language("no", "norwegian", "Norsk"),
    language("th", "thai", "ไทย"),
    language("ur", "urdu", "اردو"),
    language("hr", "croatian", "Hrvatski"),
    language("bg", "bulgarian", "Български"),
    language("lt", "lithuanian", "Lietuvių"),
    language("la", "latin", "Latina"),
    language("mi", "maori", "Te reo Māori"),
    language("ml", "malayalam", "മലയാളം"),
    language("cy", "welsh", "Cymraeg"),
    language("sk", "slovak", "Slovenčina"),
    language("te", "telugu", "తెలుగు"),
    language("fa", "persian", "فارسی"),
    language("lv", "latvian", "Latviešu"),
    language("bn", "bengali", "বাংলা"),
    language("sr", "serbian", "Српски"),
    language("az", "azerbaijani", "Azərbaycanca"),
    language("sl", "slovenian", "Slovenščina"),
    language("kn", "kannada", "ಕನ್ನಡ"),
    language("et", "estonian", "Eesti"),
    language("mk", "macedonian", "Македонски"),
    language("br", "breton", "Brezhoneg"),
    language("eu", "basque", "Euskara"),
    language("is", "icelandic", "Íslenska"),
    language("hy", "armenian", "Հայերեն"),
    language("ne", "nepali", "नेपाली"),
    language("mn", "mongolian", "Монгол"),
    language("bs", "bosnian", "Bosanski"),
    language("kk", "kazakh", "Қазақша"),
    language("sq", "albanian", "Shqip"),
    language("sw", "swahili", "Kiswahili"),
    language("gl", "galician", "Galego"),
    language("mr", "marathi", "मराठी"),
    language("pa", "punjabi", "ਪੰਜਾਬੀ"),
    language("si", "sinhala", "සිංහල"),
    language("km", "khmer", "ខ្មែរ"),
    language("sn", "shona", "chiShona"),
    language("yo", "yoruba", "Yorùbá"),
    language("so", "somali", "Soomaali"),
    language("af", "afrikaans", "Afrikaans"),
    language("oc", "occitan", "Occitan"),
    language("ka", "georgian", "ქართული"),
    language("be", "belarusian", "Беларуская"),
    language("tg", "tajik", "Тоҷикӣ"),
    language("sd", "sindhi", "سنڌي"),
    language("gu", "gujarati", "ગુજરાતી"),
    language("am", "amharic", "አማርኛ"),
    language("yi", "yiddish", "ייִדיש"),
    language("lo", "lao", "ລາວ"),
    language("uz", "uzbek", "Oʻzbekcha"),
    language("fo", "faroese", "Føroyskt"),
    language("ht", "haitian creole", "Kreyòl ayisyen"),
    language("ps", "pashto", "پښتو"),
    language("tk", "turkmen", "Türkmençe"),
    language("nn", "nynorsk", "Nynorsk"),
    language("mt", "maltese", "Malti"),
    language("sa", "sanskrit", "संस्कृतम्"),
    language("lb", "luxembourgish", "Lëtzebuergesch"),
    language("my", "myanmar", "မြန်မာဘာသာ"),
    language("bo", "tibetan", "བོད་སྐད་"),
    language("tl", "tagalog", "Tagalog"),
    language("mg", "malagasy", "Malagasy"),
    language("as", "assamese", "অসমীয়া"),
    language("tt", "tatar", "Татарча"),
    language("haw", "hawaiian", "ʻŌlelo Hawaiʻi"),
    language("ln", "lingala", "Lingála"),
    language("ha", "hausa", "Hausa"),
    language("ba", "bashkir", "Башҡортса"),
    language("jw", "javanese", "Basa Jawa"),
    language("su", "sundanese", "Basa Sunda"),
    language("yue", "cantonese", "粵語"),
];

/// Other names and codes people use for the same languages.
const OTHER_NAMES: [(&str, &str); 20] = [
    ("burmese", "my"),
    ("castilian", "es"),
    ("farsi", "fa"),
    ("flemish", "nl"),
    ("fil", "tl"),
    ("filipino", "tl"),
    ("haitian", "ht"),
    ("iw", "he"),
    ("jv", "jw"),
    ("letzeburgesch", "lb"),
    ("mandarin", "zh"),
    ("moldavian", "ro"),
    ("moldovan", "ro"),
    ("nb", "no"),
    ("panjabi", "pa"),
    ("pushto", "ps"),
    ("sinhalese", "si"),
    ("slovene", "sl"),
    ("valencian", "ca"),
    ("zh-yue", "yue"),
];

/// Finds a language by its code or English name, in any case; a region after the code (`pt-BR`, `zh_TW`) is ignored.
pub fn find(code_or_name: &str) -> Option<&'static Language> {
    let wanted = code_or_name.trim().to_lowercase().replace('_', "-");
    let by_code = |code: &str| LANGUAGES.iter().find(|l| l.code == code);
    by_code(&wanted)
        .or_else(|| LANGUAGES.iter().find(|l| l.name == wanted))
        .or_else(|| {
            let (_, code) = OTHER_NAMES.iter().find(|(other, _)| *other == wanted)?;
            by_code(code)
        })
        .or_else(|| {
            let (code, _) = wanted.split_once('-')?;
            find(code)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_and_names_are_unique_and_names_are_searchable() {
        let codes: HashSet<_> = LANGUAGES.iter().map(|l| l.code).collect();
        let names: HashSet<_> = LANGUAGES.iter().map(|l| l.name).collect();
        assert_eq!((codes.len(), names.len()), (100, 100));
        for language in &LANGUAGES {
            assert_eq!(find(language.code), Some(language));
            assert_eq!(find(&language.name.to_uppercase()), Some(language));
            assert!(!language.native_name.is_empty());
        }
    }

    #[test]
    fn aliases_and_regions_lead_to_the_same_language() {
        for (written, code) in
            [("pt-BR", "pt"), ("zh_TW", "zh"), (" Castilian ", "es"), ("zh-yue", "yue"), ("nb-NO", "no")]
        {
            assert_eq!(find(written).map(|l| l.code), Some(code), "{written}");
        }
        for nonsense in ["", "-", "xx", "klingon", "e", "--en"] {
            assert_eq!(find(nonsense), None, "{nonsense:?}");
        }
    }
}
