//! Fault injection: faults of the service's dependencies while simulated users use it, the time to recover, and a check of the resulting state.
//!
//! Input: a database, a number of rounds, a seed. Output: what the users did, the recovery time after each fault, and every inconsistency. Each kind of
//! fault is a file; the users and the final check are those of the kills.

mod bucket;
mod clock;
mod database;
mod deployment;
mod dice;
mod disk;
mod kill;
mod live;
mod live_check;
mod models;
mod namespace;
mod recordings;
mod recovery;
mod s3;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Serialize;
use tokio::sync::watch;

use super::failed;
use super::kills::check::{self, Found, Place, Strictness};
use super::kills::user::{Expected, SimulatedUser};
use super::kills::{self, Environment};
use super::server::Setting;
use crate::error::BenchError;
use deployment::{Database, Deployment};
use dice::Dice;
use live::{LiveClient, LiveExpected};

pub(super) use clock::environment as clock_environment;
pub(super) use live_check::Live;
pub(super) use namespace::{disk, run_inside};
pub(super) use recovery::{Probe, Recovery};
pub(super) use s3::S3;

/// Concurrent users.
const USERS: u8 = 6;
/// Concurrent live sessions.
const LIVE_USERS: u8 = 2;
/// Milliseconds of a transcription in the engine: long enough for a fault to interrupt it.
const ENGINE_MILLIS: u64 = 30;
/// Seconds of a lease: a worker that stalls for longer loses its job.
const LEASE_SECONDS: f64 = 3.0;
/// Seconds for which a live session with a broken connection can be resumed.
const RESUME_SECONDS: f64 = 10.0;
/// Responses between two faults, and how long they are waited for.
const RESPONSES_BETWEEN: u64 = 12;
const BETWEEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Minimum duration of a fault, and maximum of those that are no outage.
const MIN_FAULT: Duration = Duration::from_millis(300);
const MAX_FAULT: Duration = Duration::from_secs(5);

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// No space is left on the disk
    Disk,
    /// The database stands still, is killed, or is locked
    Database,
    /// The folder of the recordings is not there
    Recordings,
    /// The bucket of the recordings refuses connections or does not answer
    Bucket,
    /// The clock of one node is set by up to an hour
    Clock,
    /// A node without models beside healthy ones (PostgreSQL)
    Models,
    /// kill -9 of one node
    Kill,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Disk => "disk",
            Kind::Database => "database",
            Kind::Recordings => "recordings",
            Kind::Bucket => "bucket",
            Kind::Clock => "clock",
            Kind::Models => "models",
            Kind::Kill => "kill",
        }
    }

    /// Whether requests may fail with a 5xx during the fault. A wrong clock and a node that no user asks do not allow it.
    fn allows_errors(self) -> bool {
        matches!(self, Kind::Disk | Kind::Database | Kind::Recordings | Kind::Bucket | Kind::Kill)
    }

    async fn inject(self, deployment: &mut Deployment, dice: &mut Dice, time: Duration) -> Result<(), BenchError> {
        match self {
            Kind::Disk => disk::inject(deployment, dice, time).await,
            Kind::Database => database::inject(deployment, dice, time).await,
            Kind::Recordings => recordings::inject(deployment, dice, time).await,
            Kind::Bucket => bucket::inject(deployment, dice, time).await,
            Kind::Clock => clock::inject(deployment, dice, time).await,
            Kind::Models => models::inject(deployment, time).await,
            Kind::Kill => kill::inject(deployment, dice, time).await,
        }
    }
}

/// The plan of a run.
pub(super) struct Plan<'a> {
    pub(super) rounds: u64,
    pub(super) seed: u64,
    pub(super) kinds: &'a [Kind],
    /// The longest outage of the database or the bucket.
    pub(super) longest: Duration,
    /// Whether recordings are kept in a bucket, not in a folder.
    pub(super) has_bucket: bool,
}

/// Runs of so many faults of these kinds: whether recordings are in a bucket, the kinds, and how many. A folder and a bucket that fail need a run each.
pub(super) fn runs(kinds: &[Kind], rounds: u64) -> Vec<(bool, Vec<Kind>, u64)> {
    let without = |kind: Kind| kinds.iter().copied().filter(|other| *other != kind).collect::<Vec<_>>();
    let (folder, bucket) = (without(Kind::Bucket), without(Kind::Recordings));
    match (folder.is_empty(), kinds.contains(&Kind::Bucket)) {
        (_, false) => vec![(false, folder, rounds)],
        (true, true) => vec![(true, bucket, rounds)],
        (false, true) => vec![(false, folder, rounds - rounds / 2), (true, bucket, rounds / 2)],
    }
}

/// One fault and the recovery from it.
#[derive(Debug, Serialize)]
pub(super) struct Round {
    pub(super) kind: Kind,
    /// Seconds that it lasted.
    pub(super) lasted: f64,
    pub(super) recovery: Vec<Recovery>,
}

/// The result of the faults of one database.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) database: &'static str,
    /// Whether recordings were kept in a bucket.
    pub(super) has_bucket: bool,
    pub(super) seed: u64,
    pub(super) seconds: f64,
    pub(super) answers: u64,
    pub(super) rounds: Vec<Round>,
    #[serde(flatten)]
    pub(super) found: Found,
    pub(super) live: Live,
    /// All inconsistencies.
    pub(super) wrong: Vec<String>,
}

/// The kinds that are possible with this database on this machine.
fn possible(kinds: &[Kind], database: &str) -> Result<Vec<Kind>, BenchError> {
    if kinds.contains(&Kind::Clock) && clock::library().is_none() {
        return Err(failed("steps of the clock need libfaketime: install the package faketime"));
    }
    if kinds.contains(&Kind::Bucket) && s3::program().is_none() {
        return Err(failed("a bucket needs an S3 server: run tests/s3/install, or leave `bucket` out of --kinds"));
    }
    let is_possible = |kind: &Kind| *kind != Kind::Models || database == "postgres";
    let possible: Vec<Kind> = kinds.iter().copied().filter(is_possible).collect();
    if possible.is_empty() {
        Err(failed(format!("none of these faults can be had with {database}")))
    } else {
        Ok(possible)
    }
}

/// Injects faults into a service over `database` whose recordings are on the small disk at `disk`.
pub(super) async fn run(database: &'static str, disk: &Path, plan: &Plan<'_>) -> Result<Report, BenchError> {
    let started = Instant::now();
    let kinds = possible(plan.kinds, database)?;
    let mut dice = Dice::new(plan.seed);
    let folder = disk.join(if plan.has_bucket { format!("{database}-bucket") } else { database.to_owned() });
    std::fs::create_dir(&folder).map_err(|source| BenchError::File { path: folder.clone(), source })?;
    let (address, database_kind, nodes) = match database {
        "postgres" => {
            let server = hark_postgres::new_server().await.map_err(failed)?;
            (server.address(), Database::Postgres(server), 2)
        }
        _ => {
            let path = folder.join("hark.db");
            (format!("sqlite://{}", path.display()), Database::Sqlite(path), 1)
        }
    };
    let mut setting = Setting {
        takes: ENGINE_MILLIS,
        lease: LEASE_SECONDS,
        resume: RESUME_SECONDS,
        ..Setting::new(address, &folder)
    };
    let s3 = if plan.has_bucket { Some(S3::start().await?) } else { None };
    if s3.is_some() {
        setting.blobs = S3::place(database);
    }
    let store = setting.store().await?;
    let (addresses, address_receiver) = watch::channel(Vec::new());
    let (stop_sender, stop) = watch::channel(false);
    // The log and the clock are not on the disk that fills up.
    let own = tempfile::tempdir().map_err(failed)?;
    let mut deployment = Deployment {
        disk: folder.clone(),
        log: own.path().join("log"),
        setting,
        database: database_kind,
        s3,
        clock: own.path().join("clock"),
        nodes: (0..nodes).map(|_| None).collect(),
        addresses,
    };
    clock::set(&deployment.clock, "+0")?;
    deployment.restart().await?;

    let environment = Arc::new(Environment::new(address_receiver, stop));
    let mut users = Vec::new();
    for number in 0..USERS {
        let user = SimulatedUser::new(kills::login(&store, number).await?);
        users.push(tokio::spawn(user.run(Arc::clone(&environment))));
    }
    let mut live_users = Vec::new();
    for number in 0..LIVE_USERS {
        let login = kills::login(&store, USERS + number).await?;
        live_users.push(tokio::spawn(LiveClient::new(login, Arc::clone(&environment)).run()));
    }
    let mut prober = SimulatedUser::new(kills::login(&store, USERS + LIVE_USERS).await?);

    let (mut wrong, mut rounds) = (Vec::new(), Vec::new());
    for number in 1..=plan.rounds {
        wait_for_responses(&environment).await;
        // Each kind once, then random kinds.
        let first = kinds.get(number as usize - 1).copied();
        let kind = first.unwrap_or_else(|| dice.pick(&kinds));
        let time = match (matches!(kind, Kind::Database | Kind::Bucket), first) {
            // The first outage of each kind is as long as they get: chance seldom gives one.
            (true, Some(_)) => plan.longest,
            (true, None) => dice.time(MIN_FAULT, plan.longest),
            (false, _) => dice.time(MIN_FAULT, MAX_FAULT),
        };
        if kind.allows_errors() {
            environment.fault_begins(kind == Kind::Kill);
        }
        let fault_started = Instant::now();
        kind.inject(&mut deployment, &mut dice, time).await?;
        let lasted = fault_started.elapsed().as_secs_f64();
        let recovery = recovery::watch(&deployment, &mut prober).await;
        if kind.allows_errors() {
            environment.fault_ends();
        }
        let late: Vec<&str> = recovery.iter().filter(|one| one.seconds.is_none()).map(|one| one.probe.name()).collect();
        if !late.is_empty() {
            let limit = recovery::LIMIT.as_secs();
            wrong.push(format!("round {number}, {}: {late:?} did not work {limit} s after its end", kind.name()));
            deployment.restart().await?;
        }
        for node in 0..deployment.nodes.len() {
            if !deployment.nodes[node].as_mut().is_some_and(|server| server.is_running()) {
                wrong.push(format!("round {number}, {}: node {node} ended by itself", kind.name()));
                deployment.start(node).await?;
            }
        }
        for account in store.ledger().check().await.map_err(failed)? {
            wrong.push(format!("round {number}, {}: {account:?}", kind.name()));
        }
        eprintln!("hark: round {number} of {}, {}: {lasted:.1} s", plan.rounds, kind.name());
        rounds.push(Round { kind, lasted, recovery });
    }

    wait_for_responses(&environment).await;
    let _ = stop_sender.send(true);
    let mut expected: Vec<Expected> = Vec::new();
    for user in users {
        expected.push(user.await.map_err(failed)?);
    }
    expected.push(prober.expected());
    let mut live_expected: Vec<LiveExpected> = Vec::new();
    for live_user in live_users {
        live_expected.push(live_user.await.map_err(failed)?);
    }
    kills::finish(&store, &expected, &mut wrong).await?;
    live_check::finish(&store, &live_expected).await?;
    deployment.nodes.clear();
    let blobs = deployment.recordings();
    let place = deployment.s3.as_ref().map_or(Place::Folder(&blobs), |s3| Place::Bucket(s3, database));
    let found = check::check(&store, &expected, place, Strictness::NothingLost, &mut wrong).await?;
    let live = live_check::check(&store, &environment, &live_expected, &mut wrong).await?;
    store.close().await;
    if !wrong.is_empty() {
        eprintln!("hark: what the service logged stays in {}", own.keep().join("log").display());
    }
    let answers = environment.answers.load(Ordering::Relaxed);
    let seconds = started.elapsed().as_secs_f64();
    let (seed, has_bucket) = (plan.seed, plan.has_bucket);
    Ok(Report { database, has_bucket, seed, seconds, answers, rounds, found, live, wrong })
}

/// Waits until the users got some responses.
async fn wait_for_responses(environment: &Environment) {
    let (enough, started) = (environment.answers.load(Ordering::Relaxed) + RESPONSES_BETWEEN, Instant::now());
    while environment.answers.load(Ordering::Relaxed) < enough && started.elapsed() < BETWEEN_TIMEOUT {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
