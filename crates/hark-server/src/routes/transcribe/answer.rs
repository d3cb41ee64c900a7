//! From an accepted job to its answer.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hark_api::{ErrorKind, FaultKind, ResponseFormat, TranscriptionResult};
use hark_export::{Format, Options};
use hark_store::{AccountId, Status, StatusView, TranscriptId};

use super::{MODEL, Queued, WARNINGS};
use crate::app::App;
use crate::error::Failure;
use crate::error::TRANSCRIPT_ID;
use crate::jobs::CLIENT_LEFT;
use crate::middleware::Caller;
use crate::queue::Waiter;
use crate::routes::upload::{self, JobState};
use crate::wire::wire_status;

/// A request that waits for its transcript; it is dropped when the client disconnects.
pub(crate) struct Wait {
    app: App,
    caller: Caller,
    id: TranscriptId,
    waiter: Waiter,
}

impl Wait {
    /// Starts waiting: from here on a disconnected client is noticed.
    pub(crate) fn begin<Layout>(app: &App, caller: &Caller, queued: &Queued<Layout>) -> Self {
        let id = queued.transcript;
        let waiter = app.waiting.join(id);
        if queued.is_first {
            let (app, caller) = (app.clone(), caller.clone());
            let runtime = tokio::runtime::Handle::current();
            waiter.when_abandoned(move || {
                runtime.spawn(async move { abandon(&app, &caller, id).await });
            });
        }
        Wait { app: app.clone(), caller: caller.clone(), id, waiter }
    }

    /// The transcript, and the checkpoint that ran.
    pub(crate) async fn end(self) -> Result<(TranscriptionResult, String), Failure> {
        let Wait { app, caller, id, waiter } = self;
        let account = caller.account(&app);
        let ended = transcribed(&app, &waiter, account, id).await;
        waiter.settled();
        if caller.identity().is_none() {
            // Without an account it cannot be retrieved later.
            match app.store.transcripts().delete(account, id).await {
                Ok(_) | Err(hark_store::Error::NotFound(_)) => {}
                Err(error) => tracing::error!(%error, "transcript.delete_failed"),
            }
        }
        ended.map_err(|failure| failure.header(TRANSCRIPT_ID, id.0))
    }

    /// Waits, formats the transcript, and adds its headers.
    pub(crate) async fn answer(
        self,
        lay_out: impl FnOnce(&TranscriptionResult) -> Result<Response, Failure> + Send + 'static,
    ) -> Result<Response, Failure> {
        let id = self.id;
        let (result, model) = self.end().await?;
        let warnings = HeaderValue::from_str(&result.warnings.join("; "));
        // Formatting hours of subtitles blocks: not on a Tokio worker.
        let laid_out = tokio::task::spawn_blocking(move || lay_out(&result)).await.unwrap_or_else(|error| {
            tracing::error!(transcript = %id, %error, "response.layout_failed");
            Err(ErrorKind::Internal.into())
        });
        let mut response = laid_out.map_err(|failure| failure.header(TRANSCRIPT_ID, id.0))?;
        response.headers_mut().insert(TRANSCRIPT_ID, id.0.into());
        if let Ok(model) = HeaderValue::from_str(&model) {
            response.headers_mut().insert(MODEL, model);
        }
        if let Some(warnings) = warnings.ok().filter(|warnings| !warnings.is_empty()) {
            response.headers_mut().insert(WARNINGS, warnings);
        }
        Ok(response)
    }
}

/// Answers with the transcript as the contract lays it out.
pub(crate) async fn answer(wait: Wait, format: ResponseFormat) -> Result<Response, Failure> {
    wait.answer(move |result| match format {
        ResponseFormat::Json => Ok(Json(result).into_response()),
        ResponseFormat::Txt => export(result, Format::Txt),
        ResponseFormat::Srt => export(result, Format::Srt),
        ResponseFormat::Vtt => export(result, Format::Vtt),
    })
    .await
}

/// Cancels a job whose client disconnected and that no other request waits for; nothing is charged.
pub(crate) async fn abandon(app: &App, caller: &Caller, id: TranscriptId) {
    let account = caller.account(app);
    let done = match caller.identity() {
        Some(_) => app.store.transcripts().cancel(account, id, CLIENT_LEFT).await.map(drop),
        None => app.store.transcripts().delete(account, id).await.map(drop),
    };
    match done {
        Ok(()) => tracing::info!(transcript = %id, "job.abandoned"),
        Err(hark_store::Error::NotFound(_)) => {}
        Err(error) => tracing::error!(%error, "job.cancel_failed"),
    }
}

/// The 202 response of an asynchronous request.
pub(crate) async fn accepted(app: &App, id: TranscriptId) -> Result<Response, Failure> {
    // The client expects the job to run: a repeat that disconnects must not cancel it.
    app.waiting.join(id).settled();
    let view = app.store.transcripts().status(id).await?;
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

async fn transcribed(
    app: &App,
    waiter: &Waiter,
    account: AccountId,
    id: TranscriptId,
) -> Result<(TranscriptionResult, String), Failure> {
    let is_anonymous = account == app.store.anonymous_account();
    let view = wait(app, waiter, id, is_anonymous).await?;
    if view.status == Status::Failed {
        let kind = view.error_kind.map_or(ErrorKind::Internal, FaultKind::error_kind);
        return Err(match view.error {
            Some(reason) => Failure::new(kind, reason),
            None => kind.into(),
        });
    }
    let (transcript, result) = app.store.transcripts().text(account, id).await?;
    Ok((result, transcript.model))
}

/// A transcript as a file of text.
pub(crate) fn export(result: &TranscriptionResult, format: Format) -> Result<Response, Failure> {
    let body = hark_export::render(result, format, &Options::default()).map_err(|error| {
        tracing::error!(%error, "transcript.encode_failed");
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
    let look = || async move {
        let view = app.store.transcripts().status(id).await?;
        Ok(match view.status {
            Status::Completed | Status::Failed => JobState::Ended(view),
            Status::Queued => JobState::Queued,
            Status::Processing => JobState::Running,
        })
    };
    upload::wait(app, waiter, "transcription", goes_on, look).await
}
