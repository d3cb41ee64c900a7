//! Scheduled integrity checks: the database, the ledger and a sample of the recordings. What they find is logged and counted, so that an alarm can be set on it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use hark_store::Store;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::config::Seconds;

/// The structure of the database.
pub(crate) const DATABASE: &str = "database";
/// The sum of every account's ledger is its balance.
const LEDGER: &str = "ledger";
/// Recordings are there, whole and, where sealed, authentic.
const RECORDINGS: &str = "recordings";

/// How long a process that starts is left in peace first.
const FIRST: Duration = Duration::from_secs(60);

/// When and how much is checked: `[server.integrity]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Integrity {
    /// Whether this process checks.
    pub enabled: bool,
    /// Seconds from one check to the next.
    pub interval: Seconds,
    /// Recordings that are read each time, chosen at random.
    pub recordings: u32,
}

impl Default for Integrity {
    fn default() -> Self {
        Integrity { enabled: true, interval: Seconds(86_400.0), recordings: 100 }
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which check: `database`, `ledger` or `recordings`.
    pub check: &'static str,
    /// What is wrong, for the operator.
    pub problem: String,
}

/// Runs one check.
async fn check(store: &Store, name: &'static str, recordings: u32) -> hark_store::Result<Vec<Finding>> {
    let finding = |problem| Finding { check: name, problem };
    Ok(match name {
        DATABASE => store.integrity().check_database().await?.into_iter().map(finding).collect(),
        LEDGER => {
            let unbalanced = store.ledger().check().await?.into_iter();
            let problem = |it: hark_store::Unbalanced| {
                format!("account {} has {} credits, its ledger sums to {}", it.account, it.credits, it.sum)
            };
            unbalanced.map(|it| finding(problem(it))).collect()
        }
        _ => {
            let problems = store.integrity().check_recordings(recordings).await?.problems.into_iter();
            problems.map(|it| finding(format!("recording {}: {}", it.key, it.problem))).collect()
        }
    })
}

/// Runs all checks once, as `hark integrity` does; gives how each ended.
pub async fn check_integrity(store: &Store, recordings: u32) -> Vec<(&'static str, hark_store::Result<Vec<Finding>>)> {
    let mut out = Vec::new();
    for name in [DATABASE, LEDGER, RECORDINGS] {
        out.push((name, check(store, name, recordings).await));
    }
    out
}

/// Checks now and then until the service ends.
pub(crate) fn start(app: &App, mut stop: watch::Receiver<bool>) -> JoinHandle<()> {
    let app = app.clone();
    tokio::spawn(async move {
        let interval = app.config.integrity.interval.duration();
        // A database that nobody looked at yet is looked at now.
        let mut wait = if app.store.integrity().was_checked_at_open() { FIRST.min(interval) } else { Duration::ZERO };
        loop {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            tokio::select! {
                () = run(&app) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            wait = interval;
        }
    })
}

async fn run(app: &App) {
    let begun = std::time::Instant::now();
    let mut failed = 0;
    for (name, ended) in check_integrity(&app.store, app.config.integrity.recordings).await {
        match ended {
            Ok(findings) => {
                for finding in findings.iter().take(20) {
                    tracing::error!(check = name, problem = finding.problem, "integrity.failed");
                }
                failed += usize::from(!findings.is_empty());
                app.metrics.integrity.record(name, findings.is_empty(), app.clock.now() / 1_000_000);
            }
            // Not knowing is no finding: the timestamp of the last run tells that it gets old.
            Err(error) => tracing::warn!(check = name, %error, "integrity.not_checked"),
        }
    }
    tracing::info!(failed, seconds = begun.elapsed().as_secs(), "integrity.checked");
}

/// What the checks found, for `/metrics`.
#[derive(Default)]
pub(crate) struct IntegrityMetrics(Mutex<BTreeMap<&'static str, Record>>);

#[derive(Default)]
struct Record {
    failures: u64,
    is_failing: bool,
    last_run: i64,
}

impl IntegrityMetrics {
    fn record(&self, check: &'static str, passed: bool, now: i64) {
        let mut records = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let record = records.entry(check).or_default();
        record.failures += u64::from(!passed);
        record.is_failing = !passed;
        record.last_run = now;
    }

    /// Whether the last run of a check found something.
    pub(crate) fn is_failing(&self, check: &str) -> bool {
        let records = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        records.get(check).is_some_and(|record| record.is_failing)
    }

    /// The text format of Prometheus. Every check is there from the start, so that an increase from 0 is one.
    pub(crate) fn render(&self, text: &mut String) {
        let records = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let of = |check: &str| records.get(check);
        let name = "hark_integrity_failures_total";
        let _ = write!(text, "# HELP {name} Integrity checks that found something wrong.\n# TYPE {name} counter\n");
        for check in [DATABASE, LEDGER, RECORDINGS] {
            let _ = writeln!(text, "{name}{{check=\"{check}\"}} {}", of(check).map_or(0, |record| record.failures));
        }
        let name = "hark_integrity_last_run_timestamp_seconds";
        let _ = write!(text, "# HELP {name} When an integrity check last ended.\n# TYPE {name} gauge\n");
        for check in [DATABASE, LEDGER, RECORDINGS] {
            let _ = writeln!(text, "{name}{{check=\"{check}\"}} {}", of(check).map_or(0, |record| record.last_run));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_and_the_last_result_counts() {
        let metrics = IntegrityMetrics::default();
        metrics.record(LEDGER, false, 100);
        assert!(metrics.is_failing(LEDGER) && !metrics.is_failing(DATABASE));
        metrics.record(LEDGER, true, 200);
        assert!(!metrics.is_failing(LEDGER));
        let mut text = String::new();
        metrics.render(&mut text);
        assert!(text.contains("hark_integrity_failures_total{check=\"ledger\"} 1\n"), "{text}");
        assert!(text.contains("hark_integrity_failures_total{check=\"database\"} 0\n"), "{text}");
        assert!(text.contains("hark_integrity_last_run_timestamp_seconds{check=\"ledger\"} 200\n"), "{text}");
    }
}
