//! Text to tokens and back: byte-level BPE or SentencePiece's BPE from the vocabulary of a GGUF file.

mod bpe;
mod split;
mod spm;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use hark_weights::gguf::{GgufModel, Value};
use hark_weights::{FileError, WeightsFile};

use crate::config::Metadata;
use bpe::Merges;
use split::PreTokenizer;
use spm::Spm;

/// ggml's number for the token of unknown characters.
const UNKNOWN: u64 = 2;
/// ggml's number for tokens that steer the model and stand for no text.
const CONTROL: u64 = 3;
/// ggml's number for tokens that someone added to the vocabulary.
const USER_DEFINED: u64 = 4;

/// ggml's number for numbers of the vocabulary that mean nothing.
const UNUSED: u64 = 5;
/// ggml's number for SentencePiece's tokens of single bytes.
const BYTE: u64 = 6;
/// What SentencePiece writes for a space.
const SPM_SPACE: &str = "\u{2581}";

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Control,
    Added,
}

/// The vocabulary of a model.
pub struct Tokenizer {
    /// The bytes of each token; the name of a control token.
    tokens: Vec<(Vec<u8>, Kind)>,
    by_bytes: HashMap<Vec<u8>, u32>,
    /// Control and added tokens by their first byte, longest first.
    special: HashMap<u8, Vec<u32>>,
    encoding: Encoding,
    bos: Option<u32>,
    eos: Option<u32>,
    adds_bos: bool,
    ends: Vec<u32>,
    chat_template: Option<String>,
}

/// How texts become tokens.
enum Encoding {
    /// Words of bytes that merge by rank.
    Bpe { merges: Box<Merges>, pre_tokenizer: PreTokenizer },
    /// Characters that merge by score.
    Spm(Box<Spm>),
}

/// Names of tokens that end an answer, whatever the file calls its end of sequence.
const END_NAMES: [&str; 6] =
    ["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|end_of_text|>"];

/// Whether a token of this name steers the model, whatever the file says that it is: Gemma's files have `<start_of_turn>` as text that somebody added.
fn steers(name: &str) -> bool {
    END_NAMES.contains(&name) || (name.starts_with('<') && name.ends_with("_turn>"))
}

impl Tokenizer {
    /// Reads the vocabulary of the GGUF file at `path`, which may have no weights.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let file = WeightsFile::open(path)?;
        Self::from_gguf(path, &GgufModel::read(&file)?)
    }

    /// Reads the vocabulary of a file.
    pub(crate) fn from_gguf(file: &Path, gguf: &GgufModel) -> Result<Self, FileError> {
        let metadata = Metadata { file, values: &gguf.metadata };
        let model = metadata.text("tokenizer.ggml.model")?;
        let is_spm = match model {
            "gpt2" => false,
            "llama" => true,
            other => {
                let what = format!("tokenizer {other:?} is not supported (\"gpt2\" and \"llama\" are)");
                return Err(FileError::unsupported(file, what));
            }
        };
        let damaged = |what: &str| FileError::damaged(file, what);
        let array = |key: &str| match gguf.metadata.get(key) {
            Some(Value::Array(values)) => Some(values),
            _ => None,
        };
        let names = array("tokenizer.ggml.tokens").ok_or_else(|| damaged("it has no vocabulary"))?;
        let kinds = array("tokenizer.ggml.token_type");
        let bytes_of = bpe::bytes_of_characters();
        let mut tokens = Vec::with_capacity(names.len());
        let mut byte_tokens = HashSet::new();
        for (index, name) in names.iter().enumerate() {
            let name = name.as_str().ok_or_else(|| damaged("its vocabulary is no text"))?;
            let number = kinds.and_then(|kinds| kinds.get(index)).and_then(Value::as_u64);
            let kind = match number {
                _ if steers(name) => Kind::Control,
                Some(CONTROL | UNUSED) => Kind::Control,
                Some(UNKNOWN) if is_spm => Kind::Control,
                Some(USER_DEFINED) => Kind::Added,
                _ => Kind::Text,
            };
            let bytes = match (kind, is_spm) {
                (Kind::Text, true) if number == Some(BYTE) => spm::byte_of(name).map(|byte| vec![byte]),
                (Kind::Text | Kind::Added, true) => Some(name.replace(SPM_SPACE, " ").into_bytes()),
                // Characters outside of the byte alphabet stand for themselves, as in added tokens.
                (Kind::Text, false) => name.chars().map(|c| bytes_of.get(&c).copied()).collect::<Option<Vec<u8>>>(),
                (Kind::Control, _) | (Kind::Added, false) => None,
            };
            tokens.push((bytes.unwrap_or_else(|| name.as_bytes().to_vec()), kind));
            if is_spm && number == Some(BYTE) {
                byte_tokens.insert(index as u32);
            }
        }
        let mut by_bytes = HashMap::with_capacity(tokens.len());
        let mut special: HashMap<u8, Vec<u32>> = HashMap::new();
        for (index, (bytes, kind)) in tokens.iter().enumerate() {
            match (kind, bytes.first()) {
                // SentencePiece falls back to bytes; they never merge.
                (Kind::Text, _) if byte_tokens.contains(&(index as u32)) => {}
                (Kind::Text, _) => _ = by_bytes.entry(bytes.clone()).or_insert(index as u32),
                (_, Some(first)) => special.entry(*first).or_default().push(index as u32),
                _ => {}
            }
        }
        special
            .values_mut()
            .for_each(|all| all.sort_by_key(|token| std::cmp::Reverse(tokens[*token as usize].0.len())));
        let token = |key: &str| {
            let token = gguf.metadata.get(key)?.as_u64().filter(|token| *token < tokens.len() as u64)?;
            Some(token as u32)
        };
        let flag = |key: &str| match gguf.metadata.get(key) {
            Some(Value::Bool(flag)) => Some(*flag),
            _ => None,
        };
        let encoding = if is_spm {
            let scores = array("tokenizer.ggml.scores").ok_or_else(|| damaged("its vocabulary has no scores"))?;
            let score = |value: &Value| if let Value::Float(score) = value { *score as f32 } else { 0.0 };
            let byte =
                |byte: usize| byte_tokens.iter().copied().find(|token| tokens[*token as usize].0 == [byte as u8]);
            Encoding::Spm(Box::new(Spm {
                scores: scores.iter().map(score).collect(),
                bytes: std::array::from_fn(byte),
                unknown: token("tokenizer.ggml.unknown_token_id"),
                adds_space: flag("tokenizer.ggml.add_space_prefix").unwrap_or(true),
                strips_after_control: metadata.text_or("general.architecture", "")? == "phi3",
            }))
        } else {
            let pre = metadata.text_or("tokenizer.ggml.pre", "default")?;
            let Some(pre_tokenizer) = PreTokenizer::by_name(pre) else {
                return Err(FileError::unsupported(file, format!("pre-tokenizer {pre:?} is not supported")));
            };
            let merges = array("tokenizer.ggml.merges").ok_or_else(|| damaged("its vocabulary has no merges"))?;
            let merges = Merges::read(merges.iter().filter_map(Value::as_str), &by_bytes, &bytes_of);
            Encoding::Bpe { merges: Box::new(merges), pre_tokenizer }
        };
        let mut ends: Vec<u32> = ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"]
            .into_iter()
            .filter_map(token)
            .chain(
                special
                    .values()
                    .flatten()
                    .copied()
                    .filter(|token| END_NAMES.iter().any(|name| name.as_bytes() == tokens[*token as usize].0)),
            )
            .collect();
        ends.sort_unstable();
        ends.dedup();
        let adds_bos = flag("tokenizer.ggml.add_bos_token").unwrap_or(match &encoding {
            Encoding::Bpe { pre_tokenizer, .. } => pre_tokenizer.adds_bos(),
            Encoding::Spm(_) => true,
        });
        let bos = token("tokenizer.ggml.bos_token_id");
        let eos = token("tokenizer.ggml.eos_token_id");
        let chat_template = gguf.metadata.get("tokenizer.chat_template").and_then(Value::as_str).map(str::to_owned);
        Ok(Tokenizer { tokens, by_bytes, special, encoding, bos, eos, adds_bos, ends, chat_template })
    }

    /// Tokens of the vocabulary.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether the vocabulary is empty.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The token that a sequence begins with, where the model was trained so.
    pub fn bos(&self) -> Option<u32> {
        self.bos.filter(|_| self.adds_bos)
    }

    /// The file's token for the beginning of a text, whether or not sequences begin with it.
    pub(crate) fn bos_token(&self) -> Option<u32> {
        self.bos
    }

    /// The file's token for the end of a text.
    pub(crate) fn eos_token(&self) -> Option<u32> {
        self.eos
    }

    /// The name of a control token, the text of any other.
    pub(crate) fn name(&self, token: u32) -> Cow<'_, str> {
        self.tokens.get(token as usize).map_or(Cow::Borrowed(""), |(bytes, _)| String::from_utf8_lossy(bytes))
    }

    /// Whether a token steers the model and stands for no text.
    pub fn is_control(&self, token: u32) -> bool {
        self.tokens.get(token as usize).is_some_and(|(_, kind)| *kind == Kind::Control)
    }

    /// The control or added token whose name a text begins with, and the length of that.
    pub(crate) fn control_at(&self, text: &str) -> Option<(u32, usize)> {
        let bytes = text.as_bytes();
        let length = |token: &u32| self.tokens[*token as usize].0.len();
        let mut candidates = self.special.get(bytes.first()?)?.iter().copied();
        let token = candidates.find(|token| bytes.starts_with(&self.tokens[*token as usize].0))?;
        Some((token, length(&token)))
    }

    /// Text tokens with their bytes: what an answer is made of.
    pub(crate) fn text_tokens(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let texts =
            self.tokens.iter().enumerate().filter(|(_, (bytes, kind))| *kind == Kind::Text && !bytes.is_empty());
        texts.map(|(token, (bytes, _))| (token as u32, bytes.as_slice()))
    }

    /// Tokens that end an answer.
    pub(crate) fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Whether a token ends an answer.
    pub fn is_end(&self, token: u32) -> bool {
        self.ends.binary_search(&token).is_ok()
    }

    /// The template of chats that the file carries.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// The tokens of a text. Nothing in it becomes a control token: use this for everything that users wrote.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut out = Vec::new();
        self.encode_plain(text, true, &mut out);
        out
    }

    /// The tokens of a text that goes on behind others: no space is put in front of it.
    pub(crate) fn encode_continuation(&self, text: &str) -> Vec<u32> {
        let mut out = Vec::new();
        self.encode_plain(text, false, &mut out);
        out
    }

    /// The tokens of a text in which names of control tokens (`<|im_start|>`) stand for those tokens: for templates only.
    pub fn encode_with_control(&self, text: &str) -> Vec<u32> {
        let (mut out, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(c) = rest.chars().next() {
            match self.control_at(rest) {
                Some((token, length)) => {
                    self.encode_plain(&plain, true, &mut out);
                    plain.clear();
                    out.push(token);
                    rest = self.behind_control(token, &rest[length..]);
                }
                None => {
                    plain.push(c);
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
        self.encode_plain(&plain, true, &mut out);
        out
    }

    /// What counts of the text that a template has behind a control token.
    pub(crate) fn behind_control<'t>(&self, token: u32, text: &'t str) -> &'t str {
        const KEEP: [&[u8]; 3] = [b"<unk>", b"<s>", b"<|endoftext|>"];
        let strips = matches!(&self.encoding, Encoding::Spm(spm) if spm.strips_after_control);
        let is_kept = self.tokens.get(token as usize).is_some_and(|(name, _)| KEEP.contains(&name.as_slice()));
        if strips && !is_kept { text.trim_start() } else { text }
    }

    fn encode_plain(&self, text: &str, is_start: bool, out: &mut Vec<u32>) {
        match &self.encoding {
            Encoding::Bpe { merges, pre_tokenizer } => pre_tokenizer.split(text, &mut |word| {
                let whole = pre_tokenizer.prefers_whole_words().then(|| self.by_bytes.get(word.as_bytes())).flatten();
                match whole {
                    Some(token) => out.push(*token),
                    None => merges.encode(word.as_bytes(), &self.by_bytes, out),
                }
            }),
            Encoding::Spm(spm) => self.encode_spm(spm, text, is_start, out),
        }
    }

    /// Added tokens that are plain text (runs of spaces and line breaks) are found first, then what is between them is merged.
    fn encode_spm(&self, spm: &Spm, text: &str, mut is_start: bool, out: &mut Vec<u32>) {
        let flush = |plain: &str, is_start: bool, out: &mut Vec<u32>| {
            if plain.is_empty() {
                return;
            }
            match is_start && spm.adds_space {
                true => spm.encode(&format!(" {plain}"), &self.by_bytes, out),
                false => spm.encode(plain, &self.by_bytes, out),
            }
        };
        let (mut first, mut at) = (0, 0);
        while let Some(c) = text[at..].chars().next() {
            match self.added_text_at(&text[at..]) {
                Some((token, length)) => {
                    flush(&text[first..at], is_start, out);
                    out.push(token);
                    at += length;
                    (first, is_start) = (at, true);
                }
                None => at += c.len_utf8(),
            }
        }
        flush(&text[first..], is_start, out);
    }

    /// The added token that a text begins with, unless its name looks like one that steers the model.
    fn added_text_at(&self, text: &str) -> Option<(u32, usize)> {
        let bytes = text.as_bytes();
        let mut candidates = self.special.get(bytes.first()?)?.iter().copied();
        let token = candidates.find(|token| {
            let (name, kind) = &self.tokens[*token as usize];
            let may_steer = name.starts_with(b"<|") || name.starts_with(b"[");
            *kind == Kind::Added && !may_steer && bytes.starts_with(name)
        })?;
        Some((token, self.tokens[token as usize].0.len()))
    }

    /// The bytes that a token stands for; none for control tokens and numbers outside of the vocabulary. They may end in the
    /// middle of a character.
    pub fn bytes(&self, token: u32) -> &[u8] {
        match self.tokens.get(token as usize) {
            Some((bytes, Kind::Text | Kind::Added)) => bytes,
            Some((_, Kind::Control)) | None => &[],
        }
    }

    /// The text of some tokens; bytes that are not UTF-8 are replaced.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> = tokens.iter().flat_map(|token| self.bytes(*token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// A vocabulary of all bytes and of control tokens with these names, without merges.
#[cfg(test)]
pub(crate) fn byte_vocabulary(names: &[&str]) -> Tokenizer {
    byte_vocabulary_with(&[], names)
}

/// A vocabulary of all bytes, these texts, which no merges lead to, and control tokens with these names.
#[cfg(test)]
pub(crate) fn byte_vocabulary_with(texts: &[&[u8]], names: &[&str]) -> Tokenizer {
    let bytes = (0..=255).map(|byte| (vec![byte], Kind::Text));
    let mut tokens: Vec<(Vec<u8>, Kind)> = bytes.chain(texts.iter().map(|text| (text.to_vec(), Kind::Text))).collect();
    let by_bytes: HashMap<Vec<u8>, u32> =
        tokens.iter().enumerate().map(|(index, (bytes, _))| (bytes.clone(), index as u32)).collect();
    let first = tokens.len() as u32;
    let mut special: HashMap<u8, Vec<u32>> = HashMap::new();
    for (name, token) in names.iter().zip(first..) {
        special.entry(name.as_bytes()[0]).or_default().push(token);
        tokens.push((name.as_bytes().to_vec(), Kind::Control));
    }
    let token = |name: &str| names.iter().position(|other| *other == name).map(|index| first + index as u32);
    let (bos, ends) = (token("<bos>"), token("<|im_end|>").into_iter().collect::<Vec<u32>>());
    let merges = Merges::read([].into_iter(), &by_bytes, &bpe::bytes_of_characters());
    let encoding = Encoding::Bpe { merges: Box::new(merges), pre_tokenizer: PreTokenizer::Qwen2 };
    let eos = ends.first().copied();
    Tokenizer { tokens, by_bytes, special, encoding, bos, eos, adds_bos: false, ends, chat_template: None }
}

/// Text of tokens as they come: bytes of an unfinished character wait for the next token.
#[derive(Debug, Default, Clone)]
pub struct TokenDecoder {
    waiting: Vec<u8>,
}

impl TokenDecoder {
    /// The text that a token completes.
    pub fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> String {
        self.waiting.extend_from_slice(tokenizer.bytes(token));
        let mut text = String::new();
        loop {
            match std::str::from_utf8(&self.waiting) {
                Ok(all) => {
                    text.push_str(all);
                    self.waiting.clear();
                    return text;
                }
                Err(error) => {
                    let valid = error.valid_up_to();
                    text.push_str(&String::from_utf8_lossy(&self.waiting[..valid]));
                    let Some(bad) = error.error_len() else {
                        self.waiting.drain(..valid);
                        return text;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    self.waiting.drain(..valid + bad);
                }
            }
        }
    }

    /// What is left at the end: a replacement character for an unfinished one.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.waiting).into_owned()
    }
}
