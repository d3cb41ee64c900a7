//! Uploads in parts: what is kept, what a job consumes, and what is left of those that nobody finishes.

use std::time::Duration;

use bytes::Bytes;
use hark_store::{
    Accepted, AccountId, Error, IdempotencyKey, Limit, MAX_OPEN_UPLOADS, NamedUpload, NewJob, OpenUpload, Owner, Store,
    UPLOAD_KEPT, UploadId,
};

use crate::support::{account, assert_balanced, new_job, on_both, upload};

/// Adds a piece of an upload.
async fn add(store: &Store, account: AccountId, id: UploadId, offset: u64, bytes: &[u8]) -> Result<OpenUpload, Error> {
    let piece = upload(store, account, bytes).await;
    store.uploads().add(account, id, offset, &piece).await
}

/// A complete upload of these pieces.
async fn complete(store: &Store, account: AccountId, pieces: &[&[u8]]) -> OpenUpload {
    let size = pieces.iter().map(|piece| piece.len() as u64).sum();
    let mut state = store.uploads().create(account, "talk.wav", size, None).await.unwrap();
    for piece in pieces {
        state = add(store, account, state.id, state.received, piece).await.unwrap();
    }
    assert!(state.is_complete());
    state
}

/// A job over an upload.
async fn job(store: &Store, account: AccountId, upload: &OpenUpload) -> NewJob {
    let blob = store.uploads().join(account, upload, true).await.unwrap();
    let job = new_job(store, &Owner::Account(account), 1).await;
    store.recordings().discard(&job.blob.key).await.unwrap();
    NewJob { blob, ..job }
}

fn named(key: &str) -> Option<IdempotencyKey> {
    let keep = Duration::from_secs(86_400);
    Some(IdempotencyKey { key: key.into(), fingerprint: vec![1; 32], older: Vec::new(), keep })
}

/// Waits for files that are removed after the answer.
async fn recordings(place: &crate::support::Place, count: usize) {
    for _ in 0..200 {
        if place.recordings().len() == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{:?} instead of {count}", place.recordings());
}

on_both! {
    async fn pieces_are_joined_and_the_job_consumes_them_once(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let state = complete(&store, id, &[b"RIFF ", b"a recording ", b"in parts"]).await;
        assert_eq!((state.name.as_str(), state.size, state.received), ("talk.wav", 25, 25));
        assert_eq!(place.recordings().len(), 3);
        let (first, second) = (job(&store, id, &state).await, job(&store, id, &state).await);
        let blob = first.blob.clone();
        let Accepted::New { transcript, .. } = store.jobs().accept(first).await.unwrap() else { panic!("no repeat") };
        let read = store.recordings().read(&blob, None).await.unwrap().read_all().await.unwrap();
        assert_eq!(read, b"RIFF a recording in parts");
        let again = store.jobs().accept(second).await;
        assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
        assert!(matches!(store.uploads().find(id, state.id).await, Err(Error::NotFound(_))));
        assert!(matches!(add(&store, id, state.id, 25, b"x").await, Err(Error::Conflict(_))));
        recordings(&place, 1).await;
        assert_eq!(store.recordings().get(id, transcript).await.unwrap().size, 25);
        assert_eq!(store.recordings().bytes_used(id).await.unwrap(), 25);
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 9);
        assert_balanced(&store).await;
    }

    async fn a_piece_goes_where_the_upload_ends_and_nowhere_else(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let state = store.uploads().create(id, "talk.wav", 10, None).await.unwrap();
        assert!(matches!(add(&store, id, state.id, 1, b"bc").await, Err(Error::Conflict(_))));
        assert!(matches!(add(&store, id, state.id, 0, b"eleven bytes").await, Err(Error::Conflict(_))));
        assert_eq!(add(&store, id, state.id, 0, b"abc").await.unwrap().received, 3);
        let incomplete = store.uploads().get(id, state.id).await.unwrap();
        assert!(matches!(store.uploads().join(id, &incomplete, true).await, Err(Error::Conflict(_))));
        // Of several at once one goes on, and nothing of the others is left.
        let adds = (0..5).map(|_| {
            let store = store.clone();
            tokio::spawn(async move { add(&store, id, state.id, 3, b"defg").await.is_ok() })
        });
        let mut added = 0;
        for one in adds.collect::<Vec<_>>() {
            added += usize::from(one.await.unwrap());
        }
        assert_eq!((added, store.uploads().get(id, state.id).await.unwrap().received), (1, 7));
        assert_eq!(place.recordings().len(), 2);
        let report = store.integrity().check_recordings(10).await.unwrap();
        assert_eq!((report.checked, report.problems.len()), (2, 0));
    }

    async fn uploads_are_of_their_account_and_count_against_its_storage(place: Place) {
        let store = place.open().await;
        let (id, other) = (account(&store, 10).await, account(&store, 10).await);
        let state = store.uploads().create(id, "talk.wav", 600, Some(1000)).await.unwrap();
        assert_eq!(store.recordings().bytes_used(id).await.unwrap(), 600);
        let refused = store.uploads().create(id, "talk.wav", 401, Some(1000)).await;
        assert!(matches!(refused, Err(Error::Limit { what: Limit::StorageBytes, limit: 1000, used: 600 })), "{refused:?}");
        assert!(matches!(store.uploads().get(other, state.id).await, Err(Error::NotFound(_))));
        assert!(matches!(add(&store, other, state.id, 0, b"x").await, Err(Error::Conflict(_))));
        assert!(matches!(store.uploads().delete(other, state.id).await, Err(Error::NotFound(_))));
        for _ in 1..MAX_OPEN_UPLOADS {
            store.uploads().create(id, "", 1, Some(1000)).await.unwrap();
        }
        assert!(matches!(store.uploads().create(id, "", 1, Some(1000)).await, Err(Error::Conflict(_))));
        store.uploads().create(other, "", 1, Some(1000)).await.unwrap();
        add(&store, id, state.id, 0, b"some").await.unwrap();
        store.uploads().delete(id, state.id).await.unwrap();
        assert!(matches!(store.uploads().delete(id, state.id).await, Err(Error::NotFound(_))));
        assert_eq!((place.recordings().len(), store.recordings().bytes_used(id).await.unwrap()), (0, 3));
        store.uploads().create(id, "", 1, Some(1000)).await.unwrap();
    }

    async fn a_repeat_knows_what_the_upload_held(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let state = complete(&store, id, &[b"RIFF ", b"parts"]).await;
        let first = NewJob { idempotency: named("once"), ..job(&store, id, &state).await };
        let hash = first.blob.sha256.unwrap();
        let Accepted::New { transcript, .. } = store.jobs().accept(first).await.unwrap() else { panic!("no repeat") };
        assert_eq!(store.uploads().find(id, state.id).await.unwrap(), NamedUpload::Used { sha256: hash });
        assert!(matches!(store.uploads().get(id, state.id).await, Err(Error::NotFound(_))));
        assert!(matches!(store.uploads().delete(id, state.id).await, Err(Error::NotFound(_))));
        let owner = Owner::Account(id);
        assert_eq!(store.idempotency().transcript(&owner, &named("once").unwrap()).await.unwrap(), Some(transcript));
        assert!(matches!(store.idempotency().enhancement(&owner, &named("once").unwrap()).await, Err(Error::KeyReused)));
        recordings(&place, 1).await;
        place.clock.advance(UPLOAD_KEPT + Duration::from_secs(1));
        assert!(matches!(store.uploads().find(id, state.id).await, Err(Error::NotFound(_))));
    }

    async fn a_refused_job_leaves_the_upload_as_it_is(place: Place) {
        let store = place.open().await;
        let id = account(&store, 0).await;
        let state = complete(&store, id, &[b"RIFF ", b"parts"]).await;
        let poor = job(&store, id, &state).await;
        assert!(matches!(store.jobs().accept(poor).await, Err(Error::NotEnoughCredits { .. })));
        assert_eq!(store.uploads().get(id, state.id).await.unwrap(), state);
        let free = NewJob { hold: 0, max_storage: Some(10), ..job(&store, id, &state).await };
        store.jobs().accept(free).await.expect("its bytes are not counted twice");
    }

    async fn what_nobody_finishes_goes(place: Place) {
        let store = place.open().await;
        let (id, gone) = (account(&store, 10).await, account(&store, 10).await);
        let state = store.uploads().create(id, "talk.wav", 10, None).await.unwrap();
        add(&store, id, state.id, 0, b"abc").await.unwrap();
        let lost = complete(&store, gone, &[b"a", b"b"]).await;
        store.accounts().delete(gone).await.unwrap();
        assert!(matches!(store.uploads().find(gone, lost.id).await, Err(Error::NotFound(_))));
        assert_eq!(place.recordings().len(), 1);
        // A process that was killed between a file and its row leaves an upload that was never added.
        std::mem::forget(store.recordings().upload(id).await.unwrap());
        let day = Duration::from_secs(86_400);
        place.clock.advance(day / 2);
        // Every byte begins the time anew.
        add(&store, id, state.id, 3, b"def").await.unwrap();
        place.clock.advance(day / 2 + Duration::from_secs(60));
        store.recordings().sweep_older_than(day).await.unwrap();
        assert_eq!(place.recordings().len(), 2, "{:?}", place.recordings());
        assert_eq!(store.uploads().get(id, state.id).await.unwrap().received, 6);
        place.clock.advance(day / 2);
        assert!(matches!(store.uploads().get(id, state.id).await, Err(Error::NotFound(_))));
        assert!(matches!(add(&store, id, state.id, 6, b"g").await, Err(Error::Conflict(_))));
        store.recordings().sweep_older_than(day).await.unwrap();
        assert_eq!((place.recordings().len(), store.recordings().bytes_used(id).await.unwrap()), (0, 0));
    }

    async fn sealed_uploads_show_neither_name_nor_sound(place: Place) {
        let store = place.open_sealed([7; 32]).await;
        let id = account(&store, 10).await;
        let mut state = store.uploads().create(id, "a-telling-name.wav", 26, None).await.unwrap();
        for piece in [b"RIFF a secret", b" said in here"] {
            state = add(&store, id, state.id, state.received, piece).await.unwrap();
        }
        let taken = NewJob { idempotency: named("once"), ..job(&store, id, &state).await };
        let (blob, hash) = (taken.blob.clone(), taken.blob.sha256.unwrap());
        store.jobs().accept(taken).await.unwrap();
        let read = store.recordings().read(&blob, None).await.unwrap().read_all().await.unwrap();
        assert_eq!(read, b"RIFF a secret said in here");
        assert_eq!(store.uploads().find(id, state.id).await.unwrap(), NamedUpload::Used { sha256: hash });
        store.close().await;
        for file in place.files() {
            let bytes = std::fs::read(&file).unwrap();
            for secret in [&b"telling-name"[..], b"a secret", b"said in", &hash] {
                assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{file:?}");
            }
        }
    }

    async fn sealing_everything_discards_uploads_in_the_clear(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let state = store.uploads().create(id, "talk.wav", 10, None).await.unwrap();
        add(&store, id, state.id, 0, b"abc").await.unwrap();
        store.close().await;
        let store = place.open_sealed([7; 32]).await;
        store.sealing().seal_all(|_| {}).await.unwrap();
        assert!(matches!(store.uploads().get(id, state.id).await, Err(Error::NotFound(_))));
        assert_eq!(place.recordings().len(), 0);
        let after = store.uploads().create(id, "talk.wav", 3, None).await.unwrap();
        let mut piece = store.recordings().upload(id).await.unwrap();
        piece.write(Bytes::from_static(b"abc")).await.unwrap();
        let piece = piece.finish().await.unwrap();
        assert!(piece.is_sealed);
        let state = store.uploads().add(id, after.id, 0, &piece).await.unwrap();
        store.uploads().join(id, &state, false).await.unwrap();
    }
}
