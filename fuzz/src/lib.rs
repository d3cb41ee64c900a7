//! Hostile input for the parts of Hark that read what strangers send.
//!
//! In: any bytes. Out: nothing, or a panic that says what promise was broken. None of its business: where the bytes come from;
//! `fuzz_targets` has libFuzzer make them up.

mod export;
mod form;
mod media;
mod requests;
mod weights;

/// What `multipart.rs` needs of the service: a reason to refuse.
mod error {
    use std::borrow::Cow;

    use hark_api::{ApiError, ErrorKind};

    pub(crate) struct Failure {
        pub(crate) error: ApiError,
    }

    impl Failure {
        pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
            Failure { error: ApiError::new(kind, message) }
        }

        pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
            Failure::new(ErrorKind::InvalidInput, message)
        }

        /// Nobody limits these bodies: one that fails broke off.
        pub(crate) fn of_body(_error: &axum::Error, broken: Failure) -> Self {
            broken
        }
    }

    impl From<ErrorKind> for Failure {
        fn from(kind: ErrorKind) -> Self {
            Failure { error: kind.into() }
        }
    }
}

/// What `multipart.rs` asks of a request without a boundary; forms that are made up here always have one.
mod extract {
    use std::time::Duration;

    use axum::body::Body;

    use crate::error::Failure;

    #[allow(dead_code, reason = "only requests come without a body")]
    pub(crate) async fn is_missing(_body: Body, _idle: Duration) -> Result<bool, Failure> {
        Ok(false)
    }
}

#[path = "../../crates/hark-server/src/multipart.rs"]
#[allow(dead_code, reason = "the service uses the rest")]
mod multipart;

pub use export::export;
pub use form::multipart;
pub use media::media;
pub use requests::requests;
pub use weights::weights;
