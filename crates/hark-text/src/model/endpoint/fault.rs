//! What one attempt to have a request answered can end with.

use std::time::Duration;

use crate::model::ModelError;

/// Why an attempt gave no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// The endpoint was not reached, failed or has too much to do: another attempt may succeed.
    Retry {
        /// What becomes of the request if none does.
        error: ModelError,
        /// How long the endpoint asks to wait.
        after: Option<Duration>,
        /// It is at fault: counts for the circuit breaker.
        is_fault: bool,
    },
    /// The endpoint does not take the form in which JSON was asked for.
    Format(ModelError),
    /// Another attempt would end the same way.
    Last(ModelError),
}

impl Fault {
    /// The endpoint is not there, or broke off.
    pub(super) fn unreachable(what: impl std::fmt::Display) -> Self {
        let error = ModelError::Unavailable(format!("the endpoint does not answer: {what}"));
        Fault::Retry { error, after: None, is_fault: true }
    }

    /// The endpoint answered with something that makes no sense.
    pub(super) fn last(what: String) -> Self {
        Fault::Last(ModelError::Failed(format!("the endpoint's answer can't be used: {what}")))
    }
}
