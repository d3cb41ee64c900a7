//! Enhancements: recordings without their noise, kept until they are deleted or too old. One of another account is not found.

use std::time::Duration;

use hark_api::FaultKind;

use crate::clock::{Micros, micros};
use crate::db::{Row, Tx, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, EnhancementId};
use crate::jobs::Jobs;
use crate::jobs::lease::Lease;
use crate::jobs::product::Product;
use crate::jobs::queue::{self, lease_lost_if_deleted, remove_jobs, remove_leased};
use crate::ledger::{self, Settlement};
use crate::{Blob, Change, Status, Store, idempotency, keys, transcripts};

/// The kind of job that takes the noise out of a recording.
pub const ENHANCE: &str = "enhance";

/// Enhancements that one call of [`Enhancements::expire`] deletes.
const MAX_EXPIRED: i64 = 1000;

/// Enhancements of accounts.
#[derive(Debug, Clone, Copy)]
pub struct Enhancements<'a> {
    pub(crate) store: &'a Store,
}

/// A recording whose noise is reduced.
#[derive(Debug, Clone, PartialEq)]
pub struct Enhancement {
    /// Its id.
    pub id: EnhancementId,
    /// Its status.
    pub status: Status,
    /// Share of the audio done, 0 to 100.
    pub progress: i64,
    /// Its position in the queue, from 1, while it is queued.
    pub queue_position: Option<i64>,
    /// Length of the audio: as probed, then as enhanced.
    pub duration_seconds: f64,
    /// The format of the result, as the server named it.
    pub format: String,
    /// Samples of each channel of the result; 0 until it is completed.
    pub frames: u64,
    /// Channels of the result; 0 until it is completed.
    pub channels: u16,
    /// The model that ran; empty until it is completed.
    pub model: String,
    /// Why it failed.
    pub error: Option<String>,
    /// The kind of fault.
    pub error_kind: Option<FaultKind>,
    /// When it was sent.
    pub created_at: Micros,
    /// When it was completed or failed, or earlier where [`Enhancements::expire_soon`] made it older.
    pub completed_at: Option<Micros>,
}

/// The result of an enhancement.
#[derive(Debug, Clone)]
pub struct EnhancedRecording {
    /// The result, uploaded and durable.
    pub blob: Blob,
    /// Samples of each channel.
    pub frames: u64,
    /// Channels.
    pub channels: u16,
    /// Length in seconds.
    pub seconds: f64,
    /// The model that ran.
    pub model: String,
}

const COLUMNS: &str = "id, status, progress, duration_seconds, format, frames, channels, model, error, error_kind, created_at, completed_at";

fn enhancement(row: &Row) -> Result<Enhancement> {
    Ok(Enhancement {
        id: EnhancementId(row.get("id")?),
        status: row.get::<String>("status")?.parse()?,
        progress: row.get("progress")?,
        queue_position: None,
        duration_seconds: row.get("duration_seconds")?,
        format: row.get("format")?,
        frames: u64::try_from(row.get::<i64>("frames")?).unwrap_or(0),
        channels: u16::try_from(row.get::<i64>("channels")?).unwrap_or(0),
        model: row.get("model")?,
        error: row.get("error")?,
        error_kind: transcripts::error_kind(row)?,
        created_at: row.get("created_at")?,
        completed_at: row.get("completed_at")?,
    })
}

/// Inserts a queued enhancement with a new random id.
pub(crate) async fn insert(
    tx: &mut Tx,
    account: AccountId,
    format: &str,
    seconds: f64,
    now: Micros,
) -> Result<EnhancementId> {
    loop {
        let id = EnhancementId(transcripts::random_number()?);
        let inserted = tx
            .execute(
                "INSERT INTO enhancements (id, account_id, status, progress, duration_seconds, format, frames, channels, model, created_at)
                 VALUES ($1, $2, 'queued', 0, $3, $4, 0, 0, '', $5) ON CONFLICT (id) DO NOTHING",
                args![id, account, seconds, format, now],
            )
            .await?;
        if inserted > 0 {
            return Ok(id);
        }
    }
}

async fn find(tx: &mut Tx, account: AccountId, id: EnhancementId) -> Result<Enhancement> {
    let sql = format!("SELECT {COLUMNS} FROM enhancements WHERE id = $1 AND account_id = $2");
    let row = tx.optional(&sql, args![id, account]).await?;
    enhancement(&row.ok_or(Error::NotFound("enhancement"))?)
}

impl Enhancements<'_> {
    /// An enhancement of an account, with its position in the queue.
    pub async fn get(self, account: AccountId, id: EnhancementId) -> Result<Enhancement> {
        let mut tx = self.store.db().snapshot().await?;
        let mut found = find(&mut tx, account, id).await?;
        if found.status == Status::Queued {
            found.queue_position = queue::position(&mut tx, self.store, id.into()).await?;
        }
        Ok(found)
    }

    /// A completed enhancement of an account with its result; `None` for the result of one that is not completed.
    pub async fn result(self, account: AccountId, id: EnhancementId) -> Result<(Enhancement, Option<Blob>)> {
        let mut tx = self.store.db().snapshot().await?;
        let found = find(&mut tx, account, id).await?;
        let blob = Product::from(id).result(&mut tx).await?;
        match found.status {
            Status::Completed => Ok((found, Some(blob.ok_or(Error::NotFound("recording"))?))),
            _ => Ok((found, None)),
        }
    }

    /// Deletes an enhancement with its recordings, cancels its job and releases its hold. What can't be removed now is left to the sweep. A repeat of its
    /// request is refused until its idempotency key expires.
    pub async fn delete(self, account: AccountId, id: EnhancementId) -> Result<()> {
        self.remove(account, id, |_| Removal::Deleted).await
    }

    /// Deletes an enhancement that nobody waits for any more, unless it was completed or has failed. A repeat of its request starts again.
    pub async fn abandon(self, account: AccountId, id: EnhancementId) -> Result<()> {
        let is_over = |status| matches!(status, Status::Completed | Status::Failed);
        self.remove(account, id, |status| if is_over(status) { Removal::None } else { Removal::Forgotten }).await
    }

    /// Deletes enhancements that were completed or failed at least `age` ago, at most a thousand; returns how many.
    pub async fn expire(self, age: Duration) -> Result<u64> {
        let before = self.store.now().saturating_sub(micros(age));
        let sql = "SELECT id, account_id FROM enhancements WHERE completed_at <= $1 ORDER BY completed_at LIMIT 0 + $2";
        let mut expired = 0;
        for row in self.store.db().all(sql, args![before, MAX_EXPIRED]).await? {
            let (account, id) = (AccountId(row.get("account_id")?), EnhancementId(row.get("id")?));
            // A failed one may have been retried meanwhile.
            let is_over = |status| matches!(status, Status::Completed | Status::Failed);
            let removal = |status| if is_over(status) { Removal::Deleted } else { Removal::None };
            match self.remove(account, id, removal).await {
                Ok(()) => expired += 1,
                // It was deleted meanwhile, or with its account.
                Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(expired)
    }

    /// Makes a completed enhancement old enough for [`Enhancements::expire`] with this `age` to delete it once `left` has passed, unless it would be deleted
    /// sooner anyway.
    pub async fn expire_soon(self, account: AccountId, id: EnhancementId, age: Duration, left: Duration) -> Result<()> {
        let completed_at = self.store.now().saturating_add(micros(left)).saturating_sub(micros(age));
        let sql = "UPDATE enhancements SET completed_at = $1
                   WHERE id = $2 AND account_id = $3 AND status = 'completed' AND completed_at > $1";
        self.store.db().execute(sql, args![completed_at, id, account]).await?;
        Ok(())
    }

    async fn remove(self, account: AccountId, id: EnhancementId, how: impl FnOnce(Status) -> Removal) -> Result<()> {
        let now = self.store.now();
        let product = Product::from(id);
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, account).await?;
        match how(find(&mut tx, account, id).await?.status) {
            Removal::None => return Err(Error::NotFound("job")),
            Removal::Forgotten => {}
            Removal::Deleted => idempotency::tombstone(&mut tx, product).await?,
        }
        let jobs = remove_jobs(&mut tx, product, now).await?;
        product.release_recordings(&mut tx).await?;
        tx.execute("DELETE FROM enhancements WHERE id = $1", args![id]).await?;
        tx.commit().await?;
        for job in jobs {
            self.store.notify(Change::Stopped(job));
        }
        self.store.notify(product.finished());
        self.store.recordings().remove(product).await;
        Ok(())
    }
}

/// What becomes of the idempotency key of an enhancement that is removed.
enum Removal {
    /// It is not removed.
    None,
    /// A repeat starts again.
    Forgotten,
    /// A repeat is refused.
    Deleted,
}

impl Jobs<'_> {
    /// Ends an enhancement with its result: recordings, charge and status in one transaction, if the lease is still valid. `used` is both credits and
    /// minutes. The recording that was sent is deleted.
    pub async fn complete_enhancement(
        self,
        lease: &Lease,
        result: &EnhancedRecording,
        used: i64,
    ) -> Result<Option<Settlement>> {
        let Some(product @ Product::Enhancement(id)) = lease.product() else {
            return Err(Error::Conflict("this job makes no enhancement"));
        };
        let blob = &result.blob;
        if blob.account != lease.account {
            return Err(Error::Conflict("the recording belongs to another account"));
        }
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, lease.account).await.map_err(lease_lost_if_deleted)?;
        let ended = remove_leased(&mut tx, lease).await?;
        product.release_recordings(&mut tx).await?;
        let sql = "UPDATE blobs SET state = 'live', enhancement_id = $1, is_result = $2, size = $3, sha256 = $4
                   WHERE key = $5 AND account_id = $6 AND state = 'uploading'";
        let checksum = blob.checksum();
        let values = args![id, true, blob.size as i64, checksum.as_deref(), blob.key.as_str(), blob.account];
        if tx.execute(sql, values).await? == 0 {
            return Err(Error::Blob("writing the result took too long, and it was given up".into()));
        }
        tx.execute(
            "UPDATE enhancements SET status = 'completed', progress = 100, duration_seconds = $1, frames = $2, channels = $3, model = $4,
                 error = NULL, error_kind = NULL, completed_at = $5
             WHERE id = $6",
            args![
                result.seconds,
                i64::try_from(result.frames).unwrap_or(i64::MAX),
                i64::from(result.channels),
                &result.model,
                now,
                id
            ],
        )
        .await?;
        let settled = ledger::settle(&mut tx, &ended.reference, used, "noise reduction", now).await?;
        if let (Some(key), Some(month)) = (ended.key, ended.key_month) {
            keys::add_minutes(&mut tx, key, month, used - ended.minutes).await?;
        }
        tx.commit().await?;
        self.store.notify(product.finished());
        self.store.recordings().remove(product).await;
        Ok(settled)
    }
}
