use std::collections::BTreeMap;
use std::time::Duration;

use hark_store::{
    ChatRole, Error, NewTranscript, Owner, SegmentEdit, Status, TranscriptEdit, TranscriptFilter, TranscriptId,
};

use crate::support::{accept, account, assert_balanced, claim, completed, new_job, on_both, result};

on_both! {
    async fn a_list_is_newest_first_in_pages(place: Place) {
        let store = place.open().await;
        let id = account(&store, 0).await;
        let mut made = Vec::new();
        for _ in 0..5 {
            made.push(accept(&store, id, 0).await.0);
            place.clock.advance(Duration::from_secs(1));
        }
        made.reverse();
        let page = async |page, per_page| {
            let found = store.transcripts().list(id, &TranscriptFilter { page, per_page, ..Default::default() }).await.unwrap();
            assert_eq!(found.total, 5);
            found.transcripts.iter().map(|t| t.id).collect::<Vec<_>>()
        };
        assert_eq!(page(1, 20).await, made);
        assert_eq!(page(1, 2).await, made[..2]);
        assert_eq!(page(3, 2).await, made[4..]);
        assert_eq!(page(4, 2).await, [] as [TranscriptId; 0]);
        assert_eq!(page(i64::MAX, 100).await, [] as [TranscriptId; 0]);
    }

    async fn a_list_says_of_each_what_its_own_page_says(place: Place) {
        let store = place.open_sealed([7; 32]).await;
        let id = account(&store, 0).await;
        for (seconds, title) in [(0.1 + 0.2, "said \"so\"\n\u{1}\\"), (1e15 / 7.0, "会議 🎙"), (f64::MIN_POSITIVE, "")] {
            let mut job = new_job(&store, &Owner::Account(id), 0).await;
            (job.seconds, job.transcript.title) = (seconds, title.into());
            store.jobs().accept(job).await.unwrap();
        }
        let done = completed(&store, id).await;
        store.transcripts().edit(id, done, &TranscriptEdit { shared: Some(true), ..Default::default() }).await.unwrap();
        let page = store.transcripts().list(id, &TranscriptFilter::default()).await.unwrap();
        assert_eq!(page.transcripts.len(), 4);
        for listed in page.transcripts {
            let own = store.transcripts().get(id, listed.id).await.unwrap();
            assert_eq!((listed.title, listed.status, listed.language), (own.title, own.status, own.language));
            assert_eq!((listed.duration_seconds, listed.word_count), (own.duration_seconds, own.word_count));
            assert_eq!((listed.source_type, listed.created_at), (own.source_type, own.created_at));
            assert_eq!(listed.share_token.is_some(), listed.id == done);
            assert_eq!(listed.share_token, own.share_token);
        }
    }

    async fn a_list_shows_what_its_filter_asks_for(place: Place) {
        let store = place.open().await;
        let id = account(&store, 0).await;
        let done = completed(&store, id).await;
        let border = store.now();
        place.clock.advance(Duration::from_secs(10));
        let (waiting, _) = accept(&store, id, 0).await;
        let list = async |filter: TranscriptFilter| {
            let found = store.transcripts().list(id, &filter).await.unwrap();
            assert_eq!(found.total, found.transcripts.len() as i64);
            found.transcripts.iter().map(|t| t.id).collect::<Vec<_>>()
        };
        let all = TranscriptFilter::default;
        assert_eq!(list(TranscriptFilter { status: Some(Status::Completed), ..all() }).await, [done]);
        assert_eq!(list(TranscriptFilter { status: Some(Status::Failed), ..all() }).await, []);
        assert_eq!(list(TranscriptFilter { language: Some("en".into()), ..all() }).await, [done]);
        assert_eq!(list(TranscriptFilter { created_after: Some(border + 1), ..all() }).await, [waiting]);
        assert_eq!(list(TranscriptFilter { created_after: Some(border), ..all() }).await, [waiting, done]);
        assert_eq!(list(TranscriptFilter { created_before: Some(border + 1), ..all() }).await, [done]);
        let both = TranscriptFilter { language: Some("en".into()), created_after: Some(border + 1), ..all() };
        assert_eq!(list(both).await, []);
    }

    async fn the_transcripts_of_others_look_absent(place: Place) {
        let store = place.open().await;
        let (ours, theirs) = (account(&store, 0).await, account(&store, 0).await);
        let id = completed(&store, ours).await;
        let session = store.chats().begin(ours, id).await.unwrap();
        let edit = TranscriptEdit { title: Some("mine".into()), ..Default::default() };
        fn absent<T: std::fmt::Debug>(what: Result<T, Error>) {
            assert!(matches!(what, Err(Error::NotFound(_))), "{what:?}");
        }
        absent(store.transcripts().get(theirs, id).await);
        absent(store.transcripts().text(theirs, id).await);
        absent(store.transcripts().speaker_names(theirs, id).await);
        absent(store.transcripts().edit(theirs, id, &edit).await);
        absent(store.transcripts().delete(theirs, id).await);
        absent(store.transcripts().cancel(theirs, id, "x").await);
        absent(store.transcripts().set_summary(theirs, id, "x").await);
        absent(store.transcripts().store_derived(theirs, id, "x", b"x").await);
        absent(store.chats().begin(theirs, id).await);
        absent(store.chats().last_turns(theirs, id, &session, 9).await);
        absent(store.chats().add(theirs, id, &session, "q", "a").await);
        absent(store.recordings().get(theirs, id).await);
        assert_eq!(store.transcripts().derived(theirs, id, "x").await.unwrap(), None);
        assert_eq!(store.transcripts().list(theirs, &Default::default()).await.unwrap().total, 0);
        assert_eq!(store.transcripts().get(ours, id).await.unwrap().title, "Monday meeting");
    }

    async fn an_edit_changes_title_speakers_and_text(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        let id = completed(&store, account).await;
        let edit = TranscriptEdit {
            title: Some("Tuesday".into()),
            speakers: BTreeMap::from([("SPEAKER_00".into(), "Ada".into())]),
            segments: vec![SegmentEdit { position: 1, text: "Shall we start?".into() }],
            ..Default::default()
        };
        assert_eq!(store.transcripts().edit(account, id, &edit).await.unwrap().title, "Tuesday");
        let (found, text) = store.transcripts().text(account, id).await.unwrap();
        assert_eq!(found.word_count, 6);
        assert_eq!(text.text, "Good morning everyone. Shall we start?");
        assert_eq!(text.speakers, ["Ada", "SPEAKER_01"]);
        let words: Vec<_> = text.segments[1].words.iter().map(|w| (w.word.as_str(), w.start)).collect();
        assert_eq!(words, [("Shall", 2.5), ("we", 3.0), ("start?", 3.5)], "as many words keep their times");
        // A speaker is found by the name it has now; an empty name takes it away.
        let rename = |from: &str, to: &str| TranscriptEdit { speakers: BTreeMap::from([(from.into(), to.into())]), ..Default::default() };
        store.transcripts().edit(account, id, &rename("Ada", "Grace")).await.unwrap();
        assert_eq!(store.transcripts().speaker_names(account, id).await.unwrap(), BTreeMap::from([("SPEAKER_00".into(), "Grace".into())]));
        store.transcripts().edit(account, id, &rename("Grace", "")).await.unwrap();
        assert_eq!(store.transcripts().speaker_names(account, id).await.unwrap(), BTreeMap::new());
        let fewer = TranscriptEdit { segments: vec![SegmentEdit { position: 0, text: "Good morning.".into() }], ..Default::default() };
        let before = store.transcripts().text(account, id).await.unwrap().1.segments[0].words.clone();
        assert_eq!(store.transcripts().edit(account, id, &fewer).await.unwrap().word_count, 5);
        let after = store.transcripts().text(account, id).await.unwrap().1.segments[0].words.clone();
        let times = |words: &[hark_api::Word]| words.iter().map(|w| (w.start, w.end, w.confidence)).collect::<Vec<_>>();
        assert_eq!(times(&after), times(&before[..2]), "words that stay keep their times");
        assert_eq!(after[1].word, "morning.");
    }

    async fn an_edit_that_can_not_be_done_changes_nothing(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        let id = completed(&store, account).await;
        let before = store.transcripts().text(account, id).await.unwrap();
        let segments = vec![SegmentEdit { position: 0, text: "x".into() }, SegmentEdit { position: 7, text: "y".into() }];
        let edit = TranscriptEdit { title: Some("new".into()), segments, ..Default::default() };
        assert!(matches!(store.transcripts().edit(account, id, &edit).await, Err(Error::NotFound("segment"))));
        let speakers = BTreeMap::from([("SPEAKER_09".into(), "Ada".into())]);
        let edit = TranscriptEdit { title: Some("new".into()), speakers, ..Default::default() };
        assert!(matches!(store.transcripts().edit(account, id, &edit).await, Err(Error::NotFound("speaker"))));
        assert_eq!(store.transcripts().text(account, id).await.unwrap(), before);
    }

    async fn a_shared_transcript_is_seen_by_its_token_while_sharing_is_on(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        let id = completed(&store, account).await;
        assert_eq!(store.transcripts().get(account, id).await.unwrap().share_token, None);
        let share = |on| TranscriptEdit { shared: Some(on), ..Default::default() };
        let token = store.transcripts().edit(account, id, &share(true)).await.unwrap().share_token.unwrap();
        assert_eq!(token.len(), 32);
        let (shared, text) = store.transcripts().shared(&token).await.unwrap();
        assert_eq!((shared.id, text), (id, result()));
        assert_eq!(store.transcripts().edit(account, id, &share(false)).await.unwrap().share_token, None);
        assert!(matches!(store.transcripts().shared(&token).await, Err(Error::NotFound(_))));
        let second = store.transcripts().edit(account, id, &share(true)).await.unwrap().share_token.unwrap();
        assert_ne!(second, token, "a page that was turned off has another address when it is on again");
        assert!(matches!(store.transcripts().shared(&token).await, Err(Error::NotFound(_))));
        assert_eq!(store.transcripts().edit(account, id, &share(true)).await.unwrap().share_token.as_ref(), Some(&second));
        let rotate = TranscriptEdit { rotate_share_token: true, ..Default::default() };
        let third = store.transcripts().edit(account, id, &rotate).await.unwrap().share_token.unwrap();
        assert!(matches!(store.transcripts().shared(&second).await, Err(Error::NotFound(_))));
        assert_eq!(store.transcripts().shared(&third).await.unwrap().0.id, id);
        store.transcripts().edit(account, id, &share(false)).await.unwrap();
        assert!(matches!(store.transcripts().edit(account, id, &rotate).await, Err(Error::Conflict(_))));
        assert!(store.transcripts().shared("").await.is_err());
    }

    async fn a_deleted_transcript_takes_everything_with_it(place: Place) {
        let store = place.open().await;
        let account = account(&store, 10).await;
        let id = completed(&store, account).await;
        let session = store.chats().begin(account, id).await.unwrap();
        store.chats().add(account, id, &session, "q", "a").await.unwrap();
        store.transcripts().store_derived(account, id, "summary:brief", b"short").await.unwrap();
        assert_eq!(place.recordings().len(), 1);
        let removed = store.transcripts().delete(account, id).await.unwrap();
        assert_eq!(removed.len(), 1);
        assert_eq!(place.recordings().len(), 0);
        assert!(matches!(store.transcripts().get(account, id).await, Err(Error::NotFound(_))));
        assert!(matches!(store.transcripts().delete(account, id).await, Err(Error::NotFound(_))));
        for table in ["segments", "derived", "chat_sessions", "chat_turns", "blobs", "speaker_names"] {
            assert_eq!(crate::accounts::count(&place.database, &format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
        }
    }

    async fn deleting_a_running_transcript_releases_its_hold(place: Place) {
        let store = place.open().await;
        let account = account(&store, 10).await;
        let (id, _) = accept(&store, account, 4).await;
        let job = claim(&store).await;
        store.transcripts().delete(account, id).await.unwrap();
        assert_eq!(store.accounts().get(account).await.unwrap().credits, 10);
        assert!(matches!(store.jobs().complete(&job.lease, &result(), 4, true).await, Err(Error::LeaseLost)));
        assert!(matches!(store.jobs().set_progress(&job.lease, 5).await, Err(Error::LeaseLost)));
        assert_balanced(&store).await;
    }

    async fn a_live_session_becomes_a_transcript_and_is_charged(place: Place) {
        let store = place.open().await;
        let account = account(&store, 10).await;
        store.ledger().hold(account, "live:1", 5, Duration::from_secs(60)).await.unwrap();
        let new = NewTranscript { title: "Live".into(), source_type: "stream".into(), ..Default::default() };
        let (id, settled) = store.transcripts().save(account, &new, &result(), Some(("live:1", 2))).await.unwrap();
        assert_eq!(settled.unwrap().credits, 8);
        let (found, text) = store.transcripts().text(account, id).await.unwrap();
        assert_eq!((found.status, found.source_type.as_str(), text), (Status::Completed, "stream", result()));
        assert_eq!(store.accounts().usage(account, 1).await.unwrap().total_transcripts, 1);
        let again = store.transcripts().save(account, &new, &result(), Some(("live:1", 2))).await;
        assert!(matches!(again, Err(Error::NotFound("hold"))), "{again:?}");
        assert_eq!(store.transcripts().list(account, &Default::default()).await.unwrap().total, 1);
        assert_balanced(&store).await;
    }

    async fn a_conversation_is_kept_in_order(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        let (id, other) = (completed(&store, account).await, completed(&store, account).await);
        let session = store.chats().begin(account, id).await.unwrap();
        store.chats().add(account, id, &session, "who?", "Ada").await.unwrap();
        store.chats().add(account, id, &session, "when?", "Monday").await.unwrap();
        let said = async |limit| {
            let turns = store.chats().last_turns(account, id, &session, limit).await.unwrap();
            turns.into_iter().map(|turn| (turn.role, turn.text)).collect::<Vec<_>>()
        };
        let turn = |role, text: &str| (role, text.to_owned());
        assert_eq!(said(2).await, [turn(ChatRole::User, "when?"), turn(ChatRole::Assistant, "Monday")]);
        assert_eq!(said(9).await, [
            turn(ChatRole::User, "who?"),
            turn(ChatRole::Assistant, "Ada"),
            turn(ChatRole::User, "when?"),
            turn(ChatRole::Assistant, "Monday"),
        ]);
        assert!(store.chats().last_turns(account, other, &session, 9).await.is_err(), "a conversation is about its transcript");
    }

    async fn a_conversation_about_everything_is_of_its_account_and_of_no_transcript(place: Place) {
        let store = place.open().await;
        let (ours, theirs) = (account(&store, 0).await, account(&store, 0).await);
        let id = completed(&store, ours).await;
        let session = store.chats().begin(ours, None).await.unwrap();
        store.chats().add(ours, None, &session, "who?", "Ada").await.unwrap();
        assert_eq!(store.chats().last_turns(ours, None, &session, 9).await.unwrap().len(), 2);
        assert!(store.chats().last_turns(ours, id, &session, 9).await.is_err(), "it is about no transcript");
        assert!(store.chats().last_turns(theirs, None, &session, 9).await.is_err(), "it is of another account");
        let about = store.chats().begin(ours, id).await.unwrap();
        assert!(store.chats().add(ours, None, &about, "q", "a").await.is_err(), "this one is about a transcript");
        store.transcripts().delete(ours, id).await.unwrap();
        assert_eq!(store.chats().last_turns(ours, None, &session, 9).await.unwrap().len(), 2);
        assert!(store.chats().last_turns(ours, id, &about, 9).await.is_err());
    }

    async fn what_was_derived_is_forgotten_when_the_text_changes(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        let id = completed(&store, account).await;
        store.transcripts().store_derived(account, id, "summary:brief", b"first").await.unwrap();
        store.transcripts().store_derived(account, id, "summary:brief", b"second").await.unwrap();
        store.transcripts().set_summary(account, id, "second").await.unwrap();
        assert_eq!(store.transcripts().derived(account, id, "summary:brief").await.unwrap().as_deref(), Some(&b"second"[..]));
        assert_eq!(store.transcripts().get(account, id).await.unwrap().summary.as_deref(), Some("second"));
        let edit = TranscriptEdit { segments: vec![SegmentEdit { position: 0, text: "x".into() }], ..Default::default() };
        assert_eq!(store.transcripts().edit(account, id, &edit).await.unwrap().summary, None);
        assert_eq!(store.transcripts().derived(account, id, "summary:brief").await.unwrap(), None);
    }

    async fn a_new_name_of_a_speaker_makes_all_but_translations_out_of_date(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        let id = completed(&store, account).await;
        let kinds = ["summary:brief", "analysis:action_items", "generation:minutes", "translation:pt"];
        let derive = async || {
            for kind in kinds {
                store.transcripts().store_derived(account, id, kind, b"Ann").await.unwrap();
            }
            store.transcripts().set_summary(account, id, "Ann").await.unwrap();
        };
        let kept = async || {
            let mut kept = Vec::new();
            for kind in kinds {
                kept.extend(store.transcripts().derived(account, id, kind).await.unwrap().map(|_| kind));
            }
            kept
        };
        let rename = async |name: &str| {
            let speakers = BTreeMap::from([("SPEAKER_00".into(), name.into())]);
            store.transcripts().edit(account, id, &TranscriptEdit { speakers, ..Default::default() }).await.unwrap()
        };
        let before = store.transcripts().get(account, id).await.unwrap().text_revision;
        derive().await;
        let renamed = rename("Bea").await;
        assert_eq!((renamed.summary, kept().await), (None, vec!["translation:pt"]));
        assert_eq!(renamed.text_revision, before + 1, "what a call under way made of the old names is not stored");
        derive().await;
        let same = rename("Bea").await;
        assert_eq!((same.summary.as_deref(), same.text_revision), (Some("Ann"), before + 1));
        assert_eq!(kept().await, kinds, "nothing has changed");
        assert_eq!(rename("").await.summary, None);
        assert_eq!(kept().await, ["translation:pt"]);
    }

    async fn a_long_transcript_comes_back_whole(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        accept(&store, account, 0).await;
        let job = claim(&store).await;
        let mut long = result();
        long.segments = (0..1001)
            .map(|n| hark_api::Segment { start: n as f64, end: n as f64 + 0.5, text: format!("no. {n} 字 \u{1f3a4}"), ..long.segments[0].clone() })
            .collect();
        long.text = long.segments.iter().map(|s| s.text.as_str()).collect::<Vec<_>>().join(" ");
        long.speakers.truncate(1);
        store.jobs().complete(&job.lease, &long, 0, true).await.unwrap();
        assert_eq!(store.transcripts().text(account, job.lease.transcript.unwrap()).await.unwrap().1, long);
    }
}
