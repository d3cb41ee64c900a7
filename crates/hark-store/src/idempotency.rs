//! Idempotency keys: requests that a client may repeat.

use std::time::Duration;

use crate::Store;
use crate::clock::{Micros, micros};
use crate::db::{Tx, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, EnhancementId, Owner, TranscriptId};
use crate::jobs::product::Product;
use crate::sealing::Sealer;
use crate::sealing::columns::{self, AssociatedData};

/// Idempotency keys of requests, with their responses.
#[derive(Debug, Clone, Copy)]
pub struct IdempotencyKeys<'a> {
    pub(crate) store: &'a Store,
}

/// An idempotency key with the fingerprint of its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The key that the client sent.
    pub key: String,
    /// The fingerprint: a hash of all parameters of the request.
    pub fingerprint: Vec<u8>,
    /// The fingerprint in the encodings of earlier versions: a repeat across an upgrade matches one of them.
    pub older: Vec<Vec<u8>>,
    /// How long a repeat is recognized.
    pub keep: Duration,
}

/// The response that a repeat gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The media type of the body.
    pub content_type: String,
    /// The body.
    pub body: Vec<u8>,
}

/// A claimed idempotency key. Once it has expired, a repeat may claim the key; the two claims never act on each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyClaim {
    name: IdempotencyKey,
    /// Identifies the claim: the next one begins when this one has expired, so it expires later.
    expires_at: Micros,
}

/// The state of a request by its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Idempotency {
    /// It is new: do it, then [`IdempotencyKeys::finish`] or [`IdempotencyKeys::abandon`].
    New(KeyClaim),
    /// The first request is still in progress.
    UnderWay,
    /// The stored response.
    Done(StoredAnswer),
}

/// The tombstone of a key whose transcript or enhancement was deleted: a repeat must neither find it nor create it again. HTTP's "Gone".
const DELETED: i64 = 410;

/// The condition that a row is a claim without a response, transcript, enhancement or tombstone.
const IS_CLAIM: &str = "answer IS NULL AND status IS NULL AND transcript_id IS NULL AND enhancement_id IS NULL";

impl IdempotencyKey {
    /// Whether a stored fingerprint is of this request.
    fn is(&self, stored: &[u8]) -> bool {
        self.fingerprint == stored || self.older.iter().any(|older| older == stored)
    }
}

fn aad(owner: &str, key: &str) -> AssociatedData {
    columns::ANSWER.associated_data(&[&owner, &key])
}

impl IdempotencyKeys<'_> {
    /// Whether a request with this key was accepted before and has not expired.
    pub async fn is_used(self, owner: &Owner, key: &str) -> Result<bool> {
        let sql = "SELECT 1 AS one FROM idempotency WHERE owner = $1 AND key = $2 AND expires_at > $3";
        Ok(self.store.db().optional(sql, args![&owner.name(), key, self.store.now()]).await?.is_some())
    }

    /// The transcript of an earlier request with this key; [`Error::KeyReused`] when it was another request, [`Error::Deleted`] when the transcript was
    /// deleted. Checked before an upload begins, it saves the upload.
    pub async fn transcript(self, owner: &Owner, name: &IdempotencyKey) -> Result<Option<TranscriptId>> {
        let mut tx = self.store.db().snapshot().await?;
        match repeated_job(&mut tx, &owner.name(), name, self.store.now()).await? {
            None => Ok(None),
            Some(Product::Transcript(id)) => Ok(Some(id)),
            Some(Product::Enhancement(_)) => Err(Error::KeyReused),
        }
    }

    /// The enhancement of an earlier request with this key, as [`IdempotencyKeys::transcript`].
    pub async fn enhancement(self, owner: &Owner, name: &IdempotencyKey) -> Result<Option<EnhancementId>> {
        let mut tx = self.store.db().snapshot().await?;
        match repeated_job(&mut tx, &owner.name(), name, self.store.now()).await? {
            None => Ok(None),
            Some(Product::Enhancement(id)) => Ok(Some(id)),
            Some(Product::Transcript(_)) => Err(Error::KeyReused),
        }
    }

    /// Claims a key; [`Error::KeyReused`] when it belongs to another request. The claim of a process that died expires after `ttl`, which must be longer
    /// than the request may take.
    pub async fn begin(self, owner: &Owner, name: &IdempotencyKey, ttl: Duration) -> Result<Idempotency> {
        let account = self.store.account_of(owner);
        let owner = owner.name();
        let sealer = self.store.sealer(account).await?;
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        let found = claim(&mut tx, &sealer, &owner, account, name, ttl, now).await?;
        if matches!(found, Idempotency::New(_)) {
            tx.commit().await?;
        }
        Ok(found)
    }

    /// The stored response of an earlier request with this key; [`Error::KeyReused`] when it was another request.
    pub async fn answer(self, owner: &Owner, name: &IdempotencyKey) -> Result<Option<StoredAnswer>> {
        let sealer = self.store.sealer(self.store.account_of(owner)).await?;
        let mut tx = self.store.db().snapshot().await?;
        match look(&mut tx, &sealer, &owner.name(), name, self.store.now()).await? {
            Some(Idempotency::Done(answer)) => Ok(Some(answer)),
            _ => Ok(None),
        }
    }

    /// Stores the response of a request for its repeats. Does nothing for a claim that has expired and was replaced.
    pub async fn finish(self, owner: &Owner, claim: &KeyClaim, answer: &StoredAnswer) -> Result<()> {
        let sealer = self.store.sealer(self.store.account_of(owner)).await?;
        let mut tx = self.store.db().begin().await?;
        finish(&mut tx, &sealer, &owner.name(), claim, answer, self.store.now()).await?;
        tx.commit().await
    }

    /// Releases the key of a request that failed, so that it may be retried. Does nothing for a claim that has expired and was replaced.
    pub async fn abandon(self, owner: &Owner, claim: &KeyClaim) -> Result<()> {
        let mut tx = self.store.db().begin().await?;
        release(&mut tx, &owner.name(), claim).await?;
        tx.commit().await
    }
}

/// Releases the key of a request that got no answer.
pub(crate) async fn release(tx: &mut Tx, owner: &str, claim: &KeyClaim) -> Result<()> {
    let sql = format!("DELETE FROM idempotency WHERE owner = $1 AND key = $2 AND expires_at = $3 AND {IS_CLAIM}");
    tx.execute(&sql, args![owner, &claim.name.key, claim.expires_at]).await.map(drop)
}

/// Claims the key of a request, for as long as `ttl` says.
pub(crate) async fn claim(
    tx: &mut Tx,
    sealer: &Sealer,
    owner: &str,
    account: AccountId,
    name: &IdempotencyKey,
    ttl: Duration,
    now: Micros,
) -> Result<Idempotency> {
    let expires_at = now.saturating_add(micros(ttl));
    let sql = "DELETE FROM idempotency WHERE owner = $1 AND key = $2 AND expires_at <= $3";
    tx.execute(sql, args![owner, &name.key, now]).await?;
    let claimed = tx
        .execute(
            "INSERT INTO idempotency (owner, key, account_id, fingerprint, expires_at) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (owner, key) DO NOTHING",
            args![owner, &name.key, account, &name.fingerprint, expires_at],
        )
        .await?;
    if claimed > 0 {
        return Ok(Idempotency::New(KeyClaim { name: name.clone(), expires_at }));
    }
    // It may have been abandoned just now; then the client's retry can claim it.
    Ok(look(tx, sealer, owner, name, now).await?.unwrap_or(Idempotency::UnderWay))
}

/// The state of an earlier request with this key.
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
        body: sealer.open(&aad(owner, &name.key), &answer)?,
    })))
}

/// Stores the response of a request whose key was claimed; returns whether the claim was still held.
pub(crate) async fn finish(
    tx: &mut Tx,
    sealer: &Sealer,
    owner: &str,
    claim: &KeyClaim,
    answer: &StoredAnswer,
    now: Micros,
) -> Result<bool> {
    let KeyClaim { name, expires_at } = claim;
    let body = sealer.seal(&aad(owner, &name.key), &answer.body)?;
    let sql = format!(
        "UPDATE idempotency SET answer = $1, status = $2, content_type = $3, expires_at = $4
         WHERE owner = $5 AND key = $6 AND expires_at = $7 AND {IS_CLAIM}"
    );
    let until = now.saturating_add(micros(name.keep));
    let status = i64::from(answer.status);
    let values = args![&body, status, &answer.content_type, until, owner, &name.key, *expires_at];
    Ok(tx.execute(&sql, values).await? > 0)
}

/// What an earlier job with this key made.
pub(crate) async fn repeated_job(
    tx: &mut Tx,
    owner: &str,
    name: &IdempotencyKey,
    now: Micros,
) -> Result<Option<Product>> {
    let sql = "SELECT fingerprint, transcript_id, enhancement_id, status FROM idempotency WHERE owner = $1 AND key = $2 AND expires_at > $3";
    let Some(row) = tx.optional(sql, args![owner, &name.key, now]).await? else { return Ok(None) };
    let transcript = row.get::<Option<i64>>("transcript_id")?.map(|id| Product::from(TranscriptId(id)));
    let enhancement = row.get::<Option<i64>>("enhancement_id")?.map(|id| Product::from(EnhancementId(id)));
    if !name.is(&row.get::<Vec<u8>>("fingerprint")?) {
        return Err(Error::KeyReused);
    }
    if row.get::<Option<i64>>("status")? == Some(DELETED) {
        return Err(Error::Deleted);
    }
    transcript.or(enhancement).map(Some).ok_or(Error::KeyReused)
}

/// Replaces the key of something that is about to be deleted by a tombstone until it expires, so that a repeat is not charged again.
pub(crate) async fn tombstone(tx: &mut Tx, product: Product) -> Result<()> {
    let column = product.column();
    let sql = format!("UPDATE idempotency SET {column} = NULL, status = $1 WHERE {column} = $2");
    tx.execute(&sql, args![DELETED, product.number()]).await.map(drop)
}

/// Stores the key of a request that created a job. The account must be locked.
pub(crate) async fn record_job(
    tx: &mut Tx,
    owner: &str,
    account: AccountId,
    name: &IdempotencyKey,
    product: Product,
    now: Micros,
) -> Result<()> {
    let until = now.saturating_add(micros(name.keep));
    // An existing row has expired, or the job would be a repeat.
    tx.execute("DELETE FROM idempotency WHERE owner = $1 AND key = $2", args![owner, &name.key]).await?;
    let sql = format!(
        "INSERT INTO idempotency (owner, key, account_id, fingerprint, {}, expires_at) VALUES ($1, $2, $3, $4, $5, $6)",
        product.column()
    );
    tx.execute(&sql, args![owner, &name.key, account, &name.fingerprint, product.number(), until]).await.map(drop)
}
