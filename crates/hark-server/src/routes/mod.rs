//! The handlers, one file for each resource; `router.rs` lists them all.

pub(crate) mod account;
pub(crate) mod account_data;
pub(crate) mod admin;
pub(crate) mod audio;
pub(crate) mod audit;
pub(crate) mod chat;
pub(crate) mod credits;
pub(crate) mod documentation;
pub(crate) mod download;
pub(crate) mod enhancements;
pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod openai;
pub(crate) mod paging;
pub(crate) mod reference;
pub(crate) mod reset;
pub(crate) mod resumable;
pub(crate) mod sample;
pub(crate) mod search;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod shared;
pub(crate) mod shared_page;
pub(crate) mod speakers;
pub(crate) mod stream;
pub(crate) mod text;
pub(crate) mod transcribe;
pub(crate) mod transcripts;
pub(crate) mod upload;
pub(crate) mod voices;
pub(crate) mod watermark;
pub(crate) mod web;
pub(crate) mod webhooks;

use hark_api::ErrorBody;
use utoipa::{IntoParams, IntoResponses};

/// The header that makes a repeat safe, as the OpenAPI document lists it.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "it exists for its documentation")]
pub(crate) struct IdempotencyHeader {
    /// makes a repeat safe: the same answer, charged once
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$")]
    idempotency_key: Option<String>,
}

macro_rules! error_responses {
    ($body:ident: $($name:ident $status:literal $description:literal),* $(,)?) => {
        $(
            /// An error as the OpenAPI document lists it.
            #[derive(IntoResponses)]
            #[response(status = $status, description = $description)]
            #[allow(dead_code, reason = "it exists for its documentation")]
            pub(crate) struct $name($body);
        )*
    };
}

pub(crate) use error_responses;

error_responses! { ErrorBody:
    Invalid 400 "something in the request makes no sense",
    Unauthorized 401 "no credential, or one that does not hold",
    Payment 402 "not enough credits, or a plan that does not include this",
    Forbidden 403 "the credential holds but may not do this",
    Unacceptable 406 "none of the media types of Accept can be made",
    Missing 404 "no such id, or one of another account",
    Contradicted 409 "the state of the thing does not allow it",
    Deleted 410 "the transcript of this Idempotency-Key was deleted",
    Changed 412 "it was changed since the version in If-Match",
    TooLarge 413 "larger than the tier allows",
    Reused 422 "an Idempotency-Key that was used for another request",
    Limited 429 "a limit was reached; Retry-After says when to try again",
    Unavailable 503 "the model is not on this server, or too much waits; Retry-After says when to try again",
    Late 504 "the wait ended, not the work; X-Transcript-Id names the transcript",
    TimedOut 504 "the answer takes too long; nothing was charged",
    AnyError "default" "every answer that is no success has the Error body",
}
