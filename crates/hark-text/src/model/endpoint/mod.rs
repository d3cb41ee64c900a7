//! A language model on another server: anything that speaks OpenAI's chat completions API.
//!
//! [`Endpoint`] is the server with its limits: requests at once, a circuit breaker (`breaker.rs`), what is known of it.
//! [`EndpointModel`] is the model there. A completion is a task (`call.rs`) that asks, reads events (`sse.rs`), retries what failed
//! before its first piece of text, and checks JSON against its schema (`validate.rs`).

mod breaker;
mod call;
mod estimate;
mod fault;
mod sse;
mod validate;
mod wire;

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, RequestBuilder, Url};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::unbounded_channel;

use super::{Completion, CompletionRequest, LanguageModel, Message, ModelError, TEMPLATE_TOKENS, Usage};
use breaker::{Breaker, Permit};
use wire::{JsonMode, Models};

pub use breaker::BreakerState;

/// The context length where neither the settings nor the endpoint say it.
const DEFAULT_CONTEXT: usize = 8192;
/// How long what is known of the model holds.
const KEEP_MODEL: Duration = Duration::from_secs(300);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const LIST_TIMEOUT: Duration = Duration::from_secs(15);
/// Bytes of the list of models.
const MAX_LIST: usize = 4 << 20;

/// Where a model is, and how it may be used.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointSettings {
    /// The address of the API, such as `http://127.0.0.1:8000/v1`.
    pub url: String,
    /// The name of the model there; the first one that it lists when not given.
    pub model: Option<String>,
    /// The API key.
    pub key: Option<String>,
    /// Most tokens of a prompt and its answer; what the endpoint says when not given.
    pub context: Option<usize>,
    /// Requests at once.
    pub at_once: usize,
}

impl std::fmt::Debug for EndpointSettings {
    // Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let EndpointSettings { url, model, key, context, at_once } = self;
        f.debug_struct("EndpointSettings")
            .field("url", url)
            .field("model", model)
            .field("key", &key.as_ref().map(|_| "(hidden)"))
            .field("context", context)
            .field("at_once", at_once)
            .finish()
    }
}

impl EndpointSettings {
    /// An endpoint with nothing but its address.
    pub fn new(url: impl Into<String>) -> Self {
        EndpointSettings { url: url.into(), model: None, key: None, context: None, at_once: 16 }
    }

    /// What makes no sense, in words for the operator.
    pub fn check(&self) -> Result<(), String> {
        base_url(&self.url)?;
        if !(1..=4096).contains(&self.at_once) {
            return Err("`endpoint_at_once` must be a number from 1 to 4096".to_owned());
        }
        if self.context.is_some_and(|context| !(1024..=1 << 24).contains(&context)) {
            return Err("`endpoint_context` must be a number from 1024 to 16777216".to_owned());
        }
        self.key.as_deref().map_or(Ok(()), |key| authorization(key).map(drop))
    }
}

/// The address without a slash at its end; one without a path gets `/v1`.
fn base_url(url: &str) -> Result<String, String> {
    let wrong = || format!("`endpoint` is {url:?}: write an address such as http://127.0.0.1:8000/v1");
    let parsed = Url::parse(url).map_err(|_| wrong())?;
    let has_credentials = !parsed.username().is_empty() || parsed.password().is_some();
    if !["http", "https"].contains(&parsed.scheme()) || !parsed.has_host() || parsed.query().is_some() {
        return Err(wrong());
    }
    if has_credentials {
        return Err("`endpoint` has a password in it: give the key as `endpoint_key_file`".to_owned());
    }
    let text = parsed.as_str().trim_end_matches('/').to_owned();
    Ok(if parsed.path() == "/" { format!("{text}/v1") } else { text })
}

fn authorization(key: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
        .map_err(|_| "`endpoint_key` has characters that no key has".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// A server with a language model; clones share it.
#[derive(Clone)]
pub struct Endpoint(Arc<Shared>);

/// What an endpoint does and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointStatus {
    /// Whether requests are sent.
    pub breaker: BreakerState,
    /// Times that the circuit breaker opened.
    pub opened: u64,
    /// Requests that were sent, retries included.
    pub requests: u64,
    /// Requests that were sent again.
    pub retries: u64,
    /// Completions that are under way.
    pub running: usize,
    /// Tokens of all answers.
    pub usage: Usage,
}

struct Shared {
    client: Client,
    base: String,
    headers: HeaderMap,
    settings: EndpointSettings,
    slots: Semaphore,
    breaker: Breaker,
    /// The model as the endpoint lists it, and when that was.
    known: Mutex<Option<(Instant, KnownModel)>>,
    /// How JSON is asked for, a [`JsonMode`].
    json_mode: AtomicU8,
    /// Thousandths by which estimates of tokens are too low.
    scale: AtomicU32,
    requests: AtomicU64,
    retries: AtomicU64,
    /// Tokens of all answers.
    usage: Mutex<Usage>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownModel {
    name: String,
    context: usize,
}

impl Endpoint {
    /// Sets the client up; nothing is sent.
    pub fn new(settings: EndpointSettings) -> Result<Self, String> {
        settings.check()?;
        let base = base_url(&settings.url)?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &settings.key {
            headers.insert(AUTHORIZATION, authorization(key)?);
        }
        let mut builder = hark_http::builder().connect_timeout(CONNECT_TIMEOUT);
        if is_loopback(&base) {
            // A proxy would look for the endpoint on its own machine.
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| hark_http::Error::from(error).to_string())?;
        Ok(Endpoint(Arc::new(Shared {
            client,
            base,
            headers,
            slots: Semaphore::new(settings.at_once),
            settings,
            breaker: Breaker::default(),
            known: Mutex::default(),
            json_mode: AtomicU8::new(JsonMode::Schema as u8),
            scale: AtomicU32::new(1000),
            requests: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            usage: Mutex::default(),
        })))
    }

    /// The name of the model, as far as it is known without asking.
    pub fn model_name(&self) -> Option<String> {
        self.0.settings.model.clone().or_else(|| self.0.known().as_ref().map(|(_, model)| model.name.clone()))
    }

    /// The context length, as far as it is known without asking.
    pub fn context(&self) -> Option<usize> {
        self.0.settings.context.or_else(|| self.0.known().as_ref().map(|(_, model)| model.context))
    }

    /// What it does and did.
    pub fn status(&self) -> EndpointStatus {
        let shared = &self.0;
        EndpointStatus {
            breaker: shared.breaker.state(),
            opened: shared.breaker.opened(),
            requests: shared.requests.load(Ordering::Relaxed),
            retries: shared.retries.load(Ordering::Relaxed),
            usage: *shared.usage(),
            running: shared.settings.at_once.saturating_sub(shared.slots.available_permits()),
        }
    }

    /// The model. Asks the endpoint for its name and context length where the settings do not have them.
    pub async fn model(&self) -> Result<EndpointModel, ModelError> {
        let known = self.0.model().await?;
        Ok(EndpointModel { shared: Arc::clone(&self.0), known })
    }
}

impl Shared {
    async fn model(&self) -> Result<KnownModel, ModelError> {
        if let (Some(name), Some(context)) = (&self.settings.model, self.settings.context) {
            return Ok(KnownModel { name: name.clone(), context });
        }
        let known = self.known().clone();
        if let Some((at, known)) = &known
            && at.elapsed() < KEEP_MODEL
        {
            return Ok(known.clone());
        }
        let permit = self.admit()?;
        match self.list().await {
            Ok(models) => {
                permit.succeeded();
                let model = self.choose(&models)?;
                *self.known() = Some((Instant::now(), model.clone()));
                Ok(model)
            }
            Err(error) => {
                permit.failed(&error);
                match known {
                    // Its requests will say whether it is still there.
                    Some((_, known)) => Ok(known),
                    None => Err(ModelError::Unavailable(format!("the endpoint does not answer: {error}"))),
                }
            }
        }
    }

    /// The models that the endpoint lists; none where it has no such list.
    async fn list(&self) -> Result<Models, String> {
        let request = self.client.get(format!("{}/models", self.base)).headers(self.headers.clone());
        let read = async {
            let mut response = request.send().await.map_err(|error| hark_http::Error::from(error).to_string())?;
            let status = response.status();
            if status.is_server_error() {
                return Err(format!("it failed ({status})"));
            }
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|error| hark_http::Error::from(error).to_string())? {
                body.extend_from_slice(&chunk);
                if body.len() > MAX_LIST {
                    return Err(format!("its list of models has more than {MAX_LIST} bytes"));
                }
            }
            Ok(serde_json::from_slice(&body).unwrap_or(Models { data: Vec::new() }))
        };
        tokio::time::timeout(LIST_TIMEOUT, read).await.map_err(|_| "no answer in time".to_owned())?
    }

    /// The model of the settings, else the first of the list that may be one.
    fn choose(&self, models: &Models) -> Result<KnownModel, ModelError> {
        let wanted = self.settings.model.as_deref();
        // Hark lists its speech models first; only its language model has a context.
        let listed = match wanted {
            Some(name) => models.data.iter().find(|model| model.id == name),
            None => models.data.iter().find(|model| model.context().is_some()).or(models.data.first()),
        };
        let name = wanted
            .or(listed.map(|model| model.id.as_str()))
            .ok_or_else(|| ModelError::Unavailable("the endpoint lists no models: set `endpoint_model`".to_owned()))?;
        let context = self.settings.context.or(listed.and_then(wire::ModelEntry::context)).unwrap_or(DEFAULT_CONTEXT);
        Ok(KnownModel { name: name.to_owned(), context })
    }

    fn known(&self) -> MutexGuard<'_, Option<(Instant, KnownModel)>> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        self.usage.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn count_usage(&self, usage: Usage) {
        let mut all = self.usage();
        all.prompt_tokens += usage.prompt_tokens;
        all.cached_tokens += usage.cached_tokens;
        all.completion_tokens += usage.completion_tokens;
    }

    fn admit(&self) -> Result<Permit<'_>, ModelError> {
        self.breaker.admit().map_err(|wait| {
            let seconds = wait.as_secs_f64().ceil();
            ModelError::Unavailable(format!("the endpoint did not answer; it is tried again in {seconds} s"))
        })
    }

    fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        let request = self.client.post(format!("{}{path}", self.base)).headers(self.headers.clone());
        request.body(body.to_string())
    }

    fn json_mode(&self) -> JsonMode {
        JsonMode::from_number(self.json_mode.load(Ordering::Relaxed))
    }

    fn set_json_mode(&self, mode: JsonMode) {
        if self.json_mode.swap(mode as u8, Ordering::Relaxed) != mode as u8 {
            tracing::warn!(mode = ?mode, "endpoint.json_mode");
        }
    }

    fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    fn count_tokens(&self, text: &str) -> usize {
        estimate::tokens(text) * self.scale.load(Ordering::Relaxed) as usize / 1000
    }

    fn prompt_tokens(&self, messages: &[Message]) -> usize {
        let tokens = messages.iter().map(|message| self.count_tokens(&message.content) + TEMPLATE_TOKENS);
        tokens.sum::<usize>() + TEMPLATE_TOKENS
    }

    /// Raises estimates where the endpoint counted more tokens than were estimated.
    fn learn(&self, messages: &[Message], counted: u64) {
        let estimated: usize = messages.iter().map(|message| estimate::tokens(&message.content)).sum();
        // Short prompts are mostly template.
        if estimated > 256 {
            let needed = counted.saturating_mul(1000).div_ceil(estimated as u64).min(8000) as u32;
            self.scale.fetch_max(needed, Ordering::Relaxed);
        }
    }
}

fn is_loopback(url: &str) -> bool {
    let host = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// A language model behind an endpoint.
pub struct EndpointModel {
    shared: Arc<Shared>,
    known: KnownModel,
}

impl LanguageModel for EndpointModel {
    fn name(&self) -> &str {
        &self.known.name
    }

    fn context_length(&self) -> usize {
        self.known.context
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.shared.count_tokens(text)
    }

    fn complete(&self, request: CompletionRequest) -> Result<Completion, ModelError> {
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|_| ModelError::Failed("an endpoint is used outside of the runtime".into()))?;
        // While it is known not to answer, a request need not wait for its turn to hear that.
        if self.shared.breaker.state() == BreakerState::Open {
            self.shared.admit()?;
        }
        let (sender, events) = unbounded_channel();
        let (shared, known) = (Arc::clone(&self.shared), self.known.clone());
        runtime.spawn(call::run(shared, known.name, known.context, request, sender));
        Ok(Completion::new(events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;

    #[test]
    fn addresses_are_completed_and_what_is_none_is_refused() {
        assert_eq!(base_url("http://127.0.0.1:8000").unwrap(), "http://127.0.0.1:8000/v1");
        assert_eq!(base_url("https://models.example.com/api/v1/").unwrap(), "https://models.example.com/api/v1");
        for wrong in ["", "127.0.0.1:8000", "ftp://a/v1", "http://a/v1?key=b", "http://me:secret@a/v1"] {
            let error = base_url(wrong).unwrap_err();
            assert!(error.contains("`endpoint`") && !error.contains("me:secret"), "{error}");
        }
        assert!(is_loopback("http://localhost:1/v1") && is_loopback("http://[::1]:1/v1"));
        assert!(!is_loopback("http://10.0.0.1/v1"));
    }

    #[test]
    fn the_key_is_shown_nowhere() {
        let settings = EndpointSettings { key: Some("sk-secret".into()), ..EndpointSettings::new("http://a/v1") };
        assert!(!format!("{settings:?}").contains("secret"));
        let endpoint = Endpoint::new(settings).unwrap();
        assert!(!format!("{:?}", endpoint.0.headers).contains("secret"));
        let wrong = EndpointSettings { key: Some("a\nb".into()), ..EndpointSettings::new("http://a/v1") };
        assert!(Endpoint::new(wrong).is_err_and(|error| !error.contains("a\nb")));
    }

    #[test]
    fn the_model_is_the_one_of_the_settings_or_of_the_list() {
        let choose = |settings: EndpointSettings, list: &str| {
            let models: Models = serde_json::from_str(list).unwrap();
            Endpoint::new(settings).unwrap().0.choose(&models)
        };
        let known = |name: &str, context| Ok(KnownModel { name: name.to_owned(), context });
        let plain = || EndpointSettings::new("http://a/v1");
        let vllm = r#"{"object": "list", "data": [{"id": "qwen", "max_model_len": 32768}]}"#;
        assert_eq!(choose(plain(), vllm), known("qwen", 32768));
        let llama = r#"{"data": [{"id": "model.gguf", "meta": {"n_ctx": 4096, "n_ctx_train": 32768}}]}"#;
        assert_eq!(choose(plain(), llama), known("model.gguf", 4096));
        let hark = r#"{"data": [{"id": "whisper-1"}, {"id": "smollm2", "max_model_len": 2048}]}"#;
        assert_eq!(choose(plain(), hark), known("smollm2", 2048));
        let ollama = r#"{"data": [{"id": "llama3"}]}"#;
        assert_eq!(choose(plain(), ollama), known("llama3", DEFAULT_CONTEXT));
        let named = EndpointSettings { model: Some("other".into()), context: Some(5000), ..plain() };
        assert_eq!(choose(named, ollama), known("other", 5000));
        assert!(choose(plain(), r#"{"data": []}"#).is_err());
    }

    #[test]
    fn estimates_grow_when_the_endpoint_counts_more() {
        let endpoint = Endpoint::new(EndpointSettings::new("http://a/v1")).unwrap();
        let messages = [Message { role: Role::User, content: "word ".repeat(500) }];
        let before = endpoint.0.count_tokens("some words");
        endpoint.0.learn(&messages, 100);
        assert_eq!(endpoint.0.count_tokens("some words"), before, "fewer change nothing");
        endpoint.0.learn(&messages, 2000);
        assert_eq!(endpoint.0.count_tokens("some words"), before * 2);
    }
}
