//! `GET /v1/transcripts/{id}/status`: asks for no credential, tells no words.

use axum::Json;
use axum::extract::State;
use hark_api::TranscriptState;
use hark_store::{Status, TranscriptId};

use super::{wire_language, wire_status};
use crate::app::App;
use crate::error::Failure;
use crate::extract::Path;
use crate::routes::{AnyError, Missing};

/// How far a transcript is
#[utoipa::path(get, path = "/v1/transcripts/{id}/status", tag = "transcripts", operation_id = "transcriptStatus",
    params(("id" = i64, Path, description = "the transcript's number")),
    responses((status = 200, body = TranscriptState), Missing, AnyError))]
pub(crate) async fn status(State(app): State<App>, Path(id): Path<i64>) -> Result<Json<TranscriptState>, Failure> {
    let view = app.store.transcript_status(TranscriptId(id)).await?;
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
