//! Forms: what `multipart/form-data` requests hold. Values travel as text; these types describe them.

use hark_transcript::VoiceActivity;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};

use crate::Channels;

/// The form of `POST /v1/transcribe`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TranscribeForm {
    /// Audio or video; this or `upload` is needed.
    #[schema(value_type = Option<String>, format = Binary, min_length = 1, content_media_type = "application/octet-stream")]
    pub file: Option<Vec<u8>>,
    /// A complete upload of `/v1/uploads` instead of `file`; the job that is accepted consumes it. Needs an account.
    #[schema(minimum = 1)]
    pub upload: Option<i64>,
    /// The model; `large-v3-turbo` when not given. `GET /v1/models` lists them.
    #[schema(default = "large-v3-turbo")]
    pub model: Option<String>,
    /// Language code, `auto`, or `multi`: each part of the recording in the language that is spoken there.
    #[schema(default = "auto")]
    pub language: Option<String>,
    /// Whether to tell speakers apart.
    #[schema(schema_with = diarize)]
    pub diarize: Option<bool>,
    /// How many speakers there are; 0 finds out.
    #[schema(default = 0, minimum = 0, maximum = 100)]
    pub speakers: Option<u32>,
    /// Whether speakers whose voices the account knows are named; tells speakers apart whatever `diarize` says. Needs an account.
    #[schema(schema_with = identify)]
    pub identify: Option<bool>,
    /// What becomes of several channels: `auto` transcribes two that share nothing apart, as those of a recorded call, and mixes all others; `separate` transcribes each by
    /// itself, as a speaker: `SPEAKER_00` is the first channel; `mono` mixes them. At most 8 are kept apart.
    #[schema(default = "auto")]
    pub channels: Option<Channels>,
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
    #[schema(schema_with = translate)]
    pub translate: Option<bool>,
    /// Which sound is transcribed: `off` takes all of it, for singing and speech under loud music; `gentle` what is speech or may be; `strict`
    /// only what is speech for sure.
    #[schema(default = "gentle")]
    pub vad: Option<VoiceActivity>,
    /// Whether every word gets its time.
    #[schema(schema_with = word_timestamps)]
    pub word_timestamps: Option<bool>,
    /// Where to send the result once it is there; refused unless the server allows it.
    #[schema(max_length = 2000)]
    pub webhook_url: Option<String>,
}

/// A yes or no as forms write it: `true`, `false`, `1` or `0`.
fn yes_or_no(description: &str, default: bool) -> Object {
    let both = SchemaType::Array(vec![Type::Boolean, Type::Integer]);
    let answer = ObjectBuilder::new().schema_type(both).minimum(Some(0)).maximum(Some(1));
    answer.description(Some(description)).default(Some(default.into())).build()
}

fn diarize() -> Object {
    yes_or_no("Whether to tell speakers apart.", true)
}

fn identify() -> Object {
    let description = "Whether speakers whose voices the account knows are named; tells speakers apart whatever `diarize` says. Needs an account.";
    yes_or_no(description, false)
}

fn translate() -> Object {
    yes_or_no("Whether to write English whatever is spoken.", false)
}

fn consent() -> Object {
    let description = "The statement that the person who speaks in the sample agrees to have their voice imitated: `true` or `1`. The operator of a server may vouch for all \
                       users instead; then it may be left out. `false` is always refused.";
    let both = SchemaType::Array(vec![Type::Boolean, Type::Integer]);
    let answer = ObjectBuilder::new().schema_type(both).minimum(Some(1)).maximum(Some(1));
    answer.description(Some(description)).enum_values(Some([serde_json::json!(true), serde_json::json!(1)])).build()
}

fn word_timestamps() -> Object {
    yes_or_no("Whether every word gets its time.", true)
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

/// The form of `POST /v1/speakers`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EnrollForm {
    /// Who speaks.
    #[schema(min_length = 1, max_length = 200, pattern = r"\S")]
    pub name: String,
    /// Audio or video in which only that person speaks: at least 3 seconds of speech, better 10 or more, at most 10 minutes.
    #[schema(value_type = String, format = Binary, min_length = 1, content_media_type = "application/octet-stream")]
    pub file: Vec<u8>,
}

/// The form of `POST /v1/enhance-audio`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EnhanceForm {
    /// Audio or video; this or `upload` is needed.
    #[schema(value_type = Option<String>, format = Binary, min_length = 1, content_media_type = "application/octet-stream")]
    pub file: Option<Vec<u8>>,
    /// A complete upload of `/v1/uploads` instead of `file`; the job that is accepted consumes it. Needs an account.
    #[schema(minimum = 1)]
    pub upload: Option<i64>,
    /// By how many dB noise is reduced at most; 100 is no limit.
    #[schema(minimum = 0, maximum = 100, default = 100)]
    pub strength: Option<f32>,
}

/// The form of `POST /v1/watermark/detect`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WatermarkForm {
    /// Audio or video: at most 100 MB and 20 minutes, at least a second; a mark is read from about five seconds of speech.
    #[schema(value_type = String, format = Binary, min_length = 1, content_media_type = "application/octet-stream")]
    pub file: Vec<u8>,
}

/// The form of `POST /v1/tts`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SpeakForm {
    /// What to say.
    #[schema(min_length = 1, max_length = 2000, pattern = r"\S")]
    pub text: String,
    /// A voice sample of 3 to 10 seconds; may also be called `reference`.
    #[schema(value_type = String, format = Binary, min_length = 1, content_media_type = "application/octet-stream")]
    pub reference_audio: Vec<u8>,
    /// Language code, or `auto`.
    #[schema(
        default = "auto",
        pattern = "^(auto|ar|da|de|el|en|es|fi|fr|he|hi|it|ja|ko|ms|nl|no|pl|pt|ru|sv|sw|tr|zh)$"
    )]
    pub language: Option<String>,
    /// The statement that the person who speaks in the sample agrees to have their voice imitated.
    #[schema(schema_with = consent)]
    pub consent: bool,
}
