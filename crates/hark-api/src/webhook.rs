//! What the service tells other servers.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{DateTime, TranscriptStatus};

/// What is sent to `webhook_url` once its transcript is completed or failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WebhookEvent {
    /// `transcript.completed` or `transcript.failed`.
    pub event: String,
    /// The transcript.
    pub id: i64,
    /// completed or failed.
    pub status: TranscriptStatus,
    /// What its owner calls it.
    pub title: String,
    /// When it was uploaded.
    pub created_at: DateTime,
    /// When it was completed or failed.
    pub completed_at: Option<DateTime>,
    /// Language code, where completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Length of the audio in seconds, where completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// Words recognized, where completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub word_count: Option<i64>,
    /// Why it failed, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `GET /v1/webhooks/secret`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookSecret {
    /// What the calls to this account's webhooks are signed with.
    pub secret: String,
    /// After a rotation: until when calls are signed with the secret before, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_valid_until: Option<DateTime>,
}

/// How the secret of the webhooks is rotated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookRotation {
    /// Seconds for which calls are signed with the secret so far, too: a day when not given, 30 days at most.
    #[schema(minimum = 0, maximum = 2_592_000)]
    #[serde(default, deserialize_with = "crate::integer::optional")]
    pub grace_seconds: Option<i64>,
}
