//! `kill -9` at random moments while people use the service, and a look at what is left.
//!
//! In: a database, a number of kills. Out: what people did, what became of it, and everything that does not add up. People
//! never look into the store; the look at the end never asks the service.

pub(super) mod check;
pub(super) mod person;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hark_store::{KeyKind, NewAccount, NewKey, Plan, Store};
use serde::Serialize;
use tokio::sync::watch;

use super::failed;
use super::server::{Server, Setting, Starting};
use crate::error::BenchError;
use check::{Found, Strictness};
use person::{Notes, Person};

/// Accounts that are busy at once; few enough that a kill meets several of them in the middle of something.
const PEOPLE: usize = 8;
/// Credits that nobody uses up.
pub(super) const CREDITS: i64 = 10_000_000;
/// A recording's milliseconds in the engine: long enough to be killed in.
const TAKES: u64 = 15;
/// Short, so that work of the dead goes on soon.
const LEASE: f64 = 1.0;
/// One kill in so many falls into the start of the process.
const EARLY: u64 = 10;
/// What a round may wait for people to get something done, on a busy machine.
const ROUND: Duration = Duration::from_secs(20);
/// What the last process may need to finish what the others left.
const FINISH: Duration = Duration::from_secs(120);

/// What people share.
pub(super) struct World {
    /// Where the service is; nowhere while it is dead.
    addresses: watch::Receiver<Vec<SocketAddr>>,
    /// Turns true when everybody should come to an end.
    over: watch::Receiver<bool>,
    /// Answers that people got.
    pub(super) answers: AtomicU64,
    /// Counts beginnings and ends of faults: odd while one lasts that excuses failures.
    troubles: AtomicU64,
}

impl World {
    pub(super) fn new(addresses: watch::Receiver<Vec<SocketAddr>>, over: watch::Receiver<bool>) -> Self {
        World { addresses, over, answers: AtomicU64::new(0), troubles: AtomicU64::new(0) }
    }

    /// One node, from which failures are expected.
    pub(super) fn in_trouble(address: SocketAddr) -> Self {
        let world = World::new(watch::channel(vec![address]).1, watch::channel(false).1);
        world.trouble_begins();
        world
    }

    pub(super) fn trouble_begins(&self) {
        self.troubles.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn trouble_ends(&self) {
        self.troubles.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a fault lasted at any time since the count stood at `then`.
    fn excuses(&self, then: u64) -> bool {
        then % 2 == 1 || self.troubles.load(Ordering::Relaxed) != then
    }
}

/// What the kills of one database came to.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) database: &'static str,
    pub(super) kills: u64,
    pub(super) early_kills: u64,
    pub(super) seconds: f64,
    pub(super) answers: u64,
    #[serde(flatten)]
    pub(super) found: Found,
    /// Everything that does not add up; nothing, one hopes.
    pub(super) wrong: Vec<String>,
}

/// A random number below `below`.
pub(super) fn random(below: u64) -> u64 {
    let mut bytes = [0; 8];
    // Without randomness the kills fall at equal distances, which is worse but no reason to stop.
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes) % below.max(1)
}

/// Kills a service over `database` so many times.
pub(super) async fn run(database: &'static str, kills: u64, folder: &Path) -> Result<Report, BenchError> {
    let begun = Instant::now();
    let address = match database {
        "postgres" => hark_postgres::new_database().await.map_err(failed)?,
        _ => format!("sqlite://{}", folder.join("hark.db").display()),
    };
    let setting = Setting { takes: TAKES, lease: LEASE, ..Setting::new(address, folder) };
    let log = folder.join("log");
    let store = setting.store().await?;
    let (tell_addresses, addresses) = watch::channel(Vec::new());
    let (tell_over, over) = watch::channel(false);
    let world = Arc::new(World::new(addresses, over));
    let mut people = Vec::new();
    for number in 0..PEOPLE {
        let person = make(&store, number).await?;
        people.push(tokio::spawn(person.live(Arc::clone(&world))));
    }

    let (mut wrong, mut early_kills) = (Vec::new(), 0);
    for kill in 0..kills {
        if random(EARLY) == 0 {
            let child = Starting::new(&setting, &log)?;
            tokio::time::sleep(Duration::from_millis(random(80))).await;
            drop(child);
            early_kills += 1;
        } else {
            let mut server = start(&setting, &log).await?;
            let _ = tell_addresses.send(vec![server.address]);
            let (enough, started) = (world.answers.load(Ordering::Relaxed) + 1 + random(16), Instant::now());
            while world.answers.load(Ordering::Relaxed) < enough && started.elapsed() < ROUND {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            tokio::time::sleep(Duration::from_millis(random(60))).await;
            if !server.is_running() {
                wrong.push(format!("the service ended by itself before kill {}", kill + 1));
            }
            drop(server);
            let _ = tell_addresses.send(Vec::new());
        }
        for account in store.ledger().check().await.map_err(failed)? {
            wrong.push(format!("after kill {}: {account:?}", kill + 1));
        }
    }

    let server = start(&setting, &log).await?;
    let _ = tell_addresses.send(vec![server.address]);
    let _ = tell_over.send(true);
    let mut notes: Vec<Notes> = Vec::new();
    for person in people {
        notes.push(person.await.map_err(failed)?);
    }
    finish(&store, &notes, &mut wrong).await?;
    drop(server);
    let found = check::check(&store, &notes, folder, Strictness::MayFail, &mut wrong).await?;
    store.close().await;
    let answers = world.answers.load(Ordering::Relaxed);
    let kills = kills - early_kills;
    Ok(Report { database, kills, early_kills, seconds: begun.elapsed().as_secs_f64(), answers, found, wrong })
}

/// Starting waits for the child: not on a thread that people live on.
async fn start(setting: &Setting, log: &Path) -> Result<Server, BenchError> {
    let (setting, log) = (setting.clone(), log.to_owned());
    tokio::task::spawn_blocking(move || Server::start(&setting, &log)).await.map_err(failed)?
}

pub(super) async fn make(store: &Store, number: usize) -> Result<Person, BenchError> {
    let new = NewAccount { credits: CREDITS, ..NewAccount::new(format!("person{number}@example.org"), Plan::Pro) };
    let account = store.accounts().create(&new).await.map_err(failed)?.id;
    let new =
        NewKey { rate_limit: 1_000_000, monthly_limit_minutes: CREDITS, ..NewKey::new(KeyKind::Service, "the first") };
    let (key, secret) = store.keys().create(account, &new).await.map_err(failed)?;
    Ok(Person::new(account, key.id, secret.reveal().to_owned()))
}

/// Waits until nothing is queued or worked on.
pub(super) async fn finish(store: &Store, notes: &[Notes], wrong: &mut Vec<String>) -> Result<(), BenchError> {
    let begun = Instant::now();
    loop {
        let mut live = 0;
        for one in notes {
            live += store.jobs().live_count(&hark_store::Owner::Account(one.account)).await.map_err(failed)?;
        }
        if live == 0 {
            return Ok(());
        }
        if begun.elapsed() > FINISH {
            wrong.push(format!(
                "{live} recordings are still queued or worked on after {} s in which nothing went wrong",
                FINISH.as_secs()
            ));
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
