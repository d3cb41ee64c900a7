//! Questions about a transcript.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use hark_api::{ChatAnswer, ChatRequest};
use hark_store::TranscriptId;

use super::text::check;
use crate::app::App;
use crate::chat::{self, About, Asked};
use crate::error::Failure;
use crate::extract::{Json, Path};
use crate::middleware::Identity;
use crate::routes::{
    AnyError, Contradicted, IdempotencyHeader, Invalid, Limited, Missing, Reused, TimedOut, Unauthorized, Unavailable,
};

/// Ask a transcript
///
/// Answers from what was said, with the segments that the answer rests on; `found` is false and `sources` empty where the transcript does not say it.
/// `session_id` of an answer goes on with its conversation. Costs no credits; counts as one of the day's questions, when it is answered.
///
/// With `"stream": true` or `Accept: text/event-stream` the answer comes as server-sent events: `delta` (`{"text"}`, sentence by sentence), `sources`
/// (`{"sources"}`), then `done` with the whole answer, or `error` with the Error body.
#[utoipa::path(post, path = "/v1/transcripts/{id}/chat", tag = "transcripts", operation_id = "askTranscript",
    params(("id" = i64, Path, description = "the transcript's number"),
        IdempotencyHeader),
    request_body = ChatRequest,
    responses((status = 200, content((ChatAnswer = "application/json"), (String = "text/event-stream; charset=utf-8"))), Invalid, Unauthorized, Missing,
        Contradicted, Reused, Limited, Unavailable, TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn chat(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    headers: HeaderMap,
    Json(request): Json<ChatRequest>,
) -> Result<Response, Failure> {
    chat::check_question(&request.question)?;
    check(&app, &identity, id).await?;
    let (_, text) = app.store.transcripts().text(identity.account(), TranscriptId(id)).await?;
    let asked = Asked { id: TranscriptId(id), segments: text.segments, language: text.language };
    chat::answer(&app, &identity, &headers, About::Transcript(asked), request).await
}
