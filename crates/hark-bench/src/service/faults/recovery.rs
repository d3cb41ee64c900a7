//! How long after a fault everything works again, asked of the service as people would.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::site::Site;
use crate::service::kills::World;
use crate::service::kills::person::Person;

/// A fault that has ended must be forgotten after so long.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// A single probe may take this long.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// What is asked for.
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

/// Asks every node until everything works.
pub(super) async fn watch(site: &Site, prober: &mut Person) -> Vec<Recovery> {
    let ended = Instant::now();
    let mut found: Vec<Recovery> = Vec::new();
    for probe in Probe::ALL {
        let mut slowest = Some(0.0_f64);
        for node in site.nodes.iter().flatten() {
            prober.move_to(Arc::new(World::in_trouble(node.address)));
            let seconds = first_success(prober, probe, ended).await;
            slowest = slowest.zip(seconds).map(|(slowest, seconds)| slowest.max(seconds));
        }
        found.push(Recovery { probe, seconds: slowest });
    }
    found
}

async fn first_success(prober: &mut Person, probe: Probe, ended: Instant) -> Option<f64> {
    loop {
        let asked = async {
            match probe {
                Probe::List => prober.can_list().await,
                Probe::Key => prober.can_make_a_key().await,
                Probe::Transcribe => prober.can_transcribe().await,
            }
        };
        if tokio::time::timeout(PATIENCE, asked).await.unwrap_or(false) {
            return Some(ended.elapsed().as_secs_f64());
        }
        if ended.elapsed() > LIMIT {
            return None;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
