//! The tokens of a network: pieces of SentencePiece by the numbers that `vocab.json` gives them.

use std::collections::HashMap;
use std::path::Path;

use hark_weights::{FileError, WeightsFile};

use crate::sentencepiece::{SPACE, SentencePiece};

/// The longest vocabulary that is read: those of 65,000 pieces have 2 MB.
const MAX_JSON: usize = 64 << 20;
/// The piece of what has no piece.
const UNKNOWN: &str = "<unk>";
/// Pieces that are no text.
const SPECIAL: [&str; 5] = ["</s>", "<s>", UNKNOWN, "<pad>", "<mask>"];

/// Typographic marks and the plain ones that texts had in training, where Moses' normalization of punctuation replaced them.
const MARKS: [(char, &str); 14] = [
    ('’', "'"),
    ('‘', "'"),
    ('‚', "'"),
    ('´', "'"),
    ('“', "\""),
    ('”', "\""),
    ('„', "\""),
    ('«', "\""),
    ('»', "\""),
    ('–', "-"),
    ('‑', "-"),
    ('−', "-"),
    ('—', " - "),
    ('…', "..."),
];

/// How texts become tokens of a network, and its tokens texts.
pub struct Vocabulary {
    source: SentencePiece,
    /// The marks that it has no token for, and what is taken for them.
    marks: Vec<(char, &'static str)>,
    /// The token of each piece of the source.
    tokens: Vec<Option<u32>>,
    /// The text of each token; none for those that are no text.
    texts: Vec<Option<Box<str>>>,
    unknown: u32,
    end: u32,
}

impl Vocabulary {
    /// Reads `source.spm` and `vocab.json` in a folder. Target pieces are written as `vocab.json` spells them.
    pub fn load(folder: &Path) -> Result<Self, FileError> {
        let source = SentencePiece::load(&folder.join("source.spm"))?;
        let file = WeightsFile::open(&folder.join("vocab.json"))?;
        if file.bytes().len() > MAX_JSON {
            return Err(file.damaged("it is too large for a vocabulary"));
        }
        let ids: HashMap<String, u32> =
            serde_json::from_slice(file.bytes()).map_err(|error| file.damaged(error.to_string()))?;
        let find = |piece: &str| ids.get(piece).copied().ok_or_else(|| file.damaged(format!("it has no {piece}")));
        let (unknown, end) = (find(UNKNOWN)?, find("</s>")?);
        // The largest models have one piece for each number; a few numbers without a piece are padding.
        let words = ids.values().max().map_or(0, |last| *last as usize + 1);
        if words > 2 * ids.len() {
            return Err(file.damaged(format!("it has {} pieces and the number {}", ids.len(), words - 1)));
        }
        if let Some(code) = ids.keys().find(|piece| is_language_code(piece)) {
            let what = format!("it translates into several languages ({code}); only models of one are supported");
            return Err(file.unsupported(what));
        }
        let tokens = source.pieces().map(|(_, piece)| ids.get(piece).copied().filter(|token| *token != unknown));
        let tokens: Vec<Option<u32>> = tokens.collect();
        let mut texts: Vec<Option<Box<str>>> = vec![None; words];
        for (piece, token) in ids.into_iter().filter(|(piece, _)| !SPECIAL.contains(&piece.as_str())) {
            if texts[token as usize].replace(piece.into()).is_some() {
                return Err(file.damaged(format!("two pieces have the number {token}")));
            }
        }
        let mut vocabulary = Vocabulary { source, marks: Vec::new(), tokens, texts, unknown, end };
        let is_lacking = |(mark, plain): &(char, &str)| {
            !vocabulary.has_tokens(mark.encode_utf8(&mut [0; 4])) && vocabulary.has_tokens(plain)
        };
        vocabulary.marks = MARKS.into_iter().filter(is_lacking).collect();
        Ok(vocabulary)
    }

    /// Tokens of the vocabulary.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether the vocabulary has no tokens; one that was read has some.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The token of the end of a sentence.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// The token of what has no piece.
    pub fn unknown(&self) -> u32 {
        self.unknown
    }

    /// The tokens of a text, without the end of the sentence.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let is_mark = |c: char| self.marks.iter().any(|(mark, _)| *mark == c);
        let plain = text.contains(is_mark).then(|| {
            let marks = self.marks.iter();
            marks.fold(text.to_owned(), |text, (mark, plain)| text.replace(*mark, plain))
        });
        let pieces = self.source.encode(plain.as_deref().unwrap_or(text));
        pieces.iter().map(|piece| self.token(*piece).unwrap_or(self.unknown)).collect()
    }

    /// Whether a character has a token.
    pub fn knows(&self, character: char) -> bool {
        // Every vocabulary has pieces for most of ASCII; the rest of it is rare and harmless.
        let is_mark = || self.marks.iter().any(|(mark, _)| *mark == character);
        character.is_ascii() || is_mark() || self.has_tokens(character.encode_utf8(&mut [0; 4]))
    }

    /// The text of tokens; special tokens and numbers beyond the vocabulary have none.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let texts = tokens.iter().filter_map(|token| self.texts.get(*token as usize)?.as_deref());
        let text = texts.collect::<String>().replace(SPACE, " ");
        text.strip_prefix(' ').map(str::to_owned).unwrap_or(text)
    }

    /// Whether all pieces of a text have tokens.
    fn has_tokens(&self, text: &str) -> bool {
        self.source.encode(text).iter().all(|piece| self.token(*piece).is_some())
    }

    fn token(&self, piece: u32) -> Option<u32> {
        self.tokens.get(piece as usize).copied().flatten().filter(|_| piece != self.source.unknown())
    }
}

/// `>>fra<<`, which tells a model of several target languages into which to translate.
fn is_language_code(piece: &str) -> bool {
    let code = piece.strip_prefix(">>").and_then(|piece| piece.strip_suffix("<<"));
    code.is_some_and(|code| code.starts_with(|c: char| c.is_ascii_lowercase()))
}
