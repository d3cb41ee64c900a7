//! Random operations on the store and on a plain model of it must agree at every step.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use hark_store::{
    Accepted, AccountId, AfterFault, BULK_MAX_WAIT, Error, FaultKind, JobId, Lane, Lease, NewJob, Owner, RetryLimits,
    RetryPolicy, Status, Store, TranscriptId,
};

use crate::support::{LEASE, Place, account, assert_balanced, new_job, on_both, result};

const STEPS: usize = 200;

fn max_attempts() -> i64 {
    RetryPolicy::default().max_attempts
}

/// A small generator, so that a failure can be repeated from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 33) % end as u64) as i64
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.below(from.len() as i64) as usize].clone()) }
    }
}

#[derive(Clone)]
struct ModelJob {
    account: AccountId,
    transcript: TranscriptId,
    lane: Lane,
    queued_at: i64,
    held: i64,
    attempts: i64,
    /// While it runs: who may end it, and until when.
    lease: Option<(Lease, i64)>,
}

#[derive(Default)]
struct Model {
    credits: BTreeMap<AccountId, i64>,
    jobs: BTreeMap<JobId, ModelJob>,
    /// Those that used up their attempts.
    failed: BTreeMap<JobId, ModelJob>,
    status: HashMap<TranscriptId, Status>,
    calls: BTreeMap<String, (AccountId, i64)>,
    completed: HashMap<AccountId, i64>,
}

impl Model {
    /// The job that must be claimed next.
    fn next(&self, now: i64) -> Option<JobId> {
        let running = |account| self.jobs.values().filter(|j| j.lease.is_some() && j.account == account).count();
        let waiting = self.jobs.iter().filter(|(_, job)| job.lease.is_none());
        let old = now - BULK_MAX_WAIT.as_micros() as i64;
        let lane = |job: &ModelJob| match job.lane {
            Lane::Bulk if job.queued_at <= old => Lane::Interactive,
            lane => lane,
        };
        waiting
            .min_by_key(|(id, job)| (std::cmp::Reverse(lane(job)), running(job.account), job.queued_at, **id))
            .map(|(id, _)| *id)
    }

    fn release(&mut self, job: JobId) -> ModelJob {
        let job = self.jobs.remove(&job).expect("the model has the job");
        *self.credits.get_mut(&job.account).expect("the model has the account") += job.held;
        job
    }

    /// The last attempt gave no result.
    fn bury(&mut self, id: JobId) {
        let job = self.release(id);
        self.status.insert(job.transcript, Status::Failed);
        self.failed.insert(id, ModelJob { lease: None, attempts: 0, ..job });
    }

    /// What silence for too long does.
    fn expire(&mut self, now: i64) {
        let late: Vec<JobId> = self
            .jobs
            .iter()
            .filter(|(_, j)| j.lease.as_ref().is_some_and(|(_, until)| *until < now))
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            if self.jobs[&id].attempts >= max_attempts() {
                self.bury(id);
            } else {
                let job = self.jobs.get_mut(&id).expect("the model has the job");
                job.lease = None;
                self.status.insert(job.transcript, Status::Queued);
            }
        }
    }

    fn running(&self) -> Vec<(JobId, Lease)> {
        self.jobs.iter().filter_map(|(id, job)| job.lease.as_ref().map(|(lease, _)| (*id, lease.clone()))).collect()
    }

    async fn agrees_with(&self, store: &Store) {
        assert_balanced(store).await;
        for (id, credits) in &self.credits {
            assert_eq!(store.accounts().get(*id).await.unwrap().credits, *credits, "credits of account {id}");
            let usage = store.accounts().usage(*id, 1).await.unwrap().total_transcripts;
            assert_eq!(usage, self.completed.get(id).copied().unwrap_or(0), "usage of account {id}");
        }
        for (id, status) in &self.status {
            assert_eq!(store.transcripts().status(*id).await.unwrap().status, *status, "status of transcript {id}");
        }
        let waiting = self.jobs.values().filter(|j| j.lease.is_none()).count();
        assert_eq!(store.jobs().queue_length().await.unwrap(), waiting as i64);
        assert_eq!(store.jobs().failed_count().await.unwrap(), self.failed.len() as i64);
    }
}

async fn step(place: &Place, store: &Store, model: &mut Model, random: &mut Random, number: usize) {
    let accounts: Vec<AccountId> = model.credits.keys().copied().collect();
    let account = random.pick(&accounts).expect("there are accounts");
    let lanes = [Lane::Live, Lane::Interactive, Lane::Bulk];
    match random.below(20) {
        0 => {
            let amount = 1 + random.below(20);
            assert_eq!(store.ledger().grant(account, amount, "").await.unwrap(), model.credits[&account] + amount);
            *model.credits.get_mut(&account).unwrap() += amount;
        }
        1..=5 => {
            let (held, lane) = (random.below(8), random.pick(&lanes).unwrap());
            let job = new_job(store, &Owner::Account(account), held).await;
            match store.jobs().accept(NewJob { lane, ..job }).await {
                Ok(Accepted::New { transcript, job }) => {
                    assert!(model.credits[&account] >= held);
                    *model.credits.get_mut(&account).unwrap() -= held;
                    model.status.insert(transcript, Status::Queued);
                    let queued_at = store.now();
                    model
                        .jobs
                        .insert(job, ModelJob { account, transcript, lane, queued_at, held, attempts: 0, lease: None });
                }
                Err(Error::NotEnoughCredits { have, need }) => {
                    assert_eq!((have, need), (model.credits[&account], held));
                    assert!(have < need);
                }
                other => panic!("{other:?}"),
            }
        }
        6..=9 => {
            model.expire(store.now());
            let expected = model.next(store.now());
            store.jobs().expire_leases().await.unwrap();
            let claimed = store.jobs().claim_any("worker", LEASE).await.unwrap();
            assert_eq!(claimed.as_ref().map(|job| job.lease.job), expected);
            if let Some(claimed) = claimed {
                let job = model.jobs.get_mut(&claimed.lease.job).unwrap();
                job.attempts += 1;
                assert_eq!(claimed.attempt, job.attempts);
                job.lease = Some((claimed.lease, store.now() + LEASE.as_micros() as i64));
                model.status.insert(job.transcript, Status::Processing);
            }
        }
        10..=12 => {
            if let Some((id, lease)) = random.pick(&model.running()) {
                let used = random.below(10);
                let job = model.release(id);
                let credits = model.credits.get_mut(&job.account).unwrap();
                // What costs nothing to hold is free.
                let charged = if job.held > 0 { used.min(*credits) } else { 0 };
                *credits -= charged;
                let settled = store.jobs().complete(&lease, &result(), used, false).await.unwrap();
                assert_eq!(settled.map_or(0, |s| s.charged), charged);
                model.status.insert(job.transcript, Status::Completed);
                *model.completed.entry(job.account).or_default() += 1;
            }
        }
        13 => {
            if let Some((id, lease)) = random.pick(&model.running()) {
                let kinds = [FaultKind::Input, FaultKind::Internal, FaultKind::Unavailable];
                let kind = random.pick(&kinds).unwrap();
                let last = model.jobs[&id].attempts >= max_attempts();
                let again = kind == FaultKind::Unavailable || kind == FaultKind::Internal && !last;
                let after = store.jobs().fail(&lease, kind, "it broke").await.unwrap();
                assert_eq!(after != AfterFault::Failed, again);
                if again {
                    let job = model.jobs.get_mut(&id).unwrap();
                    job.lease = None;
                    job.attempts -= i64::from(kind == FaultKind::Unavailable);
                    model.status.insert(job.transcript, Status::Queued);
                } else if kind == FaultKind::Internal {
                    model.bury(id);
                } else {
                    let job = model.release(id);
                    model.status.insert(job.transcript, Status::Failed);
                }
            }
        }
        14 => {
            let live: Vec<_> = model.jobs.iter().map(|(id, j)| (*id, j.account, j.transcript)).collect();
            if let Some((id, account, transcript)) = random.pick(&live) {
                store.transcripts().cancel(account, transcript, "canceled").await.unwrap();
                model.release(id);
                model.status.insert(transcript, Status::Failed);
            }
        }
        15 if random.below(2) == 0 => {
            let Some(id) = random.pick(&model.failed.keys().copied().collect::<Vec<_>>()) else { return };
            let job = model.failed[&id].clone();
            match store.jobs().retry(id, RetryLimits::default()).await {
                Ok(()) => {
                    *model.credits.get_mut(&job.account).unwrap() -= job.held;
                    model.status.insert(job.transcript, Status::Queued);
                    model.failed.remove(&id);
                    model.jobs.insert(id, ModelJob { queued_at: store.now(), ..job });
                }
                Err(Error::NotEnoughCredits { have, need }) => {
                    assert_eq!((have, need), (model.credits[&job.account], job.held));
                }
                other => panic!("{other:?}"),
            }
        }
        15 => {
            let live: Vec<_> = model.jobs.iter().map(|(id, j)| (*id, j.account, j.transcript)).collect();
            if let Some((id, account, transcript)) = random.pick(&live) {
                store.transcripts().delete(account, transcript).await.unwrap();
                model.release(id);
                model.status.remove(&transcript);
                assert!(store.transcripts().status(transcript).await.is_err());
            }
        }
        16 => {
            let (name, amount) = (format!("call:{number}"), random.below(6));
            match store.ledger().hold(account, &name, amount, Duration::from_secs(1_000_000)).await {
                Ok(left) => {
                    *model.credits.get_mut(&account).unwrap() -= amount;
                    assert_eq!(left, model.credits[&account]);
                    model.calls.insert(name, (account, amount));
                }
                Err(Error::NotEnoughCredits { have, .. }) => assert_eq!(have, model.credits[&account]),
                other => panic!("{other:?}"),
            }
        }
        17 => {
            if let Some((name, (account, held))) = model.calls.pop_first() {
                let used = random.below(8);
                let credits = model.credits.get_mut(&account).unwrap();
                *credits += held;
                let charged = used.min(*credits);
                *credits -= charged;
                assert_eq!(store.ledger().settle(&name, used, "").await.unwrap().charged, charged);
            }
        }
        18 => place.clock.advance(LEASE / 3),
        _ => {
            if random.below(4) == 0 {
                assert_eq!(store.jobs().release_all("worker").await.unwrap(), model.running().len() as u64);
                for job in model.jobs.values_mut().filter(|job| job.lease.is_some()) {
                    job.lease = None;
                    job.attempts -= 1;
                    model.status.insert(job.transcript, Status::Queued);
                }
            } else if let Some((id, lease)) = random.pick(&model.running()) {
                store.jobs().renew(&lease, LEASE).await.unwrap();
                model.jobs.get_mut(&id).unwrap().lease = Some((lease, store.now() + LEASE.as_micros() as i64));
            }
        }
    }
}

on_both! {
    async fn the_store_agrees_with_a_plain_model_of_it(place: Place) {
        for seed in [1, 2026, 0xdead_beef] {
            let store = place.open_without_backoff().await;
            let mut model = Model::default();
            for _ in 0..3 {
                model.credits.insert(account(&store, 30).await, 30);
            }
            let mut random = Random(seed);
            for number in 0..STEPS {
                // Which step fails is told by the panic inside, its seed by this.
                eprintln!("seed {seed}, step {number}");
                step(&place, &store, &mut model, &mut random, number + seed as usize * STEPS).await;
                if number % 10 == 0 {
                    model.agrees_with(&store).await;
                }
            }
            model.agrees_with(&store).await;
            // Nothing of this round is left for the next.
            for id in model.credits.keys() {
                store.accounts().delete(*id).await.unwrap();
            }
            assert_eq!(place.recordings().len(), 0);
        }
    }
}
