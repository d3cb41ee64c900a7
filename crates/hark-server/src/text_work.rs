//! Runs a task on a text with the language model: within limits of number and time, for a credit.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use hark_api::{ApiError, ErrorKind};
use hark_store::{Derived, Owner, TranscriptId};
use hark_text::{Context, LanguageModel, ModelError, Progress, Source, Task, TaskResult, TextError};
use hark_transcript::Lane;
use serde::Serialize;

use crate::app::App;
use crate::error::Failure;
use crate::idempotent::Canonical;
use crate::limits::Place;
use crate::metrics::text::{Outcome, TextTimer};
use crate::middleware::Identity;
use crate::paid_call::{Opened, PaidCall};
use crate::panics;
use crate::sse::{self, Events};

/// `Retry-After` of a language model with too much to do, in seconds.
pub(crate) const RETRY_AFTER: u64 = 15;

/// A task on a text, which is charged when it is answered.
pub(crate) struct TextCall {
    pub(crate) app: App,
    pub(crate) identity: Identity,
    pub(crate) headers: HeaderMap,
    /// The request, for its idempotency key.
    pub(crate) canonical: Canonical,
    pub(crate) task: Task,
    pub(crate) source: Source,
    /// The transcript that the text belongs to: the result is stored with it.
    pub(crate) transcript: Option<TextRevision>,
}

/// The text of a transcript as it was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextRevision {
    pub(crate) transcript: TranscriptId,
    pub(crate) revision: i64,
}

/// A result about a transcript.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct Cached<T> {
    #[serde(flatten)]
    pub(crate) result: T,
    /// Whether it was made before; then it cost nothing.
    pub(crate) cached: bool,
}

/// How far the work is: an event of a request that accepts `text/event-stream`.
#[derive(Debug, Serialize)]
struct ProgressEvent {
    /// Steps that have ended.
    done: usize,
    /// Steps that are known to be needed; may grow.
    total: usize,
}

impl TextCall {
    /// Runs the task and answers with its result, or with that of the same request before. A request that accepts
    /// `text/event-stream` gets events: `progress`, then `result` or `error`.
    pub(crate) async fn run(self) -> Result<Response, Failure> {
        let characters = self.source.text().chars().count();
        check_length(&self.app, characters)?;
        self.app.engines.language()?;
        let place = take_place(&self.app, &self.identity)?;
        let TextCall { app, identity, headers, canonical, task, source, transcript } = self;
        let is_stream = sse::is_wanted(&headers);
        let settings = &app.config.text;
        let timeout = if is_stream { settings.stream_timeout } else { settings.timeout }.duration();
        let call = match PaidCall::begin(&app, &identity, &headers, canonical, timeout).await? {
            Opened::New(call) => call,
            Opened::Repeated(response) => return Ok(response),
        };
        let work = Work { app, identity, headers, task, source, transcript, call, _place: place };
        if !is_stream {
            return work.perform(timeout, None).await;
        }
        Ok(sse::respond(|events| async move {
            if let Err(failure) = work.perform(timeout, Some(events.clone())).await {
                events.send_named("error", &failure.error.body());
            }
        }))
    }
}

/// A task whose credit is held.
struct Work {
    app: App,
    identity: Identity,
    headers: HeaderMap,
    task: Task,
    source: Source,
    transcript: Option<TextRevision>,
    call: PaidCall,
    _place: Place<Owner>,
}

impl Work {
    /// Runs the task, charges it and stores its result. Dropped before it ends it costs nothing.
    async fn perform(self, timeout: Duration, events: Option<Events>) -> Result<Response, Failure> {
        let timer = TextTimer::start(&self.app.metrics, note(self.task));
        let result = self.answer(timeout, events).await;
        timer.end(Outcome::of(&result));
        result
    }

    async fn answer(self, timeout: Duration, events: Option<Events>) -> Result<Response, Failure> {
        let Work { app, identity, headers, task, source, transcript, call, _place } = self;
        let report = |progress: Progress| {
            if let Some(events) = &events {
                events.send_named("progress", &ProgressEvent { done: progress.done, total: progress.total });
            }
        };
        let result = within(timeout, async {
            let model = load(&app).await?;
            let context = context(&*model, &identity).with_progress(&report);
            task.run(&context, &source).await.map_err(failure)
        })
        .await?;
        let summary = match &result {
            TaskResult::Summary(summary) => Some(summary.summary.clone()),
            _ => None,
        };
        let answer = match transcript {
            Some(_) => to_json(&Cached { result, cached: false })?,
            None => to_json(&result)?,
        };
        let (kind, body) = (kind(task), answer.to_string().into_bytes());
        let derived = transcript.map(|TextRevision { transcript, revision }| Derived {
            transcript,
            revision,
            kind: &kind,
            body: &body,
            summary: summary.as_deref(),
        });
        call.charge(&headers, note(task), &answer, derived).await?;
        if let Some(events) = &events {
            events.send_named("result", &answer);
        }
        Ok(Json(answer).into_response())
    }
}

fn to_json(answer: &impl Serialize) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(answer).map_err(|error| {
        tracing::error!(%error, "answer.encode_failed");
        ErrorKind::Internal.into()
    })
}

/// What the ledger calls a task.
fn note(task: Task) -> &'static str {
    match task {
        Task::Summarize(_) => "summarize",
        Task::Analyze(_) => "analyze",
        Task::Generate(_) => "generate",
    }
}

/// Under which name the result of a task is stored with its transcript.
pub(crate) fn kind(task: Task) -> String {
    let (what, name) = match task {
        Task::Summarize(style) => ("summary", serde_json::to_value(style)),
        Task::Analyze(kind) => ("analysis", serde_json::to_value(kind)),
        Task::Generate(kind) => ("generation", serde_json::to_value(kind)),
    };
    let name = name.unwrap_or_default();
    format!("{what}:{}", name.as_str().unwrap_or_default())
}

/// A place among the text calls of an account that run at once.
pub(crate) fn take_place(app: &App, identity: &Identity) -> Result<Place<Owner>, Failure> {
    let place = app.text_calls.acquire(Owner::Account(identity.account()));
    let limit = identity.plan().concurrency();
    if i64::try_from(place.before).unwrap_or(i64::MAX) >= limit {
        let message = format!("{limit} texts are being worked on for you at once: wait for one to end");
        return Err(ApiError::new(ErrorKind::TooManyAtOnce, message).retry_after(RETRY_AFTER).into());
    }
    Ok(place)
}

/// Refuses a text that is longer than this server works on.
pub(crate) fn check_length(app: &App, characters: usize) -> Result<(), Failure> {
    let limit = app.config.text.max_characters;
    if characters <= limit {
        return Ok(());
    }
    Err(Failure::invalid(format!("the text has {characters} characters, and this server works on {limit} at most")))
}

/// Whose request it is, for the scheduler of the language model.
pub(crate) fn owner(identity: &Identity) -> u64 {
    identity.account().0.unsigned_abs()
}

/// The context of a task for an account.
pub(crate) fn context<'a>(model: &'a dyn LanguageModel, identity: &Identity) -> Context<'a> {
    Context::new(model, owner(identity), Lane::Interactive)
}

/// The language model; it is loaded on a blocking thread.
pub(crate) async fn load(app: &App) -> Result<Arc<dyn LanguageModel>, Failure> {
    let engine = Arc::clone(app.engines.language()?);
    let span = tracing::Span::current();
    match tokio::task::spawn_blocking(move || span.in_scope(|| engine.language())).await {
        Ok(model) => Ok(model?),
        Err(error) => {
            tracing::error!(error = panics::ending(&error), "language.panicked");
            Err(ErrorKind::Internal.into())
        }
    }
}

pub(crate) async fn within<T>(timeout: Duration, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| {
        let message = format!(
            "the text takes longer than the {} s that a request may wait; nothing was charged: send less text",
            timeout.as_secs()
        );
        Err(Failure::new(ErrorKind::Timeout, message))
    })
}

pub(crate) fn failure(error: TextError) -> Failure {
    match error {
        TextError::Empty => Failure::invalid("the text is empty: there is nothing to work on"),
        TextError::Model(ModelError::Busy) => {
            ApiError::new(ErrorKind::QueueFull, error.to_string()).retry_after(RETRY_AFTER).into()
        }
        TextError::Model(ModelError::Unavailable(_)) => {
            tracing::error!(%error, "language.unavailable");
            ApiError::from(ErrorKind::Unavailable).retry_after(RETRY_AFTER).into()
        }
        TextError::ContextTooSmall { .. } => {
            tracing::error!(%error, "language.context_too_small");
            Failure::new(ErrorKind::Unavailable, error.to_string())
        }
        _ => {
            tracing::error!(%error, "language.failed");
            ErrorKind::Internal.into()
        }
    }
}
