//! Maintenance: forwards changes of the store, and runs periodic tasks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hark_store::{Change, SweepOptions, TranscriptFilter};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;

/// Interval of maintenance.
const INTERVAL: Duration = Duration::from_secs(60);
/// No sweep runs in the first minutes of a process, so that a start with the wrong database can be noticed before.
const FIRST_SWEEP_DELAY: Duration = Duration::from_secs(600);
/// Lease of a sweep; another process may start one after it.
const SWEEP_LEASE: Duration = Duration::from_secs(4 * 3600);
/// Age after which an unfinished upload is abandoned.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// How long after its request's timeout an anonymous transcript left behind by a crash is deleted.
const ANONYMOUS_RETENTION: Duration = Duration::from_secs(3600);

/// Forwards changes of the store, by this or other processes, to workers and waiting requests.
pub(crate) async fn listen_to_changes(app: &App, mut stop: watch::Receiver<bool>) -> JoinHandle<()> {
    let app = app.clone();
    let mut changes = app.store.changes();
    app.store.listen().await;
    tokio::spawn(async move {
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                // During shutdown requests still wait for their transcripts: stop only when the sender is dropped.
                _ = stop.wait_for(|_| false) => return,
            };
            match change {
                Ok(Change::Queued) => app.queue_changed.notify_one(),
                Ok(Change::Finished(transcript)) => {
                    app.waiting.wake(transcript);
                    app.index_due.notify_one();
                }
                Ok(Change::Enhanced(enhancement)) => app.waiting.wake(enhancement),
                Ok(Change::Stopped(job)) => app.running.cancel(job),
                // Missed changes: waiting requests poll as well.
                Err(RecvError::Lagged(_)) => app.queue_changed.notify_one(),
                Err(RecvError::Closed) => return,
            }
        }
    })
}

/// Runs maintenance until the service ends.
pub(crate) fn run_maintenance(app: &App, mut stop: watch::Receiver<bool>) -> JoinHandle<()> {
    let app = app.clone();
    tokio::spawn(async move {
        let started = Instant::now();
        let interval = app.config.recordings.sweep_interval.duration();
        loop {
            match app.store.jobs().expire_leases().await {
                Ok(0) => {}
                Ok(count) => tracing::warn!(count, "leases.expired"),
                Err(error) => tracing::error!(%error, "leases.expiry_failed"),
            }
            if let Err(error) = app.store.ledger().release_expired().await {
                tracing::error!(%error, "holds.expiry_failed");
            }
            if !app.config.keep_audio
                && let Err(error) = app.store.jobs().drop_old_failed(app.config.jobs.failed_retention.duration()).await
            {
                tracing::error!(%error, "jobs.retention_failed");
            }
            if let Err(error) = delete_expired_anonymous(&app).await {
                tracing::error!(%error, "transcripts.expiry_failed");
            }
            unload_idle(&app).await;
            if let Err(error) = app.store.enhancements().expire(app.config.enhance.keep()).await {
                tracing::error!(%error, "enhancements.expiry_failed");
            }
            if started.elapsed() >= FIRST_SWEEP_DELAY.min(interval)
                && let Err(error) = sweep(&app, interval).await
            {
                tracing::error!(%error, "sweep.failed");
            }
            tokio::select! {
                () = tokio::time::sleep(INTERVAL.min(interval)) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    })
}

/// Frees the memory of models that nobody has used for long.
async fn unload_idle(app: &App) {
    let after = app.config.idle_unload.duration();
    if after.is_zero() {
        return;
    }
    let models = Arc::clone(&app.engines.models);
    // It joins threads of engines. A panic was logged where it happened.
    let _ = tokio::task::spawn_blocking(move || models.unload_idle(after)).await;
}

/// Sweeps the recordings, if it is due and no other process does.
async fn sweep(app: &App, interval: Duration) -> hark_store::Result<()> {
    let Some(lease) = app.store.recordings().begin_sweep(interval, SWEEP_LEASE).await? else { return Ok(()) };
    let options = SweepOptions {
        abandoned_after: UPLOAD_TIMEOUT,
        quarantine: Duration::from_secs(u64::from(app.config.recordings.quarantine_days) * 24 * 3600),
    };
    let swept = app.store.recordings().sweep(&options).await;
    app.store.recordings().end_sweep(lease, swept.as_ref().ok()).await?;
    let swept = swept?;
    tracing::debug!(?swept, "sweep.finished");
    app.metrics.recordings_purged.fetch_add(swept.purged.len() as u64, Ordering::Relaxed);
    Ok(())
}

/// Deletes anonymous transcripts whose requests have ended.
async fn delete_expired_anonymous(app: &App) -> hark_store::Result<()> {
    let account = app.store.anonymous_account();
    let age = app.config.transcribe_timeout.duration() + ANONYMOUS_RETENTION;
    let before = app.store.now() - age.as_micros() as i64;
    let filter = TranscriptFilter { per_page: 100, created_before: Some(before), ..TranscriptFilter::default() };
    for transcript in app.store.transcripts().list(account, &filter).await?.transcripts {
        app.store.transcripts().delete(account, transcript.id).await?;
    }
    Ok(())
}
