//! One attempt of a job of any kind, from its claim to its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hark_store::{AfterFault, Error as StoreError, FaultKind, Job, Lease, Product};
use tokio::time::MissedTickBehavior;

use super::kind::{JobKind, JobResult, Kinds, Run};
use crate::app::App;
use crate::engine::Dependency;
use crate::queue::Fault;

/// Interval of progress writes.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// How long writing the outcome of a job is retried while the database is unavailable.
const WRITE_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum delay between these retries.
const MAX_WRITE_DELAY: Duration = Duration::from_secs(5);

/// Runs a claimed job until it is completed, released, failed or lost.
pub(super) async fn run(app: &App, kinds: &Kinds, job: Job) {
    let started = Instant::now();
    let run = Arc::new(Run::new(job));
    let lease = &run.job.lease;
    app.running.add(lease.job, &run.cancel);
    app.metrics.jobs_running.fetch_add(1, Ordering::Relaxed);
    let (transcript, enhancement) = numbers(lease);
    tracing::info!(job = %lease.job, transcript, enhancement, attempt = run.job.attempt, "job.claimed");
    let outcome = match kinds.get(&lease.kind) {
        Some(kind) => attempt(app, kind, &run).await,
        None => Err(Fault::internal(format!("no job is of kind {:?}", lease.kind))),
    };
    let outcome = match outcome {
        Ok(result) => commit(app, &run, &*result, started).await,
        Err(fault) => Err(fault),
    };
    app.metrics.jobs_running.fetch_sub(1, Ordering::Relaxed);
    app.running.remove(lease.job);
    app.metrics.work_milliseconds.fetch_add(started.elapsed().as_millis() as u64, Ordering::Relaxed);
    match outcome {
        Ok(()) => {}
        // The store already has the outcome of a cancelled job.
        Err(fault) if fault.kind == FaultKind::Cancelled => {
            tracing::info!(job = %lease.job, transcript, enhancement, "job.cancelled");
        }
        Err(fault) => fail(app, &run, fault).await,
    }
}

/// The transcript and the enhancement of a job, for the log.
fn numbers(lease: &Lease) -> (Option<i64>, Option<i64>) {
    match lease.product() {
        Some(Product::Enhancement(id)) => (None, Some(id.0)),
        _ => (lease.transcript.map(|id| id.0), None),
    }
}

/// Runs the job in a task of its own, which turns a panic into a fault, and renews its lease meanwhile.
async fn attempt(app: &App, kind: &dyn JobKind, run: &Arc<Run>) -> Result<Box<dyn JobResult>, Fault> {
    let mut task = tokio::spawn(kind.run(app.clone(), Arc::clone(run)));
    let lease = &run.job.lease;
    let lease_duration = app.config.lease.duration();
    let mut renewed = Instant::now();
    let mut written = 0;
    let mut interval = tokio::time::interval_at(
        tokio::time::Instant::now() + PROGRESS_INTERVAL.min(lease_duration / 3),
        PROGRESS_INTERVAL.min(lease_duration / 3),
    );
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            done = &mut task => return done.unwrap_or_else(|error| Err(Fault::internal(error))),
            _ = interval.tick() => {}
        }
        let percent = run.progress().min(99);
        let mut result = Ok(());
        if let Some(draft) = run.take_draft() {
            result = app.store.jobs().set_progress_with_draft(lease, percent, &draft).await;
            written = percent;
        } else if percent > written {
            result = app.store.jobs().set_progress(lease, percent).await;
            written = percent;
        }
        if result.is_ok() && renewed.elapsed() >= lease_duration / 3 {
            result = app.store.jobs().renew(lease, lease_duration).await;
            if result.is_ok() {
                renewed = Instant::now();
            }
        }
        match result {
            Ok(()) => {}
            Err(StoreError::LeaseLost) => run.cancel.cancel(),
            Err(error) => tracing::warn!(%error, job = %lease.job, "lease.not_renewed"),
        }
    }
}

/// Awaits something that may take longer than the lease, such as a bucket that hangs, and renews the lease meanwhile.
async fn while_renewing<T>(app: &App, lease: &Lease, work: impl Future<Output = T>) -> T {
    let lease_duration = app.config.lease.duration();
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(lease_duration / 3) => {}
        }
        // A lost lease is noticed when the outcome is written.
        if let Err(error) = app.store.jobs().renew(lease, lease_duration).await {
            tracing::warn!(%error, job = %lease.job, "lease.not_renewed");
        }
    }
}

/// Backoff of writing the outcome of a job while the database is unavailable.
struct WriteBackoff {
    since: Instant,
    wait: Duration,
}

impl WriteBackoff {
    fn new() -> Self {
        WriteBackoff { since: Instant::now(), wait: Duration::from_millis(200) }
    }

    /// Whether to retry after this error; if so, waits and tries to renew the lease first.
    async fn wait_to_retry(&mut self, app: &App, lease: &Lease, error: &StoreError) -> bool {
        if error.fault() != FaultKind::Unavailable || self.since.elapsed() > WRITE_TIMEOUT {
            return false;
        }
        tracing::warn!(%error, job = %lease.job, retry_in = self.wait.as_secs_f64(), "job.write_failed");
        tokio::time::sleep(self.wait).await;
        self.wait = (self.wait * 2).min(MAX_WRITE_DELAY);
        let _ = app.store.jobs().renew(lease, app.config.lease.duration()).await;
        true
    }
}

/// Commits the result of the job.
async fn commit(app: &App, run: &Run, result: &dyn JobResult, started: Instant) -> Result<(), Fault> {
    let lease = &run.job.lease;
    let mut backoff = WriteBackoff::new();
    loop {
        match result.commit(app, lease).await {
            Ok(()) => {
                app.metrics.jobs_completed.fetch_add(1, Ordering::Relaxed);
                result.committed(app, lease, started.elapsed());
                return Ok(());
            }
            Err(StoreError::LeaseLost) => {
                tracing::info!(job = %lease.job, "job.result_too_late");
                return Ok(());
            }
            Err(error) if backoff.wait_to_retry(app, lease, &error).await => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Ends the attempt with a fault: the job is retried or failed.
async fn fail(app: &App, run: &Run, mut fault: Fault) {
    let lease = &run.job.lease;
    let mut is_outage = false;
    if fault.dependency == Some(Dependency::Recordings) && fault.kind == FaultKind::Unavailable {
        let recordings = app.store.recordings();
        let can_read = match &run.job.blob {
            Some(blob) => while_renewing(app, lease, recordings.can_read(blob)).await,
            None => true,
        };
        if can_read {
            // Its recording is readable, so the fault is ours.
            fault.kind = FaultKind::Internal;
        } else {
            is_outage = !while_renewing(app, lease, recordings.can_read_any()).await;
        }
    }
    if is_outage {
        // An outage pauses claiming instead of using up attempts.
        app.breaker.pause(Dependency::Recordings, &fault.detail, &app.metrics);
    }
    let mut backoff = WriteBackoff::new();
    let done = loop {
        let done = if is_outage {
            let released = app.store.jobs().release(lease, fault.kind, &fault.detail).await;
            released.map(|()| AfterFault::Retry { wait: Duration::ZERO })
        } else {
            app.store.jobs().fail_with_detail(lease, fault.kind, &fault.reason(lease.product()), &fault.detail).await
        };
        match done {
            Err(error) if backoff.wait_to_retry(app, lease, &error).await => {}
            done => break done,
        }
    };
    let (transcript, enhancement) = numbers(lease);
    let (job, attempt) = (lease.job.0, run.job.attempt);
    let (error_kind, error) = (fault.kind.name(), &fault.detail);
    match done {
        Ok(AfterFault::Retry { wait }) => {
            app.metrics.jobs_retried.fetch_add(1, Ordering::Relaxed);
            let retry_in = wait.as_secs_f64();
            tracing::warn!(job, transcript, enhancement, attempt, error_kind, error, retry_in, "job.retried");
        }
        Ok(AfterFault::Failed) => {
            app.metrics.jobs_failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(job, transcript, enhancement, attempt, error_kind, error, "job.failed");
        }
        Err(StoreError::LeaseLost) => {}
        Err(store_error) => {
            tracing::error!(job, transcript, enhancement, attempt, error_kind, error, %store_error, "job.failure_not_written");
        }
    }
}
