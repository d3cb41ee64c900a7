//! The types of OpenAI's audio API, as its official clients send and read them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Channels;

/// The form of `POST /v1/audio/transcriptions`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiTranscriptionForm {
    /// Audio or video.
    #[schema(value_type = String, format = Binary, min_length = 1, content_media_type = "application/octet-stream")]
    pub file: Vec<u8>,
    /// `whisper-1`, `gpt-4o-transcribe` or any name of `GET /v1/models`.
    #[schema(default = "whisper-1")]
    pub model: Option<String>,
    /// Language code, or `multi`; found out when not given.
    pub language: Option<String>,
    /// Text that could stand before the recording: names, spelling and style follow it.
    #[schema(max_length = 4000)]
    pub prompt: Option<String>,
    /// json, text, srt, verbose_json, vtt or diarized_json.
    #[schema(default = "json")]
    pub response_format: Option<OpenAiFormat>,
    /// 0 searches for the likeliest words; more lets the model choose freely.
    #[schema(minimum = 0, maximum = 1, default = 0)]
    pub temperature: Option<f32>,
    /// What `verbose_json` has times for; segments when not given.
    #[serde(rename = "timestamp_granularities[]")]
    pub timestamp_granularities: Option<Vec<OpenAiGranularity>>,
    /// Whether to answer with events, the text in pieces.
    #[schema(default = false)]
    pub stream: Option<bool>,
    /// What becomes of several channels, as in `POST /v1/transcribe`; no field of OpenAI's.
    #[schema(default = "auto")]
    pub channels: Option<Channels>,
}

/// The form of `POST /v1/audio/translations`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiTranslationForm {
    /// Audio or video.
    #[schema(value_type = String, format = Binary, min_length = 1, content_media_type = "application/octet-stream")]
    pub file: Vec<u8>,
    /// `whisper-1` or any name of `GET /v1/models`.
    #[schema(default = "whisper-1")]
    pub model: Option<String>,
    /// English text that could stand before the recording.
    #[schema(max_length = 4000)]
    pub prompt: Option<String>,
    /// json, text, srt, verbose_json or vtt.
    #[schema(default = "json")]
    pub response_format: Option<OpenAiFormat>,
    /// 0 searches for the likeliest words; more lets the model choose freely.
    #[schema(minimum = 0, maximum = 1, default = 0)]
    pub temperature: Option<f32>,
    /// What becomes of several channels, as in `POST /v1/transcribe`; no field of OpenAI's.
    #[schema(default = "auto")]
    pub channels: Option<Channels>,
}

/// How OpenAI's paths answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OpenAiFormat {
    /// The text.
    #[default]
    Json,
    /// The text without JSON around it.
    Text,
    /// SubRip subtitles.
    Srt,
    /// The text, its segments, and its words where asked for.
    VerboseJson,
    /// WebVTT subtitles.
    Vtt,
    /// The text and its segments, each with who says it.
    DiarizedJson,
}

/// What has times in `verbose_json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OpenAiGranularity {
    /// Every word.
    Word,
    /// Every sentence or phrase.
    Segment,
}

/// `response_format` json.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiTranscription {
    /// The whole text.
    pub text: String,
    /// What it is charged by.
    pub usage: OpenAiUsage,
    /// What is wrong or remarkable about the recording; not there when there is nothing to say, and no field of OpenAI's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// `response_format` verbose_json.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiVerbose {
    /// `transcribe` or `translate`.
    pub task: String,
    /// The language by its English name, in lower case; `english` for translations.
    pub language: String,
    /// Seconds of audio.
    pub duration: f64,
    /// The whole text.
    pub text: String,
    /// Sentences and phrases, unless only words were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments: Option<Vec<OpenAiSegment>>,
    /// Words, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<Vec<OpenAiWord>>,
    /// What it is charged by.
    pub usage: OpenAiUsage,
    /// What is wrong or remarkable about the recording; not there when there is nothing to say, and no field of OpenAI's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A segment of `verbose_json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiSegment {
    /// Its place in the list.
    pub id: u32,
    /// Hundredths of seconds before it.
    pub seek: u64,
    /// Seconds from the start of the recording.
    pub start: f64,
    /// Seconds from the start of the recording.
    pub end: f64,
    /// The words.
    pub text: String,
    /// Always empty: tokens are not kept.
    pub tokens: Vec<u32>,
    /// The temperature that was asked for.
    pub temperature: f32,
    /// The logarithm of the segment's mean probability.
    pub avg_logprob: f32,
    /// How much smaller its text becomes when compressed; above 2.4 it may go in circles.
    pub compression_ratio: f32,
    /// Always 0: what is no speech is cut away before words are looked for.
    pub no_speech_prob: f32,
    /// The code of the language that is spoken in it; no field of OpenAI's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
}

/// `response_format` diarized_json.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiDiarized {
    /// `transcribe`.
    pub task: String,
    /// Seconds of audio.
    pub duration: f64,
    /// The whole text.
    pub text: String,
    /// What was said, by whom.
    pub segments: Vec<OpenAiDiarizedSegment>,
    /// What it is charged by.
    pub usage: OpenAiUsage,
    /// What is wrong or remarkable about the recording; not there when there is nothing to say, and no field of OpenAI's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A segment of `diarized_json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiDiarizedSegment {
    /// `transcript.text.segment`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its name in this answer.
    pub id: String,
    /// Seconds from the start of the recording.
    pub start: f64,
    /// Seconds from the start of the recording.
    pub end: f64,
    /// The words.
    pub text: String,
    /// `A` for who speaks first, `B` for the next, and so on; empty where nobody was told apart.
    pub speaker: String,
}

/// A word of `verbose_json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiWord {
    /// The word with its punctuation.
    pub word: String,
    /// Seconds from the start of the recording.
    pub start: f64,
    /// Seconds from the start of the recording.
    pub end: f64,
}

/// What a transcription is charged by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OpenAiUsage {
    /// The length of the audio.
    Duration {
        /// Seconds, rounded up.
        seconds: u64,
    },
}

/// An event of an answer to `stream=true`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type")]
pub enum OpenAiEvent {
    /// More of the text.
    #[serde(rename = "transcript.text.delta")]
    Delta {
        /// What comes behind the text so far.
        delta: String,
    },
    /// The end.
    #[serde(rename = "transcript.text.done")]
    Done {
        /// The whole text.
        text: String,
        /// What it is charged by.
        usage: OpenAiUsage,
    },
}

/// The body of `POST /v1/embeddings`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiEmbeddingsRequest {
    /// A text or several.
    pub input: crate::EmbedText,
    /// The model; this server has one.
    #[serde(default)]
    pub model: Option<String>,
    /// How vectors travel.
    #[serde(default)]
    pub encoding_format: OpenAiEncoding,
    /// Numbers of a vector; only 384.
    #[serde(default)]
    #[schema(minimum = 384, maximum = 384)]
    pub dimensions: Option<u32>,
}

/// The answer of `POST /v1/embeddings`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiEmbeddings {
    /// `list`.
    pub object: String,
    /// A vector for each text.
    pub data: Vec<OpenAiEmbedding>,
    /// The model that ran.
    pub model: String,
    /// Tokens of all texts.
    pub usage: OpenAiEmbeddingUsage,
}

/// The vector of one text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiEmbedding {
    /// `embedding`.
    pub object: String,
    /// Which text it is of, from 0.
    pub index: u32,
    /// The vector.
    pub embedding: OpenAiVector,
}

/// A vector as `encoding_format` asks for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum OpenAiVector {
    /// Its numbers.
    Float(Vec<f32>),
    /// The bytes of little-endian 32-bit numbers in base64.
    Base64(String),
}

/// Tokens of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiEmbeddingUsage {
    /// Tokens of the texts.
    pub prompt_tokens: u64,
    /// The same.
    pub total_tokens: u64,
}

/// How vectors travel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OpenAiEncoding {
    /// As numbers.
    #[default]
    Float,
    /// As the bytes of little-endian 32-bit numbers in base64.
    Base64,
}

/// A model as OpenAI's clients read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiModel {
    /// The name that requests use.
    pub id: String,
    /// Always `model`.
    pub object: String,
    /// Always 0: when a model was made is not kept.
    pub created: i64,
    /// Who made it.
    pub owned_by: String,
    /// Most tokens of a prompt and its answer, of a language model where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<u64>,
}

/// The body of every answer of OpenAI's paths that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiError {
    /// What went wrong.
    pub error: OpenAiErrorDetail,
}

/// What went wrong, as OpenAI's clients read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiErrorDetail {
    /// What went wrong, with what, and what to do.
    pub message: String,
    /// The family of the error, such as `invalid_request_error`.
    pub r#type: String,
    /// The field that is at fault, where it is one.
    pub param: Option<String>,
    /// Which error, such as `model_not_found`.
    pub code: Option<String>,
}
