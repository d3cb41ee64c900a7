//! Text tokens, by the model's `tokenizer.json`.
//!
//! The file describes a byte-pair encoding over letters. What this reader does not know in it is an error: a tokenizer that is half understood makes tokens that mean something else.

use std::collections::HashMap;
use std::path::Path;

use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use unicode_normalization::UnicodeNormalization;

use crate::CloneError;
use crate::generate::{END_OF_TEXT, EXAGGERATION};
use crate::sample::START;

/// Before the text: where the embedding of the exaggeration goes, and the begin of text.
const BEFORE: [i64; 2] = [EXAGGERATION, 255];
/// Behind it: the end of text, and the begin of speech twice.
const BEHIND: [i64; 3] = [END_OF_TEXT, START, START];

/// Turns text into tokens.
#[derive(Debug)]
pub(crate) struct Tokenizer {
    vocabulary: HashMap<String, i64>,
    /// The rank of each pair that is merged.
    merges: HashMap<(String, String), usize>,
    /// Tokens that are found in the text as they are, the longest first.
    added: Vec<(String, i64)>,
    unknown: Option<i64>,
    steps: Vec<Normalization>,
    /// Finds the words inside which letters are merged; none where the whole text is one.
    words: Option<Regex>,
    before: Vec<i64>,
    behind: Vec<i64>,
}

#[derive(Debug)]
enum Normalization {
    Replace(String, String),
    Lowercase,
    Nfkd,
    Nfkc,
    Nfc,
    Nfd,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    model: Model,
}

#[derive(Deserialize)]
struct Added {
    id: i64,
    content: String,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: HashMap<String, i64>,
    merges: Vec<Merge>,
    unk_token: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Line(String),
    Pair(String, String),
}

impl Tokenizer {
    pub(crate) fn load(path: &Path) -> Result<Self, CloneError> {
        let bytes = std::fs::read(path).map_err(|source| CloneError::Unreadable { path: path.to_owned(), source })?;
        let malformed = |what: String| CloneError::Malformed { path: path.to_owned(), what };
        let file: File = serde_json::from_slice(&bytes).map_err(|error| malformed(error.to_string()))?;
        Self::of(file).map_err(malformed)
    }

    fn of(file: File) -> Result<Self, String> {
        let Model { kind, vocab, merges, unk_token, byte_fallback, continuing_subword_prefix, end_of_word_suffix } =
            file.model;
        if kind.as_deref().is_some_and(|kind| kind != "BPE") || byte_fallback {
            return Err("its model is no byte-pair encoding over letters".to_owned());
        }
        if [continuing_subword_prefix, end_of_word_suffix].into_iter().flatten().any(|affix| !affix.is_empty()) {
            return Err("it marks parts of words, which is not supported".to_owned());
        }
        let mut ranks = HashMap::new();
        for (rank, merge) in merges.into_iter().enumerate() {
            let pair = match merge {
                Merge::Pair(one, other) => (one, other),
                Merge::Line(line) => {
                    let (one, other) = line.split_once(' ').ok_or_else(|| format!("merge {rank} is no pair"))?;
                    (one.to_owned(), other.to_owned())
                }
            };
            ranks.entry(pair).or_insert(rank);
        }
        let mut added: Vec<(String, i64)> = file
            .added_tokens
            .into_iter()
            .map(|one| (one.content, one.id))
            .filter(|(text, _)| !text.is_empty())
            .collect();
        added.sort_by(|(one, _), (other, _)| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        let mut steps = Vec::new();
        if let Some(normalizer) = &file.normalizer {
            read_normalizer(normalizer, &mut steps)?;
        }
        let words = match &file.pre_tokenizer {
            None => None,
            Some(one) if kind_of(one) == "Whitespace" => {
                Some(Regex::new(r"\w+|[^\w\s]+").map_err(|error| error.to_string())?)
            }
            Some(other) => return Err(format!("the pre-tokenizer {:?} is not supported", kind_of(other))),
        };
        let (before, behind) = match &file.post_processor {
            None => (BEFORE.to_vec(), BEHIND.to_vec()),
            Some(processor) => read_template(processor)?,
        };
        if before != BEFORE || behind != BEHIND {
            return Err(format!(
                "it puts {before:?} before the text and {behind:?} behind it, not {BEFORE:?} and {BEHIND:?}"
            ));
        }
        let id_of = |text: &str| {
            vocab.get(text).copied().or_else(|| added.iter().find(|(one, _)| one == text).map(|(_, id)| *id))
        };
        let unknown = unk_token.as_deref().map(|text| id_of(text).ok_or_else(|| format!("{text:?} has no token")));
        let unknown = unknown.transpose()?;
        Ok(Tokenizer { vocabulary: vocab, merges: ranks, added, unknown, steps, words, before, behind })
    }

    /// Whether a text is one token.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.added.iter().any(|(one, _)| one == text) || self.vocabulary.contains_key(text)
    }

    /// The tokens of a text, with those before and behind it.
    pub(crate) fn encode(&self, text: &str) -> Vec<i64> {
        let mut ids = self.before.clone();
        for part in self.split(text) {
            match part {
                Part::Token(id) => ids.push(id),
                Part::Text(text) => {
                    let text = self.normalized(text);
                    // Normalization may bring further tokens, such as one for a space.
                    for part in self.split(&text) {
                        match part {
                            Part::Token(id) => ids.push(id),
                            Part::Text(text) => self.encode_words(text, &mut ids),
                        }
                    }
                }
            }
        }
        ids.extend_from_slice(&self.behind);
        ids
    }

    /// How many of these tokens are of the text itself.
    pub(crate) fn text_tokens(&self, ids: &[i64]) -> usize {
        ids.len().saturating_sub(self.before.len() + self.behind.len())
    }

    fn split<'a>(&self, text: &'a str) -> Vec<Part<'a>> {
        let (mut parts, mut begin, mut at) = (Vec::new(), 0, 0);
        while at < text.len() {
            let rest = &text[at..];
            if let Some((found, id)) = self.added.iter().find(|(token, _)| rest.starts_with(token.as_str())) {
                if begin < at {
                    parts.push(Part::Text(&text[begin..at]));
                }
                parts.push(Part::Token(*id));
                at += found.len();
                begin = at;
            } else {
                at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
        if begin < text.len() {
            parts.push(Part::Text(&text[begin..]));
        }
        parts
    }

    fn normalized(&self, text: &str) -> String {
        self.steps.iter().fold(text.to_owned(), |text, step| match step {
            Normalization::Replace(from, to) => text.replace(from.as_str(), to),
            Normalization::Lowercase => text.to_lowercase(),
            Normalization::Nfkd => text.nfkd().collect(),
            Normalization::Nfkc => text.nfkc().collect(),
            Normalization::Nfc => text.nfc().collect(),
            Normalization::Nfd => text.nfd().collect(),
        })
    }

    fn encode_words(&self, text: &str, ids: &mut Vec<i64>) {
        match &self.words {
            Some(words) => words.find_iter(text).for_each(|word| self.encode_word(word.as_str(), ids)),
            None => self.encode_word(text, ids),
        }
    }

    /// Merges the letters of a word, the pair of the lowest rank first.
    fn encode_word(&self, word: &str, ids: &mut Vec<i64>) {
        let mut symbols: Vec<String> = word.chars().map(String::from).collect();
        loop {
            let ranked = symbols
                .windows(2)
                .enumerate()
                .filter_map(|(at, pair)| self.merges.get(&(pair[0].clone(), pair[1].clone())).map(|rank| (*rank, at)));
            let Some((_, at)) = ranked.min() else { break };
            let tail = symbols.remove(at + 1);
            symbols[at].push_str(&tail);
        }
        ids.extend(symbols.iter().filter_map(|symbol| self.vocabulary.get(symbol).copied().or(self.unknown)));
    }
}

enum Part<'a> {
    Token(i64),
    Text(&'a str),
}

fn kind_of(component: &Value) -> &str {
    component.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn read_normalizer(normalizer: &Value, into: &mut Vec<Normalization>) -> Result<(), String> {
    let step = match kind_of(normalizer) {
        "Sequence" => {
            let parts = normalizer.get("normalizers").and_then(Value::as_array);
            return parts.into_iter().flatten().try_for_each(|part| read_normalizer(part, into));
        }
        "Lowercase" => Normalization::Lowercase,
        "NFKD" => Normalization::Nfkd,
        "NFKC" => Normalization::Nfkc,
        "NFC" => Normalization::Nfc,
        "NFD" => Normalization::Nfd,
        "Replace" => {
            let from = normalizer.pointer("/pattern/String").and_then(Value::as_str);
            let to = normalizer.get("content").and_then(Value::as_str);
            match from.zip(to) {
                Some((from, to)) if !from.is_empty() => Normalization::Replace(from.to_owned(), to.to_owned()),
                _ => return Err("a replacement of its normalizer is no plain text".to_owned()),
            }
        }
        other => return Err(format!("the normalizer {other:?} is not supported")),
    };
    into.push(step);
    Ok(())
}

/// The tokens that a template puts before and behind a text.
fn read_template(processor: &Value) -> Result<(Vec<i64>, Vec<i64>), String> {
    if kind_of(processor) != "TemplateProcessing" {
        return Err(format!("the post-processor {:?} is not supported", kind_of(processor)));
    }
    let (mut before, mut behind, mut is_behind) = (Vec::new(), Vec::new(), false);
    for piece in processor.get("single").and_then(Value::as_array).into_iter().flatten() {
        if piece.get("Sequence").is_some() {
            is_behind = true;
            continue;
        }
        let name = piece.pointer("/SpecialToken/id").and_then(Value::as_str).ok_or("its template is malformed")?;
        let token = processor.get("special_tokens").and_then(|tokens| tokens.get(name));
        let ids = token.and_then(|token| token.get("ids")).and_then(Value::as_array);
        let ids: Option<Vec<i64>> = ids.and_then(|ids| ids.iter().map(Value::as_i64).collect());
        let ids = ids.ok_or_else(|| format!("its template names {name:?}, which has no token"))?;
        if is_behind { behind.extend(ids) } else { before.extend(ids) }
    }
    Ok((before, behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn file() -> Value {
        json!({
            "added_tokens": [{"id": 2, "content": "[SPACE]"}, {"id": 708, "content": "[en]"}, {"id": 1, "content": "[UNK]"}],
            "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "[SPACE]"},
            "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "[X]"}}, {"SpecialToken": {"id": "[START]"}}, {"Sequence": {"id": "A"}},
                    {"SpecialToken": {"id": "[STOP]"}}, {"SpecialToken": {"id": "[S]"}}, {"SpecialToken": {"id": "[S]"}}],
                "special_tokens": {"[X]": {"ids": [6563]}, "[START]": {"ids": [255]}, "[STOP]": {"ids": [0]}, "[S]": {"ids": [6561]}}},
            "model": {"type": "BPE", "unk_token": "[UNK]",
                "vocab": {"t": 10, "h": 11, "e": 12, "th": 13, "the": 14, "!": 15, "he": 16, "[UNK]": 1},
                "merges": ["t h", ["h", "e"], "th e"]},
        })
    }

    fn of(file: Value) -> Result<Tokenizer, String> {
        Tokenizer::of(serde_json::from_value(file).unwrap())
    }

    fn inner(tokenizer: &Tokenizer, text: &str) -> Vec<i64> {
        let ids = tokenizer.encode(text);
        assert!(ids.starts_with(&BEFORE) && ids.ends_with(&BEHIND));
        let inner = &ids[BEFORE.len()..ids.len() - BEHIND.len()];
        assert_eq!(inner.len(), tokenizer.text_tokens(&ids));
        inner.to_vec()
    }

    #[test]
    fn letters_merge_by_rank_inside_of_words_and_tokens_in_the_text_stay_whole() {
        let tokenizer = of(file()).unwrap();
        // "th" has the lower rank: "the" becomes th + e, then the.
        assert_eq!(inner(&tokenizer, "[en]the he!"), [708, 14, 2, 16, 15]);
        assert_eq!(inner(&tokenizer, "eth"), [12, 13]);
        assert_eq!(inner(&tokenizer, "t!he"), [10, 15, 16], "nothing merges over a sign");
        assert_eq!(inner(&tokenizer, "tz\u{301}"), [10, 1, 1], "what is unknown says so");
        assert!(inner(&tokenizer, "").is_empty());
        assert!(tokenizer.has("[en]") && !tokenizer.has("[fr]"));
    }

    #[test]
    fn normalizers_run_in_their_order() {
        let mut changed = file();
        changed["normalizer"] = json!({"type": "Sequence", "normalizers": [{"type": "Lowercase"}, {"type": "NFKD"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "[SPACE]"}]});
        assert_eq!(inner(&of(changed).unwrap(), "THE É"), [14, 2, 12, 1]);
        let mut without = file();
        without["pre_tokenizer"] = Value::Null;
        without["post_processor"] = Value::Null;
        assert_eq!(inner(&of(without).unwrap(), "the!"), [14, 15]);
    }

    #[test]
    fn a_file_that_asks_for_what_is_not_known_is_refused() {
        let refused = |path: &str, value: Value| {
            let mut changed = file();
            *changed.pointer_mut(path).unwrap() = value;
            of(changed).map(drop).unwrap_err()
        };
        assert!(refused("/normalizer/type", json!("Precompiled")).contains("Precompiled"));
        assert!(refused("/normalizer/pattern", json!({"Regex": "x"})).contains("plain text"));
        assert!(refused("/pre_tokenizer/type", json!("ByteLevel")).contains("ByteLevel"));
        assert!(refused("/post_processor/type", json!("BertProcessing")).contains("BertProcessing"));
        assert!(refused("/post_processor/special_tokens/[STOP]", json!({})).contains("[STOP]"));
        assert!(refused("/post_processor/special_tokens/[STOP]/ids", json!([7])).contains("behind"));
        assert!(refused("/model/type", json!("Unigram")).contains("byte-pair"));
        assert!(refused("/model/unk_token", json!("<unk>")).contains("<unk>"));
        assert!(refused("/model/merges", json!(["th"])).contains("merge 0"));
    }
}
