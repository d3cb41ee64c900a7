//! Runs a task on a text with the language model: within limits of number and time, for a credit.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::Response;
use hark_api::{ApiError, ErrorKind};
use hark_store::{Derived, Owner, TranscriptId};
use hark_text::{Context, LanguageModel, ModelError, TextError};
use hark_transcript::Lane;
use serde::Serialize;

use crate::app::App;
use crate::error::Failure;
use crate::idempotent::Canonical;
use crate::middleware::Identity;
use crate::paid_call::{Opened, PaidCall};

/// `Retry-After` of a language model with too much to do, in seconds.
const RETRY_AFTER: u64 = 15;

/// A task on a text, which is charged when it is answered.
pub(crate) struct TextCall<'a> {
    pub(crate) app: &'a App,
    pub(crate) identity: &'a Identity,
    pub(crate) headers: &'a HeaderMap,
    /// The request, for its idempotency key.
    pub(crate) canonical: Canonical,
    /// What the ledger calls it.
    pub(crate) note: &'static str,
}

/// Where the result of a task about a transcript is stored.
pub(crate) struct StoreAs<'a> {
    pub(crate) transcript: TranscriptId,
    pub(crate) kind: &'a str,
    /// The transcript shows it as its summary.
    pub(crate) is_summary: bool,
}

/// A result that may be stored with its transcript.
pub(crate) struct Done<T> {
    /// The answer.
    pub(crate) answer: T,
    /// The summary, where it is one.
    pub(crate) summary: Option<String>,
}

impl TextCall<'_> {
    /// Runs `task` and answers with its result, or with that of the same request before.
    pub(crate) async fn run<T, F>(
        self,
        store_as: Option<StoreAs<'_>>,
        task: impl FnOnce(Arc<dyn LanguageModel>) -> F,
    ) -> Result<Response, Failure>
    where
        T: Serialize,
        F: Future<Output = Result<Done<T>, TextError>>,
    {
        let TextCall { app, identity, headers, canonical, note } = self;
        app.engines.language()?;
        let place = app.text_calls.acquire(Owner::Account(identity.account()));
        let limit = identity.plan().concurrency();
        if i64::try_from(place.before).unwrap_or(i64::MAX) >= limit {
            let message = format!("{limit} texts are being worked on for you at once: wait for one to end");
            return Err(ApiError::new(ErrorKind::TooManyAtOnce, message).retry_after(RETRY_AFTER).into());
        }
        let call = match PaidCall::begin(app, identity, headers, canonical).await? {
            Opened::New(call) => call,
            Opened::Repeated(response) => return Ok(response),
        };
        let timeout = app.config.text.timeout.duration();
        let work = async {
            let model = load(app).await?;
            task(model).await.map_err(failure)
        };
        let done = within(timeout, work).await?;
        let body = serde_json::to_vec(&done.answer).map_err(|_| Failure::from(ErrorKind::Internal))?;
        let derived = store_as.as_ref().map(|to| Derived {
            transcript: to.transcript,
            kind: to.kind,
            body: &body,
            summary: done.summary.as_deref().filter(|_| to.is_summary),
        });
        call.complete(headers, note, &done.answer, derived).await
    }
}

/// The context of a task for an account.
pub(crate) fn context<'a>(model: &'a dyn LanguageModel, identity: &Identity) -> Context<'a> {
    Context::new(model, identity.account().0.unsigned_abs(), Lane::Interactive)
}

/// The language model; it is loaded on a blocking thread.
async fn load(app: &App) -> Result<Arc<dyn LanguageModel>, Failure> {
    let engine = Arc::clone(app.engines.language()?);
    let span = tracing::Span::current();
    match tokio::task::spawn_blocking(move || span.in_scope(|| engine.language())).await {
        Ok(model) => Ok(model?),
        Err(error) => {
            tracing::error!(%error, "language.panicked");
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

fn failure(error: TextError) -> Failure {
    match error {
        TextError::Empty => Failure::invalid("the text is empty: there is nothing to work on"),
        TextError::Model(ModelError::Busy) => {
            ApiError::new(ErrorKind::QueueFull, error.to_string()).retry_after(RETRY_AFTER).into()
        }
        TextError::Model(ModelError::Unavailable(_)) => {
            tracing::error!(%error, "language.unavailable");
            ErrorKind::Unavailable.into()
        }
        _ => {
            tracing::error!(%error, "language.failed");
            ErrorKind::Internal.into()
        }
    }
}
