//! Calls that cost credits and are answered at once: held while they run, charged with their answer, returned without one.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hark_api::{ApiError, ErrorKind};
use hark_store::{Begun, Call, CallResult, Derived, NewCall, StoredAnswer};
use serde::Serialize;

use crate::app::App;
use crate::error::Failure;
use crate::idempotent::{self, Canonical};
use crate::middleware::Identity;

/// What a text call costs.
pub(crate) const CREDITS: i64 = 1;
/// Beyond the timeout of a call, until the hold and the idempotency key of one whose process died expire.
pub(crate) const EXPIRY_MARGIN: Duration = Duration::from_secs(120);
/// `Retry-After` while the same request is in progress, in seconds.
const RETRY_AFTER: u64 = 5;

/// A call whose credits are held. Dropped without an answer (an error, a timeout, a caller who left) it costs nothing, unless part of its answer was
/// sent.
pub(crate) struct PaidCall {
    app: App,
    /// `None` once it is charged.
    call: Option<Box<Call>>,
    /// The request has an idempotency key: its answer is stored.
    is_named: bool,
    /// The note of the charge, once part of the answer was sent.
    owed: Option<&'static str>,
}

/// What became of a call whose answer is no JSON.
pub(crate) enum Started {
    /// It may run.
    New(PaidCall),
    /// The same request was answered before, and this was kept of it.
    Answered(StoredAnswer),
}

/// What became of a call that was to begin.
pub(crate) enum Opened {
    /// It may run.
    New(PaidCall),
    /// The same request was answered before.
    Repeated(Response),
}

impl PaidCall {
    /// Holds the credits of a call that takes at most `timeout`. `canonical` describes the request for its idempotency key.
    pub(crate) async fn begin(
        app: &App,
        identity: &Identity,
        headers: &HeaderMap,
        canonical: Canonical,
        timeout: Duration,
    ) -> Result<Opened, Failure> {
        match Self::open(app, identity, headers, canonical, timeout).await? {
            Started::New(call) => Ok(Opened::New(call)),
            Started::Answered(answer) => idempotent::give(headers, &answer).map(Opened::Repeated),
        }
    }

    /// The same for a call whose answer is no JSON, and which takes at most `text.timeout`.
    pub(crate) async fn start(
        app: &App,
        identity: &Identity,
        headers: &HeaderMap,
        canonical: Canonical,
    ) -> Result<Started, Failure> {
        Self::open(app, identity, headers, canonical, app.config.text.timeout.duration()).await
    }

    async fn open(
        app: &App,
        identity: &Identity,
        headers: &HeaderMap,
        canonical: Canonical,
        timeout: Duration,
    ) -> Result<Started, Failure> {
        let idempotency = idempotent::key(headers)?.map(|key| canonical.fingerprint().named(key));
        let is_named = idempotency.is_some();
        let ttl = timeout + EXPIRY_MARGIN;
        let new = NewCall { account: identity.account(), key: identity.key(), credits: CREDITS, ttl, idempotency };
        // In a task of its own: if the client disconnects meanwhile, the hold is made completely and then returned.
        let task_app = app.clone();
        let task = tokio::spawn(async move {
            let begun = task_app.store.calls().begin(new).await?;
            Ok::<_, hark_store::Error>(match begun {
                Begun::New(call) => Ok(PaidCall { app: task_app, call: Some(Box::new(call)), is_named, owed: None }),
                Begun::UnderWay => Err(None),
                Begun::Done(answer) => Err(Some(answer)),
            })
        });
        match task.await.map_err(|_| Failure::from(ErrorKind::Internal))?? {
            Ok(call) => Ok(Started::New(call)),
            Err(Some(answer)) => Ok(Started::Answered(answer)),
            Err(None) => {
                let message = "the same request is in progress: wait for its answer";
                Err(ApiError::new(ErrorKind::Conflict, message).retry_after(RETRY_AFTER).into())
            }
        }
    }

    /// Charges the call and answers it.
    pub(crate) async fn complete<T: Serialize>(
        self,
        headers: &HeaderMap,
        note: &str,
        answer: &T,
        derived: Option<Derived<'_>>,
    ) -> Result<Response, Failure> {
        self.charge(headers, note, answer, derived).await?;
        Ok(Json(answer).into_response())
    }

    /// Charges the call and stores its answer, in one transaction.
    pub(crate) async fn charge<T: Serialize>(
        mut self,
        headers: &HeaderMap,
        note: &str,
        answer: &T,
        derived: Option<Derived<'_>>,
    ) -> Result<(), Failure> {
        let Some(call) = &self.call else { return Err(ErrorKind::Internal.into()) };
        let kept = if self.is_named { idempotent::keep(headers, StatusCode::OK, answer) } else { None };
        let result = CallResult { note, answer: kept.as_ref(), derived };
        // Whether it was charged is decided by the transaction. Until that is known (an error, a caller who leaves during the commit) the call is kept, and
        // dropping it returns what is still held.
        self.app.store.calls().complete(call, result).await?;
        self.call = None;
        Ok(())
    }

    /// From now on it is charged even if it is dropped: part of its answer is sent.
    pub(crate) fn owe(&mut self, note: &'static str) {
        self.owed = Some(note);
    }

    pub(crate) fn is_owed(&self) -> bool {
        self.owed.is_some()
    }

    /// It costs nothing after all: its answer could not be completed.
    pub(crate) fn waive(&mut self) {
        self.owed = None;
    }
}

impl Drop for PaidCall {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        let (app, owed) = (self.app.clone(), self.owed);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let calls = app.store.calls();
            let settled = match owed {
                Some(note) => match calls.complete(&call, CallResult { note, ..CallResult::default() }).await {
                    // It was charged before, or its hold has expired.
                    Err(hark_store::Error::NotFound(_)) => Ok(()),
                    charged => charged,
                },
                None => calls.abandon(&call).await,
            };
            if let Err(error) = settled {
                // The hold expires by itself.
                tracing::warn!(%error, reference = call.reference(), "call.settle_failed");
            }
        });
    }
}
