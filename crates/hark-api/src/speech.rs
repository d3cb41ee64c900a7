//! Speech synthesis: its voices, and the request of OpenAI's clients.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A voice of speech synthesis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VoiceInfo {
    /// Its name.
    pub id: String,
    /// The code of the language that it speaks best, such as `en-us`.
    pub language: String,
    /// What it sounds like.
    pub gender: VoiceGender,
    /// The names of OpenAI's voices for which it speaks.
    pub aliases: Vec<String>,
}

/// Whether a voice sounds like a woman's or a man's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum VoiceGender {
    /// A woman's voice.
    Female,
    /// A man's voice.
    Male,
}

/// The voices of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VoiceList {
    /// By name.
    pub voices: Vec<VoiceInfo>,
}

/// The body of `POST /v1/audio/speech`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiSpeechRequest {
    /// What to say.
    #[schema(min_length = 1, max_length = 2000, pattern = r"\S")]
    pub input: String,
    /// A voice of `GET /v1/voices`, or one of OpenAI's: alloy, ash, ballad, cedar, coral, echo, fable, marin, nova, onyx, sage, shimmer, verse.
    #[schema(min_length = 1, max_length = 100)]
    pub voice: String,
    /// The model; this server has one.
    #[serde(default)]
    pub model: Option<String>,
    /// mp3, opus, flac, wav or pcm: 24 kHz, one channel; pcm has 16 bits a sample, little-endian.
    #[serde(default)]
    #[schema(default = "mp3", pattern = "^(mp3|opus|flac|wav|pcm)$")]
    pub response_format: Option<String>,
    /// How fast to speak. The voices speak at 0.5 to 2: what is beyond is spoken at the nearest of these.
    #[serde(default)]
    #[schema(default = 1.0, minimum = 0.25, maximum = 4)]
    pub speed: Option<f32>,
    /// Only `audio`.
    #[serde(default)]
    pub stream_format: Option<OpenAiStreamFormat>,
    /// How to speak; the voices of this server can't be told.
    #[serde(default)]
    pub instructions: Option<String>,
}

/// How sound is sent while it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OpenAiStreamFormat {
    /// As a file; OpenAI's service also sends events.
    Audio,
}
