//! `POST /v1/transcribe`: an upload becomes a job, and the request waits for it.

mod admit;
mod answer;
mod fields;
mod fingerprint;
mod receive;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;
use hark_api::{ApiError, ErrorKind, TranscribeForm, TranscriptionResult};
use hark_store::{Accepted, Lane, NewJob, NewTranscript, Owner, TranscriptId};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::{App, Role};
use crate::error::Failure;
use crate::extract::Query;
use crate::idempotent;
use crate::jobs;
use crate::limits::Place;
use crate::middleware::Caller;
use crate::options::too_many_at_once;
use crate::probe;
use crate::routes::{
    AnyError, Deleted, IdempotencyHeader, Invalid, Late, Limited, Payment, Reused, TooLarge, Unauthorized, Unavailable,
};
use receive::Received;

pub(crate) use answer::{Wait, accepted, export};
pub(crate) use fields::{Fields, Form, ParsedForm, boolean, put};
pub(crate) use receive::{refuse_announced, store_file};

/// The checkpoint that really ran.
pub(crate) const MODEL: HeaderName = HeaderName::from_static("x-model");

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
            ("X-Model" = String, description = "the checkpoint that ran")), content(
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
    let name = idempotent::key(headers)?;
    admit::admit(app, caller, wait).await?;

    // The slot is held until the job is queued, where the store counts it.
    let owner = caller.owner();
    let place = app.uploads.acquire(owner.clone());
    let at_once = caller.plan().concurrency();
    let limit_reached = |used: i64| too_many_at_once(app, caller, used);
    let live = app.store.jobs().live_count(&owner).await? + place.before as i64;
    // A repeat is no new work: one repeat at a time is allowed while the first request occupies the last slot.
    let (is_repeat, _named) = repeats(app, &owner, name.as_deref()).await?;
    if live >= at_once && !(is_repeat && (place.before as i64) <= at_once) {
        return Err(limit_reached(live));
    }
    if !is_repeat {
        admit::refuse_spent(app, caller).await?;
    }
    let _anonymous = admit::anonymous_place(app, caller).await?;

    let received = receive::receive::<F>(app, caller, headers, body).await?;
    let layout = received.form.layout.clone();
    let new = job(app, caller, received, owner.clone(), name, wait).await?;
    let minutes = new.minutes;
    let accepted = accept(app, caller, new, wait).await.map_err(|error| match error {
        hark_store::Error::Limit { what: hark_store::Limit::ConcurrentJobs, used, .. } => limit_reached(used),
        other => never_fits(&other, minutes).unwrap_or_else(|| Failure::of_store(other, app.clock.now())),
    })?;
    drop(place);
    let (transcript, is_first) = match accepted {
        Accepted::New { transcript, .. } => {
            admit::count_networks(app, &owner, caller, minutes).await;
            (transcript, true)
        }
        Accepted::Repeat { transcript } => (transcript, false),
    };
    Ok(Queued { transcript, is_first, layout })
}

/// The error for a recording that exceeds the limit of a whole period: waiting for the next period would not help.
fn never_fits(error: &hark_store::Error, minutes: i64) -> Option<Failure> {
    let hark_store::Error::Limit { what, limit, .. } = error else { return None };
    let (of_limit, upgrade) = match what {
        hark_store::Limit::AnonymousMinutes => {
            (format!("the {limit} a day that are free without an account: sign up, or send a shorter one"), true)
        }
        hark_store::Limit::MonthlyMinutes => {
            (format!("the {limit} that this key may transcribe in a month: use another key, or raise its limit"), false)
        }
        _ => return None,
    };
    let message = format!("this recording has {minutes} minutes, more than {of_limit}");
    (minutes > *limit).then(|| ApiError::new(ErrorKind::FileTooLarge, message).upgrade(upgrade).into())
}

/// Whether a request with this idempotency key was accepted before or is in progress; the returned guard marks this one as in progress.
async fn repeats(
    app: &App,
    owner: &Owner,
    name: Option<&str>,
) -> Result<(bool, Option<Place<(Owner, String)>>), Failure> {
    let Some(name) = name else { return Ok((false, None)) };
    let named = app.named_uploads.acquire((owner.clone(), name.to_owned()));
    let is_repeat = named.before > 0 || app.store.idempotency().is_used(owner, name).await?;
    Ok((is_repeat, Some(named)))
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
    owner: Owner,
    name: Option<String>,
    wait: bool,
) -> Result<NewJob, Failure> {
    let Received { form, title, recording, fingerprint } = received;
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

/// `Prefer: respond-async` (RFC 7240), alone or among others.
fn prefers_async(headers: &HeaderMap) -> bool {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split([',', ';'])).any(|one| one.trim().eq_ignore_ascii_case("respond-async"))
}
