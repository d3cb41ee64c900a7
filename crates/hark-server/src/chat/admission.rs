//! What a question needs before it is answered: a place among the calls of its account, its idempotency key, and one of the day's
//! questions. All are given back when it gets no answer.

use axum::http::{HeaderMap, StatusCode};
use hark_api::{ApiError, ChatAnswer, ErrorKind};
use hark_store::{AccountId, Idempotency, IdempotencyKey, Owner};

use crate::app::App;
use crate::error::Failure;
use crate::idempotent::{self, Canonical};
use crate::limits::Place;
use crate::middleware::Identity;
use crate::text_work::take_place;

/// `Retry-After` while the same question is being answered, in seconds.
const RETRY_AFTER: u64 = 5;

/// A question that may be answered. Dropped without an answer (an error, a timeout, a caller who left) it is not counted.
pub(super) struct Admitted {
    app: App,
    account: AccountId,
    headers: HeaderMap,
    /// The idempotency key that it has claimed.
    claimed: Option<IdempotencyKey>,
    is_counted: bool,
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
        let new = Admitted { app, account, headers, claimed: None, is_counted: false, _place: place };
        let Some(key) = key else { return Ok(Opened::New(new)) };
        // In a task of its own: if the client disconnects meanwhile, the key is claimed completely and then released.
        let claim = tokio::spawn(async move {
            let mut new = new;
            let state = new.app.store.idempotency().begin(&Owner::Account(new.account), &key).await?;
            if state == Idempotency::New {
                new.claimed = Some(key);
            }
            Ok::<_, hark_store::Error>((new, state))
        });
        let (new, state) = claim.await.map_err(|_| super::internal())??;
        match state {
            Idempotency::New => Ok(Opened::New(new)),
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
            self.app.store.chats().count_question(self.account, limit).await?;
            self.is_counted = true;
            Ok::<_, hark_store::Error>(self)
        });
        Ok(task.await.map_err(|_| super::internal())??)
    }

    /// Keeps the answer for repeats; the question stays counted.
    pub(super) async fn complete(mut self, answer: &ChatAnswer) -> Result<(), Failure> {
        self.is_counted = false;
        let Some(key) = self.claimed.take() else { return Ok(()) };
        let keys = self.app.store.idempotency();
        let owner = Owner::Account(self.account);
        match idempotent::keep(&self.headers, StatusCode::OK, answer) {
            Some(kept) => keys.finish(&owner, &key, &kept).await?,
            None => keys.abandon(&owner, &key).await?,
        }
        Ok(())
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let (is_counted, claimed) = (self.is_counted, self.claimed.take());
        if !is_counted && claimed.is_none() {
            return;
        }
        let (app, account) = (self.app.clone(), self.account);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if is_counted && let Err(error) = app.store.chats().uncount_question(account).await {
                tracing::warn!(%error, "chat.uncount_failed");
            }
            let Some(key) = claimed else { return };
            if let Err(error) = app.store.idempotency().abandon(&Owner::Account(account), &key).await {
                // The claim expires by itself.
                tracing::warn!(%error, "chat.release_failed");
            }
        });
    }
}
