//! Errors of requests, and of the start of the service.

pub(crate) mod openai;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hark_api::{ApiError, ErrorKind};
use hark_store::Limit;

use crate::engine::EngineError;
use crate::limits::BodyRefusal;

/// Why the service can't run.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Listening on an address failed.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] hark_store::Error),
    /// The configuration is invalid.
    #[error("{0}")]
    Config(String),
}

/// The header with the transcript of a request.
pub(crate) const TRANSCRIPT_ID: HeaderName = HeaderName::from_static("x-transcript-id");
/// The header with the enhancement of a request.
pub(crate) const ENHANCEMENT_ID: HeaderName = HeaderName::from_static("x-enhancement-id");
/// How much is allowed.
pub(crate) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
/// How much of it is left.
pub(crate) const RATE_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
/// Seconds until all of it is there again.
pub(crate) const RATE_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// A failed request: the error of the table, and headers that go with it.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) error: ApiError,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

impl Failure {
    /// The error with a message of its own.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        ApiError::new(kind, message).into()
    }

    /// An invalid request.
    pub(crate) fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        Failure::new(ErrorKind::InvalidInput, message)
    }

    /// A body that ended early or was rejected.
    pub(crate) fn of_body(error: &axum::Error, broken: Failure) -> Self {
        let Some(refusal) = BodyRefusal::of(error) else { return broken };
        match refusal {
            BodyRefusal::Slow => Failure::new(ErrorKind::RequestTimeout, format!("{refusal}: send it again faster")),
            BodyRefusal::AddressLimit => {
                ApiError::new(ErrorKind::RateLimited, format!("{refusal}: wait for some to arrive"))
                    .retry_after(BODY_RETRY_AFTER)
                    .into()
            }
            BodyRefusal::ServerLimit => ApiError::new(ErrorKind::QueueFull, format!("{refusal}: try again later"))
                .retry_after(BODY_RETRY_AFTER)
                .into(),
        }
    }

    /// The same with one header more.
    pub(crate) fn header(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Failure { error, headers: Vec::new() }
    }
}

impl From<ErrorKind> for Failure {
    fn from(kind: ErrorKind) -> Self {
        ApiError::from(kind).into()
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        ApiError::from(error).into()
    }
}

/// `Retry-After` while too many bytes are being received, in seconds.
const BODY_RETRY_AFTER: u64 = 30;
/// `Retry-After` of a full queue, in seconds.
const QUEUE_RETRY_AFTER: u64 = 30;
/// `Retry-After` while the database is unreachable, in seconds.
pub(crate) const UNAVAILABLE_RETRY: u64 = 5;
/// `Retry-After` of a reached concurrency limit, in seconds.
const CONCURRENCY_RETRY_AFTER: u64 = 10;

impl Failure {
    /// The response for an error of the store at `now`. Internal errors are logged, not sent.
    pub(crate) fn of_store(error: hark_store::Error, now: hark_store::Micros) -> Self {
        use hark_store::Error;
        match error {
            Error::NotFound(what) => Failure::new(ErrorKind::NotFound, format!("there is no such {what}")),
            Error::NotEnoughCredits { have, need } => Failure::new(
                ErrorKind::InsufficientCredits,
                format!("not enough credits: this costs {need}, the account has {have}"),
            ),
            Error::Limit { what, limit, used } => limited(what, limit, used, now),
            Error::QueueFull { .. } => ApiError::from(ErrorKind::QueueFull).retry_after(QUEUE_RETRY_AFTER).into(),
            Error::Changed => ErrorKind::Changed.into(),
            Error::KeyReused => ErrorKind::KeyReused.into(),
            Error::Deleted => Failure::new(
                ErrorKind::Gone,
                "what the request with this Idempotency-Key made was deleted: send the recording again under a new key",
            ),
            Error::Conflict(why) => Failure::new(ErrorKind::Conflict, why),
            Error::Invalid(why) => Failure::invalid(why),
            Error::Unavailable(why) => {
                tracing::warn!(error = why, "database.unavailable");
                ApiError::from(ErrorKind::Unavailable).retry_after(UNAVAILABLE_RETRY).into()
            }
            Error::Blob(why) => {
                tracing::warn!(error = why, "recordings.unavailable");
                ApiError::from(ErrorKind::Unavailable).retry_after(UNAVAILABLE_RETRY).into()
            }
            other => {
                tracing::error!(error = %other, "store.error");
                ErrorKind::Internal.into()
            }
        }
    }
}

impl From<hark_store::Error> for Failure {
    fn from(error: hark_store::Error) -> Self {
        Failure::of_store(error, hark_store::Clock::system().now())
    }
}

fn limited(what: Limit, limit: i64, used: i64, now: hark_store::Micros) -> Failure {
    if what == Limit::StorageBytes {
        return storage_full(limit.unsigned_abs(), used.unsigned_abs());
    }
    let until_tomorrow = until_tomorrow(now);
    let (kind, message, wait) = match what {
        Limit::ConcurrentJobs => (
            ErrorKind::TooManyAtOnce,
            format!("too many transcriptions at once: {limit} may wait or run, wait for one to end"),
            CONCURRENCY_RETRY_AFTER,
        ),
        Limit::MonthlyMinutes => (
            ErrorKind::MonthlyLimit,
            format!("this key may transcribe {limit} minutes a month and has used {used}"),
            until_next_month(now),
        ),
        Limit::Spending => (
            ErrorKind::SpendingLimit,
            format!(
                "this key may spend {limit} credits and has spent {used}: raise its `spending_limit` or use another key"
            ),
            until_tomorrow,
        ),
        Limit::AnonymousTranscriptions => (
            ErrorKind::AnonymousLimit,
            format!("{limit} transcriptions a day are free without an account, and {used} were used: sign up to go on"),
            until_tomorrow,
        ),
        Limit::AnonymousMinutes => (
            ErrorKind::AnonymousLimit,
            format!("{limit} minutes a day are free without an account, and {used} were used: sign up to go on"),
            until_tomorrow,
        ),
        // Handled above: there is no time after which there will be space.
        Limit::StorageBytes => (ErrorKind::StorageFull, String::new(), 0),
        Limit::AnonymousNetwork => (
            ErrorKind::AnonymousLimit,
            "your network used up what is free without an account today: sign up to go on".to_owned(),
            until_tomorrow,
        ),
        Limit::SignUps => (
            ErrorKind::RateLimited,
            format!("{limit} accounts a day may be made from one address or network: try again tomorrow"),
            until_tomorrow,
        ),
        Limit::DailyQuestions => {
            (ErrorKind::ChatLimit, format!("{limit} questions a day are in this plan"), until_tomorrow)
        }
    };
    Failure::from(ApiError::new(kind, message).retry_after(wait))
        .header(RATE_LIMIT, limit.max(0).unsigned_abs())
        .header(RATE_REMAINING, (limit - used).max(0).unsigned_abs())
        .header(RATE_RESET, wait)
}

/// The error for a recording that exceeds the storage quota.
pub(crate) fn storage_full(quota: u64, used: u64) -> Failure {
    let message = format!(
        "the recordings of this account take {} of the {} that its plan allows, and this one does not fit: delete transcripts, or choose a higher plan",
        size(used),
        size(quota)
    );
    ApiError::new(ErrorKind::StorageFull, message).into()
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{bytes} bytes"),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Seconds until the next day (UTC).
pub(crate) fn until_tomorrow(now: hark_store::Micros) -> u64 {
    (hark_store::DAY - now.rem_euclid(hark_store::DAY)).unsigned_abs().div_ceil(1_000_000)
}

/// Seconds until the first of the next month (UTC).
fn until_next_month(now: hark_store::Micros) -> u64 {
    let today = hark_api::DateTime(now);
    let month = today.date()[..7].to_owned();
    let days = (1..=31).map(|days| hark_api::DateTime(today.day_start().0 + days * hark_store::DAY));
    let next = days.into_iter().find(|day| !day.date().starts_with(&month)).unwrap_or(today);
    (next.0 - now).unsigned_abs().div_ceil(1_000_000)
}

/// Marks a response that already has the Error body, with its error.
#[derive(Debug, Clone)]
pub(crate) struct Answered(pub(crate) ApiError);

impl Failure {
    /// The response with additional fields in its body.
    pub(crate) fn with_details(self, details: &impl serde::Serialize) -> Response {
        let mut body = serde_json::to_value(details).unwrap_or_default();
        if let (Some(body), Ok(serde_json::Value::Object(error))) =
            (body.as_object_mut(), serde_json::to_value(self.error.body()))
        {
            body.extend(error);
        }
        let mut response = self.into_response();
        let (parts, _) = std::mem::take(&mut response).into_parts();
        let mut detailed = (parts.status, Json(body)).into_response();
        for (name, value) in &parts.headers {
            if !detailed.headers().contains_key(name) {
                detailed.headers_mut().append(name, value.clone());
            }
        }
        detailed.extensions_mut().extend(parts.extensions);
        detailed
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.error.body())).into_response();
        let headers = response.headers_mut();
        headers.extend(self.headers);
        if let Some(seconds) = self.error.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(Answered(self.error));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_months_limit_ends_with_the_month() {
        let now = hark_api::DateTime::parse("2024-02-28T23:59:50Z").unwrap().0;
        assert_eq!(until_next_month(now), 86_410, "2024 has a 29th of February");
        let now = hark_api::DateTime::parse("2023-12-31T00:00:00Z").unwrap().0;
        assert_eq!(until_next_month(now), 86_400);
    }

    #[test]
    fn a_database_that_is_unreachable_is_503_and_worth_another_try() {
        let failure = Failure::from(hark_store::Error::Blob("/var/lib/hark/blobs is not there".into()));
        assert_eq!((failure.error.status(), failure.error.retry_after.is_some()), (503, true));
        assert!(!failure.error.message.contains("blobs"));
        let failure = Failure::from(hark_store::Error::Unavailable("/var/lib/hark/hark.db is full".into()));
        assert_eq!((failure.error.status(), failure.error.retry_after), (503, Some(UNAVAILABLE_RETRY)));
        assert!(!failure.error.message.contains("hark.db"));
    }

    #[test]
    fn what_is_wrong_inside_is_not_sent() {
        let failure = Failure::from(hark_store::Error::Damaged("row 17 of secrets".into()));
        assert_eq!(failure.error.status(), 500);
        assert!(!failure.error.message.contains("secrets"));
    }
}
