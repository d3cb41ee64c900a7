//! Leases: the right to work on a job, for as long as it is renewed.
//!
//! No clock of a machine decides that a worker is silent. On PostgreSQL the database computes and compares every time, so that a lease means the same to all
//! nodes whatever their clocks say. On SQLite there is one machine, whose date may be stepped: a lease there is expired by whoever has seen it unchanged
//! for as long as it lasts, by a monotonic clock.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::clock::{Micros, micros};
use crate::db::{Db, Row, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, JobId, TranscriptId};
use crate::jobs::Jobs;
use crate::jobs::queue::{self, TRANSCRIBE};
use crate::{Change, FaultKind};

const SILENT: &str = "the worker stopped renewing its lease";
/// The reason of a job whose workers all stopped renewing their leases.
const WORKERS_DIED: &str = "the recording could not be transcribed: every attempt ended unexpectedly; nothing was charged, and the recording is kept: retry the transcript, or send us the file";

/// A lease of a job: the right to work on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The job.
    pub job: JobId,
    /// Its kind.
    pub kind: String,
    /// The transcript that it makes or is about.
    pub transcript: Option<TranscriptId>,
    pub(crate) account: AccountId,
    pub(crate) token: String,
}

impl Lease {
    /// The transcript that the job makes, if making one is its kind.
    pub fn transcription(&self) -> Option<TranscriptId> {
        self.transcript.filter(|_| self.kind == TRANSCRIBE)
    }

    pub(crate) fn of_row(row: &Row) -> Result<Lease> {
        Ok(Lease {
            job: JobId(row.get("id")?),
            kind: row.get("kind")?,
            transcript: row.get::<Option<i64>>("transcript_id")?.map(TranscriptId),
            account: AccountId(row.get("account_id")?),
            token: row.get("lease")?,
        })
    }
}

/// What a lease is read from.
const LEASE: &str = "id, kind, transcript_id, account_id, lease, lease_until, lease_duration";

/// Leases as this process last saw them, and since when they are unchanged.
#[derive(Default)]
pub(crate) struct SeenLeases(Mutex<HashMap<JobId, Seen>>);

struct Seen {
    token: String,
    until: Micros,
    /// By the monotonic clock.
    since: Micros,
}

impl SeenLeases {
    /// Records a lease; returns for how long it has been unchanged.
    pub(crate) fn see(&self, job: JobId, token: &str, until: Micros, now: Micros) -> Micros {
        let mut seen = self.lock();
        match seen.get(&job) {
            Some(known) if known.token == token && known.until == until => now - known.since,
            _ => {
                seen.insert(job, Seen { token: token.to_owned(), until, since: now });
                0
            }
        }
    }

    /// Forgets leases of jobs that no longer run.
    fn keep_only(&self, running: &[JobId]) {
        self.lock().retain(|job, _| running.contains(job));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Seen>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Jobs<'_> {
    /// The time of leases and delays as a value for a placeholder; nothing where the database computes it.
    pub(crate) fn lease_time(self) -> Option<Micros> {
        match self.store.db() {
            Db::Postgres(_) if !self.store.clock().is_manual() => None,
            Db::Postgres(_) | Db::Sqlite { .. } => Some(self.store.clock().steady()),
        }
    }

    /// The time of leases and delays in a statement that is given [`Jobs::lease_time`] as this placeholder.
    pub(crate) fn lease_now_sql(self, placeholder: &str) -> String {
        match self.store.db() {
            // Not `clock_timestamp()`: that changes within a statement, so that no index could be used.
            Db::Postgres(_) => {
                format!("COALESCE({placeholder}, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS BIGINT))")
            }
            Db::Sqlite { .. } => placeholder.to_owned(),
        }
    }

    /// Keeps a job for longer; [`Error::LeaseLost`] when it is no longer this worker's.
    pub async fn renew(self, lease: &Lease, keep: Duration) -> Result<()> {
        let sql = format!(
            "UPDATE jobs SET lease_until = {} + $2, lease_duration = $2 WHERE id = $3 AND lease = $4 AND state = 'processing' RETURNING lease_until",
            self.lease_now_sql("$1")
        );
        let renewed = async {
            let mut tx = self.store.db().begin().await?;
            let row = tx.optional(&sql, args![self.lease_time(), micros(keep), lease.job, &lease.token]).await?;
            let until = row.ok_or(Error::LeaseLost)?.get("lease_until")?;
            tx.commit().await?;
            Ok(until)
        };
        match renewed.await {
            Ok(until) => {
                self.store.seen_leases().see(lease.job, &lease.token, until, self.store.clock().monotonic());
                Ok(())
            }
            Err(error) => {
                if let Error::Database(_) | Error::Unavailable(_) = error {
                    self.pause_expiry(keep);
                }
                Err(error)
            }
        }
    }

    /// The database does not answer, so that nobody can renew: once it is back, workers get the time of a lease to do so.
    pub(crate) fn pause_expiry(self, lease: Duration) {
        let until = self.store.clock().monotonic().saturating_add(micros(lease));
        self.store.0.no_expiry_before.store(until, Ordering::Relaxed);
    }

    /// Expires leases that were not renewed in time: their jobs are queued again, or fail when it was the last attempt. Returns how many.
    pub async fn expire_leases(self) -> Result<u64> {
        if self.store.clock().monotonic() < self.store.0.no_expiry_before.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let mut expired = 0;
        for (lease, until) in self.silent_leases().await? {
            match self.expire(&lease, until).await {
                Ok(()) => expired += 1,
                // Its worker, or another who checks for expired leases, was faster.
                Err(Error::LeaseLost | Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(expired)
    }

    /// Leases that were not renewed in time, with the end that they were last given.
    async fn silent_leases(self) -> Result<Vec<(Lease, Micros)>> {
        let row_lease = |row: &Row| -> Result<_> { Ok((Lease::of_row(row)?, row.get::<Micros>("lease_until")?)) };
        if let Db::Postgres(_) = self.store.db() {
            let now = self.lease_now_sql("$1");
            let sql = format!("SELECT {LEASE} FROM jobs WHERE state = 'processing' AND lease_until < {now}");
            return self.store.db().all(&sql, args![self.lease_time()]).await?.iter().map(row_lease).collect();
        }
        let now = self.store.clock().monotonic();
        let rows = self.store.db().all(&format!("SELECT {LEASE} FROM jobs WHERE state = 'processing'"), &[]).await?;
        let (mut running, mut silent) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in &rows {
            let (lease, until) = row_lease(row)?;
            let unchanged = self.store.seen_leases().see(lease.job, &lease.token, until, now);
            running.push(lease.job);
            if unchanged > row.get::<Option<i64>>("lease_duration")?.unwrap_or(0) {
                silent.push((lease, until));
            }
        }
        self.store.seen_leases().keep_only(&running);
        Ok(silent)
    }

    async fn expire(self, lease: &Lease, until: Micros) -> Result<()> {
        let mut tx = self.store.db().begin().await?;
        crate::ledger::lock(&mut tx, lease.account).await?;
        // One that was renewed meanwhile has another end.
        let sql = format!(
            "SELECT attempts FROM jobs WHERE id = $1 AND lease = $2 AND lease_until = $3 AND state = 'processing'{}",
            tx.for_update()
        );
        let row = tx.optional(&sql, args![lease.job, &lease.token, until]).await?.ok_or(Error::LeaseLost)?;
        let attempt: i64 = row.get("attempts")?;
        let is_last = attempt >= self.store.retry_policy().max_attempts;
        if is_last {
            queue::dead_letter(&mut tx, self.store, lease, FaultKind::Timeout, WORKERS_DIED, SILENT).await?;
        } else {
            // The lease was wait enough.
            queue::requeue(&mut tx, self.store, lease, queue::Requeue::counted(FaultKind::Timeout, SILENT)).await?;
        }
        tx.commit().await?;
        tracing::warn!(job = %lease.job, kind = lease.kind, attempt, is_last, "lease.expired");
        self.store.notify(Change::Stopped(lease.job));
        match (is_last, lease.transcription()) {
            (false, _) => self.store.notify(Change::Queued),
            (true, Some(transcript)) => self.store.notify(Change::Finished(transcript)),
            (true, None) => {}
        }
        Ok(())
    }
}
