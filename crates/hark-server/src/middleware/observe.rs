//! The outermost layer: request ids, one span and one line of log a request, metrics, and the Error body for whatever the
//! framework answers by itself.

use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hark_api::{ApiError, ERRORS, ErrorKind};
use tracing::Instrument as _;

use super::linger::lingering;
use crate::app::App;
use crate::error::{Answered, Failure, openai};
use crate::limits::client_address;
use crate::random;
use crate::sign::guard;

const REQUEST_ID: &str = "x-request-id";
/// A longer id from outside is replaced by one of ours.
const MAX_ID_LENGTH: usize = 64;

pub(crate) async fn observe(State(app): State<App>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = request_id(&request);
    // The route, not the path: a path may hold a share token.
    let route = request.extensions().get::<MatchedPath>().map_or("-", |path| path.as_str()).to_owned();
    let method = method_name(request.method());
    let is_openai = openai::owns(request.uri().path());
    let span = tracing::info_span!("request", id, method, route);
    app.metrics.in_flight.fetch_add(1, Ordering::Relaxed);
    let _in_flight = InFlight(&app);
    let address = client_address(guard::peer(request.extensions()), request.headers(), &app.config.trusted_proxies);
    let metered = |body| lingering(app.bodies.metered(body, address, (&app.config.limits).into()));
    let response = next.run(request.map(metered)).instrument(span.clone()).await;
    let mut response = with_error_body(response);
    if is_openai {
        response = openai::reshape(response);
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    let (status, took) = (response.status().as_u16(), begun.elapsed());
    app.metrics.answered(&route, method, status, took);
    span.in_scope(|| tracing::info!(status, milliseconds = took.as_millis() as u64, "request.completed"));
    response
}

/// A client that disconnects drops the future: the count must be decremented then too.
struct InFlight<'a>(&'a App);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The id that a proxy gave, where it is one, else a new one.
fn request_id(request: &Request) -> String {
    let given = request.headers().get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let is_id = |id: &&str| {
        (1..=MAX_ID_LENGTH).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    given.filter(is_id).map_or_else(random::id, str::to_owned)
}

/// Unknown methods count as one, otherwise clients could create any number of metrics.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Gives every response that is no success the Error body, keeping its headers.
fn with_error_body(response: Response) -> Response {
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || response.extensions().get::<Answered>().is_some() {
        return response;
    }
    let (parts, _) = response.into_parts();
    let entry = ERRORS.iter().find(|entry| entry.status == status.as_u16());
    let mut replaced =
        Failure::from(ApiError::from(entry.map_or(ErrorKind::Internal, |entry| entry.kind))).into_response();
    *replaced.status_mut() = if entry.is_some() { status } else { StatusCode::INTERNAL_SERVER_ERROR };
    for (name, value) in &parts.headers {
        if !replaced.headers().contains_key(name) {
            replaced.headers_mut().append(name, value.clone());
        }
    }
    replaced
}
