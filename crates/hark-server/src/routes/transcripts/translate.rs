//! `POST /v1/transcripts/{id}/translate`: a transcript in another language, stored with it until its text changes.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use hark_api::{
    ErrorKind, Segment, TranscriptTranslation, TranscriptionResult, TranslateTranscriptRequest, TranslatedSegment,
};
use hark_store::{Derived, TranscriptId};
use hark_translate::{Cue, translate_cues};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::text::check;
use crate::app::App;
use crate::engine::base_language;
use crate::error::Failure;
use crate::extract::{Json, Path};
use crate::idempotent::Canonical;
use crate::middleware::Identity;
use crate::routes::{
    AnyError, IdempotencyHeader, Invalid, Limited, Missing, Payment, Reused, TimedOut, Unauthorized, Unavailable,
};
use crate::text_work;
use crate::translation::{self, Finished};

/// A translation as it is stored: times and speakers come from the transcript.
#[derive(Debug, Serialize, Deserialize)]
struct StoredTranslation {
    /// The hash of the text that was translated: an edit may end while a translation of the text before is under way.
    source_hash: String,
    source_language: String,
    model: String,
    /// One for each segment.
    texts: Vec<String>,
}

/// The hash of the segments' texts.
fn hash(transcript: &TranscriptionResult) -> String {
    let mut hash = Sha256::new();
    for segment in &transcript.segments {
        hash.update((segment.text.len() as u64).to_le_bytes());
        hash.update(&segment.text);
    }
    crate::mac::hex(&hash.finalize())
}

/// A language code as translations are stored by it; the language alone where no model is installed any more.
pub(super) fn language_code(app: &App, code: &str) -> Result<String, Failure> {
    match app.engines.translate() {
        Ok(engine) => Ok(engine.language_code(code)?),
        Err(_) => Ok(base_language(code)),
    }
}

/// The name of the stored translation into a language.
fn kind(language: &str) -> String {
    format!("translation:{language}")
}

/// The stored translation of this text; one of another text, or that can't be read, counts as none.
async fn stored(
    app: &App,
    identity: &Identity,
    id: TranscriptId,
    language: &str,
    transcript: &TranscriptionResult,
) -> Result<Option<StoredTranslation>, Failure> {
    let body = app.store.transcripts().derived(identity.account(), id, &kind(language)).await?;
    let stored = body.and_then(|body| serde_json::from_slice::<StoredTranslation>(&body).ok());
    Ok(stored
        .filter(|stored| stored.texts.len() == transcript.segments.len() && stored.source_hash == hash(transcript)))
}

/// The transcript in another language, for export: its segments with translated texts and without words, whose times are those of the spoken language.
///
/// 409 where there is no translation: to make one costs a credit, which a download does not.
pub(super) async fn translated(
    app: &App,
    identity: &Identity,
    id: TranscriptId,
    language: &str,
    transcript: TranscriptionResult,
) -> Result<TranscriptionResult, Failure> {
    let Some(stored) = stored(app, identity, id, language, &transcript).await? else {
        let message = format!(
            "the transcript has no translation into {language}: make one with POST /v1/transcripts/{}/translate \
             {{\"target_language\": \"{language}\"}}",
            id.0
        );
        return Err(Failure::new(ErrorKind::Conflict, message));
    };
    let segments = transcript.segments.into_iter().zip(stored.texts);
    let segments: Vec<Segment> =
        segments.map(|(segment, text)| Segment { text, words: Vec::new(), ..segment }).collect();
    let text = join(segments.iter().map(|segment| segment.text.as_str()));
    Ok(TranscriptionResult { text, language: language.to_owned(), segments, ..transcript })
}

/// The translation into a language that is stored with a transcript, as the request that made it was answered.
pub(super) async fn made(
    app: &App,
    identity: &Identity,
    id: TranscriptId,
    language: &str,
) -> Result<Option<TranscriptTranslation>, Failure> {
    let (_, transcript) = app.store.transcripts().text(identity.account(), id).await?;
    let stored = stored(app, identity, id, language, &transcript).await?;
    Ok(stored.map(|stored| answer(transcript, stored, language.to_owned(), true)))
}

fn join<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

/// What is answered: the texts with the times and speakers of the transcript.
fn answer(
    transcript: TranscriptionResult,
    stored: StoredTranslation,
    language: String,
    cached: bool,
) -> TranscriptTranslation {
    let text = join(stored.texts.iter().map(String::as_str));
    let segments = transcript.segments.into_iter().zip(stored.texts).map(|(segment, text)| TranslatedSegment {
        start: segment.start,
        end: segment.end,
        text,
        speaker: segment.speaker,
    });
    TranscriptTranslation {
        language,
        source_language: stored.source_language,
        text,
        segments: segments.collect(),
        model: stored.model,
        cached,
    }
}

/// Translate a transcript
///
/// Segments keep their times and speakers; a sentence that spans segments is translated as one and distributed over them. Costs 1 credit, when it is
/// made; a translation into the same language that was made before costs nothing. It is deleted when the text is edited. Exports take it with `?language=`.
#[utoipa::path(post, path = "/v1/transcripts/{id}/translate", tag = "transcripts", operation_id = "translateTranscript",
    params(("id" = i64, Path, description = "the transcript's number"), IdempotencyHeader),
    request_body = TranslateTranscriptRequest,
    responses((status = 200, body = TranscriptTranslation), Invalid, Unauthorized, Payment, Missing, Reused, Limited, Unavailable,
        TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn translate(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    headers: HeaderMap,
    Json(request): Json<TranslateTranscriptRequest>,
) -> Result<Response, Failure> {
    if request.target_language.trim().is_empty() {
        return Err(Failure::invalid("`target_language` is empty: give a code such as es"));
    }
    check(&app, &identity, id).await?;
    let language = language_code(&app, &request.target_language)?;
    let (saved, transcript) = app.store.transcripts().text(identity.account(), TranscriptId(id)).await?;
    let source = request.source_language.as_deref().filter(|code| *code != "auto");
    let source = source.map(|code| language_code(&app, code)).transpose()?;
    if !request.force
        && let Some(stored) = stored(&app, &identity, TranscriptId(id), &language, &transcript).await?
        && source.as_ref().is_none_or(|source| *source == stored.source_language)
    {
        return Ok(Answer(answer(transcript, stored, language, true)).into_response());
    }
    let canonical = Canonical::new("POST /v1/transcripts/{id}/translate").with("id", &id, &0)?.with(
        "request",
        &request,
        &TranslateTranscriptRequest::default(),
    )?;
    let known = Some(base_language(&transcript.language)).filter(|language| !language.is_empty());
    let source = source.or(known);
    let target = language.clone();
    let characters = transcript.text.chars().count();
    let owner = text_work::owner(&identity);
    let run = translation::run(&app, &identity, &headers, canonical, characters, move |engine, cancel| {
        let source = match source {
            Some(source) => source,
            None => engine.detect_language(&transcript.text)?,
        };
        let cues: Vec<Cue<'_>> = transcript
            .segments
            .iter()
            .map(|segment| Cue {
                text: &segment.text,
                speaker: segment.speaker.as_deref(),
                start: segment.start,
                end: segment.end,
            })
            .collect();
        let mut model = String::new();
        let texts = translate_cues(&cues, |texts| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            let done = engine.translate(&texts, Some(&source), &target, owner, cancel)?;
            model = done.model;
            Ok::<_, crate::engine::EngineError>(done.texts.into_iter().map(|(text, _)| text).collect())
        })?;
        let source_hash = hash(&transcript);
        Ok((transcript, StoredTranslation { source_hash, source_language: source, model, texts }))
    });
    let (call, (transcript, stored)) = match run.await? {
        Finished::New(call, done) => (call, done),
        Finished::Repeated(response) => return Ok(response),
    };
    let body = serde_json::to_vec(&stored).map_err(|_| Failure::from(ErrorKind::Internal))?;
    let kind = kind(&language);
    let revision = saved.text_revision;
    let derived = Derived { transcript: TranscriptId(id), revision, kind: &kind, body: &body, summary: None };
    call.complete(&headers, translation::NOTE, &answer(transcript, stored, language, false), Some(derived)).await
}
