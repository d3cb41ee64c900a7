//! Recordings without their noise: from the upload to the result, its charge and its end.

use std::time::Duration;

use hark_store::{
    AcceptedEnhancement, AccountId, BlobKey, Capabilities, Change, Claim, ENHANCE, EnhancedRecording, EnhancementId,
    Error, FaultKind, IdempotencyKey, Job, Lane, Limit, MasterKey, MasterKeys, Need, NewEnhancement, Options, Product,
    RetryLimits, Status, Store,
};

use crate::sealing::KEY;
use crate::support::{LEASE, account, assert_balanced, claim, on_both, upload};

const SENT: &[u8] = b"RIFF a noisy recording";
const RESULT: &[u8] = b"RIFF the same without its noise";

async fn new(store: &Store, account: AccountId) -> NewEnhancement {
    NewEnhancement {
        account,
        format: "wav".into(),
        payload: "{}".into(),
        needs: vec![Need::Capability("enhance")],
        blob: upload(store, account, SENT).await,
        seconds: 90.5,
        minutes: 2,
        lane: Lane::Interactive,
        key: None,
        max_live: None,
        max_queued: None,
        max_storage: None,
        idempotency: None,
    }
}

async fn send(store: &Store, account: AccountId) -> EnhancementId {
    match store.jobs().accept_enhancement(new(store, account).await).await.unwrap() {
        AcceptedEnhancement::New { enhancement, .. } => enhancement,
        AcceptedEnhancement::Repeat { .. } => panic!("a repeat without an idempotency key"),
    }
}

async fn result(store: &Store, account: AccountId) -> EnhancedRecording {
    let blob = upload(store, account, RESULT).await;
    EnhancedRecording { blob, frames: 48_000 * 61, channels: 2, seconds: 61.0, model: "deepfilternet3".into() }
}

/// A completed enhancement that cost 2 credits.
async fn completed(store: &Store, account: AccountId) -> EnhancementId {
    let id = send(store, account).await;
    let job = claim(store).await;
    let made = result(store, account).await;
    store.jobs().complete_enhancement(&job.lease, &made, 2).await.unwrap();
    id
}

async fn read(store: &Store, account: AccountId, id: EnhancementId) -> Vec<u8> {
    let blob = store.enhancements().result(account, id).await.unwrap().1.expect("a result");
    store.recordings().read(&blob, None).await.unwrap().read_all().await.unwrap()
}

async fn sent(store: &Store, job: &Job) -> Vec<u8> {
    let blob = job.blob.as_ref().expect("a recording");
    store.recordings().read(blob, None).await.unwrap().read_all().await.unwrap()
}

async fn status(store: &Store, account: AccountId, id: EnhancementId) -> Status {
    store.enhancements().get(account, id).await.unwrap().status
}

async fn credits(store: &Store, account: AccountId) -> i64 {
    store.accounts().get(account).await.unwrap().credits
}

fn name(fingerprint: u8) -> IdempotencyKey {
    let keep = Duration::from_secs(3600);
    IdempotencyKey { key: "again".into(), fingerprint: vec![fingerprint], older: Vec::new(), keep }
}

on_both! {
    async fn a_recording_becomes_a_result_that_replaces_it_and_is_charged_once(place: Place) {
        let store = place.open().await;
        let (ann, ben) = (account(&store, 10).await, account(&store, 10).await);
        let id = send(&store, ann).await;
        let waiting = store.enhancements().get(ann, id).await.unwrap();
        assert_eq!((waiting.status, waiting.queue_position, waiting.format.as_str()), (Status::Queued, Some(1), "wav"));
        assert_eq!((credits(&store, ann).await, store.recordings().bytes_used(ann).await.unwrap()), (8, SENT.len() as u64));
        assert!(store.enhancements().result(ann, id).await.unwrap().1.is_none(), "what was sent is no result");
        let mut changes = store.changes();

        let without = Capabilities::only([Need::Model("whisper-base".into())]);
        let speech = Claim { capabilities: &without, ..Claim::any("speech", LEASE) };
        assert!(store.jobs().claim(&speech).await.unwrap().is_none(), "a worker without the model claims nothing");
        let job = claim(&store).await;
        assert_eq!((job.lease.kind.as_str(), job.lease.product()), (ENHANCE, Some(Product::Enhancement(id))));
        assert_eq!((job.lease.transcript, sent(&store, &job).await.as_slice()), (None, SENT));
        store.jobs().set_progress(&job.lease, 40).await.unwrap();
        store.jobs().set_progress(&job.lease, 30).await.unwrap();
        let running = store.enhancements().get(ann, id).await.unwrap();
        assert_eq!((running.status, running.progress, running.queue_position), (Status::Processing, 40, None));

        let made = result(&store, ann).await;
        store.jobs().complete_enhancement(&job.lease, &made, 2).await.unwrap();
        assert!(matches!(store.jobs().complete_enhancement(&job.lease, &made, 2).await, Err(Error::LeaseLost)), "once");
        let done = store.enhancements().get(ann, id).await.unwrap();
        assert_eq!((done.status, done.progress, done.frames, done.channels), (Status::Completed, 100, 48_000 * 61, 2));
        assert_eq!((done.duration_seconds, done.model.as_str()), (61.0, "deepfilternet3"));
        assert_eq!(read(&store, ann, id).await, RESULT);
        assert_eq!(store.recordings().bytes_used(ann).await.unwrap(), RESULT.len() as u64);
        assert_eq!((credits(&store, ann).await, place.recordings().len()), (8, 1));
        assert_eq!(changes.recv().await.unwrap(), Change::Enhanced(id));

        for stranger in [ben, store.anonymous_account()] {
            assert!(matches!(store.enhancements().get(stranger, id).await, Err(Error::NotFound("enhancement"))));
            assert!(matches!(store.enhancements().result(stranger, id).await, Err(Error::NotFound("enhancement"))));
            assert!(matches!(store.enhancements().delete(stranger, id).await, Err(Error::NotFound("enhancement"))));
        }
        store.enhancements().delete(ann, id).await.unwrap();
        assert!(matches!(store.enhancements().get(ann, id).await, Err(Error::NotFound("enhancement"))));
        assert_eq!(place.recordings().len(), 0);
        assert_balanced(&store).await;
    }

    async fn what_fails_or_is_called_off_costs_nothing_and_leaves_no_recording(place: Place) {
        let store = place.open_without_backoff().await;
        let ann = account(&store, 10).await;
        let id = send(&store, ann).await;
        let job = claim(&store).await;
        store.jobs().fail(&job.lease, FaultKind::Input, "it holds no sound").await.unwrap();
        let failed = store.enhancements().get(ann, id).await.unwrap();
        assert_eq!((failed.status, failed.error.as_deref()), (Status::Failed, Some("it holds no sound")));
        assert_eq!((failed.error_kind, place.recordings().len()), (Some(FaultKind::Input), 0));
        assert_eq!(credits(&store, ann).await, 10);

        // The client leaves while its job runs: the worker hears of it and its result is refused.
        let id = send(&store, ann).await;
        let job = claim(&store).await;
        let mut changes = store.changes();
        store.enhancements().abandon(ann, id).await.unwrap();
        assert_eq!(changes.recv().await.unwrap(), Change::Stopped(job.lease.job));
        let made = result(&store, ann).await;
        assert!(matches!(store.jobs().complete_enhancement(&job.lease, &made, 2).await, Err(Error::LeaseLost)));
        store.recordings().discard(&made.blob.key).await.unwrap();
        assert_eq!((credits(&store, ann).await, place.recordings().len()), (10, 0));
        assert!(matches!(store.enhancements().get(ann, id).await, Err(Error::NotFound(_))));

        // One that is completed is not abandoned any more.
        let id = completed(&store, ann).await;
        assert!(matches!(store.enhancements().abandon(ann, id).await, Err(Error::NotFound("job"))));
        assert_eq!((read(&store, ann, id).await.as_slice(), credits(&store, ann).await), (RESULT, 8));
        assert_balanced(&store).await;
    }

    async fn a_worker_that_dies_is_replaced_and_a_job_without_attempts_can_be_retried(place: Place) {
        let store = place.open_without_backoff().await;
        let ann = account(&store, 10).await;
        let id = send(&store, ann).await;
        let first = claim(&store).await;
        // It had begun to write its result.
        let begun = upload(&store, ann, b"half of").await;
        place.clock.advance(2 * LEASE);
        store.jobs().expire_leases().await.unwrap();
        place.clock.advance(2 * LEASE);
        store.jobs().expire_leases().await.unwrap();
        assert_eq!(status(&store, ann, id).await, Status::Queued);
        let late = EnhancedRecording { blob: begun, frames: 1, channels: 1, seconds: 1.0, model: String::new() };
        assert!(matches!(store.jobs().complete_enhancement(&first.lease, &late, 1).await, Err(Error::LeaseLost)));

        let second = claim(&store).await;
        assert_eq!((second.attempt, sent(&store, &second).await.as_slice()), (2, SENT));
        store.jobs().fail(&second.lease, FaultKind::Internal, "it broke").await.unwrap();
        let third = claim(&store).await;
        store.jobs().fail(&third.lease, FaultKind::Internal, "it broke").await.unwrap();
        let failed = store.enhancements().get(ann, id).await.unwrap();
        assert_eq!((failed.status, credits(&store, ann).await), (Status::Failed, 10));
        store.jobs().retry(first.lease.job, RetryLimits::default()).await.unwrap();
        assert_eq!((status(&store, ann, id).await, credits(&store, ann).await), (Status::Queued, 8));
        let again = claim(&store).await;
        let made = result(&store, ann).await;
        store.jobs().complete_enhancement(&again.lease, &made, 2).await.unwrap();
        assert_eq!((read(&store, ann, id).await.as_slice(), credits(&store, ann).await), (RESULT, 8));
        assert_balanced(&store).await;
    }

    async fn jobs_of_a_worker_that_stops_go_back_to_the_queue(place: Place) {
        let store = place.open().await;
        let ann = account(&store, 10).await;
        let id = send(&store, ann).await;
        let job = claim(&store).await;
        assert_eq!(store.jobs().release_all("worker").await.unwrap(), 1);
        assert_eq!(status(&store, ann, id).await, Status::Queued);
        assert!(matches!(store.jobs().renew(&job.lease, LEASE).await, Err(Error::LeaseLost)));
        assert_eq!(claim(&store).await.attempt, 1, "it did not count");
    }

    async fn a_repeat_finds_what_the_first_request_made_until_it_is_deleted(place: Place) {
        let store = place.open().await;
        let ann = account(&store, 10).await;
        let ask = async |fingerprint: u8| {
            let named = NewEnhancement { idempotency: Some(name(fingerprint)), ..new(&store, ann).await };
            store.jobs().accept_enhancement(named).await
        };
        let AcceptedEnhancement::New { enhancement: id, .. } = ask(1).await.unwrap() else { panic!("it is new") };
        assert_eq!(ask(1).await.unwrap(), AcceptedEnhancement::Repeat { enhancement: id });
        assert!(matches!(ask(2).await, Err(Error::KeyReused)));
        assert_eq!((credits(&store, ann).await, place.recordings().len()), (8, 1));
        let owner = hark_store::Owner::Account(ann);
        assert!(store.idempotency().is_used(&owner, "again").await.unwrap());
        assert!(matches!(store.idempotency().transcript(&owner, &name(1)).await, Err(Error::KeyReused)));

        // Nobody waits for it any more: the same request may begin again.
        store.enhancements().abandon(ann, id).await.unwrap();
        let AcceptedEnhancement::New { enhancement: id, .. } = ask(1).await.unwrap() else { panic!("it is new") };
        store.enhancements().delete(ann, id).await.unwrap();
        assert!(matches!(ask(1).await, Err(Error::Deleted)), "its owner did not want it");
        place.clock.advance(Duration::from_secs(3601));
        assert!(matches!(ask(1).await, Ok(AcceptedEnhancement::New { .. })));
        assert_balanced(&store).await;
    }

    async fn limits_are_those_of_other_jobs(place: Place) {
        let store = place.open().await;
        let ann = account(&store, 3).await;
        let refused = async |change: fn(&mut NewEnhancement)| {
            let mut one = new(&store, ann).await;
            change(&mut one);
            store.jobs().accept_enhancement(one).await.map(drop)
        };
        let stored = refused(|one| one.max_storage = Some(SENT.len() as u64 - 1)).await;
        assert!(matches!(stored, Err(Error::Limit { what: Limit::StorageBytes, .. })), "{stored:?}");
        send(&store, ann).await;
        assert!(matches!(refused(|_| {}).await, Err(Error::NotEnoughCredits { have: 1, need: 2 })));
        let live = refused(|one| one.max_live = Some(1)).await;
        assert!(matches!(live, Err(Error::Limit { what: Limit::ConcurrentJobs, .. })), "{live:?}");
        assert!(matches!(refused(|one| one.max_queued = Some(1)).await, Err(Error::QueueFull { length: 1 })));
        assert_eq!(place.recordings().len(), 1, "what was refused is not kept");
        let ben = account(&store, 3).await;
        let stolen = NewEnhancement { account: ben, ..new(&store, ann).await };
        assert!(matches!(store.jobs().accept_enhancement(stolen).await, Err(Error::Conflict(_))));
    }

    async fn old_results_go_and_the_sweep_leaves_the_others(place: Place) {
        let store = place.open().await;
        let ann = account(&store, 20).await;
        let old = completed(&store, ann).await;
        let failed = send(&store, ann).await;
        let job = claim(&store).await;
        store.jobs().fail(&job.lease, FaultKind::Input, "no sound").await.unwrap();
        place.clock.advance(Duration::from_secs(3600));
        let (young, waiting) = (completed(&store, ann).await, send(&store, ann).await);
        let day = Duration::from_secs(24 * 3600);
        place.clock.advance(day - Duration::from_secs(1800));
        assert_eq!(store.enhancements().expire(day).await.unwrap(), 2);
        for gone in [old, failed] {
            assert!(matches!(store.enhancements().get(ann, gone).await, Err(Error::NotFound(_))));
        }
        let swept = store.recordings().sweep_older_than(Duration::ZERO).await.unwrap();
        assert_eq!((swept.recordings, swept.quarantined), (Vec::<BlobKey>::new(), Vec::<BlobKey>::new()));
        assert_eq!((read(&store, ann, young).await.as_slice(), status(&store, ann, waiting).await), (RESULT, Status::Queued));
        assert_eq!(store.recordings().missing().await.unwrap(), []);
        assert_eq!(store.integrity().check_recordings(10).await.unwrap().checked, 2);
        // With their account everything goes.
        store.accounts().delete(ann).await.unwrap();
        assert_eq!(place.recordings().len(), 0);
    }

    async fn a_result_is_made_to_expire_soon_by_its_owner_alone(place: Place) {
        let store = place.open().await;
        let (ann, ben) = (account(&store, 20).await, account(&store, 3).await);
        let (sent, kept) = (completed(&store, ann).await, completed(&store, ann).await);
        let waiting = send(&store, ann).await;
        let [day, soon, later] = [24 * 3600, 600, 900].map(Duration::from_secs);
        let expire_soon = async |account, id, left| store.enhancements().expire_soon(account, id, day, left).await.unwrap();
        expire_soon(ben, sent, Duration::ZERO).await;
        expire_soon(ann, waiting, Duration::ZERO).await;
        assert_eq!(store.enhancements().expire(day).await.unwrap(), 0);
        expire_soon(ann, sent, soon).await;
        // It is never put off.
        expire_soon(ann, sent, later).await;
        place.clock.advance(soon - Duration::from_secs(1));
        assert_eq!(store.enhancements().expire(day).await.unwrap(), 0);
        assert_eq!(read(&store, ann, sent).await, RESULT);
        place.clock.advance(Duration::from_secs(1));
        assert_eq!(store.enhancements().expire(day).await.unwrap(), 1);
        assert!(matches!(store.enhancements().get(ann, sent).await, Err(Error::NotFound(_))));
        assert_eq!((read(&store, ann, kept).await.as_slice(), status(&store, ann, waiting).await), (RESULT, Status::Queued));
    }

    async fn results_are_sealed_with_the_rest_and_stay_results(place: Place) {
        let store = place.open().await;
        let ann = account(&store, 20).await;
        let (done, waiting) = (completed(&store, ann).await, send(&store, ann).await);
        store.close().await;
        let master_keys = MasterKeys::new(MasterKey::new(KEY));
        let store = Store::open(Options { master_keys, ..place.options() }).await.unwrap();
        let sealed = store.sealing().seal_all(|_| {}).await.unwrap();
        assert!(sealed.left.is_nothing() && sealed.missing.is_empty(), "{sealed:?}");
        assert_eq!(read(&store, ann, done).await, RESULT);
        for path in place.recordings() {
            let bytes = std::fs::read(path).unwrap();
            assert!(!bytes.starts_with(b"RIFF"), "a recording lies open");
        }
        let job = claim(&store).await;
        assert_eq!(sent(&store, &job).await, SENT);
        let made = result(&store, ann).await;
        assert!(made.blob.is_sealed);
        store.jobs().complete_enhancement(&job.lease, &made, 2).await.unwrap();
        assert_eq!(read(&store, ann, waiting).await, RESULT);
        assert_eq!(place.recordings().len(), 2);
    }
}
