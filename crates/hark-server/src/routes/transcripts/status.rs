//! `GET /v1/transcripts/{id}/status`: needs no credential and reveals no text.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use hark_api::{ApiError, ErrorKind, TranscriptState};
use hark_store::{Status, TranscriptId};

use crate::app::App;
use crate::error::Failure;
use crate::extract::Path;
use crate::limits::client_address;
use crate::routes::{AnyError, Limited, Missing};
use crate::sign::guard;
use crate::wire::{wire_language, wire_status};

/// A caller within its rate limit by address, since ids could be guessed.
pub(crate) struct MayAsk;

impl FromRequestParts<App> for MayAsk {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let address = client_address(guard::peer(&parts.extensions), &parts.headers, &app.config.trusted_proxies);
        let rate = app.status_rates.check_address(address, app.config.limits.status_rate, app.clock.now());
        if rate.passes {
            return Ok(MayAsk);
        }
        let message = "too many requests for the status of transcripts from this address: wait and try again";
        Err(ApiError::new(ErrorKind::RateLimited, message).retry_after(rate.retry_after).into())
    }
}

/// How far a transcript is
#[utoipa::path(get, path = "/v1/transcripts/{id}/status", tag = "transcripts", operation_id = "transcriptStatus",
    params(("id" = i64, Path, description = "the transcript's number")),
    responses((status = 200, body = TranscriptState), Missing, Limited, AnyError))]
pub(crate) async fn status(
    State(app): State<App>,
    _: MayAsk,
    Path(id): Path<i64>,
) -> Result<Json<TranscriptState>, Failure> {
    let view = app.store.transcripts().status(TranscriptId(id)).await?;
    let completed = view.status == Status::Completed;
    Ok(Json(TranscriptState {
        status: wire_status(view.status),
        progress: view.progress.clamp(0, 100) as u8,
        queue_position: view.queue_position.and_then(|position| u64::try_from(position).ok()),
        duration: completed.then_some(view.duration_seconds),
        word_count: completed.then_some(view.word_count),
        language: completed.then(|| wire_language(view.language)),
        error: view.error.filter(|_| view.status == Status::Failed),
    }))
}
