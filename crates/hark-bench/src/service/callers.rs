//! Accounts for load tests, and the latencies of their requests.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hark_store::{AccountId, KeyKind, NewAccount, NewKey, Plan, Store};
use serde::Serialize;

use super::client::{Connection, request};
use super::failed;
use crate::error::BenchError;

/// An account and its key.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(super) account: AccountId,
    pub(crate) key: String,
}

/// Creates accounts with limits that no load test reaches.
pub(crate) async fn create(store: &Store, count: usize) -> Result<Vec<Caller>, BenchError> {
    let mut created = Vec::new();
    for number in 0..count {
        let new =
            NewAccount { credits: 100_000_000, ..NewAccount::new(format!("caller{number}@example.org"), Plan::Pro) };
        let account = store.accounts().create(&new).await.map_err(failed)?.id;
        let key = NewKey {
            rate_limit: 10_000_000,
            monthly_limit_minutes: 100_000_000,
            ..NewKey::new(KeyKind::Service, "bench")
        };
        let (_, secret) = store.keys().create(account, &key).await.map_err(failed)?;
        created.push(Caller { account, key: secret.reveal().to_owned() });
    }
    Ok(created)
}

/// Latencies of requests in milliseconds.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Times {
    pub(super) requests: usize,
    pub(super) per_second: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
    /// Responses other than 200.
    pub(super) refused: u64,
}

/// The latencies that one client measured.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    micros: Vec<u32>,
    refused: u64,
}

impl Times {
    pub(super) fn of(all: Vec<Latencies>, took: Duration) -> Self {
        let refused = all.iter().map(|latencies| latencies.refused).sum();
        let mut micros: Vec<u32> = all.into_iter().flat_map(|latencies| latencies.micros).collect();
        micros.sort_unstable();
        let at = |share: f64| {
            let last = micros.len().saturating_sub(1);
            micros.get((last as f64 * share).round() as usize).map_or(f64::NAN, |&micros| f64::from(micros) / 1000.0)
        };
        let per_second = micros.len() as f64 / took.as_secs_f64();
        Times { requests: micros.len(), per_second, p50: at(0.5), p99: at(0.99), max: at(1.0), refused }
    }
}

/// Requests these paths in turn over one connection until `end`, at an `interval` or as fast as responses arrive.
pub(super) async fn request_until(
    address: SocketAddr,
    key: &str,
    paths: &[&str],
    interval: Option<Duration>,
    end: Instant,
) -> Result<Latencies, BenchError> {
    let requests: Vec<Vec<u8>> = paths.iter().map(|path| request("GET", path, key, &[], &[])).collect();
    let mut connection = Connection::open(address).await.map_err(failed)?;
    let mut latencies = Latencies::default();
    let mut due = Instant::now();
    if let Some(interval) = interval {
        due += interval.mul_f64(super::kills::random(1000) as f64 / 1000.0);
    }
    for bytes in requests.iter().cycle() {
        if let Some(interval) = interval {
            tokio::time::sleep_until(due.into()).await;
            due += interval;
        }
        let now = Instant::now();
        if now >= end {
            break;
        }
        // Latency is measured from when the request was due, so that a stalled server is not measured less often (coordinated omission).
        let started = interval.map_or(now, |interval| due - interval);
        connection.send(bytes).await.map_err(failed)?;
        let status = connection.status().await.map_err(failed)?;
        latencies.micros.push(started.elapsed().as_micros().try_into().unwrap_or(u32::MAX));
        latencies.refused += u64::from(status != 200);
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_all_requests_and_not_of_clients() {
        let latencies = |micros: std::ops::RangeInclusive<u32>| Latencies {
            micros: micros.map(|n| n * 1000).collect(),
            refused: 1,
        };
        let times = Times::of(vec![latencies(51..=100), latencies(1..=50)], Duration::from_secs(2));
        assert_eq!((times.requests, times.refused, times.max), (100, 2, 100.0));
        assert_eq!((times.p50, times.p99, times.per_second), (51.0, 99.0, 50.0));
    }
}
