//! Attempts that give no result: which are tried again, when, by whom, and what is kept of those that are not.

use std::time::Duration;

use hark_store::{
    AfterFault, Capabilities, Claim, Clock, Error, FaultKind, Job, JobFilter, Lane, Need, NewJob, NewTask, Options,
    Owner, RetryLimits, RetryPolicy, Status, Store, TranscriptId,
};

use crate::support::{LEASE, Place, accept, account, assert_balanced, claim, new_job, on_both, result};

const MINUTE: Duration = Duration::from_secs(60);

/// Fails the job that waits until it is not tried again.
async fn exhaust(place: &Place, store: &Store) -> Job {
    loop {
        let job = claim(store).await;
        if store.jobs().fail(&job.lease, FaultKind::Internal, "it broke").await.unwrap() == AfterFault::Failed {
            return job;
        }
        place.clock.advance(10 * MINUTE);
    }
}

fn model(name: &str) -> Need {
    Need::Model(name.into())
}

async fn accept_with_needs(store: &Store, owner: &Owner, needs: Vec<Need>) -> TranscriptId {
    let job = new_job(store, owner, 0).await;
    match store.jobs().accept(NewJob { needs, ..job }).await.unwrap() {
        hark_store::Accepted::New { transcript, .. } => transcript,
        other => panic!("{other:?}"),
    }
}

async fn claim_with(store: &Store, capabilities: &Capabilities) -> Option<Job> {
    store.jobs().claim(&Claim { capabilities, ..Claim::any("worker", LEASE) }).await.unwrap()
}

on_both! {
    async fn a_fault_of_ours_is_retried_after_a_wait_that_grows(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let (transcript, _) = accept(&store, id, 4).await;
        let policy = RetryPolicy::default();
        for attempt in 1..policy.max_attempts {
            let job = claim(&store).await;
            assert_eq!(job.attempt, attempt);
            let after = store.jobs().fail(&job.lease, FaultKind::Internal, "it broke").await.unwrap();
            let AfterFault::Retry { wait } = after else { panic!("attempt {attempt}: {after:?}") };
            let full = policy.backoff_base * (1 << (attempt - 1));
            assert!(wait >= full / 2 - Duration::from_millis(1) && wait <= full, "attempt {attempt}: {wait:?}");
            assert_eq!(store.transcripts().status(transcript).await.unwrap().status, Status::Queued);
            assert!(store.jobs().claim_any("eager", LEASE).await.unwrap().is_none(), "it has to wait");
            place.clock.advance(wait);
        }
        let job = claim(&store).await;
        assert_eq!(store.jobs().fail(&job.lease, FaultKind::Internal, "it broke").await.unwrap(), AfterFault::Failed);
        let view = store.transcripts().status(transcript).await.unwrap();
        assert_eq!((view.status, view.error_kind), (Status::Failed, Some(FaultKind::Internal)));
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 10, "a failure costs nothing");
        assert_eq!(place.recordings().len(), 1, "what was sent is kept");
        place.clock.advance(60 * MINUTE);
        assert!(store.jobs().claim_any("worker", LEASE).await.unwrap().is_none());
        assert_eq!(store.jobs().live_count(&Owner::Account(id)).await.unwrap(), 0, "it takes nobody's place");
        assert_balanced(&store).await;
    }

    async fn what_is_unavailable_is_waited_for_without_using_up_attempts(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let (transcript, _) = accept(&store, id, 4).await;
        let policy = RetryPolicy::default();
        let mut faults = 0;
        loop {
            let job = claim(&store).await;
            assert_eq!(job.attempt, 1, "after {faults} faults");
            match store.jobs().fail(&job.lease, FaultKind::Unavailable, "the bucket does not answer").await.unwrap() {
                AfterFault::Retry { wait } => {
                    assert!(wait <= policy.unavailable_backoff_max);
                    faults += 1;
                    place.clock.advance(if faults < 20 { wait } else { 60 * MINUTE });
                }
                AfterFault::Failed => break,
            }
        }
        assert!(faults > 40, "it was given up after {faults} faults");
        let view = store.transcripts().status(transcript).await.unwrap();
        assert_eq!((view.status, view.error_kind), (Status::Failed, Some(FaultKind::Unavailable)));
        assert_eq!(place.recordings().len(), 1);
        assert_balanced(&store).await;
    }

    async fn the_senders_fault_is_final_and_leaves_nothing_to_retry(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let (transcript, _) = accept(&store, id, 4).await;
        let job = claim(&store).await;
        assert_eq!(store.jobs().fail(&job.lease, FaultKind::Input, "not a recording").await.unwrap(), AfterFault::Failed);
        let view = store.transcripts().status(transcript).await.unwrap();
        assert_eq!((view.status, view.error.as_deref()), (Status::Failed, Some("not a recording")));
        assert_eq!(view.error_kind, Some(FaultKind::Input));
        assert_eq!(place.recordings().len(), 0);
        let again = store.jobs().retry_transcript(id, transcript, RetryLimits::default()).await;
        assert!(matches!(again, Err(Error::Conflict(_))), "{again:?}");
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 10);
        assert_balanced(&store).await;
    }

    async fn after_three_silent_workers_the_job_fails_costs_nothing_and_keeps_its_recording(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let (transcript, _) = accept(&store, id, 4).await;
        for attempt in 1..=RetryPolicy::default().max_attempts {
            assert_eq!(claim(&store).await.attempt, attempt);
            place.clock.advance(LEASE + Duration::from_secs(1));
        }
        assert!(store.jobs().claim_any("worker", LEASE).await.unwrap().is_none());
        let failed = store.transcripts().status(transcript).await.unwrap();
        assert_eq!((failed.status, failed.error_kind), (Status::Failed, Some(FaultKind::Timeout)));
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 10);
        assert_eq!(place.recordings().len(), 1);
        store.jobs().retry_transcript(id, transcript, RetryLimits::default()).await.unwrap();
        let job = claim(&store).await;
        store.jobs().complete(&job.lease, &result(), 4, true).await.unwrap();
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 6);
        assert_balanced(&store).await;
    }

    async fn a_failed_transcript_is_retried_for_a_hold_of_its_own_and_charged_once(place: Place) {
        let store = place.open().await;
        let (id, other) = (account(&store, 10).await, account(&store, 10).await);
        let (transcript, _) = accept(&store, id, 4).await;
        let none = RetryLimits::default();
        let early = store.jobs().retry_transcript(id, transcript, none).await;
        assert!(matches!(early, Err(Error::Conflict(_))), "it has not failed: {early:?}");
        for round in 0..3 {
            exhaust(&place, &store).await;
            let stranger = store.jobs().retry_transcript(other, transcript, none).await;
            assert!(matches!(stranger, Err(Error::NotFound("transcript"))), "{stranger:?}");
            let full = RetryLimits { max_live: Some(0), ..none };
            assert!(matches!(store.jobs().retry_transcript(id, transcript, full).await, Err(Error::Limit { .. })));
            assert_eq!(store.accounts().get(id).await.unwrap().credits, 10, "round {round}");
            store.jobs().retry_transcript(id, transcript, none).await.unwrap();
            assert_eq!(store.accounts().get(id).await.unwrap().credits, 6, "round {round}");
            let view = store.transcripts().status(transcript).await.unwrap();
            assert_eq!((view.status, view.error, view.progress), (Status::Queued, None, 0));
            assert_balanced(&store).await;
        }
        let job = claim(&store).await;
        assert_eq!((job.attempt, job.payload.as_str()), (1, r#"{"diarize":true}"#));
        assert!(job.blob.is_some());
        store.jobs().complete(&job.lease, &result(), 3, true).await.unwrap();
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 7);
        assert_eq!(store.accounts().usage(id, 1).await.unwrap().total_transcripts, 1);
        assert!(matches!(store.jobs().retry_transcript(id, transcript, none).await, Err(Error::Conflict(_))));
        assert_balanced(&store).await;
    }

    async fn a_retry_without_the_credits_for_it_changes_nothing(place: Place) {
        let store = place.open().await;
        let id = account(&store, 5).await;
        let (transcript, _) = accept(&store, id, 4).await;
        exhaust(&place, &store).await;
        store.ledger().adjust(id, -3, "spent elsewhere").await.unwrap();
        let refused = store.jobs().retry_transcript(id, transcript, RetryLimits::default()).await;
        assert!(matches!(refused, Err(Error::NotEnoughCredits { have: 2, need: 4 })), "{refused:?}");
        assert_eq!(store.transcripts().status(transcript).await.unwrap().status, Status::Failed);
        assert_eq!(store.jobs().failed_count().await.unwrap(), 1);
        assert_balanced(&store).await;
    }

    async fn failed_jobs_are_listed_dropped_and_forgotten_in_time(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let (first, _) = accept(&store, id, 1).await;
        let dropped = exhaust(&place, &store).await;
        let (second, _) = accept(&store, id, 1).await;
        exhaust(&place, &store).await;
        accept(&store, id, 1).await;
        let failed = JobFilter { state: Some("failed"), ..JobFilter::default() };
        let listed = store.jobs().list(&failed).await.unwrap();
        assert_eq!(listed.iter().map(|job| job.transcript.unwrap()).collect::<Vec<_>>(), [first, second]);
        assert_eq!((listed[0].error_kind, listed[0].error.as_deref()), (Some(FaultKind::Internal), Some("it broke")));
        let timeouts = JobFilter { error_kind: Some(FaultKind::Timeout), ..failed };
        assert_eq!(store.jobs().list(&timeouts).await.unwrap(), []);
        place.clock.advance(Duration::from_secs(5));
        let counts = store.jobs().counts().await.unwrap();
        assert_eq!((counts.queued, counts.running, counts.failed), (1, 0, 2));
        assert!(counts.oldest_wait.is_some());
        let by = hark_store::NewAudit::operator("job.dropped");
        store.jobs().audited(&by).drop_failed(dropped.lease.job).await.unwrap();
        let log = store.audit().page(Some(id), 1, 10).await.unwrap();
        assert_eq!((log.total, log.entries[0].subject.as_str()), (1, format!("job {}", dropped.lease.job).as_str()));
        assert!(matches!(store.jobs().drop_failed(dropped.lease.job).await, Err(Error::NotFound(_))));
        assert_eq!(place.recordings().len(), 2);
        assert_eq!(store.transcripts().status(first).await.unwrap().status, Status::Failed);
        let gone = store.jobs().retry_transcript(id, first, RetryLimits::default()).await;
        assert!(matches!(gone, Err(Error::Conflict(_))), "{gone:?}");
        let week = Duration::from_secs(7 * 86_400);
        assert_eq!(store.jobs().drop_old_failed(week).await.unwrap(), 0);
        place.clock.advance(week);
        assert_eq!(store.jobs().drop_old_failed(week).await.unwrap(), 1);
        assert_eq!(place.recordings().len(), 1, "one still waits");
        assert_balanced(&store).await;
    }

    async fn deleting_a_failed_transcript_takes_its_job_and_recording_and_gives_nothing_back_twice(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let (transcript, _) = accept(&store, id, 4).await;
        exhaust(&place, &store).await;
        assert!(matches!(store.transcripts().cancel(id, transcript, "too late").await, Err(Error::NotFound(_))));
        assert_eq!(store.transcripts().delete(id, transcript).await.unwrap().len(), 1);
        assert_eq!(store.jobs().failed_count().await.unwrap(), 0);
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 10);
        assert_balanced(&store).await;
    }

    async fn a_worker_claims_only_what_it_can_run(place: Place) {
        let store = place.open().await;
        let owner = Owner::Account(account(&store, 0).await);
        let base = accept_with_needs(&store, &owner, vec![model("whisper-base")]).await;
        place.clock.advance(Duration::from_secs(1));
        let small = accept_with_needs(&store, &owner, vec![model("whisper-small"), Need::Capability("identify")]).await;
        assert!(claim_with(&store, &Capabilities::none()).await.is_none());
        assert!(claim_with(&store, &Capabilities::only([model("whisper-medium")])).await.is_none());
        assert!(claim_with(&store, &Capabilities::only([model("whisper-small")])).await.is_none(), "it can't identify");
        let both = Capabilities::only([model("whisper-small"), Need::Capability("identify")]);
        let job = claim_with(&store, &both).await.unwrap();
        assert_eq!((job.lease.transcript, job.attempt), (Some(small), 1), "those that it can't run used up no attempt");
        assert!(claim_with(&store, &both).await.is_none());
        let job = claim_with(&store, &Capabilities::only([model("whisper-base"), model("whisper-tiny")])).await.unwrap();
        assert_eq!(job.lease.transcript, Some(base));
        let needs = store.jobs().list(&JobFilter::default()).await.unwrap().remove(0).needs;
        assert_eq!(needs, ["model:whisper-base"]);
    }

    async fn a_job_of_another_kind_needs_neither_transcript_nor_recording(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let task = NewTask {
            kind: "summarize".into(),
            owner: Owner::Account(id),
            transcript: None,
            payload: "the text".into(),
            needs: vec![model("a-text-model")],
            hold: 1,
            lane: Lane::Interactive,
            max_queued: None,
        };
        let job = store.jobs().enqueue(&task).await.unwrap();
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 9);
        let speech = Claim { kinds: &["transcribe"], ..Claim::any("speech", LEASE) };
        assert!(store.jobs().claim(&speech).await.unwrap().is_none());
        let text = Claim { kinds: &["transcribe", "summarize"], ..Claim::any("text", LEASE) };
        let claimed = store.jobs().claim(&text).await.unwrap().unwrap();
        assert_eq!((claimed.lease.job, claimed.lease.kind.as_str(), claimed.payload.as_str()), (job, "summarize", "the text"));
        assert!(claimed.blob.is_none() && claimed.lease.transcript.is_none());
        assert!(matches!(store.jobs().complete(&claimed.lease, &result(), 1, true).await, Err(Error::Conflict(_))));
        store.jobs().set_progress(&claimed.lease, 50).await.unwrap();
        store.jobs().complete_task(&claimed.lease, 1, "summary").await.unwrap();
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 9);
        // One about a transcript does not change how far that is.
        let transcript = crate::support::completed(&store, id).await;
        let about = NewTask { transcript: Some(transcript), ..task };
        store.jobs().enqueue(&about).await.unwrap();
        store.jobs().enqueue(&about).await.unwrap();
        exhaust(&place, &store).await;
        let view = store.transcripts().status(transcript).await.unwrap();
        assert_eq!((view.status, view.error, view.queue_position), (Status::Completed, None, None));
        let failed = store.jobs().list(&JobFilter { state: Some("failed"), ..JobFilter::default() }).await.unwrap();
        store.jobs().retry(failed[0].id, RetryLimits::default()).await.unwrap();
        assert_eq!(store.transcripts().delete(id, transcript).await.unwrap().len(), 1, "the recording");
        assert_eq!(store.jobs().list(&JobFilter::default()).await.unwrap(), []);
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 9);
        assert_balanced(&store).await;
    }

    async fn a_database_that_did_not_answer_gives_workers_the_time_to_renew(place: Place) {
        let store = place.open().await;
        let id = account(&store, 0).await;
        accept(&store, id, 0).await;
        let job = claim(&store).await;
        // A statement that can't be run is what a worker sees of a database that is unreachable.
        crate::accounts::run_sql(&place.database, "ALTER TABLE jobs RENAME TO jobs_away").await;
        assert!(matches!(store.jobs().renew(&job.lease, LEASE).await, Err(Error::Database(_))));
        place.clock.advance(LEASE * 2);
        assert!(store.jobs().claim_any("other", LEASE).await.is_err());
        crate::accounts::run_sql(&place.database, "ALTER TABLE jobs_away RENAME TO jobs").await;
        assert!(store.jobs().claim_any("other", LEASE).await.unwrap().is_none(), "the worker could not renew");
        place.clock.advance(LEASE / 2);
        store.jobs().renew(&job.lease, LEASE).await.unwrap();
        place.clock.advance(LEASE / 2 + Duration::from_secs(1));
        assert!(store.jobs().claim_any("other", LEASE).await.unwrap().is_none());
        place.clock.advance(LEASE);
        assert_eq!(store.jobs().claim_any("other", LEASE).await.unwrap().unwrap().attempt, 2, "it is silent now");
    }

    async fn no_step_of_a_nodes_clock_expires_or_prolongs_a_lease(place: Place) {
        // Real clocks: two stores are two nodes.
        let (near, far) = (Clock::system(), Clock::system());
        let open = |clock: &Clock| Store::open(Options { clock: clock.clone(), ..place.options() });
        let (working, watching) = (open(&near).await.unwrap(), open(&far).await.unwrap());
        let id = account(&working, 0).await;
        let long = Duration::from_secs(40);
        accept(&working, id, 0).await;
        let job = working.jobs().claim_any("worker", long).await.unwrap().unwrap();
        for step in [45_000_000, 3_600_000_000, -7_200_000_000, -86_400_000_000] {
            far.step(step);
            assert_eq!(watching.jobs().expire_leases().await.unwrap(), 0, "the other node's clock was stepped");
            near.step(step);
            assert_eq!(working.jobs().expire_leases().await.unwrap(), 0, "the worker's own clock was stepped");
            working.jobs().renew(&job.lease, long).await.unwrap();
            assert_eq!(watching.jobs().expire_leases().await.unwrap(), 0);
        }
        working.jobs().complete(&job.lease, &result(), 0, true).await.unwrap();
        // A worker that is really silent is noticed however wrong the clocks are.
        accept(&working, id, 0).await;
        working.jobs().claim_any("silent", Duration::from_millis(200)).await.unwrap().unwrap();
        let mut looks = 0;
        while watching.jobs().expire_leases().await.unwrap() == 0 {
            looks += 1;
            assert!(looks < 600, "the silent worker was never noticed");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // And whoever waits for a retry does not wait for a clock that was set back.
        let job = watching.jobs().claim_any("worker", long).await.unwrap().unwrap();
        working.jobs().fail(&job.lease, FaultKind::Internal, "it broke").await.unwrap();
        near.step(-86_400_000_000);
        far.step(-86_400_000_000);
        let mut looks = 0;
        while watching.jobs().claim_any("worker", long).await.unwrap().is_none() {
            looks += 1;
            assert!(looks < 600, "the retry never came");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
