//! The language that answers are written in: that of the text.

/// A language by its ISO 639-1 code and its English name, which prompts use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Language {
    /// ISO 639-1.
    pub code: &'static str,
    /// In English.
    pub name: &'static str,
}

const LANGUAGES: &[(&str, &str)] = &[
    ("af", "Afrikaans"),
    ("ar", "Arabic"),
    ("bg", "Bulgarian"),
    ("bn", "Bengali"),
    ("ca", "Catalan"),
    ("cs", "Czech"),
    ("cy", "Welsh"),
    ("da", "Danish"),
    ("de", "German"),
    ("el", "Greek"),
    ("en", "English"),
    ("es", "Spanish"),
    ("et", "Estonian"),
    ("eu", "Basque"),
    ("fa", "Persian"),
    ("fi", "Finnish"),
    ("fr", "French"),
    ("gl", "Galician"),
    ("gu", "Gujarati"),
    ("he", "Hebrew"),
    ("hi", "Hindi"),
    ("hr", "Croatian"),
    ("hu", "Hungarian"),
    ("hy", "Armenian"),
    ("id", "Indonesian"),
    ("is", "Icelandic"),
    ("it", "Italian"),
    ("ja", "Japanese"),
    ("ka", "Georgian"),
    ("kk", "Kazakh"),
    ("km", "Khmer"),
    ("ko", "Korean"),
    ("lt", "Lithuanian"),
    ("lv", "Latvian"),
    ("mk", "Macedonian"),
    ("ml", "Malayalam"),
    ("mn", "Mongolian"),
    ("mr", "Marathi"),
    ("ms", "Malay"),
    ("my", "Burmese"),
    ("ne", "Nepali"),
    ("nl", "Dutch"),
    ("no", "Norwegian"),
    ("pa", "Punjabi"),
    ("pl", "Polish"),
    ("pt", "Portuguese"),
    ("ro", "Romanian"),
    ("ru", "Russian"),
    ("sk", "Slovak"),
    ("sl", "Slovenian"),
    ("sq", "Albanian"),
    ("sr", "Serbian"),
    ("sv", "Swedish"),
    ("sw", "Swahili"),
    ("ta", "Tamil"),
    ("te", "Telugu"),
    ("th", "Thai"),
    ("tl", "Tagalog"),
    ("tr", "Turkish"),
    ("uk", "Ukrainian"),
    ("ur", "Urdu"),
    ("uz", "Uzbek"),
    ("vi", "Vietnamese"),
    ("zh", "Chinese"),
];

/// Frequent words that few other languages share.
const FREQUENT: &[(&str, &str)] = &[
    ("en", "the and is of to you that it was for are with this have they what but not we there would about"),
    ("de", "der die das und ist nicht ich wir sie mit auf eine dass auch noch aber haben werden wenn dem"),
    ("fr", "le les et est une pas que nous vous dans pour qui sur avec des mais cette sont être c'est"),
    ("es", "el los las y es una no por con para pero como está muy más porque esto tiene hay del"),
    ("it", "il gli che non di una per con sono anche come questo della più ma abbiamo è perché nel alla"),
    ("pt", "o os não uma com para mas como está muito mais isso tem você do da em são nós ao"),
    ("nl", "het een de en niet van ik dat wij ook maar voor zijn hebben met op naar deze wordt"),
    ("pl", "nie się że jest na do to jak ale co tak czy już dla był przez jego tylko są"),
    ("sv", "och det att är inte jag som en på för vi har med men om den till var kan"),
    ("tr", "bir ve bu için de da çok ne gibi daha ama var değil olarak kadar sonra ben biz"),
];

/// How much of a text is looked at.
const SAMPLE: usize = 4000;

/// The language of an ISO 639-1 code, where it is known here.
pub fn by_code(code: &str) -> Option<Language> {
    LANGUAGES.iter().find(|(known, _)| *known == code).map(|(code, name)| Language { code, name })
}

/// The language of a text by its script and its most frequent words; none when that is not clear.
pub fn detect(text: &str) -> Option<Language> {
    let sample: String = text.chars().take(SAMPLE).collect::<String>().to_lowercase();
    by_script(&sample).or_else(|| by_words(&sample))
}

fn by_script(sample: &str) -> Option<Language> {
    let mut counts: [(&str, usize); 11] = [
        ("zh", 0),
        ("ja", 0),
        ("ko", 0),
        ("ru", 0),
        ("uk", 0),
        ("ar", 0),
        ("he", 0),
        ("el", 0),
        ("th", 0),
        ("hi", 0),
        ("", 0),
    ];
    for c in sample.chars().filter(|c| c.is_alphabetic()) {
        let at = match c {
            '\u{3040}'..='\u{30ff}' => 1,
            '\u{4e00}'..='\u{9fff}' => 0,
            '\u{ac00}'..='\u{d7af}' => 2,
            'і' | 'ї' | 'є' | 'ґ' => 4,
            '\u{400}'..='\u{4ff}' => 3,
            '\u{600}'..='\u{6ff}' => 5,
            '\u{590}'..='\u{5ff}' => 6,
            '\u{370}'..='\u{3ff}' => 7,
            '\u{e00}'..='\u{e7f}' => 8,
            '\u{900}'..='\u{97f}' => 9,
            _ => 10,
        };
        counts[at].1 += 1;
    }
    let (han, kana, cyrillic, ukrainian) = (counts[0].1, counts[1].1, counts[3].1, counts[4].1);
    if kana * 10 > han && kana > 0 {
        counts[1].1 += han;
        counts[0].1 = 0;
    }
    if ukrainian * 30 > cyrillic && ukrainian > 0 {
        counts[4].1 += cyrillic;
        counts[3].1 = 0;
    }
    let total: usize = counts.iter().map(|(_, count)| count).sum();
    let (code, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    if count * 2 > total { by_code(code) } else { None }
}

fn by_words(sample: &str) -> Option<Language> {
    let words: Vec<&str> =
        sample.split(|c: char| !c.is_alphabetic() && c != '\'').filter(|word| !word.is_empty()).collect();
    let mut scores: Vec<(usize, &str)> = FREQUENT
        .iter()
        .map(|(code, frequent)| {
            let frequent: Vec<&str> = frequent.split(' ').collect();
            (words.iter().filter(|word| frequent.contains(word)).count(), *code)
        })
        .collect();
    scores.sort_unstable_by(|one, other| other.cmp(one));
    let ((best, code), (next, _)) = (scores[0], scores[1]);
    let is_clear = best * 12 >= words.len() && best * 4 >= next * 5 && best > 0;
    if is_clear { by_code(code) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_told_apart() {
        for (text, code) in [
            ("We have to talk about the budget of this year, and what it is for.", "en"),
            ("Wir müssen über das Budget sprechen, und ich habe noch eine Frage dazu.", "de"),
            ("Nous avons une question sur le budget et les dépenses de cette année.", "fr"),
            ("Tenemos que hablar del presupuesto, pero no está muy claro por qué.", "es"),
            ("Precisamos falar do orçamento, mas não está muito claro para você.", "pt"),
            ("今天我们讨论预算。", "zh"),
            ("今日は予算について話します。", "ja"),
            ("Сегодня мы обсуждаем бюджет.", "ru"),
            ("Сьогодні ми обговорюємо її бюджет і плани.", "uk"),
        ] {
            assert_eq!(detect(text).map(|language| language.code), Some(code), "{text}");
        }
        assert_eq!(detect("12345 !!"), None);
    }
}
