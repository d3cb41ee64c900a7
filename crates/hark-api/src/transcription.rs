//! The answer to a transcription that nobody waits for. The transcript itself is [`crate::TranscriptionResult`].

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::TranscriptStatus;

/// The answer to a transcription that was asked for without waiting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// The transcript that will be made.
    pub id: i64,
    /// How far it is.
    pub status: TranscriptStatus,
    /// Where to ask how far it is.
    pub status_url: String,
}
