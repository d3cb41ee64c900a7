use std::time::Duration;

use hark_store::{Accepted, Actor, Error, IdempotencyKey, NewAudit, NewJob, Owner};

use crate::support::{account, claim, new_job, on_both, result};

on_both! {
    async fn the_log_is_read_by_account_newest_first_and_forgets_addresses_before_entries(place: Place) {
        let store = place.open().await;
        let (ours, theirs) = (account(&store, 0).await, account(&store, 0).await);
        let entry = |number: usize| NewAudit {
            actor: Actor::Visitor,
            address: Some("192.0.2.7".into()),
            ..NewAudit::by_operator(ours, "session.created").to(format!("session {number}"))
        };
        for number in 0..3 {
            store.audit().record(&entry(number)).await.unwrap();
        }
        store.audit().record(&NewAudit::by_operator(theirs, "credits.changed").saying("+5: by hand")).await.unwrap();
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
        store.idempotency().abandon(&owner, &name).await.unwrap();
        assert!(store.idempotency().is_used(&owner, "once").await.unwrap());
        let other = IdempotencyKey { fingerprint: vec![7], older: Vec::new(), ..name.clone() };
        assert!(matches!(store.jobs().accept(job(&other).await).await, Err(Error::KeyReused)));
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 9, "charged once");
        place.clock.advance(Duration::from_secs(3600));
        assert!(matches!(store.jobs().accept(job(&name).await).await, Ok(Accepted::New { .. })));
    }
}
