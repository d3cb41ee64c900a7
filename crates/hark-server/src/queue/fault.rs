//! Why an attempt of a job gave no result, and whose fault that is.

use hark_store::{FaultKind, Product};

use crate::engine::{Dependency, EngineError};

/// Why an attempt gave no result.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Whose fault it is.
    pub(crate) kind: FaultKind,
    /// The unreachable dependency, if any.
    pub(crate) dependency: Option<Dependency>,
    /// What went wrong: for the log, and for the sender where the fault is the sender's.
    pub(crate) detail: String,
}

impl Fault {
    /// A defect of ours.
    pub(crate) fn internal(detail: impl std::fmt::Display) -> Self {
        Fault { kind: FaultKind::Internal, dependency: None, detail: detail.to_string() }
    }

    /// The message for the owner of a failed job that was to make this.
    pub(crate) fn reason(&self, product: Option<Product>) -> String {
        let (done, advice) = match product {
            Some(Product::Enhancement(_)) => ("enhanced", "send it again"),
            Some(Product::Transcript(_)) | None => ("transcribed", "retry the transcript"),
        };
        match self.kind {
            FaultKind::Input | FaultKind::Credits | FaultKind::Cancelled => self.detail.clone(),
            FaultKind::Internal | FaultKind::Timeout => {
                format!(
                    "the recording could not be {done}: something went wrong on the server; nothing was charged, and the recording is kept: {advice}"
                )
            }
            FaultKind::Unavailable => {
                format!(
                    "the recording could not be {done}: what the server needs for it was unreachable for too long; nothing was charged, and the recording is kept: {advice} later"
                )
            }
        }
    }
}

impl From<EngineError> for Fault {
    fn from(error: EngineError) -> Self {
        let dependency = match &error {
            EngineError::Unavailable { dependency, .. } => Some(*dependency),
            EngineError::ModelMissing(_)
            | EngineError::UnknownModel(_)
            | EngineError::NoVoices
            | EngineError::NoEnhancement => Some(Dependency::Engine),
            _ => None,
        };
        Fault { kind: error.fault(), dependency, detail: error.to_string() }
    }
}

impl From<hark_store::Error> for Fault {
    fn from(error: hark_store::Error) -> Self {
        let (kind, dependency) = match &error {
            // A missing recording may be back soon, with its folder or bucket.
            hark_store::Error::Blob(_) | hark_store::Error::Sealed(_) | hark_store::Error::NotFound("recording") => {
                (FaultKind::Unavailable, Some(Dependency::Recordings))
            }
            other => (other.fault(), None),
        };
        Fault { kind, dependency, detail: error.to_string() }
    }
}
