//! CORS: which origins may call, and which headers they may read.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::config::Config;

/// Response headers that a page of another origin may read.
const EXPOSED: [&str; 17] = [
    "x-transcript-id",
    "x-enhancement-id",
    "x-model",
    "x-warnings",
    "x-duration",
    "x-generation-time",
    "x-language",
    "x-voice",
    "x-request-id",
    "x-should-retry",
    "retry-after",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "location",
    "content-disposition",
    "etag",
];

/// Never with cookies: a page of another origin calls with a key or anonymously.
pub(crate) fn cors(config: &Config) -> CorsLayer {
    let origins = if config.cors_origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(config.cors_origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()))
    };
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        // Clients add headers of their own (OpenAI's a dozen); without cookies all are safe to allow.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED.map(HeaderName::from_static))
        .max_age(Duration::from_secs(3600))
}
