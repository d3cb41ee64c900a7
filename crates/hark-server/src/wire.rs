//! Conversion of store values to API values.

use hark_api::TranscriptStatus;
use hark_store::Status;

/// The status in the API.
pub(crate) fn wire_status(status: Status) -> TranscriptStatus {
    match status {
        Status::Queued => TranscriptStatus::Queued,
        Status::Processing => TranscriptStatus::Processing,
        Status::Completed => TranscriptStatus::Completed,
        Status::Failed => TranscriptStatus::Failed,
    }
}

/// The language in the API: never empty.
pub(crate) fn wire_language(language: String) -> String {
    if language.is_empty() { "auto".to_owned() } else { language }
}
