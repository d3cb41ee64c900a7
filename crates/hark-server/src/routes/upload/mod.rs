//! Recordings that are sent to become jobs: who may send one now, how it is received, and how its request waits for the job.

mod admit;
mod receive;
mod wait;

pub(crate) use admit::{Admission, count_networks};
pub(crate) use receive::{
    FormFields, Incoming, announced, receive, refuse_announced, store_file, title, too_large, used_already,
};
pub(crate) use wait::{JobState, wait};

use axum::http::HeaderMap;

/// `Prefer: respond-async` (RFC 7240), alone or among others.
pub(crate) fn prefers_async(headers: &HeaderMap) -> bool {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split([',', ';'])).any(|one| one.trim().eq_ignore_ascii_case("respond-async"))
}
