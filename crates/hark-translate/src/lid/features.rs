//! The features of a text: words, character n-grams, and the rows of the input matrix that stand for them.
//!
//! Everything here is as fastText does it, down to the sign extension in its hash: the rows of a trained model mean nothing otherwise.

use super::model::Model;

/// What fastText appends to every line.
const END_OF_SENTENCE: &str = "</s>";
/// Labels inside a text are no words.
const LABEL_PREFIX: &str = "__label__";

/// FNV-1a of 32 bits, whose bytes are sign-extended as fastText's `int8_t` are.
pub(super) fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(2_166_136_261, |hash, byte| (hash ^ i32::from(*byte as i8) as u32).wrapping_mul(16_777_619))
}

/// What separates words; a NUL does too.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | 0x0b | 0x0c | 0)
}

impl Model {
    /// The rows of the input matrix for a text, taken as one line.
    pub(super) fn rows_of(&self, text: &str) -> Vec<u32> {
        let mut rows = Vec::new();
        let mut bounded = Vec::new();
        let words = text.as_bytes().split(|byte| is_space(*byte)).filter(|word| !word.is_empty());
        for word in words.take_while(|word| *word != END_OF_SENTENCE.as_bytes()) {
            match self.word_row(word) {
                Some(row) => rows.push(row),
                None if word.starts_with(LABEL_PREFIX.as_bytes()) => continue,
                None => {}
            }
            bounded.clear();
            bounded.push(b'<');
            bounded.extend_from_slice(word);
            bounded.push(b'>');
            self.ngram_rows(&bounded, &mut rows);
        }
        rows.extend(self.word_row(END_OF_SENTENCE.as_bytes()));
        rows
    }

    /// Adds the rows of the character n-grams of a word between `<` and `>`.
    fn ngram_rows(&self, word: &[u8], rows: &mut Vec<u32>) {
        let is_continuation = |at: usize| word.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
        for start in (0..word.len()).filter(|at| !is_continuation(*at)) {
            let mut end = start;
            for length in 1..=*self.ngrams.end() {
                if end == word.len() {
                    break;
                }
                end += 1;
                while is_continuation(end) {
                    end += 1;
                }
                let is_edge = length == 1 && (start == 0 || end == word.len());
                if self.ngrams.contains(&length) && !is_edge {
                    rows.extend(self.bucket_row(hash(&word[start..end]) % self.buckets));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn the_hash_extends_the_sign_of_bytes_beyond_ascii() {
        assert_eq!(hash(b""), 2_166_136_261);
        // FNV-1a of "a"; and a byte of 0x80 changes the upper bits too.
        assert_eq!(hash(b"a"), 0xe40c_292c);
        assert_eq!(hash(&[0x80]), (2_166_136_261 ^ 0xffff_ff80u32).wrapping_mul(16_777_619));
    }
}
