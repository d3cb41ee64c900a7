//! Time to recovery after a fault, measured by requests as a user sends them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::deployment::Deployment;
use crate::service::kills::Environment;
use crate::service::kills::user::SimulatedUser;

/// Maximum time to recovery.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// Timeout of a single probe.
const TIMEOUT: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(100);

/// A probe request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::service) enum Probe {
    /// A list of transcripts: the database is read.
    List,
    /// A new key: the database is written, as by signing in.
    Key,
    /// An upload that is waited for: recordings, queue, worker, charge.
    Transcribe,
}

impl Probe {
    pub(super) const ALL: [Probe; 3] = [Probe::List, Probe::Key, Probe::Transcribe];

    pub(in crate::service) fn name(self) -> &'static str {
        match self {
            Probe::List => "list",
            Probe::Key => "key",
            Probe::Transcribe => "transcribe",
        }
    }
}

/// Seconds from the end of a fault to the first success of each probe on the slowest node; none where it took longer than [`LIMIT`].
#[derive(Debug, Clone, Serialize)]
pub(in crate::service) struct Recovery {
    pub(in crate::service) probe: Probe,
    pub(in crate::service) seconds: Option<f64>,
}

/// Probes every node until everything works.
pub(super) async fn watch(deployment: &Deployment, prober: &mut SimulatedUser) -> Vec<Recovery> {
    let ended = Instant::now();
    let mut found: Vec<Recovery> = Vec::new();
    for probe in Probe::ALL {
        let mut slowest = Some(0.0_f64);
        for node in deployment.nodes.iter().flatten() {
            prober.set_environment(Arc::new(Environment::during_fault(node.address)));
            let seconds = first_success(prober, probe, ended).await;
            slowest = slowest.zip(seconds).map(|(slowest, seconds)| slowest.max(seconds));
        }
        found.push(Recovery { probe, seconds: slowest });
    }
    found
}

async fn first_success(prober: &mut SimulatedUser, probe: Probe, ended: Instant) -> Option<f64> {
    loop {
        let succeeded = async {
            match probe {
                Probe::List => prober.can_list().await,
                Probe::Key => prober.can_create_key().await,
                Probe::Transcribe => prober.can_transcribe().await,
            }
        };
        if tokio::time::timeout(TIMEOUT, succeeded).await.unwrap_or(false) {
            return Some(ended.elapsed().as_secs_f64());
        }
        if ended.elapsed() > LIMIT {
            return None;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
