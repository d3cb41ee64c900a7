//! From an accepted job to its answer.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hark_api::{ApiError, ErrorKind, ResponseFormat};
use hark_export::{Format, Options};
use hark_store::{AccountId, Status, StatusView, TranscriptId};
use tokio::time::Instant;

use super::{MODEL, TRANSCRIPT_ID};
use crate::app::{App, Role};
use crate::error::Failure;
use crate::jobs::{CLIENT_LEFT, OUR_FAULT, Waiter};
use crate::middleware::Caller;
use crate::routes::transcripts::wire_status;

/// How the client wants its answer.
pub(crate) struct Wish {
    pub(crate) format: ResponseFormat,
    /// Whether it waits for the transcript.
    pub(crate) wait: bool,
}

/// How often a request that waits looks by itself: news from this process wakes it, news from others don't.
const LOOK: Duration = Duration::from_secs(2);
const LOOK_ELSEWHERE: Duration = Duration::from_millis(500);

/// Answers for a transcript; `is_first` says whether this request made it.
pub(crate) async fn answer(
    app: &App,
    caller: &Caller,
    id: TranscriptId,
    wish: Wish,
    is_first: bool,
) -> Result<Response, Failure> {
    let waiter = app.waiting.join(id);
    let account = caller.account(app);
    if !wish.wait {
        waiter.settled();
        return accepted(app, id).await;
    }
    if is_first {
        let (app, caller) = (app.clone(), caller.clone());
        let runtime = tokio::runtime::Handle::current();
        waiter.when_abandoned(move || {
            runtime.spawn(async move { abandon(&app, &caller, id).await });
        });
    }
    let answered = wait_and_answer(app, &waiter, account, id, wish.format).await;
    waiter.settled();
    if caller.identity().is_none() {
        // Nobody can come back for it.
        match app.store.delete_transcript(account, id).await {
            Ok(_) | Err(hark_store::Error::NotFound(_)) => {}
            Err(error) => tracing::error!(%error, "an anonymous transcript could not be deleted"),
        }
    }
    answered.map_err(|failure| failure.header(TRANSCRIPT_ID, id.0))
}

/// The client went away and nobody else waits: nobody pays for what nobody reads.
pub(crate) async fn abandon(app: &App, caller: &Caller, id: TranscriptId) {
    let account = caller.account(app);
    let done = match caller.identity() {
        Some(_) => app.store.cancel(account, id, CLIENT_LEFT).await.map(drop),
        None => app.store.delete_transcript(account, id).await.map(drop),
    };
    match done {
        Ok(()) => tracing::info!(transcript = %id, "cancelled: the client went away"),
        Err(hark_store::Error::NotFound(_)) => {}
        Err(error) => tracing::error!(%error, "an abandoned transcription could not be cancelled"),
    }
}

/// 202: it will be done.
async fn accepted(app: &App, id: TranscriptId) -> Result<Response, Failure> {
    let view = app.store.transcript_status(id).await?;
    let status_url = format!("/v1/transcripts/{id}/status");
    let location = HeaderValue::from_str(&status_url).ok();
    let body = hark_api::Accepted { id: id.0, status: wire_status(view.status), status_url };
    let mut response = (StatusCode::ACCEPTED, Json(body)).into_response();
    let headers = response.headers_mut();
    headers.insert(TRANSCRIPT_ID, id.0.into());
    headers.insert(HeaderName::from_static("preference-applied"), HeaderValue::from_static("respond-async"));
    if let Some(location) = location {
        headers.insert(header::LOCATION, location);
    }
    Ok(response)
}

async fn wait_and_answer(
    app: &App,
    waiter: &Waiter,
    account: AccountId,
    id: TranscriptId,
    format: ResponseFormat,
) -> Result<Response, Failure> {
    let is_anonymous = account == app.store.anonymous_account();
    let view = wait(app, waiter, id, is_anonymous).await?;
    if view.status == Status::Failed {
        let reason = view.error.unwrap_or_else(|| OUR_FAULT.to_owned());
        let kind = match () {
            () if reason.starts_with(OUR_FAULT) => ErrorKind::Internal,
            () if reason == CLIENT_LEFT => ErrorKind::Conflict,
            () => ErrorKind::UnreadableMedia,
        };
        return Err(Failure::new(kind, reason));
    }
    let (transcript, result) = app.store.transcript_text(account, id).await?;
    let mut response = match format {
        ResponseFormat::Json => Json(&result).into_response(),
        ResponseFormat::Txt => text(&result, Format::Txt)?,
        ResponseFormat::Srt => text(&result, Format::Srt)?,
        ResponseFormat::Vtt => text(&result, Format::Vtt)?,
    };
    response.headers_mut().insert(TRANSCRIPT_ID, id.0.into());
    if let Ok(model) = HeaderValue::from_str(&transcript.model) {
        response.headers_mut().insert(MODEL, model);
    }
    Ok(response)
}

fn text(result: &hark_api::TranscriptionResult, format: Format) -> Result<Response, Failure> {
    let body = hark_export::render(result, format, &Options::default()).map_err(|error| {
        tracing::error!(%error, "a transcript can't be written");
        Failure::from(ErrorKind::Internal)
    })?;
    Ok(([(header::CONTENT_TYPE, format.media_type())], body).into_response())
}

/// Waits until the transcript is completed or failed.
async fn wait(app: &App, waiter: &Waiter, id: TranscriptId, is_anonymous: bool) -> Result<StatusView, Failure> {
    let goes_on = match is_anonymous {
        true => "it was given up, since nobody could find it again without an account",
        false => "it goes on, ask for its status",
    };
    let deadline = Instant::now() + app.config.transcribe_timeout.duration();
    let look = if app.role == Role::Account { LOOK_ELSEWHERE } else { LOOK };
    loop {
        let changed = waiter.changed();
        let view = app.store.transcript_status(id).await?;
        match view.status {
            Status::Completed | Status::Failed => return Ok(view),
            // Nobody here will begin it, and whoever starts next will.
            Status::Queued if app.is_draining() => {
                let message = format!("the server is going down before the transcription began: {goes_on}");
                return Err(ApiError::new(ErrorKind::ShuttingDown, message).retry_after(30).into());
            }
            Status::Queued | Status::Processing => {}
        }
        if Instant::now() >= deadline {
            return Err(Failure::new(
                ErrorKind::Timeout,
                format!("the transcription takes longer than this request may wait: {goes_on}"),
            ));
        }
        let until = deadline.min(Instant::now() + look);
        let _ = tokio::time::timeout_at(until, changed).await;
    }
}
