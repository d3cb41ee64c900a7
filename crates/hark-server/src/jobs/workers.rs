//! Workers: how many recordings are worked on at once, and how they end when the service does.

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

/// How often the queue is looked at when nothing rings: other processes put jobs into it too.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Places that long work leaves to somebody who waits for a clip; with few places, a quarter of them.
const RESERVED: usize = 2;
/// How often it is said that jobs wait for what this process does not have, and how long such a job must have waited.
const REPORT: Duration = Duration::from_secs(60);
/// How long cancelled recordings have to notice.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The workers of this process.
pub(crate) struct Workers {
    app: App,
    /// The name that the store knows them by.
    name: String,
    running: Running,
    places: Arc<Semaphore>,
    claiming: JoinHandle<()>,
}

impl Workers {
    /// Begins to take jobs from the queue.
    pub(crate) fn start(app: &App) -> Self {
        let name = format!("{}-{}", std::process::id(), random::id());
        let places = Arc::new(Semaphore::new(app.config.workers));
        let running = app.running.clone();
        let claiming = tokio::spawn(claim(app.clone(), name.clone(), Arc::clone(&places)));
        Workers { app: app.clone(), name, running, places, claiming }
    }

    /// Takes no more jobs, waits for those that run, and gives back what is not done in time.
    pub(crate) async fn stop(self) {
        let _ = self.claiming.await;
        let all = self.app.config.workers as u32;
        let drained = tokio::time::timeout(self.app.config.drain_timeout.duration(), self.places.acquire_many(all));
        if drained.await.is_ok() {
            return;
        }
        // First the leases, then the work: a recording that ends right now can't be both completed and given back.
        match self.app.store.jobs().release_all(&self.name).await {
            Ok(count) => {
                self.app.metrics.jobs_given_back.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
                tracing::info!(count, "jobs.released");
            }
            Err(error) => tracing::error!(%error, "jobs.release_failed"),
        }
        self.running.cancel_all();
        let _ = tokio::time::timeout(CANCEL_TIMEOUT, self.places.acquire_many(all)).await;
    }
}

async fn claim(app: App, name: String, places: Arc<Semaphore>) {
    let kinds = Arc::new(Kinds::standard());
    let names = kinds.names();
    let mut faults = 0;
    let mut reported: Option<Instant> = None;
    while !app.is_draining() {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place,
            () = app.bell.notified() => continue,
        };
        let Ok(place) = place else { return };
        if app.breaker.is_paused() {
            drop(place);
            wait_for_recordings(&app).await;
            continue;
        }
        let capabilities = app.breaker.admit(app.capabilities().await);
        if reported.is_none_or(|at| at.elapsed() >= REPORT) {
            report_unclaimable(&app, &capabilities).await;
            reported = Some(Instant::now());
        }
        if capabilities.is_none() {
            drop(place);
            let _ = tokio::time::timeout(POLL_INTERVAL, app.bell.notified()).await;
            continue;
        }
        let is_reserved = places.available_permits() < RESERVED.min(app.config.workers / 4);
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
                    drop(place);
                    app.bell.notify_one();
                });
            }
            Ok(None) => {
                drop(place);
                let _ = tokio::time::timeout(POLL_INTERVAL, app.bell.notified()).await;
            }
            Err(error) => {
                drop(place);
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

/// Claims nothing until recordings can be read again.
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

/// Waits, but not longer than the service runs.
async fn pause(app: &App, wait: Duration) {
    let end = Instant::now() + wait;
    while Instant::now() < end && !app.is_draining() {
        tokio::time::sleep(POLL_INTERVAL.min(end.saturating_duration_since(Instant::now()))).await;
    }
}

/// Says which jobs wait for something that this process does not have; another one may.
async fn report_unclaimable(app: &App, capabilities: &Capabilities) {
    let unmet = match app.store.jobs().unmet_needs(capabilities, REPORT).await {
        Ok(unmet) => unmet,
        Err(error) => return tracing::debug!(%error, "jobs.unclaimable_not_counted"),
    };
    let most = unmet.iter().map(|(_, jobs)| *jobs).max().unwrap_or(0);
    app.metrics.jobs_unclaimable.store(most, Ordering::Relaxed);
    for (need, jobs) in unmet {
        tracing::warn!(need, jobs, "job.unclaimable");
    }
}
