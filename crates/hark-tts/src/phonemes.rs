//! The phoneme alphabet of Kokoro: a character, an id.

use crate::TtsError;

/// Most phonemes of a sentence: 512 positions, of which the first and the last are padding.
pub const MAX_PHONEMES: usize = 510;
/// Rows of the embedding tables.
pub(crate) const SYMBOLS: usize = 178;
/// What stands before and after a sentence.
const PADDING: u32 = 0;

/// Runs of characters that have consecutive ids, with the first of those; the ids are those of the published model.
const ALPHABET: &[(u32, &str)] = &[
    (1, ";:,.!?"),
    (9, "—…\"()“” \u{303}ʣʥʦʨᵝꭧAI"),
    (31, "O"),
    (33, "Q"),
    (35, "ST"),
    (39, "W"),
    (41, "Yᵊabcdef"),
    (50, "hijklmnopqrstuvwxyzɑɐɒæ"),
    (75, "βɔɕç"),
    (80, "ɖðʤə"),
    (85, "ɚɛɜ"),
    (90, "ɟ"),
    (92, "ɡ"),
    (99, "ɥ"),
    (101, "ɨɪʝ"),
    (110, "ɯɰŋɳɲɴø"),
    (118, "ɸθœ"),
    (123, "ɹ"),
    (125, "ɾɻ"),
    (128, "ʁɽʂʃʈʧ"),
    (135, "ʊʋ"),
    (138, "ʌɣɤ"),
    (142, "χʎ"),
    (147, "ʒʔ"),
    (156, "ˈˌː"),
    (162, "ʰ"),
    (164, "ʲ"),
    (169, "↓"),
    (171, "→↗↘"),
    (177, "ᵻ"),
];

/// The id of a character, if the model has a sound for it.
pub fn phoneme_id(character: char) -> Option<u32> {
    ALPHABET.iter().find_map(|(first, run)| Some(first + run.chars().position(|known| known == character)? as u32))
}

/// Every character that the model has a sound for.
pub fn alphabet() -> impl Iterator<Item = char> {
    ALPHABET.iter().flat_map(|(_, run)| run.chars())
}

/// The ids of a sentence between its padding.
pub(crate) fn encode(phonemes: &str) -> Result<Vec<u32>, TtsError> {
    let found = phonemes.chars().count();
    if phonemes.trim().is_empty() {
        return Err(TtsError::Empty);
    }
    if found > MAX_PHONEMES {
        return Err(TtsError::TooLong { found, limit: MAX_PHONEMES });
    }
    let mut ids = vec![PADDING];
    for character in phonemes.chars() {
        ids.push(phoneme_id(character).ok_or(TtsError::UnknownPhoneme { character })?);
    }
    ids.push(PADDING);
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_has_the_ids_of_the_published_model() {
        assert_eq!(alphabet().count(), 114);
        let ids = |text: &str| text.chars().map(|c| phoneme_id(c).unwrap()).collect::<Vec<_>>();
        assert_eq!(ids(";?—”\u{303}I"), [1, 6, 9, 15, 17, 25]);
        assert_eq!(ids(" OQSTWYᵊaf"), [16, 31, 33, 35, 36, 39, 41, 42, 43, 48]);
        assert_eq!(ids("hzɑæβçɖəɚɜ"), [50, 68, 69, 72, 75, 78, 80, 83, 85, 87]);
        assert_eq!(ids("ɟɡɥɨʝɯøɸœɹ"), [90, 92, 99, 101, 103, 110, 116, 118, 120, 123]);
        assert_eq!(ids("ɾɻʁʧʊʋʌɤχʎ"), [125, 126, 128, 133, 135, 136, 138, 140, 142, 143]);
        assert_eq!(ids("ʒʔˈːʰʲ↓→↘ᵻ"), [147, 148, 156, 158, 162, 164, 169, 171, 173, 177]);
        assert_eq!(phoneme_id('g'), None, "the script g of the IPA is another character");
    }

    #[test]
    fn sentences_that_are_empty_too_long_or_of_other_letters_are_errors() {
        assert_eq!(encode("ə.").unwrap(), [0, 83, 4, 0]);
        assert!(matches!(encode(" \n"), Err(TtsError::Empty)));
        assert!(matches!(encode("əg"), Err(TtsError::UnknownPhoneme { character: 'g' })));
        assert!(encode(&"ə".repeat(510)).is_ok());
        assert!(matches!(encode(&"ə".repeat(511)), Err(TtsError::TooLong { found: 511, limit: 510 })));
    }
}
