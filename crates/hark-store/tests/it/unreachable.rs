//! A folder of recordings that is unreachable for a while, as when its volume is not mounted: what was to be removed meanwhile is removed once it is back.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::accounts::count;
use crate::support::{Place, account, completed, on_both};

/// Moves the folder of the recordings elsewhere; an empty one may be in its place.
fn make_unreachable(place: &Place, is_empty_there: bool) {
    let blobs = place.folder.path().join("blobs");
    std::fs::rename(&blobs, place.folder.path().join("elsewhere")).unwrap();
    if is_empty_there {
        std::fs::create_dir(&blobs).unwrap();
    }
}

fn bring_back(place: &Place) {
    let blobs = place.folder.path().join("blobs");
    if blobs.exists() {
        std::fs::remove_dir(&blobs).expect("nothing was written where the volume is missing");
    }
    std::fs::rename(place.folder.path().join("elsewhere"), blobs).unwrap();
}

on_both! {
    async fn a_recording_deleted_while_its_folder_is_unreachable_is_removed_by_the_sweep(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        for is_empty_there in [false, true] {
            let transcript = completed(&store, id).await;
            make_unreachable(&place, is_empty_there);
            let removed = store.transcripts().delete(id, transcript).await.expect("the deletion stands");
            assert_eq!(removed, [], "it could not be removed yet");
            bring_back(&place);
            assert_eq!(place.recordings().len(), 1);
            let swept = store.recordings().sweep_older_than(Duration::ZERO).await.unwrap();
            assert_eq!((swept.recordings.len(), swept.quarantined.len()), (1, 0));
            assert_eq!(place.recordings().len(), 0);
        }
    }

    async fn an_upload_cut_off_by_its_folder_becoming_unreachable_is_removed_by_the_sweep(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        for is_empty_there in [false, true] {
            let mut upload = store.recordings().upload(id).await.unwrap();
            upload.write(Bytes::from_static(b"half a recording")).await.unwrap();
            make_unreachable(&place, is_empty_there);
            upload.finish().await.expect_err("there is no place for it");
            // The dropped upload is discarded in the background.
            let begun = Instant::now();
            while count(&place.database, "SELECT count(*) FROM blobs WHERE state = 'uploading'").await > 0 {
                assert!(begun.elapsed() < Duration::from_secs(60), "the upload is not discarded");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            bring_back(&place);
            let swept = store.recordings().sweep_older_than(Duration::ZERO).await.unwrap();
            assert_eq!(swept.quarantined, []);
            assert_eq!(place.recordings().len(), 0);
        }
    }

    async fn an_upload_begun_under_a_clock_far_ahead_is_given_up_all_the_same(place: Place) {
        let day = Duration::from_secs(24 * 3600);
        let store = place.open().await;
        let id = account(&store, 10).await;
        let wrong = {
            let clock = hark_store::Clock::manual(crate::support::START);
            clock.advance(400 * day);
            hark_store::Store::open(hark_store::Options { clock, ..place.options() }).await.unwrap()
        };
        let mut upload = wrong.recordings().upload(id).await.unwrap();
        upload.write(Bytes::from_static(b"a recording")).await.unwrap();
        // Nobody accepts it: its process dies before.
        upload.finish().await.unwrap();
        wrong.close().await;
        assert_eq!(place.recordings().len(), 1);
        assert_eq!(store.recordings().sweep_older_than(day).await.unwrap().recordings.len(), 1);
        assert_eq!(place.recordings().len(), 0);
    }
}
