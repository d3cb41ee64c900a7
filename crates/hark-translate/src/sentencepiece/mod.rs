//! SentencePiece: text to the tokens of a unigram vocabulary and back.
//!
//! Equal to the reference implementation token by token: the same normalization (`normalizer`), and the same best path over pieces (`unigram`).

mod file;
mod normalizer;
mod unigram;

use std::collections::HashMap;
use std::path::Path;

use hark_weights::{FileError, WeightsFile};

use normalizer::Normalizer;

/// What stands for a space in a piece.
pub(crate) const SPACE: char = '▁';

/// A vocabulary with its normalizer.
pub struct SentencePiece {
    pieces: Vec<Piece>,
    /// Pieces that text is cut into.
    index: HashMap<Box<str>, u32>,
    /// Characters of the longest piece.
    longest: usize,
    normalizer: Normalizer,
    unknown: u32,
    end: u32,
    /// The piece of each byte, where characters without a piece are cut into bytes.
    bytes: Option<Box<[u32; 256]>>,
    /// Least and largest score of normal pieces.
    scores: (f32, f32),
}

struct Piece {
    text: Box<str>,
    score: f32,
    kind: Kind,
}

/// What a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Unknown,
    /// Never part of a text: the end of a sentence.
    Control,
    /// Always one piece, whatever its score.
    UserDefined,
    Unused,
    /// One byte of a character that has no piece.
    Byte(u8),
}

impl SentencePiece {
    /// Reads a model file (`.spm`).
    pub fn load(path: &Path) -> Result<Self, FileError> {
        Self::from_file(&*WeightsFile::open(path)?)
    }

    /// Tokens of the vocabulary.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether the vocabulary has no tokens; a model that was read has some.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The token of the end of a sentence.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// All tokens with their pieces, as the file spells them.
    pub fn pieces(&self) -> impl Iterator<Item = (u32, &str)> {
        (0..).zip(&self.pieces).map(|(token, piece)| (token, &*piece.text))
    }

    /// The token of what has no piece.
    pub fn unknown(&self) -> u32 {
        self.unknown
    }

    /// The tokens of a text, without the end of the sentence.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let normalized = self.normalizer.normalize(text);
        let mut tokens = Vec::new();
        let mut was_unknown = false;
        for (range, token) in self.best_path(&normalized) {
            let is_unknown = token == self.unknown;
            match &self.bytes {
                Some(bytes) if is_unknown => {
                    tokens.extend(normalized[range].bytes().map(|byte| bytes[usize::from(byte)]));
                }
                // Neighbouring characters without a piece are one unknown token.
                _ if is_unknown && was_unknown => {}
                _ => tokens.push(token),
            }
            was_unknown = is_unknown;
        }
        tokens
    }

    /// Whether a character has a piece, or can be cut into bytes.
    pub fn knows(&self, character: char) -> bool {
        // Every vocabulary has pieces for most of ASCII; the rest of it is rare and harmless.
        character.is_ascii() || self.bytes.is_some() || {
            let normalized = self.normalizer.normalize(character.encode_utf8(&mut [0; 4]));
            self.best_path(&normalized).iter().all(|(_, token)| *token != self.unknown)
        }
    }

    /// The text of tokens; unknown tokens, control tokens and numbers beyond the vocabulary have none.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let mut text = Vec::new();
        for piece in tokens.iter().filter_map(|token| self.pieces.get(*token as usize)) {
            match piece.kind {
                Kind::Byte(byte) => text.push(byte),
                Kind::Control | Kind::Unknown | Kind::Unused => {}
                Kind::Normal | Kind::UserDefined => text.extend_from_slice(piece.text.as_bytes()),
            }
        }
        let text = String::from_utf8_lossy(&text).replace(SPACE, " ");
        text.strip_prefix(' ').map(str::to_owned).unwrap_or(text)
    }
}
