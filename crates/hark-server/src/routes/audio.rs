//! Audio processing. There are no models for it yet: a valid request is answered with 503.

use axum::extract::{Request, State};
use axum::response::Response;
use hark_api::{EnhanceForm, ErrorKind, SpeakForm};

use crate::app::App;
use crate::error::Failure;
use crate::middleware::Identity;
use crate::multipart::Multipart;
use crate::routes::text::model_missing;
use crate::routes::{AnyError, Invalid, Payment, TooLarge, Unauthorized, Unavailable};

/// Characters of a text to speak.
const MAX_SPOKEN: usize = 2000;
/// A voice sample of 10 seconds is smaller than this in every format.
const MAX_SAMPLE: u64 = 32 << 20;
/// Languages of speech synthesis (contract, `POST /v1/tts`).
const SPOKEN: [&str; 23] = [
    "ar", "da", "de", "el", "en", "es", "fi", "fr", "he", "hi", "it", "ja", "ko", "ms", "nl", "no", "pl", "pt", "ru",
    "sv", "sw", "tr", "zh",
];

/// Take the noise out of a recording
#[utoipa::path(post, path = "/v1/enhance-audio", tag = "audio", operation_id = "enhanceAudio",
    request_body(content = EnhanceForm, content_type = "multipart/form-data"),
    responses((status = 200, description = "the recording without its noise", body = Vec<u8>, content_type = "audio/wav"),
        Invalid, Unauthorized, Payment, TooLarge, Unavailable, AnyError), security(("bearer" = [])))]
pub(crate) async fn enhance(State(app): State<App>, identity: Identity, request: Request) -> Result<Response, Failure> {
    let mut form = open(&app, request).await?;
    let mut has_file = false;
    while let Some(part) = form.next_part().await? {
        if part.name == "file" {
            refuse_second(has_file, "file")?;
            has_file = drop_file(&mut form, identity.plan().max_upload()).await? > 0;
        }
    }
    if !has_file {
        return Err(Failure::invalid("`file` is missing: send the recording as the form field `file`"));
    }
    Err(model_missing("noise reduction"))
}

/// Speak a text with the voice of a sample
#[utoipa::path(post, path = "/v1/tts", tag = "audio", operation_id = "speak",
    request_body(content = SpeakForm, content_type = "multipart/form-data"),
    responses((status = 200, description = "the spoken text", body = Vec<u8>, content_type = "audio/wav"),
        Invalid, Unauthorized, Payment, TooLarge, Unavailable, AnyError), security(("bearer" = [])))]
pub(crate) async fn speak(State(app): State<App>, _: Identity, request: Request) -> Result<Response, Failure> {
    let mut form = open(&app, request).await?;
    let (mut text, mut language, mut has_sample) = (None, None, false);
    while let Some(part) = form.next_part().await? {
        match part.name.as_str() {
            "text" => {
                refuse_second(text.is_some(), "text")?;
                // A character has at most four bytes.
                text = Some(form.text("text", 4 * MAX_SPOKEN + 4).await?);
            }
            "language" => {
                refuse_second(language.is_some(), "language")?;
                language = Some(form.text("language", 64).await?);
            }
            "reference_audio" | "reference" => {
                refuse_second(has_sample, "reference_audio")?;
                has_sample = drop_file(&mut form, MAX_SAMPLE).await? > 0;
            }
            _ => {}
        }
    }
    let text = text.filter(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| Failure::invalid("`text` is missing: there is nothing to say"))?;
    if text.chars().count() > MAX_SPOKEN {
        return Err(Failure::invalid(format!("`text` is longer than {MAX_SPOKEN} characters")));
    }
    if !has_sample {
        return Err(Failure::invalid("`reference_audio` is missing: send a voice sample of 3 to 10 seconds"));
    }
    if let Some(language) = language.filter(|code| code != "auto" && !SPOKEN.contains(&code.as_str())) {
        return Err(Failure::invalid(format!("`language` {language:?} can't be spoken: choose {}", SPOKEN.join(", "))));
    }
    Err(model_missing("speech synthesis"))
}

async fn open(app: &App, request: Request) -> Result<Multipart, Failure> {
    let (parts, body) = request.into_parts();
    Multipart::open(&parts.headers, body, app.config.idle_timeout.duration()).await
}

pub(crate) fn refuse_second(is_second: bool, name: &str) -> Result<(), Failure> {
    if is_second { Err(Failure::invalid(format!("the field `{name}` was sent twice"))) } else { Ok(()) }
}

/// Reads a file without storing it; returns its size in bytes.
async fn drop_file(form: &mut Multipart, max_bytes: u64) -> Result<u64, Failure> {
    let mut bytes = 0;
    while let Some(block) = form.chunk().await? {
        bytes += block.len() as u64;
        if bytes > max_bytes {
            return Err(ErrorKind::FileTooLarge.into());
        }
    }
    Ok(bytes)
}
