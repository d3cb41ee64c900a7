//! Everything that can go wrong with a request, declared once: status, message, and whether a higher plan helps.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Error)]
pub struct ErrorBody {
    /// What went wrong, with what, and what to do.
    pub error: String,
    /// True when a higher plan would resolve it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub upgrade: bool,
}

/// What kind of thing went wrong; [`ERRORS`] says how each is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A field, parameter or header makes no sense.
    InvalidInput,
    /// The name is that of no model.
    UnknownModel,
    /// The upload holds no sound that can be read.
    UnreadableMedia,
    /// The transcript is not completed, or holds no words.
    NotReady,
    /// A conversation that does not fit the language model's context.
    ContextLength,
    /// No credential, or one that does not hold (any more).
    Unauthorized,
    /// Fewer credits than the request costs.
    InsufficientCredits,
    /// Something that the account's plan does not include.
    PlanNeeded,
    /// The credential holds but may not do this.
    Forbidden,
    /// No such path, transcript or key, or one of another account.
    NotFound,
    /// No language model of that name.
    ModelNotFound,
    /// The path exists, but not for this method.
    MethodNotAllowed,
    /// None of the media types of `Accept` can be made.
    NotAcceptable,
    /// The client sent nothing for too long.
    RequestTimeout,
    /// The request contradicts one that is still under way.
    Conflict,
    /// What an earlier request made was deleted since.
    Gone,
    /// The thing was changed since the version that `If-Match` names.
    Changed,
    /// The upload is larger than the tier allows; a higher one would.
    FileTooLarge,
    /// The recordings of the account take all that its plan allows; a higher one would allow more.
    StorageFull,
    /// The body is larger than anybody may send.
    BodyTooLarge,
    /// A `Content-Type` that the path does not take.
    UnsupportedMediaType,
    /// A `Range` that begins behind the end.
    RangeNotSatisfiable,
    /// An `Idempotency-Key` that was used for another request.
    KeyReused,
    /// More requests a minute than the key allows.
    RateLimited,
    /// More transcriptions at once than the tier allows.
    TooManyAtOnce,
    /// The key's minutes of this month are used up.
    MonthlyLimit,
    /// The key has spent what it may spend in all.
    SpendingLimit,
    /// The address has used what an anonymous caller gets in a day.
    AnonymousLimit,
    /// The day's questions of the plan are used up.
    ChatLimit,
    /// The day's speeches in the voice of a reference are used up.
    SpeechLimit,
    /// Our fault; the log has the rest.
    Internal,
    /// The model that this needs is not on this server.
    ModelMissing,
    /// More waits than the queue takes.
    QueueFull,
    /// Storage, the database or the engine is unreachable for the moment.
    Unavailable,
    /// The server is going down.
    ShuttingDown,
    /// The wait ended before the work did.
    Timeout,
}

/// How one kind of error is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorEntry {
    /// Which kind.
    pub kind: ErrorKind,
    /// The HTTP status.
    pub status: u16,
    /// The message where the place of the error has nothing better to say.
    pub message: &'static str,
    /// Whether a higher plan resolves it.
    pub upgrade: bool,
}

const fn entry(kind: ErrorKind, status: u16, upgrade: bool, message: &'static str) -> ErrorEntry {
    ErrorEntry { kind, status, message, upgrade }
}

/// The table of errors, in the order of [`ErrorKind`].
pub const ERRORS: [ErrorEntry; 36] = [
    entry(ErrorKind::InvalidInput, 400, false, "the request is not valid"),
    entry(ErrorKind::UnknownModel, 400, false, "there is no such model: GET /v1/models lists them"),
    entry(ErrorKind::UnreadableMedia, 400, false, "the file holds no audio that can be read"),
    entry(ErrorKind::NotReady, 400, false, "the transcript is not completed"),
    entry(ErrorKind::ContextLength, 400, false, "the text does not fit the context of the language model"),
    entry(ErrorKind::Unauthorized, 401, false, "a valid API key is needed: send it as `Authorization: Bearer <key>`"),
    entry(ErrorKind::InsufficientCredits, 402, true, "not enough credits"),
    entry(ErrorKind::PlanNeeded, 402, true, "the plan of this account does not include this"),
    entry(ErrorKind::Forbidden, 403, false, "this credential may not do that"),
    entry(ErrorKind::NotFound, 404, false, "there is nothing here: check the path and the id"),
    entry(ErrorKind::ModelNotFound, 404, false, "there is no such model: GET /v1/models lists them"),
    entry(ErrorKind::MethodNotAllowed, 405, false, "this path does not take that method"),
    entry(ErrorKind::NotAcceptable, 406, false, "none of the media types of `Accept` can be made"),
    entry(ErrorKind::RequestTimeout, 408, false, "nothing arrived for too long: send the request again"),
    entry(ErrorKind::Conflict, 409, false, "a request with the same Idempotency-Key is still under way"),
    entry(ErrorKind::Gone, 410, false, "what this request made was deleted since"),
    entry(ErrorKind::Changed, 412, false, "it was changed since the version in `If-Match`: read it again"),
    entry(ErrorKind::FileTooLarge, 413, true, "the file is larger than this plan allows"),
    entry(ErrorKind::StorageFull, 413, true, "the recordings of this account take all the space of its plan"),
    entry(ErrorKind::BodyTooLarge, 413, false, "the body is too large"),
    entry(ErrorKind::UnsupportedMediaType, 415, false, "this path does not take that Content-Type"),
    entry(ErrorKind::RangeNotSatisfiable, 416, false, "the range begins behind the end of the recording"),
    entry(ErrorKind::KeyReused, 422, false, "this Idempotency-Key was used for a different request: choose a new one"),
    entry(ErrorKind::RateLimited, 429, false, "too many requests: wait and try again"),
    entry(ErrorKind::TooManyAtOnce, 429, true, "too many transcriptions at once: wait for one to end"),
    entry(ErrorKind::MonthlyLimit, 429, false, "this key's minutes of the month are used up"),
    entry(ErrorKind::SpendingLimit, 429, false, "this key has spent what it may spend"),
    entry(ErrorKind::AnonymousLimit, 429, true, "the free transcriptions of today are used up: sign up to go on"),
    entry(ErrorKind::ChatLimit, 429, true, "the questions of today are used up"),
    entry(ErrorKind::SpeechLimit, 429, true, "the speeches of today in the voice of a reference are used up"),
    entry(ErrorKind::Internal, 500, false, "something went wrong on the server: its log names this request's id"),
    entry(ErrorKind::ModelMissing, 503, false, "the model that this needs is not installed on this server"),
    entry(ErrorKind::QueueFull, 503, false, "too much work is waiting: try again later"),
    entry(ErrorKind::Unavailable, 503, false, "the service can't do this at the moment: try again later"),
    entry(ErrorKind::ShuttingDown, 503, false, "the server is going down: try again in a moment"),
    entry(ErrorKind::Timeout, 504, false, "the transcription takes longer than this request may wait"),
];

impl ErrorKind {
    /// How this kind is answered.
    pub const fn entry(self) -> &'static ErrorEntry {
        &ERRORS[self as usize]
    }
}

/// One thing that went wrong with one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// What kind of thing.
    pub kind: ErrorKind,
    /// What the caller reads.
    pub message: Cow<'static, str>,
    /// Whether a higher plan resolves it.
    pub upgrade: bool,
    /// Seconds after which a second try may succeed.
    pub retry_after: Option<u64>,
}

impl ApiError {
    /// The error with a message of its own.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        ApiError { message: message.into(), ..ApiError::from(kind) }
    }

    /// The same error, which a higher plan does or does not resolve.
    pub fn upgrade(self, upgrade: bool) -> Self {
        ApiError { upgrade, ..self }
    }

    /// The same error, worth another try after so many seconds.
    pub fn retry_after(self, seconds: u64) -> Self {
        ApiError { retry_after: Some(seconds), ..self }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.kind.entry().status
    }

    /// What is sent.
    pub fn body(&self) -> ErrorBody {
        ErrorBody { error: self.message.to_string(), upgrade: self.upgrade }
    }
}

impl From<ErrorKind> for ApiError {
    fn from(kind: ErrorKind) -> Self {
        let entry = kind.entry();
        ApiError { kind, message: Cow::Borrowed(entry.message), upgrade: entry.upgrade, retry_after: None }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_finds_its_own_entry() {
        for (index, entry) in ERRORS.iter().enumerate() {
            assert_eq!(entry.kind as usize, index, "{:?} stands in the wrong place", entry.kind);
            assert_eq!(entry.kind.entry(), entry);
        }
    }

    #[test]
    fn payment_errors_say_that_a_higher_plan_helps() {
        for entry in ERRORS.iter().filter(|entry| entry.status == 402) {
            let body = serde_json::to_value(ApiError::from(entry.kind).body()).unwrap();
            assert_eq!(body["upgrade"], true);
        }
    }

    #[test]
    fn messages_follow_the_style_of_the_house() {
        for entry in ERRORS {
            assert!(entry.message.starts_with(|first: char| first.is_lowercase()), "{}", entry.message);
            assert!(!entry.message.ends_with('.'), "{}", entry.message);
            assert!((400..600).contains(&entry.status));
        }
    }
}
