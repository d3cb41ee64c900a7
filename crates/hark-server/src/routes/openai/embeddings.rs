//! `POST /v1/embeddings`. There is no model for it yet: a valid request is answered with 503.

use axum::response::Response;
use hark_api::{EmbedRequest, OpenAiEmbeddingsRequest};

use super::{AnyError, Invalid, Unauthorized, Unavailable};
use crate::error::Failure;
use crate::extract::Json;
use crate::routes::text::model_missing;

/// Texts as vectors, as OpenAI's clients ask for them
#[utoipa::path(post, path = "/v1/embeddings", tag = "openai", operation_id = "createEmbeddings",
    request_body = OpenAiEmbeddingsRequest, responses(Invalid, Unauthorized, Unavailable, AnyError),
    security((), ("bearer" = [])))]
pub(crate) async fn create(Json(request): Json<OpenAiEmbeddingsRequest>) -> Result<Response, Failure> {
    let texts = EmbedRequest { text: Some(request.input), texts: None };
    texts.check().map_err(|_| Failure::invalid("`input` is empty: there is no text to embed"))?;
    Err(model_missing("embeddings"))
}
