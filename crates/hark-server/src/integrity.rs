//! Scheduled integrity checks: the database, the ledger and a sample of the recordings. What they find is logged and counted, so that an alarm can be set on it.

use std::time::Duration;

use hark_store::Store;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::metrics::integrity::{DATABASE, LEDGER, RECORDINGS};

/// How long a process that starts is left in peace first.
const FIRST: Duration = Duration::from_secs(60);

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
        // A database that was not checked at open is checked now.
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
            // A check that can't run is no finding: the timestamp of the last run gets old.
            Err(error) => tracing::warn!(check = name, %error, "integrity.not_checked"),
        }
    }
    tracing::info!(failed, seconds = begun.elapsed().as_secs(), "integrity.checked");
}
