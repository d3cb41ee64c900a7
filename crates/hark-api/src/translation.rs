//! Translations of transcripts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of `POST /v1/transcripts/{id}/translate`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranslateTranscriptRequest {
    /// Language to translate into.
    #[schema(min_length = 1, pattern = r"\S")]
    pub target_language: String,
    /// Language of the transcript; that of its transcription when not given.
    pub source_language: Option<String>,
    /// Translate again even if there is a translation.
    #[serde(default)]
    pub force: bool,
}

/// A transcript in another language.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptTranslation {
    /// The language of the translation.
    pub language: String,
    /// The language that was translated from.
    pub source_language: String,
    /// The whole text.
    pub text: String,
    /// The segments of the transcript with their times and speakers.
    pub segments: Vec<TranslatedSegment>,
    /// The models that ran.
    pub model: String,
    /// Whether it was made before; then it cost nothing.
    pub cached: bool,
}

/// A segment of a transcript in another language.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranslatedSegment {
    /// Seconds from the start of the recording.
    pub start: f64,
    /// Seconds from the start of the recording.
    pub end: f64,
    /// The translation; empty where a sentence over several segments became shorter than they are many.
    pub text: String,
    /// Speaker label, where speakers were told apart.
    pub speaker: Option<String>,
}
