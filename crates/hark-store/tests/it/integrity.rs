//! Damage is found and named, and a damaged database is not used.

use std::os::unix::fs::FileExt;

use hark_store::{Error, Options, Store};

use crate::support::{Place, account, completed, on_both};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_with_a_damaged_page_is_refused_with_what_to_do() {
    let place = Place::sqlite();
    let store = place.open().await;
    let owner = account(&store, 1000).await;
    for number in 0..300 {
        store.ledger().grant(owner, 1, &format!("{number} {}", "x".repeat(400))).await.unwrap();
    }
    store.close().await;
    let path = place.folder.path().join("data/hark.db");
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    assert!(pages > 40, "{pages}");
    // The ledger's pages are the last ones.
    file.write_all_at(&[0x5a; 4096], (pages - 10) * 4096).unwrap();
    drop(file);
    let refused = Store::open(place.options()).await.map(drop).unwrap_err();
    assert!(matches!(refused, Error::Damaged(_)), "{refused}");
    assert!(refused.to_string().contains("hark restore"), "{refused}");
    // Whoever wants to know more may look.
    let store = Store::open(Options { check_at_open: false, ..place.options() }).await.unwrap();
    assert!(!store.integrity().check_database().await.unwrap().is_empty());
    store.close().await;
}

on_both! {
    async fn what_is_sound_has_no_findings(place: Place) {
        let store = place.open().await;
        let owner = account(&store, 10).await;
        completed(&store, owner).await;
        assert_eq!(store.integrity().check_database().await.unwrap(), [] as [String; 0]);
        let recordings = store.integrity().check_recordings(10).await.unwrap();
        assert_eq!((recordings.checked, recordings.problems.len()), (1, 0));
        store.integrity().probe_database().await.unwrap();
        store.integrity().probe_recordings().await.unwrap();
    }

    async fn recordings_that_are_missing_cut_or_changed_are_named(place: Place) {
        for sealed in [false, true] {
            let store = if sealed { place.open_sealed([3; 32]).await } else { place.open().await };
            let owner = account(&store, 10).await;
            let id = completed(&store, owner).await;
            let key = store.recordings().get(owner, id).await.unwrap().key;
            let path = place.recordings().into_iter().find(|path| path.ends_with(key.as_str())).unwrap();
            let whole = std::fs::read(&path).unwrap();
            let problems = async || {
                let found = store.integrity().check_recordings(100).await.unwrap().problems;
                found.into_iter().filter(|found| found.key == key).map(|found| found.problem).collect::<Vec<_>>()
            };
            assert_eq!(problems().await, [] as [String; 0]);
            std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
            assert_eq!(problems().await.len(), 1, "cut, sealed: {sealed}");
            // One bit in the middle, the length as it was.
            let mut changed = whole.clone();
            changed[whole.len() / 2] ^= 1;
            std::fs::write(&path, changed).unwrap();
            let found = problems().await;
            assert_eq!(found.len(), 1, "changed, sealed: {sealed}");
            assert!(sealed || found[0].contains("not what was uploaded"), "{found:?}");
            std::fs::remove_file(&path).unwrap();
            assert_eq!(problems().await, ["it is missing"]);
            std::fs::write(&path, &whole).unwrap();
            store.close().await;
        }
    }
}
