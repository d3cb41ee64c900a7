//! `GET /v1/stream`: live audio over a WebSocket, which comes with the live engine; until then 503.

use axum::response::Response;

use crate::error::Failure;
use crate::routes::text::model_missing;
use crate::routes::{AnyError, Unauthorized, Unavailable};

/// Transcribe live audio over a WebSocket
#[utoipa::path(get, path = "/v1/stream", tag = "speech", operation_id = "stream",
    responses(Unauthorized, Unavailable, AnyError), security((), ("bearer" = [])))]
pub(crate) async fn stream() -> Result<Response, Failure> {
    Err(model_missing("live transcription"))
}
