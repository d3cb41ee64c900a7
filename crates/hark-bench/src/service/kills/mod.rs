//! `kill -9` at random moments while people use the service, and a look at what is left.
//!
//! In: a database, a number of kills. Out: what people did, what became of it, and everything that does not add up. People
//! never look into the store; the look at the end never asks the service.

pub(super) mod check;
pub(super) mod person;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hark_store::{AccountId, KeyId, KeyKind, NewAccount, NewKey, Plan, Store};
use serde::Serialize;
use tokio::sync::watch;

use super::failed;
use super::server::{Server, Setting, Starting};
use crate::error::BenchError;
use check::{Found, Place, Strictness};
use person::{Notes, Person};

/// Accounts that are busy at once; few enough that a kill meets several of them in the middle of something.
const PEOPLE: u8 = 8;
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
    /// The faults that excuse failures, the oldest first.
    windows: Mutex<Vec<Window>>,
}

/// When a fault began and ended.
struct Window {
    begun: Instant,
    ended: Option<Instant>,
    is_kill: bool,
}

impl World {
    pub(super) fn new(addresses: watch::Receiver<Vec<SocketAddr>>, over: watch::Receiver<bool>) -> Self {
        let (answers, troubles) = (AtomicU64::new(0), AtomicU64::new(0));
        World { addresses, over, answers, troubles, windows: Mutex::new(Vec::new()) }
    }

    /// One node, from which failures are expected.
    pub(super) fn in_trouble(address: SocketAddr) -> Self {
        let world = World::new(watch::channel(vec![address]).1, watch::channel(false).1);
        world.trouble_begins(false);
        world
    }

    /// A fault begins that excuses failures.
    pub(super) fn trouble_begins(&self, is_kill: bool) {
        self.windows().push(Window { begun: Instant::now(), ended: None, is_kill });
        self.troubles.fetch_add(1, Ordering::Relaxed);
    }

    /// It has ended, and everything works again.
    pub(super) fn trouble_ends(&self) {
        if let Some(last) = self.windows().last_mut() {
            last.ended = Some(Instant::now());
        }
        self.troubles.fetch_add(1, Ordering::Relaxed);
    }

    fn windows(&self) -> std::sync::MutexGuard<'_, Vec<Window>> {
        self.windows.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The count of faults, for [`World::excuses`].
    pub(super) fn troubles(&self) -> u64 {
        self.troubles.load(Ordering::Relaxed)
    }

    /// Whether a fault lasted at any time since the count stood at `then`.
    pub(super) fn excuses(&self, then: u64) -> bool {
        then % 2 == 1 || self.troubles() != then
    }

    /// The last moment up to `at` before which the database could be written for `lag`; kills do not count.
    pub(super) fn quiet_before(&self, at: Instant, lag: Duration) -> Instant {
        let mut quiet = at;
        for window in self.windows().iter().rev().filter(|window| !window.is_kill) {
            if window.begun < quiet && window.ended.is_none_or(|ended| ended + lag > quiet) {
                quiet = window.begun;
            }
        }
        quiet
    }

    /// Whether everybody should come to an end.
    pub(super) fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    /// A running node, waited for where there is none.
    pub(super) async fn any_address(&self) -> std::io::Result<SocketAddr> {
        let mut addresses = self.addresses.clone();
        let found = addresses.wait_for(|found| !found.is_empty()).await.map_err(std::io::Error::other)?.clone();
        Ok(found[random(found.len() as u64) as usize])
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
        let person = Person::new(login(&store, number).await?);
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
    let place = Place::Folder(&folder.join("blobs"));
    let found = check::check(&store, &notes, place, Strictness::MayFail, &mut wrong).await?;
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

/// An account with its key.
pub(super) struct Login {
    pub(super) account: AccountId,
    pub(super) key: KeyId,
    pub(super) secret: String,
    /// The address that its requests come from: limits count by address.
    pub(super) from: Ipv4Addr,
}

/// Makes the account of this number.
pub(super) async fn login(store: &Store, number: u8) -> Result<Login, BenchError> {
    let new = NewAccount { credits: CREDITS, ..NewAccount::new(format!("person{number}@example.org"), Plan::Pro) };
    let account = store.accounts().create(&new).await.map_err(failed)?.id;
    let new =
        NewKey { rate_limit: 1_000_000, monthly_limit_minutes: CREDITS, ..NewKey::new(KeyKind::Service, "the first") };
    let (key, secret) = store.keys().create(account, &new).await.map_err(failed)?;
    let from = Ipv4Addr::new(127, 0, 1, 1 + number);
    Ok(Login { account, key: key.id, secret: secret.reveal().to_owned(), from })
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
