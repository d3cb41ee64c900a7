//! Errors as OpenAI's clients read them, on OpenAI's paths only.
//!
//! With this API's Error body, the official Python client's message has only the status, and both clients lack `code`, `type`
//! and `param`, which programs use. And they retry 409, 429 and 5xx by default, which
//! would transcribe and charge twice.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use hark_api::{ApiError, ErrorKind, OpenAiError, OpenAiErrorDetail};

use super::{Answered, TRANSCRIPT_ID};

/// The header that overrides the retry rules of the official clients.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Whether a path is one of OpenAI's.
pub(crate) fn owns(path: &str) -> bool {
    path.starts_with("/v1/audio/")
        || path == "/v1/chat/completions"
        || path == "/v1/embeddings"
        || path == "/v1/realtime"
        || path.starts_with("/v1/models/")
}

/// Replaces the body of an error by OpenAI's; status and headers stay.
pub(crate) fn reshape(mut response: Response) -> Response {
    let Some(Answered(error)) = response.extensions_mut().remove::<Answered>() else { return response };
    let (mut parts, _) = response.into_parts();
    // They describe the replaced body.
    for name in [header::CONTENT_LENGTH, header::CONTENT_TYPE, header::CONTENT_ENCODING] {
        parts.headers.remove(name);
    }
    let retry = is_worth_another_try(error.kind) && !parts.headers.contains_key(TRANSCRIPT_ID);
    parts.headers.insert(SHOULD_RETRY, HeaderValue::from_static(if retry { "true" } else { "false" }));
    let mut reshaped = Json(body(&error)).into_response();
    *reshaped.status_mut() = parts.status;
    reshaped.headers_mut().extend(parts.headers);
    reshaped
}

/// Whether the same request may succeed soon. One that names a transcript never is: its recording is in the queue.
fn is_worth_another_try(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::RequestTimeout
            | ErrorKind::RateLimited
            | ErrorKind::TooManyAtOnce
            | ErrorKind::QueueFull
            | ErrorKind::Unavailable
            | ErrorKind::ShuttingDown
    )
}

/// The error in OpenAI's format.
pub(crate) fn body(error: &ApiError) -> OpenAiError {
    let (family, code) = family_and_code(error.kind);
    // A message about a field begins with its name in backticks.
    let param = error.message.strip_prefix('`').and_then(|rest| rest.split_once('`')).map(|(name, _)| name.to_owned());
    OpenAiError {
        error: OpenAiErrorDetail {
            message: error.message.to_string(),
            r#type: family.to_owned(),
            param: match error.kind {
                ErrorKind::UnknownModel | ErrorKind::ModelNotFound => Some("model".to_owned()),
                _ => param,
            },
            code: Some(code.to_owned()),
        },
    }
}

fn family_and_code(kind: ErrorKind) -> (&'static str, &'static str) {
    const INVALID: &str = "invalid_request_error";
    match kind {
        ErrorKind::InvalidInput => (INVALID, "invalid_value"),
        ErrorKind::UnknownModel | ErrorKind::ModelNotFound => (INVALID, "model_not_found"),
        ErrorKind::ContextLength => (INVALID, "context_length_exceeded"),
        ErrorKind::UnreadableMedia => (INVALID, "invalid_file"),
        ErrorKind::NotReady | ErrorKind::Conflict | ErrorKind::Changed => (INVALID, "conflict"),
        ErrorKind::Unauthorized => (INVALID, "invalid_api_key"),
        ErrorKind::InsufficientCredits => ("insufficient_quota", "insufficient_quota"),
        ErrorKind::StorageFull => ("insufficient_quota", "storage_full"),
        ErrorKind::PlanNeeded => ("insufficient_quota", "plan_needed"),
        ErrorKind::Forbidden => (INVALID, "forbidden"),
        ErrorKind::NotFound => (INVALID, "not_found"),
        ErrorKind::MethodNotAllowed => (INVALID, "method_not_allowed"),
        ErrorKind::NotAcceptable => (INVALID, "not_acceptable"),
        ErrorKind::RequestTimeout => (INVALID, "request_timeout"),
        ErrorKind::Gone => (INVALID, "gone"),
        ErrorKind::FileTooLarge | ErrorKind::BodyTooLarge => (INVALID, "file_too_large"),
        ErrorKind::UnsupportedMediaType => (INVALID, "unsupported_media_type"),
        ErrorKind::RangeNotSatisfiable => (INVALID, "range_not_satisfiable"),
        ErrorKind::KeyReused => (INVALID, "idempotency_key_reused"),
        ErrorKind::RateLimited | ErrorKind::TooManyAtOnce => ("rate_limit_error", "rate_limit_exceeded"),
        ErrorKind::MonthlyLimit
        | ErrorKind::SpendingLimit
        | ErrorKind::AnonymousLimit
        | ErrorKind::ChatLimit
        | ErrorKind::SpeechLimit => ("insufficient_quota", "insufficient_quota"),
        ErrorKind::Internal => ("server_error", "server_error"),
        ErrorKind::ModelMissing => ("server_error", "model_not_installed"),
        ErrorKind::QueueFull | ErrorKind::Unavailable | ErrorKind::ShuttingDown => ("server_error", "overloaded"),
        ErrorKind::Timeout => ("server_error", "timeout"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Failure;

    #[test]
    fn a_mistake_in_a_field_names_the_field() {
        let detail = body(&ApiError::new(ErrorKind::InvalidInput, "`language` is \"xx\": give a code")).error;
        assert_eq!((detail.param.as_deref(), detail.r#type.as_str()), (Some("language"), "invalid_request_error"));
        let detail = body(&ApiError::from(ErrorKind::Internal)).error;
        assert_eq!((detail.param, detail.code.as_deref()), (None, Some("server_error")));
    }

    #[test]
    fn a_client_repeats_only_what_may_succeed_and_never_what_has_a_transcript() {
        let retries = |failure: Failure| {
            let reshaped = reshape(failure.into_response());
            reshaped.headers()[SHOULD_RETRY] == "true"
        };
        assert!(retries(ErrorKind::QueueFull.into()));
        assert!(retries(ErrorKind::RateLimited.into()));
        assert!(!retries(ErrorKind::MonthlyLimit.into()));
        assert!(!retries(ErrorKind::ModelMissing.into()));
        assert!(!retries(ErrorKind::Timeout.into()));
        assert!(!retries(Failure::from(ErrorKind::ShuttingDown).header(TRANSCRIPT_ID, 7)));
    }

    #[test]
    fn only_openais_paths_have_openais_errors() {
        for path in [
            "/v1/audio/transcriptions",
            "/v1/audio/speech",
            "/v1/chat/completions",
            "/v1/embeddings",
            "/v1/models/whisper-1",
        ] {
            assert!(owns(path), "{path}");
        }
        for path in ["/v1/transcribe", "/v1/chat", "/v1/models", "/v1/embed", "/v1/audio", "/health"] {
            assert!(!owns(path), "{path}");
        }
    }
}
