//! Questions about all transcripts of an account.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use hark_api::{ChatAnswer, ChatRequest};

use crate::app::App;
use crate::chat::{self, About};
use crate::error::Failure;
use crate::extract::Json;
use crate::middleware::Identity;
use crate::routes::{
    AnyError, Contradicted, IdempotencyHeader, Invalid, Limited, Missing, Reused, TimedOut, Unauthorized, Unavailable,
};

/// Ask all transcripts
///
/// The same as asking one transcript, from the passages that search finds in all of the account's; each source names its transcript.
#[utoipa::path(post, path = "/v1/chat", tag = "transcripts", operation_id = "askTranscripts", params(IdempotencyHeader),
    request_body = ChatRequest,
    responses((status = 200, content((ChatAnswer = "application/json"), (String = "text/event-stream; charset=utf-8"))), Invalid, Unauthorized,
        Missing, Contradicted, Reused, Limited, Unavailable, TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn chat(
    State(app): State<App>,
    identity: Identity,
    headers: HeaderMap,
    Json(request): Json<ChatRequest>,
) -> Result<Response, Failure> {
    chat::check_question(&request.question)?;
    chat::answer(&app, &identity, &headers, About::Account, request).await
}
