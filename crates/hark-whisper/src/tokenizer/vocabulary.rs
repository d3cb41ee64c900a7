//! The text tokens of a checkpoint as bytes, from any of the files that carry them.
//!
//! GPT-2's vocabulary lists its tokens in the order they were merged, so a token's id is its rank and no list of
//! merges is needed.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::OTHER_SPECIALS;
use crate::languages::LANGUAGES;

/// Vocabulary files larger than this hold something else.
const MOST_BYTES: u64 = 64 << 20;

/// The text tokens of a checkpoint and the size of its whole vocabulary; cheap to clone.
#[derive(Clone)]
pub struct Vocabulary {
    n_vocab: usize,
    text: Arc<TextTokens>,
}

/// All tokens' bytes in one piece: token `i` ends where `ends[i]` says.
struct TextTokens {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

/// Why a vocabulary could not be used.
#[derive(Debug, thiserror::Error)]
pub enum VocabularyError {
    /// No vocabulary file is beside the weights.
    #[error(
        "no vocabulary in {folder}: expected vocabulary.txt, vocabulary.json, vocab.json or tokenizer.json; pull the model again"
    )]
    Missing {
        /// The folder of the weights.
        folder: PathBuf,
    },
    /// The vocabulary file makes no sense.
    #[error("{path} is damaged: {what}; remove the model and pull it again")]
    Damaged {
        /// The vocabulary file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The vocabulary and the weights do not belong together.
    #[error("a vocabulary of {tokens} tokens does not fit weights with {n_vocab}: they are from different models")]
    WrongSize {
        /// Tokens in the vocabulary file.
        tokens: usize,
        /// Tokens in the weights.
        n_vocab: usize,
    },
}

impl Vocabulary {
    /// Reads the vocabulary beside the weights in `folder` (or, as transformers.js lays it out, one folder above).
    pub fn open(folder: &Path, n_vocab: usize) -> Result<Self, VocabularyError> {
        let above = folder.parent().filter(|_| folder.ends_with("onnx"));
        for folder in [Some(folder), above].into_iter().flatten() {
            for name in ["vocabulary.txt", "vocabulary.json", "vocab.json", "tokenizer.json"] {
                let path = folder.join(name);
                if path.is_file() {
                    let damaged = |what: String| VocabularyError::Damaged { path: path.clone(), what };
                    let written = read_strings(&path).map_err(damaged)?;
                    let order = byte_order();
                    let tokens = written.iter().map(|token| unmap(token, &order)).collect();
                    return Self::from_tokens(n_vocab, tokens);
                }
            }
        }
        Err(VocabularyError::Missing { folder: folder.to_owned() })
    }

    /// Makes a vocabulary of tokens in the order of their ids; special tokens at the end are ignored.
    pub fn from_tokens(n_vocab: usize, tokens: Vec<Vec<u8>>) -> Result<Self, VocabularyError> {
        let wrong = VocabularyError::WrongSize { tokens: tokens.len(), n_vocab };
        // OpenAI's rule: 51864 is English-only with GPT-2's 50256 tokens, more is multilingual with 50257.
        let text_tokens = match n_vocab {
            51864 => 50256,
            51865 | 51866 => 50257,
            _ => match tokens.iter().position(|token| token == b"<|endoftext|>") {
                Some(end) => end,
                None => return Err(wrong),
            },
        };
        let languages = n_vocab.checked_sub(text_tokens + OTHER_SPECIALS);
        let languages_fit = languages.is_some_and(|n| (1..=LANGUAGES.len()).contains(&n));
        if tokens.len() < text_tokens || tokens.len() > n_vocab || !languages_fit {
            return Err(wrong);
        }
        let mut text = TextTokens { bytes: Vec::new(), ends: Vec::with_capacity(text_tokens) };
        for token in &tokens[..text_tokens] {
            text.bytes.extend_from_slice(token);
            text.ends.push(text.bytes.len() as u32);
        }
        Ok(Self { n_vocab, text: Arc::new(text) })
    }

    /// A vocabulary whose only text tokens are the 256 bytes, for networks that are not from a file.
    ///
    /// # Panics
    /// When `n_vocab` has no room for the bytes and the special tokens of 99 languages.
    pub fn bytes_only(n_vocab: usize) -> Self {
        let languages = if n_vocab == 51866 { 100 } else { 99 };
        let text_tokens = n_vocab
            .checked_sub(OTHER_SPECIALS + languages)
            .filter(|count| *count >= 256)
            .expect("room for 256 bytes and the special tokens");
        let mut text = TextTokens { bytes: byte_order().to_vec(), ends: (1..=256).collect() };
        text.ends.resize(text_tokens, 256);
        Self { n_vocab, text: Arc::new(text) }
    }

    /// Tokens in all, text and special.
    pub fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    /// Tokens that stand for text; their ids begin at 0.
    pub fn text_tokens(&self) -> usize {
        self.text.ends.len()
    }

    /// Languages that have a token.
    pub fn language_count(&self) -> usize {
        self.n_vocab - self.text_tokens() - OTHER_SPECIALS
    }

    /// Whether the checkpoint is multilingual; English-only ones have 51864 tokens.
    pub fn is_multilingual(&self) -> bool {
        self.n_vocab != 51864
    }

    /// The bytes of a text token; nothing for special ones.
    pub fn bytes(&self, token: u32) -> &[u8] {
        let token = token as usize;
        let Some(end) = self.text.ends.get(token) else {
            return &[];
        };
        let start = if token == 0 { 0 } else { self.text.ends[token - 1] };
        &self.text.bytes[start as usize..*end as usize]
    }

    pub(super) fn ids_by_bytes(&self) -> HashMap<Vec<u8>, u32> {
        let mut ids = HashMap::with_capacity(self.text_tokens());
        for id in 0..self.text_tokens() as u32 {
            ids.entry(self.bytes(id).to_vec()).or_insert(id);
        }
        ids.remove(&b""[..]);
        ids
    }
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vocabulary").field("n_vocab", &self.n_vocab).field("text_tokens", &self.text_tokens()).finish()
    }
}

#[derive(Deserialize)]
struct TokenizerFile {
    model: TokenizerModel,
}

#[derive(Deserialize)]
struct TokenizerModel {
    vocab: HashMap<String, u32>,
}

/// Tokens as a file writes them, in the order of their ids.
fn read_strings(path: &Path) -> Result<Vec<String>, String> {
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > MOST_BYTES {
        return Err(format!("{size} bytes is too large for a vocabulary"));
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let explain = |error: serde_json::Error| error.to_string();
    match path.file_name().and_then(|name| name.to_str()) {
        Some("vocabulary.txt") => Ok(text.lines().map(str::to_owned).collect()),
        Some("vocabulary.json") => serde_json::from_str(&text).map_err(explain),
        Some("vocab.json") => in_order(serde_json::from_str(&text).map_err(explain)?),
        _ => {
            let file: TokenizerFile = serde_json::from_str(&text).map_err(explain)?;
            in_order(file.model.vocab)
        }
    }
}

fn in_order(ids: HashMap<String, u32>) -> Result<Vec<String>, String> {
    let mut tokens = vec![None; ids.len()];
    for (token, id) in ids {
        let place = tokens.get_mut(id as usize).ok_or(format!("id {id} of {token:?} is out of order"))?;
        *place = Some(token);
    }
    let missing = tokens.iter().position(Option::is_none);
    match missing {
        Some(id) => Err(format!("no token has id {id}")),
        None => Ok(tokens.into_iter().flatten().collect()),
    }
}

/// The bytes in the order of GPT-2's first 256 tokens: printable ones first, the others after them.
fn byte_order() -> [u8; 256] {
    let printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut order = [0; 256];
    let all = (0..=255u8).filter(printable).chain((0..=255u8).filter(|byte| !printable(byte)));
    for (place, byte) in order.iter_mut().zip(all) {
        *place = byte;
    }
    order
}

/// The bytes a vocabulary file means by a token: it writes bytes that are not printable as letters from `U+0100` on.
fn unmap(written: &str, order: &[u8; 256]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(written.len());
    for letter in written.chars() {
        match u32::from(letter) {
            code @ 0x100..=0x143 => bytes.push(order[188 + (code as usize - 0x100)]),
            code @ 0x21..=0xff => bytes.push(code as u8),
            // Not a byte's letter: a special token written as it is.
            _ => bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}
