//! Values of the store as the wire writes them.

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
