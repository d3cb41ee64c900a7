//! What was stored before there was a master key is sealed later, beside others who work.

use std::process::{Command, Stdio};
use std::time::Duration;

use hark_store::{
    AccountId, Error, MasterKey, MasterKeys, Options, Owner, SegmentEdit, Store, TranscriptEdit, TranscriptId,
    UnsealedAmount, WebhookTarget,
};

use crate::accounts::count;
use crate::sealing::{KEY, fill, found_open};
use crate::support::{account, claim, completed, new_job, on_both, result, upload};

/// Enough segments to fill many pages of a database file.
const SEGMENTS: usize = 600;

/// A long transcript in which every segment says the word, with a long recording.
async fn long(store: &Store, account: AccountId) -> TranscriptId {
    let mut job = new_job(store, &Owner::Account(account), 0).await;
    store.recordings().discard(&job.blob.key).await.unwrap();
    job.blob = upload(store, account, &b"xylophone ".repeat(50_000)).await;
    store.jobs().accept(job).await.unwrap();
    let job = claim(store).await;
    let mut heard = result();
    let one = heard.segments[0].clone();
    heard.segments = (0..SEGMENTS)
        .map(|number| hark_api::Segment {
            text: format!("xylophone {number} {}", "la ".repeat(number % 300)),
            ..one.clone()
        })
        .collect();
    store.jobs().complete(&job.lease, &heard, 0, true).await.unwrap();
    job.lease.transcript.unwrap()
}

/// A job that waits.
async fn waiting(store: &Store, account: AccountId) {
    let mut job = new_job(store, &Owner::Account(account), 0).await;
    job.payload = "xylophone request".into();
    job.webhook = Some(WebhookTarget { url: "https://xylophone".into(), secret: "xylophone".into() });
    store.jobs().accept(job).await.unwrap();
}

async fn text_of(store: &Store, account: AccountId, id: TranscriptId) -> String {
    store.transcripts().text(account, id).await.unwrap().1.text
}

async fn recording_of(store: &Store, account: AccountId, id: TranscriptId) -> Vec<u8> {
    let blob = store.recordings().get(account, id).await.unwrap();
    store.recordings().read(&blob, None).await.unwrap().read_all().await.unwrap()
}

/// The process that is killed while it seals. Not a test: it runs only where the test below tells it the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the child of the test of kills"]
async fn child() {
    let Ok(location) = std::env::var("HARK_SEAL_CHILD") else { return };
    let [database, blobs] = location.split('\n').collect::<Vec<_>>()[..] else { panic!("{location}") };
    let master_keys = MasterKeys::new(MasterKey::new(KEY));
    let store = Store::open(Options { master_keys, ..Options::new(database, blobs) }).await.unwrap();
    let done = store.sealing().seal_all(|_| {}).await.unwrap();
    assert!(done.left.is_nothing(), "{done:?}");
}

on_both! {
    async fn everything_that_was_stored_open_becomes_sealed(place: Place) {
        let store = place.open().await;
        let (one, id) = fill(&store).await;
        let (two, _) = fill(&store).await;
        let other = long(&store, two).await;
        waiting(&store, one).await;
        let secret = store.secret("a", None).await.unwrap();
        let (text, voices) = (text_of(&store, two, other).await, store.voiceprints().list(one).await.unwrap());
        store.close().await;
        assert!(found_open(&place).await > SEGMENTS, "the search finds what lies open");

        let store = place.open_sealed(KEY).await;
        let open = store.sealing().unsealed().await.unwrap();
        assert!(open.values > SEGMENTS as u64 && open.recordings == 4, "{open:?}");
        let mut reported = UnsealedAmount::default();
        let done = store.sealing().seal_all(|so_far| reported = *so_far).await.unwrap();
        assert_eq!((done.sealed, reported), (open, open));
        assert_eq!((done.left, done.missing), (UnsealedAmount::default(), vec![]));
        assert_eq!(store.sealing().unsealed().await.unwrap(), UnsealedAmount::default());
        // Nothing lies open, though the store is still in use.
        if !place.database.starts_with("sqlite:") {
            store.sealing().rewrite_tables().await.unwrap();
        }
        assert_eq!(found_open(&place).await, 0);

        let (found, _) = store.transcripts().text(one, id).await.unwrap();
        assert!(found.is_encrypted);
        assert_eq!((found.title.as_str(), found.summary.as_deref()), ("xylophone title", Some("xylophone summary")));
        assert_eq!(store.transcripts().derived(one, id, "topics").await.unwrap().unwrap(), b"xylophone topics");
        assert_eq!(text_of(&store, two, other).await, text);
        assert_eq!(recording_of(&store, one, id).await, b"xylophone audio");
        assert_eq!(recording_of(&store, two, other).await, b"xylophone ".repeat(50_000));
        assert_eq!(store.voiceprints().list(one).await.unwrap(), voices);
        assert_eq!(store.secret("a", None).await.unwrap(), secret);
        let job = claim(&store).await;
        assert_eq!(job.payload, "xylophone request");
        assert_eq!(store.recordings().read(job.blob.as_ref().unwrap(), None).await.unwrap().read_all().await.unwrap(), b"RIFF a recording");
        let calls = store.webhooks().claim(9, Duration::ZERO).await.unwrap();
        assert!(calls.len() == 2 && calls.iter().all(|call| call.target.secret == "xylophone"));

        assert_eq!(store.sealing().seal_all(|_| {}).await.unwrap().sealed, UnsealedAmount::default());
        let swept = store.recordings().sweep_older_than(Duration::ZERO).await.unwrap();
        assert_eq!((swept.recordings.len(), swept.quarantined.len()), (0, 0), "sealing left files behind");
        store.close().await;
        assert!(matches!(place.open().await.transcripts().get(one, id).await, Err(Error::Sealed(_))));
    }

    async fn sealing_that_is_killed_at_any_moment_goes_on_where_it_was(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        let mut ids = Vec::new();
        for _ in 0..2 {
            ids.push(long(&store, account).await);
        }
        let text = text_of(&store, account, ids[0]).await;
        store.close().await;
        let location = format!("{}\n{}", place.database, place.options().blobs);
        let mut kills = 0_u32;
        let mut halfway = 0;
        let all = place.open_sealed(KEY).await.sealing().unsealed().await.unwrap();
        loop {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["unsealed::child", "--exact", "--ignored", "--nocapture"])
                .env("HARK_SEAL_CHILD", &location)
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            // From when it has got somewhere, so that it gets to the end in some number of rounds.
            let store = place.open_sealed(KEY).await;
            let before = store.sealing().unsealed().await.unwrap();
            let ended = loop {
                if let Some(ended) = child.try_wait().unwrap() {
                    break Some(ended);
                }
                if store.sealing().unsealed().await.unwrap() != before {
                    break None;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            };
            if let Some(ended) = ended {
                assert!(ended.success());
                break;
            }
            tokio::time::sleep(Duration::from_millis(u64::from(kills) * 13 % 80)).await;
            // SIGKILL: nothing of the child runs after it.
            child.kill().unwrap();
            child.wait().unwrap();
            kills += 1;
            let left = store.sealing().unsealed().await.unwrap();
            halfway += u32::from(left.values > 0 && left.values < all.values);
            for &id in &ids {
                assert_eq!(text_of(&store, account, id).await, text);
                assert_eq!(recording_of(&store, account, id).await.len(), 500_000);
            }
            store.close().await;
        }
        assert!(halfway > 0, "{kills} kills, and none in the middle");
        let store = place.open_sealed(KEY).await;
        assert_eq!(store.sealing().unsealed().await.unwrap(), UnsealedAmount::default());
        for &id in &ids {
            assert!(store.transcripts().get(account, id).await.unwrap().is_encrypted);
            assert_eq!(text_of(&store, account, id).await, text);
            assert_eq!(recording_of(&store, account, id).await, b"xylophone ".repeat(50_000));
        }
        // What a kill left is swept, by the clock of the child: one file a transcript stays.
        place.clock.advance(Duration::from_secs(10 * 365 * 86_400));
        store.recordings().sweep_older_than(Duration::ZERO).await.unwrap();
        assert_eq!(place.recordings().len(), 2);
        store.close().await;
    }

    async fn what_others_change_meanwhile_stays_as_they_left_it(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        let id = long(&store, account).await;
        let gone = long(&store, account).await;
        store.close().await;
        let (sealing, working) = (place.open_sealed(KEY).await, place.open_sealed(KEY).await);
        let edits = async {
            for number in 0_usize..60 {
                let edit = TranscriptEdit {
                    title: Some(format!("title {number}")),
                    segments: vec![SegmentEdit { position: (number * 10) as i64, text: format!("edited {number}") }],
                    ..TranscriptEdit::default()
                };
                working.transcripts().edit(account, id, &edit).await.unwrap();
                working.transcripts().set_summary(account, id, &format!("summary {number}")).await.unwrap();
                working.transcripts().store_derived(account, id, "topics", format!("topics {number}").as_bytes()).await.unwrap();
                if number == 20 {
                    working.transcripts().delete(account, gone).await.unwrap();
                }
            }
        };
        let (done, ()) = tokio::join!(sealing.sealing().seal_all(|_| {}), edits);
        let done = done.unwrap();
        assert!(done.sealed.values >= 500 && done.left.is_nothing(), "{done:?}");
        let (found, heard) = working.transcripts().text(account, id).await.unwrap();
        assert_eq!((found.title.as_str(), found.summary.as_deref()), ("title 59", Some("summary 59")));
        assert_eq!(working.transcripts().derived(account, id, "topics").await.unwrap().unwrap(), b"topics 59");
        for (position, segment) in heard.segments.iter().enumerate() {
            let wanted = if position % 10 == 0 { format!("edited {}", position / 10) } else { format!("xylophone {position} ") };
            assert!(segment.text.starts_with(&wanted), "{position}: {}", segment.text);
        }
        assert!(matches!(working.transcripts().get(account, gone).await, Err(Error::NotFound(_))));
        assert_eq!(place.recordings().len(), 1);
        sealing.close().await;
        working.close().await;
    }

    async fn a_recording_that_is_being_transcribed_is_left_until_it_is_done(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        waiting(&store, account).await;
        store.close().await;
        let store = place.open_sealed(KEY).await;
        let job = claim(&store).await;
        let done = store.sealing().seal_all(|_| {}).await.unwrap();
        assert_eq!((done.left.recordings, done.left.values, done.missing.len()), (1, 0, 0));
        let id = job.lease.transcript.unwrap();
        assert!(!store.transcripts().get(account, id).await.unwrap().is_encrypted, "its recording is not sealed");
        assert_eq!(store.recordings().read(job.blob.as_ref().unwrap(), None).await.unwrap().read_all().await.unwrap(), b"RIFF a recording");
        store.jobs().complete(&job.lease, &result(), 0, true).await.unwrap();
        let done = store.sealing().seal_all(|_| {}).await.unwrap();
        assert_eq!((done.sealed.recordings, done.left), (1, UnsealedAmount::default()));
        assert!(store.transcripts().get(account, id).await.unwrap().is_encrypted);
        assert_eq!(recording_of(&store, account, id).await, b"RIFF a recording");
    }

    async fn nothing_is_sealed_while_somebody_works_without_the_key(place: Place) {
        let keyless = place.open().await;
        let account = account(&keyless, 0).await;
        let id = completed(&keyless, account).await;
        assert!(matches!(keyless.sealing().seal_all(|_| {}).await, Err(Error::Setup(_))), "there is no key to seal with");
        let store = place.open_sealed(KEY).await;
        let refused = store.sealing().seal_all(|_| {}).await.unwrap_err();
        assert!(matches!(&refused, Error::Setup(why) if why.contains("master_key_file")), "{refused}");
        assert_eq!(keyless.transcripts().get(account, id).await.unwrap().title, "Monday meeting");
        keyless.close().await;
        assert!(store.sealing().seal_all(|_| {}).await.unwrap().left.is_nothing());
        // Another key than the one that seals the accounts is none to seal with.
        store.close().await;
        let strange = place.open_sealed([8; 32]).await;
        let refused = strange.sealing().seal_all(|_| {}).await.unwrap_err();
        assert!(matches!(&refused, Error::Setup(why) if why.contains("key file")), "{refused}");
    }

    async fn a_recording_that_is_not_there_is_named_and_the_rest_is_sealed(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        let (here, gone) = (completed(&store, account).await, completed(&store, account).await);
        let lost = store.recordings().get(account, gone).await.unwrap();
        std::fs::remove_file(store.recordings().local_path(&lost).unwrap()).unwrap();
        store.close().await;
        let store = place.open_sealed(KEY).await;
        let done = store.sealing().seal_all(|_| {}).await.unwrap();
        assert_eq!((done.sealed.recordings, done.left.recordings, done.missing), (1, 1, vec![lost.key]));
        assert!(store.transcripts().get(account, here).await.unwrap().is_encrypted);
        assert!(store.recordings().get(account, here).await.unwrap().is_sealed);
        assert_eq!(count(&place.database, "SELECT count(*) FROM blobs WHERE state <> 'live'").await, 0);
    }
}
