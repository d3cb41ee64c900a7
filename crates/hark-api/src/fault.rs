//! Whose fault it is that a job gave no result: decides whether it is retried and how it is answered.

use std::fmt;
use std::str::FromStr;

use crate::ErrorKind;

/// The kind of a fault that ended an attempt of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The sender's: the recording or what was asked of it. Another attempt ends the same, so there is none.
    Input,
    /// The recording turned out to cost more than its owner has. There is no other attempt.
    Credits,
    /// Ours. The attempt counts; the job is retried with backoff.
    Internal,
    /// Passing: storage, database, model or decoder are unreachable. Retried with backoff, and the attempt does not count.
    Unavailable,
    /// Somebody called it off.
    Cancelled,
    /// The worker fell silent until its lease expired. The attempt counts.
    Timeout,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [FaultKind; 6] = [
        FaultKind::Input,
        FaultKind::Credits,
        FaultKind::Internal,
        FaultKind::Unavailable,
        FaultKind::Cancelled,
        FaultKind::Timeout,
    ];

    /// The name in the database, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Input => "input",
            FaultKind::Credits => "credits",
            FaultKind::Internal => "internal",
            FaultKind::Unavailable => "unavailable",
            FaultKind::Cancelled => "cancelled",
            FaultKind::Timeout => "timeout",
        }
    }

    /// Whether the fault is neither the sender's nor wanted by anybody: what was sent is kept and can be tried again.
    pub fn is_ours(self) -> bool {
        matches!(self, FaultKind::Internal | FaultKind::Unavailable | FaultKind::Timeout)
    }

    /// How a request for the result of a job that ended with this fault is answered.
    pub fn error_kind(self) -> ErrorKind {
        match self {
            FaultKind::Input => ErrorKind::UnreadableMedia,
            FaultKind::Credits => ErrorKind::InsufficientCredits,
            FaultKind::Internal | FaultKind::Timeout => ErrorKind::Internal,
            FaultKind::Unavailable => ErrorKind::Unavailable,
            FaultKind::Cancelled => ErrorKind::Conflict,
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FaultKind {
    type Err = UnknownFault;

    fn from_str(name: &str) -> Result<Self, UnknownFault> {
        FaultKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or(UnknownFault)
    }
}

/// A text that names no [`FaultKind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownFault;

impl fmt::Display for UnknownFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fault is input, internal, unavailable, cancelled or timeout")
    }
}

impl std::error::Error for UnknownFault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_back_from_its_name() {
        for kind in FaultKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert_eq!("ours".parse::<FaultKind>(), Err(UnknownFault));
    }

    #[test]
    fn the_senders_faults_are_answered_with_4xx_and_ours_with_5xx() {
        for kind in FaultKind::ALL {
            let status = kind.error_kind().entry().status;
            assert_eq!(status >= 500, kind.is_ours(), "{kind} is answered with {status}");
        }
    }
}
