//! Maintenance: changes of the store passed on to those who wait, and what must be looked at now and then.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hark_store::{Change, SweepOptions, TranscriptFilter};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;

/// How often leases and holds that ended are looked at.
const ROUND: Duration = Duration::from_secs(60);
/// No sweep runs in the first minutes of a process: whoever started it with the wrong database notices before anything is looked at.
const FIRST_SWEEP: Duration = Duration::from_secs(600);
/// How long a sweep may take before another process may begin one.
const SWEEP_LEASE: Duration = Duration::from_secs(4 * 3600);
/// An upload that was not finished after this long never will be.
const ABANDONED_UPLOAD: Duration = Duration::from_secs(24 * 3600);

/// An anonymous transcript that a crash left behind is deleted this long after nobody can wait for it any more.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// Passes changes of the store, made here or by other processes, on to workers and to requests that wait.
pub(crate) async fn listen_to_changes(app: &App, mut stop: watch::Receiver<bool>) -> JoinHandle<()> {
    let app = app.clone();
    let mut changes = app.store.changes();
    app.store.listen().await;
    tokio::spawn(async move {
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                // Requests under way still wait for their transcripts while the service ends; the sender goes last.
                _ = stop.wait_for(|_| false) => return,
            };
            match change {
                Ok(Change::Queued) => app.bell.notify_one(),
                Ok(Change::Finished(transcript)) => app.waiting.wake(transcript),
                Ok(Change::Stopped(job)) => app.running.cancel(job),
                // Those who wait look by themselves now and then.
                Err(RecvError::Lagged(_)) => app.bell.notify_one(),
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
            if let Err(error) = delete_forgotten(&app).await {
                tracing::error!(%error, "transcripts.expiry_failed");
            }
            if started.elapsed() >= FIRST_SWEEP.min(interval)
                && let Err(error) = sweep(&app, interval).await
            {
                tracing::error!(%error, "sweep.failed");
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND.min(interval)) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    })
}

/// Sweeps the recordings, if it is time and no other process is at it.
async fn sweep(app: &App, interval: Duration) -> hark_store::Result<()> {
    let Some(lease) = app.store.recordings().begin_sweep(interval, SWEEP_LEASE).await? else { return Ok(()) };
    let options = SweepOptions {
        unfinished: ABANDONED_UPLOAD,
        quarantine: Duration::from_secs(u64::from(app.config.recordings.quarantine_days) * 24 * 3600),
    };
    let swept = app.store.recordings().sweep(&options).await;
    app.store.recordings().end_sweep(lease, swept.as_ref().ok()).await?;
    let swept = swept?;
    tracing::debug!(?swept, "sweep.finished");
    app.metrics.recordings_purged.fetch_add(swept.purged.len() as u64, Ordering::Relaxed);
    Ok(())
}

/// Deletes anonymous transcripts that nobody waits for any more.
async fn delete_forgotten(app: &App) -> hark_store::Result<()> {
    let account = app.store.anonymous_account();
    let age = app.config.transcribe_timeout.duration() + FORGOTTEN;
    let before = app.store.now() - age.as_micros() as i64;
    let filter = TranscriptFilter { per_page: 100, created_before: Some(before), ..TranscriptFilter::default() };
    for transcript in app.store.transcripts().list(account, &filter).await?.transcripts {
        app.store.transcripts().delete(account, transcript.id).await?;
    }
    Ok(())
}
