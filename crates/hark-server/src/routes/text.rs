//! Work on text: summaries, translations, analyses, generated content, embeddings.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use hark_api::{
    AnalyzeRequest, EmbedRequest, Embeddings, GenerateRequest, SummarizeRequest, SummaryStyle, TranslateAnswer,
    TranslateRequest,
};
use hark_text::{Analysis, Generation, Source, Summary, Task};

use crate::app::App;
use crate::embeddings;
use crate::error::Failure;
use crate::extract::Json;
use crate::idempotent::Canonical;
use crate::middleware::{Caller, Identity};
use crate::routes::{
    AnyError, IdempotencyHeader, Invalid, Limited, Payment, Reused, TimedOut, Unauthorized, Unavailable,
};
use crate::text_work::TextCall;
use crate::translation;

fn check_text(text: &str) -> Result<(), Failure> {
    if text.trim().is_empty() {
        return Err(Failure::invalid("`text` is empty: there is nothing to work on"));
    }
    Ok(())
}

/// Summarize a text
///
/// Costs 1 credit, when it is answered. A long text is summarized in parts, which are then merged. A request that accepts
/// `text/event-stream` gets the events `progress` (`done`, `total`), then `result` or `error`.
#[utoipa::path(post, path = "/v1/summarize", tag = "text", operation_id = "summarize", request_body = SummarizeRequest,
    params(IdempotencyHeader),
    responses((status = 200, content((Summary = "application/json"), (String = "text/event-stream; charset=utf-8"))), Invalid, Unauthorized, Payment, Reused, Limited, Unavailable, TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn summarize(
    State(app): State<App>,
    identity: Identity,
    headers: HeaderMap,
    Json(request): Json<SummarizeRequest>,
) -> Result<Response, Failure> {
    check_text(&request.text)?;
    let empty = SummarizeRequest { text: String::new(), style: SummaryStyle::default() };
    let canonical = Canonical::new("POST /v1/summarize").with("request", &request, &empty)?;
    let (task, source) = (Task::Summarize(request.style), Source::from_text(&request.text));
    TextCall { app, identity, headers, canonical, task, source, transcript: None }.run().await
}

/// Translate a text or several
///
/// Costs 1 credit, when it is answered. `GET /v1/languages?for=translation` lists what can be translated.
#[utoipa::path(post, path = "/v1/translate", tag = "text", operation_id = "translate", request_body = TranslateRequest,
    params(IdempotencyHeader),
    responses((status = 200, body = TranslateAnswer), Invalid, Unauthorized, Payment, Reused, Limited, Unavailable, TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn translate(
    State(app): State<App>,
    identity: Identity,
    headers: HeaderMap,
    Json(request): Json<TranslateRequest>,
) -> Result<Response, Failure> {
    let canonical = Canonical::new("POST /v1/translate").with("request", &request, &TranslateRequest::default())?;
    let wanted = request.check().map_err(Failure::invalid)?;
    translation::translate(&app, &identity, &headers, canonical, wanted).await
}

/// Look for something in a text
///
/// Costs 1 credit, when it is answered. Offsets of `pii_redact` count Unicode scalar values.
#[utoipa::path(post, path = "/v1/analyze", tag = "text", operation_id = "analyze", request_body = AnalyzeRequest,
    params(IdempotencyHeader),
    responses((status = 200, content((Analysis = "application/json"), (String = "text/event-stream; charset=utf-8"))), Invalid, Unauthorized, Payment, Reused, Limited, Unavailable, TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn analyze(
    State(app): State<App>,
    identity: Identity,
    headers: HeaderMap,
    Json(request): Json<AnalyzeRequest>,
) -> Result<Response, Failure> {
    check_text(&request.text)?;
    let empty = AnalyzeRequest { text: String::new(), r#type: request.r#type };
    let canonical = Canonical::new("POST /v1/analyze").with("request", &request, &empty)?;
    let canonical = canonical.with("type", &Some(request.r#type), &None)?;
    let (task, source) = (Task::Analyze(request.r#type), Source::from_text(&request.text));
    TextCall { app, identity, headers, canonical, task, source, transcript: None }.run().await
}

/// Write something from a text
///
/// Costs 1 credit, when it is answered.
#[utoipa::path(post, path = "/v1/generate", tag = "text", operation_id = "generate", request_body = GenerateRequest,
    params(IdempotencyHeader),
    responses((status = 200, content((Generation = "application/json"), (String = "text/event-stream; charset=utf-8"))), Invalid, Unauthorized, Payment, Reused, Limited, Unavailable, TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn generate(
    State(app): State<App>,
    identity: Identity,
    headers: HeaderMap,
    Json(request): Json<GenerateRequest>,
) -> Result<Response, Failure> {
    check_text(&request.text)?;
    let empty = GenerateRequest { text: String::new(), r#type: request.r#type };
    let canonical = Canonical::new("POST /v1/generate").with("request", &request, &empty)?;
    let canonical = canonical.with("type", &Some(request.r#type), &None)?;
    let (task, source) = (Task::Generate(request.r#type), Source::from_text(&request.text));
    TextCall { app, identity, headers, canonical, task, source, transcript: None }.run().await
}

/// Texts as vectors of 384 numbers
///
/// Of length 1: the cosine of two is their dot product. At most 2048 texts a call, 64 without an account; of each the first 256 tokens count.
#[utoipa::path(post, path = "/v1/embed", tag = "text", operation_id = "embed", request_body = EmbedRequest,
    responses((status = 200, body = Embeddings), Invalid, Limited, Unavailable, AnyError), security((), ("bearer" = [])))]
pub(crate) async fn embed(
    State(app): State<App>,
    caller: Caller,
    Json(request): Json<EmbedRequest>,
) -> Result<Answer<Embeddings>, Failure> {
    let texts = request.check().map_err(Failure::invalid)?;
    let embedded = embeddings::embed(&app, &caller, texts).await?;
    let dimensions = embedded.dimensions as u32;
    Ok(Answer(Embeddings { embeddings: embedded.vectors, dimensions, model: embedded.model }))
}
