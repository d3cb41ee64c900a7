//! A database and recordings that don't belong together are refused before anything is touched.

use hark_store::{Error, IdentityCheck, Options, Store};

use crate::accounts::run_sql;
use crate::support::{Place, account, completed, on_both};

fn refused(opened: hark_store::Result<Store>) -> String {
    match opened {
        Err(Error::Setup(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// Another database over the recordings of `place`.
async fn stranger(place: &Place) -> (Place, Options) {
    let other = if place.database.starts_with("sqlite:") { Place::sqlite() } else { Place::postgres().await };
    let options = Options { blobs: place.options().blobs, ..other.options() };
    (other, options)
}

/// As a version before ids left it.
async fn without_ids(place: &Place) {
    run_sql(&place.database, "DELETE FROM store_meta").await;
    std::fs::remove_file(place.folder.path().join("blobs/hark-store.json")).unwrap();
}

on_both! {
    async fn an_empty_database_on_the_recordings_of_another_is_refused_and_touches_nothing(place: Place) {
        let store = place.open().await;
        let id = account(&store, 0).await;
        for _ in 0..3 {
            completed(&store, id).await;
        }
        let (ours, before) = (store.id().to_owned(), place.recordings());
        store.close().await;
        let (_other, options) = stranger(&place).await;
        let why = refused(Store::open(options.clone()).await);
        assert!(why.contains(&ours) && why.contains("hark store adopt"), "{why}");
        assert_eq!(place.recordings(), before);
        // The same for a database that has an id of its own: both are named.
        let (other, _) = stranger(&place).await;
        let theirs = other.open().await.id().to_owned();
        let why = refused(Store::open(Options { blobs: place.options().blobs, ..other.options() }).await);
        assert!(why.contains(&ours) && why.contains(&theirs), "{why}");
        // An operator who means it says so.
        let adopt = Options { identity: IdentityCheck::Adopt, blobs: place.options().blobs, ..other.options() };
        assert_eq!(Store::open(adopt).await.unwrap().id(), theirs);
        assert!(refused(Store::open(place.options()).await).contains(&theirs));
        assert_eq!(place.recordings(), before);
    }

    async fn a_store_of_a_version_before_ids_is_adopted_if_its_recordings_are_known(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        let kept = completed(&store, account).await;
        store.close().await;
        without_ids(&place).await;
        let store = place.open().await;
        assert!(store.recordings().get(account, kept).await.is_ok());
        let id = store.id().to_owned();
        store.close().await;
        assert_eq!(place.open().await.id(), id, "the id stays");
        // Without ids an empty database is a stranger all the same: it knows none of the files.
        std::fs::remove_file(place.folder.path().join("blobs/hark-store.json")).unwrap();
        let (_other, options) = stranger(&place).await;
        assert!(refused(Store::open(options).await).contains("does not know"));
    }

    async fn a_folder_that_is_not_mounted_is_noticed(place: Place) {
        let store = place.open().await;
        completed(&store, account(&store, 0).await).await;
        store.close().await;
        std::fs::rename(place.folder.path().join("blobs"), place.folder.path().join("elsewhere")).unwrap();
        let why = refused(Store::open(place.options()).await);
        assert!(why.contains("1 recordings") && why.contains("holds none"), "{why}");
        std::fs::remove_dir_all(place.folder.path().join("blobs")).unwrap();
        std::fs::rename(place.folder.path().join("elsewhere"), place.folder.path().join("blobs")).unwrap();
        place.open().await;
    }

    async fn a_bucket_carries_the_id_too(place: Place) {
        let name = format!("memory://{}", place.folder.path().file_name().unwrap().display()).replace('.', "-");
        let options = Options { blobs: format!("{name}/prefix"), ..place.options() };
        let store = Store::open(options.clone()).await.unwrap();
        completed(&store, account(&store, 0).await).await;
        let id = store.id().to_owned();
        store.close().await;
        assert_eq!(Store::open(options.clone()).await.unwrap().id(), id);
        let (_other, stranger) = stranger(&place).await;
        assert!(refused(Store::open(Options { blobs: options.blobs.clone(), ..stranger }).await).contains(&id));
        // Another prefix of the bucket is another place: empty, so that the recording is missed.
        let why = refused(Store::open(Options { blobs: format!("{name}/other"), ..options }).await);
        assert!(why.contains("holds none"), "{why}");
    }
}
