//! What is derived while a transcript is made, and of its recording: drafts and waveforms.

use std::time::Duration;

use hark_api::{FaultKind, Segment};
use hark_store::{AccountId, Error, RetryLimits, SegmentEdit, Status, Store, TranscriptEdit, TranscriptId};

use crate::accounts::count;
use crate::support::{LEASE, Place, START, accept, account, claim, completed, on_both, result};

/// Segments as a worker reports them.
fn draft(texts: &[&str]) -> Vec<Segment> {
    let of = |(n, text): (usize, &&str)| Segment {
        start: n as f64,
        end: n as f64 + 0.5,
        text: (*text).to_owned(),
        confidence: 0.5,
        ..Segment::default()
    };
    texts.iter().enumerate().map(of).collect()
}

/// The text so far, and how many rows of derived data there are.
async fn so_far(place: &Place, store: &Store, account: AccountId, id: TranscriptId) -> (String, i64) {
    let (_, text) = store.transcripts().text_so_far(account, id).await.unwrap();
    (text.text, count(&place.database, "SELECT count(*) FROM derived").await)
}

on_both! {
    async fn what_is_stored_with_a_transcript_is_listed_for_its_account(place: Place) {
        let store = place.open().await;
        let (ours, theirs) = (account(&store, 0).await, account(&store, 0).await);
        let id = completed(&store, ours).await;
        let kinds = async || store.transcripts().derived_kinds(ours, id).await.unwrap();
        assert_eq!(kinds().await, []);
        for kind in ["waveform", "draft", "summary:brief", "translation:pt"] {
            place.clock.advance(Duration::from_secs(1));
            store.transcripts().store_derived(ours, id, kind, b"{}").await.unwrap();
        }
        let second = 1_000_000;
        assert_eq!(kinds().await, [("translation:pt".to_owned(), START + 4 * second), ("summary:brief".to_owned(), START + 3 * second)]);
        let found = store.transcripts().derived_kinds(theirs, id).await;
        assert!(matches!(found, Err(Error::NotFound("transcript"))), "{found:?}");

        let chats = store.chats();
        let first = chats.begin(ours, id).await.unwrap();
        let other = chats.begin(ours, id).await.unwrap();
        chats.begin(ours, id).await.unwrap();
        for session in [&first, &other, &first] {
            place.clock.advance(Duration::from_secs(1));
            chats.add(ours, id, session, "who?", "they").await.unwrap();
        }
        assert_eq!(chats.conversations(ours, id).await.unwrap(), [(first, START + 7 * second), (other, START + 6 * second)]);
        assert_eq!(chats.conversations(theirs, id).await.unwrap(), []);
    }

    async fn the_warnings_of_a_recording_are_read_with_its_text_and_outlive_an_edit(place: Place) {
        let store = place.open().await;
        let ours = account(&store, 0).await;
        accept(&store, ours, 0).await;
        let job = claim(&store).await;
        let warned = hark_api::TranscriptionResult { warnings: vec!["the file ends early".into()], ..result() };
        store.jobs().complete(&job.lease, &warned, 0, true).await.unwrap();
        let id = job.lease.transcript.unwrap();
        assert_eq!(store.transcripts().text(ours, id).await.unwrap().1, warned, "languages of segments included");
        let new = SegmentEdit { position: 0, text: "Hello.".into() };
        store.transcripts().edit(ours, id, &TranscriptEdit { segments: vec![new], ..TranscriptEdit::default() }).await.unwrap();
        assert_eq!(store.transcripts().text(ours, id).await.unwrap().1.warnings, ["the file ends early"]);
        assert_eq!(store.transcripts().derived_kinds(ours, id).await.unwrap(), []);
        store.transcripts().delete(ours, id).await.unwrap();
        assert_eq!(count(&place.database, "SELECT count(*) FROM derived").await, 0);
    }

    async fn the_usual_language_is_that_of_most_transcripts_with_enough_words(place: Place) {
        let store = place.open().await;
        let (ours, theirs) = (account(&store, 0).await, account(&store, 0).await);
        assert_eq!(store.transcripts().usual_language(ours).await.unwrap(), None);
        for (language, sentences) in [("de", 6), ("zh", 1), ("zh", 1), ("zh", 1), ("en", 6), ("de", 6)] {
            accept(&store, ours, 0).await;
            let job = claim(&store).await;
            let said = result();
            let segments = said.segments.iter().cycle().take(2 * sentences).cloned().collect();
            let spoken = hark_api::TranscriptionResult { language: language.into(), segments, ..said };
            store.jobs().complete(&job.lease, &spoken, 0, true).await.unwrap();
        }
        assert_eq!(store.transcripts().usual_language(ours).await.unwrap().as_deref(), Some("de"));
        assert_eq!(store.transcripts().usual_language(theirs).await.unwrap(), None);
    }

    async fn a_draft_is_seen_while_a_worker_is_at_it_and_gone_when_it_is_done(place: Place) {
        let store = place.open().await;
        let (ours, theirs) = (account(&store, 0).await, account(&store, 0).await);
        let (id, _) = accept(&store, ours, 0).await;
        assert_eq!(so_far(&place, &store, ours, id).await, (String::new(), 0));
        let job = claim(&store).await;
        assert_eq!(so_far(&place, &store, ours, id).await, (String::new(), 0));
        let heard = draft(&["Good morning."]);
        store.jobs().set_progress_with_draft(&job.lease, 10, &heard).await.unwrap();
        let heard = draft(&["Good morning.", "Shall we?"]);
        store.jobs().set_progress_with_draft(&job.lease, 20, &heard).await.unwrap();
        // Another process.
        let reader = place.open().await;
        let (found, text) = reader.transcripts().text_so_far(ours, id).await.unwrap();
        assert_eq!((found.status, found.progress), (Status::Processing, 20));
        assert_eq!((text.text.as_str(), text.segments), ("Good morning. Shall we?", heard));
        assert!(matches!(reader.transcripts().text_so_far(theirs, id).await, Err(Error::NotFound(_))));
        // What asks for the text of a transcript finds none yet.
        assert_eq!(reader.transcripts().text(ours, id).await.unwrap().1.segments, []);
        store.jobs().complete(&job.lease, &result(), 0, true).await.unwrap();
        assert_eq!(so_far(&place, &store, ours, id).await, (result().text, 0));
        let late = store.jobs().set_progress_with_draft(&job.lease, 30, &draft(&["late"])).await;
        assert!(matches!(late, Err(Error::LeaseLost)), "{late:?}");
        assert_eq!(so_far(&place, &store, ours, id).await, (result().text, 0));
    }

    async fn a_draft_ends_with_its_attempt(place: Place) {
        let store = place.open_without_backoff().await;
        let account = account(&store, 0).await;
        let (id, number) = accept(&store, account, 0).await;
        let drafted = async || {
            let job = claim(&store).await;
            store.jobs().set_progress_with_draft(&job.lease, 10, &draft(&["Good"])).await.unwrap();
            assert_eq!(so_far(&place, &store, account, id).await, ("Good".to_owned(), 1));
            job.lease
        };
        let nothing = (String::new(), 0);
        // The worker gives it back, stops, is silent for too long, or fails; its draft goes, and it writes none any more.
        let lease = drafted().await;
        store.jobs().release(&lease, FaultKind::Unavailable, "elsewhere").await.unwrap();
        assert_eq!(so_far(&place, &store, account, id).await, nothing);
        drafted().await;
        store.jobs().release_all("worker").await.unwrap();
        assert_eq!(so_far(&place, &store, account, id).await, nothing);
        let silent = drafted().await;
        store.jobs().expire_leases().await.unwrap();
        place.clock.advance(LEASE + Duration::from_secs(1));
        store.jobs().expire_leases().await.unwrap();
        assert_eq!(so_far(&place, &store, account, id).await, nothing);
        let late = store.jobs().set_progress_with_draft(&silent, 30, &draft(&["late"])).await;
        assert!(matches!(late, Err(Error::LeaseLost)), "{late:?}");
        let lease = drafted().await;
        store.jobs().fail(&lease, FaultKind::Internal, "it broke").await.unwrap();
        assert_eq!(so_far(&place, &store, account, id).await, nothing);
        let lease = drafted().await;
        store.jobs().fail(&lease, FaultKind::Internal, "it broke").await.unwrap();
        assert_eq!(store.transcripts().get(account, id).await.unwrap().status, Status::Failed);
        assert_eq!(so_far(&place, &store, account, id).await, nothing);
        store.jobs().retry(number, RetryLimits::default()).await.unwrap();
        let lease = drafted().await;
        store.transcripts().cancel(account, id, "cancelled").await.unwrap();
        assert_eq!(so_far(&place, &store, account, id).await, nothing);
        let late = store.jobs().set_progress_with_draft(&lease, 30, &draft(&["late"])).await;
        assert!(matches!(late, Err(Error::LeaseLost)), "{late:?}");
    }

    async fn a_draft_is_sealed_as_text_is(place: Place) {
        let store = place.open_sealed([7; 32]).await;
        let account = account(&store, 0).await;
        let (id, _) = accept(&store, account, 0).await;
        let job = claim(&store).await;
        store.jobs().set_progress_with_draft(&job.lease, 10, &draft(&["xylophone"])).await.unwrap();
        assert_eq!(so_far(&place, &store, account, id).await, ("xylophone".to_owned(), 1));
        store.close().await;
        assert_eq!(crate::sealing::found_open(&place).await, 0);
    }

    async fn a_waveform_stays_when_the_text_changes_and_goes_with_its_recording(place: Place) {
        let store = place.open_sealed([7; 32]).await;
        let (ours, theirs) = (account(&store, 0).await, account(&store, 0).await);
        let id = completed(&store, ours).await;
        assert_eq!(store.transcripts().waveform(ours, id).await.unwrap(), None);
        store.transcripts().store_waveform(ours, id, b"xylophone").await.unwrap();
        assert_eq!(store.transcripts().waveform(ours, id).await.unwrap().unwrap(), b"xylophone");
        assert_eq!(store.transcripts().waveform(theirs, id).await.unwrap(), None);
        assert!(matches!(store.transcripts().store_waveform(theirs, id, b"x").await, Err(Error::NotFound(_))));
        store.transcripts().store_derived(ours, id, "summary:brief", b"short").await.unwrap();
        let segments = vec![SegmentEdit { position: 0, text: "Good evening.".into() }];
        store.transcripts().edit(ours, id, &TranscriptEdit { segments, ..Default::default() }).await.unwrap();
        assert_eq!(store.transcripts().derived(ours, id, "summary:brief").await.unwrap(), None);
        assert!(store.transcripts().waveform(ours, id).await.unwrap().is_some());
        store.transcripts().delete(ours, id).await.unwrap();
        assert!(matches!(store.transcripts().store_waveform(ours, id, b"x").await, Err(Error::NotFound(_))));

        // A recording that is not kept, though its waveform was looked at meanwhile.
        let (id, _) = accept(&store, ours, 0).await;
        let job = claim(&store).await;
        store.transcripts().store_waveform(ours, id, b"xylophone").await.unwrap();
        store.jobs().complete(&job.lease, &result(), 0, false).await.unwrap();
        assert_eq!(store.transcripts().waveform(ours, id).await.unwrap(), None);
        assert!(matches!(store.transcripts().store_waveform(ours, id, b"x").await, Err(Error::NotFound("recording"))));
        store.close().await;
        assert_eq!(crate::sealing::found_open(&place).await, 0);
    }
}
