//! Files that the database does not know: kept for days, never removed in bulk.

use std::time::Duration;

use hark_store::{Mismatch, Store, SweepOptions};

use crate::accounts::{count, run_sql};
use crate::support::{Place, account, completed, on_both};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn options() -> SweepOptions {
    SweepOptions { abandoned_after: Duration::ZERO, quarantine: 14 * DAY }
}

/// Files that nobody knows.
fn strays(place: &Place, many: usize) {
    for number in 0..many {
        let name = format!("{number:032x}");
        let folder = place.folder.path().join("blobs").join(&name[..2]);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), "a voice").unwrap();
    }
}

async fn store_with(place: &Place, recordings: usize) -> Store {
    let store = place.open().await;
    let id = account(&store, 0).await;
    for _ in 0..recordings {
        completed(&store, id).await;
    }
    store
}

on_both! {
    async fn an_unknown_file_is_kept_for_days_and_removed_only_then(place: Place) {
        let store = store_with(&place, 2).await;
        strays(&place, 2);
        let swept = store.recordings().sweep(&options()).await.unwrap();
        assert_eq!((swept.quarantined.len(), swept.purged.len()), (2, 0));
        let noted = store.recordings().quarantined().await.unwrap();
        assert_eq!((noted.len(), noted[0].size), (2, 7));
        assert_eq!(store.recordings().restore_quarantined(&[noted[1].key.clone()]).await.unwrap(), 1);
        for _ in 0..13 {
            place.clock.advance(DAY);
            let swept = store.recordings().sweep(&options()).await.unwrap();
            assert_eq!(swept.purged, []);
        }
        assert_eq!(place.recordings().len(), 4);
        place.clock.advance(DAY);
        let swept = store.recordings().sweep(&options()).await.unwrap();
        assert_eq!(swept.purged, [noted[0].key.clone()], "the other one was restored a day before it was noted again");
        place.clock.advance(DAY);
        assert_eq!(store.recordings().sweep(&options()).await.unwrap().purged, [noted[1].key.clone()]);
        assert_eq!(place.recordings().len(), 2);
        assert_eq!(store.recordings().quarantine_count().await.unwrap(), 0);
    }

    async fn a_note_that_no_sweep_confirmed_for_days_begins_anew(place: Place) {
        // A restored database has old notes of files that may be wanted by now.
        let store = store_with(&place, 1).await;
        strays(&place, 1);
        store.recordings().sweep(&options()).await.unwrap();
        place.clock.advance(30 * DAY);
        assert_eq!(store.recordings().sweep(&options()).await.unwrap().purged, []);
        assert_eq!(place.recordings().len(), 2);
    }

    async fn a_file_that_the_database_knows_again_leaves_the_quarantine(place: Place) {
        let store = store_with(&place, 1).await;
        run_sql(&place.database, "UPDATE blobs SET key = 'x' || substr(key, 2)").await;
        assert_eq!(store.recordings().sweep(&options()).await.unwrap().quarantined.len(), 1);
        let key = store.recordings().quarantined().await.unwrap()[0].key.clone();
        run_sql(&place.database, &format!("UPDATE blobs SET key = '{key}'")).await;
        assert_eq!(store.recordings().delete_quarantined(std::slice::from_ref(&key)).await.unwrap(), [], "a known one is not deleted by hand either");
        place.clock.advance(Duration::from_secs(1));
        assert_eq!(store.recordings().sweep(&options()).await.unwrap(), Default::default());
        assert_eq!(store.recordings().quarantine_count().await.unwrap(), 0);
        assert_eq!(place.recordings().len(), 1);
    }

    async fn a_database_that_does_not_fit_stops_the_sweep_and_nothing_is_touched(place: Place) {
        let store = store_with(&place, 3).await;
        strays(&place, 11);
        // A row of this database that would be given up: its file may be live in the right one.
        run_sql(&place.database, "UPDATE blobs SET state = 'uploading'").await;
        place.clock.advance(Duration::from_secs(1));
        let lease = store.recordings().begin_sweep(Duration::ZERO, DAY).await.unwrap();
        assert!(lease.is_none(), "the first one is not at the start");
        place.clock.advance(Duration::from_secs(1));
        let lease = store.recordings().begin_sweep(Duration::ZERO, DAY).await.unwrap().unwrap();
        let swept = store.recordings().sweep(&options()).await.unwrap();
        assert_eq!(swept.mismatch, Some(Mismatch { unknown: 11, files: 14 }));
        store.recordings().end_sweep(lease, Some(&swept)).await.unwrap();
        assert_eq!(store.recordings().mismatch().await.unwrap(), swept.mismatch, "other processes see it");
        assert_eq!((swept.quarantined, swept.recordings), (vec![], vec![]));
        assert_eq!(place.recordings().len(), 14);
        assert_eq!(count(&place.database, "SELECT count(*) FROM quarantine").await, 0);
    }

    async fn one_process_sweeps_for_all_and_not_before_its_time(place: Place) {
        let (one, two) = (place.open().await, place.open().await);
        let hour = Duration::from_secs(3600);
        assert!(one.recordings().begin_sweep(hour, hour).await.unwrap().is_none());
        place.clock.advance(hour);
        let lease = one.recordings().begin_sweep(hour, hour).await.unwrap().unwrap();
        assert!(two.recordings().begin_sweep(hour, hour).await.unwrap().is_none());
        one.recordings().end_sweep(lease, Some(&Default::default())).await.unwrap();
        assert!(two.recordings().begin_sweep(hour, hour).await.unwrap().is_none(), "it was done just now");
        place.clock.advance(hour);
        // Its process dies in the middle.
        let dead = two.recordings().begin_sweep(hour, hour).await.unwrap().unwrap();
        place.clock.advance(hour);
        let next = one.recordings().begin_sweep(hour, hour).await.unwrap().unwrap();
        two.recordings().end_sweep(dead, Some(&Default::default())).await.unwrap();
        assert!(two.recordings().begin_sweep(Duration::ZERO, hour).await.unwrap().is_none(), "who was late ends nobody else's sweep");
        one.recordings().end_sweep(next, None).await.unwrap();
        assert!(two.recordings().begin_sweep(hour, hour).await.unwrap().is_some(), "one that failed is due again");
    }
}
