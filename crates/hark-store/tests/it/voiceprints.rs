use std::collections::BTreeMap;

use hark_store::{Error, MAX_VOICEPRINTS, VoiceprintId};

use crate::support::{accept, account, claim, on_both, result};

on_both! {
    async fn a_voice_is_kept_listed_and_forgotten_by_its_account_alone(place: Place) {
        let store = place.open_sealed([7; 32]).await;
        let (ours, theirs) = (account(&store, 0).await, account(&store, 0).await);
        let made = store.voiceprints().add(ours, "Ann", &[1, 2, 3]).await.unwrap();
        store.voiceprints().add(ours, "Bob", &[4]).await.unwrap();
        let known = store.voiceprints().list(ours).await.unwrap();
        assert_eq!(known[0], made);
        assert_eq!((known[1].name.as_str(), &known[1].print[..]), ("Bob", &[4][..]));
        assert_eq!(store.voiceprints().list(theirs).await.unwrap(), []);
        assert!(matches!(store.voiceprints().remove(theirs, made.id).await, Err(Error::NotFound("speaker"))));
        store.voiceprints().remove(ours, made.id).await.unwrap();
        assert!(matches!(store.voiceprints().remove(ours, made.id).await, Err(Error::NotFound(_))));
        assert_eq!(store.voiceprints().list(ours).await.unwrap().len(), 1);
        assert!(!format!("{known:?}").contains("Bob"), "names belong in no log");
    }

    async fn a_name_is_one_voice_of_an_account_whatever_its_case(place: Place) {
        let store = place.open_sealed([7; 32]).await;
        let (ours, theirs) = (account(&store, 0).await, account(&store, 0).await);
        store.voiceprints().add(ours, "Élodie", &[1]).await.unwrap();
        let again = store.voiceprints().add(ours, "ÉLODIE", &[2]).await;
        assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
        store.voiceprints().add(theirs, "Élodie", &[3]).await.unwrap();
        assert_eq!(store.voiceprints().list(ours).await.unwrap()[0].print, [1]);
    }

    async fn of_two_that_take_a_name_at_once_one_gets_it(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        let add = |print: u8| {
            let store = store.clone();
            tokio::spawn(async move { store.voiceprints().add(account, "Ann", &[print]).await })
        };
        let made: Vec<_> = [add(1), add(2), add(3), add(4)].into();
        let mut won = 0;
        for one in made {
            won += usize::from(one.await.unwrap().is_ok());
        }
        assert_eq!((won, store.voiceprints().list(account).await.unwrap().len()), (1, 1));
    }

    async fn an_account_keeps_no_more_voices_than_it_may(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        for number in 0..MAX_VOICEPRINTS {
            store.voiceprints().add(account, &format!("voice {number}"), &[0]).await.unwrap();
        }
        let more = store.voiceprints().add(account, "one more", &[0]).await;
        assert!(matches!(more, Err(Error::Conflict(_))), "{more:?}");
        let first = store.voiceprints().list(account).await.unwrap()[0].id;
        store.voiceprints().remove(account, first).await.unwrap();
        assert!(store.voiceprints().add(account, "one more", &[0]).await.unwrap().id > VoiceprintId(first.0));
    }

    async fn a_recording_is_completed_with_the_names_that_were_known(place: Place) {
        let store = place.open_sealed([7; 32]).await;
        let account = account(&store, 9).await;
        accept(&store, account, 1).await;
        let job = claim(&store).await;
        let names = BTreeMap::from([("SPEAKER_00".to_owned(), "Ann".to_owned())]);
        store.jobs().complete_named(&job.lease, &result(), &names, 1, false).await.unwrap();
        let id = job.lease.transcript.unwrap();
        assert_eq!(store.transcripts().speaker_names(account, id).await.unwrap(), names);
        let (_, text) = store.transcripts().text(account, id).await.unwrap();
        assert_eq!(text.speakers, ["Ann", "SPEAKER_01"]);
        assert_eq!(text.segments[1].overlapping_speakers, ["Ann"]);
        // A worker whose lease is over leaves no names either.
        let late = store.jobs().complete_named(&job.lease, &result(), &[("SPEAKER_01".into(), "Eve".into())].into(), 1, false).await;
        assert!(matches!(late, Err(Error::LeaseLost)));
        assert_eq!(store.transcripts().speaker_names(account, id).await.unwrap(), names);
    }
}
