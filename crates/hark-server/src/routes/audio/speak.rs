//! `POST /v1/tts`: a text in the voice of a reference clip.

use std::io::Cursor;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use hark_api::{ErrorKind, SpeakForm};
use hark_media::{CancelToken, Limits, Options, Source};
use hark_voice::{FileFormat, LANGUAGES, MAX_CHARACTERS, Reference};
use serde::Deserialize;
use utoipa::IntoParams;

use super::accept::accepted_format;
use super::{open, refuse_second};
use crate::app::App;
use crate::config::Consent;
use crate::engine::{EngineError, SpeechVoice};
use crate::error::Failure;
use crate::extract::Query;
use crate::idempotent::Canonical;
use crate::middleware::Identity;
use crate::multipart::Multipart;
use crate::panics;
use crate::probe::CancelOnDrop;
use crate::routes::transcribe::boolean;
use crate::routes::{
    AnyError, IdempotencyHeader, Invalid, Limited, Payment, Reused, TimedOut, TooLarge, Unauthorized, Unavailable,
};
use crate::speech_call::{self, Speech};

/// Bytes of a clip, which is kept in memory. Ten seconds of 192 kHz, 24 bits and two channels are 11.5 MB; the rest is for what else a file may carry, such as a picture.
const MAX_CLIP: usize = 16 << 20;
/// How long a clip may take to decode.
const DECODE_TIMEOUT: Duration = Duration::from_secs(30);

/// How the answer comes.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SpeakQuery {
    /// Whether the sound is sent as it is made, the first of it after one sentence; then there is no `X-Duration` and no `X-Generation-Time`.
    #[serde(default)]
    stream: bool,
}

/// Speak a text with the voice of a sample
///
/// `X-Voice` says what the voice is: matched, with the model's own voice with which the search began and how similar it became, or cloned, where the operator has set a model that can do it.
/// Every answer carries an inaudible watermark and says in its metadata that it is synthetic. `Accept` chooses `audio/wav`, `audio/flac`, `audio/mpeg` or `audio/ogg`. The sample is not kept. Costs 1 credit, when
/// it is answered; a stream, with its first sound.
#[utoipa::path(post, path = "/v1/tts", tag = "audio", operation_id = "speak",
    params(SpeakQuery, IdempotencyHeader),
    request_body(content = SpeakForm, content_type = "multipart/form-data"),
    responses((status = 200, description = "the spoken text",
            headers(
                ("X-Duration" = f64, description = "seconds of sound; not with `stream`"),
                ("X-Generation-Time" = f64, description = "seconds that making it took; not with `stream`"),
                ("X-Language" = String, description = "the code of the language that was spoken"),
                ("X-Voice" = String, description = "what the voice is, `matched; base=af_heart; similarity=0.46` or `cloned; model=chatterbox-multilingual`"),
                ("X-Speed" = f64, description = "how fast a matched voice speaks: as the sample does, 0.80 to 1.25; 1 for a cloned one")),
            content((Vec<u8> = "audio/wav"), (Vec<u8> = "audio/flac"), (Vec<u8> = "audio/mpeg"), (Vec<u8> = "audio/ogg"))),
        Invalid, Unauthorized, Payment, TooLarge, Reused, Limited, Unavailable, TimedOut, AnyError), security(("bearer" = [])))]
pub(crate) async fn speak(
    State(app): State<App>,
    identity: Identity,
    headers: HeaderMap,
    Query(query): Query<SpeakQuery>,
    request: Request,
) -> Result<Response, Failure> {
    let format: FileFormat = accepted_format(&headers)?.into();
    let form = open(&app, request).await?;
    let place = speech_call::admit(&app, &identity, true, format)?;
    let form = read(&app, form).await?;
    let reference = decode(&app, &identity, form.clip).await?;
    let canonical = Canonical::new("POST /v1/tts")
        .with("text", &form.text.as_str(), &"")?
        .with("language", &form.language, &None)?
        .with("format", &format.name(), &"wav")?
        .with("stream", &query.stream, &false)?
        .with_hash("reference", Some(reference.hash()));
    let speech = Speech {
        text: form.text,
        language: form.language,
        voice: SpeechVoice::Like(reference),
        speed: 1.0,
        format,
        is_streamed: query.stream,
    };
    speech_call::respond(&app, &identity, &headers, canonical, speech, place).await
}

/// The form, checked.
struct Form {
    text: String,
    /// None where it is to be found out.
    language: Option<String>,
    clip: Bytes,
}

async fn read(app: &App, mut form: Multipart) -> Result<Form, Failure> {
    let (mut text, mut language, mut consent, mut clip) = (None, None, None, None);
    while let Some(part) = form.next_part().await? {
        match part.name.as_str() {
            "text" => {
                refuse_second(text.is_some(), "text")?;
                // A character has at most four bytes.
                text = Some(form.text("text", 4 * MAX_CHARACTERS + 4).await?);
            }
            "language" => {
                refuse_second(language.is_some(), "language")?;
                language = Some(form.text("language", 64).await?);
            }
            "consent" => {
                refuse_second(consent.is_some(), "consent")?;
                consent = Some(boolean("consent", form.text("consent", 64).await?.trim())?);
            }
            "reference_audio" | "reference" => {
                refuse_second(clip.is_some(), "reference_audio")?;
                clip = Some(collect(&mut form).await?);
            }
            _ => {}
        }
    }
    let text = checked_text("text", text.unwrap_or_default())?;
    let clip = clip.filter(|clip| !clip.is_empty());
    let clip =
        clip.ok_or_else(|| Failure::invalid("`reference_audio` is missing: send a voice sample of 3 to 10 seconds"))?;
    let language = language.filter(|code| !code.is_empty() && code != "auto");
    if let Some(code) = language.as_ref().filter(|code| !LANGUAGES.contains(&code.as_str())) {
        return Err(Failure::invalid(format!("`language` {code:?} can't be spoken: choose {}", LANGUAGES.join(", "))));
    }
    check_consent(consent, app.config.voice.consent)?;
    Ok(Form { text, language, clip })
}

/// Whether a voice may be imitated. An operator may vouch for users who say nothing, not for one who says that there is no consent.
fn check_consent(stated: Option<bool>, policy: Consent) -> Result<(), Failure> {
    match (stated, policy) {
        (Some(true), _) | (None, Consent::Assumed) => Ok(()),
        (Some(false), _) => Err(Failure::invalid(
            "`consent` is false: a voice is imitated only if the person who speaks in `reference_audio` agrees",
        )),
        (None, Consent::Required) => Err(Failure::invalid(
            "`consent` is missing: send `consent=true` to state that the person who speaks in `reference_audio` agrees to have \
             their voice imitated",
        )),
    }
}

/// A text that can be spoken at once.
pub(crate) fn checked_text(name: &str, text: String) -> Result<String, Failure> {
    if text.trim().is_empty() {
        return Err(Failure::invalid(format!("`{name}` is missing: there is nothing to say")));
    }
    if text.chars().count() > MAX_CHARACTERS {
        return Err(Failure::invalid(format!("`{name}` is longer than {MAX_CHARACTERS} characters")));
    }
    Ok(text)
}

/// Reads the clip into memory: it is stored nowhere.
async fn collect(form: &mut Multipart) -> Result<Bytes, Failure> {
    let mut clip = BytesMut::new();
    while let Some(block) = form.chunk().await? {
        if clip.len() + block.len() > MAX_CLIP {
            let message = format!("`reference_audio` is larger than {} MB: 10 seconds need less", MAX_CLIP >> 20);
            return Err(Failure::new(ErrorKind::BodyTooLarge, message));
        }
        clip.extend_from_slice(&block);
    }
    Ok(clip.freeze())
}

/// Decodes the clip on a blocking thread, as one of the probes of the account.
async fn decode(app: &App, identity: &Identity, clip: Bytes) -> Result<Reference, Failure> {
    let owner = hark_store::Owner::Account(identity.account());
    let place = app.probes.enter(owner, identity.plan().concurrency() + 1, &app.metrics).await?;
    let cancel = CancelOnDrop(CancelToken::default());
    let (token, span) = (cancel.0.clone(), tracing::Span::current());
    let decoding = tokio::task::spawn_blocking(move || {
        let _place = place;
        let limits = Limits { ffmpeg_cpu_seconds: DECODE_TIMEOUT.as_secs(), ..Limits::default() };
        let options =
            Options { limits, cancel: token, deadline: Some(Instant::now() + DECODE_TIMEOUT), ..Options::default() };
        span.in_scope(|| Reference::read(Source::Seekable(Box::new(Cursor::new(clip))), &options))
    });
    match decoding.await {
        Ok(read) => read.map_err(|error| EngineError::from(error).into()),
        Err(error) => {
            tracing::error!(error = panics::ending(&error), "media.probe_panicked");
            Err(ErrorKind::Internal.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consent_is_stated_or_assumed_and_a_refusal_always_counts() {
        for (stated, policy, is_accepted) in [
            (Some(true), Consent::Required, true),
            (Some(true), Consent::Assumed, true),
            (None, Consent::Assumed, true),
            (None, Consent::Required, false),
            (Some(false), Consent::Required, false),
            (Some(false), Consent::Assumed, false),
        ] {
            let checked = check_consent(stated, policy).map_err(|failure| failure.error.status());
            assert_eq!(checked, if is_accepted { Ok(()) } else { Err(400) }, "{stated:?}, {policy:?}");
        }
    }
}
