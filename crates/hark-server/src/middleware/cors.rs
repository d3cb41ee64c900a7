//! Which pages of other origins may call, and what they may read.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Method};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::config::Config;

/// Headers of ours that a page of another origin may read.
const EXPOSED: [&str; 10] = [
    "x-transcript-id",
    "x-model",
    "x-request-id",
    "x-should-retry",
    "retry-after",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "location",
    "content-disposition",
];

/// Never with cookies: a page of another origin calls with a key or as nobody.
pub(crate) fn cors(config: &Config) -> CorsLayer {
    let origins = if config.cors_origins.iter().any(|origin| origin == "*") {
        AllowOrigin::any()
    } else {
        AllowOrigin::list(config.cors_origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()))
    };
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        // Clients add headers of their own (OpenAI's a dozen); without cookies there is none to fear.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED.map(HeaderName::from_static))
        .max_age(Duration::from_secs(3600))
}

/// An origin as browsers send it, `https://app.example.com`, or `*`.
pub(crate) fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    text == "*"
        || host.is_some_and(|host| {
            !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_a_scheme_and_a_host_and_nothing_behind_it() {
        for good in ["*", "https://app.example.com", "http://localhost:3000", "http://[::1]:80"] {
            assert!(is_origin(good), "{good}");
        }
        for wrong in ["", "app.example.com", "https://", "https://app.example.com/", "https://a b"] {
            assert!(!is_origin(wrong), "{wrong}");
        }
    }
}
