//! Saved transcripts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, Type};

use crate::{DateTime, Segment};

/// How far a transcript is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TranscriptStatus {
    /// It waits.
    Queued,
    /// It is being worked on.
    Processing,
    /// It is there.
    Completed,
    /// It could not be made; `error` says why.
    Failed,
}

impl TranscriptStatus {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            TranscriptStatus::Queued => "queued",
            TranscriptStatus::Processing => "processing",
            TranscriptStatus::Completed => "completed",
            TranscriptStatus::Failed => "failed",
        }
    }
}

/// A transcript as the list shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptSummary {
    /// Its number.
    pub id: i64,
    /// What its owner calls it; at first the name of the file.
    pub title: String,
    /// How far it is.
    pub status: TranscriptStatus,
    /// Detected or given language code; `auto` until it is known.
    pub language: String,
    /// Length of the audio.
    pub duration_seconds: f64,
    /// Words recognized.
    pub word_count: i64,
    /// Where it came from: api, web or stream.
    pub source_type: String,
    /// When it was uploaded.
    pub created_at: DateTime,
    /// The token of its public page while it is shared.
    pub share_token: Option<String>,
}

/// One page of transcripts, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptPage {
    /// This page.
    pub transcripts: Vec<TranscriptSummary>,
    /// How many match on all pages.
    pub total: i64,
    /// Which page this is, from 1.
    pub page: i64,
    /// Transcripts a page.
    pub per_page: i64,
}

/// A transcript with its words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptDetail {
    /// Its number.
    pub id: i64,
    /// What its owner calls it.
    pub title: String,
    /// How far it is.
    pub status: TranscriptStatus,
    /// Detected or given language code; `auto` until it is known.
    pub language: String,
    /// Length of the audio.
    pub duration_seconds: f64,
    /// Words recognized.
    pub word_count: i64,
    /// Speakers told apart.
    pub num_speakers: i64,
    /// Where it came from: api, web or stream.
    pub source_type: String,
    /// The summary, where one was asked for.
    pub summary: Option<String>,
    /// Whether it is sealed on disk.
    pub is_encrypted: bool,
    /// When it was uploaded.
    pub created_at: DateTime,
    /// The whole text; while it is processed, what was decoded so far.
    pub text: String,
    /// What was said, in order of time; while it is processed, what was decoded so far, without speakers and words.
    pub segments: Vec<Segment>,
    /// The token of its public page while it is shared.
    pub share_token: Option<String>,
    /// Why it failed, where it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What is wrong or remarkable about the recording; not there when there is nothing to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// `GET /v1/transcripts/{id}/waveform`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Waveform {
    /// Length of the audio in seconds.
    #[schema(minimum = 0)]
    pub duration: f64,
    /// How many peaks there are.
    #[schema(minimum = 100, maximum = 4000)]
    pub points: i64,
    /// The absolute peak in each of so many equal parts of the recording, 0 to 100 of full scale.
    #[schema(schema_with = peaks)]
    pub peaks: Vec<i32>,
}

fn peaks() -> Schema {
    let description = "The absolute peak in each of so many equal parts of the recording, 0 to 100 of full scale.";
    let peak = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(100));
    ArrayBuilder::new().items(peak).min_items(Some(100)).max_items(Some(4000)).description(Some(description)).into()
}

/// `GET /v1/transcripts/{id}/status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptState {
    /// How far it is.
    pub status: TranscriptStatus,
    /// Percent of the audio decoded; never goes back.
    #[schema(minimum = 0, maximum = 100)]
    pub progress: u8,
    /// Its place in the queue, from 1; null once it is being worked on.
    #[schema(minimum = 1)]
    pub queue_position: Option<u64>,
    /// Length of the audio in seconds, once completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// Words recognized, once completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub word_count: Option<i64>,
    /// Language code, once completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Why it failed, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What `PATCH /v1/transcripts/{id}` changes; what is left out stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptChange {
    /// A new title.
    #[schema(min_length = 1, max_length = 500, pattern = r"\S")]
    pub title: Option<String>,
    /// Whether everybody with the token may read it. Turning it on makes a new token; turning it off ends the old one for ever.
    pub shared: Option<bool>,
    /// Replaces the token of a shared transcript: the old address is dead.
    pub rotate_share_token: Option<bool>,
    /// Names for speakers, by label or by the name they have; an empty name takes the name away.
    pub speaker_names: Option<BTreeMap<String, String>>,
    /// Corrected texts and speakers of segments.
    #[serde(default, deserialize_with = "crate::object::list")]
    pub segments: Option<Vec<SegmentChange>>,
}

/// A corrected segment: its text, its speaker, or both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SegmentChange {
    /// Which segment, counted from 0 in the order of the transcript.
    #[schema(minimum = 0)]
    #[serde(deserialize_with = "crate::integer::integer")]
    pub index: i64,
    /// Its new text; word times are kept for the words that stay.
    #[schema(max_length = 100_000)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Who says it: a label or name of a speaker of the transcript. A name that none has makes a new speaker; an empty one takes the speaker away.
    #[schema(max_length = 200)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
}

/// A transcript as everybody with its token sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SharedTranscript {
    /// What its owner calls it.
    pub title: String,
    /// Detected or given language code.
    pub language: String,
    /// Length of the audio.
    pub duration_seconds: f64,
    /// Words recognized.
    pub word_count: i64,
    /// When it was uploaded.
    pub created_at: DateTime,
    /// The whole text.
    pub text: String,
    /// What was said, in order of time.
    pub segments: Vec<Segment>,
}

/// An answer that only says that it was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// Always true.
    pub ok: bool,
}
