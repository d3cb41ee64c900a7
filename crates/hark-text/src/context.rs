//! What a task runs in: the model, whose request it is, and who watches its progress.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use hark_transcript::Lane;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::TextError;
use crate::model::{
    Completion, CompletionRequest, DEFAULT_TOP_P, Finish, LanguageModel, Message, ModelError, OutputFormat,
};
use crate::parts::{self, Part};
use crate::prompt::{INSTRUCTION_TOKENS, Prompt};
use crate::source::Source;

/// Completions of one task that run at the same time; the engine batches them.
const IN_FLIGHT: usize = 8;

/// Tokens of the longest part. A small model overlooks what stands in the middle of a longer one.
const MAX_PART_TOKENS: usize = 2400;

/// Tokens below which a part makes no sense.
const MIN_PART_TOKENS: usize = 128;

/// Pauses between attempts to have a completion of a running task taken, which double up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What a task runs in.
pub struct Context<'a> {
    model: &'a dyn LanguageModel,
    owner: u64,
    lane: Lane,
    on_progress: Option<&'a (dyn Fn(Progress) + Send + Sync)>,
    /// Whether the model has taken a completion.
    has_begun: AtomicBool,
    done: AtomicUsize,
    total: AtomicUsize,
}

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Completions that have ended.
    pub done: usize,
    /// Completions that are known to be needed; may grow.
    pub total: usize,
}

impl<'a> Context<'a> {
    /// A task for an owner, between whom the scheduler is fair.
    pub fn new(model: &'a dyn LanguageModel, owner: u64, lane: Lane) -> Self {
        Context {
            model,
            owner,
            lane,
            on_progress: None,
            has_begun: AtomicBool::new(false),
            done: AtomicUsize::new(0),
            total: AtomicUsize::new(0),
        }
    }

    /// Calls `on_progress` whenever a completion ends.
    pub fn with_progress(mut self, on_progress: &'a (dyn Fn(Progress) + Send + Sync)) -> Self {
        self.on_progress = Some(on_progress);
        self
    }

    /// The name of the model.
    pub fn model_name(&self) -> &str {
        self.model.name()
    }

    /// Announces completions that will be needed.
    pub(crate) fn expect(&self, completions: usize) {
        self.total.fetch_add(completions, Ordering::Relaxed);
    }

    /// Notes that a completion has ended.
    pub(crate) fn completed(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let total = self.total.fetch_max(done, Ordering::Relaxed).max(done);
        if let Some(on_progress) = self.on_progress {
            on_progress(Progress { done, total });
        }
    }

    /// The parts of a source whose prompts fit the model with an answer of `answer_tokens`.
    pub(crate) fn parts(&self, source: &Source, answer_tokens: usize, most: usize) -> Result<Vec<Part>, TextError> {
        let budget = self.part_budget(answer_tokens)?.min(most);
        Ok(parts::split(source, budget, &|text| self.model.count_tokens(text)))
    }

    /// Tokens that a text may have beside the instructions and an answer of `answer_tokens`.
    pub(crate) fn part_budget(&self, answer_tokens: usize) -> Result<usize, TextError> {
        let context = self.model.context_length();
        let taken = answer_tokens + INSTRUCTION_TOKENS;
        if context < taken + MIN_PART_TOKENS {
            return Err(TextError::ContextTooSmall { context, needed: taken + MIN_PART_TOKENS });
        }
        Ok((context - taken).min(MAX_PART_TOKENS))
    }

    pub(crate) fn context_length(&self) -> usize {
        self.model.context_length()
    }

    pub(crate) fn count_tokens(&self, text: &str) -> usize {
        self.model.count_tokens(text)
    }

    /// An answer in prose. Retries are other answers: `attempt` 0 is greedy.
    pub(crate) async fn text(&self, prompt: &Prompt<'_>, max_tokens: usize, attempt: u64) -> Result<String, TextError> {
        let (text, finish) = self.complete(prompt.messages(), OutputFormat::Text, max_tokens, attempt).await?;
        let text = text.trim();
        if finish == Finish::Length {
            return Ok(whole_sentences(text).to_owned());
        }
        Ok(text.to_owned())
    }

    /// The `items` of a JSON answer. One that was cut off by `max_tokens` gives the items that are complete.
    pub(crate) async fn items<T: DeserializeOwned>(
        &self,
        prompt: &Prompt<'_>,
        item_schema: Value,
        most: usize,
        max_tokens: usize,
        attempt: u64,
    ) -> Result<Vec<T>, TextError> {
        let schema = crate::schema::list("items", item_schema, most);
        let (text, _) = self.complete(prompt.messages(), OutputFormat::Json(schema), max_tokens, attempt).await?;
        Ok(crate::schema::parse_items(&text))
    }

    /// A JSON answer of a fixed shape.
    pub(crate) async fn object(
        &self,
        messages: Vec<Message>,
        schema: Value,
        max_tokens: usize,
    ) -> Result<Value, TextError> {
        for attempt in 0..2 {
            let format = OutputFormat::Json(schema.clone());
            let (text, _) = self.complete(messages.clone(), format, max_tokens, attempt).await?;
            if let Ok(value) = serde_json::from_str(&text) {
                return Ok(value);
            }
        }
        Err(TextError::InvalidAnswer)
    }

    /// Starts a greedy completion, whose events the caller reads.
    pub(crate) async fn start(
        &self,
        messages: Vec<Message>,
        format: OutputFormat,
        max_tokens: usize,
    ) -> Result<Completion, TextError> {
        Ok(self.submit(self.request(messages, format, max_tokens, 0)).await?)
    }

    async fn complete(
        &self,
        messages: Vec<Message>,
        format: OutputFormat,
        max_tokens: usize,
        attempt: u64,
    ) -> Result<(String, Finish), TextError> {
        let request = self.request(messages, format, max_tokens, attempt);
        let mut pauses = Pauses::default();
        loop {
            match self.submit(request.clone()).await?.answer().await {
                // An endpoint says so only now.
                Err(ModelError::Busy) if self.done.load(Ordering::Relaxed) > 0 => pauses.wait().await,
                answer => {
                    let answer = answer?;
                    self.completed();
                    return Ok((answer.text, answer.finish));
                }
            }
        }
    }

    fn request(
        &self,
        messages: Vec<Message>,
        format: OutputFormat,
        max_tokens: usize,
        attempt: u64,
    ) -> CompletionRequest {
        CompletionRequest {
            messages,
            format,
            max_tokens,
            temperature: if attempt == 0 { 0.0 } else { 0.5 },
            top_p: DEFAULT_TOP_P,
            seed: attempt,
            owner: self.owner,
            lane: self.lane,
        }
    }

    /// Starts a completion. A task that can't begin says at once that the model is busy; one that has begun waits for its turn, so that its finished
    /// parts are not lost. The caller's timeout, or dropping the task, ends that.
    async fn submit(&self, request: CompletionRequest) -> Result<Completion, ModelError> {
        let mut pauses = Pauses::default();
        loop {
            match self.model.complete(request.clone()) {
                Err(ModelError::Busy) if self.has_begun.load(Ordering::Relaxed) => pauses.wait().await,
                outcome => {
                    self.has_begun.fetch_or(outcome.is_ok(), Ordering::Relaxed);
                    return outcome;
                }
            }
        }
    }
}

/// Pauses that get longer.
struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Pauses(FIRST_PAUSE)
    }
}

impl Pauses {
    async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
    }
}

/// Runs futures, some at the same time; results in their order. The first error ends all.
pub(crate) async fn all<T>(futures: Vec<impl Future<Output = Result<T, TextError>>>) -> Result<Vec<T>, TextError> {
    let mut results = Vec::with_capacity(futures.len());
    let mut stream = stream::iter(futures).buffered(IN_FLIGHT);
    while let Some(result) = stream.next().await {
        results.push(result?);
    }
    Ok(results)
}

/// A text that was cut off, up to the end of its last sentence or line; all of it where there is none.
fn whole_sentences(text: &str) -> &str {
    let end = text.rfind(['.', '!', '?', '\n', '。', '！', '？']).map(|at| {
        let width = text[at..].chars().next().map_or(1, char::len_utf8);
        at + width
    });
    match end {
        Some(end) if end * 2 > text.len() => text[..end].trim_end(),
        _ => text,
    }
}
