use std::collections::HashSet;
use std::time::Duration;

use hark_store::{
    Accepted, BULK_MAX_WAIT, Change, Claim, Error, FaultKind, IdempotencyKey, Lane, NewJob, Owner, RetryPolicy, Status,
    WebhookTarget,
};

use crate::accounts::count;
use crate::support::{LEASE, Place, accept, account, assert_balanced, claim, new_job, on_both, result};

/// A place that is kept for short work.
fn short_work() -> Claim<'static> {
    Claim { last: Lane::Interactive, ..Claim::any("w", LEASE) }
}

on_both! {
    async fn a_job_goes_from_queued_to_completed_and_is_charged_what_it_used(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let (transcript, job) = accept(&store, id, 4).await;
        let waiting = store.transcripts().status(transcript).await.unwrap();
        assert_eq!((waiting.status, waiting.queue_position), (Status::Queued, Some(1)));
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 6);
        let claimed = claim(&store).await;
        assert_eq!((claimed.lease.job, claimed.lease.transcript.unwrap(), claimed.attempt), (job, transcript, 1));
        assert_eq!(claimed.payload, r#"{"diarize":true}"#);
        assert_eq!(claimed.owner, Owner::Account(id));
        let running = store.transcripts().status(transcript).await.unwrap();
        assert_eq!((running.status, running.queue_position), (Status::Processing, None));
        let settled = store.jobs().complete(&claimed.lease, &result(), 3, false).await.unwrap().unwrap();
        assert_eq!((settled.charged, settled.credits), (3, 7));
        let (done, text) = store.transcripts().text(id, transcript).await.unwrap();
        assert_eq!((done.status, done.progress, done.word_count, done.num_speakers), (Status::Completed, 100, 6, 2));
        assert_eq!(text, result());
        assert!(store.jobs().claim_any("worker", LEASE).await.unwrap().is_none());
        assert_eq!(place.recordings(), [] as [std::path::PathBuf; 0], "the recording was not to be kept");
        let usage = store.accounts().usage(id, 1).await.unwrap();
        assert_eq!((usage.total_transcripts, usage.total_words, usage.total_duration_seconds), (1, 6, 90.5));
        assert_balanced(&store).await;
    }

    async fn a_result_is_taken_once(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        accept(&store, id, 4).await;
        let job = claim(&store).await;
        store.jobs().complete(&job.lease, &result(), 4, true).await.unwrap();
        assert!(matches!(store.jobs().complete(&job.lease, &result(), 4, true).await, Err(Error::LeaseLost)));
        assert!(matches!(store.jobs().fail(&job.lease, FaultKind::Input, "x").await, Err(Error::LeaseLost)));
        assert!(matches!(store.jobs().renew(&job.lease, LEASE).await, Err(Error::LeaseLost)));
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 6);
        assert_eq!(store.accounts().usage(id, 1).await.unwrap().total_transcripts, 1);
        assert_balanced(&store).await;
    }

    async fn concurrent_claims_never_give_a_job_twice(place: Place) {
        let store = place.open().await;
        let id = account(&store, 0).await;
        for _ in 0..60 {
            accept(&store, id, 0).await;
        }
        let worker = |n: usize| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut mine = Vec::new();
                while let Some(job) = store.jobs().claim_any(&format!("worker {n}"), LEASE).await.unwrap() {
                    mine.push(job.lease.job);
                }
                mine
            })
        };
        let workers: Vec<_> = (0..16).map(worker).collect();
        let mut claimed = Vec::new();
        for worker in workers {
            claimed.extend(worker.await.unwrap());
        }
        assert_eq!(claimed.len(), 60);
        assert_eq!(claimed.iter().collect::<HashSet<_>>().len(), 60);
    }

    async fn the_owner_with_the_fewest_running_jobs_goes_first(place: Place) {
        let store = place.open().await;
        let (busy, quiet) = (account(&store, 0).await, account(&store, 0).await);
        for _ in 0..3 {
            accept(&store, busy, 0).await;
            place.clock.advance(Duration::from_secs(1));
        }
        accept(&store, quiet, 0).await;
        let order = [claim(&store).await.account, claim(&store).await.account, claim(&store).await.account];
        assert_eq!(order, [busy, quiet, busy]);
    }

    async fn lanes_go_before_age_and_a_place_may_be_kept_for_short_work(place: Place) {
        let store = place.open().await;
        let id = account(&store, 0).await;
        for lane in [Lane::Bulk, Lane::Interactive, Lane::Live] {
            let job = new_job(&store, &Owner::Account(id), 0).await;
            store.jobs().accept(NewJob { lane, ..job }).await.unwrap();
        }
        assert_eq!(claim(&store).await.lane, Lane::Live);
        assert_eq!(store.jobs().claim(&short_work()).await.unwrap().unwrap().lane, Lane::Interactive);
        assert!(store.jobs().claim(&short_work()).await.unwrap().is_none());
        assert_eq!(claim(&store).await.lane, Lane::Bulk);
    }

    async fn long_work_begins_though_clips_never_end(place: Place) {
        let store = place.open().await;
        let (archive, clips) = (account(&store, 0).await, account(&store, 0).await);
        let job = new_job(&store, &Owner::Account(archive), 0).await;
        let Accepted::New { transcript, .. } = store.jobs().accept(NewJob { lane: Lane::Bulk, ..job }).await.unwrap() else {
            panic!("there was no such job before");
        };
        accept(&store, clips, 0).await;
        // Every second a clip comes and a job is done: there is always a clip that waits.
        let mut clips_before = 0;
        loop {
            accept(&store, clips, 0).await;
            place.clock.advance(Duration::from_secs(1));
            let job = claim(&store).await;
            if job.lane == Lane::Bulk {
                break;
            }
            assert_eq!(store.jobs().position(transcript).await.unwrap(), Some(2), "behind the clip that waits");
            store.jobs().fail(&job.lease, FaultKind::Input, "done").await.unwrap();
            clips_before += 1;
            assert!(clips_before < 200, "the long recording never begins");
        }
        assert_eq!(clips_before, BULK_MAX_WAIT.as_secs() - 1);
    }

    async fn a_place_kept_for_short_work_is_not_given_to_long_work_however_old(place: Place) {
        let store = place.open().await;
        let id = account(&store, 0).await;
        let job = new_job(&store, &Owner::Account(id), 0).await;
        store.jobs().accept(NewJob { lane: Lane::Bulk, ..job }).await.unwrap();
        place.clock.advance(BULK_MAX_WAIT * 2);
        assert!(store.jobs().claim(&short_work()).await.unwrap().is_none());
        assert_eq!(claim(&store).await.lane, Lane::Bulk);
    }

    async fn queue_positions_count_those_ahead(place: Place) {
        let store = place.open().await;
        let id = account(&store, 0).await;
        let (first, _) = accept(&store, id, 0).await;
        let (second, _) = accept(&store, id, 0).await;
        assert_eq!(store.jobs().position(first).await.unwrap(), Some(1));
        assert_eq!(store.jobs().position(second).await.unwrap(), Some(2));
        assert_eq!(store.jobs().queue_length().await.unwrap(), 2);
        assert_eq!(store.jobs().live_count(&Owner::Account(id)).await.unwrap(), 2);
        claim(&store).await;
        assert_eq!(store.jobs().position(first).await.unwrap(), None);
        assert_eq!(store.jobs().position(second).await.unwrap(), Some(1));
        assert_eq!(store.jobs().live_count(&Owner::Account(id)).await.unwrap(), 2);
    }

    async fn progress_never_goes_back(place: Place) {
        let store = place.open().await;
        let id = account(&store, 0).await;
        accept(&store, id, 0).await;
        let job = claim(&store).await;
        for (said, shown) in [(10, 10), (40, 40), (30, 40), (-5, 40), (400, 100)] {
            store.jobs().set_progress(&job.lease, said).await.unwrap();
            assert_eq!(store.transcripts().status(job.lease.transcript.unwrap()).await.unwrap().progress, shown);
        }
        store.jobs().fail(&job.lease, FaultKind::Input, "x").await.unwrap();
        assert!(matches!(store.jobs().set_progress(&job.lease, 100).await, Err(Error::LeaseLost)));
    }

    async fn a_silent_worker_loses_its_job_to_another(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let (transcript, _) = accept(&store, id, 4).await;
        let silent = claim(&store).await;
        store.jobs().set_progress(&silent.lease, 50).await.unwrap();
        place.clock.advance(LEASE / 2);
        store.jobs().renew(&silent.lease, LEASE).await.unwrap();
        place.clock.advance(LEASE / 2 + Duration::from_secs(2));
        assert!(store.jobs().claim_any("other", LEASE).await.unwrap().is_none(), "the lease was renewed");
        place.clock.advance(LEASE);
        let taken = store.jobs().claim_any("other", LEASE).await.unwrap().unwrap();
        assert_eq!((taken.lease.transcript.unwrap(), taken.attempt), (transcript, 2));
        assert_eq!(store.transcripts().status(transcript).await.unwrap().progress, 50);
        assert!(matches!(store.jobs().renew(&silent.lease, LEASE).await, Err(Error::LeaseLost)));
        assert!(matches!(store.jobs().set_progress(&silent.lease, 60).await, Err(Error::LeaseLost)));
        assert!(matches!(store.jobs().complete(&silent.lease, &result(), 4, true).await, Err(Error::LeaseLost)));
        store.jobs().complete(&taken.lease, &result(), 4, true).await.unwrap();
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 6);
        assert_balanced(&store).await;
    }

    async fn a_worker_that_stops_gives_its_jobs_back_without_using_up_an_attempt(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        accept(&store, id, 1).await;
        accept(&store, id, 1).await;
        for _ in 0..RetryPolicy::default().max_attempts + 2 {
            let job = store.jobs().claim_any("leaving", LEASE).await.unwrap().unwrap();
            assert_eq!(job.attempt, 1);
            assert_eq!(store.jobs().release_all("other").await.unwrap(), 0);
            assert_eq!(store.jobs().release_all("leaving").await.unwrap(), 1);
            assert_eq!(store.transcripts().status(job.lease.transcript.unwrap()).await.unwrap().status, Status::Queued);
            assert!(matches!(store.jobs().renew(&job.lease, LEASE).await, Err(Error::LeaseLost)));
        }
    }

    async fn a_canceled_job_stops_and_costs_nothing(place: Place) {
        let store = place.open().await;
        let (id, other) = (account(&store, 10).await, account(&store, 10).await);
        let (transcript, job) = accept(&store, id, 4).await;
        let claimed = claim(&store).await;
        assert!(matches!(store.transcripts().cancel(other, transcript, "x").await, Err(Error::NotFound(_))));
        let mut changes = store.changes();
        assert_eq!(store.transcripts().cancel(id, transcript, "canceled").await.unwrap(), job);
        assert_eq!(changes.recv().await.unwrap(), Change::Stopped(job));
        assert_eq!(changes.recv().await.unwrap(), Change::Finished(transcript));
        assert!(matches!(store.jobs().renew(&claimed.lease, LEASE).await, Err(Error::LeaseLost)));
        assert!(matches!(store.jobs().complete(&claimed.lease, &result(), 4, true).await, Err(Error::LeaseLost)));
        assert!(matches!(store.transcripts().cancel(id, transcript, "x").await, Err(Error::NotFound(_))));
        let view = store.transcripts().status(transcript).await.unwrap();
        assert_eq!((view.status, view.error.as_deref()), (Status::Failed, Some("canceled")));
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 10);
        assert_eq!(place.recordings().len(), 0);
        assert_balanced(&store).await;
    }

    async fn a_refused_job_leaves_no_trace(place: Place) {
        let store = place.open().await;
        let id = account(&store, 3).await;
        let job = new_job(&store, &Owner::Account(id), 4).await;
        let refused = store.jobs().accept(job).await;
        assert!(matches!(refused, Err(Error::NotEnoughCredits { have: 3, need: 4 })), "{refused:?}");
        assert_eq!(store.jobs().queue_length().await.unwrap(), 0);
        assert_eq!(store.transcripts().list(id, &Default::default()).await.unwrap().total, 0);
        assert_eq!(place.recordings().len(), 0);
        assert_eq!(count(&place.database, "SELECT count(*) FROM blobs").await, 0);
        assert_balanced(&store).await;
    }

    async fn the_same_request_again_is_one_job(place: Place) {
        let store = place.open().await;
        let id = account(&store, 10).await;
        let owner = Owner::Account(id);
        let name = |print: &[u8]| IdempotencyKey { key: "k1".into(), fingerprint: print.into(), older: Vec::new(), keep: Duration::from_secs(3600) };
        let send = async |owner: &Owner, print: &[u8]| {
            let job = new_job(&store, owner, 4).await;
            store.jobs().accept(NewJob { idempotency: Some(name(print)), ..job }).await
        };
        assert_eq!(store.idempotency().transcript(&owner, &name(b"a")).await.unwrap(), None);
        let Accepted::New { transcript, .. } = send(&owner, b"a").await.unwrap() else { panic!("it is the first") };
        assert_eq!(send(&owner, b"a").await.unwrap(), Accepted::Repeat { transcript });
        assert_eq!(store.idempotency().transcript(&owner, &name(b"a")).await.unwrap(), Some(transcript));
        assert!(matches!(send(&owner, b"b").await, Err(Error::KeyReused)));
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 6);
        assert_eq!(place.recordings().len(), 1, "the recordings of repeats are dropped");
        let other = Owner::Account(account(&store, 10).await);
        assert!(matches!(send(&other, b"b").await.unwrap(), Accepted::New { .. }), "names belong to their owner");
        place.clock.advance(Duration::from_secs(3600));
        assert!(matches!(send(&owner, b"b").await.unwrap(), Accepted::New { .. }), "names end");
        assert_balanced(&store).await;
    }

    async fn concurrent_repeats_make_one_job(place: Place) {
        let store = place.open().await;
        let id = account(&store, 100).await;
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let job = new_job(&store, &Owner::Account(id), 5).await;
            let name = IdempotencyKey { key: "k".into(), fingerprint: vec![1], older: Vec::new(), keep: Duration::from_secs(60) };
            let store = store.clone();
            tasks.push(tokio::spawn(async move { store.jobs().accept(NewJob { idempotency: Some(name), ..job }).await }));
        }
        let mut made = HashSet::new();
        let mut new = 0;
        for task in tasks {
            match task.await.unwrap().unwrap() {
                Accepted::New { transcript, .. } => {
                    new += 1;
                    made.insert(transcript);
                }
                Accepted::Repeat { transcript } => drop(made.insert(transcript)),
            }
        }
        assert_eq!((new, made.len()), (1, 1));
        assert_eq!(store.accounts().get(id).await.unwrap().credits, 95);
        assert_eq!(place.recordings().len(), 1);
    }

    async fn webhooks_are_due_when_the_transcript_is_done(place: Place) {
        let store = place.open().await;
        let id = account(&store, 0).await;
        let target = WebhookTarget { url: "https://example.org/hook".into(), secret: "hush".into() };
        assert!(!format!("{target:?}").contains("hush"));
        let job = new_job(&store, &Owner::Account(id), 0).await;
        store.jobs().accept(NewJob { webhook: Some(target.clone()), ..job }).await.unwrap();
        assert_eq!(store.webhooks().claim(10, LEASE).await.unwrap().len(), 0);
        let job = claim(&store).await;
        store.jobs().complete(&job.lease, &result(), 0, true).await.unwrap();
        let first = store.webhooks().claim(10, LEASE).await.unwrap().remove(0);
        assert_eq!((&first.target, first.transcript, first.attempt), (&target, job.lease.transcript.unwrap(), 1));
        assert_eq!(store.webhooks().claim(10, LEASE).await.unwrap().len(), 0);
        place.clock.advance(LEASE);
        let second = store.webhooks().claim(10, LEASE).await.unwrap().remove(0);
        assert_eq!((second.id, second.attempt), (first.id, 2));
        // The first caller woke up late: the call is no longer its.
        store.webhooks().remove(&first).await.unwrap();
        store.webhooks().retry(&second, store.now() + 5).await.unwrap();
        assert_eq!(store.webhooks().claim(10, LEASE).await.unwrap().len(), 0);
        place.clock.advance(Duration::from_micros(5));
        let third = store.webhooks().claim(10, LEASE).await.unwrap().remove(0);
        store.webhooks().remove(&third).await.unwrap();
        place.clock.advance(LEASE * 2);
        assert_eq!(store.webhooks().claim(10, LEASE).await.unwrap().len(), 0);
    }
}

/// Waits for a change, but not forever.
async fn heard(changes: &mut tokio::sync::broadcast::Receiver<Change>, wanted: Change) {
    let look = async { while changes.recv().await.unwrap() != wanted {} };
    tokio::time::timeout(Duration::from_secs(20), look).await.unwrap_or_else(|_| panic!("{wanted:?} was not heard"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL"]
async fn processes_that_share_postgres_hear_of_each_others_changes() {
    let place = Place::postgres().await;
    // Two stores are two processes for each other: they share the database only.
    let (web, worker) = (place.open().await, place.open().await);
    let (mut at_web, mut at_worker) = (web.changes(), worker.changes());
    web.listen().await;
    worker.listen().await;
    // Whoever begins to listen looks once.
    heard(&mut at_worker, Change::Queued).await;
    let id = account(&web, 10).await;
    let (transcript, job) = accept(&web, id, 4).await;
    heard(&mut at_worker, Change::Queued).await;
    let claimed = worker.jobs().claim_any("worker", LEASE).await.unwrap().unwrap();
    assert_eq!(claimed.lease.job, job);
    worker.jobs().complete(&claimed.lease, &result(), 4, true).await.unwrap();
    heard(&mut at_web, Change::Finished(transcript)).await;
    let (transcript, job) = accept(&web, id, 4).await;
    worker.jobs().claim_any("worker", LEASE).await.unwrap().unwrap();
    web.transcripts().cancel(id, transcript, "canceled").await.unwrap();
    heard(&mut at_worker, Change::Stopped(job)).await;
    // What a process does last is told before it is gone.
    let third = place.open().await;
    let (transcript, _) = accept(&third, id, 2).await;
    third.transcripts().delete(id, transcript).await.unwrap();
    third.close().await;
    heard(&mut at_web, Change::Finished(transcript)).await;
}
