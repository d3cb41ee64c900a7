//! Live sessions: what was settled and charged outlives the process that heard it.

use std::time::Duration;

use hark_api::{Segment, TranscriptionResult, Word};
use hark_store::{
    AccountId, EntryKind, Error, KeyId, KeyKind, LiveAppend, LiveLease, NewKey, NewTranscript, SegmentEdit, Status,
    Store, TranscriptEdit, TranscriptId, live_reference,
};

use crate::support::{account, on_both};

const KEEP: Duration = Duration::from_secs(900);
/// No time at all: whoever stood still between two looks is silent.
const AT_ONCE: Duration = Duration::ZERO;

fn said(start: f64, text: &str) -> Segment {
    let words = text.split_whitespace().zip(0..).map(|(word, n)| Word {
        word: word.into(),
        start: start + f64::from(n),
        end: start + f64::from(n) + 0.5,
        confidence: 0.9,
    });
    let words: Vec<Word> = words.collect();
    Segment { start, end: start + 5.0, text: text.into(), confidence: 0.9, words, ..Segment::default() }
}

fn append(position: i64, heard_seconds: f64, segments: Vec<Segment>) -> LiveAppend {
    LiveAppend { heard_seconds, language: "en".into(), position, segments }
}

async fn key(store: &Store, account: AccountId) -> KeyId {
    store.keys().create(account, &NewKey::new(KeyKind::Service, "live")).await.unwrap().0.id
}

/// A session that has heard its first sound.
async fn begin(store: &Store, account: AccountId, session: &str) -> (LiveLease, KeyId) {
    let key = key(store, account).await;
    store.ledger().hold(account, &live_reference(session), 1, KEEP).await.unwrap();
    let new = NewTranscript {
        title: "Live".into(),
        source_type: "stream".into(),
        language: "auto".into(),
        model: "base".into(),
    };
    let lease = store.live().begin(account, session, &new).await.unwrap();
    assert_eq!(store.live().begin(account, session, &new).await.unwrap(), lease, "a repeat finds the same");
    store.live().charge(&lease, key, 0.1, 1).await.unwrap();
    (lease, key)
}

async fn text_of(store: &Store, account: AccountId, id: TranscriptId) -> (Status, String) {
    let (transcript, result) = store.transcripts().text(account, id).await.unwrap();
    (transcript.status, result.text)
}

async fn charges(store: &Store, account: AccountId) -> i64 {
    let entries = store.ledger().entries(account, 1000).await.unwrap();
    entries.iter().filter(|entry| entry.kind == EntryKind::Charge).map(|entry| -entry.amount).sum()
}

on_both! {
    async fn a_session_whose_process_died_is_completed_with_what_was_settled_and_charged_once(place: Place) {
        let store = place.open().await;
        let account = account(&store, 10).await;
        let (lease, key) = begin(&store, account, "s1").await;
        let id = lease.transcript;
        assert_eq!(text_of(&store, account, id).await, (Status::Processing, String::new()));
        store.live().append(&lease, &append(0, 8.0, vec![said(0.0, "One two")])).await.unwrap();
        // The last segment grows, and another follows; a write whose answer was lost is made again.
        for _ in 0..2 {
            let more = vec![said(0.0, "One two three."), said(6.0, "Four five.")];
            store.live().append(&lease, &append(0, 61.0, more)).await.unwrap();
            store.live().charge(&lease, key, 61.0, 2).await.unwrap();
        }
        store.live().append(&lease, &append(2, 70.0, vec![said(12.0, "Six.")])).await.unwrap();
        assert_eq!(store.accounts().get(account).await.unwrap().credits, 8);
        // The end of a session writes its text anew: an edit before would be lost.
        let segments = vec![SegmentEdit { position: 0, text: "Mine.".into() }];
        let edit = TranscriptEdit { segments, ..TranscriptEdit::default() };
        assert!(matches!(store.transcripts().edit(account, id, &edit).await, Err(Error::Conflict(_))));
        store.close().await;

        let store = place.open().await;
        assert_eq!(store.live().expire(AT_ONCE + Duration::from_secs(3600)).await.unwrap(), 0, "it may still be continued");
        assert_eq!(store.live().expire(AT_ONCE).await.unwrap(), 1);
        assert_eq!(store.live().expire(AT_ONCE).await.unwrap(), 0, "once");
        assert_eq!(text_of(&store, account, id).await, (Status::Completed, "One two three. Four five. Six.".into()));
        let transcript = store.transcripts().get(account, id).await.unwrap();
        assert_eq!((transcript.duration_seconds, transcript.word_count), (70.0, 6));
        assert_eq!((store.accounts().get(account).await.unwrap().credits, charges(&store, account).await), (8, 2));
        assert!(store.ledger().check().await.unwrap().is_empty());
        assert_eq!(store.accounts().usage(account, 1).await.unwrap().total_transcripts, 1);
        assert!(matches!(store.live().append(&lease, &append(3, 71.0, vec![])).await, Err(Error::LeaseLost)));
        assert!(store.live().resume(account, "s1").await.unwrap().is_none());
    }

    async fn a_session_that_is_written_to_is_never_taken_for_silent(place: Place) {
        let store = place.open().await;
        let account = account(&store, 10).await;
        let (lease, _) = begin(&store, account, "s1").await;
        for heard in 1..4 {
            assert_eq!(store.live().expire(Duration::from_secs(60)).await.unwrap(), 0);
            store.live().append(&lease, &append(0, f64::from(heard), vec![])).await.unwrap();
        }
        assert_eq!(store.transcripts().get(account, lease.transcript).await.unwrap().status, Status::Processing);
    }

    async fn the_end_of_a_session_that_expired_is_not_confirmed_where_less_of_it_is_stored(place: Place) {
        let store = place.open().await;
        let account = account(&store, 10).await;
        let (lease, _) = begin(&store, account, "s1").await;
        store.live().append(&lease, &append(0, 8.0, vec![said(0.0, "One.")])).await.unwrap();
        store.live().expire(AT_ONCE + Duration::from_secs(3600)).await.unwrap();
        assert_eq!(store.live().expire(AT_ONCE).await.unwrap(), 1);
        let result = |segments| TranscriptionResult { segments, duration: 20.0, ..TranscriptionResult::default() };
        let whole = result(vec![said(0.0, "One."), said(6.0, "Two.")]);
        assert!(matches!(store.live().complete(&lease, Some(&whole)).await, Err(Error::LeaseLost)));
        store.live().complete(&lease, Some(&result(vec![said(0.0, "One.")]))).await.expect("that is what is stored");
        assert_eq!(text_of(&store, account, lease.transcript).await, (Status::Completed, "One.".into()));
    }

    async fn a_session_that_is_continued_keeps_its_text_and_its_former_holder_writes_no_more(place: Place) {
        let store = place.open().await;
        let account = account(&store, 10).await;
        let other = crate::support::account(&store, 10).await;
        let (old, key) = begin(&store, account, "s1").await;
        store.live().append(&old, &append(0, 8.0, vec![said(0.0, "Before the crash.")])).await.unwrap();
        assert!(store.live().resume(other, "s1").await.unwrap().is_none(), "another account's looks absent");
        let continued = store.live().resume(account, "s1").await.unwrap().expect("it goes on");
        assert_eq!((continued.heard_seconds, continued.charged_minutes), (8.0, 1));
        assert_eq!(continued.segments[0].text, "Before the crash.");
        assert!(matches!(store.live().append(&old, &append(1, 9.0, vec![])).await, Err(Error::LeaseLost)));
        assert!(matches!(store.live().complete(&old, None).await, Err(Error::LeaseLost)));
        let lease = continued.lease;
        assert_eq!(lease.transcript, old.transcript);
        store.live().charge(&lease, key, 20.0, 1).await.unwrap();
        store.live().append(&lease, &append(1, 20.0, vec![said(9.0, "And after it.")])).await.unwrap();
        let result = TranscriptionResult {
            text: "Before the crash. And after it.".into(),
            language: "en".into(),
            duration: 20.0,
            speakers: vec!["SPEAKER_00".into()],
            segments: vec![
                Segment { speaker: Some("SPEAKER_00".into()), ..said(0.0, "Before the crash.") },
                said(9.0, "And after it."),
            ],
            model: "whisper-base".into(),
            ..TranscriptionResult::default()
        };
        for _ in 0..2 {
            store.live().complete(&lease, Some(&result)).await.unwrap();
        }
        let (transcript, text) = store.transcripts().text(account, lease.transcript).await.unwrap();
        assert_eq!((text.text.as_str(), transcript.status), (result.text.as_str(), Status::Completed));
        assert_eq!((transcript.num_speakers, transcript.model.as_str()), (1, "whisper-base"));
        assert_eq!(store.accounts().usage(account, 1).await.unwrap().total_transcripts, 1, "counted once");
        assert_eq!(store.accounts().get(account).await.unwrap().credits, 9);
        assert!(store.ledger().check().await.unwrap().is_empty());
    }

    async fn a_session_that_died_before_any_words_costs_nothing(place: Place) {
        let store = place.open().await;
        let account = account(&store, 10).await;
        let (lease, first) = begin(&store, account, "silent").await;
        store.live().charge(&lease, first, 70.0, 2).await.unwrap();
        // It goes on with another key, and into the next month.
        let second = key(&store, account).await;
        store.live().charge(&lease, second, 130.0, 3).await.unwrap();
        place.clock.advance(Duration::from_secs(31 * 24 * 3600));
        store.live().charge(&lease, second, 190.0, 4).await.unwrap();
        let spent = async || (store.keys().spent(first).await.unwrap(), store.keys().spent(second).await.unwrap());
        assert_eq!(spent().await, (2, 2));
        assert_eq!(store.keys().minutes_used(second).await.unwrap(), 1, "one in this month");
        let expired = store.live().expire(AT_ONCE).await.unwrap() + store.live().expire(AT_ONCE).await.unwrap();
        assert_eq!(expired, 1);
        assert_eq!(store.accounts().get(account).await.unwrap().credits, 10);
        assert_eq!(spent().await, (0, 0), "minutes of both months are given back");
        assert_eq!(store.keys().minutes_used(second).await.unwrap(), 0);
        assert_eq!(text_of(&store, account, lease.transcript).await, (Status::Completed, String::new()));
    }

    async fn a_session_resumed_before_anything_was_stored_that_hears_no_more_costs_nothing(place: Place) {
        let store = place.open().await;
        let account = account(&store, 10).await;
        begin(&store, account, "s1").await;
        let resumed = store.live().resume(account, "s1").await.unwrap().expect("the session goes on");
        store.live().complete(&resumed.lease, Some(&TranscriptionResult::default())).await.unwrap();
        assert_eq!(text_of(&store, account, resumed.lease.transcript).await, (Status::Completed, String::new()));
        assert_eq!(store.accounts().get(account).await.unwrap().credits, 10);
        assert!(store.ledger().check().await.unwrap().is_empty());
    }

    async fn minutes_are_charged_as_far_as_credits_go(place: Place) {
        let store = place.open().await;
        let account = account(&store, 2).await;
        let (lease, key) = begin(&store, account, "s1").await;
        // After an outage three minutes are due at once, and one more can be paid for.
        let refused = store.live().charge(&lease, key, 200.0, 4).await;
        assert!(matches!(refused, Err(Error::NotEnoughCredits { have: 0, need: 2 })), "{refused:?}");
        assert_eq!((store.accounts().get(account).await.unwrap().credits, charges(&store, account).await), (0, 2));
        assert_eq!(store.keys().minutes_used(key).await.unwrap(), 2);
        assert!(store.ledger().check().await.unwrap().is_empty());
        let continued = store.live().resume(account, "s1").await.unwrap().unwrap();
        assert_eq!((continued.heard_seconds, continued.charged_minutes), (120.0, 2), "what is not paid for was not heard");
    }

    async fn a_transcript_that_is_deleted_takes_its_session_with_it(place: Place) {
        let store = place.open().await;
        let account = account(&store, 10).await;
        let (lease, key) = begin(&store, account, "s1").await;
        store.transcripts().delete(account, lease.transcript).await.unwrap();
        assert!(matches!(store.live().append(&lease, &append(0, 1.0, vec![said(0.0, "A")])).await, Err(Error::LeaseLost)));
        assert!(matches!(store.live().charge(&lease, key, 70.0, 2).await, Err(Error::LeaseLost)));
        assert!(matches!(store.live().complete(&lease, None).await, Err(Error::LeaseLost)));
        assert_eq!(store.live().expire(AT_ONCE).await.unwrap(), 0);
        assert_eq!(store.accounts().get(account).await.unwrap().credits, 9);
    }

    async fn what_a_session_appends_is_sealed_like_any_text(place: Place) {
        let store = place.open_sealed([7; 32]).await;
        let account = account(&store, 10).await;
        let (lease, _) = begin(&store, account, "s1").await;
        let secret = "Xylophones are confidential.";
        store.live().append(&lease, &append(0, 8.0, vec![said(0.0, secret)])).await.unwrap();
        assert_eq!(text_of(&store, account, lease.transcript).await.1, secret);
        store.close().await;
        let bytes: Vec<u8> = place.files().iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
        assert!(!bytes.windows(10).any(|window| window == b"Xylophones"), "it lies in the clear");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_not_silent_while_nobody_can_write() {
    use sqlx::Connection as _;
    let place = crate::support::Place::sqlite();
    let store = place.open().await;
    let account = account(&store, 10).await;
    let (lease, _) = begin(&store, account, "s1").await;
    assert_eq!(store.live().expire(Duration::from_secs(3600)).await.unwrap(), 0);
    // Another process has the write lock: sessions can be read and not renewed.
    let mut other = sqlx::SqliteConnection::connect(&place.database).await.unwrap();
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    assert!(store.live().expire(AT_ONCE).await.is_err(), "nothing can be written");
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    assert_eq!(store.live().expire(Duration::from_millis(1)).await.unwrap(), 0, "its silence begins anew");
    store.live().append(&lease, &append(0, 8.0, vec![said(0.0, "One.")])).await.expect("it goes on");
}
