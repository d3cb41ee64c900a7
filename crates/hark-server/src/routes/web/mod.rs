//! The web app: its page at every path that the app knows, and its files.

mod negotiate;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hark_api::ErrorKind;
use hark_web::File;
use negotiate::{coding, is_unchanged, prefers_page};

use crate::app::App;
use crate::config::Config;
use crate::error::{Answered, Failure};

/// The paths of the app. Each answers its page, which shows what belongs there.
const PATHS: [&str; 14] = [
    "/",
    "/library",
    "/t/{id}",
    "/live",
    "/captions",
    "/voice",
    "/account",
    "/account/{part}",
    "/admin",
    "/admin/{part}",
    "/developers",
    "/sign-in",
    "/sign-up",
    "/forgot",
];

/// The page and everything it loads come from this server; nothing is inline, and no page may have it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; font-src 'self'; \
                      media-src 'self' blob:; connect-src 'self'; worker-src 'self'; manifest-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The microphone and the sound of the screen are for live sessions.
const PERMISSIONS: &str = "microphone=(self), display-capture=(self), camera=(), geolocation=()";

/// Headers of every page of the app.
const PAGE_HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("permissions-policy"), PERMISSIONS),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Adds the paths of the app, if this server has it. Other files of its root are found by [`unmatched`].
pub(crate) fn mount(router: Router<App>, config: &Config) -> Router<App> {
    if config.web_app().is_none() {
        return router;
    }
    let router = PATHS.iter().fold(router, |router, path| router.route(path, get(page)));
    // A route of their own only for the metrics.
    router.route("/assets/{*path}", get(unmatched))
}

async fn page(State(app): State<App>, request: HeaderMap) -> Result<Response, Failure> {
    let site = app.config.web_app().ok_or(ErrorKind::NotFound)?;
    let page = site.page().ok_or(ErrorKind::NotFound)?;
    Ok(answer(page, &request))
}

/// What no route has: a file of the app, or nothing. Browsers get the app's page for nothing, everybody else the Error body.
pub(crate) async fn unmatched(
    State(app): State<App>,
    method: Method,
    uri: Uri,
    request: HeaderMap,
) -> Result<Response, Failure> {
    let path = uri.path();
    let is_read = method == Method::GET || method == Method::HEAD;
    let is_api = path == "/v1" || path.starts_with("/v1/");
    let Some(site) = app.config.web_app().filter(|_| is_read && !is_api) else {
        return Err(ErrorKind::NotFound.into());
    };
    if let Some(file) = path.strip_prefix('/').and_then(|path| site.find(path)) {
        return Ok(answer(file, &request));
    }
    match site.page().filter(|_| prefers_page(&request)) {
        Some(page) => Ok(missing(page, &request)),
        None => Err(ErrorKind::NotFound.into()),
    }
}

/// A file as the request wants it: compressed or not, and not at all where the client has it.
fn answer(file: &File, request: &HeaderMap) -> Response {
    let coding = coding(file, request);
    let etag = file.etag(coding);
    let mut response = match is_unchanged(request, &etag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => bytes(file, coding),
    };
    let headers = response.headers_mut();
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(header::ETAG, etag);
    }
    let lasts = if file.is_hashed() { "public, max-age=31536000, immutable" } else { "no-cache" };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(lasts));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    response
}

/// The page of the app for a path that does not exist: the app says so.
fn missing(page: &File, request: &HeaderMap) -> Response {
    let mut response = bytes(page, coding(page, request));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    // The page is the answer, not the Error body in its place.
    response.extensions_mut().insert(Answered(ErrorKind::NotFound.into()));
    response
}

/// The bytes of a file in a coding that it has.
fn bytes(file: &File, coding: hark_web::Coding) -> Response {
    let mut response = Body::from(file.bytes(coding).unwrap_or(file.identity)).into_response();
    let headers = response.headers_mut();
    let media_type = file.media_type();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    if coding != hark_web::Coding::Identity {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    }
    if media_type.starts_with("text/html") {
        for (name, value) in PAGE_HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_of_the_app_has_its_path_here() {
        let app = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src/app.tsx");
        let source = std::fs::read_to_string(&app).unwrap_or_else(|error| panic!("{}: {error}", app.display()));
        let patterns: Vec<&str> =
            source.split("pattern: \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(patterns.len() > 5, "the pages of the app were not found: {patterns:?}");
        let missing: Vec<_> = patterns.iter().filter(|pattern| !PATHS.contains(pattern)).collect();
        assert!(missing.is_empty(), "these pages would be 404 when they are opened: {missing:?}");
    }
}
