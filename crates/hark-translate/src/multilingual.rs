//! A translation model between many languages: a T5 network whose target language is a tag before the text (MADLAD-400).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hark_compute::Compute;

use crate::sentencepiece::SentencePiece;
use crate::t5::{MAX_SOURCE_TOKENS, Search, T5};
use crate::{SentenceModel, TranslateError};

/// Sentences and source tokens of a batch. Keys and values of MADLAD-400 3B take 256 KiB for each source token and each token written.
const BATCH_SENTENCES: usize = 16;
const BATCH_TOKENS: usize = 512;
/// The names that a tokenizer has.
const TOKENIZERS: [&str; 2] = ["spiece.model", "sentencepiece.model"];

/// A model that translates from any of its languages into any other.
pub struct MultilingualModel {
    tokenizer: SentencePiece,
    network: T5,
    /// The tag of each target language.
    targets: BTreeMap<String, u32>,
    beams: usize,
}

/// A multilingual model with a target language.
pub struct IntoLanguage {
    model: Arc<MultilingualModel>,
    tag: u32,
    /// The tag as a text, such as `<2pt>`.
    prefix: String,
}

impl MultilingualModel {
    /// Loads the model in `folder`: `spiece.model`, `config.json`, and weights as safetensors or GGUF.
    pub fn load(compute: &Compute, folder: &Path) -> Result<Self, TranslateError> {
        let tokenizer = SentencePiece::load(&tokenizer_in(folder)?)?;
        let targets = targets(&tokenizer);
        let no_model = |what: &str| TranslateError::NoModel { path: folder.to_owned(), what: what.to_owned() };
        if targets.is_empty() {
            return Err(no_model("its tokenizer has no tags of target languages such as <2pt>"));
        }
        let network = T5::load(compute, folder)?;
        if tokenizer.len() > network.words() {
            return Err(no_model("its vocabulary has more words than its network"));
        }
        Ok(MultilingualModel { tokenizer, network, targets, beams: 1 })
    }

    /// Searches with so many hypotheses of a sentence instead of greedily.
    pub fn with_beams(self, beams: usize) -> Self {
        MultilingualModel { beams, ..self }
    }

    /// The target languages of the model in `folder`, by its tokenizer; the network is not loaded.
    pub fn languages_in(folder: &Path) -> Result<Vec<String>, TranslateError> {
        Ok(targets(&SentencePiece::load(&tokenizer_in(folder)?)?).into_keys().collect())
    }

    /// Bytes that the weights take in memory.
    pub fn bytes(&self) -> u64 {
        self.network.bytes()
    }

    /// The model with a target language; none where it does not know that.
    pub fn into_language(self: &Arc<Self>, language: &str) -> Option<IntoLanguage> {
        let tag = *self.targets.get(language)?;
        Some(IntoLanguage { model: Arc::clone(self), tag, prefix: format!("<2{language}>") })
    }
}

fn tokenizer_in(folder: &Path) -> Result<PathBuf, TranslateError> {
    let found = TOKENIZERS.iter().map(|name| folder.join(name)).find(|path| path.exists());
    found.ok_or_else(|| TranslateError::NoModel {
        path: folder.to_owned(),
        what: format!("there is no {}", TOKENIZERS[0]),
    })
}

/// The tags of languages: `<2` and an ISO 639 code, with a script and a region where it has them (`<2sr_Latn>`, `<2fr_CA>`). Tags of scripts, tasks and noise are
/// left out.
fn targets(tokenizer: &SentencePiece) -> BTreeMap<String, u32> {
    let is_code = |code: &str| {
        let mut parts = code.split('_');
        let is_language = parts
            .next()
            .is_some_and(|part| (2..=3).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_lowercase()));
        let is_subtag = |part: &str| {
            let is_script = part.len() == 4 && part.bytes().skip(1).all(|byte| byte.is_ascii_lowercase());
            part.starts_with(|c: char| c.is_ascii_uppercase())
                && (is_script || part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_uppercase()))
        };
        is_language && parts.all(is_subtag)
    };
    let code = |piece: &str| Some(piece.strip_prefix("<2")?.strip_suffix('>')?.to_owned()).filter(|code| is_code(code));
    tokenizer.pieces().filter_map(|(token, piece)| Some((code(piece)?, token))).collect()
}

impl IntoLanguage {
    /// The tag of the target language, the sentence and its end.
    fn encode(&self, sentence: &str) -> Vec<u32> {
        let tokenizer = &self.model.tokenizer;
        // The tag goes through the tokenizer with the text, as in training; one that does not take it for a piece is given it.
        let mut tokens = tokenizer.encode(&format!("{} {sentence}", self.prefix));
        if !tokens.iter().take(2).any(|token| *token == self.tag) {
            tokens = std::iter::once(self.tag).chain(tokenizer.encode(sentence)).collect();
        }
        tokens.truncate(MAX_SOURCE_TOKENS - 1);
        tokens.push(tokenizer.end());
        tokens
    }
}

impl SentenceModel for IntoLanguage {
    fn max_tokens(&self) -> usize {
        MAX_SOURCE_TOKENS
    }

    fn count_tokens(&self, text: &str) -> usize {
        // The tag, a space before it, and the end.
        self.model.tokenizer.encode(text).len() + 3
    }

    fn knows(&self, character: char) -> bool {
        self.model.tokenizer.knows(character)
    }

    fn translate_sentences(
        &self,
        sentences: &[&str],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, TranslateError> {
        let tokenizer = &self.model.tokenizer;
        let encoded: Vec<Vec<u32>> = sentences.iter().map(|sentence| self.encode(sentence)).collect();
        let never = [tokenizer.unknown()];
        let search = Search { beams: self.model.beams, end: tokenizer.end(), never: &never };
        crate::model::in_batches(&encoded, BATCH_SENTENCES, BATCH_TOKENS, |batch| {
            let translated = self.model.network.translate(batch, search, is_cancelled)?;
            Ok(translated.iter().map(|tokens| tokenizer.decode(tokens)).collect())
        })
    }
}
