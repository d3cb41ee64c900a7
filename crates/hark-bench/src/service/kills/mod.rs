//! `kill -9` at random moments while simulated users use the service, and a check of the resulting state.
//!
//! Input: a database, a number of kills. Output: what the users did, the resulting state, and every inconsistency. The users
//! only see responses of the service; the check only reads the store.

pub(super) mod check;
pub(super) mod user;

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
use user::{Expected, SimulatedUser};

/// Concurrent users; enough that a kill interrupts several of them.
const USERS: u8 = 8;
/// More credits than a run can use.
pub(super) const CREDITS: i64 = 10_000_000;
/// Milliseconds of a transcription in the engine: long enough to be killed in.
const ENGINE_MILLIS: u64 = 15;
/// Seconds of a lease: short, so that jobs of a killed process continue soon.
const LEASE_SECONDS: f64 = 1.0;
/// One in this many kills hits the start of the process.
const EARLY_KILL_ODDS: u64 = 10;
/// How long a round waits for responses, on a busy machine.
const ROUND_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the last process may take to finish all jobs.
const FINISH_TIMEOUT: Duration = Duration::from_secs(120);

/// The environment that the users of a run share.
pub(super) struct Environment {
    /// Addresses of the running nodes.
    addresses: watch::Receiver<Vec<SocketAddr>>,
    /// True when the users should stop.
    stop: watch::Receiver<bool>,
    /// Responses received by all users.
    pub(super) answers: AtomicU64,
    /// Incremented at the start and at the end of a fault that allows errors: odd during one.
    fault_count: AtomicU64,
    /// The faults that allow errors, the oldest first.
    windows: Mutex<Vec<FaultWindow>>,
}

/// When a fault began and ended.
struct FaultWindow {
    started: Instant,
    ended: Option<Instant>,
    is_kill: bool,
}

impl Environment {
    pub(super) fn new(addresses: watch::Receiver<Vec<SocketAddr>>, stop: watch::Receiver<bool>) -> Self {
        let (answers, fault_count) = (AtomicU64::new(0), AtomicU64::new(0));
        Environment { addresses, stop, answers, fault_count, windows: Mutex::new(Vec::new()) }
    }

    /// An environment of one node that may return errors.
    pub(super) fn during_fault(address: SocketAddr) -> Self {
        let environment = Environment::new(watch::channel(vec![address]).1, watch::channel(false).1);
        environment.fault_begins(false);
        environment
    }

    /// Records the start of a fault that allows errors.
    pub(super) fn fault_begins(&self, is_kill: bool) {
        self.windows().push(FaultWindow { started: Instant::now(), ended: None, is_kill });
        self.fault_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the end of the fault, after recovery.
    pub(super) fn fault_ends(&self) {
        if let Some(last) = self.windows().last_mut() {
            last.ended = Some(Instant::now());
        }
        self.fault_count.fetch_add(1, Ordering::Relaxed);
    }

    fn windows(&self) -> std::sync::MutexGuard<'_, Vec<FaultWindow>> {
        self.windows.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The fault counter, for [`Environment::fault_since`].
    pub(super) fn fault_count(&self) -> u64 {
        self.fault_count.load(Ordering::Relaxed)
    }

    /// Whether there was a fault at any time since the counter was `then`.
    pub(super) fn fault_since(&self, then: u64) -> bool {
        then % 2 == 1 || self.fault_count() != then
    }

    /// The last moment up to `at` before which the database was writable for `lag`; kills do not count.
    pub(super) fn last_writable_before(&self, at: Instant, lag: Duration) -> Instant {
        let mut writable = at;
        for window in self.windows().iter().rev().filter(|window| !window.is_kill) {
            if window.started < writable && window.ended.is_none_or(|ended| ended + lag > writable) {
                writable = window.started;
            }
        }
        writable
    }

    /// Whether the users should stop.
    pub(super) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// The address of a random running node; waits while there is none.
    pub(super) async fn any_address(&self) -> std::io::Result<SocketAddr> {
        let mut addresses = self.addresses.clone();
        let found = addresses.wait_for(|found| !found.is_empty()).await.map_err(std::io::Error::other)?.clone();
        Ok(found[random(found.len() as u64) as usize])
    }
}

/// The result of the kills of one database.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) database: &'static str,
    pub(super) kills: u64,
    pub(super) early_kills: u64,
    pub(super) seconds: f64,
    pub(super) answers: u64,
    #[serde(flatten)]
    pub(super) found: Found,
    /// All inconsistencies.
    pub(super) wrong: Vec<String>,
}

/// A random number below `below`.
pub(super) fn random(below: u64) -> u64 {
    let mut bytes = [0; 8];
    // Without randomness the kills are evenly spaced, which is no reason to stop.
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes) % below.max(1)
}

/// Kills a service over `database` this many times.
pub(super) async fn run(database: &'static str, kills: u64, folder: &Path) -> Result<Report, BenchError> {
    let started = Instant::now();
    let address = match database {
        "postgres" => hark_postgres::new_database().await.map_err(failed)?,
        _ => format!("sqlite://{}", folder.join("hark.db").display()),
    };
    let setting = Setting { takes: ENGINE_MILLIS, lease: LEASE_SECONDS, ..Setting::new(address, folder) };
    let log = folder.join("log");
    let store = setting.store().await?;
    let (address_sender, addresses) = watch::channel(Vec::new());
    let (stop_sender, stop) = watch::channel(false);
    let environment = Arc::new(Environment::new(addresses, stop));
    let mut users = Vec::new();
    for number in 0..USERS {
        let user = SimulatedUser::new(login(&store, number).await?);
        users.push(tokio::spawn(user.run(Arc::clone(&environment))));
    }

    let (mut wrong, mut early_kills) = (Vec::new(), 0);
    for kill in 0..kills {
        if random(EARLY_KILL_ODDS) == 0 {
            let child = Starting::new(&setting, &log)?;
            tokio::time::sleep(Duration::from_millis(random(80))).await;
            drop(child);
            early_kills += 1;
        } else {
            let mut server = start(&setting, &log).await?;
            let _ = address_sender.send(vec![server.address]);
            let (enough, round_started) =
                (environment.answers.load(Ordering::Relaxed) + 1 + random(16), Instant::now());
            while environment.answers.load(Ordering::Relaxed) < enough && round_started.elapsed() < ROUND_TIMEOUT {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            tokio::time::sleep(Duration::from_millis(random(60))).await;
            if !server.is_running() {
                wrong.push(format!("the service ended by itself before kill {}", kill + 1));
            }
            drop(server);
            let _ = address_sender.send(Vec::new());
        }
        for account in store.ledger().check().await.map_err(failed)? {
            wrong.push(format!("after kill {}: {account:?}", kill + 1));
        }
    }

    let server = start(&setting, &log).await?;
    let _ = address_sender.send(vec![server.address]);
    let _ = stop_sender.send(true);
    let mut expected: Vec<Expected> = Vec::new();
    for user in users {
        expected.push(user.await.map_err(failed)?);
    }
    finish(&store, &expected, &mut wrong).await?;
    drop(server);
    let place = Place::Folder(&folder.join("blobs"));
    let found = check::check(&store, &expected, place, Strictness::MayFail, &mut wrong).await?;
    store.close().await;
    let answers = environment.answers.load(Ordering::Relaxed);
    let kills = kills - early_kills;
    Ok(Report { database, kills, early_kills, seconds: started.elapsed().as_secs_f64(), answers, found, wrong })
}

/// Starts a server on a blocking thread, since it waits for the child.
async fn start(setting: &Setting, log: &Path) -> Result<Server, BenchError> {
    let (setting, log) = (setting.clone(), log.to_owned());
    tokio::task::spawn_blocking(move || Server::start(&setting, &log)).await.map_err(failed)?
}

/// An account with its key.
pub(super) struct Login {
    pub(super) account: AccountId,
    pub(super) key: KeyId,
    pub(super) secret: String,
    /// The source address of its requests: limits count by address.
    pub(super) from: Ipv4Addr,
}

/// Creates the account of this number.
pub(super) async fn login(store: &Store, number: u8) -> Result<Login, BenchError> {
    let new = NewAccount { credits: CREDITS, ..NewAccount::new(format!("person{number}@example.org"), Plan::Pro) };
    let account = store.accounts().create(&new).await.map_err(failed)?.id;
    let new =
        NewKey { rate_limit: 1_000_000, monthly_limit_minutes: CREDITS, ..NewKey::new(KeyKind::Service, "the first") };
    let (key, secret) = store.keys().create(account, &new).await.map_err(failed)?;
    let from = Ipv4Addr::new(127, 0, 1, 1 + number);
    Ok(Login { account, key: key.id, secret: secret.reveal().to_owned(), from })
}

/// Waits until no job is queued or running.
pub(super) async fn finish(store: &Store, expected: &[Expected], wrong: &mut Vec<String>) -> Result<(), BenchError> {
    let started = Instant::now();
    loop {
        let mut live = 0;
        for user in expected {
            live += store.jobs().live_count(&hark_store::Owner::Account(user.account)).await.map_err(failed)?;
        }
        if live == 0 {
            return Ok(());
        }
        if started.elapsed() > FINISH_TIMEOUT {
            wrong.push(format!(
                "{live} recordings are still queued or worked on after {} s in which nothing went wrong",
                FINISH_TIMEOUT.as_secs()
            ));
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
