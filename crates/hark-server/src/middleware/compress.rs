//! Compression of responses.

use axum::http::{HeaderMap, Response, header};
use hyper::body::Body;
use tower_http::compression::predicate::{Predicate, SizeAbove};
use tower_http::compression::{CompressionLayer, CompressionLevel};

/// Smaller responses are not compressed, in bytes.
const SMALL: u64 = 512;

/// Compresses JSON and text with gzip or zstd, by `Accept-Encoding`.
pub(crate) fn compress() -> CompressionLayer<impl Predicate> {
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(SizeAbove::new(SMALL).and(IsText))
}

#[derive(Debug, Clone, Copy)]
struct IsText;

impl Predicate for IsText {
    fn should_compress<B: Body>(&self, response: &Response<B>) -> bool {
        is_text(response.headers()) && !holds_secret(response.headers()) && !is_tagged_file(response.headers())
    }
}

/// Audio, images and documents are already compressed; events must arrive one by one.
fn is_text(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    let essence = kind.split(';').next().unwrap_or("").trim();
    match essence {
        "text/event-stream" => false,
        "application/json" | "application/x-subrip" | "application/javascript" | "image/svg+xml" => true,
        other => other.starts_with("text/"),
    }
}

/// A response with `no-store` may hold a secret: the size of its compressed body would reveal it to anyone who can put guesses
/// beside it (BREACH).
fn holds_secret(headers: &HeaderMap) -> bool {
    headers.get(header::CACHE_CONTROL).is_some_and(|value| value == "no-store")
}

/// The entity tag of a file is that of its bytes as they are; files of the web app are compressed already. That of JSON is the version of what it describes.
fn is_tagged_file(headers: &HeaderMap) -> bool {
    let is_json = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    headers.contains_key(header::ETAG) && !is_json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_compressed_and_sound_events_documents_and_secrets_are_not() {
        let decide = |kind: &'static str, cache: &'static str| {
            let mut response = Response::new(String::new());
            response.headers_mut().insert(header::CONTENT_TYPE, kind.parse().unwrap());
            response.headers_mut().insert(header::CACHE_CONTROL, cache.parse().unwrap());
            IsText.should_compress(&response)
        };
        for kind in ["application/json", "text/vtt; charset=utf-8", "application/x-subrip; charset=utf-8", "text/html"]
        {
            assert!(decide(kind, "no-cache"), "{kind}");
            assert!(!decide(kind, "no-store"), "{kind}");
        }
        for kind in ["audio/wav", "text/event-stream; charset=utf-8", "application/pdf", "application/octet-stream"] {
            assert!(!decide(kind, "no-cache"), "{kind}");
        }
    }

    #[test]
    fn files_with_an_entity_tag_stay_as_they_are() {
        let mut response = Response::new(String::new());
        response.headers_mut().insert(header::CONTENT_TYPE, "text/html".parse().unwrap());
        assert!(IsText.should_compress(&response));
        response.headers_mut().insert(header::ETAG, "\"1\"".parse().unwrap());
        assert!(!IsText.should_compress(&response));
        response.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
        assert!(IsText.should_compress(&response), "the version of a transcript is not that of bytes");
    }
}
