//! Calls that cost credits and are answered at once: held while they run, charged with their answer, returned without one.

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
/// Beyond the timeout of a call, until the hold of one whose process died expires.
const HOLD_MARGIN: std::time::Duration = std::time::Duration::from_secs(120);
/// `Retry-After` while the same request is in progress, in seconds.
const RETRY_AFTER: u64 = 5;

/// A call whose credits are held. Dropped without an answer (an error, a timeout, a caller who left) it costs nothing.
pub(crate) struct PaidCall {
    app: App,
    call: Option<Call>,
    /// The request has an idempotency key: its answer is stored.
    is_named: bool,
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
    /// Holds the credits of a call. `canonical` describes the request for its idempotency key.
    pub(crate) async fn begin(
        app: &App,
        identity: &Identity,
        headers: &HeaderMap,
        canonical: Canonical,
    ) -> Result<Opened, Failure> {
        match Self::start(app, identity, headers, canonical).await? {
            Started::New(call) => Ok(Opened::New(call)),
            Started::Answered(answer) => idempotent::give(headers, &answer).map(Opened::Repeated),
        }
    }

    /// The same for a call whose answer is no JSON.
    pub(crate) async fn start(
        app: &App,
        identity: &Identity,
        headers: &HeaderMap,
        canonical: Canonical,
    ) -> Result<Started, Failure> {
        let idempotency = idempotent::key(headers)?.map(|key| canonical.fingerprint().named(key));
        let is_named = idempotency.is_some();
        let ttl = app.config.text.longest().duration() + HOLD_MARGIN;
        let new = NewCall { account: identity.account(), key: identity.key(), credits: CREDITS, ttl, idempotency };
        // In a task of its own: if the client disconnects meanwhile, the hold is made completely and then returned.
        let task_app = app.clone();
        let task = tokio::spawn(async move {
            let begun = task_app.store.calls().begin(new).await?;
            Ok::<_, hark_store::Error>(match begun {
                Begun::New(call) => Ok(PaidCall { app: task_app, call: Some(call), is_named }),
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
        let Some(call) = self.call.take() else { return Err(ErrorKind::Internal.into()) };
        let kept = if self.is_named { idempotent::keep(headers, StatusCode::OK, answer) } else { None };
        let result = CallResult { note, answer: kept.as_ref(), derived };
        if let Err(error) = self.app.store.calls().complete(&call, result).await {
            // Whether it was charged is decided by the transaction; what is still held is returned.
            self.call = Some(call);
            return Err(error.into());
        }
        Ok(())
    }
}

impl Drop for PaidCall {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        let app = self.app.clone();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = app.store.calls().abandon(&call).await {
                // The hold expires by itself.
                tracing::warn!(%error, reference = call.reference(), "call.abandon_failed");
            }
        });
    }
}
