//! `POST /v1/enhance-audio`: an upload becomes a job that takes the noise out, and the request waits for it.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hark_api::{EnhanceForm, EnhancementAccepted, ErrorKind, FaultKind};
use hark_store::{AcceptedEnhancement, AccountId, Blob, Enhancement, EnhancementId, Lane, NewEnhancement, Status};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::accept::accepted_format;
use crate::app::{App, Role};
use crate::config::Config;
use crate::engine::{EnhanceWork, SoundFormat};
use crate::error::{ENHANCEMENT_ID, Failure};
use crate::extract::Query;
use crate::idempotent::Canonical;
use crate::jobs;
use crate::middleware::{Caller, Identity};
use crate::probe;
use crate::queue::Waiter;
use crate::routes::download::RecordingBody;
use crate::routes::enhancements::{format_of, header_of};
use crate::routes::transcribe::{MODEL, boolean, put};
use crate::routes::upload::{self, Admission, FormFields, Incoming, JobState, prefers_async, receive, used_already};
use crate::routes::{
    AnyError, Deleted, IdempotencyHeader, Invalid, Late, Limited, Payment, Reused, TooLarge, Unacceptable,
    Unauthorized, Unavailable,
};
use crate::wire::wire_status;

/// How long a result is kept that was handed to the connection whole: what the client received of it is not known.
const KEPT_AFTER_SENDING: Duration = Duration::from_secs(600);
/// Decibels of `strength`.
const MAX_STRENGTH: f32 = 100.0;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct EnhanceQuery {
    /// Answer at once with 202, as `Prefer: respond-async` does.
    #[serde(default)]
    r#async: bool,
}

/// Take the noise out of a recording
///
/// Waits for the result and answers with it: 48 kHz, as many channels and as long as the recording, in the format of `Accept` (WAV unless it says otherwise).
/// With `Prefer: respond-async` or `?async=true` it answers 202 at once. 1 credit a minute, rounded up; a failure costs nothing. A result that was sent whole
/// is deleted ten minutes later, unless the request had an `Idempotency-Key`; until then it can be fetched again by its `X-Enhancement-Id`.
#[utoipa::path(post, path = "/v1/enhance-audio", tag = "audio", operation_id = "enhanceAudio", params(EnhanceQuery,
        ("Prefer" = Option<String>, Header, description = "respond-async: answer at once"),
        IdempotencyHeader),
    request_body(content = EnhanceForm, content_type = "multipart/form-data"),
    responses((status = 200, description = "the recording without its noise", headers(
            ("X-Enhancement-Id" = i64, description = "the enhancement, as long as it is kept"),
            ("X-Model" = String, description = "the model that ran")), content(
            (Vec<u8> = "audio/wav"), (Vec<u8> = "audio/flac"), (Vec<u8> = "audio/mpeg"), (Vec<u8> = "audio/ogg"))),
        (status = 202, description = "accepted: it will be enhanced", body = EnhancementAccepted),
        Invalid, Unauthorized, Payment, Unacceptable, Deleted, TooLarge, Reused, Limited, Unavailable, Late, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn enhance(
    State(app): State<App>,
    identity: Identity,
    caller: Caller,
    Query(query): Query<EnhanceQuery>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, body) = request.into_parts();
    let format = accepted_format(&head.headers)?;
    // A process without models leaves that to the worker that claims the job.
    if app.role != Role::Account {
        app.engines.enhance()?.check_format(format)?;
    }
    let is_waiting = !(query.r#async || prefers_async(&head.headers));
    let queued = enqueue(&app, &identity, &caller, &head.headers, body, format, is_waiting).await?;
    if !is_waiting {
        return accepted(&app, identity.account(), queued.id).await;
    }
    Wait::begin(&app, identity.account(), &queued).answer(queued.is_named).await
}

/// The text fields of the form.
#[derive(Debug, Default)]
struct Fields {
    strength: Option<f32>,
    dereverb: Option<bool>,
}

impl FormFields for Fields {
    const TAKES_UPLOADS: bool = true;

    fn longest(name: &str) -> Option<usize> {
        matches!(name, "strength" | "dereverb").then_some(200)
    }

    fn set(&mut self, name: &str, value: String, _: &Config) -> Result<(), Failure> {
        let text = value.trim();
        match name {
            "strength" => put(&mut self.strength, name, strength(text)?),
            "dereverb" => put(&mut self.dereverb, name, boolean(name, text)?),
            _ => Ok(()),
        }
    }
}

impl Fields {
    /// The limit of noise reduction; none where the default was sent.
    fn strength(&self) -> Result<Option<f32>, Failure> {
        if self.dereverb == Some(true) {
            let message = "`dereverb` is not supported: the noise reduction model has no switch for reverberation";
            return Err(Failure::invalid(message));
        }
        Ok(self.strength.filter(|strength| *strength < MAX_STRENGTH))
    }
}

fn strength(text: &str) -> Result<f32, Failure> {
    let number = text.parse().ok().filter(|number| (0.0..=MAX_STRENGTH).contains(number));
    number.ok_or_else(|| Failure::invalid(format!("`strength` is {text:?}: give a number of dB from 0 to 100")))
}

/// What tells a request from others with the same recording.
#[derive(Serialize, Default)]
struct Asked {
    strength: Option<f32>,
    format: SoundFormat,
}

/// A queued enhancement.
struct Queued {
    id: EnhancementId,
    /// Whether this request queued it, and not one that it repeats.
    is_first: bool,
    /// Whether the request may be repeated.
    is_named: bool,
}

/// Receives the form: checks the caller, stores the recording, and queues the job.
async fn enqueue(
    app: &App,
    identity: &Identity,
    caller: &Caller,
    headers: &HeaderMap,
    body: Body,
    format: SoundFormat,
    is_waiting: bool,
) -> Result<Queued, Failure> {
    let admission = Admission::of(app, caller, headers, is_waiting).await?;
    let Incoming { fields, recording, .. } = receive::<Fields>(app, caller, headers, body).await?;
    let asked = Asked { strength: fields.strength()?, format };
    let (recording, hash) = recording.finish(app).await?;
    let canonical = Canonical::new("POST /v1/enhance-audio").with("asked", &asked, &Asked::default())?;
    let fingerprint = canonical.with_hash("file", hash).fingerprint();
    let Some(recording) = recording else {
        let key = fingerprint.named(admission.name.clone().ok_or_else(used_already)?);
        let repeated = app.store.idempotency().enhancement(&admission.owner, &key).await?;
        return Ok(Queued { id: repeated.ok_or_else(used_already)?, is_first: false, is_named: true });
    };
    let seconds = crate::recording::duration(app, caller, &recording.blob).await?;
    let minutes = probe::minutes(seconds);
    let max_storage = app.config.recordings.quota.of(caller.plan());
    let work = EnhanceWork { strength: asked.strength, format, max_storage, budget: hark_media::Budget::default() };
    let payload = serde_json::to_string(&work).map_err(|error| {
        tracing::error!(%error, "request.encode_failed");
        Failure::from(ErrorKind::Internal)
    })?;
    let is_named = admission.name.is_some();
    let new = NewEnhancement {
        account: identity.account(),
        format: format.name().to_owned(),
        payload,
        needs: jobs::ENHANCEMENT_NEEDS.to_vec(),
        blob: recording.claim(),
        seconds,
        minutes,
        lane: Lane::of_recording(seconds, is_waiting),
        key: Some(identity.key()),
        max_live: Some(caller.plan().concurrency()),
        max_queued: Some(i64::try_from(app.config.max_queue).unwrap_or(i64::MAX)),
        max_storage,
        idempotency: admission.name.clone().map(|name| fingerprint.named(name)),
    };
    let accepted = accept(app, new, is_waiting).await;
    let accepted = accepted.map_err(|error| Admission::refused(app, caller, error, minutes))?;
    let (id, is_first) = match accepted {
        AcceptedEnhancement::New { enhancement, .. } => (enhancement, true),
        AcceptedEnhancement::Repeat { enhancement } => (enhancement, false),
    };
    Ok(Queued { id, is_first, is_named })
}

/// Accepts a job in a task of its own: if the client disconnects meanwhile, the job is accepted completely and then abandoned.
async fn accept(app: &App, new: NewEnhancement, is_waiting: bool) -> hark_store::Result<AcceptedEnhancement> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let (app, account) = (app.clone(), new.account);
    tokio::spawn(async move {
        let accepted = app.store.jobs().accept_enhancement(new).await;
        if let Err(Ok(AcceptedEnhancement::New { enhancement, .. })) = sender.send(accepted)
            && is_waiting
        {
            abandon(&app, account, enhancement).await;
        }
    });
    receiver.await.unwrap_or(Err(hark_store::Error::Conflict("the request was interrupted")))
}

/// Deletes an enhancement whose client disconnected and that no other request waits for; nothing is charged.
async fn abandon(app: &App, account: AccountId, id: EnhancementId) {
    match app.store.enhancements().abandon(account, id).await {
        Ok(()) => tracing::info!(enhancement = %id, "job.abandoned"),
        Err(hark_store::Error::NotFound(_)) => {}
        Err(error) => tracing::error!(%error, "job.cancel_failed"),
    }
}

/// The 202 response of an asynchronous request.
async fn accepted(app: &App, account: AccountId, id: EnhancementId) -> Result<Response, Failure> {
    // The client expects the job to run: a repeat that disconnects must not cancel it.
    app.waiting.join(id).settled();
    let found = app.store.enhancements().get(account, id).await?;
    let status_url = format!("/v1/enhancements/{id}");
    let location = HeaderValue::from_str(&status_url).ok();
    let body = EnhancementAccepted { id: id.0, status: wire_status(found.status), status_url };
    let mut response = (StatusCode::ACCEPTED, Json(body)).into_response();
    let headers = response.headers_mut();
    headers.insert(ENHANCEMENT_ID, id.0.into());
    headers.insert(HeaderName::from_static("preference-applied"), HeaderValue::from_static("respond-async"));
    if let Some(location) = location {
        headers.insert(header::LOCATION, location);
    }
    Ok(response)
}

/// A request that waits for its enhancement; it is dropped when the client disconnects.
struct Wait {
    app: App,
    account: AccountId,
    id: EnhancementId,
    waiter: Waiter,
}

impl Wait {
    /// Starts waiting: from here on a disconnected client is noticed.
    fn begin(app: &App, account: AccountId, queued: &Queued) -> Self {
        let id = queued.id;
        let waiter = app.waiting.join(id);
        if queued.is_first {
            let app = app.clone();
            let runtime = tokio::runtime::Handle::current();
            waiter.when_abandoned(move || {
                runtime.spawn(async move { abandon(&app, account, id).await });
            });
        }
        Wait { app: app.clone(), account, id, waiter }
    }

    /// Waits, and sends the result. It is deleted soon after it was sent whole, unless it is kept for repeats.
    async fn answer(self, is_kept: bool) -> Result<Response, Failure> {
        let id = self.id;
        self.send(is_kept).await.map_err(|failure| failure.header(ENHANCEMENT_ID, id.0))
    }

    async fn send(self, is_kept: bool) -> Result<Response, Failure> {
        let Wait { app, account, id, waiter } = self;
        let ended = enhanced(&app, &waiter, account, id).await;
        waiter.settled();
        let (enhancement, blob) = ended?;
        let mut body = RecordingBody::open(&app, &blob, header_of(&enhancement)?, None).await?;
        let length = body.remaining();
        if !is_kept {
            let runtime = tokio::runtime::Handle::current();
            body = body.when_sent(move || {
                runtime.spawn(async move { expire_sent(&app, account, id).await });
            });
        }
        let mut response = body.into_body().into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format_of(&enhancement).media_type()));
        headers.insert(header::CONTENT_LENGTH, length.into());
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        headers.insert(ENHANCEMENT_ID, id.0.into());
        if let Ok(model) = HeaderValue::from_str(&enhancement.model) {
            headers.insert(MODEL, model);
        }
        Ok(response)
    }
}

/// Lets a result that was sent expire soon.
async fn expire_sent(app: &App, account: AccountId, id: EnhancementId) {
    let keep = app.config.enhance.keep();
    if let Err(error) = app.store.enhancements().expire_soon(account, id, keep, KEPT_AFTER_SENDING).await {
        // It is deleted when it is too old.
        tracing::warn!(%error, enhancement = %id, "enhancement.expiry_failed");
    }
}

/// Waits until the enhancement is completed; its failure is the answer's.
async fn enhanced(
    app: &App,
    waiter: &Waiter,
    account: AccountId,
    id: EnhancementId,
) -> Result<(Enhancement, Blob), Failure> {
    let look = || async move {
        let (found, blob) = app.store.enhancements().result(account, id).await?;
        Ok(match found.status {
            Status::Completed | Status::Failed => JobState::Ended((found, blob)),
            Status::Queued => JobState::Queued,
            Status::Processing => JobState::Running,
        })
    };
    let goes_on = "it goes on, ask for its status";
    let (found, blob) = upload::wait(app, waiter, "noise reduction", goes_on, look).await?;
    if let Some(blob) = blob {
        return Ok((found, blob));
    }
    let kind = found.error_kind.map_or(ErrorKind::Internal, FaultKind::error_kind);
    Err(match found.error {
        Some(reason) => Failure::new(kind, reason),
        None => kind.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, &str)]) -> Result<Option<f32>, String> {
        let text = |failure: Failure| failure.error.to_string();
        let mut fields = Fields::default();
        for (name, value) in pairs {
            fields.set(name, (*value).to_owned(), &Config::default()).map_err(text)?;
        }
        fields.strength().map_err(text)
    }

    #[test]
    fn strength_is_a_number_of_decibels_and_without_it_there_is_no_limit() {
        assert_eq!(set(&[]), Ok(None));
        assert_eq!(set(&[("strength", "100")]), Ok(None));
        assert_eq!(set(&[("strength", " 12.5 "), ("dereverb", "false")]), Ok(Some(12.5)));
        for wrong in ["", "-1", "101", "NaN", "inf", "loud"] {
            let error = set(&[("strength", wrong)]).unwrap_err();
            assert!(error.contains("`strength`"), "{error}");
        }
        assert!(set(&[("strength", "1"), ("strength", "1")]).unwrap_err().contains("twice"));
    }

    #[test]
    fn what_the_model_can_not_do_is_refused_by_name() {
        let error = set(&[("dereverb", "true")]).unwrap_err();
        assert!(error.contains("`dereverb`") && error.contains("not supported"), "{error}");
    }
}
