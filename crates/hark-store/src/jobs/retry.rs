//! Dead letters: jobs without attempts left stay with their recording until they are retried, dropped, or too old.

use std::time::Duration;

use hark_api::FaultKind;

use crate::Change;
use crate::audit::{self, NewAudit};
use crate::clock::{Micros, micros};
use crate::db::{Row, Value, args};
use crate::error::{Error, Limit, Result};
use crate::ids::{AccountId, JobId, KeyId, TranscriptId};
use crate::jobs::Jobs;
use crate::jobs::needs::Capabilities;
use crate::jobs::product::Product;
use crate::jobs::queue::TRANSCRIBE;
use crate::keys;
use crate::ledger::{self, job_reference};

const NOT_KEPT: &str = "its recording was not kept: send it again";

/// A job as an operator sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSummary {
    /// Its id.
    pub id: JobId,
    /// What it does.
    pub kind: String,
    /// `queued`, `processing` or `failed`.
    pub state: String,
    /// Whose it is.
    pub account: AccountId,
    /// Length of the audio as probed.
    pub seconds: f64,
    /// The transcript that it makes or is about.
    pub transcript: Option<TranscriptId>,
    /// The capabilities that a worker needs to run it.
    pub needs: Vec<String>,
    /// Counted attempts.
    pub attempts: i64,
    /// The last fault.
    pub error_kind: Option<FaultKind>,
    /// Its details, for the operator.
    pub error: Option<String>,
    /// When it was queued.
    pub queued_at: Micros,
    /// The earliest time it is claimed.
    pub not_before: Micros,
    /// When it failed.
    pub failed_at: Option<Micros>,
}

/// Which jobs to list.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobFilter<'a> {
    /// Only in this state.
    pub state: Option<&'a str>,
    /// Only with this last fault.
    pub error_kind: Option<FaultKind>,
    /// At most this many, the oldest first; 100 by default.
    pub limit: Option<i64>,
}

/// How many jobs there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Jobs that wait.
    pub queued: i64,
    /// Jobs that run.
    pub running: i64,
    /// Jobs without attempts left, which can be retried or dropped.
    pub failed: i64,
    /// How long the oldest of those that wait has waited.
    pub oldest_wait: Option<Duration>,
}

/// Limits that a retry must not exceed.
#[derive(Debug, Clone, Copy, Default)]
pub struct RetryLimits {
    /// Maximum queued and running jobs of the owner, including this one.
    pub max_live: Option<i64>,
    /// Maximum queued jobs in all, including this one.
    pub max_queued: Option<i64>,
}

fn summary(row: &Row) -> Result<JobSummary> {
    let kind: Option<String> = row.get("error_kind")?;
    let needs: Option<String> = row.get("needs")?;
    Ok(JobSummary {
        id: JobId(row.get("id")?),
        kind: row.get("kind")?,
        state: row.get("state")?,
        account: AccountId(row.get("account_id")?),
        seconds: row.get("seconds")?,
        transcript: row.get::<Option<i64>>("transcript_id")?.map(TranscriptId),
        needs: needs.map(|needs| needs.split(' ').map(str::to_owned).collect()).unwrap_or_default(),
        attempts: row.get("attempts")?,
        error_kind: kind.and_then(|kind| kind.parse().ok()),
        error: row.get("error")?,
        queued_at: row.get("queued_at")?,
        not_before: row.get("not_before")?,
        failed_at: row.get("failed_at")?,
    })
}

impl Jobs<'_> {
    /// Jobs, the oldest first.
    pub async fn list(self, filter: &JobFilter<'_>) -> Result<Vec<JobSummary>> {
        let needs = match self.store.db() {
            crate::db::Db::Sqlite { .. } => "group_concat(n.need, ' ')",
            crate::db::Db::Postgres(_) => "string_agg(n.need, ' ')",
        };
        let mut values: Vec<Value<'_>> = Vec::new();
        let mut condition = String::from("1 = 1");
        for (column, value) in [("state", filter.state), ("error_kind", filter.error_kind.map(FaultKind::name))] {
            if let Some(value) = value {
                values.push(value.into());
                condition.push_str(&format!(" AND j.{column} = ${}", values.len()));
            }
        }
        values.push(filter.limit.unwrap_or(100).into());
        let sql = format!(
            "SELECT j.id, j.kind, j.state, j.account_id, j.transcript_id, j.seconds, j.attempts, j.error_kind, j.error, j.queued_at, j.not_before, j.failed_at,
                 (SELECT {needs} FROM job_needs n WHERE n.job_id = j.id) AS needs
             FROM jobs j WHERE {condition} ORDER BY j.queued_at, j.id LIMIT 0 + ${}",
            values.len()
        );
        self.store.db().all(&sql, &values).await?.iter().map(summary).collect()
    }

    /// How many jobs wait, run and have failed.
    pub async fn counts(self) -> Result<JobCounts> {
        let sql = format!(
            "SELECT j.state AS state, count(*) AS n, CAST({} - MIN(j.queued_at) AS BIGINT) AS waited FROM jobs j GROUP BY j.state",
            self.lease_now_sql("$1")
        );
        let mut counts = JobCounts::default();
        for row in self.store.db().all(&sql, args![self.lease_time()]).await? {
            let n = row.get("n")?;
            match row.get::<String>("state")?.as_str() {
                "queued" => {
                    counts.queued = n;
                    let waited = row.get::<i64>("waited")?.max(0).unsigned_abs();
                    counts.oldest_wait = Some(Duration::from_micros(waited));
                }
                "processing" => counts.running = n,
                _ => counts.failed = n,
            }
        }
        Ok(counts)
    }

    /// The audit entry of an act on a job, about the account whose job it is.
    async fn write_audit(self, tx: &mut crate::db::Tx, account: AccountId, job: JobId) -> Result<()> {
        let entry = self.audit.map(|entry| NewAudit { account: Some(account), ..entry.clone() });
        audit::write_act(tx, entry.as_ref(), &format!("job {job}"), self.store.now()).await
    }

    /// Needs of jobs queued for longer than `age` that the capabilities do not cover, with the number of jobs that have each.
    pub async fn unmet_needs(self, capabilities: &Capabilities, age: Duration) -> Result<Vec<(String, i64)>> {
        let mut values: Vec<Value<'_>> = args![self.lease_time(), micros(age)].to_vec();
        let Some(missing) = capabilities.missing(&mut values) else { return Ok(Vec::new()) };
        let sql = format!(
            "SELECT n.need AS need, count(*) AS waiting FROM jobs j JOIN job_needs n ON n.job_id = j.id
             WHERE j.state = 'queued' AND j.queued_at <= {} - $2 AND {missing} GROUP BY n.need ORDER BY n.need",
            self.lease_now_sql("$1")
        );
        let rows = self.store.db().all(&sql, &values).await?;
        rows.iter().map(|row| Ok((row.get("need")?, row.get("waiting")?))).collect()
    }

    /// The number of failed jobs, which can be retried.
    pub async fn failed_count(self) -> Result<i64> {
        self.store.db().one("SELECT count(*) AS failed FROM jobs WHERE state = 'failed'", &[]).await?.get("failed")
    }

    /// Queues the transcription of a failed transcript again, see [`Jobs::retry`].
    pub async fn retry_transcript(self, account: AccountId, id: TranscriptId, limits: RetryLimits) -> Result<()> {
        let sql = format!(
            "SELECT t.status, j.id AS job FROM transcripts t LEFT JOIN jobs j ON j.transcript_id = t.id AND j.kind = '{TRANSCRIBE}'
             WHERE t.id = $1 AND t.account_id = $2"
        );
        let row = self.store.db().optional(&sql, args![id, account]).await?.ok_or(Error::NotFound("transcript"))?;
        if row.get::<String>("status")? != "failed" {
            return Err(Error::Conflict("only a transcript that has failed can be retried"));
        }
        match row.get::<Option<i64>>("job")? {
            Some(job) => self.retry(JobId(job), limits).await,
            None => Err(Error::Conflict(NOT_KEPT)),
        }
    }

    /// Queues a failed job again, with all its attempts and a hold of its own. [`Error::Conflict`] when it has not failed or its recording is gone.
    pub async fn retry(self, job: JobId, limits: RetryLimits) -> Result<()> {
        let sql = "SELECT account_id FROM jobs WHERE id = $1";
        let row = self.store.db().optional(sql, args![job]).await?.ok_or(Error::NotFound("job"))?;
        let account = AccountId(row.get("account_id")?);
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, account).await?;
        let sql = format!(
            "SELECT kind, transcript_id, enhancement_id, owner, minutes, hold, key_id, retries FROM jobs WHERE id = $1 AND state = 'failed'{}",
            tx.for_update()
        );
        let row = tx.optional(&sql, args![job]).await?;
        let row = row.ok_or(Error::Conflict("only a job that has failed can be retried"))?;
        let product = Product::of_job(&row)?;
        if let Some(product) = product
            && product.recording(&mut tx).await?.is_none()
        {
            return Err(Error::Conflict(NOT_KEPT));
        }
        check_limits(&mut tx, &row.get::<String>("owner")?, limits).await?;
        // It counts for the month of the retry. A deleted key counts nothing.
        let key = row.get::<Option<i64>>("key_id")?.map(KeyId);
        let key_month = match key {
            Some(id) => match keys::use_minutes(&mut tx, id, row.get("minutes")?, now).await {
                Ok(month) => Some(month),
                Err(Error::NotFound(_)) => None,
                Err(error) => return Err(error),
            },
            None => None,
        };
        let retries = row.get::<i64>("retries")? + 1;
        let hold: i64 = row.get("hold")?;
        if hold > 0 {
            ledger::hold(&mut tx, account, &job_reference(job, retries), hold, None, now).await?;
        }
        let sql = format!(
            "UPDATE jobs SET state = 'queued', attempts = 0, deferrals = 0, retries = $2, key_month = $3, anonymous_day = NULL, queued_at = {},
                 not_before = 0, failed_at = NULL
             WHERE id = $1",
            self.lease_now_sql("$4")
        );
        tx.execute(&sql, args![job, retries, key_month, self.lease_time()]).await?;
        if let Some(product) = product {
            product.mark_queued(&mut tx).await?;
        }
        self.write_audit(&mut tx, account, job).await?;
        tx.commit().await?;
        tracing::info!(%job, retries, "job.retried");
        self.store.notify(Change::Queued);
        Ok(())
    }

    /// Removes a failed job and its recording; its transcript stays, failed. [`Error::Conflict`] when it has not failed, [`Error::NotFound`] when it is gone.
    pub async fn drop_failed(self, job: JobId) -> Result<()> {
        let mut tx = self.store.db().begin().await?;
        let sql = "DELETE FROM jobs WHERE id = $1 AND state = 'failed' RETURNING account_id, kind, transcript_id, enhancement_id";
        let Some(row) = tx.optional(sql, args![job]).await? else {
            tx.optional("SELECT id FROM jobs WHERE id = $1", args![job]).await?.ok_or(Error::NotFound("job"))?;
            return Err(Error::Conflict("only a job that has failed can be dropped"));
        };
        let product = Product::of_job(&row)?;
        if let Some(product) = product {
            product.release_recordings(&mut tx).await?;
        }
        self.write_audit(&mut tx, AccountId(row.get("account_id")?), job).await?;
        tx.commit().await?;
        if let Some(product) = product {
            self.store.recordings().remove(product).await;
        }
        Ok(())
    }

    /// Drops jobs that failed longer than `age` ago; returns how many.
    pub async fn drop_old_failed(self, age: Duration) -> Result<u64> {
        let sql = format!(
            "SELECT id FROM jobs WHERE state = 'failed' AND failed_at <= {} - $2 LIMIT 1000",
            self.lease_now_sql("$1")
        );
        let mut dropped = 0;
        for row in self.store.db().all(&sql, args![self.lease_time(), micros(age)]).await? {
            match self.drop_failed(JobId(row.get("id")?)).await {
                Ok(()) => dropped += 1,
                // It was retried or dropped meanwhile.
                Err(Error::Conflict(_) | Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(dropped)
    }
}

/// Fails when the owner has too many jobs or the queue is full.
pub(crate) async fn check_limits(tx: &mut crate::db::Tx, owner: &str, limits: RetryLimits) -> Result<()> {
    if let Some(limit) = limits.max_live {
        let sql = "SELECT count(*) AS live FROM jobs WHERE owner = $1 AND state IN ('queued', 'processing')";
        let used: i64 = tx.one(sql, args![owner]).await?.get("live")?;
        if used >= limit {
            return Err(Error::Limit { what: Limit::ConcurrentJobs, limit, used });
        }
    }
    if let Some(max) = limits.max_queued {
        let row = tx.one("SELECT count(*) AS waiting FROM jobs WHERE state = 'queued'", &[]).await?;
        let length: i64 = row.get("waiting")?;
        if length >= max {
            return Err(Error::QueueFull { length });
        }
    }
    Ok(())
}
