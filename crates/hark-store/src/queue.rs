//! The queue: jobs that wait, and leases on those that run.
//!
//! A worker claims a job and holds it by a lease that it renews. When it dies, the lease ends and the job waits again, [`MAX_ATTEMPTS`] times at
//! most. What a job leaves behind is written in the transaction that ends it, and only by the worker whose lease still stands.
//!
//! Transactions lock in one order, so that none waits for another in a circle: account, job, transcript.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hark_api::{Lane, TranscriptionResult};

use crate::clock::{Micros, micros};
use crate::columns::{self, Place};
use crate::db::{Row, Tx, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, JobId, KeyId, Owner, TranscriptId};
use crate::ledger::{self, Settled, job_reference};
use crate::{Blob, Change, Store, anonymous, blob, key, random, segment, transcript, usage, webhook};

/// How often a job is begun before it counts as failed.
pub const MAX_ATTEMPTS: i64 = 3;

/// A bulk job that waited for so long is claimed as if somebody waited for it: a steady stream of clips can delay long work, not keep it from ever beginning.
pub const BULK_PATIENCE: Duration = Duration::from_secs(120);

/// Claims look for ended leases, but not more often than this.
const EXPIRY_STEP: Micros = 1_000_000;

/// Why a job failed whose workers all died. The server tells by its beginning that the fault is ours, not the recording's.
const WORKERS_DIED: &str = "the recording could not be transcribed: every attempt ended unexpectedly; nothing was charged, please try again or send us the file";

/// The number of a lane in the database, where a lower one goes first.
pub(crate) fn lane_number(lane: Lane) -> i64 {
    match lane {
        Lane::Live => 0,
        Lane::Interactive => 1,
        Lane::Bulk => 2,
    }
}

fn lane_of_number(number: i64) -> Lane {
    match number {
        0 => Lane::Live,
        1 => Lane::Interactive,
        _ => Lane::Bulk,
    }
}

/// The right to work on a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The job.
    pub job: JobId,
    /// Its transcript.
    pub transcript: TranscriptId,
    account: AccountId,
    token: String,
}

/// A job that this worker has claimed.
#[derive(Debug, Clone)]
pub struct Job {
    /// What proves the claim.
    pub lease: Lease,
    /// Whose transcript it is.
    pub account: AccountId,
    /// Whom it counts for.
    pub owner: Owner,
    /// How urgent it is.
    pub lane: Lane,
    /// What to do, as the server wrote it.
    pub request: String,
    /// Length of the audio as probed.
    pub seconds: f64,
    /// The recording.
    pub blob: Blob,
    /// Which attempt this is, from 1.
    pub attempt: i64,
}

impl Store {
    /// Takes the next job: the lowest lane first, in it the owner with the fewest running jobs, then the oldest. Bulk jobs count as interactive ones
    /// after [`BULK_PATIENCE`]. `None` when none waits.
    pub async fn claim(&self, worker: &str, lease: Duration) -> Result<Option<Job>> {
        self.claim_up_to(worker, lease, Lane::Bulk).await
    }

    /// [`Store::claim`] for a place that is kept free for short work: takes no job of a lane after `last`.
    pub async fn claim_up_to(&self, worker: &str, lease: Duration, last: Lane) -> Result<Option<Job>> {
        let now = self.now();
        let looked = self.0.last_expiry.load(Ordering::Relaxed);
        if now - looked >= EXPIRY_STEP
            && self.0.last_expiry.compare_exchange(looked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.expire_leases().await?;
        }
        let token = random::token::<16>()?;
        let mut tx = self.db().begin().await?;
        let skip = if tx.is_postgres() { "FOR UPDATE OF j SKIP LOCKED" } else { "" };
        let sql = format!(
            "UPDATE jobs SET state = 'processing', attempts = attempts + 1, worker = $1, lease = $2, lease_until = $3
             WHERE id = (
                 SELECT j.id FROM jobs j
                 LEFT JOIN (SELECT owner, count(*) AS running FROM jobs WHERE state = 'processing' GROUP BY owner) r ON r.owner = j.owner
                 WHERE j.state = 'queued' AND j.lane <= $4
                 ORDER BY {turn}, COALESCE(r.running, 0), j.queued_at, j.id LIMIT 1 {skip}
             )
             RETURNING id, transcript_id, account_id, owner, lane, request, seconds, attempts",
            turn = lane_by_age("$5")
        );
        let until = now.saturating_add(micros(lease));
        let row = tx.optional(&sql, args![worker, &token, until, lane_number(last), patient_since(now)]).await?;
        let Some(row) = row else { return Ok(None) };
        let transcript = TranscriptId(row.get("transcript_id")?);
        tx.execute("UPDATE transcripts SET status = 'processing' WHERE id = $1", args![transcript]).await?;
        let blob = blob::of_transcript(&mut tx, transcript).await?;
        tx.commit().await?;
        let account = AccountId(row.get("account_id")?);
        let owner: String = row.get("owner")?;
        let request =
            self.sealer(account).await?.open_text(&request_place(transcript), &row.get::<Vec<u8>>("request")?)?;
        Ok(Some(Job {
            lease: Lease { job: JobId(row.get("id")?), transcript, account, token },
            account,
            owner: Owner::parse(&owner).ok_or_else(|| Error::Damaged(format!("{owner:?} is no owner")))?,
            lane: lane_of_number(row.get("lane")?),
            request,
            seconds: row.get("seconds")?,
            blob: blob.ok_or_else(|| Error::Damaged("a job has no recording".into()))?,
            attempt: row.get("attempts")?,
        }))
    }

    /// Keeps a job for longer; [`Error::LeaseLost`] when it is no longer this worker's.
    pub async fn renew(&self, lease: &Lease, keep: Duration) -> Result<()> {
        let until = self.now().saturating_add(micros(keep));
        let sql = "UPDATE jobs SET lease_until = $1 WHERE id = $2 AND lease = $3 AND state = 'processing'";
        match self.db().execute(sql, args![until, lease.job, &lease.token]).await? {
            0 => Err(Error::LeaseLost),
            _ => Ok(()),
        }
    }

    /// Notes how far a job is, 0 to 100; what is less than before is ignored. [`Error::LeaseLost`] when the job is no longer this worker's.
    pub async fn progress(&self, lease: &Lease, percent: i64) -> Result<()> {
        let mut tx = self.db().begin().await?;
        let sql = "SELECT id FROM jobs WHERE id = $1 AND lease = $2 AND state = 'processing'";
        tx.optional(sql, args![lease.job, &lease.token]).await?.ok_or(Error::LeaseLost)?;
        let sql = "UPDATE transcripts SET progress = $1 WHERE id = $2 AND progress < $1";
        tx.execute(sql, args![percent.clamp(0, 100), lease.transcript]).await?;
        tx.commit().await
    }

    /// Ends a job with its result: segments, charge, usage and status in one transaction, if the lease still stands. `used` is credits and minutes
    /// alike. The recording stays when `keep_audio`.
    pub async fn complete(
        &self,
        lease: &Lease,
        result: &TranscriptionResult,
        used: i64,
        keep_audio: bool,
    ) -> Result<Option<Settled>> {
        self.complete_named(lease, result, &BTreeMap::new(), used, keep_audio).await
    }

    /// [`Store::complete`] for a recording in which speakers were known: the names of labels are written with it.
    pub async fn complete_named(
        &self,
        lease: &Lease,
        result: &TranscriptionResult,
        names: &BTreeMap<String, String>,
        used: i64,
        keep_audio: bool,
    ) -> Result<Option<Settled>> {
        let now = self.now();
        let id = lease.transcript;
        let sealer = self.sealer(lease.account).await.map_err(gone)?;
        let sealed = segment::seal_all(&sealer, id, &result.segments)?;
        let words: i64 = result.segments.iter().map(segment::words_in).sum();
        let mut tx = self.db().begin().await?;
        ledger::lock(&mut tx, lease.account).await.map_err(gone)?;
        let ended = end_by_lease(&mut tx, lease).await?;
        segment::write(&mut tx, id, &sealed).await?;
        for (label, name) in names {
            transcript::write_name(&mut tx, &sealer, id, label, name).await?;
        }
        tx.execute(
            "UPDATE transcripts SET status = 'completed', progress = 100, language = $1, duration_seconds = $2, word_count = $3,
                 num_speakers = $4, model = $5, error = NULL, completed_at = $6
             WHERE id = $7",
            args![
                &result.language,
                result.duration,
                words,
                segment::speakers(&result.segments).len() as i64,
                &result.model,
                now,
                id
            ],
        )
        .await?;
        let settled = ledger::settle(&mut tx, &job_reference(lease.job), used, "transcription", now).await?;
        if let (Some(key), Some(month)) = (ended.key, ended.key_month) {
            key::add_minutes(&mut tx, key, month, used - ended.minutes).await?;
        }
        usage::count(&mut tx, lease.account, result.duration, words, now).await?;
        webhook::due(&mut tx, id, now).await?;
        if !keep_audio {
            tx.execute("UPDATE blobs SET state = 'deleting' WHERE transcript_id = $1", args![id]).await?;
        }
        tx.commit().await?;
        self.tell(Change::Finished(id));
        if !keep_audio {
            self.remove_recording(id).await;
        }
        Ok(settled)
    }

    /// Ends an attempt without a result. A `retryable` one waits again while attempts are left, which the answer tells; otherwise the transcript
    /// fails for this reason, nothing is charged, and the recording goes.
    pub async fn fail(&self, lease: &Lease, reason: &str, retryable: bool) -> Result<bool> {
        let now = self.now();
        let mut tx = self.db().begin().await?;
        ledger::lock(&mut tx, lease.account).await.map_err(gone)?;
        if retryable && requeue(&mut tx, lease, None).await? {
            tx.commit().await?;
            self.tell(Change::Queued);
            return Ok(true);
        }
        let ended = end_by_lease(&mut tx, lease).await?;
        undo(&mut tx, &ended, now).await?;
        mark_failed(&mut tx, lease.transcript, reason, now).await?;
        tx.commit().await?;
        self.tell(Change::Finished(lease.transcript));
        self.remove_recording(lease.transcript).await;
        Ok(false)
    }

    /// Puts jobs whose worker was silent for too long back into the queue, or fails them when it was the last attempt. Gives how many.
    pub async fn expire_leases(&self) -> Result<u64> {
        let now = self.now();
        let late = self
            .db()
            .all(
                "SELECT id, transcript_id, account_id, lease FROM jobs WHERE state = 'processing' AND lease_until < $1",
                args![now],
            )
            .await?;
        let mut expired = 0;
        for row in late {
            let lease = Lease {
                job: JobId(row.get("id")?),
                transcript: TranscriptId(row.get("transcript_id")?),
                account: AccountId(row.get("account_id")?),
                token: row.get("lease")?,
            };
            match self.expire(&lease, now).await {
                Ok(()) => expired += 1,
                // Its worker, or another who looks for ended leases, was faster.
                Err(Error::LeaseLost | Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(expired)
    }

    async fn expire(&self, lease: &Lease, now: Micros) -> Result<()> {
        let mut tx = self.db().begin().await?;
        ledger::lock(&mut tx, lease.account).await?;
        if requeue(&mut tx, lease, Some(now)).await? {
            tx.commit().await?;
            tracing::warn!(job = %lease.job, "the worker of a job was silent for too long; the job waits again");
            self.tell(Change::Stopped(lease.job));
            self.tell(Change::Queued);
            return Ok(());
        }
        let sql = "SELECT id FROM jobs WHERE id = $1 AND lease = $2 AND lease_until < $3";
        tx.optional(sql, args![lease.job, &lease.token, now]).await?.ok_or(Error::LeaseLost)?;
        let ended = end_by_lease(&mut tx, lease).await?;
        undo(&mut tx, &ended, now).await?;
        mark_failed(&mut tx, lease.transcript, WORKERS_DIED, now).await?;
        tx.commit().await?;
        tracing::warn!(job = %lease.job, "a job failed: all its workers died");
        self.tell(Change::Stopped(lease.job));
        self.tell(Change::Finished(lease.transcript));
        self.remove_recording(lease.transcript).await;
        Ok(())
    }

    /// Gives every job of a worker that stops back to the queue; the attempt does not count. Gives how many.
    pub async fn give_back(&self, worker: &str) -> Result<u64> {
        let mut tx = self.db().begin().await?;
        let rows = tx
            .all(
                "UPDATE jobs SET state = 'queued', attempts = attempts - 1, worker = NULL, lease = NULL, lease_until = NULL
                 WHERE worker = $1 AND state = 'processing' RETURNING transcript_id",
                args![worker],
            )
            .await?;
        for row in &rows {
            let id: i64 = row.get("transcript_id")?;
            tx.execute("UPDATE transcripts SET status = 'queued' WHERE id = $1", args![id]).await?;
        }
        tx.commit().await?;
        if !rows.is_empty() {
            self.tell(Change::Queued);
        }
        Ok(rows.len() as u64)
    }

    /// A transcript's place in the queue from 1; `None` when it does not wait.
    pub async fn queue_position(&self, id: TranscriptId) -> Result<Option<i64>> {
        position(&mut self.db().snapshot().await?, id, self.now()).await
    }

    /// Jobs that wait.
    pub async fn queue_length(&self) -> Result<i64> {
        self.db().one("SELECT count(*) AS waiting FROM jobs WHERE state = 'queued'", &[]).await?.get("waiting")
    }

    /// Jobs of an owner that wait or run.
    pub async fn live_jobs(&self, owner: &Owner) -> Result<i64> {
        let sql = "SELECT count(*) AS live FROM jobs WHERE owner = $1";
        self.db().one(sql, args![&owner.name()]).await?.get("live")
    }
}

/// Someone who works for an account that is gone has lost the job with it.
fn gone(error: Error) -> Error {
    if matches!(error, Error::NotFound(_)) { Error::LeaseLost } else { error }
}

pub(crate) fn request_place(id: TranscriptId) -> Place {
    columns::REQUEST.at(&[&id])
}

/// Bulk jobs queued at this time or before have waited long enough.
fn patient_since(now: Micros) -> Micros {
    now.saturating_sub(micros(BULK_PATIENCE))
}

/// The lane that a job `j` is claimed by; `since` stands for [`patient_since`].
fn lane_by_age(since: &str) -> String {
    let (bulk, interactive) = (lane_number(Lane::Bulk), lane_number(Lane::Interactive));
    format!("CASE WHEN j.lane = {bulk} AND j.queued_at <= {since} THEN {interactive} ELSE j.lane END")
}

/// A transcript's place in the queue by lane and age.
pub(crate) async fn position(tx: &mut Tx, id: TranscriptId, now: Micros) -> Result<Option<i64>> {
    let lane = lane_by_age("$1");
    let since = patient_since(now);
    let sql = format!(
        "SELECT j.id, j.queued_at, {lane} AS turn FROM jobs j WHERE j.transcript_id = $2 AND j.state = 'queued'"
    );
    let Some(row) = tx.optional(&sql, args![since, id]).await? else { return Ok(None) };
    let sql = format!(
        "SELECT count(*) AS ahead FROM jobs j WHERE j.state = 'queued'
             AND ({lane} < $2 OR ({lane} = $2 AND (j.queued_at < $3 OR (j.queued_at = $3 AND j.id < $4))))"
    );
    let mine = args![since, row.get::<i64>("turn")?, row.get::<i64>("queued_at")?, row.get::<i64>("id")?];
    Ok(Some(tx.one(&sql, mine).await?.get::<i64>("ahead")? + 1))
}

/// What a job had counted, so that it can be taken back.
struct Ended {
    job: JobId,
    owner: String,
    minutes: i64,
    key: Option<KeyId>,
    key_month: Option<i64>,
    anonymous_day: Option<i64>,
}

const ENDED: &str = "id, owner, minutes, key_id, key_month, anonymous_day";

fn ended(row: &Row) -> Result<Ended> {
    Ok(Ended {
        job: JobId(row.get("id")?),
        owner: row.get("owner")?,
        minutes: row.get("minutes")?,
        key: row.get::<Option<i64>>("key_id")?.map(KeyId),
        key_month: row.get("key_month")?,
        anonymous_day: row.get("anonymous_day")?,
    })
}

/// Removes the job if the lease still stands.
async fn end_by_lease(tx: &mut Tx, lease: &Lease) -> Result<Ended> {
    let sql = format!("DELETE FROM jobs WHERE id = $1 AND lease = $2 AND state = 'processing' RETURNING {ENDED}");
    ended(&tx.optional(&sql, args![lease.job, &lease.token]).await?.ok_or(Error::LeaseLost)?)
}

/// Removes the job of a transcript, whoever works on it, and takes back what it had counted. The account must be locked.
pub(crate) async fn end_of_job(tx: &mut Tx, id: TranscriptId, now: Micros) -> Result<Option<JobId>> {
    let sql = format!("DELETE FROM jobs WHERE transcript_id = $1 RETURNING {ENDED}");
    let Some(row) = tx.optional(&sql, args![id]).await? else { return Ok(None) };
    let ended = ended(&row)?;
    undo(tx, &ended, now).await?;
    Ok(Some(ended.job))
}

/// Releases the hold and takes back the counts of a job that gives no result.
async fn undo(tx: &mut Tx, ended: &Ended, now: Micros) -> Result<()> {
    ledger::settle(tx, &job_reference(ended.job), 0, "", now).await?;
    if let (Some(key), Some(month)) = (ended.key, ended.key_month) {
        key::add_minutes(tx, key, month, -ended.minutes).await?;
    }
    if let (Some(day), Some(Owner::Anonymous(address))) = (ended.anonymous_day, Owner::parse(&ended.owner)) {
        anonymous::give_back(tx, &address, day, ended.minutes).await?;
    }
    Ok(())
}

/// Puts a job back into the queue unless this was its last attempt; with `late_at` only if its lease had ended by then.
async fn requeue(tx: &mut Tx, lease: &Lease, late_at: Option<Micros>) -> Result<bool> {
    let back = tx
        .execute(
            "UPDATE jobs SET state = 'queued', worker = NULL, lease = NULL, lease_until = NULL
             WHERE id = $1 AND lease = $2 AND state = 'processing' AND attempts < $3 AND ($4 IS NULL OR lease_until < $4)",
            args![lease.job, &lease.token, MAX_ATTEMPTS, late_at],
        )
        .await?;
    if back > 0 {
        tx.execute("UPDATE transcripts SET status = 'queued' WHERE id = $1", args![lease.transcript]).await?;
    }
    Ok(back > 0)
}

/// Marks a transcript as failed; its recording is of no more use.
pub(crate) async fn mark_failed(tx: &mut Tx, id: TranscriptId, reason: &str, now: Micros) -> Result<()> {
    let sql = "UPDATE transcripts SET status = 'failed', error = $1, completed_at = $2 WHERE id = $3";
    tx.execute(sql, args![reason, now, id]).await?;
    webhook::due(tx, id, now).await?;
    tx.execute("UPDATE blobs SET state = 'deleting' WHERE transcript_id = $1", args![id]).await?;
    Ok(())
}
