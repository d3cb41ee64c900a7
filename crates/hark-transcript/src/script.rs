//! Writing systems, as far as text must be split into words.

/// Whether `c` belongs to a script written without spaces between words. Korean is wide but spaced, so it is not here.
pub fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0E00}'..='\u{0EFF}'     // Thai, Lao
        | '\u{0F00}'..='\u{0FFF}'   // Tibetan
        | '\u{1000}'..='\u{109F}'   // Myanmar
        | '\u{1780}'..='\u{17FF}'   // Khmer
        | '\u{2E80}'..='\u{2FDF}'   // radicals
        | '\u{3001}'..='\u{312F}'   // CJK punctuation, kana, bopomofo
        | '\u{31F0}'..='\u{31FF}'   // small katakana
        | '\u{3400}'..='\u{4DBF}'   // Han
        | '\u{4E00}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{FF00}'..='\u{FF9F}'   // full-width forms and half-width kana
        | '\u{20000}'..='\u{3FFFF}' // Han, supplementary planes
    )
}

#[cfg(test)]
mod tests {
    use super::is_unspaced;

    #[test]
    fn scripts_without_spaces_are_told_from_those_with_them() {
        for c in ['ก', 'ລ', 'ཀ', 'က', 'ក', '語', 'か', 'カ', '、', '，', '𠀀'] {
            assert!(is_unspaced(c), "{c}");
        }
        for c in ['a', 'é', 'я', 'ع', 'ह', '한', ' ', '.', '7'] {
            assert!(!is_unspaced(c), "{c}");
        }
    }
}
