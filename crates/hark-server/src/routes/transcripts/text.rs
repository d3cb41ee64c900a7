//! Work on a transcript's text: summaries, analyses and generated content, stored with the transcript until its text changes.
//! Questions have no retrieval yet and are answered with 503.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use hark_api::{
    ChatAnswer, ChatRequest, ErrorKind, SummarizeTranscriptRequest, TranscriptAnalyzeRequest, TranscriptGenerateRequest,
};
use hark_store::{Status, TranscriptId};
use hark_text::{Analysis, Generation, Source, Summary, TextError};
use serde::Serialize;
use serde_json::Value;

use crate::app::App;
use crate::error::Failure;
use crate::extract::{Json, OptionalJson, Path};
use crate::idempotent::Canonical;
use crate::middleware::Identity;
use crate::routes::text::{analysis, generation, model_missing, style};
use crate::routes::{AnyError, Invalid, Limited, Missing, Payment, Reused, TimedOut, Unauthorized, Unavailable};
use crate::text_work::{Done, StoreAs, TextCall, context};

/// The summary of a transcript.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct TranscriptSummaryAnswer {
    #[serde(flatten)]
    summary: Summary,
    /// Whether it was written before; then it cost nothing.
    cached: bool,
}

/// An analysis of a transcript.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct TranscriptAnalysis {
    #[serde(flatten)]
    analysis: Analysis,
    /// Whether it was made before; then it cost nothing.
    cached: bool,
}

/// Something written from a transcript.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(crate) struct TranscriptGeneration {
    #[serde(flatten)]
    generation: Generation,
    /// Whether it was written before; then it cost nothing.
    cached: bool,
}

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

/// The stored result of this kind; one that can't be read any more is made again.
async fn stored(app: &App, identity: &Identity, id: i64, kind: &str) -> Result<Option<Response>, Failure> {
    let body = app.store.transcripts().derived(identity.account(), TranscriptId(id), kind).await?;
    let answer = body.and_then(|body| serde_json::from_slice::<serde_json::Map<String, Value>>(&body).ok());
    Ok(answer.map(|mut answer| {
        answer.insert("cached".to_owned(), Value::Bool(true));
        Answer(answer).into_response()
    }))
}

/// The text of a transcript.
async fn source(app: &App, identity: &Identity, id: i64) -> Result<Source, Failure> {
    let (_, text) = app.store.transcripts().text(identity.account(), TranscriptId(id)).await?;
    Ok(Source::from_transcript(&text))
}

/// The name of a style or type on the wire.
fn name_of(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Summarize a transcript
///
/// Costs 1 credit, when it is written; one of the same style that was written before costs nothing.
#[utoipa::path(post, path = "/v1/transcripts/{id}/summarize", tag = "transcripts", operation_id = "summarizeTranscript",
    params(("id" = i64, Path, description = "the transcript's number"),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$",
            description = "makes a repeat safe: the same answer, charged once")),
    request_body = Option<SummarizeTranscriptRequest>,
    responses((status = 200, body = TranscriptSummaryAnswer), Invalid, Unauthorized, Payment, Missing, Reused, Limited, Unavailable,
        TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn summarize(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    headers: HeaderMap,
    OptionalJson(request): OptionalJson<SummarizeTranscriptRequest>,
) -> Result<Response, Failure> {
    check(&app, &identity, id).await?;
    let kind = format!("summary:{}", name_of(&request.style));
    if !request.force
        && let Some(answer) = stored(&app, &identity, id, &kind).await?
    {
        return Ok(answer);
    }
    let source = source(&app, &identity, id).await?;
    let canonical = Canonical::new("POST /v1/transcripts/{id}/summarize").with("id", &id, &0)?.with(
        "request",
        &request,
        &SummarizeTranscriptRequest::default(),
    )?;
    let call = TextCall { app: &app, identity: &identity, headers: &headers, canonical, note: "summarize" };
    let store_as = StoreAs { transcript: TranscriptId(id), kind: &kind, is_summary: true };
    call.run(Some(store_as), async |model| {
        let summary = hark_text::summarize(&context(&*model, &identity), &source, style(request.style)).await?;
        let text = summary.summary.clone();
        Ok::<_, TextError>(Done { answer: TranscriptSummaryAnswer { summary, cached: false }, summary: Some(text) })
    })
    .await
}

/// Look for something in a transcript
///
/// Costs 1 credit, when it is made; one of the same type that was made before costs nothing.
#[utoipa::path(post, path = "/v1/transcripts/{id}/analyze", tag = "transcripts", operation_id = "analyzeTranscript",
    params(("id" = i64, Path, description = "the transcript's number"),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$",
            description = "makes a repeat safe: the same answer, charged once")),
    request_body = TranscriptAnalyzeRequest,
    responses((status = 200, body = TranscriptAnalysis), Invalid, Unauthorized, Payment, Missing, Reused, Limited, Unavailable,
        TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn analyze(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    headers: HeaderMap,
    Json(request): Json<TranscriptAnalyzeRequest>,
) -> Result<Response, Failure> {
    check(&app, &identity, id).await?;
    let kind = format!("analysis:{}", name_of(&request.r#type));
    if !request.force
        && let Some(answer) = stored(&app, &identity, id, &kind).await?
    {
        return Ok(answer);
    }
    let source = source(&app, &identity, id).await?;
    let canonical = Canonical::new("POST /v1/transcripts/{id}/analyze")
        .with("id", &id, &0)?
        .with("type", &Some(request.r#type), &None)?
        .with("force", &request.force, &false)?;
    let call = TextCall { app: &app, identity: &identity, headers: &headers, canonical, note: "analyze" };
    let store_as = StoreAs { transcript: TranscriptId(id), kind: &kind, is_summary: false };
    call.run(Some(store_as), async |model| {
        let made = hark_text::analyze(&context(&*model, &identity), &source, analysis(request.r#type)).await?;
        Ok::<_, TextError>(Done { answer: TranscriptAnalysis { analysis: made, cached: false }, summary: None })
    })
    .await
}

/// Write something from a transcript
///
/// Costs 1 credit, when it is written; one of the same type that was written before costs nothing.
#[utoipa::path(post, path = "/v1/transcripts/{id}/generate", tag = "transcripts", operation_id = "generateFromTranscript",
    params(("id" = i64, Path, description = "the transcript's number"),
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$",
            description = "makes a repeat safe: the same answer, charged once")),
    request_body = TranscriptGenerateRequest,
    responses((status = 200, body = TranscriptGeneration), Invalid, Unauthorized, Payment, Missing, Reused, Limited, Unavailable,
        TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn generate(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    headers: HeaderMap,
    Json(request): Json<TranscriptGenerateRequest>,
) -> Result<Response, Failure> {
    check(&app, &identity, id).await?;
    let kind = format!("generation:{}", name_of(&request.r#type));
    if !request.force
        && let Some(answer) = stored(&app, &identity, id, &kind).await?
    {
        return Ok(answer);
    }
    let source = source(&app, &identity, id).await?;
    let canonical = Canonical::new("POST /v1/transcripts/{id}/generate")
        .with("id", &id, &0)?
        .with("type", &Some(request.r#type), &None)?
        .with("force", &request.force, &false)?;
    let call = TextCall { app: &app, identity: &identity, headers: &headers, canonical, note: "generate" };
    let store_as = StoreAs { transcript: TranscriptId(id), kind: &kind, is_summary: false };
    call.run(Some(store_as), async |model| {
        let made = hark_text::generate(&context(&*model, &identity), &source, generation(request.r#type)).await?;
        Ok::<_, TextError>(Done { answer: TranscriptGeneration { generation: made, cached: false }, summary: None })
    })
    .await
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
