//! Kokoro's phoneme alphabet: the symbols that its network knows. Their ids belong to the network's crate.

/// All symbols: punctuation, letters of misaki's and espeak's notation, stress and length marks, tones.
pub const SYMBOLS: &str = ";:,.!?—…\"()“” \u{303}ʣʥʦʨᵝ\u{ab67}AIOQSTWYᵊabcdefhijklmnopqrstuvwxyzɑɐɒæβɔɕçɖðʤəɚɛɜɟɡɥɨɪʝɯɰŋɳɲɴøɸθœɹɾɻʁɽʂʃʈʧʊʋʌɣɤχʎʒʔˈˌːʰʲ↓→↗↘ᵻ";

/// The most phonemes that the network takes at once.
pub const MAX_PHONEMES: usize = 510;

/// Whether the network has a symbol for this character.
pub fn contains(symbol: char) -> bool {
    SYMBOLS.contains(symbol)
}

/// Whether the symbol is a sign that makes a pause and no sound.
pub(crate) fn is_punctuation(symbol: char) -> bool {
    matches!(symbol, ';' | ':' | ',' | '.' | '!' | '?' | '—' | '…' | '"' | '(' | ')' | '“' | '”')
}

/// Drops what the alphabet does not have, and spaces that are doubled or at the edges.
pub(crate) fn keep(phonemes: &str) -> String {
    let mut out = String::with_capacity(phonemes.len());
    for c in phonemes.chars().filter(|&c| contains(c)) {
        if c == ' ' && (out.is_empty() || out.ends_with(' ')) {
            continue;
        }
        if matches!(c, ',' | '.' | ';' | ':' | '!' | '?' | '…') {
            out.truncate(out.trim_end_matches(' ').len());
        }
        out.push(c);
    }
    out.truncate(out.trim_end_matches(' ').len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_has_114_different_symbols() {
        let mut symbols: Vec<char> = SYMBOLS.chars().collect();
        symbols.sort_unstable();
        symbols.dedup();
        assert_eq!((symbols.len(), SYMBOLS.chars().count()), (114, 114));
    }

    #[test]
    fn unknown_symbols_and_doubled_spaces_are_dropped() {
        assert_eq!(keep("  həlˈO  ❓ ,  wˈɜɹld . "), "həlˈO, wˈɜɹld.");
    }
}
