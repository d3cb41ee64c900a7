//! Faults of what the service stands on while people use it, how long it takes to recover, and a look at what is left.
//!
//! In: a database, a number of rounds, a seed. Out: what people did, how soon everything worked again after each fault, and everything that does not
//! add up. Each kind of fault is a file; the people and the look at the end are those of the kills.

mod bucket;
mod clock;
mod database;
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
mod site;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use serde::Serialize;
use tokio::sync::watch;

use super::failed;
use super::kills::check::{self, Found, Place, Strictness};
use super::kills::person::{Notes, Person};
use super::kills::{self, World};
use super::server::Setting;
use crate::error::BenchError;
use dice::Dice;
use live::{LiveClient, LiveNotes};
use site::{Database, Site};

pub(super) use clock::environment as clock_environment;
pub(super) use live_check::Live;
pub(super) use namespace::{disk, run_inside};
pub(super) use recovery::{Probe, Recovery};
pub(super) use s3::S3;

/// Accounts that are busy at once.
const PEOPLE: u8 = 6;
/// Live sessions at once.
const SPEAKERS: u8 = 2;
/// A recording's milliseconds in the engine: long enough for a fault to fall into.
const TAKES: u64 = 30;
/// Seconds of a lease: a worker that stands still for longer than this has lost its job.
const LEASE: f64 = 3.0;
/// Seconds for which a live session whose connection broke waits for its client.
const RESUME: f64 = 10.0;
/// People get this many answers between two faults, or wait this long for them.
const ANSWERS: u64 = 12;
const BETWEEN: Duration = Duration::from_secs(10);
/// The shortest fault, and the longest of those that are no outage of the database.
const SHORTEST: Duration = Duration::from_millis(300);
const SHORT: Duration = Duration::from_secs(5);

/// What may go wrong.
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

    /// Whether requests may fail with a 5xx while it lasts. A wrong clock and a node that people do not ask are no excuse.
    fn excuses(self) -> bool {
        matches!(self, Kind::Disk | Kind::Database | Kind::Recordings | Kind::Bucket | Kind::Kill)
    }

    async fn inflict(self, site: &mut Site, dice: &mut Dice, time: Duration) -> Result<(), BenchError> {
        match self {
            Kind::Disk => disk::inflict(site, dice, time).await,
            Kind::Database => database::inflict(site, dice, time).await,
            Kind::Recordings => recordings::inflict(site, dice, time).await,
            Kind::Bucket => bucket::inflict(site, dice, time).await,
            Kind::Clock => clock::inflict(site, dice, time).await,
            Kind::Models => models::inflict(site, time).await,
            Kind::Kill => kill::inflict(site, dice, time).await,
        }
    }
}

/// What to do.
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

/// One fault and what came after it.
#[derive(Debug, Serialize)]
pub(super) struct Round {
    pub(super) kind: Kind,
    /// Seconds that it lasted.
    pub(super) lasted: f64,
    pub(super) recovery: Vec<Recovery>,
}

/// What the faults of one database came to.
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
    /// Everything that does not add up.
    pub(super) wrong: Vec<String>,
}

/// The kinds that can be had with this database on this machine.
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

/// Lets faults happen to a service over `database` whose recordings lie on the small disk at `disk`.
pub(super) async fn run(database: &'static str, disk: &Path, plan: &Plan<'_>) -> Result<Report, BenchError> {
    let begun = Instant::now();
    let kinds = possible(plan.kinds, database)?;
    let mut dice = Dice::new(plan.seed);
    let folder = disk.join(if plan.has_bucket { format!("{database}-bucket") } else { database.to_owned() });
    std::fs::create_dir(&folder).map_err(|source| BenchError::File { path: folder.clone(), source })?;
    let (address, kept, nodes) = match database {
        "postgres" => {
            let server = hark_postgres::new_server().await.map_err(failed)?;
            (server.address(), Database::Postgres(server), 2)
        }
        _ => {
            let path = folder.join("hark.db");
            (format!("sqlite://{}", path.display()), Database::Sqlite(path), 1)
        }
    };
    let mut setting = Setting { takes: TAKES, lease: LEASE, resume: RESUME, ..Setting::new(address, &folder) };
    let s3 = if plan.has_bucket { Some(S3::start().await?) } else { None };
    if s3.is_some() {
        setting.blobs = S3::place(database);
    }
    let store = setting.store().await?;
    let (addresses, found_at) = watch::channel(Vec::new());
    let (tell_over, over) = watch::channel(false);
    // The log and the clock do not lie on the disk that fills up.
    let own = tempfile::tempdir().map_err(failed)?;
    let mut site = Site {
        disk: folder.clone(),
        log: own.path().join("log"),
        setting,
        database: kept,
        s3,
        clock: own.path().join("clock"),
        nodes: (0..nodes).map(|_| None).collect(),
        addresses,
    };
    clock::set(&site.clock, "+0")?;
    site.restart().await?;

    let world = Arc::new(World::new(found_at, over));
    let mut people = Vec::new();
    for number in 0..PEOPLE {
        let person = Person::new(kills::login(&store, number).await?);
        people.push(tokio::spawn(person.live(Arc::clone(&world))));
    }
    let mut speakers = Vec::new();
    for number in 0..SPEAKERS {
        let login = kills::login(&store, PEOPLE + number).await?;
        speakers.push(tokio::spawn(LiveClient::new(login, Arc::clone(&world)).live()));
    }
    let mut prober = Person::new(kills::login(&store, PEOPLE + SPEAKERS).await?);

    let (mut wrong, mut rounds) = (Vec::new(), Vec::new());
    for number in 1..=plan.rounds {
        work(&world).await;
        // Each kind once before chance decides.
        let kind = kinds.get(number as usize - 1).copied().unwrap_or_else(|| dice.pick(&kinds));
        let is_outage = matches!(kind, Kind::Database | Kind::Bucket);
        let time = dice.time(SHORTEST, if is_outage { plan.longest } else { SHORT });
        if kind.excuses() {
            world.trouble_begins(kind == Kind::Kill);
        }
        let started = Instant::now();
        kind.inflict(&mut site, &mut dice, time).await?;
        let lasted = started.elapsed().as_secs_f64();
        let recovery = recovery::watch(&site, &mut prober).await;
        if kind.excuses() {
            world.trouble_ends();
        }
        let late: Vec<&str> = recovery.iter().filter(|one| one.seconds.is_none()).map(|one| one.probe.name()).collect();
        if !late.is_empty() {
            let limit = recovery::LIMIT.as_secs();
            wrong.push(format!("round {number}, {}: {late:?} did not work {limit} s after its end", kind.name()));
            site.restart().await?;
        }
        for node in 0..site.nodes.len() {
            if !site.nodes[node].as_mut().is_some_and(|server| server.is_running()) {
                wrong.push(format!("round {number}, {}: node {node} ended by itself", kind.name()));
                site.start(node).await?;
            }
        }
        for account in store.ledger().check().await.map_err(failed)? {
            wrong.push(format!("round {number}, {}: {account:?}", kind.name()));
        }
        eprintln!("hark: round {number} of {}, {}: {lasted:.1} s", plan.rounds, kind.name());
        rounds.push(Round { kind, lasted, recovery });
    }

    work(&world).await;
    let _ = tell_over.send(true);
    let mut notes: Vec<Notes> = Vec::new();
    for person in people {
        notes.push(person.await.map_err(failed)?);
    }
    notes.push(prober.notes());
    let mut spoken: Vec<LiveNotes> = Vec::new();
    for speaker in speakers {
        spoken.push(speaker.await.map_err(failed)?);
    }
    kills::finish(&store, &notes, &mut wrong).await?;
    live_check::finish(&store, &spoken).await?;
    site.nodes.clear();
    let blobs = site.recordings();
    let place = site.s3.as_ref().map_or(Place::Folder(&blobs), |s3| Place::Bucket(s3, database));
    let found = check::check(&store, &notes, place, Strictness::NothingLost, &mut wrong).await?;
    let live = live_check::check(&store, &world, &spoken, &mut wrong).await?;
    store.close().await;
    if !wrong.is_empty() {
        eprintln!("hark: what the service logged stays in {}", own.keep().join("log").display());
    }
    let answers = world.answers.load(Ordering::Relaxed);
    let seconds = begun.elapsed().as_secs_f64();
    let (seed, has_bucket) = (plan.seed, plan.has_bucket);
    Ok(Report { database, has_bucket, seed, seconds, answers, rounds, found, live, wrong })
}

/// People get something done.
async fn work(world: &World) {
    let (enough, started) = (world.answers.load(Ordering::Relaxed) + ANSWERS, Instant::now());
    while world.answers.load(Ordering::Relaxed) < enough && started.elapsed() < BETWEEN {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
