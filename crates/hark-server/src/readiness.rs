//! Readiness: real checks of all dependencies, for `/health/ready` and `/health`.
//!
//! A check that times out has failed. It continues in the background and is not started again before it ends, so that a disk or a bucket that hangs
//! occupies one task, whatever the rate of requests. Results are cached for a second.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hark_store::Store;
use tokio::sync::{Mutex, Semaphore};

use crate::metrics::Metrics;
use crate::metrics::integrity::DATABASE;
use crate::metrics::readiness::{Check, Report};

/// The timeout of a check.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long results are cached.
const KEEP: Duration = Duration::from_secs(1);
/// How long the result of writing to the recordings is cached: a bucket charges for each request.
const KEEP_RECORDINGS: Duration = Duration::from_secs(10);

/// The dependencies that are checked.
pub(crate) struct Needs<'a, M> {
    pub(crate) store: &'a Store,
    pub(crate) metrics: &'a Metrics,
    /// The minimum free bytes of the disks.
    pub(crate) min_free_disk: u64,
    /// Whether a model can run here; `None` for a process that runs no models.
    pub(crate) models: M,
}

/// The checks and their last results.
#[derive(Default)]
pub(crate) struct Readiness {
    last: Mutex<Option<(Instant, Report)>>,
    database: Probe,
    disk: Probe,
    recordings: Probe,
}

impl Readiness {
    /// The state of all checks, at most a second old. Concurrent callers share one result.
    pub(crate) async fn report(&self, needs: Needs<'_, impl Future<Output = Option<bool>>>) -> Report {
        let mut last = self.last.lock().await;
        if let Some((at, report)) = &*last
            && at.elapsed() < KEEP
        {
            return report.clone();
        }
        let metrics = needs.metrics;
        let report = self.run(needs).await;
        if let Some((_, before)) = &*last {
            log_changes(before, &report);
        } else {
            log_changes(&Report::default(), &report);
        }
        metrics.readiness.set(&report);
        *last = Some((Instant::now(), report.clone()));
        report
    }

    async fn run(&self, needs: Needs<'_, impl Future<Output = Option<bool>>>) -> Report {
        let store = needs.store.clone();
        let database =
            self.database.run(KEEP, async move { store.integrity().probe_database().await.map_err(|e| e.to_string()) });
        let store = needs.store.clone();
        let recordings = self
            .recordings
            .run(KEEP_RECORDINGS, async move { store.integrity().probe_recordings().await.map_err(|e| e.to_string()) });
        let mut folders = needs.store.integrity().local_folders();
        folders.push(std::env::temp_dir());
        let least = needs.min_free_disk;
        let disk = self.disk.run(KEEP, async move {
            let looked = move || folders.iter().try_for_each(|folder| has_space(folder, least));
            tokio::task::spawn_blocking(looked).await.unwrap_or_else(|error| Err(error.to_string()))
        });
        let (database, recordings, disk, models) = tokio::join!(database, recordings, disk, needs.models);
        let mut checks = vec![
            (Check::Database, database),
            (Check::Integrity, !needs.metrics.integrity.is_failing(DATABASE)),
            (Check::Disk, disk),
            (Check::Recordings, recordings),
        ];
        checks.extend(models.map(|passed| (Check::Models, passed)));
        Report::new(checks)
    }
}

fn has_space(folder: &Path, least: u64) -> Result<(), String> {
    let free = hark_store::free_space(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    if free >= least {
        return Ok(());
    }
    Err(format!(
        "{} has {} MB of free space, at least {} MB are wanted",
        folder.display(),
        free / 1_000_000,
        least / 1_000_000
    ))
}

fn log_changes(before: &Report, now: &Report) {
    for (check, passed) in now.checks() {
        match (before.passed(check), passed) {
            (true, false) => tracing::error!(check = check.name(), "readiness.failed"),
            (false, true) => tracing::info!(check = check.name(), "readiness.recovered"),
            _ => {}
        }
    }
}

/// A check that runs at most once at a time.
struct Probe {
    idle: Arc<Semaphore>,
    last: std::sync::Mutex<Option<(Instant, bool)>>,
}

impl Default for Probe {
    fn default() -> Self {
        Probe { idle: Arc::new(Semaphore::new(1)), last: std::sync::Mutex::new(None) }
    }
}

impl Probe {
    /// Runs the check unless a success is younger than `keep`. A failure is checked again at once, to notice the recovery.
    async fn run(&self, keep: Duration, check: impl Future<Output = Result<(), String>> + Send + 'static) -> bool {
        if self.lock().is_some_and(|(at, passed)| passed && at.elapsed() < keep) {
            return true;
        }
        let Ok(busy) = Arc::clone(&self.idle).try_acquire_owned() else {
            // The last one has not ended yet.
            return false;
        };
        let task = tokio::spawn(async move {
            let _busy = busy;
            check.await
        });
        let passed = match tokio::time::timeout(TIMEOUT, task).await {
            Ok(Ok(Ok(()))) => true,
            Ok(Ok(Err(problem))) => {
                tracing::warn!(problem, "readiness.check_failed");
                false
            }
            Ok(Err(_)) | Err(_) => false,
        };
        *self.lock() = Some((Instant::now(), passed));
        passed
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Instant, bool)>> {
        self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_check_that_hangs_fails_in_time_and_is_not_started_twice() {
        let probe = Probe::default();
        let started = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        for _ in 0..5 {
            let started = Arc::clone(&started);
            let check = async move {
                started.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                std::future::pending().await
            };
            assert!(!probe.run(KEEP, check).await);
        }
        assert_eq!(started.load(std::sync::atomic::Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_failure_is_looked_at_again_and_a_success_is_kept() {
        let probe = Probe::default();
        assert!(!probe.run(KEEP, async { Err("full".to_owned()) }).await);
        assert!(probe.run(Duration::from_secs(3600), async { Ok(()) }).await);
        assert!(probe.run(Duration::from_secs(3600), async { Err("not asked".to_owned()) }).await);
    }

    #[test]
    fn too_little_space_is_a_failure() {
        assert!(has_space(Path::new("/"), 1).is_ok());
        assert!(has_space(Path::new("/"), u64::MAX).is_err_and(|problem| problem.contains("free space")));
        assert!(has_space(Path::new("/no/such/folder"), 1).is_err());
    }
}
