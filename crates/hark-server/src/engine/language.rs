//! The language model of the engine.

use std::path::Path;
use std::sync::Arc;

use hark_lm::Model;
use hark_lm::engine::{EngineLimits, EngineStats};
use hark_models::Role as ModelRole;
use hark_text::model::{EndpointStatus, LocalModel};
use hark_text::{Completion, CompletionRequest, Endpoint, EndpointSettings, LanguageModel, Message, ModelError};

use super::registry::{InUse, ModelSpec, Resident};
use super::{Dependency, EngineError, Language, SpeechEngine};

/// The file of a language model in its folder.
const FILE: &str = "model.gguf";

/// The language model of an engine, and its limits.
#[derive(Debug, Clone)]
pub struct LanguageOptions {
    /// The model, a name of the catalogue; its default when not given.
    pub model: Option<String>,
    /// Most tokens of a prompt and its answer.
    pub context: usize,
    /// Bytes of the KV cache.
    pub cache_bytes: u64,
    /// Another server whose model is used instead of one here.
    pub endpoint: Option<EndpointSettings>,
    /// The languages between which it translates; what the catalogue says of the model when not given.
    pub translation_languages: Option<Vec<String>>,
}

impl Default for LanguageOptions {
    fn default() -> Self {
        LanguageOptions {
            model: None,
            context: 8192,
            cache_bytes: 1 << 30,
            endpoint: None,
            translation_languages: None,
        }
    }
}

/// What the language model does and did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LanguageReport {
    /// The engine here, while a model is loaded.
    pub engine: Option<EngineStats>,
    /// The server elsewhere, if one is configured.
    pub endpoint: Option<EndpointStatus>,
}

/// The loaded model.
pub(super) struct LoadedLanguage {
    model: LocalModel,
    bytes: u64,
}

impl Resident for LoadedLanguage {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn is_usable(&self) -> bool {
        self.model.is_alive()
    }
}

/// A language model that stays loaded as long as it is used.
struct UsedLanguage(InUse<LoadedLanguage>);

impl LanguageModel for UsedLanguage {
    fn name(&self) -> &str {
        self.0.model.name()
    }

    fn context_length(&self) -> usize {
        self.0.model.context_length()
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.0.model.count_tokens(text)
    }

    fn prompt_tokens(&self, messages: &[Message]) -> Result<usize, ModelError> {
        self.0.model.prompt_tokens(messages)
    }

    fn complete(&self, request: CompletionRequest) -> Result<Completion, ModelError> {
        self.0.model.complete(request)
    }
}

impl SpeechEngine {
    /// The name of the configured language model, or of the catalogue's default.
    pub(super) fn language_name(&self) -> Result<&str, EngineError> {
        match &self.options.language.model {
            Some(name) => Ok(name),
            None => self.name_for(ModelRole::Language),
        }
    }

    fn load_language(&self, name: &str, folder: &Path, cache_bytes: u64) -> Result<LoadedLanguage, EngineError> {
        let unavailable = |error: hark_lm::LmError| EngineError::unavailable(Dependency::Engine, error);
        let model = Model::load(&self.compute, &folder.join(FILE)).map_err(unavailable)?;
        let limits = EngineLimits { context: self.options.language.context, cache_bytes, ..EngineLimits::default() };
        let model = LocalModel::start(name.to_owned(), model, limits).map_err(unavailable)?;
        let bytes = model.weight_bytes() + cache_bytes;
        Ok(LoadedLanguage { model, bytes })
    }
}

/// The model behind an endpoint; blocks while the endpoint is asked about it.
fn remote(endpoint: &Endpoint) -> Result<Arc<dyn LanguageModel>, EngineError> {
    let runtime = tokio::runtime::Handle::try_current()
        .map_err(|error| EngineError::Failed(format!("an endpoint needs the runtime: {error}")))?;
    match runtime.block_on(endpoint.model()) {
        Ok(model) => Ok(Arc::new(model)),
        Err(error) => Err(EngineError::unavailable(Dependency::Engine, error)),
    }
}

impl Language for SpeechEngine {
    fn check_language(&self) -> Result<(), EngineError> {
        match &self.endpoint {
            Some(_) => Ok(()),
            None => self.check_model(self.language_name()?),
        }
    }

    fn language_model_name(&self) -> Result<Option<String>, EngineError> {
        match &self.endpoint {
            Some(endpoint) => Ok(endpoint.model_name()),
            None => self.language_name().map(|name| Some(name.to_owned())),
        }
    }

    fn language_report(&self) -> LanguageReport {
        let loaded = self.registry.loaded::<LoadedLanguage>();
        LanguageReport {
            engine: loaded.first().map(|(_, loaded)| loaded.model.stats()),
            endpoint: self.endpoint.as_ref().map(Endpoint::status),
        }
    }

    fn language(&self) -> Result<Arc<dyn LanguageModel>, EngineError> {
        if let Some(endpoint) = &self.endpoint {
            return remote(endpoint);
        }
        let name = self.language_name()?;
        let (folder, file_bytes) = self.folder(name)?;
        let cache_bytes = self.options.language.cache_bytes;
        let spec = ModelSpec { name, bytes: file_bytes + cache_bytes, is_counted: true };
        let loaded = self.get(spec, || self.load_language(name, &folder, cache_bytes))?;
        Ok(Arc::new(UsedLanguage(loaded)))
    }
}
