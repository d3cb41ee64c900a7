use std::io::{Read, Seek, SeekFrom};
use std::time::Duration;

use bytes::Bytes;
use hark_store::{BlobSource, Error, Owner, Store};
use sha2::{Digest, Sha256};

use crate::accounts::{count, run_sql};
use crate::support::{Place, accept, account, completed, new_job, on_both, upload};

/// Bytes that repeat nowhere.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

/// Lengths around every border: chunks of 64 KiB, steps of 256 KiB, batches of 1 MiB.
const LENGTHS: [usize; 11] =
    [0, 1, 65_535, 65_536, 65_537, 131_072, 262_144, 262_145, 1 << 20, (1 << 20) + 1, 3_000_001];

async fn round_trip(store: &Store) {
    let id = account(store, 0).await;
    for length in LENGTHS {
        let bytes = noise(length);
        let mut upload = store.recordings().upload(id).await.unwrap();
        for piece in bytes.chunks(77_777) {
            upload.write(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        let blob = upload.finish().await.unwrap();
        assert_eq!(blob.size, length as u64);
        assert_eq!(blob.sha256.unwrap()[..], Sha256::digest(&bytes)[..]);
        assert!(
            store.recordings().read(&blob, None).await.unwrap().read_all().await.unwrap() == bytes,
            "{length} bytes"
        );
        let end = length as u64;
        for range in [
            0..end,
            1..end,
            end / 2..end / 2 + 1,
            end / 3..end,
            65_536..65_537,
            65_535..131_073,
            0..end + 99,
            end + 1..end + 9,
        ] {
            let found = store.recordings().read(&blob, Some(range.clone())).await.unwrap().read_all().await.unwrap();
            let wanted = &bytes[(range.start as usize).min(length)..(range.end as usize).min(length)];
            assert!(found == wanted, "{range:?} of {length}");
        }
    }
    let mut upload = store.recordings().upload(id).await.unwrap().without_hash();
    upload.write(Bytes::from_static(b"whatever its hash")).await.unwrap();
    let blob = upload.finish().await.unwrap();
    assert_eq!(blob.sha256, None);
    assert_eq!(store.recordings().read(&blob, None).await.unwrap().read_all().await.unwrap(), b"whatever its hash");
}

on_both! {
    async fn recordings_come_back_as_they_were(place: Place) {
        round_trip(&place.open().await).await;
    }

    async fn sealed_recordings_come_back_as_they_were(place: Place) {
        round_trip(&place.open_sealed([7; 32]).await).await;
    }

    async fn a_decoder_reads_a_file_or_seeks_in_a_sealed_one(place: Place) {
        let bytes = noise(1_000_000);
        let store = place.open().await;
        let plain = upload(&store, account(&store, 0).await, &bytes).await;
        let BlobSource::Path(path) = store.recordings().source(&plain).await.unwrap() else { panic!("a plain recording is a file") };
        assert!(std::fs::read(&path).unwrap() == bytes);
        assert_eq!(store.recordings().local_path(&plain), Some(path));
        let store = place.open_sealed([7; 32]).await;
        let sealed = upload(&store, account(&store, 0).await, &bytes).await;
        assert_eq!(store.recordings().local_path(&sealed), None);
        let BlobSource::Reader(mut reader) = store.recordings().source(&sealed).await.unwrap() else { panic!("a sealed one is not") };
        tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            assert!(all == bytes);
            for at in [0, 65_530, 262_140, 999_990] {
                reader.seek(SeekFrom::Start(at)).unwrap();
                let mut ten = [0; 10];
                reader.read_exact(&mut ten).unwrap();
                assert_eq!(ten, bytes[at as usize..at as usize + 10]);
            }
            assert_eq!(reader.seek(SeekFrom::End(-5)).unwrap(), 999_995);
            assert!(reader.seek(SeekFrom::Current(-1_000_000)).is_err());
        })
        .await
        .unwrap();
    }

    async fn an_upload_that_is_given_up_leaves_nothing(place: Place) {
        let store = place.open().await;
        let mut upload = store.recordings().upload(account(&store, 0).await).await.unwrap();
        upload.write(Bytes::from(noise(3_000_000))).await.unwrap();
        assert_eq!(place.recordings().len(), 1);
        drop(upload);
        for _ in 0..500 {
            if place.recordings().is_empty() && count(&place.database, "SELECT count(*) FROM blobs").await == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("left: {:?}", place.recordings());
    }

    async fn the_sweep_removes_what_a_crash_left_behind(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let kept = completed(&store, id).await;
        accept(&store, id, 1).await;
        // A crash after the upload and before its job.
        let unfinished = upload(&store, id, b"never accepted").await;
        // A crash after a transcript's deletion was committed and before its file was removed.
        let deleted = completed(&store, id).await;
        run_sql(&place.database, &format!("UPDATE blobs SET state = 'deleting' WHERE transcript_id = {deleted}")).await;
        // A recording whose transcript is gone.
        let orphan = completed(&store, id).await;
        run_sql(&place.database, &format!("DELETE FROM transcripts WHERE id = {orphan}")).await;
        // A file that the database does not know, and a half-written one.
        std::fs::create_dir_all(place.folder.path().join("blobs/ab")).unwrap();
        std::fs::write(place.folder.path().join("blobs/ab/abababababababababababababababab"), "stray").unwrap();
        std::fs::write(place.folder.path().join("blobs/incoming/cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd"), "half").unwrap();
        std::fs::write(place.folder.path().join("blobs/README"), "not ours").unwrap();
        // A readiness probe that was killed.
        std::fs::write(place.folder.path().join("blobs/incoming/probe-abc"), "abc").unwrap();
        assert_eq!(place.recordings().len(), 9);
        let early = store.recordings().sweep_older_than(Duration::from_secs(3600)).await.unwrap();
        assert_eq!((early.recordings.len(), early.quarantined.len()), (2, 0), "what is young may still be wanted");
        place.clock.advance(Duration::from_secs(1));
        let swept = store.recordings().sweep_older_than(Duration::ZERO).await.unwrap();
        assert_eq!(swept.recordings, [unfinished.key]);
        assert_eq!(swept.quarantined.len(), 2);
        assert_eq!(place.recordings().len(), 5, "two recordings, a file that is not ours, and two that nobody knows");
        assert!(store.recordings().get(id, kept).await.is_ok());
        assert_eq!(store.recordings().sweep_older_than(Duration::ZERO).await.unwrap(), Default::default());
    }

    async fn a_job_whose_upload_was_swept_is_refused(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let job = new_job(&store, &Owner::Account(id), 1).await;
        place.clock.advance(Duration::from_secs(1));
        assert_eq!(store.recordings().sweep_older_than(Duration::ZERO).await.unwrap().recordings.len(), 1);
        assert!(matches!(store.jobs().accept(job).await, Err(Error::Conflict(_))));
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 10);
    }

    async fn a_recording_of_another_account_is_not_accepted(place: Place) {
        let store = place.open().await;
        let (ours, theirs) = (account(&store, 0).await, account(&store, 0).await);
        let stolen = upload(&store, theirs, b"their voice").await;
        let job = new_job(&store, &Owner::Account(ours), 0).await;
        let refused = store.jobs().accept(hark_store::NewJob { blob: stolen.clone(), ..job }).await;
        assert!(matches!(refused, Err(Error::Conflict(_))), "{refused:?}");
        assert!(store.recordings().read(&stolen, None).await.is_ok(), "it stays with its owner");
    }
}

/// Changes the only recording on disk.
fn change(place: &Place, how: impl FnOnce(&mut Vec<u8>)) {
    let path = place.recordings().pop().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    how(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_sealed_recording_that_was_tampered_with_does_not_open() {
    const HEADER: usize = 27;
    const CHUNK: usize = 65_536 + 16;
    type Change = fn(&mut Vec<u8>);
    let changes: [(&str, Change); 8] = [
        ("a bit flipped", |b| b[HEADER + 70_000] ^= 1),
        ("cut off at a chunk", |b| b.truncate(HEADER + 2 * CHUNK)),
        ("cut off inside a chunk", |b| b.truncate(HEADER + 2 * CHUNK + 100)),
        ("cut off inside what would be a tag", |b| b.truncate(HEADER + 2 * CHUNK + 5)),
        ("cut off after what would be a tag", |b| b.truncate(HEADER + 2 * CHUNK + 16)),
        ("chunks swapped", |b| {
            let (first, second) = b[HEADER..HEADER + 2 * CHUNK].split_at_mut(CHUNK);
            first.swap_with_slice(second);
        }),
        ("a chunk left out", |b| drop(b.drain(HEADER..HEADER + CHUNK))),
        ("something appended", |b| b.extend([0; 20])),
    ];
    for (what, how) in changes {
        let place = Place::sqlite();
        let store = place.open_sealed([7; 32]).await;
        let blob = upload(&store, account(&store, 0).await, &noise(200_000)).await;
        change(&place, how);
        let read = async { store.recordings().read(&blob, None).await?.read_all().await };
        assert!(matches!(read.await, Err(Error::Damaged(_))), "{what} was not noticed");
    }
}

#[tokio::test]
async fn an_empty_sealed_recording_is_verified_before_it_is_read() {
    let place = Place::sqlite();
    let store = place.open_sealed([7; 32]).await;
    let blob = upload(&store, account(&store, 0).await, b"").await;
    assert_eq!(store.recordings().read(&blob, None).await.unwrap().read_all().await.unwrap(), b"");
    change(&place, |bytes| *bytes.last_mut().unwrap() ^= 1);
    let read = async { store.recordings().read(&blob, None).await?.read_all().await };
    assert!(matches!(read.await, Err(Error::Damaged(_))), "its tag was changed");
    assert!(matches!(store.recordings().source(&blob).await.map(drop), Err(Error::Damaged(_))), "for a decoder");
}

#[tokio::test]
async fn sealed_recordings_can_not_stand_for_each_other() {
    let place = Place::sqlite();
    let store = place.open_sealed([7; 32]).await;
    let id = account(&store, 0).await;
    let (one, two) = (upload(&store, id, b"one").await, upload(&store, id, b"two").await);
    let path =
        |blob: &hark_store::Blob| place.recordings().into_iter().find(|p| p.ends_with(blob.key.as_str())).unwrap();
    std::fs::copy(path(&one), path(&two)).unwrap();
    let read = async { store.recordings().read(&two, None).await?.read_all().await };
    assert!(matches!(read.await, Err(Error::Damaged(_))));
}

/// The way to a bucket is the same for all of them; this one is in memory.
async fn bucket(master_keys: hark_store::MasterKeys) -> (Place, Store) {
    let place = Place::sqlite();
    let options = hark_store::Options { blobs: "memory://".into(), master_keys, ..place.options() };
    let store = Store::open(options).await.unwrap();
    (place, store)
}

#[tokio::test]
async fn recordings_come_back_from_a_bucket_as_they_were() {
    let (_place, store) = bucket(hark_store::MasterKeys::none()).await;
    round_trip(&store).await;
    let (_place, store) = bucket(hark_store::MasterKeys::new(hark_store::MasterKey::new([7; 32]))).await;
    round_trip(&store).await;
}

#[tokio::test]
async fn a_bucket_is_swept_and_read_by_a_decoder() {
    let (place, store) = bucket(hark_store::MasterKeys::none()).await;
    let id = account(&store, 0).await;
    let kept = completed(&store, id).await;
    let recording = store.recordings().get(id, kept).await.unwrap();
    let BlobSource::Reader(mut reader) = store.recordings().source(&recording).await.unwrap() else {
        panic!("a bucket has no files")
    };
    let read = tokio::task::spawn_blocking(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).map(|_| all)
    });
    assert_eq!(read.await.unwrap().unwrap(), b"RIFF a recording");
    let unwanted = upload(&store, id, b"nobody wants it").await;
    run_sql(&place.database, &format!("DELETE FROM blobs WHERE key = '{}'", unwanted.key)).await;
    assert_eq!(
        store.recordings().sweep_older_than(Duration::ZERO).await.unwrap().quarantined,
        std::slice::from_ref(&unwanted.key)
    );
    assert!(store.recordings().read(&unwanted, None).await.is_ok(), "it is kept for now");
    assert_eq!(
        store.recordings().delete_quarantined(std::slice::from_ref(&unwanted.key)).await.unwrap(),
        std::slice::from_ref(&unwanted.key)
    );
    assert!(matches!(store.recordings().read(&unwanted, None).await.map(drop), Err(Error::NotFound(_))));
    assert_eq!(store.transcripts().delete(id, kept).await.unwrap(), std::slice::from_ref(&recording.key));
    assert!(matches!(store.recordings().read(&recording, None).await.map(drop), Err(Error::NotFound(_))));
}

#[tokio::test]
async fn a_place_for_recordings_that_nobody_knows_is_refused() {
    let place = Place::sqlite();
    let opened = Store::open(hark_store::Options { blobs: "ftp://host/folder".into(), ..place.options() }).await;
    assert!(matches!(opened, Err(Error::Setup(_))), "{opened:?}");
}
