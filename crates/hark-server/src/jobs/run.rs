//! One attempt of a job from its claim to its end, whatever its kind.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hark_store::{AfterFault, Error as StoreError, FaultKind, Job, Lease};
use tokio::time::MissedTickBehavior;

use super::kind::{JobKind, JobResult, Kinds, Run};
use crate::app::App;
use crate::engine::Dependency;
use crate::queue::Fault;

/// How often progress is written.
const BEAT: Duration = Duration::from_secs(1);
/// How long what became of a job is kept while the database does not answer.
const WRITE_FOR: Duration = Duration::from_secs(600);
/// The longest wait between two attempts to write it.
const WRITE_WAIT: Duration = Duration::from_secs(5);

/// Works on a claimed job until it is completed, given back, failed or lost.
pub(super) async fn run(app: &App, kinds: &Kinds, job: Job) {
    let begun = Instant::now();
    let run = Arc::new(Run::new(job));
    let lease = &run.job.lease;
    app.running.add(lease.job, &run.cancel);
    app.metrics.jobs_running.fetch_add(1, Ordering::Relaxed);
    let transcript = lease.transcript.map(|id| id.0);
    tracing::info!(job = %lease.job, transcript, attempt = run.job.attempt, "job.claimed");
    let outcome = match kinds.get(&lease.kind) {
        Some(kind) => attempt(app, kind, &run).await,
        None => Err(Fault::internal(format!("no job is of kind {:?}", lease.kind))),
    };
    let outcome = match outcome {
        Ok(result) => commit(app, &run, &*result, begun).await,
        Err(fault) => Err(fault),
    };
    app.metrics.jobs_running.fetch_sub(1, Ordering::Relaxed);
    app.running.remove(lease.job);
    app.metrics.work_milliseconds.fetch_add(begun.elapsed().as_millis() as u64, Ordering::Relaxed);
    match outcome {
        Ok(()) => {}
        // Whoever called it off has said in the store what becomes of it.
        Err(fault) if fault.kind == FaultKind::Cancelled => {
            tracing::info!(job = %lease.job, transcript = lease.transcript.map(|id| id.0), "job.cancelled");
        }
        Err(fault) => fail(app, &run, fault).await,
    }
}

/// Runs the job on a task of its own, so that a panic is a fault like others, and renews its lease meanwhile.
async fn attempt(app: &App, kind: &dyn JobKind, run: &Arc<Run>) -> Result<Box<dyn JobResult>, Fault> {
    let mut task = tokio::spawn(kind.run(app.clone(), Arc::clone(run)));
    let lease = &run.job.lease;
    let keep = app.config.lease.duration();
    let mut renewed = Instant::now();
    let mut written = 0;
    let mut beat = tokio::time::interval_at(tokio::time::Instant::now() + BEAT.min(keep / 3), BEAT.min(keep / 3));
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            done = &mut task => return done.unwrap_or_else(|error| Err(Fault::internal(error))),
            _ = beat.tick() => {}
        }
        let percent = run.progress().min(99);
        let mut told = Ok(());
        if percent > written {
            told = app.store.jobs().set_progress(lease, percent).await;
            written = percent;
        }
        if told.is_ok() && renewed.elapsed() >= keep / 3 {
            told = app.store.jobs().renew(lease, keep).await;
            if told.is_ok() {
                renewed = Instant::now();
            }
        }
        match told {
            Ok(()) => {}
            Err(StoreError::LeaseLost) => run.cancel.cancel(),
            Err(error) => tracing::warn!(%error, job = %lease.job, "lease.not_renewed"),
        }
    }
}

/// Waits for what may take longer than the lease, such as an answer of a bucket that hangs, and renews the lease meanwhile.
async fn renewing<T>(app: &App, lease: &Lease, work: impl Future<Output = T>) -> T {
    let keep = app.config.lease.duration();
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(keep / 3) => {}
        }
        // Where the lease is lost, so says the write of what became of the job.
        if let Err(error) = app.store.jobs().renew(lease, keep).await {
            tracing::warn!(%error, job = %lease.job, "lease.not_renewed");
        }
    }
}

/// Waits for a database that does not answer, so that what became of a job is written once it does.
struct WriteBackoff {
    since: Instant,
    wait: Duration,
}

impl WriteBackoff {
    fn new() -> Self {
        WriteBackoff { since: Instant::now(), wait: Duration::from_millis(200) }
    }

    /// Whether to try again after this error; if so, the wait is over and the lease renewed as far as possible.
    async fn wait_to_retry(&mut self, app: &App, lease: &Lease, error: &StoreError) -> bool {
        if error.fault() != FaultKind::Unavailable || self.since.elapsed() > WRITE_FOR {
            return false;
        }
        tracing::warn!(%error, job = %lease.job, retry_in = self.wait.as_secs_f64(), "job.write_failed");
        tokio::time::sleep(self.wait).await;
        self.wait = (self.wait * 2).min(WRITE_WAIT);
        let _ = app.store.jobs().renew(lease, app.config.lease.duration()).await;
        true
    }
}

/// Writes the result: the work is done.
async fn commit(app: &App, run: &Run, result: &dyn JobResult, begun: Instant) -> Result<(), Fault> {
    let lease = &run.job.lease;
    let mut backoff = WriteBackoff::new();
    loop {
        match result.commit(app, lease).await {
            Ok(()) => {
                app.metrics.jobs_completed.fetch_add(1, Ordering::Relaxed);
                result.committed(app, lease, begun.elapsed());
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

/// Gives the job back, to be tried again or not.
async fn fail(app: &App, run: &Run, mut fault: Fault) {
    let lease = &run.job.lease;
    let mut is_away = false;
    if fault.dependency == Some(Dependency::Recordings) && fault.kind == FaultKind::Unavailable {
        let recordings = app.store.recordings();
        let can_read = match &run.job.blob {
            Some(blob) => renewing(app, lease, recordings.can_read(blob)).await,
            None => true,
        };
        if can_read {
            // Its recording is there, so that is not what is wrong.
            fault.kind = FaultKind::Internal;
        } else {
            is_away = !renewing(app, lease, recordings.can_read_any()).await;
        }
    }
    if is_away {
        // What hits everything stops the claiming, not the jobs.
        app.breaker.pause(Dependency::Recordings, &fault.detail, &app.metrics);
    }
    let mut backoff = WriteBackoff::new();
    let done = loop {
        let done = if is_away {
            let released = app.store.jobs().release(lease, fault.kind, &fault.detail).await;
            released.map(|()| AfterFault::Retry { wait: Duration::ZERO })
        } else {
            app.store.jobs().fail_with_detail(lease, fault.kind, &fault.reason(), &fault.detail).await
        };
        match done {
            Err(error) if backoff.wait_to_retry(app, lease, &error).await => {}
            done => break done,
        }
    };
    let (job, transcript, attempt) = (lease.job.0, lease.transcript.map(|id| id.0), run.job.attempt);
    let (error_kind, error) = (fault.kind.name(), &fault.detail);
    match done {
        Ok(AfterFault::Retry { wait }) => {
            app.metrics.jobs_retried.fetch_add(1, Ordering::Relaxed);
            let retry_in = wait.as_secs_f64();
            tracing::warn!(job, transcript, attempt, error_kind, error, retry_in, "job.retried");
        }
        Ok(AfterFault::Failed) => {
            app.metrics.jobs_failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(job, transcript, attempt, error_kind, error, "job.failed");
        }
        Err(StoreError::LeaseLost) => {}
        Err(store_error) => {
            tracing::error!(job, transcript, attempt, error_kind, error, %store_error, "job.failure_not_written");
        }
    }
}
