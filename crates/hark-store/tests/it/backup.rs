//! A backup that is made while others work, and what comes of it elsewhere.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hark_store::{
    AccountId, Clock, Error, MasterKey, MasterKeys, Options, Owner, RestoreOptions, Store, TranscriptId, restore,
    verify_backup,
};

use crate::accounts::{count, run_sql};
use crate::sealing::{KEY, fill};
use crate::support::{Place, accept, account, assert_balanced, completed, new_job, on_both, result, upload};

const LEASE: Duration = Duration::from_secs(60);

fn options(place: &Place) -> Options {
    Options { clock: Clock::system(), ..place.options() }
}

async fn back_up(store: &Store, place: &Place, to: &Path) -> hark_store::BackupReport {
    store.backup(&place.database, to, |_| {}).await.unwrap()
}

/// An empty place for a store of the same kind.
async fn elsewhere(place: &Place) -> Place {
    if place.database.starts_with("sqlite:") { Place::sqlite() } else { Place::postgres().await }
}

fn refused<T: std::fmt::Debug>(done: hark_store::Result<T>) -> String {
    match done {
        Err(Error::Setup(why) | Error::Damaged(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// Sends, works and deletes until it is told to stop; counts what it has done.
async fn load(store: Store, account: AccountId, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) {
    let owner = Owner::Account(account);
    for number in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let mut job = new_job(&store, &owner, 3).await;
        store.recordings().discard(&job.blob.key).await.unwrap();
        job.blob = upload(&store, account, &vec![number as u8; 200_000]).await;
        store.jobs().accept(job).await.unwrap();
        let Some(job) = store.jobs().claim_any("load", LEASE).await.unwrap() else { continue };
        let id = job.lease.transcript.unwrap();
        // Some recordings are kept, some go with their job, some transcripts are deleted: all of it while the backup is made.
        store.jobs().complete(&job.lease, &result(), 2, number % 3 == 0).await.unwrap();
        if number % 3 == 1 {
            store.transcripts().delete(job.account, id).await.unwrap();
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

async fn until(done: &AtomicU64, more: u64) {
    let (begun, enough) = (Instant::now(), done.load(Ordering::Relaxed) + more);
    while done.load(Ordering::Relaxed) < enough {
        assert!(begun.elapsed() < Duration::from_secs(120), "the load stands still");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn read(store: &Store, account: AccountId, id: TranscriptId) -> (String, Vec<u8>) {
    let text = store.transcripts().text(account, id).await.unwrap().1.text;
    let blob = store.recordings().get(account, id).await.unwrap();
    (text, store.recordings().read(&blob, None).await.unwrap().read_all().await.unwrap())
}

fn recordings_in(backup: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(backup.join("recordings")).unwrap().flatten();
    folders.flat_map(|folder| std::fs::read_dir(folder.path()).unwrap().flatten()).map(|file| file.path()).collect()
}

/// The process that is killed while it backs up. Not a test: it runs only where the test below tells it the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the child of the test of kills"]
async fn child() {
    let Ok(told) = std::env::var("HARK_BACKUP_CHILD") else { return };
    let [database, blobs, account, to] = told.split('\n').collect::<Vec<_>>()[..] else { panic!("{told}") };
    let store = Store::open(Options::new(database, blobs)).await.unwrap();
    let account = AccountId(account.parse().unwrap());
    loop {
        let id = completed(&store, account).await;
        store.backup(database, Path::new(to), |_| {}).await.unwrap();
        store.transcripts().delete(account, id).await.unwrap();
    }
}

on_both! {
    async fn a_backup_made_under_load_is_whole_where_it_is_restored(place: Place) {
        let store = Store::open(options(&place)).await.unwrap();
        let (quiet, busy) = (account(&store, 7).await, account(&store, 1_000_000).await);
        let mut kept = Vec::new();
        for _ in 0..5 {
            let id = completed(&store, quiet).await;
            kept.push((id, read(&store, quiet, id).await));
        }
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let loads: Vec<_> =
            (0..3).map(|_| tokio::spawn(load(store.clone(), busy, stop.clone(), done.clone()))).collect();
        until(&done, 10).await;
        let backup = place.folder.path().join("backup");
        let first = back_up(&store, &place, &backup).await;
        assert_eq!((first.missing.len(), first.copied), (0, first.recordings));
        until(&done, 10).await;
        let second = back_up(&store, &place, &backup).await;
        assert_eq!(second.missing, [], "what was deleted meanwhile was there to be copied");
        assert!(second.copied + 5 <= second.recordings, "recordings are not copied twice: {second:?}");
        assert_eq!(recordings_in(&backup).len() as u64, second.recordings, "and those of deleted transcripts go");
        // Whatever the server does afterwards is not in it.
        let (after, _) = accept(&store, quiet, 0).await;
        until(&done, 5).await;
        stop.store(true, Ordering::Relaxed);
        for load in loads {
            load.await.unwrap();
        }
        store.recordings().sweep_older_than(Duration::from_secs(3600)).await.unwrap();
        assert_eq!(count(&place.database, "SELECT count(*) FROM blobs WHERE state = 'deleting'").await, 0);
        assert_eq!(count(&place.database, "SELECT count(*) FROM maintenance").await, 0, "nobody waits for the backup");

        let verified = verify_backup(&backup).await.unwrap();
        assert_eq!((verified.store.as_str(), verified.recordings), (store.id(), second.recordings));
        let other = elsewhere(&place).await;
        let restored = restore(&backup, options(&other), RestoreOptions::default()).await.unwrap();
        assert_eq!((restored.written, restored.kept), (second.recordings, 0));
        assert_eq!((restored.unbalanced.len(), restored.missing.len()), (0, 0));
        let copy = Store::open(options(&other)).await.unwrap();
        assert_eq!(copy.id(), store.id());
        assert_balanced(&copy).await;
        for (id, what) in &kept {
            assert_eq!(&read(&copy, quiet, *id).await, what);
        }
        assert!(matches!(copy.transcripts().get(quiet, after).await, Err(Error::NotFound(_))));
        // What waited or ran at that moment is done where it was restored.
        run_sql(&other.database, "UPDATE jobs SET state = 'queued', worker = NULL, lease = NULL, lease_until = NULL").await;
        while let Some(job) = copy.jobs().claim_any("elsewhere", LEASE).await.unwrap() {
            assert_eq!(copy.recordings().read(job.blob.as_ref().unwrap(), None).await.unwrap().read_all().await.unwrap().len(), 200_000);
            copy.jobs().complete(&job.lease, &result(), 2, true).await.unwrap();
        }
        assert_balanced(&copy).await;
        assert_eq!(count(&other.database, "SELECT count(*) FROM transcripts WHERE status <> 'completed'").await, 0);
        copy.recordings().sweep_older_than(Duration::ZERO).await.unwrap();
        assert_eq!(copy.recordings().missing().await.unwrap(), []);
    }

    async fn a_backup_that_is_killed_at_any_moment_leaves_the_old_or_the_new_one(place: Place) {
        let store = Store::open(options(&place)).await.unwrap();
        let owner = account(&store, 0).await;
        for _ in 0..3 {
            completed(&store, owner).await;
        }
        let backup = place.folder.path().join("backup");
        back_up(&store, &place, &backup).await;
        let told = format!("{}\n{}\n{owner}\n{}", place.database, place.options().blobs, backup.display());
        for round in 0..8u64 {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["backup::child", "--exact", "--ignored", "--nocapture"])
                .env("HARK_BACKUP_CHILD", &told)
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let manifest = || std::fs::read(backup.join("manifest.json")).unwrap();
            let (before, begun) = (manifest(), Instant::now());
            while manifest() == before && begun.elapsed() < Duration::from_secs(120) {
                assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            tokio::time::sleep(Duration::from_millis(round * 17 % 100)).await;
            child.kill().unwrap();
            child.wait().unwrap();
            let verified = verify_backup(&backup).await.unwrap();
            assert!(verified.recordings >= 3, "{verified:?}");
        }
        // The next one finds its way.
        let report = back_up(&store, &place, &backup).await;
        assert_eq!(report.missing, []);
        let leftover = std::fs::read_dir(&backup).unwrap().flatten().count();
        assert_eq!(leftover, 5, "manifest, database, list, recordings and lock");
        let other = elsewhere(&place).await;
        assert_eq!(restore(&backup, options(&other), RestoreOptions::default()).await.unwrap().missing, []);
    }

    async fn a_restore_takes_only_an_empty_place_and_a_whole_backup(place: Place) {
        let store = place.open().await;
        let owner = account(&store, 0).await;
        let id = completed(&store, owner).await;
        let backup = place.folder.path().join("backup");
        back_up(&store, &place, &backup).await;
        let other = elsewhere(&place).await;
        let theirs = other.open().await;
        let stranger = account(&theirs, 0).await;
        completed(&theirs, stranger).await;
        let why = refused(restore(&backup, other.options(), RestoreOptions::default()).await);
        assert!(why.contains(theirs.id()) && why.contains(store.id()), "{why}");
        let folder = other.folder.path().join("elsewhere").display().to_string();
        let why = refused(restore(&backup, Options { blobs: folder, ..other.options() }, RestoreOptions::default()).await);
        assert!(why.contains("not empty"), "{why}");
        let why = refused(theirs.backup(&other.database, &backup, |_| {}).await);
        assert!(why.contains("another folder"), "{why}");
        theirs.close().await;
        // Whoever means it gets it.
        let restored = restore(&backup, other.options(), RestoreOptions { force: true }).await.unwrap();
        assert_eq!((restored.written, restored.missing.len()), (1, 0));
        let theirs = other.open().await;
        assert_eq!(read(&theirs, owner, id).await, read(&store, owner, id).await);
        theirs.close().await;

        let recording = recordings_in(&backup).pop().unwrap();
        let mut bytes = std::fs::read(&recording).unwrap();
        bytes[3] ^= 1;
        std::fs::write(&recording, &bytes).unwrap();
        let empty = elsewhere(&place).await;
        let why = refused(restore(&backup, empty.options(), RestoreOptions::default()).await);
        assert!(why.contains(&recording.display().to_string()), "{why}");
        assert!(empty.recordings().is_empty(), "nothing was written");
        let why = refused(restore(place.folder.path(), empty.options(), RestoreOptions::default()).await);
        assert!(why.contains("no complete backup"), "{why}");
    }

    async fn a_restore_that_was_interrupted_is_begun_again(place: Place) {
        let store = place.open().await;
        let owner = account(&store, 0).await;
        for _ in 0..3 {
            completed(&store, owner).await;
        }
        let backup = place.folder.path().join("backup");
        back_up(&store, &place, &backup).await;
        let other = elsewhere(&place).await;
        // The id and one recording are there, the database is not.
        let blobs = other.folder.path().join("blobs");
        let first = recordings_in(&backup).pop().unwrap();
        let name = first.file_name().unwrap().to_str().unwrap().to_owned();
        std::fs::create_dir_all(blobs.join(&name[..2])).unwrap();
        std::fs::copy(&first, blobs.join(&name[..2]).join(&name)).unwrap();
        std::fs::write(blobs.join("hark-store.json"), format!("{{\"format\":1,\"store\":\"{}\"}}", store.id())).unwrap();
        let restored = restore(&backup, other.options(), RestoreOptions::default()).await.unwrap();
        assert_eq!((restored.written, restored.kept, restored.missing.len()), (2, 1, 0));
    }

    async fn a_sealed_store_stays_sealed_in_its_backup(place: Place) {
        let store = place.open_sealed(KEY).await;
        let (owner, id) = fill(&store).await;
        let backup = place.folder.path().join("backup");
        // From a bucket and to a bucket goes the same way.
        let report = back_up(&store, &place, &backup).await;
        assert_eq!(report.master_keys, [MasterKey::new(KEY).id()]);
        let mut folders = vec![backup.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                    continue;
                }
                let bytes = std::fs::read(entry.path()).unwrap();
                assert!(!bytes.windows(9).any(|word| word == b"xylophone"), "{}", entry.path().display());
            }
        }
        let other = elsewhere(&place).await;
        let name = other.folder.path().file_name().unwrap().display().to_string().replace('.', "-");
        let to = Options { blobs: format!("memory://{name}/restored"), ..other.options() };
        let restored = restore(&backup, to.clone(), RestoreOptions::default()).await.unwrap();
        assert_eq!((restored.written, restored.missing.len()), (1, 0));
        let keyless = Store::open(to.clone()).await.unwrap();
        assert!(matches!(keyless.transcripts().get(owner, id).await, Err(Error::Sealed(_))));
        keyless.close().await;
        let copy = Store::open(Options { master_keys: MasterKeys::new(MasterKey::new(KEY)), ..to }).await.unwrap();
        let (_, sound) = read(&copy, owner, id).await;
        assert_eq!(sound, b"xylophone audio");
        // And back out of the bucket.
        let second = other.folder.path().join("second");
        let report = back_up(&copy, &other, &second).await;
        assert_eq!((report.copied, report.missing.len()), (1, 0));
        verify_backup(&second).await.unwrap();
    }
}
