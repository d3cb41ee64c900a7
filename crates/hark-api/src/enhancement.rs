//! Recordings whose noise is reduced.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{DateTime, TranscriptStatus};

/// The answer to noise reduction that was asked for without waiting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EnhancementAccepted {
    /// The enhancement that will be made.
    pub id: i64,
    /// How far it is.
    pub status: TranscriptStatus,
    /// Where to ask how far it is.
    pub status_url: String,
}

/// `GET /v1/enhancements/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Enhancement {
    /// Its number.
    pub id: i64,
    /// How far it is.
    pub status: TranscriptStatus,
    /// Percent of the audio done; never goes back.
    #[schema(minimum = 0, maximum = 100)]
    pub progress: u8,
    /// Its place in the queue, from 1; null once it is being worked on.
    #[schema(minimum = 1)]
    pub queue_position: Option<u64>,
    /// The media type of the result.
    pub content_type: String,
    /// When it was sent.
    pub created_at: DateTime,
    /// Length of the audio in seconds, once completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// Channels of the result, once completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u16>,
    /// The model that ran, once completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Where the result is, once completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audio_url: Option<String>,
    /// When it is deleted, once completed or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime>,
    /// Why it failed, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
