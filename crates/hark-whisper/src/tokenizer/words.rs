//! Cutting a decoded text into words that own whole tokens.

use super::Tokenizer;

/// Languages written without spaces between words: every character is its own word.
const WITHOUT_SPACES: [&str; 6] = ["zh", "ja", "th", "lo", "my", "yue"];

/// ASCII punctuation in the order of Python's `string.punctuation`, whose substrings OpenAI's rule looks for.
const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

pub(super) fn split(tokenizer: &Tokenizer, tokens: &[u32], language: &str) -> (Vec<String>, Vec<Vec<u32>>) {
    let (parts, part_tokens) = at_whole_characters(tokenizer, tokens);
    if WITHOUT_SPACES.contains(&language) {
        return (parts, part_tokens);
    }
    let mut words: Vec<String> = Vec::new();
    let mut word_tokens: Vec<Vec<u32>> = Vec::new();
    for (part, tokens) in parts.into_iter().zip(part_tokens) {
        let is_special = tokens.first().is_some_and(|token| *token >= tokenizer.eot);
        let begins_word = is_special || part.starts_with(' ') || PUNCTUATION.contains(part.trim());
        match (words.last_mut(), word_tokens.last_mut()) {
            (Some(word), Some(of_word)) if !begins_word => {
                word.push_str(&part);
                of_word.extend(tokens);
            }
            _ => {
                words.push(part);
                word_tokens.push(tokens);
            }
        }
    }
    (words, word_tokens)
}

/// The shortest runs of tokens whose bytes are whole characters; what is no UTF-8 at all is not waited for.
fn at_whole_characters(tokenizer: &Tokenizer, tokens: &[u32]) -> (Vec<String>, Vec<Vec<u32>>) {
    let (mut parts, mut part_tokens) = (Vec::new(), Vec::new());
    let mut run = Vec::new();
    let mut bytes = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        run.push(*token);
        bytes.extend_from_slice(tokenizer.vocabulary.bytes(*token));
        let waits = std::str::from_utf8(&bytes).is_err_and(|error| error.error_len().is_none());
        let next_is_text = tokens.get(i + 1).is_some_and(|next| *next < tokenizer.eot);
        if !waits || !next_is_text {
            parts.push(String::from_utf8_lossy(&bytes).into_owned());
            part_tokens.push(std::mem::take(&mut run));
            bytes.clear();
        }
    }
    (parts, part_tokens)
}
