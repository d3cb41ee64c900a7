use std::time::Duration;

use hark_store::{
    AccountId, Begun, Call, CallResult, Derived, Error, IdempotencyKey, KeyId, KeyKind, Limit, NewCall, NewKey,
    SegmentEdit, Store, StoredAnswer, TranscriptEdit,
};

use crate::support::{account, assert_balanced, completed, on_both};

const TTL: Duration = Duration::from_secs(600);

async fn key(store: &Store, account: AccountId, spending_limit: Option<i64>) -> KeyId {
    let new = NewKey { spending_limit, ..NewKey::new(KeyKind::Service, "laptop") };
    store.keys().create(account, &new).await.unwrap().0.id
}

fn named(key: &str) -> IdempotencyKey {
    IdempotencyKey { key: key.to_owned(), fingerprint: vec![7], older: Vec::new(), keep: TTL }
}

fn new_call(account: AccountId, key: KeyId, idempotency: Option<IdempotencyKey>) -> NewCall {
    NewCall { account, key, credits: 1, ttl: TTL, idempotency }
}

async fn begin(store: &Store, new: NewCall) -> Call {
    match store.calls().begin(new).await.unwrap() {
        Begun::New(call) => call,
        other => panic!("{other:?}"),
    }
}

async fn credits(store: &Store, account: AccountId) -> i64 {
    store.accounts().get(account).await.unwrap().credits
}

on_both! {
    async fn a_call_is_charged_once_and_leaves_its_answer_and_its_summary(place: Place) {
        let store = place.open().await;
        let account = account(&store, 10).await;
        let transcript = completed(&store, account).await;
        let (before, key) = (credits(&store, account).await, key(&store, account, None).await);
        let call = begin(&store, new_call(account, key, Some(named("k")))).await;
        assert!(matches!(store.calls().begin(new_call(account, key, Some(named("k")))).await, Ok(Begun::UnderWay)));
        let answer = StoredAnswer { status: 200, content_type: "application/json".to_owned(), body: b"{}".to_vec() };
        let derived = Derived { transcript, revision: 0, kind: "summary:brief", body: b"short", summary: Some("short") };
        let result = CallResult { note: "summarize", answer: Some(&answer), derived: Some(derived) };
        store.calls().complete(&call, result).await.unwrap();
        assert!(matches!(store.calls().complete(&call, result).await, Err(Error::NotFound(_))));
        store.calls().abandon(&call).await.unwrap();
        assert_eq!(credits(&store, account).await, before - 1);
        assert_eq!(store.keys().spent(key).await.unwrap(), 1);
        assert_eq!(store.transcripts().get(account, transcript).await.unwrap().summary.as_deref(), Some("short"));
        assert_eq!(store.transcripts().derived(account, transcript, "summary:brief").await.unwrap().unwrap(), b"short");
        let again = store.calls().begin(new_call(account, key, Some(named("k")))).await.unwrap();
        assert!(matches!(again, Begun::Done(stored) if stored == answer));
        assert_balanced(&store).await;
    }

    async fn a_call_without_an_answer_costs_nothing_and_may_be_repeated(place: Place) {
        let store = place.open().await;
        let account = account(&store, 1).await;
        let key = key(&store, account, Some(1)).await;
        for _ in 0..3 {
            let call = begin(&store, new_call(account, key, Some(named("k")))).await;
            assert_eq!((credits(&store, account).await, store.keys().spent(key).await.unwrap()), (0, 1));
            store.calls().abandon(&call).await.unwrap();
            assert_eq!((credits(&store, account).await, store.keys().spent(key).await.unwrap()), (1, 0));
        }
        assert_balanced(&store).await;
    }

    async fn a_call_whose_process_died_gives_its_credits_back_when_its_hold_expires(place: Place) {
        let store = place.open().await;
        let account = account(&store, 1).await;
        let key = key(&store, account, Some(1)).await;
        let call = begin(&store, new_call(account, key, Some(named("k")))).await;
        place.clock.advance(TTL + Duration::from_secs(1));
        assert_eq!(store.ledger().release_expired().await.unwrap(), 1);
        assert_eq!((credits(&store, account).await, store.keys().spent(key).await.unwrap()), (1, 0));
        let late = store.calls().complete(&call, CallResult::default()).await;
        assert!(matches!(late, Err(Error::NotFound(_))), "{late:?}");
        begin(&store, new_call(account, key, Some(named("k")))).await;
        assert_balanced(&store).await;
    }

    async fn a_repeat_of_a_long_call_waits_for_it_and_is_not_charged(place: Place) {
        let store = place.open().await;
        let account = account(&store, 10).await;
        let (before, key) = (credits(&store, account).await, key(&store, account, None).await);
        let hour = NewCall { ttl: Duration::from_secs(3720), ..new_call(account, key, Some(named("k"))) };
        let call = begin(&store, hour.clone()).await;
        place.clock.advance(Duration::from_secs(3600));
        assert!(matches!(store.calls().begin(hour.clone()).await, Ok(Begun::UnderWay)));
        let answer = StoredAnswer { status: 200, content_type: "application/json".to_owned(), body: b"{}".to_vec() };
        store.calls().complete(&call, CallResult { answer: Some(&answer), ..CallResult::default() }).await.unwrap();
        assert!(matches!(store.calls().begin(hour).await, Ok(Begun::Done(_))));
        assert_eq!(credits(&store, account).await, before - 1);
        assert_balanced(&store).await;
    }

    async fn a_call_that_outlived_its_claim_is_not_charged_and_leaves_its_repeat_alone(place: Place) {
        let store = place.open().await;
        let account = account(&store, 10).await;
        let (before, key) = (credits(&store, account).await, key(&store, account, None).await);
        let new = new_call(account, key, Some(named("k")));
        let answer = StoredAnswer { status: 200, content_type: "application/json".to_owned(), body: b"{}".to_vec() };
        let result = CallResult { answer: Some(&answer), ..CallResult::default() };
        let late = begin(&store, new.clone()).await;
        place.clock.advance(TTL);
        let repeat = begin(&store, new.clone()).await;
        let refused = store.calls().complete(&late, result).await;
        assert!(matches!(refused, Err(Error::NotFound(_))), "{refused:?}");
        store.calls().abandon(&late).await.unwrap();
        assert!(matches!(store.calls().begin(new.clone()).await, Ok(Begun::UnderWay)), "the claim of the repeat stays");
        store.calls().complete(&repeat, result).await.unwrap();
        assert!(matches!(store.calls().begin(new).await, Ok(Begun::Done(_))));
        assert_eq!(credits(&store, account).await, before - 1);
        assert_balanced(&store).await;
    }

    async fn a_call_that_nobody_can_pay_for_does_not_begin_and_takes_no_key(place: Place) {
        let store = place.open().await;
        let account = account(&store, 0).await;
        let (key, spent) = (key(&store, account, None).await, key(&store, account, Some(0)).await);
        let refused = store.calls().begin(new_call(account, key, Some(named("k")))).await;
        assert!(matches!(refused, Err(Error::NotEnoughCredits { have: 0, need: 1 })), "{refused:?}");
        store.ledger().grant(account, 1, "").await.unwrap();
        let refused = store.calls().begin(new_call(account, spent, Some(named("k")))).await;
        assert!(matches!(refused, Err(Error::Limit { what: Limit::Spending, limit: 0, used: 0 })), "{refused:?}");
        begin(&store, new_call(account, key, Some(named("k")))).await;
        let mut other = named("k");
        other.fingerprint = vec![8];
        let reused = store.calls().begin(new_call(account, key, Some(other))).await;
        assert!(matches!(reused, Err(Error::KeyReused)), "{reused:?}");
    }

    async fn a_call_about_a_transcript_that_was_deleted_meanwhile_is_not_charged(place: Place) {
        let store = place.open().await;
        let account = account(&store, 10).await;
        let transcript = completed(&store, account).await;
        let (before, key) = (credits(&store, account).await, key(&store, account, None).await);
        let call = begin(&store, new_call(account, key, None)).await;
        store.transcripts().delete(account, transcript).await.unwrap();
        let derived = Derived { transcript, revision: 0, kind: "summary:brief", body: b"short", summary: None };
        let late = store.calls().complete(&call, CallResult { derived: Some(derived), ..CallResult::default() }).await;
        assert!(matches!(late, Err(Error::NotFound(_))), "{late:?}");
        store.calls().abandon(&call).await.unwrap();
        assert_eq!(credits(&store, account).await, before);
        assert_balanced(&store).await;
    }

    async fn what_was_made_of_a_text_that_was_edited_meanwhile_is_charged_but_not_stored(place: Place) {
        let store = place.open().await;
        let account = account(&store, 10).await;
        let transcript = completed(&store, account).await;
        let (before, key) = (credits(&store, account).await, key(&store, account, None).await);
        let read = store.transcripts().get(account, transcript).await.unwrap().text_revision;
        let call = begin(&store, new_call(account, key, None)).await;
        let change = SegmentEdit { position: 0, text: "Something else.".to_owned() };
        let edit = TranscriptEdit { segments: vec![change], ..TranscriptEdit::default() };
        let now = store.transcripts().edit(account, transcript, &edit).await.unwrap().text_revision;
        assert_ne!(now, read);
        let derived = |revision| Derived { transcript, revision, kind: "summary:brief", body: b"short", summary: Some("short") };
        let result = |revision| CallResult { derived: Some(derived(revision)), ..CallResult::default() };
        store.calls().complete(&call, result(read)).await.unwrap();
        assert_eq!(credits(&store, account).await, before - 1);
        assert_eq!(store.transcripts().derived(account, transcript, "summary:brief").await.unwrap(), None);
        assert_eq!(store.transcripts().get(account, transcript).await.unwrap().summary, None);
        let call = begin(&store, new_call(account, key, None)).await;
        store.calls().complete(&call, result(now)).await.unwrap();
        assert_eq!(store.transcripts().derived(account, transcript, "summary:brief").await.unwrap().unwrap(), b"short");
    }
}
