//! `POST /v1/audio/speech`: the voices of the model for OpenAI's clients.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use hark_api::OpenAiSpeechRequest;
use hark_voice::{FileFormat, SPEEDS};

use super::{AnyError, Invalid, Limited, Payment, Reused, TimedOut, Unauthorized, Unavailable};
use crate::app::App;
use crate::engine::SpeechVoice;
use crate::error::Failure;
use crate::extract::Json;
use crate::idempotent::Canonical;
use crate::middleware::Identity;
use crate::routes::IdempotencyHeader;
use crate::routes::audio::speak::checked_text;
use crate::speech_call::{self, Speech};

/// The speeds that OpenAI's service takes.
const TAKEN_SPEEDS: std::ops::RangeInclusive<f32> = 0.25..=4.0;

/// Speak a text, as OpenAI's clients ask for it
///
/// In one of the voices of `GET /v1/voices`, or by the name of one of OpenAI's, for which a voice of this server speaks. The sound is sent as it is made. Every answer carries an
/// inaudible watermark and, except for `pcm`, says in its metadata that it is synthetic. Costs 1 credit, with its first sound.
#[utoipa::path(post, path = "/v1/audio/speech", tag = "openai", operation_id = "createSpeech",
    request_body = OpenAiSpeechRequest,
    params(IdempotencyHeader),
    responses((status = 200, description = "the spoken text",
            headers(
                ("X-Language" = String, description = "the code of the language that was spoken"),
                ("X-Voice" = String, description = "what the voice is, such as `preset; name=af_heart`"),
                ("X-Speed" = f64, description = "how fast it speaks: 0.5 to 2")),
            content((Vec<u8> = "audio/mpeg"), (Vec<u8> = "audio/ogg"), (Vec<u8> = "audio/flac"), (Vec<u8> = "audio/wav"),
                (Vec<u8> = "audio/pcm"))),
        Invalid, Unauthorized, Payment, Reused, Limited, Unavailable, TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn create(
    State(app): State<App>,
    identity: Identity,
    headers: HeaderMap,
    Json(request): Json<OpenAiSpeechRequest>,
) -> Result<Response, Failure> {
    let canonical = Canonical::new("POST /v1/audio/speech");
    let canonical = canonical.with("request", &request, &OpenAiSpeechRequest::default())?;
    let text = checked_text("input", request.input)?;
    let format = format(request.response_format.as_deref())?;
    let speed = request.speed.unwrap_or(1.0);
    if !TAKEN_SPEEDS.contains(&speed) {
        return Err(Failure::invalid(format!("`speed` is {speed}: give a number from 0.25 to 4")));
    }
    let voice = request.voice.trim().to_owned();
    if voice.is_empty() {
        return Err(Failure::invalid("`voice` is missing: GET /v1/voices lists the voices"));
    }
    let speech = Speech {
        text,
        language: None,
        voice: SpeechVoice::Named(voice),
        speed: speed.clamp(*SPEEDS.start(), *SPEEDS.end()),
        format,
        is_streamed: true,
    };
    let place = speech_call::admit(&app, &identity, false, format)?;
    speech_call::respond(&app, &identity, &headers, canonical, speech, place).await
}

fn format(name: Option<&str>) -> Result<FileFormat, Failure> {
    let name = name.unwrap_or("mp3");
    FileFormat::of_name(name).ok_or_else(|| {
        Failure::invalid(format!("`response_format` is {name:?}: this server makes mp3, opus, flac, wav and pcm"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_mp3_unless_named_and_aac_is_refused_with_those_there_are() {
        assert_eq!(format(None).unwrap(), FileFormat::Mp3);
        assert_eq!(format(Some("pcm")).unwrap(), FileFormat::Pcm);
        let message = format(Some("aac")).unwrap_err().error.message.into_owned();
        assert!(message.starts_with("`response_format`") && message.contains("mp3, opus"), "{message}");
    }
}
