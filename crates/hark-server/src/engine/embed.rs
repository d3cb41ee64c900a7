//! The text-embedding model of the engine.

use hark_embed::{EmbedError, Embedder};
use hark_models::Role as ModelRole;
use hark_speech::CancelToken;

use super::registry::{InUse, ModelSpec, Resident};
use super::{Dependency, Embed, EngineError, SpeechEngine};

/// The vectors of texts.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedTexts {
    /// The model that made them.
    pub model: String,
    /// Numbers of a vector.
    pub dimensions: usize,
    /// A vector for each text.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens of all texts.
    pub tokens: u64,
}

/// The loaded model.
struct EmbedModel {
    embedder: Embedder,
    bytes: u64,
}

impl Resident for EmbedModel {
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl SpeechEngine {
    fn embedder(&self, name: &str) -> Result<InUse<EmbedModel>, EngineError> {
        // The mapped file, and its matrices packed as bf16.
        let (folder, bytes) = self.folder(name)?;
        self.get(ModelSpec { name, bytes, is_counted: false }, || {
            let embedder = Embedder::load(&self.compute, &folder)
                .map_err(|error| EngineError::unavailable(Dependency::Engine, error))?;
            Ok(EmbedModel { embedder, bytes })
        })
    }
}

impl Embed for SpeechEngine {
    fn check_embed(&self) -> Result<(), EngineError> {
        self.check_installed(&[ModelRole::TextEmbedding])
    }

    fn embed_model(&self) -> Result<String, EngineError> {
        self.name_for(ModelRole::TextEmbedding).map(str::to_owned)
    }

    fn embed(&self, texts: &[String], cancel: &CancelToken) -> Result<EmbeddedTexts, EngineError> {
        let name = self.name_for(ModelRole::TextEmbedding)?;
        let model = self.embedder(name)?;
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let embedded = model.embedder.embed(&texts, &|| cancel.is_cancelled()).map_err(|error| match error {
            EmbedError::Cancelled => EngineError::Cancelled,
            EmbedError::NotFinite => EngineError::Failed(error.to_string()),
            other => EngineError::unavailable(Dependency::Engine, other),
        })?;
        Ok(EmbeddedTexts {
            model: name.to_owned(),
            dimensions: model.embedder.dimensions(),
            tokens: embedded.iter().map(|one| one.tokens as u64).sum(),
            vectors: embedded.into_iter().map(|one| one.vector).collect(),
        })
    }
}
