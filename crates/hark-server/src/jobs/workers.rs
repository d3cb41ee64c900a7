//! Workers: claim jobs up to the configured concurrency, and drain on shutdown.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hark_store::{Capabilities, Claim, Lane};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::kind::Kinds;
use super::run;
use crate::app::App;
use crate::queue::{Running, wait_after};
use crate::random;

/// Interval of polling the queue without a notification: notifications of other processes may be lost.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Slots reserved for interactive jobs; with few slots, a quarter of them.
const RESERVED_SLOTS: usize = 2;
/// Interval of the report of jobs that this process cannot run, and how long such a job must have waited.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
/// How long cancelled jobs have to stop.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The workers of this process.
pub(crate) struct Workers {
    app: App,
    /// Their worker name in the store.
    name: String,
    running: Running,
    slots: Arc<Semaphore>,
    claiming: JoinHandle<()>,
}

impl Workers {
    /// Starts claiming jobs.
    pub(crate) fn start(app: &App) -> Self {
        let name = format!("{}-{}", std::process::id(), random::id());
        let slots = Arc::new(Semaphore::new(app.config.workers));
        let running = app.running.clone();
        let claiming = tokio::spawn(claim(app.clone(), name.clone(), Arc::clone(&slots)));
        Workers { app: app.clone(), name, running, slots, claiming }
    }

    /// Stops claiming, waits for running jobs, and releases those that are not done in time.
    pub(crate) async fn stop(self) {
        let _ = self.claiming.await;
        let all = self.app.config.workers as u32;
        let drained = tokio::time::timeout(self.app.config.drain_timeout.duration(), self.slots.acquire_many(all));
        if drained.await.is_ok() {
            return;
        }
        // Release the leases before cancelling: a job that ends right now can't be both completed and released.
        match self.app.store.jobs().release_all(&self.name).await {
            Ok(count) => {
                self.app.metrics.jobs_given_back.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
                tracing::info!(count, "jobs.released");
            }
            Err(error) => tracing::error!(%error, "jobs.release_failed"),
        }
        self.running.cancel_all();
        let _ = tokio::time::timeout(CANCEL_TIMEOUT, self.slots.acquire_many(all)).await;
    }
}

async fn claim(app: App, name: String, slots: Arc<Semaphore>) {
    let kinds = Arc::new(Kinds::standard());
    let names = kinds.names();
    let mut faults = 0;
    let mut reported: Option<Instant> = None;
    while !app.is_draining() {
        let slot = tokio::select! {
            slot = Arc::clone(&slots).acquire_owned() => slot,
            () = app.queue_changed.notified() => continue,
        };
        let Ok(slot) = slot else { return };
        if app.breaker.is_paused() {
            drop(slot);
            wait_for_recordings(&app).await;
            continue;
        }
        let capabilities = app.breaker.admit(app.capabilities().await);
        if reported.is_none_or(|at| at.elapsed() >= REPORT_INTERVAL) {
            report_unclaimable(&app, &capabilities).await;
            reported = Some(Instant::now());
        }
        if capabilities.is_none() {
            drop(slot);
            let _ = tokio::time::timeout(POLL_INTERVAL, app.queue_changed.notified()).await;
            continue;
        }
        let is_reserved = slots.available_permits() < RESERVED_SLOTS.min(app.config.workers / 4);
        let claim = Claim {
            worker: &name,
            lease: app.config.lease.duration(),
            kinds: &names,
            last: if is_reserved { Lane::Interactive } else { Lane::Bulk },
            capabilities: &capabilities,
        };
        let claimed = app.store.jobs().claim(&claim).await;
        if faults > 0 && claimed.is_ok() {
            faults = 0;
            app.metrics.claiming_paused.store(0, Ordering::Relaxed);
            tracing::info!(dependency = "database", "claiming.resumed");
        }
        match claimed {
            Ok(Some(job)) => {
                let (app, kinds) = (app.clone(), Arc::clone(&kinds));
                tokio::spawn(async move {
                    run::run(&app, &kinds, job).await;
                    drop(slot);
                    app.queue_changed.notify_one();
                });
            }
            Ok(None) => {
                drop(slot);
                let _ = tokio::time::timeout(POLL_INTERVAL, app.queue_changed.notified()).await;
            }
            Err(error) => {
                drop(slot);
                if faults == 0 {
                    app.metrics.claiming_paused.store(1, Ordering::Relaxed);
                    tracing::error!(dependency = "database", %error, "claiming.paused");
                }
                faults += 1;
                pause(&app, wait_after(faults)).await;
            }
        }
    }
}

/// Waits until recordings can be read again.
async fn wait_for_recordings(app: &App) {
    for faults in 1.. {
        pause(app, wait_after(faults)).await;
        if app.is_draining() {
            return;
        }
        if app.store.recordings().can_read_any().await {
            app.breaker.resume(&app.metrics);
            return;
        }
    }
}

/// Waits, or returns early on shutdown.
async fn pause(app: &App, wait: Duration) {
    let end = Instant::now() + wait;
    while Instant::now() < end && !app.is_draining() {
        tokio::time::sleep(POLL_INTERVAL.min(end.saturating_duration_since(Instant::now()))).await;
    }
}

/// Reports queued jobs that this process cannot run; another one may.
async fn report_unclaimable(app: &App, capabilities: &Capabilities) {
    let unmet = match app.store.jobs().unmet_needs(capabilities, REPORT_INTERVAL).await {
        Ok(unmet) => unmet,
        Err(error) => return tracing::debug!(%error, "jobs.unclaimable_not_counted"),
    };
    let max = unmet.iter().map(|(_, jobs)| *jobs).max().unwrap_or(0);
    app.metrics.jobs_unclaimable.store(max, Ordering::Relaxed);
    for (need, jobs) in unmet {
        tracing::warn!(need, jobs, "job.unclaimable");
    }
}
