//! `GET /v1/shared/{token}`: a transcript that its owner shares.

use axum::Json;
use axum::extract::State;
use hark_api::{DateTime, SharedTranscript};

use crate::app::App;
use crate::error::Failure;
use crate::extract::Path;
use crate::routes::{AnyError, Missing};
use crate::wire::wire_language;

/// A shared transcript
#[utoipa::path(get, path = "/v1/shared/{token}", tag = "transcripts", operation_id = "showShared",
    params(("token" = String, Path, description = "the token that its owner gave away")),
    responses((status = 200, body = SharedTranscript), Missing, AnyError))]
pub(crate) async fn show(State(app): State<App>, Path(token): Path<String>) -> Result<Json<SharedTranscript>, Failure> {
    let (transcript, result) = app.store.transcripts().shared(&token).await?;
    Ok(Json(SharedTranscript {
        title: transcript.title,
        language: wire_language(transcript.language),
        duration_seconds: transcript.duration_seconds,
        word_count: transcript.word_count,
        created_at: DateTime(transcript.created_at),
        text: result.text,
        segments: result.segments,
    }))
}
