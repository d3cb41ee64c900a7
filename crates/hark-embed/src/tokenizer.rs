//! The WordPiece tokenizer of BERT: `tokenizer.json`.
//!
//! Text is cleaned, lowercased and stripped of accents as the file says, split at white space and punctuation, and each word into the longest pieces that
//! the vocabulary has. What a text holds never becomes a control token, whatever it spells.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

use crate::EmbedError;
use crate::config::read_json;

/// `tokenizer.json`, as far as it matters here.
#[derive(Deserialize)]
struct File {
    normalizer: Option<Normalizer>,
    pre_tokenizer: Option<Typed>,
    model: WordPiece,
}

#[derive(Deserialize)]
struct Typed {
    r#type: String,
}

#[derive(Deserialize)]
struct Normalizer {
    r#type: String,
    #[serde(default)]
    clean_text: bool,
    #[serde(default)]
    handle_chinese_chars: bool,
    strip_accents: Option<bool>,
    #[serde(default)]
    lowercase: bool,
}

#[derive(Deserialize)]
struct WordPiece {
    r#type: String,
    unk_token: String,
    continuing_subword_prefix: String,
    max_input_chars_per_word: usize,
    vocab: HashMap<String, u32>,
}

/// Text to the tokens of one model.
pub struct Tokenizer {
    normalizer: Normalizer,
    /// Pieces that begin a word, and those that continue one, without the prefix.
    first: HashMap<String, u32>,
    next: HashMap<String, u32>,
    /// Characters of the longest piece.
    longest: usize,
    /// Characters of a word; a longer one is unknown.
    max_word: usize,
    unknown: u32,
    begin: u32,
    end: u32,
    largest: u32,
}

impl Tokenizer {
    /// Reads `tokenizer.json`.
    pub fn read(path: &Path) -> Result<Self, EmbedError> {
        let malformed = |what: String| EmbedError::malformed(path, what);
        let File { normalizer, pre_tokenizer, model } = read_json(path)?;
        let is_bert = |kind: &Option<Typed>| kind.as_ref().is_some_and(|kind| kind.r#type == "BertPreTokenizer");
        if model.r#type != "WordPiece" || !is_bert(&pre_tokenizer) {
            return Err(malformed("it is not a WordPiece tokenizer of BERT".to_owned()));
        }
        let normalizer = normalizer.filter(|normalizer| normalizer.r#type == "BertNormalizer");
        let normalizer = normalizer.ok_or_else(|| malformed("it has no normalizer of BERT".to_owned()))?;
        let special = |token: &str| {
            let found = model.vocab.get(token).copied();
            found.ok_or_else(|| malformed(format!("its vocabulary lacks {token}")))
        };
        let (unknown, begin, end) = (special(&model.unk_token)?, special("[CLS]")?, special("[SEP]")?);
        let (mut first, mut next, mut longest) = (HashMap::new(), HashMap::new(), 0);
        let largest = model.vocab.values().copied().max().unwrap_or(0);
        for (piece, id) in model.vocab {
            // Control tokens are in brackets, which are words of their own: no text spells them.
            longest = longest.max(piece.chars().count());
            match piece.strip_prefix(&model.continuing_subword_prefix) {
                Some(rest) if !rest.is_empty() => next.insert(rest.to_owned(), id),
                _ => first.insert(piece, id),
            };
        }
        let max_word = model.max_input_chars_per_word;
        Ok(Tokenizer { normalizer, first, next, longest, max_word, unknown, begin, end, largest })
    }

    /// The largest token.
    pub(crate) fn largest(&self) -> u32 {
        self.largest
    }

    /// The tokens of a text between `[CLS]` and `[SEP]`, at most `most` in all; whether it was cut.
    pub fn encode(&self, text: &str, most: usize) -> (Vec<u32>, bool) {
        let mut tokens = vec![self.begin];
        let room = most.saturating_sub(1);
        let mut is_cut = false;
        let mut word = String::new();
        for character in self.normalize(text) {
            let is_space = character.is_whitespace();
            let is_alone = is_punctuation(character);
            if is_space || is_alone {
                self.push_word(&mut word, &mut tokens);
            }
            if is_alone {
                word.push(character);
                self.push_word(&mut word, &mut tokens);
            } else if !is_space {
                word.push(character);
            }
            // A long text is not read to its end.
            if tokens.len() > room {
                is_cut = true;
                break;
            }
        }
        if !is_cut {
            self.push_word(&mut word, &mut tokens);
            is_cut = tokens.len() > room;
        }
        tokens.truncate(room);
        tokens.push(self.end);
        (tokens, is_cut)
    }

    fn normalize<'a>(&'a self, text: &'a str) -> Box<dyn Iterator<Item = char> + 'a> {
        let Normalizer { clean_text, handle_chinese_chars, strip_accents, lowercase, .. } = self.normalizer;
        let mut characters: Box<dyn Iterator<Item = char> + 'a> = Box::new(text.chars());
        if clean_text {
            let cleaned = characters.filter(|character| !is_removed(*character));
            characters = Box::new(cleaned.map(|character| if character.is_whitespace() { ' ' } else { character }));
        }
        if handle_chinese_chars {
            characters = Box::new(characters.flat_map(|character| {
                let is_ideograph = is_ideograph(character);
                let space = is_ideograph.then_some(' ');
                space.into_iter().chain([character]).chain(space)
            }));
        }
        if strip_accents.unwrap_or(lowercase) {
            let is_mark = |character: &char| character.general_category() == GeneralCategory::NonspacingMark;
            characters = Box::new(characters.nfd().filter(move |character| !is_mark(character)));
        }
        if lowercase {
            characters = Box::new(characters.flat_map(char::to_lowercase));
        }
        characters
    }

    /// Adds the pieces of a word and empties it.
    fn push_word(&self, word: &mut String, tokens: &mut Vec<u32>) {
        if word.is_empty() {
            return;
        }
        let before = tokens.len();
        let ends: Vec<usize> = word.char_indices().map(|(at, character)| at + character.len_utf8()).collect();
        let (mut at, mut character) = (0, 0);
        while ends.len() <= self.max_word && at < word.len() {
            let vocabulary = if at == 0 { &self.first } else { &self.next };
            let candidates = ends[character..].iter().take(self.longest).enumerate().rev();
            let found =
                candidates.filter_map(|(count, end)| Some((count, *end, *vocabulary.get(&word[at..*end])?))).next();
            let Some((count, end, id)) = found else { break };
            tokens.push(id);
            (at, character) = (end, character + count + 1);
        }
        if at < word.len() {
            // A word with a part that no piece covers is unknown as a whole.
            tokens.truncate(before);
            tokens.push(self.unknown);
        }
        word.clear();
    }
}

/// What cleaning removes: control and format characters, and what stands for nothing.
fn is_removed(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => false,
        '\0' | char::REPLACEMENT_CHARACTER => true,
        other => other.general_category_group() == GeneralCategoryGroup::Other,
    }
}

fn is_punctuation(character: char) -> bool {
    character.is_ascii_punctuation() || character.general_category_group() == GeneralCategoryGroup::Punctuation
}

/// The blocks of CJK ideographs that BERT sets apart; not kana and hangul.
fn is_ideograph(character: char) -> bool {
    matches!(character,
        '\u{4E00}'..='\u{9FFF}' | '\u{3400}'..='\u{4DBF}' | '\u{20000}'..='\u{2A6DF}' | '\u{2A700}'..='\u{2B73F}'
        | '\u{2B740}'..='\u{2B81F}' | '\u{2B920}'..='\u{2CEAF}' | '\u{F900}'..='\u{FAFF}' | '\u{2F800}'..='\u{2FA1F}')
}
