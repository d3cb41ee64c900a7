//! Saved transcripts, one file an operation or two.

pub(crate) mod export;
pub(crate) mod list;
pub(crate) mod one;
pub(crate) mod retry;
pub(crate) mod status;
pub(crate) mod text;

use hark_api::TranscriptStatus;
use hark_store::Status;

/// The status as the wire writes it.
pub(crate) fn wire_status(status: Status) -> TranscriptStatus {
    match status {
        Status::Queued => TranscriptStatus::Queued,
        Status::Processing => TranscriptStatus::Processing,
        Status::Completed => TranscriptStatus::Completed,
        Status::Failed => TranscriptStatus::Failed,
    }
}

/// The language as the wire writes it: never empty.
pub(crate) fn wire_language(language: String) -> String {
    if language.is_empty() { "auto".to_owned() } else { language }
}
