//! What a question needs before it is answered: a place among the calls of its account, its idempotency key, and one of the day's
//! questions. All are given back when it gets no answer.

use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::{HeaderMap, StatusCode};
use hark_api::{ApiError, ChatAnswer, ErrorKind};
use hark_store::{AccountId, CountedQuestion, Idempotency, KeyClaim, Owner};

use crate::app::App;
use crate::error::Failure;
use crate::idempotent::{self, Canonical};
use crate::limits::Place;
use crate::middleware::Identity;
use crate::paid_call::EXPIRY_MARGIN;
use crate::text_work::take_place;

/// `Retry-After` while the same question is being answered, in seconds.
const RETRY_AFTER: u64 = 5;

/// A question that may be answered. Dropped without an answer (an error, a timeout, a caller who left) it is not counted, unless part of its answer was
/// sent.
pub(super) struct Admitted {
    app: App,
    account: AccountId,
    headers: HeaderMap,
    /// The claim of its idempotency key.
    claim: Option<KeyClaim>,
    /// The count that is given back.
    counted: Option<CountedQuestion>,
    /// Part of the answer was sent: the question stays counted.
    is_heard: AtomicBool,
    _place: Place<Owner>,
}

/// What became of a question that was to begin.
pub(super) enum Opened {
    /// It may go on.
    New(Admitted),
    /// The same request was answered before.
    Repeated(ChatAnswer),
}

impl Admitted {
    /// Takes a place and claims the idempotency key. `canonical` describes the request.
    pub(super) async fn begin(
        app: &App,
        identity: &Identity,
        headers: &HeaderMap,
        canonical: Canonical,
    ) -> Result<Opened, Failure> {
        let (account, place) = (identity.account(), take_place(app, identity)?);
        let key = idempotent::key(headers)?.map(|key| canonical.fingerprint().named(key));
        let (app, headers) = (app.clone(), headers.clone());
        let is_heard = AtomicBool::new(false);
        let new = Admitted { app, account, headers, claim: None, counted: None, is_heard, _place: place };
        let Some(key) = key else { return Ok(Opened::New(new)) };
        // In a task of its own: if the client disconnects meanwhile, the key is claimed completely and then released.
        let claim = tokio::spawn(async move {
            let mut new = new;
            let ttl = new.app.config.text.timeout.duration() + EXPIRY_MARGIN;
            let found = new.app.store.idempotency().begin(&Owner::Account(new.account), &key, ttl).await?;
            if let Idempotency::New(claim) = &found {
                new.claim = Some(claim.clone());
            }
            Ok::<_, hark_store::Error>((new, found))
        });
        let (new, found) = claim.await.map_err(|_| super::internal())??;
        match found {
            Idempotency::New(_) => Ok(Opened::New(new)),
            Idempotency::Done(answer) => {
                let body = idempotent::open_answer(&new.headers, &answer)?;
                serde_json::from_slice(&body).map(Opened::Repeated).map_err(|_| super::internal())
            }
            Idempotency::UnderWay => {
                let message = "the same request is in progress: wait for its answer";
                Err(ApiError::new(ErrorKind::Conflict, message).retry_after(RETRY_AFTER).into())
            }
        }
    }

    /// Counts the question against the limit of the day.
    pub(super) async fn count(mut self, limit: Option<i64>) -> Result<Self, Failure> {
        let task = tokio::spawn(async move {
            self.counted = Some(self.app.store.chats().count_question(self.account, limit).await?);
            Ok::<_, hark_store::Error>(self)
        });
        Ok(task.await.map_err(|_| super::internal())??)
    }

    /// From now on the question is counted even if it is dropped: part of its answer is sent.
    pub(super) fn hear(&self) {
        self.is_heard.store(true, Ordering::Relaxed);
    }

    /// It is not counted after all: its answer could not be completed.
    pub(super) fn waive(&self) {
        self.is_heard.store(false, Ordering::Relaxed);
    }

    /// Keeps the answer for repeats; the question stays counted.
    pub(super) async fn complete(mut self, answer: &ChatAnswer) -> Result<(), Failure> {
        // The claim is kept until its end is known: a caller who leaves meanwhile must not leave the key taken.
        if let Some(claim) = &self.claim {
            let (keys, owner) = (self.app.store.idempotency(), Owner::Account(self.account));
            match idempotent::keep(&self.headers, StatusCode::OK, answer) {
                Some(kept) => keys.finish(&owner, claim, &kept).await?,
                None => keys.abandon(&owner, claim).await?,
            }
        }
        (self.claim, self.counted) = (None, None);
        Ok(())
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let counted = self.counted.take().filter(|_| !self.is_heard.load(Ordering::Relaxed));
        let claim = self.claim.take();
        if counted.is_none() && claim.is_none() {
            return;
        }
        let (app, account) = (self.app.clone(), self.account);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Some(counted) = counted
                && let Err(error) = app.store.chats().uncount_question(account, counted).await
            {
                tracing::warn!(%error, "chat.uncount_failed");
            }
            let Some(claim) = claim else { return };
            if let Err(error) = app.store.idempotency().abandon(&Owner::Account(account), &claim).await {
                // The claim expires by itself.
                tracing::warn!(%error, "chat.release_failed");
            }
        });
    }
}
