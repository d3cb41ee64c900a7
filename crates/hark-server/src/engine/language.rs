//! The language model of the engine.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use hark_lm::Model;
use hark_lm::engine::{EngineLimits, EngineStats};
use hark_models::Role as ModelRole;
use hark_text::model::{EndpointStatus, LocalModel};
use hark_text::{Completion, CompletionRequest, Endpoint, EndpointSettings, LanguageModel, Message, ModelError};

use super::registry::{InUse, ModelSpec, Resident};
use super::{Dependency, EngineError, Language, SpeechEngine};

/// The file of a language model in its folder.
const FILE: &str = "model.gguf";
/// The smallest context that a model is given, in tokens: with less a model is refused where memory is short.
const MIN_CONTEXT: usize = 2048;
/// Tokens of a page of the KV cache; the cache has one more than a context needs.
const PAGE: usize = 32;

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

/// The memory of a language model: what it always takes, and its KV cache within the budget of all models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LanguageMemory {
    /// Bytes of weights and workspace.
    fixed: u64,
    /// Bytes of the KV cache.
    cache: u64,
    /// Most tokens of a prompt and its answer.
    context: usize,
}

impl LanguageMemory {
    /// Reads the metadata of a model's file.
    fn of(file: &Path, options: &LanguageOptions, budget: u64) -> Result<Self, hark_lm::LmError> {
        let fixed = hark_lm::memory_needed(file, 0)?;
        let page = hark_lm::memory_needed(file, PAGE)?.saturating_sub(fixed);
        let whole = hark_lm::memory_needed(file, options.context)?.saturating_sub(fixed);
        Ok(Self::within(budget, options, fixed, page, whole))
    }

    /// `page` and `whole` are the bytes of a page and of a whole context. The cache has at most half of what the budget leaves, so that another model fits; a
    /// context that is too long for that is shortened.
    fn within(budget: u64, options: &LanguageOptions, fixed: u64, page: u64, whole: u64) -> Self {
        let pages = |tokens: usize| (tokens.div_ceil(PAGE) as u64 + 1) * page;
        let wanted = options.cache_bytes.max(whole + page);
        let least = pages(MIN_CONTEXT).min(whole + page);
        let cache = wanted.min((budget.saturating_sub(fixed) / 2).max(least));
        let fitting = usize::try_from(cache / page.max(1)).unwrap_or(usize::MAX).saturating_sub(1).saturating_mul(PAGE);
        let context = if whole + page <= cache { options.context } else { options.context.min(fitting) };
        LanguageMemory { fixed, cache, context }
    }

    fn bytes(self) -> u64 {
        self.fixed + self.cache
    }
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

    fn load_language(&self, name: &str, file: &Path, memory: LanguageMemory) -> Result<LoadedLanguage, EngineError> {
        let LanguageMemory { cache, context, .. } = memory;
        if context < self.options.language.context {
            tracing::warn!(model = name, context, cache_bytes = cache, "language.context_shortened");
        }
        let model = Model::load(&self.compute, file).map_err(unavailable)?;
        let limits = EngineLimits { context, cache_bytes: cache, ..EngineLimits::default() };
        let model = LocalModel::start(name.to_owned(), model, limits).map_err(unavailable)?;
        Ok(LoadedLanguage { model, bytes: memory.bytes() })
    }

    /// The memory of a model, whose file is read once.
    fn language_memory(&self, name: &str, file: &Path, file_bytes: u64) -> Result<LanguageMemory, EngineError> {
        let mut known = self.language_memory.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.to_owned(), file_bytes);
        if let Some(memory) = known.get(&key) {
            return Ok(*memory);
        }
        let budget = self.options.memory_budget.0;
        let memory = LanguageMemory::of(file, &self.options.language, budget).map_err(unavailable)?;
        known.insert(key, memory);
        Ok(memory)
    }
}

fn unavailable(error: hark_lm::LmError) -> EngineError {
    EngineError::unavailable(Dependency::Engine, error)
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
        let file = folder.join(FILE);
        let memory = self.language_memory(name, &file, file_bytes)?;
        let spec = ModelSpec { name, bytes: memory.bytes(), is_counted: true };
        let loaded = self.get(spec, || self.load_language(name, &file, memory))?;
        Ok(Arc::new(UsedLanguage(loaded)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Qwen2.5 1.5B, as `hark_lm::memory_needed` counts it: weights and workspace, and 28 KiB a token.
    const FIXED: u64 = 1_452_000_000;
    const TOKEN: u64 = 28 * 1024;

    fn within(budget: u64, options: &LanguageOptions) -> LanguageMemory {
        let (page, whole) = (PAGE as u64 * TOKEN, options.context as u64 * TOKEN);
        LanguageMemory::within(budget, options, FIXED, page, whole)
    }

    #[test]
    fn the_default_model_with_its_whole_context_fits_a_machine_of_four_gigabytes() {
        let options = LanguageOptions::default();
        let memory = within(2_000_000_000, &options);
        assert!(memory.bytes() <= 2_000_000_000, "{memory:?}");
        assert_eq!(memory.context, options.context);
        assert_eq!(memory.cache, (2_000_000_000 - FIXED) / 2, "half of the rest stays for another model");
    }

    #[test]
    fn the_cache_is_as_configured_where_memory_allows_it_and_the_context_is_shortened_where_it_is_short() {
        let options = LanguageOptions::default();
        let roomy = within(8_000_000_000, &options);
        assert_eq!((roomy.cache, roomy.context), (options.cache_bytes, options.context));
        let short = within(FIXED + 300_000_000, &options);
        assert!((MIN_CONTEXT..options.context).contains(&short.context), "{short:?}");
        assert!((short.context as u64 + PAGE as u64) * TOKEN <= short.cache);
        // Less than that is no use: the registry refuses it, with the numbers.
        let refused = within(FIXED, &options);
        assert_eq!(refused.context, MIN_CONTEXT);
        assert!(refused.bytes() > FIXED);
        let long = LanguageOptions { context: 65_536, cache_bytes: 64 << 20, ..LanguageOptions::default() };
        assert_eq!(within(16_000_000_000, &long).cache, (65_536 + 32) * TOKEN, "one context always fits");
    }
}
