//! The model file: a protobuf message of pieces and of how text is normalized.

use std::collections::HashMap;

use hark_weights::protobuf::{Broken, Field, Fields};
use hark_weights::{FileError, WeightsFile};

use super::normalizer::{Charsmap, Normalizer};
use super::{Kind, Piece, SentencePiece};

/// Most pieces of a vocabulary; the largest published have 256,000.
const MAX_PIECES: usize = 1 << 20;
/// Most bytes of a piece: SentencePiece makes none of more than 16 characters, users define longer ones.
const MAX_PIECE: usize = 512;
/// Most pieces that a user defined: each is looked for at every character. Multilingual models have a tag for each language.
const MAX_USER_DEFINED: usize = 4096;
/// The number of unigram models in `TrainerSpec.model_type`.
const UNIGRAM: u64 = 1;

/// What the training and normalizer specs say, with the defaults of the format.
struct Specs {
    model_type: u64,
    is_whitespace_suffix: bool,
    has_byte_fallback: bool,
    charsmap: Vec<u8>,
    add_dummy_prefix: bool,
    remove_extra_whitespaces: bool,
    escape_whitespaces: bool,
}

impl SentencePiece {
    /// Reads a model from a file that is mapped already.
    pub fn from_file(file: &WeightsFile) -> Result<Self, FileError> {
        let (pieces, specs) = read(file)?;
        if specs.model_type != UNIGRAM {
            return Err(file.unsupported("only unigram SentencePiece models are supported"));
        }
        if specs.is_whitespace_suffix || !specs.escape_whitespaces {
            return Err(file.unsupported("its pieces treat spaces in an unusual way"));
        }
        let mut index = HashMap::new();
        let (mut unknown, mut end) = (None, None);
        let mut byte_pieces = [None; 256];
        let (mut least, mut largest) = (f32::MAX, f32::MIN);
        for (token, piece) in (0u32..).zip(&pieces) {
            match piece.kind {
                Kind::Normal => (least, largest) = (least.min(piece.score), largest.max(piece.score)),
                Kind::Unknown => unknown = Some(token),
                Kind::Control if &*piece.text == "</s>" => end = Some(token),
                Kind::Byte(byte) => byte_pieces[usize::from(byte)] = Some(token),
                Kind::Control | Kind::UserDefined | Kind::Unused => {}
            }
            if matches!(piece.kind, Kind::Normal | Kind::UserDefined | Kind::Unused) {
                index.insert(piece.text.clone(), token);
            }
        }
        let (Some(unknown), Some(end)) = (unknown, end) else {
            return Err(file.damaged("it has no unknown token or no end of a sentence"));
        };
        let bytes = match specs.has_byte_fallback {
            false => None,
            true => {
                let bytes: Option<Vec<u32>> = byte_pieces.into_iter().collect();
                let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
                Some(bytes.ok_or_else(|| file.damaged("it lacks pieces for some bytes"))?)
            }
        };
        let user_defined: Vec<Box<str>> =
            pieces.iter().filter(|piece| piece.kind == Kind::UserDefined).map(|piece| piece.text.clone()).collect();
        if user_defined.len() > MAX_USER_DEFINED {
            return Err(file.unsupported(format!("it has more than {MAX_USER_DEFINED} user-defined pieces")));
        }
        let normalizer = Normalizer {
            charsmap: Charsmap::read(&specs.charsmap)
                .ok_or_else(|| file.damaged("its normalization rules are broken"))?,
            user_defined,
            add_dummy_prefix: specs.add_dummy_prefix,
            remove_extra_whitespaces: specs.remove_extra_whitespaces,
        };
        let longest = index.keys().map(|piece| piece.chars().count()).max().unwrap_or(0);
        Ok(SentencePiece { pieces, index, longest, normalizer, unknown, end, bytes, scores: (least, largest) })
    }
}

fn read(file: &WeightsFile) -> Result<(Vec<Piece>, Specs), FileError> {
    let broken = |_: Broken| file.damaged("it is no SentencePiece model");
    let mut pieces = Vec::new();
    let mut specs = Specs {
        model_type: UNIGRAM,
        is_whitespace_suffix: false,
        has_byte_fallback: false,
        charsmap: Vec::new(),
        add_dummy_prefix: true,
        remove_extra_whitespaces: true,
        escape_whitespaces: true,
    };
    for field in Fields::new(file.bytes()) {
        match field.map_err(broken)? {
            (1, Field::Bytes(message)) => {
                if pieces.len() == MAX_PIECES {
                    return Err(file.damaged(format!("it has more than {MAX_PIECES} pieces")));
                }
                pieces.push(piece(file, message)?);
            }
            (2, Field::Bytes(trainer)) => {
                for field in Fields::new(trainer) {
                    match field.map_err(broken)? {
                        (3, Field::Number(value)) => specs.model_type = value,
                        (24, Field::Number(value)) => specs.is_whitespace_suffix = value != 0,
                        (35, Field::Number(value)) => specs.has_byte_fallback = value != 0,
                        _ => {}
                    }
                }
            }
            (3, Field::Bytes(normalizer)) => {
                for field in Fields::new(normalizer) {
                    match field.map_err(broken)? {
                        (2, Field::Bytes(charsmap)) => specs.charsmap = charsmap.to_vec(),
                        (3, Field::Number(value)) => specs.add_dummy_prefix = value != 0,
                        (4, Field::Number(value)) => specs.remove_extra_whitespaces = value != 0,
                        (5, Field::Number(value)) => specs.escape_whitespaces = value != 0,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok((pieces, specs))
}

fn piece(file: &WeightsFile, message: &[u8]) -> Result<Piece, FileError> {
    let (mut text, mut score, mut kind) = ("", 0.0, 1);
    for field in Fields::new(message) {
        match field.map_err(|_| file.damaged("a piece is broken"))? {
            (1, Field::Bytes(bytes)) => {
                text = std::str::from_utf8(bytes).map_err(|_| file.damaged("a piece is not UTF-8"))?;
            }
            (2, Field::Four(bytes)) => score = f32::from_le_bytes(bytes),
            (3, Field::Number(number)) => kind = number,
            _ => {}
        }
    }
    if text.is_empty() || text.len() > MAX_PIECE || !score.is_finite() {
        return Err(file.damaged(format!("a piece has {} bytes and the score {score}", text.len())));
    }
    let byte = || {
        let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
        u8::from_str_radix(digits, 16).ok().map(Kind::Byte)
    };
    let kind = match kind {
        1 => Some(Kind::Normal),
        2 => Some(Kind::Unknown),
        3 => Some(Kind::Control),
        4 => Some(Kind::UserDefined),
        5 => Some(Kind::Unused),
        6 => byte(),
        _ => None,
    };
    let kind = kind.ok_or_else(|| file.damaged(format!("the piece {text} has an unknown type")))?;
    Ok(Piece { text: text.into(), score, kind })
}
