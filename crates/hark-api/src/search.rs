//! Search over the transcripts of an account.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DateTime;

/// What a search compares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchMode {
    /// Words and meanings; words alone where no embedding model is installed.
    #[default]
    All,
    /// Words.
    Text,
    /// Meanings.
    Meaning,
}

/// Passages in which something was found, best first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchAnswer {
    /// The passages.
    pub hits: Vec<SearchHit>,
    /// Whether more were found than these.
    pub more: bool,
    /// What was compared: `text` where `all` was asked for and no embedding model is installed.
    pub mode: SearchMode,
    /// Transcripts of the account that are indexed.
    pub indexed: i64,
    /// Transcripts of the account that are not indexed yet, or are being indexed again.
    pub pending: i64,
}

/// A passage in which something was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchHit {
    /// The transcript that it is from.
    pub transcript_id: i64,
    /// The title of the transcript; at first the name of the file.
    pub title: String,
    /// When the transcript was uploaded.
    pub created_at: DateTime,
    /// Seconds from the start of the recording.
    pub start_time: f64,
    /// Seconds from the start of the recording.
    pub end_time: f64,
    /// Who speaks at its beginning.
    pub speaker: Option<String>,
    /// Its first segment, from 0.
    pub segment_order: i64,
    /// What is said.
    pub text: String,
    /// Where the words that were searched for stand in `text`.
    pub highlights: Vec<SearchHighlight>,
    /// Higher is better; only comparable within one answer.
    pub score: f64,
}

/// A place in a text, in Unicode scalar values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SearchHighlight {
    /// The first character, from 0.
    pub start: usize,
    /// Behind the last character.
    pub end: usize,
    /// When the segment begins in which it stands, in seconds.
    pub start_time: f64,
}
