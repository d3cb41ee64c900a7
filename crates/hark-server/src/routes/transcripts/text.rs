//! Processing of a transcript's text. There are no language models yet: a valid request is answered
//! with 503.

use axum::extract::State;
use axum::response::Response;
use hark_api::{
    ChatAnswer, ChatRequest, ErrorKind, SummarizeTranscriptRequest, TranscriptAnalyzeRequest, TranscriptGenerateRequest,
};
use hark_store::{Status, TranscriptId};

use crate::app::App;
use crate::error::Failure;
use crate::extract::{Json, OptionalJson, Path};
use crate::middleware::Identity;
use crate::routes::text::model_missing;
use crate::routes::{AnyError, Invalid, Limited, Missing, Payment, Unauthorized, Unavailable};

/// Refuses transcripts that are not there, not completed or empty.
async fn check(app: &App, identity: &Identity, id: i64) -> Result<(), Failure> {
    let transcript = app.store.transcripts().get(identity.account(), TranscriptId(id)).await?;
    if transcript.status != Status::Completed {
        return Err(ErrorKind::NotReady.into());
    }
    if transcript.word_count == 0 {
        return Err(Failure::new(ErrorKind::NotReady, "the transcript is empty"));
    }
    Ok(())
}

/// Summarize a transcript
///
/// Costs 1 credit.
#[utoipa::path(post, path = "/v1/transcripts/{id}/summarize", tag = "transcripts", operation_id = "summarizeTranscript",
    params(("id" = i64, Path, description = "the transcript's number")), request_body = Option<SummarizeTranscriptRequest>,
    responses(Invalid, Unauthorized, Payment, Missing, Unavailable, AnyError), security(("bearer" = [])))]
pub(crate) async fn summarize(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    OptionalJson(_): OptionalJson<SummarizeTranscriptRequest>,
) -> Result<Response, Failure> {
    check(&app, &identity, id).await?;
    Err(model_missing("summaries"))
}

/// Look for something in a transcript
///
/// Costs 1 credit.
#[utoipa::path(post, path = "/v1/transcripts/{id}/analyze", tag = "transcripts", operation_id = "analyzeTranscript",
    params(("id" = i64, Path, description = "the transcript's number")), request_body = TranscriptAnalyzeRequest,
    responses(Invalid, Unauthorized, Payment, Missing, Unavailable, AnyError), security(("bearer" = [])))]
pub(crate) async fn analyze(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    Json(_): Json<TranscriptAnalyzeRequest>,
) -> Result<Response, Failure> {
    check(&app, &identity, id).await?;
    Err(model_missing("analyses"))
}

/// Write something from a transcript
///
/// Costs 1 credit.
#[utoipa::path(post, path = "/v1/transcripts/{id}/generate", tag = "transcripts", operation_id = "generateFromTranscript",
    params(("id" = i64, Path, description = "the transcript's number")), request_body = TranscriptGenerateRequest,
    responses(Invalid, Unauthorized, Payment, Missing, Unavailable, AnyError), security(("bearer" = [])))]
pub(crate) async fn generate(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    Json(_): Json<TranscriptGenerateRequest>,
) -> Result<Response, Failure> {
    check(&app, &identity, id).await?;
    Err(model_missing("writing from texts"))
}

/// Ask a transcript
#[utoipa::path(post, path = "/v1/transcripts/{id}/chat", tag = "transcripts", operation_id = "askTranscript",
    params(("id" = i64, Path, description = "the transcript's number")), request_body = ChatRequest,
    responses((status = 200, body = ChatAnswer), Invalid, Unauthorized, Missing, Limited, Unavailable, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn chat(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    Json(request): Json<ChatRequest>,
) -> Result<Response, Failure> {
    if request.question.trim().is_empty() {
        return Err(Failure::invalid("`question` is empty: ask something"));
    }
    check(&app, &identity, id).await?;
    Err(model_missing("questions"))
}
