//! Work on text. Embeddings are real; the language models come later: until then a request that makes sense is answered with 503.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::Response;
use hark_api::{
    AnalyzeRequest, EmbedRequest, Embeddings, ErrorKind, GenerateRequest, SummarizeRequest, TranslateRequest,
};

use crate::app::App;
use crate::embeddings;
use crate::error::Failure;
use crate::extract::Json;
use crate::middleware::{Caller, Identity};
use crate::routes::{AnyError, Invalid, Limited, Payment, Unauthorized, Unavailable};

/// The answer of an endpoint whose model this server does not have yet.
pub(crate) fn model_missing(what: &str) -> Failure {
    Failure::new(ErrorKind::ModelMissing, format!("this server has no model for {what} yet"))
}

fn check_text(text: &str) -> Result<(), Failure> {
    if text.trim().is_empty() {
        return Err(Failure::invalid("`text` is empty: there is nothing to work on"));
    }
    Ok(())
}

/// Summarize a text
///
/// Costs 1 credit.
#[utoipa::path(post, path = "/v1/summarize", tag = "text", operation_id = "summarize", request_body = SummarizeRequest,
    responses(Invalid, Unauthorized, Payment, Unavailable, AnyError), security(("bearer" = [])))]
pub(crate) async fn summarize(_: Identity, Json(request): Json<SummarizeRequest>) -> Result<Response, Failure> {
    check_text(&request.text)?;
    Err(model_missing("summaries"))
}

/// Translate a text or several
///
/// Costs 1 credit.
#[utoipa::path(post, path = "/v1/translate", tag = "text", operation_id = "translate", request_body = TranslateRequest,
    responses(Invalid, Unauthorized, Payment, Unavailable, AnyError), security(("bearer" = [])))]
pub(crate) async fn translate(_: Identity, Json(request): Json<TranslateRequest>) -> Result<Response, Failure> {
    request.check().map_err(Failure::invalid)?;
    Err(model_missing("translations"))
}

/// Look for something in a text
///
/// Costs 1 credit.
#[utoipa::path(post, path = "/v1/analyze", tag = "text", operation_id = "analyze", request_body = AnalyzeRequest,
    responses(Invalid, Unauthorized, Payment, Unavailable, AnyError), security(("bearer" = [])))]
pub(crate) async fn analyze(_: Identity, Json(request): Json<AnalyzeRequest>) -> Result<Response, Failure> {
    check_text(&request.text)?;
    Err(model_missing("analyses"))
}

/// Write something from a text
///
/// Costs 1 credit.
#[utoipa::path(post, path = "/v1/generate", tag = "text", operation_id = "generate", request_body = GenerateRequest,
    responses(Invalid, Unauthorized, Payment, Unavailable, AnyError), security(("bearer" = [])))]
pub(crate) async fn generate(_: Identity, Json(request): Json<GenerateRequest>) -> Result<Response, Failure> {
    check_text(&request.text)?;
    Err(model_missing("writing from texts"))
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
