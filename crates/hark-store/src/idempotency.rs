//! Requests that a client may repeat without harm.

use std::time::Duration;

use crate::Store;
use crate::clock::{Micros, micros};
use crate::columns::{self, Place};
use crate::db::{Tx, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, Owner, TranscriptId};
use crate::job::IdempotencyKey;
use crate::seal::Sealer;

/// A request whose process died counts as never made after this long.
const UNDER_WAY: Duration = Duration::from_secs(600);

/// An answer that is given again to a repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The media type of the body.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

/// Whether a request came before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Idempotency {
    /// It is new: do it, then [`Store::finish_idempotent`] or [`Store::abandon_idempotent`].
    New,
    /// The first is still under way.
    UnderWay,
    /// This was the answer.
    Done(StoredAnswer),
}

/// Marks a name whose transcript was deleted: a repeat must neither find it nor make it again. HTTP's "Gone".
const DELETED: i64 = 410;

impl IdempotencyKey {
    /// Whether a stored fingerprint is of this request.
    fn is(&self, stored: &[u8]) -> bool {
        self.fingerprint == stored || self.older.iter().any(|older| older == stored)
    }
}

fn place(owner: &str, key: &str) -> Place {
    columns::ANSWER.at(&[&owner, &key])
}

impl Store {
    /// Claims the name of a request; [`Error::KeyReused`] when the name stands for another request.
    pub async fn begin_idempotent(&self, owner: &Owner, name: &IdempotencyKey) -> Result<Idempotency> {
        let account = self.account_of(owner);
        let owner = owner.name();
        let sealer = self.sealer(account).await?;
        let now = self.now();
        let mut tx = self.db().begin().await?;
        let found = claim(&mut tx, &sealer, &owner, account, name, now).await?;
        if found == Idempotency::New {
            tx.commit().await?;
        }
        Ok(found)
    }

    /// The answer that an earlier request of this name got; [`Error::KeyReused`] when it was another request.
    pub async fn answered(&self, owner: &Owner, name: &IdempotencyKey) -> Result<Option<StoredAnswer>> {
        let sealer = self.sealer(self.account_of(owner)).await?;
        let mut tx = self.db().snapshot().await?;
        match look(&mut tx, &sealer, &owner.name(), name, self.now()).await? {
            Some(Idempotency::Done(answer)) => Ok(Some(answer)),
            _ => Ok(None),
        }
    }

    /// Keeps the answer of a request for its repeats.
    pub async fn finish_idempotent(&self, owner: &Owner, name: &IdempotencyKey, answer: &StoredAnswer) -> Result<()> {
        let sealer = self.sealer(self.account_of(owner)).await?;
        let mut tx = self.db().begin().await?;
        finish(&mut tx, &sealer, &owner.name(), name, answer, self.now()).await?;
        tx.commit().await
    }

    /// Frees the name of a request that failed, so that it may be tried again.
    pub async fn abandon_idempotent(&self, owner: &Owner, name: &IdempotencyKey) -> Result<()> {
        let sql = "DELETE FROM idempotency WHERE owner = $1 AND key = $2 AND answer IS NULL AND transcript_id IS NULL AND status IS NULL";
        self.db().execute(sql, args![&owner.name(), &name.key]).await.map(drop)
    }
}

/// Claims the name of a request that is new.
pub(crate) async fn claim(
    tx: &mut Tx,
    sealer: &Sealer,
    owner: &str,
    account: AccountId,
    name: &IdempotencyKey,
    now: Micros,
) -> Result<Idempotency> {
    let sql = "DELETE FROM idempotency WHERE owner = $1 AND key = $2 AND expires_at <= $3";
    tx.execute(sql, args![owner, &name.key, now]).await?;
    let claimed = tx
        .execute(
            "INSERT INTO idempotency (owner, key, account_id, fingerprint, expires_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (owner, key) DO NOTHING",
            args![owner, &name.key, account, &name.fingerprint, now.saturating_add(micros(UNDER_WAY))],
        )
        .await?;
    if claimed > 0 {
        return Ok(Idempotency::New);
    }
    // It may have been abandoned just now; whoever asks again finds it free.
    Ok(look(tx, sealer, owner, name, now).await?.unwrap_or(Idempotency::UnderWay))
}

/// What became of an earlier request of this name.
async fn look(
    tx: &mut Tx,
    sealer: &Sealer,
    owner: &str,
    name: &IdempotencyKey,
    now: Micros,
) -> Result<Option<Idempotency>> {
    let sql = "SELECT fingerprint, answer, status, content_type FROM idempotency WHERE owner = $1 AND key = $2 AND expires_at > $3";
    let Some(row) = tx.optional(sql, args![owner, &name.key, now]).await? else { return Ok(None) };
    if !name.is(&row.get::<Vec<u8>>("fingerprint")?) {
        return Err(Error::KeyReused);
    }
    let Some(answer) = row.get::<Option<Vec<u8>>>("answer")? else { return Ok(Some(Idempotency::UnderWay)) };
    Ok(Some(Idempotency::Done(StoredAnswer {
        status: row.get::<Option<i64>>("status")?.and_then(|s| u16::try_from(s).ok()).unwrap_or(200),
        content_type: row.get::<Option<String>>("content_type")?.unwrap_or_default(),
        body: sealer.open(&place(owner, &name.key), &answer)?,
    })))
}

/// Keeps the answer of a request whose name was claimed.
pub(crate) async fn finish(
    tx: &mut Tx,
    sealer: &Sealer,
    owner: &str,
    name: &IdempotencyKey,
    answer: &StoredAnswer,
    now: Micros,
) -> Result<()> {
    let body = sealer.seal(&place(owner, &name.key), &answer.body)?;
    let sql = "UPDATE idempotency SET answer = $1, status = $2, content_type = $3, expires_at = $4 WHERE owner = $5 AND key = $6";
    let until = now.saturating_add(micros(name.keep));
    let status = i64::from(answer.status);
    tx.execute(sql, args![&body, status, &answer.content_type, until, owner, &name.key]).await.map(drop)
}

/// The transcript that an earlier job of this name makes or made.
pub(crate) async fn repeated_job(
    tx: &mut Tx,
    owner: &str,
    name: &IdempotencyKey,
    now: Micros,
) -> Result<Option<TranscriptId>> {
    let sql =
        "SELECT fingerprint, transcript_id, status FROM idempotency WHERE owner = $1 AND key = $2 AND expires_at > $3";
    let Some(row) = tx.optional(sql, args![owner, &name.key, now]).await? else { return Ok(None) };
    let transcript: Option<i64> = row.get("transcript_id")?;
    if !name.is(&row.get::<Vec<u8>>("fingerprint")?) {
        return Err(Error::KeyReused);
    }
    if row.get::<Option<i64>>("status")? == Some(DELETED) {
        return Err(Error::Deleted);
    }
    transcript.map(|id| Some(TranscriptId(id))).ok_or(Error::KeyReused)
}

/// Keeps the name of a request whose transcript is about to be deleted until it expires, so that a repeat is not charged again.
pub(crate) async fn bury_job(tx: &mut Tx, transcript: TranscriptId) -> Result<()> {
    let sql = "UPDATE idempotency SET transcript_id = NULL, status = $1 WHERE transcript_id = $2";
    tx.execute(sql, args![DELETED, transcript]).await.map(drop)
}

/// Notes that a request of this name made a job. The account must be locked.
pub(crate) async fn record_job(
    tx: &mut Tx,
    owner: &str,
    account: AccountId,
    name: &IdempotencyKey,
    transcript: TranscriptId,
    now: Micros,
) -> Result<()> {
    let until = now.saturating_add(micros(name.keep));
    // What is there is over, or the job would be a repeat.
    tx.execute("DELETE FROM idempotency WHERE owner = $1 AND key = $2", args![owner, &name.key]).await?;
    tx.execute(
        "INSERT INTO idempotency (owner, key, account_id, fingerprint, transcript_id, expires_at) VALUES ($1, $2, $3, $4, $5, $6)",
        args![owner, &name.key, account, &name.fingerprint, transcript, until],
    )
    .await
    .map(drop)
}
