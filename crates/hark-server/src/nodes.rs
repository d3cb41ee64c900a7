//! The list of the processes that share a database: each stores what it does every few seconds.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hark_api::{NodeModel, NodeState};
use hark_store::{Capabilities, Heartbeat, Micros};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::{App, Role};
use crate::engine::EngineState;
use crate::metrics::resident_bytes;

/// Interval of heartbeats.
const INTERVAL: Duration = Duration::from_secs(10);
/// One of so many heartbeats runs the readiness checks, one of which writes to the recordings: a bucket charges for that.
const CHECK_EVERY: u64 = 6;
/// Silence from which a process counts as not responding: several heartbeats.
pub(crate) const RESPONDING: Duration = Duration::from_secs(35);

/// Stores heartbeats until the service stops; `address` is where it listens.
pub(crate) fn start(app: &App, address: std::net::SocketAddr, mut stop: watch::Receiver<bool>) -> JoinHandle<()> {
    let app = app.clone();
    tokio::spawn(async move {
        let (host, started_at) = (host_name(), app.clock.now());
        let mut is_failing = false;
        for count in 1_u64.. {
            let is_stopping = *stop.borrow();
            if count.is_multiple_of(CHECK_EVERY) {
                app.readiness().await;
            }
            let heartbeat = heartbeat(&app, address, &host, started_at).await;
            match app.store.nodes().beat(&heartbeat).await {
                Ok(()) => is_failing = false,
                // One line for an outage, whatever its length.
                Err(error) if !is_failing => {
                    tracing::warn!(%error, "node.heartbeat_failed");
                    is_failing = true;
                }
                Err(_) => {}
            }
            if is_stopping {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                stopped = stop.wait_for(|stop| *stop) => {
                    if stopped.is_err() {
                        return;
                    }
                }
            }
        }
    })
}

/// Removes this process from the list, as the last thing it does.
pub(crate) async fn leave(app: &App) {
    if let Err(error) = app.store.nodes().remove(&app.node).await {
        tracing::warn!(%error, "node.not_removed");
    }
}

async fn heartbeat(app: &App, address: std::net::SocketAddr, host: &str, started_at: Micros) -> Heartbeat {
    Heartbeat {
        id: app.node.clone(),
        host: host.to_owned(),
        address: address.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        role: role_name(app.role).to_owned(),
        started_at,
        state: serde_json::to_string(&state(app).await).unwrap_or_default(),
    }
}

async fn state(app: &App) -> NodeState {
    let runs_jobs = app.role != Role::Account;
    let report = app.metrics.readiness.last();
    let models = app.engines.models.reports().into_iter().filter(|engine| engine.bytes > 0);
    let count = |value: i64| u32::try_from(value).unwrap_or_default();
    NodeState {
        is_draining: app.is_draining(),
        is_paused: app.breaker.is_paused(),
        failing: report.checks().filter(|(_, passed)| !passed).map(|(check, _)| check.name().to_owned()).collect(),
        cores: std::thread::available_parallelism().map_or(0, |cores| cores.get() as u32),
        load_average: load_average(&std::fs::read_to_string("/proc/loadavg").unwrap_or_default()),
        memory_bytes: resident_bytes(),
        device: if runs_jobs { app.device().await } else { None },
        workers: if runs_jobs { app.config.workers as u32 } else { 0 },
        workers_busy: count(app.metrics.jobs_running.load(Ordering::Relaxed)),
        live_sessions: count(app.metrics.streams.load(Ordering::Relaxed)),
        runs: match app.capabilities().await {
            Capabilities::Only(all) if runs_jobs => all.into_iter().collect(),
            _ => Vec::new(),
        },
        models: models
            .map(|engine| NodeModel {
                name: engine.model,
                bytes: engine.bytes,
                is_running: engine.state.is_none_or(EngineState::decodes),
            })
            .collect(),
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::All => "all",
        Role::Account => "account",
        Role::Gpu => "gpu",
    }
}

/// The first of the averages of proc_loadavg(5).
fn load_average(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// The name of this machine, or of its container.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().filter(|character| !character.is_control()).take(253).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_that_of_the_last_minute() {
        assert_eq!(load_average("0.52 0.58 0.59 1/389 12345"), Some(0.52));
        assert_eq!(load_average(""), None);
    }
}
