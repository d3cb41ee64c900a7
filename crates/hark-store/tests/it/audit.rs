use std::time::Duration;

use hark_store::{
    Accepted, AccountChange, AccountId, Actor, Error, IdempotencyKey, KeyChange, KeyId, KeyKind, NewAccount, NewAudit,
    NewJob, NewKey, Owner, Plan, TranscriptId,
};

use crate::support::{account, claim, completed, new_claim, new_job, on_both, result};

/// An entry that no database can store.
fn unwritable(account: AccountId) -> NewAudit {
    NewAudit::by_operator(account, "test.refused").with_detail("\0")
}

on_both! {
    async fn an_act_and_its_entry_are_there_together_or_not_at_all(place: Place) {
        let store = place.open().await;
        let id = account(&store, 5).await;
        let transcript = completed(&store, id).await;
        let voice = store.voiceprints().add(id, "Ada", &[1; 8]).await.unwrap().id;
        let (key, _) = store.keys().create(id, &NewKey::new(KeyKind::Service, "first")).await.unwrap();
        let bad = unwritable(id);
        // The entry can't be written, so nothing is done.
        let new = NewKey::new(KeyKind::Service, "second");
        assert!(store.keys().audited(&bad).create(id, &new).await.is_err());
        assert!(store.keys().audited(&bad).revoke(id, key.id).await.is_err());
        assert!(store.keys().audited(&bad).roll(id, key.id, Duration::ZERO).await.is_err());
        let change = KeyChange { name: Some("other".into()), ..KeyChange::default() };
        assert!(store.keys().audited(&bad).change(id, key.id, &change).await.is_err());
        assert!(store.ledger().audited(&bad).grant(id, 7, "").await.is_err());
        assert!(store.ledger().audited(&bad).adjust(id, -1, "").await.is_err());
        assert!(store.transcripts().audited(&bad).delete(id, transcript).await.is_err());
        assert!(store.voiceprints().audited(&bad).remove(id, voice).await.is_err());
        assert!(store.webhooks().audited(&bad).rotate_secret(id, Duration::ZERO).await.is_err());
        let plan = AccountChange { plan: Some(Plan::Business), ..AccountChange::default() };
        assert!(store.accounts().audited(&bad).change(id, &plan).await.is_err());
        assert!(store.accounts().audited(&bad).delete(id).await.is_err());
        let refused = NewAccount::new("nobody@example.org", Plan::Free);
        assert!(store.accounts().audited(&bad).create(&refused).await.is_err());
        assert_eq!(store.keys().list(id, KeyKind::Service).await.unwrap(), std::slice::from_ref(&key));
        assert_eq!(store.accounts().list().await.unwrap().len(), 1);
        let before = store.accounts().get(id).await.unwrap();
        assert_eq!((before.plan, before.credits), (Plan::Pro, 5));
        assert!(store.transcripts().get(id, transcript).await.is_ok());
        assert_eq!(store.voiceprints().list(id).await.unwrap().len(), 1);
        assert_eq!(store.webhooks().rotation(id).await.unwrap().0, 0);
        assert_eq!(store.audit().page(None, 1, 100).await.unwrap().total, 0);

        // What is refused leaves no entry.
        let entry = |event| NewAudit::by_operator(id, event);
        assert!(store.keys().audited(&entry("key.revoked")).revoke(id, KeyId(99_999)).await.is_err());
        assert!(store.transcripts().audited(&entry("transcript.deleted")).delete(id, TranscriptId(1)).await.is_err());
        assert!(store.ledger().audited(&entry("credits.changed")).adjust(id, -1000, "").await.is_err());
        assert_eq!(store.audit().page(None, 1, 100).await.unwrap().total, 0);

        // What is done leaves one, which names what it was done to.
        let (made, _) = store.keys().audited(&entry("key.created")).create(id, &new).await.unwrap();
        store.keys().audited(&entry("key.revoked")).revoke(id, key.id).await.unwrap();
        store.ledger().audited(&entry("credits.changed").with_detail("+7: goodwill")).grant(id, 7, "goodwill").await.unwrap();
        store.transcripts().audited(&entry("transcript.deleted")).delete(id, transcript).await.unwrap();
        store.voiceprints().audited(&entry("speaker.deleted")).remove(id, voice).await.unwrap();
        store.accounts().audited(&entry("account.deleted")).delete(id).await.unwrap();
        let log = store.audit().page(None, 1, 100).await.unwrap().entries;
        let told: Vec<_> = log.iter().rev().map(|e| (e.event.as_str(), e.subject.clone(), e.detail.as_str())).collect();
        assert_eq!(
            told,
            [
                ("key.created", format!("key {}", made.id), ""),
                ("key.revoked", format!("key {}", key.id), ""),
                ("credits.changed", String::new(), "+7: goodwill"),
                ("transcript.deleted", format!("transcript {transcript}"), ""),
                ("speaker.deleted", format!("speaker {voice}"), ""),
                ("account.deleted", String::new(), "0 recordings"),
            ]
        );
    }

    async fn the_log_is_read_by_account_newest_first_and_forgets_addresses_before_entries(place: Place) {
        let store = place.open().await;
        let (ours, theirs) = (account(&store, 0).await, account(&store, 0).await);
        let entry = |number: usize| NewAudit {
            actor: Actor::Visitor,
            address: Some("192.0.2.7".into()),
            ..NewAudit::by_operator(ours, "session.created").with_subject(format!("session {number}"))
        };
        for number in 0..3 {
            store.audit().record(&entry(number)).await.unwrap();
        }
        store.audit().record(&NewAudit::by_operator(theirs, "credits.changed").with_detail("+5: by hand")).await.unwrap();
        store.audit().record(&NewAudit { account: None, ..entry(9) }).await.unwrap();
        let page = store.audit().page(Some(ours), 1, 2).await.unwrap();
        assert_eq!((page.total, page.entries.len(), page.entries[0].subject.as_str()), (3, 2, "session 2"));
        assert_eq!(store.audit().page(Some(ours), 2, 2).await.unwrap().entries[0].subject, "session 0");
        let all = store.audit().page(None, 1, 10).await.unwrap();
        assert_eq!((all.total, all.entries[1].actor.as_str(), all.entries[1].detail.as_str()), (5, "operator", "+5: by hand"));
        assert_eq!(all.entries[0].account, None);
        // Deleting an account leaves what was done and takes from where.
        store.accounts().delete(ours).await.unwrap();
        let left = store.audit().page(Some(ours), 1, 10).await.unwrap();
        assert_eq!(left.total, 3);
        assert!(left.entries.iter().all(|entry| entry.address.is_none()));
        let day = Duration::from_secs(86_400);
        place.clock.advance(day * 2);
        assert_eq!(store.audit().expire(day * 3, day).await.unwrap(), 0);
        assert!(store.audit().page(None, 1, 10).await.unwrap().entries.iter().all(|entry| entry.address.is_none()));
        place.clock.advance(day * 2);
        assert_eq!(store.audit().expire(day * 3, day).await.unwrap(), 5);
    }

    async fn the_name_of_a_request_outlives_its_transcript_until_it_expires(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let owner = Owner::Account(id);
        let name = IdempotencyKey {
            key: "once".into(),
            fingerprint: vec![2],
            older: vec![vec![1]],
            keep: Duration::from_secs(3600),
        };
        let job = async |name: &IdempotencyKey| NewJob { idempotency: Some(name.clone()), ..new_job(&store, &owner, 1).await };
        let old = new_claim(store.idempotency().begin(&owner, &name, Duration::from_secs(60)).await.unwrap());
        place.clock.advance(Duration::from_secs(60));
        let Accepted::New { transcript, .. } = store.jobs().accept(job(&name).await).await.unwrap() else { panic!("the first") };
        store.jobs().complete(&claim(&store).await.lease, &result(), 1, true).await.unwrap();
        // A repeat that an earlier version hashed in another way is the same request.
        let older = IdempotencyKey { fingerprint: vec![9], older: vec![vec![2]], ..name.clone() };
        assert_eq!(store.jobs().accept(job(&older).await).await.unwrap(), Accepted::Repeat { transcript });
        store.transcripts().delete(id, transcript).await.unwrap();
        for _ in 0..2 {
            assert!(matches!(store.jobs().accept(job(&name).await).await, Err(Error::Deleted)));
        }
        assert!(matches!(store.idempotency().transcript(&owner, &name).await, Err(Error::Deleted)));
        store.idempotency().abandon(&owner, &old).await.unwrap();
        assert!(store.idempotency().is_used(&owner, "once").await.unwrap());
        let other = IdempotencyKey { fingerprint: vec![7], older: Vec::new(), ..name.clone() };
        assert!(matches!(store.jobs().accept(job(&other).await).await, Err(Error::KeyReused)));
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 9, "charged once");
        place.clock.advance(Duration::from_secs(3600));
        assert!(matches!(store.jobs().accept(job(&name).await).await, Ok(Accepted::New { .. })));
    }
}
