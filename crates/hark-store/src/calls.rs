//! Calls that cost credits and are answered at once: a summary, an analysis, generated content.
//!
//! [`Calls::begin`] claims the idempotency key and holds the credits in one transaction. [`Calls::complete`] charges them and stores
//! the answer in one transaction; [`Calls::abandon`] returns them. A process that dies in between leaves a hold that expires and
//! a key that may be claimed again when the hold has expired: nothing is charged.

use std::time::Duration;

use crate::Store;
use crate::clock::{DAY, day_of, micros, month_of};
use crate::db::args;
use crate::error::{Error, Result};
use crate::idempotency::{self, Idempotency, IdempotencyKey, KeyClaim, StoredAnswer};
use crate::ids::{AccountId, KeyId, Owner, TranscriptId};
use crate::transcripts::derived;
use crate::{keys, ledger, random};

/// Calls that cost credits.
#[derive(Debug, Clone, Copy)]
pub struct Calls<'a> {
    pub(crate) store: &'a Store,
}

/// A call to begin.
#[derive(Debug, Clone)]
pub struct NewCall {
    /// Who pays.
    pub account: AccountId,
    /// The key whose spending limit it counts against.
    pub key: KeyId,
    /// What it costs.
    pub credits: i64,
    /// When a call whose process died gives its credits and its idempotency key back; longer than any call takes.
    pub ttl: Duration,
    /// The idempotency key of the request.
    pub idempotency: Option<IdempotencyKey>,
}

/// A call in progress.
#[derive(Debug, Clone)]
pub struct Call {
    new: NewCall,
    reference: String,
    claim: Option<KeyClaim>,
}

/// What became of a call that was to begin.
#[derive(Debug)]
pub enum Begun {
    /// Its credits are held: do it, then complete or abandon it.
    New(Call),
    /// The same request is in progress.
    UnderWay,
    /// The same request was answered before.
    Done(StoredAnswer),
}

/// What a completed call leaves.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallResult<'a> {
    /// The note of the charge, such as `summarize`.
    pub note: &'a str,
    /// The response, for repeats of a request with an idempotency key.
    pub answer: Option<&'a StoredAnswer>,
    /// Data derived from a transcript.
    pub derived: Option<Derived<'a>>,
}

/// Data derived from a transcript.
#[derive(Debug, Clone, Copy)]
pub struct Derived<'a> {
    /// The transcript.
    pub transcript: TranscriptId,
    /// The revision of the text that it was made of. It is not stored with another one.
    pub revision: i64,
    /// What it is, such as `summary:brief`.
    pub kind: &'a str,
    /// The data.
    pub body: &'a [u8],
    /// The summary that the transcript shows from now on.
    pub summary: Option<&'a str>,
}

impl Calls<'_> {
    /// Begins a call: [`Error::NotEnoughCredits`], [`Error::Limit`] of the key, [`Error::KeyReused`].
    pub async fn begin(self, new: NewCall) -> Result<Begun> {
        let now = self.store.now();
        let owner = Owner::Account(new.account).name();
        let sealer = self.store.sealer(new.account).await?;
        let reference = format!("call:{}", random::token::<16>()?);
        let mut tx = self.store.db().begin().await?;
        // First the account, as in every transaction that posts entries.
        ledger::lock(&mut tx, new.account).await?;
        let mut claim = None;
        if let Some(name) = &new.idempotency {
            match idempotency::claim(&mut tx, &sealer, &owner, new.account, name, new.ttl, now).await? {
                Idempotency::New(new) => claim = Some(new),
                Idempotency::UnderWay => return Ok(Begun::UnderWay),
                Idempotency::Done(answer) => return Ok(Begun::Done(answer)),
            }
        }
        let month = month_of(now);
        keys::use_credits(&mut tx, new.key, new.credits, month).await?;
        let expires_at = now.saturating_add(micros(new.ttl));
        ledger::hold(&mut tx, new.account, &reference, new.credits, Some(expires_at), now).await?;
        ledger::count_for_key(&mut tx, &reference, new.key, month).await?;
        tx.commit().await?;
        Ok(Begun::New(Call { new, reference, claim }))
    }

    /// Charges a call and stores its answer; [`Error::NotFound`] when its hold has expired, a repeat has claimed its idempotency key since, or its
    /// transcript was deleted: then nothing is charged. What is derived from a text that
    /// was changed meanwhile is not stored.
    pub async fn complete(self, call: &Call, result: CallResult<'_>) -> Result<()> {
        let now = self.store.now();
        let account = call.new.account;
        let sealer = self.store.sealer(account).await?;
        let mut tx = self.store.db().begin().await?;
        let settled = ledger::settle(&mut tx, &call.reference, call.new.credits, result.note, now).await?;
        settled.ok_or(Error::NotFound("call in progress"))?;
        if let Some(data) = &result.derived
            && derived::lock_text(&mut tx, account, data.transcript).await? == data.revision
        {
            derived::store(&mut tx, &sealer, account, data.transcript, data.kind, data.body, now).await?;
            if let Some(summary) = data.summary {
                derived::set_summary(&mut tx, &sealer, account, data.transcript, summary).await?;
            }
        }
        if let (Some(claim), Some(answer)) = (&call.claim, result.answer) {
            let owner = Owner::Account(account).name();
            if !idempotency::finish(&mut tx, &sealer, &owner, claim, answer, now).await? {
                return Err(Error::NotFound("call in progress"));
            }
        }
        tx.commit().await
    }

    /// How many calls of an account were charged today (UTC) with this note.
    pub async fn charged_today(self, account: AccountId, note: &str) -> Result<i64> {
        let sql = "SELECT count(*) AS calls FROM ledger WHERE account_id = $1 AND kind = $2 AND note = $3 AND at >= $4";
        let today = day_of(self.store.now()) * DAY;
        let row = self.store.db().one(sql, args![account, ledger::EntryKind::Charge.name(), note, today]).await?;
        row.get("calls")
    }

    /// Ends a call without an answer: returns its credits and releases its idempotency key. Does nothing for one that has ended.
    pub async fn abandon(self, call: &Call) -> Result<()> {
        let mut tx = self.store.db().begin().await?;
        if ledger::settle(&mut tx, &call.reference, 0, "", self.store.now()).await?.is_none() {
            return Ok(());
        }
        if let Some(claim) = &call.claim {
            idempotency::release(&mut tx, &Owner::Account(call.new.account).name(), claim).await?;
        }
        tx.commit().await
    }
}

impl Call {
    /// The reference of its entries in the ledger.
    pub fn reference(&self) -> &str {
        &self.reference
    }
}
