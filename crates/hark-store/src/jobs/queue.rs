//! The queue: claiming jobs, and how an attempt ends.
//!
//! A worker claims a job that it can run and holds it by a lease that it renews ([`Lease`]). The result of a job is committed in the transaction that ends
//! it, and only by the worker with the current lease. An attempt without a result is retried with backoff, depending on its [`FaultKind`]; a job without
//! attempts left stays in the state `failed` with its recording, see `retry.rs`.
//!
//! Transactions lock in one order, so that there is no deadlock: account, job, transcript.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hark_api::{FaultKind, Lane, Segment, TranscriptionResult};

use crate::accounts::usage;
use crate::addresses::anonymous;
use crate::clock::{Micros, micros};
use crate::db::{Row, Tx, Value, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, JobId, KeyId, Owner, TranscriptId};
use crate::jobs::Jobs;
use crate::jobs::backoff::MAX_BACKOFF;
use crate::jobs::lease::Lease;
use crate::jobs::needs::Capabilities;
use crate::jobs::product::Product;
use crate::keys;
use crate::ledger::{self, Settlement, job_reference};
use crate::sealing::columns::{self, AssociatedData};
use crate::transcripts::{self, draft, segment, warnings};
use crate::webhooks;
use crate::{Blob, Change, Status, Store, random, search};

/// The kind of job that makes a transcript of a recording.
pub const TRANSCRIBE: &str = "transcribe";

/// A bulk job that has waited this long is claimed like an interactive one, so that a steady stream of clips can't starve it.
pub const BULK_MAX_WAIT: Duration = Duration::from_secs(120);

/// Minimum interval between checks for expired leases by claims.
const EXPIRY_CHECK_INTERVAL: Micros = 1_000_000;

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

/// A worker that claims a job, and which jobs it can run.
#[derive(Debug, Clone)]
pub struct Claim<'a> {
    /// The worker's name.
    pub worker: &'a str,
    /// How long a lease lasts without being renewed.
    pub lease: Duration,
    /// The kinds that it runs; any when empty.
    pub kinds: &'a [&'a str],
    /// The least urgent lane that it claims from: a slot may be reserved for short work.
    pub last: Lane,
    /// Its models and other capabilities.
    pub capabilities: &'a Capabilities,
}

impl<'a> Claim<'a> {
    /// A worker that claims any job.
    pub fn any(worker: &'a str, lease: Duration) -> Self {
        Claim { worker, lease, kinds: &[], last: Lane::Bulk, capabilities: &Capabilities::All }
    }
}

/// A job that this worker has claimed.
#[derive(Debug, Clone)]
pub struct Job {
    /// The lease.
    pub lease: Lease,
    /// Whose job it is.
    pub account: AccountId,
    /// Whom it counts for.
    pub owner: Owner,
    /// How urgent it is.
    pub lane: Lane,
    /// What to do, as the server wrote it.
    pub payload: String,
    /// Length of the audio as probed.
    pub seconds: f64,
    /// The recording, where it has one.
    pub blob: Option<Blob>,
    /// Which attempt this is, from 1.
    pub attempt: i64,
}

/// The outcome for a job whose attempt had no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFault {
    /// It is retried.
    Retry {
        /// For at least this long.
        wait: Duration,
    },
    /// It has failed.
    Failed,
}

impl Jobs<'_> {
    /// Claims the next job of any kind, see [`Jobs::claim`].
    pub async fn claim_any(self, worker: &str, lease: Duration) -> Result<Option<Job>> {
        self.claim(&Claim::any(worker, lease)).await
    }

    /// Claims the next job that the worker can run: the most urgent lane first, in it the owner with the fewest running jobs, then the oldest. Bulk jobs
    /// count as interactive ones after [`BULK_MAX_WAIT`]. `None` when none waits.
    pub async fn claim(self, claim: &Claim<'_>) -> Result<Option<Job>> {
        let claimed = self.try_claim(claim).await;
        if let Err(Error::Database(_) | Error::Unavailable(_)) = &claimed {
            self.pause_expiry(claim.lease);
        }
        claimed
    }

    async fn try_claim(self, claim: &Claim<'_>) -> Result<Option<Job>> {
        let now = self.store.clock().monotonic();
        let last_check = self.store.0.last_expiry.load(Ordering::Relaxed);
        if now.saturating_sub(last_check) >= EXPIRY_CHECK_INTERVAL
            && self.store.0.last_expiry.compare_exchange(last_check, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.expire_leases().await?;
        }
        let token = random::token::<16>()?;
        let mut tx = self.store.db().begin().await?;
        let skip = if tx.is_postgres() { "FOR UPDATE OF j SKIP LOCKED" } else { "" };
        let lease = micros(claim.lease);
        let mut values: Vec<Value<'_>> =
            args![claim.worker, &token, self.lease_time(), lease, lane_number(claim.last)].to_vec();
        let mut condition = claim.capabilities.condition(&mut values);
        if !claim.kinds.is_empty() {
            let first = values.len() + 1;
            values.extend(claim.kinds.iter().map(|kind| Value::from(*kind)));
            let list: Vec<String> = (first..=values.len()).map(|number| format!("${number}")).collect();
            condition.push_str(&format!(" AND j.kind IN ({})", list.join(", ")));
        }
        let sql = format!(
            "UPDATE jobs SET state = 'processing', attempts = attempts + 1, worker = $1, lease = $2, lease_until = {now} + $4, lease_duration = $4
             WHERE id = (
                 SELECT j.id FROM jobs j
                 LEFT JOIN (SELECT owner, count(*) AS running FROM jobs WHERE state = 'processing' GROUP BY owner) r ON r.owner = j.owner
                 WHERE j.state = 'queued' AND j.lane <= $5 AND {due} AND {condition}
                 ORDER BY {effective_lane}, COALESCE(r.running, 0), j.queued_at, j.id LIMIT 1 {skip}
             )
             RETURNING id, kind, transcript_id, enhancement_id, account_id, owner, lane, payload, payload_key, seconds, attempts, lease, lease_until",
            now = self.lease_now_sql("$3"),
            due = due(&self.lease_now_sql("$3")),
            effective_lane = effective_lane_sql(&self.lease_now_sql("$3")),
        );
        let Some(row) = tx.optional(&sql, &values).await? else { return Ok(None) };
        let lease = Lease::of_row(&row)?;
        if let Some(product) = lease.product() {
            product.set_status(&mut tx, Status::Processing).await?;
        }
        let blob = match lease.product().or(lease.transcript.map(Product::from)) {
            Some(product) => product.recording(&mut tx).await?,
            None => None,
        };
        tx.commit().await?;
        self.store.observed_leases().observe(
            lease.job,
            &lease.token,
            row.get("lease_until")?,
            self.store.clock().monotonic(),
        );
        let account = lease.account;
        let owner: String = row.get("owner")?;
        let aad = payload_aad(&row.get::<String>("payload_key")?);
        Ok(Some(Job {
            account,
            owner: Owner::parse(&owner).ok_or_else(|| Error::Damaged(format!("{owner:?} is no owner")))?,
            lane: lane_of_number(row.get("lane")?),
            payload: self.store.sealer(account).await?.open_text(&aad, &row.get::<Vec<u8>>("payload")?)?,
            seconds: row.get("seconds")?,
            blob,
            attempt: row.get("attempts")?,
            lease,
        }))
    }

    /// Records the progress of a job, 0 to 100; it never decreases. [`Error::LeaseLost`] when the job is no longer this worker's.
    pub async fn set_progress(self, lease: &Lease, percent: i64) -> Result<()> {
        self.record(lease, percent, None).await
    }

    /// [`Jobs::set_progress`] together with the draft of the transcript that the job makes: it is there until the attempt ends. Its words and speakers are not stored.
    pub async fn set_progress_with_draft(self, lease: &Lease, percent: i64, draft: &[Segment]) -> Result<()> {
        self.record(lease, percent, Some(draft)).await
    }

    async fn record(self, lease: &Lease, percent: i64, draft: Option<&[Segment]>) -> Result<()> {
        let draft = match (lease.transcription(), draft) {
            (Some(id), Some(segments)) => {
                let sealer = self.store.sealer(lease.account).await.map_err(lease_lost_if_deleted)?;
                Some((id, segments, sealer))
            }
            _ => None,
        };
        let mut tx = self.store.db().begin().await?;
        // Locked, so that no draft is written beside the transaction that ends the attempt and forgets it.
        let sql =
            format!("SELECT id FROM jobs WHERE id = $1 AND lease = $2 AND state = 'processing'{}", tx.for_update());
        tx.optional(&sql, args![lease.job, &lease.token]).await?.ok_or(Error::LeaseLost)?;
        if let Some(product) = lease.product() {
            product.set_progress(&mut tx, percent).await?;
        }
        if let Some((id, segments, sealer)) = draft {
            draft::write(&mut tx, &sealer, lease.account, id, segments, self.store.now()).await?;
        }
        tx.commit().await
    }

    /// Ends a transcription with its result: segments, charge, usage and status in one transaction, if the lease is still valid. `used` is both credits and
    /// minutes. The recording stays when `keep_audio`.
    pub async fn complete(
        self,
        lease: &Lease,
        result: &TranscriptionResult,
        used: i64,
        keep_audio: bool,
    ) -> Result<Option<Settlement>> {
        self.complete_named(lease, result, &BTreeMap::new(), used, keep_audio).await
    }

    /// [`Jobs::complete`] with the names of identified speakers by label.
    pub async fn complete_named(
        self,
        lease: &Lease,
        result: &TranscriptionResult,
        names: &BTreeMap<String, String>,
        used: i64,
        keep_audio: bool,
    ) -> Result<Option<Settlement>> {
        let now = self.store.now();
        let id = lease.transcription().ok_or(Error::Conflict("this job makes no transcript"))?;
        let sealer = self.store.sealer(lease.account).await.map_err(lease_lost_if_deleted)?;
        let sealed = segment::seal_all(&sealer, id, &result.segments)?;
        let words: i64 = result.segments.iter().map(segment::words_in).sum();
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, lease.account).await.map_err(lease_lost_if_deleted)?;
        let ended = remove_leased(&mut tx, lease).await?;
        draft::forget(&mut tx, id).await?;
        segment::write(&mut tx, id, &sealed).await?;
        warnings::write(&mut tx, &sealer, lease.account, id, &result.warnings, now).await?;
        for (label, name) in names {
            transcripts::write_name(&mut tx, &sealer, id, label, name).await?;
        }
        tx.execute(
            "UPDATE transcripts SET status = 'completed', progress = 100, language = $1, duration_seconds = $2, word_count = $3,
                 num_speakers = $4, model = $5, error = NULL, error_kind = NULL, completed_at = $6
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
        let settled = ledger::settle(&mut tx, &ended.reference, used, "transcription", now).await?;
        if let (Some(key), Some(month)) = (ended.key, ended.key_month) {
            keys::add_minutes(&mut tx, key, month, used - ended.minutes).await?;
        }
        if let (Some(day), Some(Owner::Anonymous(address))) = (ended.anonymous_day, Owner::parse(&ended.owner)) {
            anonymous::add_minutes(&mut tx, &address, day, used - ended.minutes).await?;
        }
        usage::count(&mut tx, lease.account, result.duration, words, now).await?;
        webhooks::mark_due(&mut tx, id, now).await?;
        search::mark_due(&mut tx, id, now).await?;
        let product = Product::from(id);
        if !keep_audio {
            product.release_recordings(&mut tx).await?;
        }
        tx.commit().await?;
        self.store.notify(Change::Finished(id));
        if !keep_audio {
            self.store.recordings().remove(product).await;
        }
        Ok(settled)
    }

    /// Ends a job whose only result is its charge, in one transaction, if the lease is still valid.
    pub async fn complete_task(self, lease: &Lease, used: i64, note: &str) -> Result<Option<Settlement>> {
        if lease.product().is_some() {
            return Err(Error::Conflict("a job that makes something ends with it"));
        }
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, lease.account).await.map_err(lease_lost_if_deleted)?;
        let ended = remove_leased(&mut tx, lease).await?;
        let settled = ledger::settle(&mut tx, &ended.reference, used, note, self.store.now()).await?;
        tx.commit().await?;
        Ok(settled)
    }

    /// Ends an attempt without a result. The fault kind decides: a fault of the input is final, an internal one is retried while attempts are left, an
    /// outage is waited out. A failed job costs nothing; unless the input was at fault it keeps its recording.
    pub async fn fail(self, lease: &Lease, kind: FaultKind, reason: &str) -> Result<AfterFault> {
        self.fail_with_detail(lease, kind, reason, reason).await
    }

    /// [`Jobs::fail`] with a separate, more detailed reason for the operator.
    pub async fn fail_with_detail(
        self,
        lease: &Lease,
        kind: FaultKind,
        reason: &str,
        detail: &str,
    ) -> Result<AfterFault> {
        let policy = *self.store.retry_policy();
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, lease.account).await.map_err(lease_lost_if_deleted)?;
        let sql = format!(
            "SELECT attempts, deferrals, {} - queued_at AS age FROM jobs WHERE id = $2 AND lease = $3 AND state = 'processing'{}",
            self.lease_now_sql("$1"),
            tx.for_update()
        );
        let row =
            tx.optional(&sql, args![self.lease_time(), lease.job, &lease.token]).await?.ok_or(Error::LeaseLost)?;
        let (attempts, deferrals): (i64, i64) = (row.get("attempts")?, row.get("deferrals")?);
        let retry = match kind {
            FaultKind::Input | FaultKind::Credits | FaultKind::Cancelled => None,
            FaultKind::Internal | FaultKind::Timeout => (attempts < policy.max_attempts)
                .then(|| Requeue { wait: policy.backoff(attempts), ..Requeue::counted(kind, detail) }),
            FaultKind::Unavailable => (row.get::<i64>("age")? < micros(policy.unavailable_for)).then(|| Requeue {
                wait: policy.unavailable_backoff(deferrals + 1),
                ..Requeue::deferred(kind, detail)
            }),
        };
        let outcome = match retry {
            Some(retry) => {
                requeue(&mut tx, self.store, lease, retry).await?;
                AfterFault::Retry { wait: retry.wait }
            }
            None => {
                if kind.is_ours() {
                    dead_letter(&mut tx, self.store, lease, kind, reason, detail).await?;
                } else {
                    let now = self.store.now();
                    let ended = remove_leased(&mut tx, lease).await?;
                    release_counts(&mut tx, &ended, now).await?;
                    if let Some(product) = lease.product() {
                        product.mark_failed(&mut tx, kind, reason, now).await?;
                        product.release_recordings(&mut tx).await?;
                    }
                }
                AfterFault::Failed
            }
        };
        tx.commit().await?;
        match (outcome, lease.product()) {
            (AfterFault::Retry { .. }, _) => self.store.notify(Change::Queued),
            (AfterFault::Failed, Some(product)) => {
                self.store.notify(product.finished());
                self.store.recordings().remove(product).await;
            }
            (AfterFault::Failed, None) => {}
        }
        Ok(outcome)
    }

    /// Returns a job to the queue without counting the attempt: the fault is the worker's, and another may run the job.
    pub async fn release(self, lease: &Lease, kind: FaultKind, detail: &str) -> Result<()> {
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, lease.account).await.map_err(lease_lost_if_deleted)?;
        requeue(&mut tx, self.store, lease, Requeue::deferred(kind, detail)).await?;
        tx.commit().await?;
        self.store.notify(Change::Queued);
        Ok(())
    }

    /// Returns all jobs of a stopping worker to the queue without counting the attempts. Returns how many.
    pub async fn release_all(self, worker: &str) -> Result<u64> {
        let mut tx = self.store.db().begin().await?;
        let rows = tx
            .all(
                "UPDATE jobs SET state = 'queued', attempts = attempts - 1, worker = NULL, lease = NULL, lease_until = NULL
                 WHERE worker = $1 AND state = 'processing' RETURNING kind, transcript_id, enhancement_id",
                args![worker],
            )
            .await?;
        for row in rows.iter() {
            if let Some(product) = Product::of_job(row)? {
                product.set_status(&mut tx, Status::Queued).await?;
            }
        }
        tx.commit().await?;
        if !rows.is_empty() {
            self.store.notify(Change::Queued);
        }
        Ok(rows.len() as u64)
    }

    /// A transcript's position in the queue, from 1; `None` when it is not queued.
    pub async fn position(self, id: TranscriptId) -> Result<Option<i64>> {
        position(&mut self.store.db().snapshot().await?, self.store, id.into()).await
    }

    /// The number of queued jobs.
    pub async fn queue_length(self) -> Result<i64> {
        self.store.db().one("SELECT count(*) AS waiting FROM jobs WHERE state = 'queued'", &[]).await?.get("waiting")
    }

    /// The number of queued and running jobs of an owner.
    pub async fn live_count(self, owner: &Owner) -> Result<i64> {
        let sql = "SELECT count(*) AS live FROM jobs WHERE owner = $1 AND state IN ('queued', 'processing')";
        self.store.db().one(sql, args![&owner.name()]).await?.get("live")
    }
}

/// Maps a deleted account to a lost lease: its jobs were deleted with it.
pub(crate) fn lease_lost_if_deleted(error: Error) -> Error {
    if matches!(error, Error::NotFound(_)) { Error::LeaseLost } else { error }
}

pub(crate) fn payload_aad(key: &str) -> AssociatedData {
    columns::PAYLOAD.associated_data(&[&key])
}

/// Whether a job `j` may be claimed at `now`. A delay beyond [`MAX_BACKOFF`] was computed before the clock was stepped, and is ignored.
fn due(now: &str) -> String {
    format!("(j.not_before <= {now} OR j.not_before > {now} + {})", micros(MAX_BACKOFF))
}

/// The effective lane of a job `j` at `now`.
fn effective_lane_sql(now: &str) -> String {
    let (bulk, interactive, max_wait) =
        (lane_number(Lane::Bulk), lane_number(Lane::Interactive), micros(BULK_MAX_WAIT));
    format!("CASE WHEN j.lane = {bulk} AND j.queued_at <= {now} - {max_wait} THEN {interactive} ELSE j.lane END")
}

/// The position in the queue, by effective lane and age, of the job that makes this.
pub(crate) async fn position(tx: &mut Tx, store: &Store, product: Product) -> Result<Option<i64>> {
    let lane = effective_lane_sql(&store.jobs().lease_now_sql("$1"));
    let makes_it = match product {
        Product::Transcript(_) => format!("j.transcript_id = $2 AND j.kind = '{TRANSCRIBE}'"),
        Product::Enhancement(_) => "j.enhancement_id = $2".to_owned(),
    };
    let sql = format!(
        "SELECT j.id, j.queued_at, {lane} AS effective_lane FROM jobs j WHERE {makes_it} AND j.state = 'queued'"
    );
    let values = args![store.jobs().lease_time(), product.number()];
    let Some(row) = tx.optional(&sql, values).await? else { return Ok(None) };
    let sql = format!(
        "SELECT count(*) AS ahead FROM jobs j WHERE j.state = 'queued'
             AND ({lane} < $2 OR ({lane} = $2 AND (j.queued_at < $3 OR (j.queued_at = $3 AND j.id < $4))))"
    );
    let values = args![
        store.jobs().lease_time(),
        row.get::<i64>("effective_lane")?,
        row.get::<i64>("queued_at")?,
        row.get::<i64>("id")?
    ];
    Ok(Some(tx.one(&sql, values).await?.get::<i64>("ahead")? + 1))
}

/// A removed job and the counts to adjust.
pub(crate) struct RemovedJob {
    job: JobId,
    /// The ledger reference of its hold.
    pub(crate) reference: String,
    state: String,
    owner: String,
    pub(crate) minutes: i64,
    pub(crate) key: Option<KeyId>,
    pub(crate) key_month: Option<i64>,
    anonymous_day: Option<i64>,
}

impl RemovedJob {
    const COLUMNS: &str = "id, retries, state, owner, minutes, key_id, key_month, anonymous_day";

    fn of_row(row: &Row) -> Result<RemovedJob> {
        let job = JobId(row.get("id")?);
        Ok(RemovedJob {
            job,
            reference: job_reference(job, row.get("retries")?),
            state: row.get("state")?,
            owner: row.get("owner")?,
            minutes: row.get("minutes")?,
            key: row.get::<Option<i64>>("key_id")?.map(KeyId),
            key_month: row.get("key_month")?,
            anonymous_day: row.get("anonymous_day")?,
        })
    }
}

/// Removes the job if the lease is still valid.
pub(crate) async fn remove_leased(tx: &mut Tx, lease: &Lease) -> Result<RemovedJob> {
    let columns = RemovedJob::COLUMNS;
    let sql = format!("DELETE FROM jobs WHERE id = $1 AND lease = $2 AND state = 'processing' RETURNING {columns}");
    RemovedJob::of_row(&tx.optional(&sql, args![lease.job, &lease.token]).await?.ok_or(Error::LeaseLost)?)
}

/// Removes the jobs of a transcript or enhancement, running or not, and releases their counts. Returns those that were queued or running. The account must
/// be locked.
pub(crate) async fn remove_jobs(tx: &mut Tx, product: Product, now: Micros) -> Result<Vec<JobId>> {
    let sql = format!("DELETE FROM jobs WHERE {} = $1 RETURNING {}", product.column(), RemovedJob::COLUMNS);
    let mut live = Vec::new();
    for row in tx.all(&sql, args![product.number()]).await? {
        let ended = RemovedJob::of_row(&row)?;
        // The counts of a failed job were released when it failed.
        if ended.state != "failed" {
            release_counts(tx, &ended, now).await?;
            live.push(ended.job);
        }
    }
    Ok(live)
}

/// Releases the hold and the counts of a job without a result.
async fn release_counts(tx: &mut Tx, ended: &RemovedJob, now: Micros) -> Result<()> {
    ledger::settle(tx, &ended.reference, 0, "", now).await?;
    if let (Some(key), Some(month)) = (ended.key, ended.key_month) {
        keys::add_minutes(tx, key, month, -ended.minutes).await?;
    }
    if let (Some(day), Some(Owner::Anonymous(address))) = (ended.anonymous_day, Owner::parse(&ended.owner)) {
        anonymous::uncount(tx, &address, day, ended.minutes).await?;
    }
    Ok(())
}

/// How a job is requeued.
#[derive(Clone, Copy)]
pub(crate) struct Requeue<'a> {
    wait: Duration,
    /// Whether this attempt counts.
    is_counted: bool,
    kind: FaultKind,
    detail: &'a str,
}

impl<'a> Requeue<'a> {
    pub(crate) fn counted(kind: FaultKind, detail: &'a str) -> Self {
        Requeue { wait: Duration::ZERO, is_counted: true, kind, detail }
    }

    fn deferred(kind: FaultKind, detail: &'a str) -> Self {
        Requeue { is_counted: false, ..Requeue::counted(kind, detail) }
    }
}

/// Requeues a job if the lease is still valid.
pub(crate) async fn requeue(tx: &mut Tx, store: &Store, lease: &Lease, how: Requeue<'_>) -> Result<()> {
    let uncounted = i64::from(!how.is_counted);
    let sql = format!(
        "UPDATE jobs SET state = 'queued', attempts = attempts - $1, deferrals = deferrals + $1, worker = NULL, lease = NULL, lease_until = NULL,
             not_before = {} + $3, error_kind = $4, error = $5
         WHERE id = $6 AND lease = $7 AND state = 'processing'",
        store.jobs().lease_now_sql("$2")
    );
    let values = args![
        uncounted,
        store.jobs().lease_time(),
        micros(how.wait),
        how.kind.name(),
        how.detail,
        lease.job,
        &lease.token
    ];
    if tx.execute(&sql, values).await? == 0 {
        return Err(Error::LeaseLost);
    }
    match lease.product() {
        Some(product) => product.set_status(tx, Status::Queued).await,
        None => Ok(()),
    }
}

/// Moves a job to the state `failed` (dead letter) with its recording, if the lease is still valid, so that it can be retried; releases its counts.
pub(crate) async fn dead_letter(
    tx: &mut Tx,
    store: &Store,
    lease: &Lease,
    kind: FaultKind,
    reason: &str,
    detail: &str,
) -> Result<()> {
    let now = store.now();
    let sql = format!(
        "UPDATE jobs SET state = 'failed', worker = NULL, lease = NULL, lease_until = NULL, error_kind = $1, error = $2, failed_at = {now}
         WHERE id = $4 AND lease = $5 AND state = 'processing' RETURNING {columns}",
        now = store.jobs().lease_now_sql("$3"),
        columns = RemovedJob::COLUMNS,
    );
    let values = args![kind.name(), detail, store.jobs().lease_time(), lease.job, &lease.token];
    let ended = RemovedJob::of_row(&tx.optional(&sql, values).await?.ok_or(Error::LeaseLost)?)?;
    release_counts(tx, &ended, now).await?;
    match lease.product() {
        Some(product) => product.mark_failed(tx, kind, reason, now).await,
        None => Ok(()),
    }
}
