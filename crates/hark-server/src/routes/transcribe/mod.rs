//! `POST /v1/transcribe`: an upload becomes a job, and the request waits for it.

mod answer;
mod fields;
mod fingerprint;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;
use hark_api::{ErrorKind, TranscribeForm, TranscriptionResult};
use hark_store::{Accepted, Lane, NewJob, NewTranscript, Owner, TranscriptId};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::{App, Role};
use crate::error::Failure;
use crate::extract::Query;
use crate::idempotent::Fingerprint;
use crate::jobs;
use crate::middleware::Caller;
use crate::options::{checkpoint, model};
use crate::probe;
use crate::recording::Unclaimed;
use crate::routes::upload::{Admission, Incoming, count_networks, prefers_async, receive, used_already};
use crate::routes::{
    AnyError, Deleted, IdempotencyHeader, Invalid, Late, Limited, Payment, Reused, TooLarge, Unauthorized, Unavailable,
};
use fingerprint::fingerprint;

pub(crate) use answer::{Wait, accepted, export};
pub(crate) use fields::{Fields, Form, ParsedForm, boolean, put};

/// The checkpoint that really ran.
pub(crate) const MODEL: HeaderName = HeaderName::from_static("x-model");
/// The warnings of a transcript, for formats that have no field for them.
pub(crate) const WARNINGS: HeaderName = HeaderName::from_static("x-warnings");

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TranscribeQuery {
    /// Answer at once with 202, as `Prefer: respond-async` does.
    #[serde(default)]
    r#async: bool,
}

/// Transcribe a recording
///
/// Waits for the transcript and answers with it. With `Prefer: respond-async` or `?async=true` it answers 202 at once.
/// 1 credit a minute, rounded up; a failure costs nothing. Without a credential a few a day are free.
#[utoipa::path(post, path = "/v1/transcribe", tag = "speech", operation_id = "transcribe", params(TranscribeQuery,
        ("Prefer" = Option<String>, Header, description = "respond-async: answer at once"),
        IdempotencyHeader),
    request_body(content = TranscribeForm, content_type = "multipart/form-data"),
    responses((status = 200, description = "the transcript", headers(
            ("X-Transcript-Id" = i64, description = "the saved transcript"),
            ("X-Model" = String, description = "the checkpoint that ran"),
            ("X-Warnings" = Option<String>, description = "what is wrong or remarkable about the recording, if anything")), content(
            (TranscriptionResult = "application/json"), (String = "text/plain; charset=utf-8"),
            (String = "application/x-subrip; charset=utf-8"), (String = "text/vtt; charset=utf-8"))),
        (status = 202, description = "accepted: it will be transcribed", body = hark_api::Accepted),
        Invalid, Unauthorized, Payment, Deleted, TooLarge, Reused, Limited, Unavailable, Late, AnyError),
    security((), ("bearer" = [])))]
pub(crate) async fn transcribe(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<TranscribeQuery>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, body) = request.into_parts();
    let wait = !(query.r#async || prefers_async(&head.headers));
    let queued = enqueue::<Fields>(&app, &caller, &head.headers, body, wait).await?;
    if !wait {
        return answer::accepted(&app, queued.transcript).await;
    }
    answer::answer(Wait::begin(&app, &caller, &queued), queued.layout).await
}

/// A queued recording.
pub(crate) struct Queued<Layout> {
    pub(crate) transcript: TranscriptId,
    /// Whether this request queued it, and not one that it repeats.
    pub(crate) is_first: bool,
    pub(crate) layout: Layout,
}

/// Receives a form with a recording: checks the caller, stores the recording, and queues the job.
pub(crate) async fn enqueue<F: Form>(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    body: Body,
    wait: bool,
) -> Result<Queued<F::Layout>, Failure> {
    let admission = Admission::of(app, caller, headers, wait).await?;
    let (received, recording) = received::<F>(app, caller, headers, body).await?;
    let layout = received.form.layout.clone();
    let (owner, name) = (admission.owner.clone(), admission.name.clone());
    let Some(recording) = recording else {
        let key = received.fingerprint.named(name.ok_or_else(used_already)?);
        let transcript = app.store.idempotency().transcript(&owner, &key).await?.ok_or_else(used_already)?;
        return Ok(Queued { transcript, is_first: false, layout });
    };
    let new = job(app, caller, received, recording, owner.clone(), name, wait).await?;
    let minutes = new.minutes;
    let accepted = accept(app, caller, new, wait).await;
    let accepted = accepted.map_err(|error| Admission::refused(app, caller, error, minutes))?;
    drop(admission);
    let (transcript, is_first) = match accepted {
        Accepted::New { transcript, .. } => {
            count_networks(app, &owner, caller, minutes).await;
            (transcript, true)
        }
        Accepted::Repeat { transcript } => (transcript, false),
    };
    Ok(Queued { transcript, is_first, layout })
}

/// A completely received form, but for its recording.
struct Received<Layout> {
    form: ParsedForm<Layout>,
    /// The title of the transcript.
    title: String,
    /// The fingerprint of the request: of its fields and, with an idempotency key, of its bytes.
    fingerprint: Fingerprint,
}

async fn received<F: Form>(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Received<F::Layout>, Option<Unclaimed>), Failure> {
    let Incoming { fields, recording, title } = receive::<F>(app, caller, headers, body).await?;
    let requested = fields.parsed()?;
    let mut resolved = requested.clone();
    let model = model(&resolved.work.model, caller.plan().is_paid(), &app.config)?;
    resolved.work.model = checkpoint(model, app.role, &*app.engines.models)?;
    let (recording, hash) = recording.finish(app).await?;
    let fingerprint = fingerprint::<F>(&requested, &resolved, hash)?;
    Ok((Received { form: resolved, title, fingerprint }, recording))
}

/// Accepts a job in a task of its own: if the client disconnects meanwhile, the job is accepted completely and then cancelled.
async fn accept(app: &App, caller: &Caller, new: NewJob, wait: bool) -> hark_store::Result<Accepted> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let (app, caller) = (app.clone(), caller.clone());
    tokio::spawn(async move {
        let accepted = app.store.jobs().accept(new).await;
        if let Err(Ok(Accepted::New { transcript, .. })) = sender.send(accepted)
            && wait
        {
            answer::abandon(&app, &caller, transcript).await;
        }
    });
    receiver.await.unwrap_or(Err(hark_store::Error::Conflict("the request was interrupted")))
}

/// The job that an upload makes: probed, priced and ready to be accepted.
async fn job<Layout>(
    app: &App,
    caller: &Caller,
    received: Received<Layout>,
    recording: Unclaimed,
    owner: Owner,
    name: Option<String>,
    wait: bool,
) -> Result<NewJob, Failure> {
    let Received { form, title, fingerprint } = received;
    let seconds = crate::recording::duration(app, caller, &recording.blob).await?;
    let minutes = probe::minutes(seconds);
    if form.work.identify {
        check_identify(app, caller)?;
    }
    let payload = serde_json::to_string(&form.work).map_err(|error| {
        tracing::error!(%error, "request.encode_failed");
        Failure::from(ErrorKind::Internal)
    })?;
    let webhook = match (form.webhook_url, caller.identity()) {
        (None, _) => None,
        (Some(url), Some(identity)) => Some(crate::webhooks::target(&app.store, identity.account(), url).await?),
        (Some(_), None) => {
            let message = "`webhook_url` needs an account: its calls are signed with the account's secret";
            return Err(Failure::new(ErrorKind::Unauthorized, message));
        }
    };
    Ok(NewJob {
        transcript: NewTranscript {
            title,
            source_type: caller.identity().map_or("api", |identity| identity.source_type()).to_owned(),
            language: form.work.language.clone().unwrap_or_else(|| "auto".to_owned()),
            model: form.work.model.clone(),
        },
        payload,
        needs: jobs::needs(&form.work),
        blob: recording.claim(),
        seconds,
        minutes,
        hold: if caller.identity().is_some() { minutes } else { 0 },
        lane: Lane::of_recording(seconds, wait),
        key: caller.identity().map(|identity| identity.key()),
        max_live: Some(caller.plan().concurrency()),
        max_queued: Some(i64::try_from(app.config.max_queue).unwrap_or(i64::MAX)),
        anonymous_limit: Some(app.config.anonymous.limit.into()),
        max_storage: app.config.recordings.quota.of(caller.plan()),
        idempotency: name.map(|key| fingerprint.named(key)),
        webhook,
        owner,
    })
}

/// Rejects speaker names if diarization is not available. A process without models leaves the check to the worker that claims the job.
fn check_identify(app: &App, caller: &Caller) -> Result<(), Failure> {
    if caller.identity().is_none() {
        let message = "`identify` needs an account, whose known voices it names: send an API key";
        return Err(Failure::new(ErrorKind::Unauthorized, message));
    }
    if app.role != Role::Account {
        app.engines.voices()?;
    }
    Ok(())
}
