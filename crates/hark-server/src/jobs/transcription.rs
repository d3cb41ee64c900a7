//! The kind of job that makes a transcript of a recording.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use hark_speech::{Progress, Voiceprint};
use hark_store::{AccountId, Lease, Need, Owner, TRANSCRIBE};

use super::budget::JobBudget;
use super::draft::DraftWriter;
use super::kind::{JobKind, JobResult, Run};
use crate::app::App;
use crate::engine::{IDENTIFY, Transcribed, Work};
use crate::probe;
use crate::queue::Fault;

/// The capabilities that a worker needs for this work.
pub(crate) fn needs(work: &Work) -> Vec<Need> {
    let mut needs = vec![Need::Model(work.model.clone())];
    if work.identify {
        needs.push(Need::Capability(IDENTIFY));
    }
    needs
}

/// Transcribes a recording.
pub(crate) struct Transcription;

impl JobKind for Transcription {
    fn name(&self) -> &'static str {
        TRANSCRIBE
    }

    fn run(&self, app: App, run: Arc<Run>) -> BoxFuture<'static, Result<Box<dyn JobResult>, Fault>> {
        Box::pin(async move {
            let keep_audio = app.config.keep_audio && matches!(run.job.owner, Owner::Account(_));
            let transcribed = transcribe(&app, &run).await?;
            Ok(Box::new(Finished { transcribed, keep_audio }) as Box<dyn JobResult>)
        })
    }
}

async fn transcribe(app: &App, run: &Arc<Run>) -> Result<Transcribed, Fault> {
    let mut work: Work = serde_json::from_str(&run.job.payload).map_err(Fault::internal)?;
    if work.identify {
        work.known = known(app, run.job.account).await?;
    }
    // Anonymous callers have nothing in common.
    if work.language.is_none() && matches!(run.job.owner, Owner::Account(_)) {
        work.usual_language = app.store.transcripts().usual_language(run.job.account).await?;
    }
    let budget = JobBudget::new(app, &run.job);
    work.budget = budget.of_decoder();
    let blob = run.job.blob.as_ref().ok_or_else(|| Fault::internal("the job has no recording"))?;
    let source = crate::recording::open(app, blob).await?;
    let (engines, run, model) = (app.engines.clone(), Arc::clone(run), work.model.clone());
    let task = tokio::task::spawn_blocking(move || {
        // Nobody sees a transcript without an account before it is completed.
        let mut draft = matches!(run.job.owner, Owner::Account(_)).then(DraftWriter::new);
        let mut progress = |so_far: Progress<'_>| {
            let done = so_far.audio_done;
            let total = so_far.audio_total.unwrap_or(run.job.seconds).max(done).max(0.001);
            run.set_progress((done / total * 100.0) as i64);
            let due = draft.as_mut().and_then(|draft| draft.due(so_far.segments, Instant::now()));
            due.into_iter().for_each(|segments| run.set_draft(segments));
        };
        // The process that accepted the job may have had no models to resolve the name.
        let work = Work { model: engines.models.resolve(&work.model)?, ..work };
        let done = engines.transcribe().transcribe(source, &work, &mut progress, &run.cancel);
        done.map_err(|error| budget.refusal().unwrap_or(error))
    });
    let done = task.await.map_err(Fault::internal)?.map_err(Fault::from);
    app.breaker.observe(&Need::Model(model), done.as_ref().err());
    done
}

/// The enrolled voiceprints of an account, without those of another network.
async fn known(app: &App, account: AccountId) -> hark_store::Result<Vec<(String, Voiceprint)>> {
    let stored = app.store.voiceprints().list(account).await?.into_iter();
    let known = stored.filter_map(|voice| match Voiceprint::from_bytes(&voice.print) {
        Some(print) => Some((voice.name, print)),
        None => {
            tracing::warn!(voice = %voice.id, "voiceprint.incompatible");
            None
        }
    });
    Ok(known.collect())
}

/// A completed transcription.
struct Finished {
    transcribed: Transcribed,
    keep_audio: bool,
}

impl JobResult for Finished {
    fn commit<'a>(&'a self, app: &'a App, lease: &'a Lease) -> BoxFuture<'a, hark_store::Result<()>> {
        Box::pin(async move {
            let Transcribed { result, names } = &self.transcribed;
            let used = probe::minutes(result.duration);
            app.store.jobs().complete_named(lease, result, names, used, self.keep_audio).await.map(drop)
        })
    }

    fn committed(&self, app: &App, lease: &Lease, took: Duration) {
        let result = &self.transcribed.result;
        let seconds = result.duration;
        app.metrics.audio_milliseconds.fetch_add((seconds * 1000.0) as u64, Ordering::Relaxed);
        let transcript = lease.transcript.map(|id| id.0);
        tracing::info!(transcript, seconds, took = took.as_secs_f64(), model = result.model, "job.completed");
    }
}
