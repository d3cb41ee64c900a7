//! The transcript of one recording, as `POST /v1/transcribe` answers and `hark transcribe -f json` prints.

use serde::{Deserialize, Serialize};

/// What was said in one recording.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TranscriptionResult {
    /// The whole text, segments joined by a space.
    pub text: String,
    /// Detected or given language code (ISO 639-1 where one exists).
    pub language: String,
    /// Length of the audio in seconds.
    pub duration: f64,
    /// What was said, in order of time; starts never run backwards.
    pub segments: Vec<Segment>,
    /// Speaker labels in order of first appearance; empty without diarization.
    pub speakers: Vec<String>,
    /// The checkpoint that really ran.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// What is wrong or remarkable about the recording, for its owner to read: it ends early, it is silent, its channels cancel each other. Not there
    /// when there is nothing to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A sentence or a phrase: what one subtitle or one paragraph line is made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Segment {
    /// Seconds from the start of the recording.
    pub start: f64,
    /// Seconds from the start of the recording.
    pub end: f64,
    /// The words, without leading or trailing space.
    pub text: String,
    /// Speaker label, where speakers were told apart.
    pub speaker: Option<String>,
    /// The code of the language that is spoken in it; not there where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Labels of others who speak during part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlapping_speakers: Vec<String>,
    /// Mean probability of the segment's tokens, 0 to 1.
    pub confidence: f32,
    /// Word times; empty when they were not asked for.
    pub words: Vec<Word>,
}

/// One word with its time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Word {
    /// The word with its punctuation, without spaces around it.
    pub word: String,
    /// Seconds from the start of the recording.
    pub start: f64,
    /// Seconds from the start of the recording.
    pub end: f64,
    /// Mean probability of the word's tokens, 0 to 1.
    pub confidence: f32,
}
