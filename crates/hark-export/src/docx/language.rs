//! Languages as Word names them, and the fonts that come with Word for them.

use crate::direction::{is_rtl_language, primary};

/// The full code of a language: Word wants a region for those it checks and hyphenates.
pub(super) fn full_code(language: &str) -> String {
    if language.contains('-') {
        return language.to_owned();
    }
    let code = primary(language);
    let region = match code.as_str() {
        "ar" => "SA",
        "bn" => "BD",
        "cs" => "CZ",
        "da" => "DK",
        "el" => "GR",
        "en" => "US",
        "fa" => "IR",
        "he" => "IL",
        "hi" | "gu" | "kn" | "ml" | "mr" | "pa" | "ta" | "te" => "IN",
        "ja" => "JP",
        "km" => "KH",
        "ko" => "KR",
        "pt" => "BR",
        "sv" => "SE",
        "uk" => "UA",
        "ur" => "PK",
        "vi" => "VN",
        "zh" => "CN",
        "de" | "es" | "fi" | "fr" | "hu" | "id" | "it" | "nl" | "pl" | "ro" | "ru" | "th" | "tr" => {
            return format!("{code}-{}", code.to_uppercase());
        }
        _ => return code,
    };
    format!("{code}-{region}")
}

/// The code for a run of right-to-left or otherwise complex text.
pub(super) fn of_complex_text(language: &str) -> String {
    if is_complex_language(language) { full_code(language) } else { "ar-SA".to_owned() }
}

/// The code for Chinese, Japanese and Korean text.
pub(super) fn of_east_asian_text(language: &str) -> String {
    if is_east_asian(language) { full_code(language) } else { "en-US".to_owned() }
}

/// The code for everything else.
pub(super) fn of_other_text(language: &str) -> String {
    let is_other = !language.is_empty() && !is_complex_language(language) && !is_east_asian(language);
    if is_other { full_code(language) } else { "en-US".to_owned() }
}

/// A font of Word for complex scripts; other programs take their own.
pub(super) fn complex_font(language: &str) -> &'static str {
    match primary(language).as_str() {
        "th" | "lo" => "Leelawadee UI",
        "my" => "Myanmar Text",
        "bo" => "Microsoft Himalaya",
        language if is_rtl_language(language) => "Arial",
        language if is_complex_language(language) => "Nirmala UI",
        _ => "Arial",
    }
}

/// A font of Word for East Asian scripts; other programs take their own.
pub(super) fn east_asian_font(language: &str) -> &'static str {
    match primary(language).as_str() {
        "ja" => "Yu Gothic",
        "ko" => "Malgun Gothic",
        _ => "Microsoft YaHei",
    }
}

fn is_east_asian(language: &str) -> bool {
    matches!(primary(language).as_str(), "zh" | "yue" | "ja" | "ko")
}

fn is_complex_language(language: &str) -> bool {
    const COMPLEX: [&str; 18] =
        ["as", "bn", "bo", "gu", "hi", "km", "kn", "lo", "ml", "mr", "my", "ne", "pa", "sa", "si", "ta", "te", "th"];
    is_rtl_language(language) || COMPLEX.contains(&primary(language).as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_text_has_the_language_of_its_own() {
        let codes = |language| (of_other_text(language), of_east_asian_text(language), of_complex_text(language));
        let expected = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(codes("de"), expected("de-DE", "en-US", "ar-SA"));
        assert_eq!(codes("ja"), expected("en-US", "ja-JP", "ar-SA"));
        assert_eq!(codes("hi"), expected("en-US", "en-US", "hi-IN"));
        assert_eq!(codes("pt-PT"), expected("pt-PT", "en-US", "ar-SA"));
        assert_eq!(codes(""), expected("en-US", "en-US", "ar-SA"));
    }
}
