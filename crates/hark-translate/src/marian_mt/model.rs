//! A folder of OPUS-MT: vocabulary and network.

use std::path::Path;

use hark_compute::Compute;

use super::{MarianMt, Search, Vocabulary};
use crate::model::in_batches;
use crate::{SentenceModel, TranslateError};

/// Hypotheses and source tokens of a batch: enough rows for the products, few enough for the caches.
const BATCH_ROWS: usize = 64;
const BATCH_TOKENS: usize = 2048;

/// A translation model from one language into another, as the hub stores Marian's.
pub struct MarianMtModel {
    vocabulary: Vocabulary,
    network: MarianMt,
    beams: usize,
    never: Vec<u32>,
}

impl MarianMtModel {
    /// Loads the model in `folder`: `config.json`, `source.spm`, `vocab.json`, and weights as safetensors or PyTorch's.
    pub fn load(compute: &Compute, folder: &Path) -> Result<Self, TranslateError> {
        let vocabulary = Vocabulary::load(folder)?;
        let network = MarianMt::load(compute, folder)?;
        let no_model = |what: &str| TranslateError::NoModel { path: folder.to_owned(), what: what.to_owned() };
        if vocabulary.len() > network.words() {
            return Err(no_model("its vocabulary has more words than its network"));
        }
        if vocabulary.end() != network.end() {
            return Err(no_model("its vocabulary and its network end sentences with different tokens"));
        }
        let never = network.never().iter().copied().chain([vocabulary.unknown()]).collect();
        let beams = network.beams();
        Ok(MarianMtModel { vocabulary, network, beams, never })
    }

    /// Searches with so many hypotheses of a sentence instead of those of the configuration; 1 is greedy.
    pub fn with_beams(self, beams: usize) -> Self {
        MarianMtModel { beams, ..self }
    }

    /// Bytes that the weights take in memory.
    pub fn bytes(&self) -> u64 {
        self.network.bytes()
    }

    fn encode(&self, sentence: &str) -> Vec<u32> {
        let mut tokens = self.vocabulary.encode(sentence);
        tokens.truncate(self.network.max_source_tokens() - 1);
        tokens.push(self.vocabulary.end());
        tokens
    }
}

impl SentenceModel for MarianMtModel {
    fn max_tokens(&self) -> usize {
        self.network.max_source_tokens()
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.vocabulary.encode(text).len() + 1
    }

    fn knows(&self, character: char) -> bool {
        self.vocabulary.knows(character)
    }

    fn translate_sentences(
        &self,
        sentences: &[&str],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, TranslateError> {
        let encoded: Vec<Vec<u32>> = sentences.iter().map(|sentence| self.encode(sentence)).collect();
        let search = Search { beams: self.beams, end: self.vocabulary.end(), never: &self.never };
        in_batches(&encoded, (BATCH_ROWS / self.beams.max(1)).max(1), BATCH_TOKENS, |batch| {
            let translated = self.network.translate(batch, search, is_cancelled)?;
            Ok(translated.iter().map(|tokens| self.vocabulary.decode(tokens)).collect())
        })
    }
}
