//! Extractors of handlers: JSON bodies, queries and paths, with the Error body for every rejection.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use hark_api::ErrorKind;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::error::Failure;

/// The maximum size of a JSON body.
const MAX_JSON: usize = 1 << 20;

/// A JSON body.
pub(crate) struct Json<T>(pub(crate) T);

/// An optional JSON body.
pub(crate) struct OptionalJson<T>(pub(crate) T);

/// The query string.
pub(crate) struct Query<T>(pub(crate) T);

/// A path parameter; an invalid one is answered with 404.
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let idle = app.config.idle_timeout.duration();
        if !is_json(request.headers()) {
            if is_missing(request.into_body(), idle).await? {
                return Err(Failure::invalid("the body is missing: this path takes JSON"));
            }
            return Err(Failure::new(
                ErrorKind::UnsupportedMediaType,
                "this path takes JSON: send it with Content-Type: application/json",
            ));
        }
        let body = collect(request.into_body(), idle).await?;
        if body.is_empty() {
            return Err(Failure::invalid("the body is missing: this path takes JSON"));
        }
        object(&body)?;
        parse(&body).map(Json)
    }
}

impl<T: DeserializeOwned + Default> FromRequest<App> for OptionalJson<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Self, Failure> {
        let is_json = is_json(request.headers());
        let body = collect(request.into_body(), app.config.idle_timeout.duration()).await?;
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(OptionalJson(T::default()));
        }
        if !is_json {
            return Err(Failure::new(
                ErrorKind::UnsupportedMediaType,
                "this path takes JSON or nothing: send it with Content-Type: application/json",
            ));
        }
        // `null` counts as no body.
        if body.trim_ascii() == b"null" {
            return Ok(OptionalJson(T::default()));
        }
        object(&body)?;
        parse(&body).map(OptionalJson)
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        if parts.uri.query().is_some_and(|query| query.contains("%00")) {
            return Err(Failure::invalid("the query contains the character U+0000 (NUL), which no parameter takes"));
        }
        match axum::extract::Query::<T>::try_from_uri(&parts.uri) {
            Ok(query) => Ok(Query(query.0)),
            Err(rejection) => Err(Failure::invalid(format!("the query is not valid: {}", innermost(&rejection)))),
        }
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        if parts.uri.path().contains("%00") {
            return Err(ErrorKind::NotFound.into());
        }
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(path) => Ok(Path(path.0)),
            Err(_) => Err(ErrorKind::NotFound.into()),
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    let essence = value.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Whether a request came without a body; reads no further than its first bytes.
pub(crate) async fn is_missing(mut body: Body, idle: Duration) -> Result<bool, Failure> {
    loop {
        let frame =
            tokio::time::timeout(idle, body.frame()).await.map_err(|_| Failure::from(ErrorKind::RequestTimeout))?;
        match frame {
            None => return Ok(true),
            Some(Ok(frame)) if frame.data_ref().is_none_or(|data| data.is_empty()) => {}
            Some(_) => return Ok(false),
        }
    }
}

/// Reads a small body with an idle timeout.
async fn collect(mut body: Body, idle: Duration) -> Result<Bytes, Failure> {
    let too_large = || Failure::new(ErrorKind::BodyTooLarge, "the body is too large: JSON may have 1 MB");
    let mut whole = BytesMut::new();
    loop {
        let frame =
            tokio::time::timeout(idle, body.frame()).await.map_err(|_| Failure::from(ErrorKind::RequestTimeout))?;
        let Some(frame) = frame else { return Ok(whole.freeze()) };
        let frame = frame.map_err(|error| Failure::of_body(&error, Failure::invalid("the body ended early")))?;
        if let Ok(data) = frame.into_data() {
            if whole.len() + data.len() > MAX_JSON {
                return Err(too_large());
            }
            whole.extend_from_slice(&data);
        }
    }
}

/// Rejects what is no object; `serde` would accept an array as the fields in order.
fn object(body: &[u8]) -> Result<(), Failure> {
    match body.trim_ascii_start().first() {
        Some(b'[') => Err(Failure::invalid("the body is not what this path takes: a list, expected an object")),
        _ => Ok(()),
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    if has_nul(body) {
        return Err(Failure::invalid("the body contains the character U+0000 (NUL), which no text may hold"));
    }
    serde_json::from_slice(body).map_err(|error| {
        let what = if error.is_data() { "the body is not what this path takes" } else { "the body is not JSON" };
        Failure::invalid(format!("{what}: {error}"))
    })
}

/// Whether a text in this JSON holds U+0000. PostgreSQL can't store it, and it ends names and subtitles early elsewhere. JSON can only write it as an escape.
pub(crate) fn has_nul(json: &[u8]) -> bool {
    let mut rest = json;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        if rest[at + 1..].starts_with(b"u0000") {
            return true;
        }
        // The next character belongs to this escape, even if it is another backslash.
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    false
}

/// The cause that names the parameter.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_is_found_in_every_place_of_a_body_and_only_there() {
        for body in [r#"{"a":"\u0000"}"#, r#"{"\u0000":1}"#, r#"{"a":"\\\u0000"}"#, r#"["x\n\u0000"]"#] {
            assert!(has_nul(body.as_bytes()), "{body}");
        }
        for body in [r#"{"a":"\\u0000"}"#, r#"{"a":"u0000"}"#, r#"{"a":"\u0001"}"#, "{}", "\\", ""] {
            assert!(!has_nul(body.as_bytes()), "{body}");
        }
    }
}
