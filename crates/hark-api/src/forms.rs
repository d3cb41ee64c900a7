//! Forms: what `multipart/form-data` requests hold. Values travel as text; these types describe them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The form of `POST /v1/transcribe`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscribeForm {
    /// Audio or video.
    #[schema(value_type = String, format = Binary, content_media_type = "application/octet-stream")]
    pub file: Vec<u8>,
    /// The model; `large-v3-turbo` when not given. `GET /v1/models` lists them.
    #[schema(default = "large-v3-turbo")]
    pub model: Option<String>,
    /// Language code, or `auto`.
    #[schema(default = "auto")]
    pub language: Option<String>,
    /// Whether to tell speakers apart.
    #[schema(default = true)]
    pub diarize: Option<bool>,
    /// How many speakers there are; 0 finds out.
    #[schema(default = 0, minimum = 0, maximum = 100)]
    pub speakers: Option<u32>,
    /// json, txt, srt or vtt.
    #[schema(default = "json")]
    pub response_format: Option<ResponseFormat>,
    /// Text that could stand before the recording: names, spelling and style follow it.
    #[schema(max_length = 4000)]
    pub prompt: Option<String>,
    /// Words to expect, with commas.
    #[schema(max_length = 4000)]
    pub hotwords: Option<String>,
    /// Whether to write English whatever is spoken.
    #[schema(default = false)]
    pub translate: Option<bool>,
    /// Whether every word gets its time.
    #[schema(default = true)]
    pub word_timestamps: Option<bool>,
    /// Where to send the result once it is there; refused unless the server allows it.
    #[schema(max_length = 2000)]
    pub webhook_url: Option<String>,
}

/// How `POST /v1/transcribe` answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResponseFormat {
    /// A `TranscriptionResult`.
    #[default]
    Json,
    /// Plain text.
    Txt,
    /// SubRip subtitles.
    Srt,
    /// WebVTT subtitles.
    Vtt,
}

/// The form of `POST /v1/enhance-audio`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EnhanceForm {
    /// Audio or video.
    #[schema(value_type = String, format = Binary, content_media_type = "application/octet-stream")]
    pub file: Vec<u8>,
}

/// The form of `POST /v1/tts`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SpeakForm {
    /// What to say.
    #[schema(min_length = 1, max_length = 2000)]
    pub text: String,
    /// A voice sample of 3 to 10 seconds; may also be called `reference`.
    #[schema(value_type = String, format = Binary, content_media_type = "application/octet-stream")]
    pub reference_audio: Vec<u8>,
    /// Language code, or `auto`.
    #[schema(default = "auto")]
    pub language: Option<String>,
}
