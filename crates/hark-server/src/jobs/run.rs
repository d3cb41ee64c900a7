//! One recording from its claim to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use hark_speech::{CancelToken, Voiceprint};
use hark_store::{AccountId, Error as StoreError, Job, Lease, Owner};
use tokio::time::MissedTickBehavior;

use super::OUR_FAULT;
use crate::app::App;
use crate::engine::{EngineError, Transcribed, Work};
use crate::probe;

/// How often progress is written.
const BEAT: Duration = Duration::from_secs(1);
/// How often writing a result is tried while the database does not answer.
const TRIES: u32 = 5;

/// Works on a claimed job until it is completed, failed or lost.
pub(crate) async fn run(app: &App, job: Job) {
    let begun = Instant::now();
    let lease = job.lease.clone();
    let cancel = CancelToken::default();
    app.running.add(lease.job, &cancel);
    app.metrics.jobs_running.fetch_add(1, Ordering::Relaxed);
    let keep_audio = app.config.keep_audio && matches!(job.owner, Owner::Account(_));
    let outcome = work(app, job, &cancel).await;
    app.metrics.jobs_running.fetch_sub(1, Ordering::Relaxed);
    app.running.remove(lease.job);
    app.metrics.work_milliseconds.fetch_add(begun.elapsed().as_millis() as u64, Ordering::Relaxed);
    let transcript = lease.transcript;
    match outcome {
        Ok(done) => {
            let seconds = done.result.duration;
            if complete(app, &lease, &done, keep_audio).await {
                app.metrics.jobs_completed.fetch_add(1, Ordering::Relaxed);
                app.metrics.audio_milliseconds.fetch_add((seconds * 1000.0) as u64, Ordering::Relaxed);
                let took = begun.elapsed().as_secs_f64();
                tracing::info!(%transcript, seconds, took, model = done.result.model, "transcribed");
            }
        }
        // Whoever called it off has said in the store what becomes of it.
        Err(EngineError::Cancelled) => tracing::info!(%transcript, "called off"),
        Err(EngineError::Unusable(reason)) => fail(app, &lease, &reason, false).await,
        Err(error) => {
            tracing::error!(%transcript, %error, "an attempt failed");
            let reason =
                format!("{OUR_FAULT}: something went wrong on the server; nothing was charged, please try again");
            fail(app, &lease, &reason, true).await;
        }
    }
}

async fn work(app: &App, job: Job, cancel: &CancelToken) -> Result<Transcribed, EngineError> {
    let failed = |error: &dyn std::fmt::Display| EngineError::Failed(error.to_string());
    let mut work: Work = serde_json::from_str(&job.request).map_err(|error| failed(&error))?;
    if work.identify {
        work.known = known(app, job.account).await.map_err(|error| failed(&error))?;
    }
    let source = crate::recording::open(app, &job.blob).await.map_err(|error| failed(&error))?;
    let percent = Arc::new(AtomicI64::new(0));
    let mut hearing = {
        let (engine, cancel, percent) = (Arc::clone(&app.engine), cancel.clone(), Arc::clone(&percent));
        let probed = job.seconds;
        tokio::task::spawn_blocking(move || {
            let mut progress = |done: f64, total: Option<f64>| {
                let total = total.unwrap_or(probed).max(done).max(0.001);
                percent.store((done / total * 100.0) as i64, Ordering::Relaxed);
            };
            // Who accepted the job may have had no models to choose from.
            let work = Work { model: engine.resolve(&work.model)?, ..work };
            engine.transcribe(source, &work, &mut progress, &cancel)
        })
    };
    let keep = app.config.lease.duration();
    let mut renewed = Instant::now();
    let mut written = 0;
    let mut beat = tokio::time::interval_at(tokio::time::Instant::now() + BEAT.min(keep / 3), BEAT.min(keep / 3));
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            done = &mut hearing => return done.map_err(|error| failed(&error))?,
            _ = beat.tick() => {}
        }
        let now = percent.load(Ordering::Relaxed).min(99);
        let mut told = Ok(());
        if now > written {
            told = app.store.progress(&job.lease, now).await;
            written = now;
        }
        if told.is_ok() && renewed.elapsed() >= keep / 3 {
            told = app.store.renew(&job.lease, keep).await;
            renewed = Instant::now();
        }
        match told {
            Ok(()) => {}
            Err(StoreError::LeaseLost) => cancel.cancel(),
            Err(error) => tracing::warn!(%error, "the progress of a recording can't be written"),
        }
    }
}

/// The voices that an account knows. One that another network printed is none here.
async fn known(app: &App, account: AccountId) -> hark_store::Result<Vec<(String, Voiceprint)>> {
    let kept = app.store.voiceprints(account).await?.into_iter();
    let known = kept.filter_map(|voice| match Voiceprint::from_bytes(&voice.print) {
        Some(print) => Some((voice.name, print)),
        None => {
            tracing::warn!(voice = %voice.id, "a voiceprint is not of the network that listens: it has to be learned again");
            None
        }
    });
    Ok(known.collect())
}

/// Writes the result; the store's answer says whether it counted.
async fn complete(app: &App, lease: &Lease, done: &Transcribed, keep_audio: bool) -> bool {
    let used = probe::minutes(done.result.duration);
    for tried in 1.. {
        match app.store.complete_named(lease, &done.result, &done.names, used, keep_audio).await {
            Ok(_) => return true,
            Err(StoreError::LeaseLost) => {
                tracing::info!(transcript = %lease.transcript, "a result came too late: the recording is another's or gone");
                return false;
            }
            Err(error) if tried < TRIES => {
                tracing::warn!(%error, "a result can't be written; trying again");
                let _ = app.store.renew(lease, app.config.lease.duration()).await;
                tokio::time::sleep(BEAT * tried).await;
            }
            Err(error) => {
                tracing::error!(%error, "a result can't be written; the recording goes back to the queue when its lease ends");
                return false;
            }
        }
    }
    false
}

async fn fail(app: &App, lease: &Lease, reason: &str, retryable: bool) {
    match app.store.fail(lease, reason, retryable).await {
        Ok(true) => {}
        Ok(false) => {
            app.metrics.jobs_failed.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(transcript = %lease.transcript, reason, "failed");
        }
        Err(StoreError::LeaseLost) => {}
        Err(error) => tracing::error!(%error, "a failure can't be written"),
    }
}
