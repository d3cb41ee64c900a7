use std::collections::BTreeMap;

use hark_store::{Error, SegmentEdit, TranscriptEdit};

use crate::support::{account, completed, on_both};

fn text(position: i64, text: &str) -> TranscriptEdit {
    TranscriptEdit { segments: vec![SegmentEdit { position, text: text.into() }], ..Default::default() }
}

on_both! {
    async fn a_version_changes_with_what_an_edit_changes_and_with_nothing_else(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        let id = completed(&store, account).await;
        let transcripts = store.transcripts();
        let version = async || transcripts.get(account, id).await.unwrap().version();
        let mut seen = vec![version().await];
        let rename = BTreeMap::from([("SPEAKER_00".into(), "Ada".into())]);
        let changes = [
            TranscriptEdit { title: Some("Tuesday".into()), ..Default::default() },
            text(0, "Good evening."),
            TranscriptEdit { speakers: rename.clone(), ..Default::default() },
            TranscriptEdit { shared: Some(true), ..Default::default() },
            TranscriptEdit { rotate_share_token: true, ..Default::default() },
        ];
        for change in changes {
            let edited = transcripts.edit(account, id, &change).await.unwrap();
            assert_eq!(version().await, edited.version());
            assert!(!seen.contains(&edited.version()), "{change:?} made no new version");
            seen.push(edited.version());
        }
        let private = TranscriptEdit { shared: Some(false), ..Default::default() };
        transcripts.edit(account, id, &private).await.unwrap();
        assert_eq!(version().await, seen[3], "all is as it was before it was shared");
        transcripts.set_summary(account, id, "They met.").await.unwrap();
        transcripts.edit(account, id, &TranscriptEdit { speakers: rename, ..Default::default() }).await.unwrap();
        assert_eq!(version().await, seen[3], "what is made of it, and a name that it has, change nothing");
    }

    async fn an_edit_of_an_older_version_is_refused_as_a_whole(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        let id = completed(&store, account).await;
        let transcripts = store.transcripts();
        let read = transcripts.get(account, id).await.unwrap().version();
        let first = TranscriptEdit { expected: Some(vec!["other".into(), read.clone()]), ..text(0, "Good evening.") };
        let now = transcripts.edit(account, id, &first).await.unwrap().version();
        let late = TranscriptEdit { title: Some("late".into()), expected: Some(vec![read]), ..text(1, "What else?") };
        assert!(matches!(transcripts.edit(account, id, &late).await, Err(Error::Changed)));
        let (found, said) = transcripts.text(account, id).await.unwrap();
        assert_eq!((found.title.as_str(), said.text.as_str()), ("Monday meeting", "Good evening. Shall we begin?"));
        let again = TranscriptEdit { expected: Some(vec![now]), ..late };
        assert_eq!(transcripts.edit(account, id, &again).await.unwrap().title, "late");
        assert!(transcripts.edit(account, id, &text(0, "x")).await.is_ok(), "without a version the last one wins");
    }
    async fn a_segment_is_given_to_another_speaker_and_to_a_new_one(place: Place) {
        let store = place.open_sealed([7; 32]).await;
        let account = account(&store, 0).await;
        let id = completed(&store, account).await;
        let transcripts = store.transcripts();
        let give = async |position, speaker: &str| {
            let edit = TranscriptEdit { segment_speakers: BTreeMap::from([(position, speaker.to_owned())]), ..Default::default() };
            transcripts.edit(account, id, &edit).await.map(|edited| edited.num_speakers)
        };
        let speakers = async || {
            let (_, said) = transcripts.text(account, id).await.unwrap();
            let each = said.segments.into_iter().map(|segment| (segment.speaker.unwrap_or_default(), segment.overlapping_speakers));
            each.collect::<Vec<_>>()
        };
        let two = |first: &str, second: &str, over: &[&str]| {
            let over = over.iter().map(|label| (*label).to_owned()).collect();
            vec![(first.to_owned(), Vec::new()), (second.to_owned(), over)]
        };
        transcripts.store_derived(account, id, "summary:brief", b"{}").await.unwrap();
        transcripts.store_derived(account, id, "translation:pt", b"{}").await.unwrap();
        let before = transcripts.text(account, id).await.unwrap().1;
        assert_eq!(give(0, "SPEAKER_01").await.unwrap(), 1);
        assert_eq!(speakers().await, two("SPEAKER_01", "SPEAKER_01", &["SPEAKER_00"]));
        // What names speakers is out of date; a translation is of the text.
        assert_eq!(transcripts.derived(account, id, "summary:brief").await.unwrap(), None);
        assert!(transcripts.derived(account, id, "translation:pt").await.unwrap().is_some());
        // A name that nobody has makes a speaker, whose label is nobody's.
        assert_eq!(give(1, "Ada").await.unwrap(), 2);
        assert_eq!(speakers().await, two("SPEAKER_01", "Ada", &["SPEAKER_00"]));
        assert_eq!(transcripts.speaker_names(account, id).await.unwrap(), BTreeMap::from([("SPEAKER_02".into(), "Ada".into())]));
        assert_eq!(give(0, "Ada").await.unwrap(), 1, "she is the same by her name");
        // Who spoke over the segment can be the one who says it.
        assert_eq!(give(1, "SPEAKER_00").await.unwrap(), 2);
        assert_eq!(speakers().await, two("Ada", "SPEAKER_00", &[]));
        assert_eq!(give(0, "SPEAKER_07").await.unwrap(), 2);
        assert_eq!(give(0, "").await.unwrap(), 1);
        assert_eq!(speakers().await, two("", "SPEAKER_00", &[]));
        assert!(matches!(give(2, "Ada").await, Err(Error::NotFound("segment"))));
        assert!(matches!(give(-1, "Ada").await, Err(Error::NotFound("segment"))));
        let after = transcripts.text(account, id).await.unwrap().1;
        assert_eq!(after.text, before.text);
        for (after, before) in after.segments.iter().zip(&before.segments) {
            assert_eq!((&after.words, after.start, after.end), (&before.words, before.start, before.end));
        }
    }

    async fn a_speaker_that_a_segment_has_already_changes_nothing(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        let id = completed(&store, account).await;
        store.transcripts().store_derived(account, id, "summary:brief", b"{}").await.unwrap();
        let before = store.transcripts().get(account, id).await.unwrap();
        let same = BTreeMap::from([(0, "SPEAKER_00".to_owned()), (1, "SPEAKER_01".to_owned())]);
        let edit = TranscriptEdit { segment_speakers: same, ..Default::default() };
        assert_eq!(store.transcripts().edit(account, id, &edit).await.unwrap(), before);
        assert!(store.transcripts().derived(account, id, "summary:brief").await.unwrap().is_some());
    }
}
