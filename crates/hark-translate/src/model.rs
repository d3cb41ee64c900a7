//! What a model is to [`crate::Translator`], models of one pair of languages, and Firefox's among them: tokenizers and network.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hark_compute::Compute;

use crate::TranslateError;
use crate::marian::{MAX_SOURCE_TOKENS, Marian};
use crate::marian_mt::{MarianMt, MarianMtModel};
use crate::sentencepiece::SentencePiece;

/// Sentences and source tokens of a batch: enough rows for the products, few enough for the caches.
const BATCH_SENTENCES: usize = 64;
const BATCH_TOKENS: usize = 2048;

/// A model that translates sentences into one language.
pub trait SentenceModel: Send + Sync {
    /// Most tokens of a sentence; longer ones are cut before.
    fn max_tokens(&self) -> usize;

    /// Tokens of a text, with those that the model puts around it.
    fn count_tokens(&self, text: &str) -> usize;

    /// Whether the model knows a character; others are copied.
    fn knows(&self, character: char) -> bool;

    /// Translates sentences, each on its own, in their order. `is_cancelled` is asked between steps.
    fn translate_sentences(
        &self,
        sentences: &[&str],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, TranslateError>;
}

/// Calls `translate` with batches of sentences of like length, which end at about the same time, and puts the results in the order of the sentences.
pub(crate) fn in_batches(
    encoded: &[Vec<u32>],
    most_sentences: usize,
    most_tokens: usize,
    translate: impl Fn(&[&[u32]]) -> Result<Vec<String>, TranslateError>,
) -> Result<Vec<String>, TranslateError> {
    let mut order: Vec<usize> = (0..encoded.len()).collect();
    order.sort_by_key(|index| encoded[*index].len());
    let mut out = vec![String::new(); encoded.len()];
    let mut rest = &order[..];
    while !rest.is_empty() {
        let mut total = 0;
        let fitting = rest.iter().take(most_sentences).take_while(|index| {
            total += encoded[**index].len();
            total <= most_tokens
        });
        let (now, later) = rest.split_at(fitting.count().max(1));
        rest = later;
        let batch: Vec<&[u32]> = now.iter().map(|index| &encoded[*index][..]).collect();
        for (index, translated) in now.iter().zip(translate(&batch)?) {
            out[*index] = translated;
        }
    }
    Ok(out)
}

/// A translation model from one language into another: Firefox's or OPUS-MT's.
pub enum TranslationModel {
    /// A student network with a recurrent decoder.
    Firefox(Box<FirefoxModel>),
    /// A network with a full decoder.
    MarianMt(Box<MarianMtModel>),
}

impl TranslationModel {
    /// Loads the model in `folder`: what [`MarianMtModel::load`] reads where `config.json` names that architecture, else what [`FirefoxModel::load`] reads.
    pub fn load(compute: &Compute, folder: &Path) -> Result<Self, TranslateError> {
        match MarianMt::is_in(folder) {
            true => Ok(TranslationModel::MarianMt(Box::new(MarianMtModel::load(compute, folder)?))),
            false => Ok(TranslationModel::Firefox(Box::new(FirefoxModel::load(compute, folder)?))),
        }
    }

    /// Bytes that the weights take in memory.
    pub fn bytes(&self) -> u64 {
        match self {
            TranslationModel::Firefox(model) => model.bytes(),
            TranslationModel::MarianMt(model) => model.bytes(),
        }
    }

    /// Searches with so many hypotheses of a sentence; 1 is greedy. Firefox's models are searched greedily always.
    pub fn with_beams(self, beams: usize) -> Self {
        match self {
            TranslationModel::Firefox(model) => TranslationModel::Firefox(model),
            TranslationModel::MarianMt(model) => TranslationModel::MarianMt(Box::new(model.with_beams(beams))),
        }
    }

    fn model(&self) -> &dyn SentenceModel {
        match self {
            TranslationModel::Firefox(model) => &**model,
            TranslationModel::MarianMt(model) => &**model,
        }
    }
}

impl SentenceModel for TranslationModel {
    fn max_tokens(&self) -> usize {
        self.model().max_tokens()
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.model().count_tokens(text)
    }

    fn knows(&self, character: char) -> bool {
        self.model().knows(character)
    }

    fn translate_sentences(
        &self,
        sentences: &[&str],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, TranslateError> {
        self.model().translate_sentences(sentences, is_cancelled)
    }
}

/// A model of Firefox: one or two vocabularies and a student network.
pub struct FirefoxModel {
    source: Arc<SentencePiece>,
    target: Arc<SentencePiece>,
    network: Marian,
}

impl FirefoxModel {
    /// Loads the model in `folder`: `model*.bin` with `vocab*.spm`, or with `srcvocab*.spm` and `trgvocab*.spm`.
    pub fn load(compute: &Compute, folder: &Path) -> Result<Self, TranslateError> {
        let files = ModelFiles::find(folder)?;
        let source = Arc::new(SentencePiece::load(&files.source)?);
        let target = match files.source == files.target {
            true => Arc::clone(&source),
            false => Arc::new(SentencePiece::load(&files.target)?),
        };
        let network = Marian::load(compute, &files.network)?;
        if source.len() > network.source_words() || target.len() > network.target_words() {
            let what = "its vocabulary has more words than its network".to_owned();
            return Err(TranslateError::NoModel { path: folder.to_owned(), what });
        }
        Ok(FirefoxModel { source, target, network })
    }

    /// Bytes that the weights take in memory.
    pub fn bytes(&self) -> u64 {
        self.network.bytes()
    }

    fn encode(&self, sentence: &str) -> Vec<u32> {
        let mut tokens = self.source.encode(sentence);
        tokens.truncate(MAX_SOURCE_TOKENS - 1);
        tokens.push(self.source.end());
        tokens
    }
}

impl SentenceModel for FirefoxModel {
    fn max_tokens(&self) -> usize {
        MAX_SOURCE_TOKENS
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.source.encode(text).len() + 1
    }

    fn knows(&self, character: char) -> bool {
        self.source.knows(character)
    }

    fn translate_sentences(
        &self,
        sentences: &[&str],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, TranslateError> {
        let encoded: Vec<Vec<u32>> = sentences.iter().map(|sentence| self.encode(sentence)).collect();
        let (end, never) = (self.target.end(), self.target.unknown());
        in_batches(&encoded, BATCH_SENTENCES, BATCH_TOKENS, |batch| {
            let translated = self.network.translate(batch, end, never, is_cancelled)?;
            Ok(translated.iter().map(|tokens| self.target.decode(tokens)).collect())
        })
    }
}

struct ModelFiles {
    network: PathBuf,
    source: PathBuf,
    target: PathBuf,
}

impl ModelFiles {
    fn find(folder: &Path) -> Result<Self, TranslateError> {
        let no_model = |what: String| TranslateError::NoModel { path: folder.to_owned(), what };
        let entries = std::fs::read_dir(folder).map_err(|error| no_model(error.to_string()))?;
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        let find = |prefix: &str, suffix: &str| {
            let found = names.iter().find(|name| name.starts_with(prefix) && name.ends_with(suffix));
            found.map(|name| folder.join(name))
        };
        let network = find("model", ".bin")
            .ok_or_else(|| no_model("there is no model*.bin, and no config.json of a marian model".to_owned()))?;
        let (source, target) = match (find("srcvocab", ".spm"), find("trgvocab", ".spm"), find("vocab", ".spm")) {
            (Some(source), Some(target), _) => (source, target),
            (_, _, Some(both)) => (both.clone(), both),
            _ => return Err(no_model("there is no vocab*.spm".to_owned())),
        };
        Ok(ModelFiles { network, source, target })
    }
}
