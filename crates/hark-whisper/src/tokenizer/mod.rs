//! Byte-level BPE for every Whisper checkpoint, multilingual and English-only.
//!
//! In comes a vocabulary from whatever file carried it; text becomes token ids and ids become text. Which
//! tokens a decoder may sample, and when, is none of its business.

mod bpe;
mod letters;
mod pieces;
mod vocabulary;
mod words;

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::languages::LANGUAGES;
pub use vocabulary::{Vocabulary, VocabularyError};

/// Special tokens that are not languages: end of text, start, two tasks, start of LM, start of previous text,
/// no speech, no timestamps, and 1501 timestamps from 0.00 to 30.00.
const OTHER_SPECIALS: usize = 8 + 1501;

/// Text to token ids and back, with Whisper's special tokens by name.
pub struct Tokenizer {
    /// `<|endoftext|>`; every text token is below it.
    pub eot: u32,
    /// `<|startoftranscript|>`.
    pub sot: u32,
    /// `<|translate|>`.
    pub translate: u32,
    /// `<|transcribe|>`.
    pub transcribe: u32,
    /// `<|startoflm|>`.
    pub sot_lm: u32,
    /// `<|startofprev|>`.
    pub sot_prev: u32,
    /// `<|nospeech|>`.
    pub no_speech: u32,
    /// `<|notimestamps|>`.
    pub no_timestamps: u32,
    /// `<|0.00|>`; each next token is 20 ms later.
    pub timestamp_begin: u32,
    vocabulary: Vocabulary,
    languages: Vec<&'static str>,
    /// Ids by their bytes; only encoding needs it, so it is made on first use.
    ids: OnceLock<HashMap<Vec<u8>, u32>>,
}

impl Tokenizer {
    /// Builds the tokenizer of a checkpoint from its vocabulary.
    pub fn new(vocabulary: &Vocabulary) -> Self {
        let eot = vocabulary.text_tokens() as u32;
        let languages: Vec<_> = LANGUAGES[..vocabulary.language_count()].iter().map(|language| language.code).collect();
        let after_languages = eot + 2 + languages.len() as u32;
        Self {
            eot,
            sot: eot + 1,
            translate: after_languages,
            transcribe: after_languages + 1,
            sot_lm: after_languages + 2,
            sot_prev: after_languages + 3,
            no_speech: after_languages + 4,
            no_timestamps: after_languages + 5,
            timestamp_begin: after_languages + 6,
            vocabulary: vocabulary.clone(),
            languages,
            ids: OnceLock::new(),
        }
    }

    /// Tokens in all, text and special.
    pub fn n_vocab(&self) -> usize {
        self.vocabulary.n_vocab()
    }

    /// Whether the checkpoint knows languages and tasks, or English only.
    pub fn is_multilingual(&self) -> bool {
        self.vocabulary.is_multilingual()
    }

    /// The codes of the languages that have a token, in the order of their tokens.
    pub fn languages(&self) -> &[&'static str] {
        &self.languages
    }

    /// The token of a language code such as `pt`.
    pub fn language_token(&self, code: &str) -> Option<u32> {
        let index = self.languages.iter().position(|known| *known == code)?;
        Some(self.sot + 1 + index as u32)
    }

    /// The language code a token stands for.
    pub fn language_of(&self, token: u32) -> Option<&'static str> {
        let index = token.checked_sub(self.sot + 1)?;
        self.languages.get(index as usize).copied()
    }

    /// The ids of a text; what looks like a special token in it is plain text.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let ids = self.ids.get_or_init(|| self.vocabulary.ids_by_bytes());
        let mut tokens = Vec::new();
        for piece in pieces::split(text) {
            bpe::merge(piece.as_bytes(), ids, &mut tokens);
        }
        tokens
    }

    /// The text of ids; special tokens are left out, bytes that are no UTF-8 become `U+FFFD`.
    pub fn decode(&self, tokens: &[u32]) -> String {
        String::from_utf8_lossy(&self.decode_bytes(tokens)).into_owned()
    }

    /// The bytes of ids; special tokens are left out.
    pub fn decode_bytes(&self, tokens: &[u32]) -> Vec<u8> {
        tokens.iter().flat_map(|token| self.vocabulary.bytes(*token)).copied().collect()
    }

    /// Tokens of symbols that subtitles and annotations use but nobody says, by OpenAI's rule.
    pub fn non_speech_tokens(&self) -> Vec<u32> {
        const SYMBOLS: &str = "\" # ( ) * + / : ; < = > @ [ \\ ] ^ _ ` { | } ~ 「 」 『 』 << >> <<< >>> -- --- -( -[ (' (\" \
                               (( )) ((( ))) [[ ]] {{ }} ♪♪ ♪♪♪";
        const MUSIC: &str = "♩ ♪ ♫ ♬ ♭ ♮ ♯";
        let mut found = vec![self.encode(" -")[0], self.encode(" '")[0]];
        let symbols = SYMBOLS.split_whitespace().map(|symbol| (symbol, false));
        for (symbol, is_music) in symbols.chain(MUSIC.split_whitespace().map(|symbol| (symbol, true))) {
            for tokens in [self.encode(symbol), self.encode(&format!(" {symbol}"))] {
                // The music signs share their first bytes with nothing spoken, so the first token is enough.
                if tokens.len() == 1 || is_music {
                    found.push(tokens[0]);
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Tokens a transcript never contains: the non-speech ones and the special ones that only begin a prompt.
    pub fn default_suppress_tokens(&self) -> Vec<u32> {
        let mut tokens = self.non_speech_tokens();
        tokens.extend([self.sot, self.translate, self.transcribe, self.sot_lm, self.sot_prev, self.no_speech]);
        tokens
    }

    /// Tokens a transcript never begins with: a lone space and the end of text.
    pub fn default_begin_suppress_tokens(&self) -> Vec<u32> {
        let mut tokens = self.encode(" ");
        tokens.push(self.eot);
        tokens
    }

    /// Words of a text with the tokens of each: split at spaces and punctuation, or at characters in languages
    /// written without spaces.
    pub fn split_to_word_tokens(&self, tokens: &[u32], language: &str) -> (Vec<String>, Vec<Vec<u32>>) {
        words::split(self, tokens, language)
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("n_vocab", &self.n_vocab())
            .field("languages", &self.languages.len())
            .finish_non_exhaustive()
    }
}
