//! OpenAI's API, so that programs written for it work with only their base address changed. Recordings are processed
//! as by `POST /v1/transcribe`; only the form, the response formats and the errors are OpenAI's.

pub(crate) mod audio;
pub(crate) mod completions;
pub(crate) mod embeddings;
mod events;
mod fields;
mod layout;
pub(crate) mod models;
pub(crate) mod realtime;
pub(crate) mod speech;

use hark_api::OpenAiError;
use utoipa::IntoResponses;

use super::error_responses;

error_responses! { OpenAiError:
    Invalid 400 "something in the request makes no sense",
    Unauthorized 401 "a credential that does not hold",
    Payment 402 "not enough credits, or a plan that does not include this",
    Missing 404 "no such model",
    TooLarge 413 "larger than the tier allows",
    Reused 422 "an Idempotency-Key that was used for another request",
    Limited 429 "a limit was reached; Retry-After says when to try again",
    Unavailable 503 "the model is not on this server, or too much waits; Retry-After says when to try again",
    TimedOut 504 "the answer takes too long; nothing was charged",
    Late 504 "the wait ended, not the work; X-Transcript-Id names the transcript",
    AnyError "default" "every answer that is no success has OpenAI's error body",
}
