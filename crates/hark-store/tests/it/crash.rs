//! A process that works on the store is killed at random moments; whatever is left must add up.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use hark_store::{
    Accepted, AccountId, Clock, Error, FaultKind, IdempotencyKey, NewJob, Options, Owner, Status, Store, TranscriptId,
};

use crate::accounts::count;
use crate::support::{Place, account, assert_balanced, new_job, on_both, result, without_backoff};

const ROUNDS: u64 = 25;
const LEASE: Duration = Duration::from_millis(300);
const CREDITS: i64 = 1_000_000;
const HELD: i64 = 5;

fn options(place: &Place) -> Options {
    Options { clock: Clock::system(), retry: without_backoff(), ..place.options() }
}

/// Credits that a transcript costs, so that everyone can tell what must have been charged.
fn cost(id: TranscriptId) -> i64 {
    1 + id.0 % HELD
}

fn random(below: u64) -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    u64::from_le_bytes(bytes) % below
}

/// One who sends recordings, sometimes twice, and sometimes changes their mind.
async fn send(store: Store, account: AccountId, accepted: std::fs::File) {
    let owner = Owner::Account(account);
    for number in 0_u64.. {
        let key = format!("{}-{number}-{}", std::process::id(), random(1 << 60));
        let name = IdempotencyKey { key, fingerprint: vec![1], older: Vec::new(), keep: Duration::from_secs(3600) };
        let mut first = None;
        for _ in 0..1 + random(2) {
            let job = NewJob { idempotency: Some(name.clone()), ..new_job(&store, &owner, HELD).await };
            let transcript = match store.jobs().accept(job).await.unwrap() {
                Accepted::New { transcript, .. } | Accepted::Repeat { transcript } => transcript,
            };
            assert_eq!(*first.get_or_insert(transcript), transcript, "a repeat made another transcript");
        }
        let transcript = first.unwrap();
        if random(8) == 0 {
            match store.transcripts().cancel(account, transcript, "changed their mind").await {
                Ok(_) | Err(Error::NotFound(_)) => {}
                Err(e) => panic!("{e}"),
            }
        }
        // Only what is written here has been promised to anyone.
        // In one write: a kill between the number and its end would join it to the next.
        (&accepted).write_all(format!("{transcript}\n").as_bytes()).unwrap();
        let call = format!("call:{}", random(1 << 60));
        store.ledger().hold(account, &call, 3, Duration::from_secs(1)).await.unwrap();
        store.ledger().settle(&call, 0, "").await.unwrap();
    }
}

async fn work(store: Store) {
    let name = format!("worker {} {}", std::process::id(), random(1 << 60));
    loop {
        let Some(job) = store.jobs().claim_any(&name, LEASE).await.unwrap() else {
            tokio::time::sleep(Duration::from_millis(2)).await;
            continue;
        };
        let id = job.lease.transcript.unwrap();
        let ended = async {
            store.jobs().set_progress(&job.lease, 50).await?;
            match random(12) {
                0 => store.jobs().fail(&job.lease, FaultKind::Internal, "a passing weakness").await.map(drop),
                1 => store.jobs().fail(&job.lease, FaultKind::Input, "not a recording").await.map(drop),
                _ => store.jobs().complete(&job.lease, &result(), cost(id), false).await.map(drop),
            }
        };
        match ended.await {
            Ok(()) | Err(Error::LeaseLost) => {}
            Err(e) => panic!("{e}"),
        }
    }
}

/// The process that is killed. Not a test: it runs for ever, and only where the test below tells it the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the child of the crash test"]
async fn child() {
    let Ok(told) = std::env::var("HARK_CRASH_CHILD") else { return };
    let [database, blobs, account, log] = told.split('\n').collect::<Vec<_>>()[..] else { panic!("{told}") };
    let account = AccountId(account.parse().unwrap());
    let options = Options { retry: without_backoff(), ..Options::new(database, blobs) };
    let store = Store::open(options).await.unwrap();
    let log = || std::fs::OpenOptions::new().append(true).open(log).unwrap();
    let tasks = [
        tokio::spawn(send(store.clone(), account, log())),
        tokio::spawn(send(store.clone(), account, log())),
        tokio::spawn(work(store.clone())),
        tokio::spawn(work(store.clone())),
    ];
    for task in tasks {
        task.await.unwrap();
    }
}

/// What must hold at every moment.
async fn check(store: &Store, database: &str, account: AccountId) {
    assert_balanced(store).await;
    let lost = "SELECT count(*) FROM transcripts WHERE status IN ('queued', 'processing') AND id NOT IN (SELECT transcript_id FROM jobs)";
    assert_eq!(count(database, lost).await, 0, "a transcript waits without a job");
    let stale = "SELECT count(*) FROM jobs WHERE state <> 'failed' AND transcript_id IN (SELECT id FROM transcripts WHERE status IN ('completed', 'failed'))";
    assert_eq!(count(database, stale).await, 0, "a finished transcript has a job");
    let raised = "SELECT count(*) FROM jobs WHERE state = 'failed' AND transcript_id NOT IN (SELECT id FROM transcripts WHERE status = 'failed')";
    assert_eq!(count(database, raised).await, 0, "a job has failed, its transcript has not");
    let silent = "SELECT count(*) FROM jobs WHERE state = 'failed'
                  AND NOT EXISTS (SELECT 1 FROM blobs b WHERE b.transcript_id = jobs.transcript_id AND b.state = 'live')";
    assert_eq!(count(database, silent).await, 0, "a job that can be retried has no recording");
    let unheld = "SELECT count(*) FROM jobs WHERE state <> 'failed' AND NOT EXISTS (SELECT 1 FROM holds WHERE reference = 'job:' || CAST(jobs.id AS TEXT))";
    assert_eq!(count(database, unheld).await, 0, "a job runs without a hold");
    let charges = format!("SELECT count(*) FROM ledger WHERE kind = 'charge' AND account_id = {account}");
    let completed = "SELECT count(*) FROM transcripts WHERE status = 'completed'";
    let usage = "SELECT CAST(COALESCE(SUM(transcripts), 0) AS BIGINT) FROM usage_days";
    let both = format!("SELECT ({charges}) - ({completed})");
    assert_eq!(count(database, &both).await, 0, "charges are not completed transcripts");
    assert_eq!(
        count(database, &format!("SELECT ({completed}) - ({usage})")).await,
        0,
        "usage is not completed transcripts"
    );
    let wrong = format!(
        "SELECT ({}) + ({})",
        "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM ledger WHERE kind = 'charge'",
        format_args!(
            "SELECT CAST(COALESCE(SUM(1 + id % {HELD}), 0) AS BIGINT) FROM transcripts WHERE status = 'completed'"
        )
    );
    assert_eq!(count(database, &wrong).await, 0, "another sum was charged than was used");
    let empty = "SELECT count(*) FROM transcripts WHERE status = 'completed'
                 AND (SELECT count(*) FROM segments WHERE transcript_id = transcripts.id) <> 2";
    assert_eq!(count(database, empty).await, 0, "a completed transcript has not its segments");
}

on_both! {
    async fn dropping_a_call_at_any_moment_leaves_the_store_sound(place: Place) {
        // What the server does when a client goes away.
        let store = Store::open(options(&place)).await.unwrap();
        let account = account(&store, CREDITS).await;
        let log = || std::fs::OpenOptions::new().create(true).append(true).open(place.folder.path().join("accepted")).unwrap();
        let done = async || count(&place.database, "SELECT count(*) FROM transcripts WHERE status = 'completed'").await;
        let mut rounds = 0;
        while rounds < 40 || done().await < 20 {
            rounds += 1;
            assert!(rounds < 4000, "too little is done to mean anything");
            let calls = async {
                tokio::join!(
                    send(store.clone(), account, log()),
                    send(store.clone(), account, log()),
                    work(store.clone()),
                    work(store.clone())
                )
            };
            let dropped = tokio::time::timeout(Duration::from_micros(1_000 + random(60_000)), calls).await;
            assert!(dropped.is_err(), "the calls never end by themselves");
            check(&store, &place.database, account).await;
        }
        // The one connection that writes is still of use.
        store.ledger().grant(account, 1, "").await.unwrap();
    }

    async fn killing_the_process_at_any_moment_loses_and_doubles_nothing(place: Place) {
        let store = Store::open(options(&place)).await.unwrap();
        let account = account(&store, CREDITS).await;
        let log = place.folder.path().join("accepted");
        std::fs::write(&log, "").unwrap();
        let blobs = place.options().blobs;
        let told = format!("{}\n{blobs}\n{account}\n{}", place.database, log.display());
        for round in 0..ROUNDS {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["crash::child", "--exact", "--ignored", "--nocapture"])
                .env("HARK_CRASH_CHILD", &told)
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            // On a busy machine a child needs a while to get to work; then any moment will do.
            let begun = std::time::Instant::now();
            let lines = || std::fs::read_to_string(&log).unwrap().lines().count();
            let enough = lines() + random(4) as usize;
            while lines() < enough && begun.elapsed() < Duration::from_secs(30) {
                assert!(child.try_wait().unwrap().is_none(), "the child ended by itself in round {round}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(Duration::from_millis(random(100))).await;
            assert!(child.try_wait().unwrap().is_none(), "the child ended by itself in round {round}");
            // SIGKILL: nothing of the child runs after it.
            child.kill().unwrap();
            child.wait().unwrap();
            check(&store, &place.database, account).await;
        }
        // Whoever comes next finishes what is left.
        let mut claims = 0;
        loop {
            tokio::time::sleep(LEASE).await;
            store.jobs().expire_leases().await.unwrap();
            while let Some(job) = store.jobs().claim_any("the last", LEASE * 100).await.unwrap() {
                store.jobs().complete(&job.lease, &result(), cost(job.lease.transcript.unwrap()), false).await.unwrap();
                claims += 1;
            }
            if count(&place.database, "SELECT count(*) FROM jobs WHERE state <> 'failed'").await == 0 {
                break;
            }
        }
        check(&store, &place.database, account).await;
        let promised = std::fs::read_to_string(&log).unwrap();
        let mut states = [0; 2];
        for line in promised.lines() {
            let view = store.transcripts().status(TranscriptId(line.parse().unwrap())).await.expect("a promised transcript is there");
            match view.status {
                Status::Completed => states[0] += 1,
                Status::Failed => {
                    assert!(view.error.is_some_and(|reason| !reason.is_empty()));
                    states[1] += 1;
                }
                other => panic!("a promised transcript is still {other}"),
            }
        }
        assert!(states[0] > 20, "too little was done to mean anything: {states:?}");
        tokio::time::sleep(Duration::from_secs(2)).await;
        store.jobs().drop_old_failed(Duration::ZERO).await.unwrap();
        store.recordings().sweep_older_than(Duration::ZERO).await.unwrap();
        check(&store, &place.database, account).await;
        assert_eq!(count(&place.database, "SELECT count(*) FROM holds").await, 0);
        assert_eq!(count(&place.database, "SELECT count(*) FROM blobs").await, 0);
        assert_eq!(place.recordings(), [] as [std::path::PathBuf; 0]);
        let charged = -count(&place.database, "SELECT CAST(SUM(amount) AS BIGINT) FROM ledger WHERE kind = 'charge'").await;
        assert_eq!(store.accounts().get(account).await.unwrap().credits, CREDITS - charged);
        eprintln!("{} promised: {} completed, {} failed; {claims} finished afterwards", promised.lines().count(), states[0], states[1]);
    }
}
