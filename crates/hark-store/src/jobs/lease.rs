//! Leases: the right to work on a job, for as long as it is renewed.
//!
//! Expiry does not depend on the wall clock of a node. On PostgreSQL the database computes and compares all times, so that a lease means the same to all
//! nodes. On SQLite there is one machine, whose clock may be stepped: a lease expires once a process has observed it unchanged for its whole duration by a
//! monotonic clock.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::clock::{Micros, micros};
use crate::db::{Db, Row, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, JobId, TranscriptId};
use crate::jobs::Jobs;
use crate::jobs::product::Product;
use crate::jobs::queue::{self, TRANSCRIBE};
use crate::{Change, FaultKind};

const NOT_RENEWED: &str = "the worker stopped renewing its lease";
/// The same of a job that makes neither transcript nor enhancement.
const WORKERS_DIED: &str = "every attempt ended unexpectedly; nothing was charged";

/// A lease of a job: the right to work on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The job.
    pub job: JobId,
    /// Its kind.
    pub kind: String,
    /// The transcript that it makes or is about.
    pub transcript: Option<TranscriptId>,
    product: Option<Product>,
    pub(crate) account: AccountId,
    pub(crate) token: String,
}

impl Lease {
    /// The transcript that the job makes, if making one is its kind.
    pub fn transcription(&self) -> Option<TranscriptId> {
        self.transcript.filter(|_| self.kind == TRANSCRIBE)
    }

    /// What the job makes.
    pub fn product(&self) -> Option<Product> {
        self.product
    }

    pub(crate) fn of_row(row: &Row) -> Result<Lease> {
        Ok(Lease {
            job: JobId(row.get("id")?),
            kind: row.get("kind")?,
            transcript: row.get::<Option<i64>>("transcript_id")?.map(TranscriptId),
            product: Product::of_job(row)?,
            account: AccountId(row.get("account_id")?),
            token: row.get("lease")?,
        })
    }
}

/// The columns of a lease.
const LEASE: &str = "id, kind, transcript_id, enhancement_id, account_id, lease, lease_until, lease_duration";

/// Leases as this process last observed them, and since when they are unchanged.
#[derive(Default)]
pub(crate) struct ObservedLeases(Mutex<HashMap<JobId, ObservedLease>>);

struct ObservedLease {
    token: String,
    until: Micros,
    /// Monotonic time.
    since: Micros,
}

impl ObservedLeases {
    /// Records a lease; returns for how long it has been unchanged.
    pub(crate) fn observe(&self, job: JobId, token: &str, until: Micros, now: Micros) -> Micros {
        let mut observed = self.lock();
        match observed.get(&job) {
            Some(known) if known.token == token && known.until == until => now - known.since,
            _ => {
                observed.insert(job, ObservedLease { token: token.to_owned(), until, since: now });
                0
            }
        }
    }

    /// Drops leases of jobs that no longer run.
    fn retain_running(&self, running: &[JobId]) {
        self.lock().retain(|job, _| running.contains(job));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, ObservedLease>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Jobs<'_> {
    /// The current time of leases and delays as a placeholder's value; `None` where the database computes it.
    pub(crate) fn lease_time(self) -> Option<Micros> {
        match self.store.db() {
            Db::Postgres(_) if !self.store.clock().is_manual() => None,
            Db::Postgres(_) | Db::Sqlite { .. } => Some(self.store.clock().steady()),
        }
    }

    /// The SQL expression of the current time of leases and delays; the placeholder is bound to [`Jobs::lease_time`].
    pub(crate) fn lease_now_sql(self, placeholder: &str) -> String {
        match self.store.db() {
            // Not `clock_timestamp()`: it is volatile, which rules out an index.
            Db::Postgres(_) => {
                format!("COALESCE({placeholder}, CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS BIGINT))")
            }
            Db::Sqlite { .. } => placeholder.to_owned(),
        }
    }

    /// Extends a lease; [`Error::LeaseLost`] when the job is no longer this worker's.
    pub async fn renew(self, lease: &Lease, duration: Duration) -> Result<()> {
        let sql = format!(
            "UPDATE jobs SET lease_until = {} + $2, lease_duration = $2 WHERE id = $3 AND lease = $4 AND state = 'processing' RETURNING lease_until",
            self.lease_now_sql("$1")
        );
        let renewed = async {
            let mut tx = self.store.db().begin().await?;
            let row = tx.optional(&sql, args![self.lease_time(), micros(duration), lease.job, &lease.token]).await?;
            let until = row.ok_or(Error::LeaseLost)?.get("lease_until")?;
            tx.commit().await?;
            Ok(until)
        };
        match renewed.await {
            Ok(until) => {
                self.store.observed_leases().observe(lease.job, &lease.token, until, self.store.clock().monotonic());
                Ok(())
            }
            Err(error) => {
                if let Error::Database(_) | Error::Unavailable(_) = error {
                    self.pause_expiry(duration);
                }
                Err(error)
            }
        }
    }

    /// Suspends expiry for the duration of a lease: during an outage of the database no worker can renew.
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
        for (lease, until) in self.unrenewed_leases().await? {
            match self.expire(&lease, until).await {
                Ok(()) => expired += 1,
                // Its worker finished it, or another process expired it first.
                Err(Error::LeaseLost | Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(expired)
    }

    /// Leases that were not renewed in time, with their last deadline.
    async fn unrenewed_leases(self) -> Result<Vec<(Lease, Micros)>> {
        let row_lease = |row: &Row| -> Result<_> { Ok((Lease::of_row(row)?, row.get::<Micros>("lease_until")?)) };
        if let Db::Postgres(_) = self.store.db() {
            let now = self.lease_now_sql("$1");
            let sql = format!("SELECT {LEASE} FROM jobs WHERE state = 'processing' AND lease_until < {now}");
            return self.store.db().all(&sql, args![self.lease_time()]).await?.iter().map(row_lease).collect();
        }
        let now = self.store.clock().monotonic();
        let rows = self.store.db().all(&format!("SELECT {LEASE} FROM jobs WHERE state = 'processing'"), &[]).await?;
        let (mut running, mut unrenewed) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in &rows {
            let (lease, until) = row_lease(row)?;
            let unchanged = self.store.observed_leases().observe(lease.job, &lease.token, until, now);
            running.push(lease.job);
            if unchanged > row.get::<Option<i64>>("lease_duration")?.unwrap_or(0) {
                unrenewed.push((lease, until));
            }
        }
        self.store.observed_leases().retain_running(&running);
        Ok(unrenewed)
    }

    async fn expire(self, lease: &Lease, until: Micros) -> Result<()> {
        let mut tx = self.store.db().begin().await?;
        crate::ledger::lock(&mut tx, lease.account).await?;
        // A lease that was renewed meanwhile has another deadline.
        let sql = format!(
            "SELECT attempts FROM jobs WHERE id = $1 AND lease = $2 AND lease_until = $3 AND state = 'processing'{}",
            tx.for_update()
        );
        let row = tx.optional(&sql, args![lease.job, &lease.token, until]).await?.ok_or(Error::LeaseLost)?;
        let attempt: i64 = row.get("attempts")?;
        let is_last = attempt >= self.store.retry_policy().max_attempts;
        if is_last {
            let reason = lease.product().map_or(WORKERS_DIED, Product::workers_died);
            queue::dead_letter(&mut tx, self.store, lease, FaultKind::Timeout, reason, NOT_RENEWED).await?;
        } else {
            // No backoff: the lease already took its time.
            queue::requeue(&mut tx, self.store, lease, queue::Requeue::counted(FaultKind::Timeout, NOT_RENEWED))
                .await?;
        }
        tx.commit().await?;
        tracing::warn!(job = %lease.job, kind = lease.kind, attempt, is_last, "lease.expired");
        self.store.notify(Change::Stopped(lease.job));
        match (is_last, lease.product()) {
            (false, _) => self.store.notify(Change::Queued),
            (true, Some(product)) => self.store.notify(product.finished()),
            (true, None) => {}
        }
        Ok(())
    }
}
