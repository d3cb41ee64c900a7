use std::time::Duration;

use hark_store::{
    Accepted, AnonymousLimit, AnonymousUse, Error, FaultKind, Idempotency, IdempotencyKey, KeyKind, Limit, NewJob,
    NewKey, Owner, StoredAnswer, day_of,
};

use crate::support::{START, account, claim, new_claim, new_job, on_both, result};

on_both! {
    async fn an_owner_has_only_so_many_jobs_at_once(place: Place) {
        let store = place.open().await;
        let owner = Owner::Account(account(&store, 0).await);
        let send = async || {
            let job = new_job(&store, &owner, 0).await;
            store.jobs().accept(NewJob { max_live: Some(2), ..job }).await
        };
        send().await.unwrap();
        send().await.unwrap();
        let refused = send().await;
        assert!(matches!(refused, Err(Error::Limit { what: Limit::ConcurrentJobs, limit: 2, used: 2 })), "{refused:?}");
        let job = claim(&store).await;
        assert!(send().await.is_err(), "a running job counts too");
        store.jobs().complete(&job.lease, &result(), 0, false).await.unwrap();
        send().await.unwrap();
    }

    async fn an_account_keeps_only_so_many_bytes_of_recordings(place: Place) {
        let store = place.open().await;
        let id = account(&store, 0).await;
        let owner = Owner::Account(id);
        // A recording of these tests has 16 bytes.
        let send = async || {
            let job = new_job(&store, &owner, 0).await;
            store.jobs().accept(NewJob { max_storage: Some(40), ..job }).await
        };
        let Accepted::New { transcript, .. } = send().await.unwrap() else { panic!("no repeat") };
        send().await.unwrap();
        assert_eq!(store.recordings().bytes_used(id).await.unwrap(), 32);
        let refused = send().await;
        assert!(matches!(refused, Err(Error::Limit { what: Limit::StorageBytes, limit: 40, used: 32 })), "{refused:?}");
        assert_eq!(store.recordings().bytes_used(id).await.unwrap(), 32, "what was refused is not kept");
        store.transcripts().delete(id, transcript).await.unwrap();
        send().await.unwrap();
        assert_eq!(store.recordings().bytes_used(account(&store, 0).await).await.unwrap(), 0);
    }

    async fn a_full_queue_takes_no_more(place: Place) {
        let store = place.open().await;
        let owner = Owner::Account(account(&store, 0).await);
        let send = async || {
            let job = new_job(&store, &owner, 0).await;
            store.jobs().accept(NewJob { max_queued: Some(1), ..job }).await
        };
        send().await.unwrap();
        assert!(matches!(send().await, Err(Error::QueueFull { length: 1 })));
        claim(&store).await;
        send().await.unwrap();
    }

    async fn an_address_has_only_so_many_transcriptions_a_day(place: Place) {
        let store = place.open().await;
        let send = async |address: &str, limit| {
            let job = new_job(&store, &Owner::Anonymous(address.into()), 0).await;
            store.jobs().accept(NewJob { anonymous_limit: Some(limit), ..job }).await
        };
        let three = AnonymousLimit::Transcriptions(3);
        for _ in 0..3 {
            send("a", three).await.unwrap();
        }
        let refused = send("a", three).await;
        assert!(matches!(refused, Err(Error::Limit { what: Limit::AnonymousTranscriptions, limit: 3, used: 3 })), "{refused:?}");
        send("b", three).await.unwrap();
        let today = day_of(START);
        assert_eq!(store.addresses().anonymous_use("a", today).await.unwrap(), AnonymousUse { transcriptions: 3, minutes: 6 });
        // What fails by our fault does not count.
        let job = claim(&store).await;
        store.jobs().fail(&job.lease, FaultKind::Input, "x").await.unwrap();
        assert_eq!(store.addresses().anonymous_use("a", today).await.unwrap(), AnonymousUse { transcriptions: 2, minutes: 4 });
        send("a", three).await.unwrap();
        place.clock.advance(Duration::from_secs(86_400));
        send("a", three).await.unwrap();
        let refused = send("a", AnonymousLimit::Minutes(3)).await;
        assert!(matches!(refused, Err(Error::Limit { what: Limit::AnonymousMinutes, limit: 3, used: 2 })), "{refused:?}");
        store.addresses().count_anonymous("a", today + 1, 1, AnonymousLimit::Minutes(3)).await.unwrap();
        assert!(store.addresses().count_anonymous("a", today + 1, 1, AnonymousLimit::Minutes(3)).await.is_err());
    }

    async fn anonymous_jobs_of_one_address_do_not_crowd_out_another(place: Place) {
        let store = place.open().await;
        let send = async |address: &str| {
            let job = new_job(&store, &Owner::Anonymous(address.into()), 0).await;
            store.jobs().accept(NewJob { max_live: Some(1), ..job }).await
        };
        send("a").await.unwrap();
        assert!(matches!(send("a").await, Err(Error::Limit { what: Limit::ConcurrentJobs, .. })));
        send("b").await.unwrap();
        assert_eq!(claim(&store).await.owner, Owner::Anonymous("a".into()));
    }

    async fn a_jobs_minutes_count_for_its_key_and_failures_do_not(place: Place) {
        let store = place.open().await;
        let id = account(&store, 100).await;
        let new = NewKey { monthly_limit_minutes: 5, ..NewKey::new(KeyKind::Service, "k") };
        let (key, _) = store.keys().create(id, &new).await.unwrap();
        let send = async || {
            let job = new_job(&store, &Owner::Account(id), 2).await;
            store.jobs().accept(NewJob { key: Some(key.id), ..job }).await
        };
        send().await.unwrap();
        send().await.unwrap();
        let refused = send().await;
        assert!(matches!(refused, Err(Error::Limit { what: Limit::MonthlyMinutes, limit: 5, used: 4 })), "{refused:?}");
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 96, "a refused job holds nothing");
        let job = claim(&store).await;
        store.jobs().fail(&job.lease, FaultKind::Input, "x").await.unwrap();
        assert_eq!(store.keys().minutes_used(key.id).await.unwrap(), 2);
        let job = claim(&store).await;
        store.jobs().complete(&job.lease, &result(), 1, false).await.unwrap();
        assert_eq!(store.keys().minutes_used(key.id).await.unwrap(), 1);
        // A key that is revoked while its job runs does not stop the job.
        send().await.unwrap();
        store.keys().revoke(id, key.id).await.unwrap();
        let job = claim(&store).await;
        store.jobs().complete(&job.lease, &result(), 2, false).await.unwrap();
    }

    async fn questions_are_counted_by_the_day(place: Place) {
        let store = place.open().await;
        let id = account(&store, 0).await;
        assert_eq!(store.chats().count_question(id, Some(2)).await.unwrap().asked, 1);
        let second = store.chats().count_question(id, Some(2)).await.unwrap();
        assert_eq!(second.asked, 2);
        let refused = store.chats().count_question(id, Some(2)).await;
        assert!(matches!(refused, Err(Error::Limit { what: Limit::DailyQuestions, limit: 2, used: 2 })), "{refused:?}");
        assert_eq!(store.chats().questions_today(id).await.unwrap(), 2);
        store.chats().uncount_question(id, second).await.unwrap();
        let third = store.chats().count_question(id, Some(2)).await.unwrap();
        assert_eq!(third.asked, 2);
        place.clock.advance(Duration::from_secs(86_400));
        assert_eq!(store.chats().questions_today(id).await.unwrap(), 0);
        assert_eq!(store.chats().count_question(id, None).await.unwrap().asked, 1);
        // It was asked before midnight and failed after it: the count of the new day stays.
        store.chats().uncount_question(id, third).await.unwrap();
        assert_eq!(store.chats().questions_today(id).await.unwrap(), 1);
    }

    async fn a_repeated_call_gets_the_same_answer(place: Place) {
        let store = place.open().await;
        let owner = Owner::Account(account(&store, 0).await);
        let name = |print: u8| IdempotencyKey { key: "k".into(), fingerprint: vec![print], older: Vec::new(), keep: Duration::from_secs(3600) };
        let begin = async |print: u8| store.idempotency().begin(&owner, &name(print), Duration::from_secs(600)).await;
        let first = new_claim(begin(1).await.unwrap());
        assert_eq!(begin(1).await.unwrap(), Idempotency::UnderWay);
        assert!(matches!(begin(2).await, Err(Error::KeyReused)));
        store.idempotency().abandon(&owner, &first).await.unwrap();
        let second = new_claim(begin(2).await.unwrap());
        let answer = StoredAnswer { status: 201, content_type: "application/json".into(), body: b"{}".to_vec() };
        store.idempotency().finish(&owner, &second, &answer).await.unwrap();
        assert_eq!(begin(2).await.unwrap(), Idempotency::Done(answer.clone()));
        store.idempotency().abandon(&owner, &second).await.unwrap();
        assert_eq!(begin(2).await.unwrap(), Idempotency::Done(answer.clone()));
        place.clock.advance(Duration::from_secs(3600));
        let dead = new_claim(begin(3).await.unwrap());
        // The process died: its request counts as never made after a while.
        place.clock.advance(Duration::from_secs(599));
        assert_eq!(begin(3).await.unwrap(), Idempotency::UnderWay);
        place.clock.advance(Duration::from_secs(1));
        let repeat = new_claim(begin(3).await.unwrap());
        // It was only slow: what it does now is not done to the claim of its repeat.
        store.idempotency().abandon(&owner, &dead).await.unwrap();
        store.idempotency().finish(&owner, &dead, &answer).await.unwrap();
        assert_eq!(begin(3).await.unwrap(), Idempotency::UnderWay);
        store.idempotency().abandon(&owner, &repeat).await.unwrap();
        new_claim(begin(4).await.unwrap());
    }

    async fn a_day_of_usage_outlives_its_transcripts(place: Place) {
        let store = place.open().await;
        let id = account(&store, 0).await;
        let job = new_job(&store, &Owner::Account(id), 0).await;
        let Accepted::New { transcript, .. } = store.jobs().accept(job).await.unwrap() else { panic!("it is the first") };
        store.jobs().complete(&claim(&store).await.lease, &result(), 0, true).await.unwrap();
        store.transcripts().delete(id, transcript).await.unwrap();
        place.clock.advance(Duration::from_secs(2 * 86_400));
        assert_eq!(store.accounts().usage(id, 2).await.unwrap().total_transcripts, 0);
        let usage = store.accounts().usage(id, 3).await.unwrap();
        assert_eq!((usage.total_transcripts, usage.daily.len(), usage.daily[0].day), (1, 1, day_of(START)));
    }
}
