//! What callers get while the database is unreachable, full or gone, and that everything works again once it is back, without a restart.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use hark_store::{Clock, Error, NewAccount, Options, Plan, Store};

use crate::support::{Place, account, assert_balanced, on_both};

/// A mount of its own, where the one who runs the tests may make one: as root or in a user namespace.
const TMPFS: &str = r#"mount -t tmpfs -o size=24m,mode=0700 tmpfs "$1" && shift && exec "$@""#;

#[test]
#[ignore = "needs unshare and user namespaces"]
fn writes_succeed_again_as_soon_as_a_full_disk_has_space() {
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", TMPFS, "sh"])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .args(["unavailable::child_on_a_small_disk", "--exact", "--ignored", "--nocapture"])
        .env("HARK_SMALL_DISK", folder.path())
        .output()
        .expect("unshare (util-linux) can be run");
    let said = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "the disk-full test failed, or this machine allows no user namespaces:\n{said}");
    assert!(said.contains("1 passed"), "{said}");
}

/// Not a test by itself: it wants a small disk to fill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the child of the disk-full test"]
async fn child_on_a_small_disk() {
    let Some(folder) = std::env::var_os("HARK_SMALL_DISK") else { panic!("HARK_SMALL_DISK names no folder") };
    let folder = Path::new(&folder);
    let database = format!("sqlite://{}", folder.join("hark.db").display());
    let store = Store::open(Options::new(database, folder.join("blobs").display().to_string())).await.unwrap();
    let owner = account(&store, 1_000_000).await;
    for round in 0..3 {
        let ballast = folder.join("ballast");
        fill(&ballast);
        let mut written = 0;
        let error = loop {
            match store.ledger().grant(owner, 1, &"x".repeat(2000)).await {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 100_000, "the disk is not full");
        };
        assert!(error.is_unavailable(), "round {round}: {error:?}");
        // Reading needs no space.
        store.accounts().get(owner).await.unwrap();
        std::fs::remove_file(&ballast).unwrap();
        store.ledger().grant(owner, 1, "there is space again").await.unwrap();
        assert_balanced(&store).await;
    }
    store.close().await;
}

fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    let mut piece = 1 << 20;
    while piece > 0 {
        if file.write_all(&vec![1; piece]).is_err() {
            piece /= 2;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_to_a_database_file_that_was_replaced() {
    let place = Place::sqlite();
    let store = place.open().await;
    let owner = account(&store, 10).await;
    let path = place.folder.path().join("data/hark.db");
    let aside = place.folder.path().join("data/aside.db");
    std::fs::rename(&path, &aside).unwrap();
    for replaced in [false, true] {
        if replaced {
            std::fs::copy(&aside, &path).unwrap();
        }
        let error = store.ledger().grant(owner, 1, "").await.unwrap_err();
        assert!(error.is_unavailable() && error.to_string().contains("replaced"), "{error}");
    }
    std::fs::rename(&aside, &path).unwrap();
    store.ledger().grant(owner, 1, "").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn a_postgres_that_stops_is_unavailable_at_once_and_used_again_when_it_is_back() {
    let server = hark_postgres::new_server().await.unwrap_or_else(|error| panic!("{error}"));
    let folder = tempfile::tempdir().unwrap();
    let options =
        Options { clock: Clock::system(), ..Options::new(server.address(), folder.path().display().to_string()) };
    let store = Store::open(options).await.unwrap();
    let owner = account(&store, 10).await;
    for _ in 0..2 {
        server.stop().unwrap();
        let begun = Instant::now();
        // More callers than connections: nobody waits behind the others.
        let calls: Vec<_> = (0..40)
            .map(|n| {
                let store = store.clone();
                tokio::spawn(async move {
                    if n % 2 == 0 {
                        store.accounts().get(owner).await.map(drop)
                    } else {
                        store.ledger().grant(owner, 1, "").await.map(drop)
                    }
                })
            })
            .collect();
        for call in calls {
            let error = call.await.unwrap().unwrap_err();
            assert!(error.is_unavailable(), "{error:?}");
        }
        // 4 s are allowed; a busy machine may take longer, but not the 30 s of a hang.
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        server.start().await.unwrap_or_else(|error| panic!("{error}"));
        store.ledger().grant(owner, 1, "").await.unwrap();
        store.accounts().get(owner).await.unwrap();
    }
    store.close().await;
}

on_both! {
    async fn text_with_nul_is_invalid_on_both_databases(place: Place) {
        let store = place.open().await;
        let owner = account(&store, 10).await;
        let refused = |error: Error| matches!(error, Error::Invalid(_));
        let new = NewAccount::new("a\0b@example.org", Plan::Free);
        assert!(store.accounts().create(&new).await.is_err_and(refused));
        assert!(store.ledger().grant(owner, 1, "a\0note").await.is_err_and(refused));
        assert!(store.accounts().by_email("a\0b@example.org").await.is_err_and(refused));
        // Neither the writer nor a reader suffers from it.
        store.ledger().grant(owner, 1, "a note").await.unwrap();
        assert_balanced(&store).await;
    }
}
