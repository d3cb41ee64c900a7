//! espeak-ng's IPA in Kokoro's alphabet.

/// Sounds that the alphabet writes with one letter, in all languages. `^` ties the letters of one sound.
const ONE_LETTER: &[(&str, &str)] = &[
    ("a^ɪ", "I"),
    ("a^ʊ", "W"),
    ("d^z", "ʣ"),
    ("d^ʒ", "ʤ"),
    ("e^ɪ", "A"),
    ("o^ʊ", "O"),
    ("ə^ʊ", "Q"),
    ("s^s", "S"),
    ("t^s", "ʦ"),
    ("t^ʃ", "ʧ"),
    ("ɔ^ɪ", "Y"),
    ("t^ɕ", "ʨ"),
    ("d^ʑ", "ʥ"),
];

/// What the alphabet has in place of sounds that it lacks.
fn nearest(c: char) -> Option<&'static str> {
    Some(match c {
        'g' => "ɡ",
        'ʑ' => "ʒ",
        'ħ' | 'ɦ' => "h",
        'ʕ' => "ʔ",
        'ɫ' | 'ɭ' | 'ɬ' | 'ɮ' => "l",
        'ɧ' => "ʃ",
        'ʏ' => "y",
        'ɵ' | 'ɘ' => "ə",
        'ɞ' => "ɜ",
        'ʉ' => "u",
        'ʍ' => "w",
        'ɓ' => "b",
        'ɗ' => "d",
        'ɠ' => "ɡ",
        'ʀ' => "ʁ",
        'ɺ' => "ɾ",
        'ɱ' => "m",
        'ä' => "a",
        'ã' => "a\u{303}",
        'õ' => "o\u{303}",
        'ñ' => "ɲ",
        'ẽ' => "e\u{303}",
        'ĩ' => "i\u{303}",
        'ũ' => "u\u{303}",
        _ => return None,
    })
}

fn replace_tied(ipa: &str, table: &[(&str, &str)]) -> String {
    let mut out = ipa.to_owned();
    for (from, to) in table {
        if out.contains(from) {
            out = out.replace(from, to);
        }
    }
    out
}

/// IPA of any language but English.
pub(crate) fn general(ipa: &str) -> String {
    let tied = replace_tied(ipa, ONE_LETTER);
    let mut out = String::with_capacity(tied.len());
    for c in tied.chars() {
        match (c, nearest(c)) {
            (_, Some(symbols)) => out.push_str(symbols),
            ('^' | '-' | '_', None) => {}
            (c, None) => out.push(c),
        }
    }
    out
}

/// IPA of English in misaki's notation, which Kokoro's English voices were trained on.
pub(crate) fn english(ipa: &str, british: bool) -> String {
    // Syllabic consonants: "n̩" is "ᵊn".
    let mut text = String::with_capacity(ipa.len());
    for c in ipa.chars() {
        match c {
            '\u{329}' => {
                if let Some(consonant) = text.pop() {
                    text.push('ᵊ');
                    text.push(consonant);
                }
            }
            '\u{303}' | '-' | '_' => {}
            _ => text.push(c),
        }
    }
    let text = replace_tied(&text, &[("oː^ɹ", "ɔːɹ"), ("ɔː^ɹ", "ɔːɹ"), ("ɑː^ɹ", "ɑːɹ"), ("e^ə", "ɛː"), ("ə^l", "ᵊl")]);
    let text = replace_tied(&text, ONE_LETTER);
    let mut text = text.replace('^', "");
    for (from, to) in [
        ("ʲ", ""),
        ("ɚ", "əɹ"),
        ("ɐ", "ə"),
        ("r", "ɹ"),
        ("x", "k"),
        ("ç", "k"),
        ("ɬ", "l"),
        ("ʔ", "t"),
        ("ɾ", "T"),
        ("e", "A"),
        ("g", "ɡ"),
    ] {
        text = text.replace(from, to);
    }
    if british {
        text = text.replace("iə", "ɪə").replace('O', "Q").replace('T', "t").replace('o', "ɔ");
    } else {
        text = text
            .replace("ɜːɹ", "ɜɹ")
            .replace("ɜː", "ɜɹ")
            .replace("ɪə", "iə")
            .replace('ː', "")
            .replace('Q', "O")
            .replace('ɒ', "ɑ")
            .replace('o', "ɔ");
        // espeak's "a" is the American "æ" in loanwords too.
        text = text.replace('a', "ɑ");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn english_ipa_becomes_misakis_notation() {
        for (ipa, american) in [
            ("həlˈo^ʊ", "həlˈO"),
            ("wˈɜːld", "wˈɜɹld"),
            ("d^ʒˈʌd^ʒ", "ʤˈʌʤ"),
            ("bˈʌʔn̩", "bˈʌtᵊn"),
            ("ɡlˌoː^ɹpɪ", "ɡlˌɔɹpɪ"),
            ("tˈe^ɪbəl", "tˈAbəl"),
        ] {
            assert_eq!(english(ipa, false), american);
        }
        assert_eq!(english("ɡˈə^ʊt", true), "ɡˈQt");
    }

    #[test]
    fn all_that_comes_out_is_in_the_alphabet() {
        for ipa in ["prʲivʲˈet", "nˈɛs pˈa", "œ̃ bˈɔ̃", "ʎɪ ɲˈokːɪ", "nˌɐ̃^ʊ̃", "mʌˈħʕɫɦʉ", "t^ɕˈi", "kˈo̞"]
        {
            let mapped = crate::alphabet::keep(&general(ipa));
            assert!(!mapped.is_empty() && mapped.chars().all(crate::alphabet::contains), "{ipa} {mapped}");
        }
    }
}
