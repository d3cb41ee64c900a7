//! Text to tokens and back: byte-level BPE from the vocabulary of a GGUF file.

mod bpe;
mod split;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use hark_weights::FileError;
use hark_weights::gguf::{GgufModel, Value};

use crate::config::Metadata;
use bpe::Merges;
use split::PreTokenizer;

/// ggml's number for tokens that steer the model and stand for no text.
const CONTROL: u64 = 3;
/// ggml's number for tokens that someone added to the vocabulary.
const USER_DEFINED: u64 = 4;

/// ggml's number for numbers of the vocabulary that mean nothing.
const UNUSED: u64 = 5;

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
    merges: Merges,
    pre_tokenizer: PreTokenizer,
    bos: Option<u32>,
    eos: Option<u32>,
    adds_bos: bool,
    ends: Vec<u32>,
    chat_template: Option<String>,
}

/// Names of tokens that end an answer, whatever the file calls its end of sequence.
const END_NAMES: [&str; 6] =
    ["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end|>", "<end_of_turn>", "<|end_of_text|>"];

impl Tokenizer {
    /// Reads the vocabulary of a file.
    pub(crate) fn from_gguf(file: &Path, gguf: &GgufModel) -> Result<Self, FileError> {
        let metadata = Metadata { file, values: &gguf.metadata };
        let model = metadata.text("tokenizer.ggml.model")?;
        if model != "gpt2" {
            let what = format!("tokenizer {model:?} is not supported (byte-level BPE, \"gpt2\", is)");
            return Err(FileError::unsupported(file, what));
        }
        let pre = metadata.text_or("tokenizer.ggml.pre", "default")?;
        let Some(pre_tokenizer) = PreTokenizer::by_name(pre) else {
            return Err(FileError::unsupported(file, format!("pre-tokenizer {pre:?} is not supported")));
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
        for (index, name) in names.iter().enumerate() {
            let name = name.as_str().ok_or_else(|| damaged("its vocabulary is no text"))?;
            let kind = match kinds.and_then(|kinds| kinds.get(index)).and_then(Value::as_u64) {
                Some(CONTROL | UNUSED) => Kind::Control,
                Some(USER_DEFINED) => Kind::Added,
                _ => Kind::Text,
            };
            // Characters outside of the byte alphabet stand for themselves, as in added tokens.
            let bytes = match kind {
                Kind::Text => name.chars().map(|c| bytes_of.get(&c).copied()).collect::<Option<Vec<u8>>>(),
                Kind::Control | Kind::Added => None,
            };
            tokens.push((bytes.unwrap_or_else(|| name.as_bytes().to_vec()), kind));
        }
        let mut by_bytes = HashMap::with_capacity(tokens.len());
        let mut special: HashMap<u8, Vec<u32>> = HashMap::new();
        for (index, (bytes, kind)) in tokens.iter().enumerate() {
            match (kind, bytes.first()) {
                (Kind::Text, _) => _ = by_bytes.entry(bytes.clone()).or_insert(index as u32),
                (_, Some(first)) => special.entry(*first).or_default().push(index as u32),
                _ => {}
            }
        }
        special
            .values_mut()
            .for_each(|all| all.sort_by_key(|token| std::cmp::Reverse(tokens[*token as usize].0.len())));
        let merges = array("tokenizer.ggml.merges").ok_or_else(|| damaged("its vocabulary has no merges"))?;
        let merges = Merges::read(merges.iter().filter_map(Value::as_str), &by_bytes, &bytes_of);
        let token = |key: &str| {
            let token = gguf.metadata.get(key)?.as_u64().filter(|token| *token < tokens.len() as u64)?;
            Some(token as u32)
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
        let adds_bos = match gguf.metadata.get("tokenizer.ggml.add_bos_token") {
            Some(Value::Bool(adds)) => *adds,
            _ => pre_tokenizer == PreTokenizer::Llama3,
        };
        let bos = token("tokenizer.ggml.bos_token_id");
        let eos = token("tokenizer.ggml.eos_token_id");
        let chat_template = gguf.metadata.get("tokenizer.chat_template").and_then(Value::as_str).map(str::to_owned);
        Ok(Tokenizer { tokens, by_bytes, special, merges, pre_tokenizer, bos, eos, adds_bos, ends, chat_template })
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
        self.encode_plain(text, &mut out);
        out
    }

    /// The tokens of a text in which names of control tokens (`<|im_start|>`) stand for those tokens: for templates only.
    pub fn encode_with_control(&self, text: &str) -> Vec<u32> {
        let (mut out, mut plain, mut at) = (Vec::new(), 0, 0);
        while let Some(c) = text[at..].chars().next() {
            match self.control_at(&text[at..]) {
                Some((token, length)) => {
                    self.encode_plain(&text[plain..at], &mut out);
                    out.push(token);
                    at += length;
                    plain = at;
                }
                None => at += c.len_utf8(),
            }
        }
        self.encode_plain(&text[plain..], &mut out);
        out
    }

    fn encode_plain(&self, text: &str, out: &mut Vec<u32>) {
        self.pre_tokenizer.split(text, &mut |word| {
            let whole = self.pre_tokenizer.prefers_whole_words().then(|| self.by_bytes.get(word.as_bytes())).flatten();
            match whole {
                Some(token) => out.push(*token),
                None => self.merges.encode(word.as_bytes(), &self.by_bytes, out),
            }
        });
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
    let (pre_tokenizer, eos) = (PreTokenizer::Qwen2, ends.first().copied());
    Tokenizer { tokens, by_bytes, special, merges, pre_tokenizer, bos, eos, adds_bos: false, ends, chat_template: None }
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
