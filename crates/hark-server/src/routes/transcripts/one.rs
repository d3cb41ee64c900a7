//! One transcript: show, change, delete.

use std::collections::BTreeMap;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use hark_api::{DateTime, Done, TranscriptChange, TranscriptDetail, TranscriptionResult};
use hark_store::{AccountId, SegmentEdit, Status, Transcript, TranscriptEdit, TranscriptId};

use crate::app::App;
use crate::audit;
use crate::error::Failure;
use crate::extract::{Json, Path};
use crate::middleware::Identity;
use crate::routes::{AnyError, Changed, Invalid, Missing, Unauthorized};
use crate::wire::{wire_language, wire_status};

const MAX_TITLE: usize = 500;
const MAX_NAME: usize = 200;
const MAX_SEGMENT: usize = 100_000;

/// A transcript with its words
///
/// While it is being made, `text` and `segments` are a draft: what was decoded so far, without speakers and the times of words. Afterwards `ETag` is the version for
/// `If-Match` of a change.
#[utoipa::path(get, path = "/v1/transcripts/{id}", tag = "transcripts", operation_id = "showTranscript",
    params(("id" = i64, Path, description = "the transcript's number")),
    responses((status = 200, body = TranscriptDetail), Unauthorized, Missing, AnyError), security(("bearer" = [])))]
pub(crate) async fn show(State(app): State<App>, identity: Identity, Path(id): Path<i64>) -> Result<Response, Failure> {
    so_far(&app, identity.account(), TranscriptId(id)).await
}

/// A transcript of an account as its owner sees it, with its version; a draft, which has none, while it is being made.
async fn so_far(app: &App, account: AccountId, id: TranscriptId) -> Result<Response, Failure> {
    let (transcript, text) = app.store.transcripts().text_so_far(account, id).await?;
    let has_ended = matches!(transcript.status, Status::Completed | Status::Failed);
    let version = has_ended.then(|| transcript.version());
    let mut response = Answer(wire_detail(transcript, text)).into_response();
    if let Some(tag) = version.and_then(|version| HeaderValue::from_str(&format!("\"{version}\"")).ok()) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

/// The versions that `If-Match` names; `None` without the header, and where any will do.
fn expected(headers: &HeaderMap) -> Option<Vec<String>> {
    let given: Vec<&str> = headers.get_all(header::IF_MATCH).iter().filter_map(|value| value.to_str().ok()).collect();
    let tags = given.iter().flat_map(|value| value.split(',')).map(str::trim).filter(|tag| !tag.is_empty());
    // A proxy that compresses turns the tags that it passes on into weak ones: they still name the version.
    let tags: Vec<&str> = tags.map(|tag| tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"')).collect();
    let is_any = !headers.contains_key(header::IF_MATCH) || tags.contains(&"*");
    (!is_any).then(|| tags.into_iter().map(str::to_owned).collect())
}

/// A transcript of an account as its owner keeps it: without a draft.
pub(crate) async fn detail(app: &App, account: AccountId, id: TranscriptId) -> Result<TranscriptDetail, Failure> {
    let (transcript, text) = app.store.transcripts().text(account, id).await?;
    Ok(wire_detail(transcript, text))
}

fn wire_detail(transcript: Transcript, text: TranscriptionResult) -> TranscriptDetail {
    TranscriptDetail {
        id: transcript.id.0,
        title: transcript.title,
        status: wire_status(transcript.status),
        language: wire_language(transcript.language),
        duration_seconds: transcript.duration_seconds,
        word_count: transcript.word_count,
        num_speakers: transcript.num_speakers,
        source_type: transcript.source_type,
        summary: transcript.summary,
        is_encrypted: transcript.is_encrypted,
        created_at: DateTime(transcript.created_at),
        text: text.text,
        segments: text.segments,
        share_token: transcript.share_token,
        error: transcript.error,
        warnings: text.warnings,
    }
}

/// Change a transcript: its title, its sharing, its speakers, its text
///
/// With `If-Match` only if it still has that version (the `ETag` of `GET`, and of the answer here): 412 otherwise.
#[utoipa::path(patch, path = "/v1/transcripts/{id}", tag = "transcripts", operation_id = "changeTranscript",
    params(("id" = i64, Path, description = "the transcript's number")), request_body = TranscriptChange,
    responses((status = 200, body = TranscriptDetail), Invalid, Unauthorized, Missing, Changed, AnyError), security(("bearer" = [])))]
pub(crate) async fn change(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    headers: HeaderMap,
    Json(change): Json<TranscriptChange>,
) -> Result<Response, Failure> {
    let edit = TranscriptEdit { expected: expected(&headers), ..edit(change)? };
    let id = TranscriptId(id);
    match app.store.transcripts().edit(identity.account(), id, &edit).await {
        Ok(_) => {
            app.index_due.notify_one();
            so_far(&app, identity.account(), id).await
        }
        Err(hark_store::Error::NotFound(what)) if what != "transcript" => {
            Err(Failure::invalid(format!("the transcript has no such {what}")))
        }
        Err(error) => Err(error.into()),
    }
}

fn edit(change: TranscriptChange) -> Result<TranscriptEdit, Failure> {
    let too_long = |text: &str, most: usize| text.chars().count() > most;
    let title = change.title.map(|title| title.trim().to_owned());
    if title.as_ref().is_some_and(|title| title.is_empty() || too_long(title, MAX_TITLE)) {
        return Err(Failure::invalid(format!("`title` must have 1 to {MAX_TITLE} characters")));
    }
    let speakers = change.speaker_names.unwrap_or_default();
    if speakers.keys().any(|label| too_long(label, MAX_NAME)) {
        return Err(Failure::invalid(format!("a speaker's name may have {MAX_NAME} characters")));
    }
    let segments = change.segments.unwrap_or_default();
    let given = segments.iter().filter_map(|segment| segment.speaker.as_ref());
    speakers.values().chain(given).try_for_each(|name| check_name(name))?;
    let speakers = speakers.into_iter().map(|(label, name)| (label, name.trim().to_owned())).collect();
    // Line breaks and tabs are blanks to every format; the rest, such as NUL, no file should hold.
    let is_unwanted = |c: char| c.is_control() && !c.is_whitespace();
    let texts = || segments.iter().filter_map(|segment| segment.text.as_ref());
    if title.iter().chain(texts()).any(|text| text.contains(is_unwanted)) {
        return Err(Failure::invalid("titles and texts must not hold control characters such as NUL"));
    }
    if segments.iter().any(|segment| segment.index < 0) || texts().any(|text| too_long(text, MAX_SEGMENT)) {
        return Err(Failure::invalid("a segment has an `index` from 0 and a `text` that is not endless"));
    }
    if segments.iter().any(|segment| segment.text.is_none() && segment.speaker.is_none()) {
        return Err(Failure::invalid("a segment has a new `text`, a new `speaker`, or both"));
    }
    let mut edits = Vec::new();
    let mut segment_speakers = BTreeMap::new();
    for segment in segments {
        if let Some(text) = segment.text {
            edits.push(SegmentEdit { position: segment.index, text });
        }
        if let Some(speaker) = segment.speaker {
            segment_speakers.insert(segment.index, speaker.trim().to_owned());
        }
    }
    Ok(TranscriptEdit {
        title,
        shared: change.shared,
        rotate_share_token: change.rotate_share_token.unwrap_or(false),
        speakers,
        segments: edits,
        segment_speakers,
        expected: None,
    })
}

/// Checks the name of a speaker. An empty one takes the name or the speaker away; a blank one would be invisible.
fn check_name(name: &str) -> Result<(), Failure> {
    if name.chars().count() > MAX_NAME {
        return Err(Failure::invalid(format!("a speaker's name may have {MAX_NAME} characters")));
    }
    if !name.is_empty() && name.trim().is_empty() || name.contains(char::is_control) {
        let message = "a speaker's name must have visible characters, on one line; an empty one takes the name away";
        return Err(Failure::invalid(message));
    }
    Ok(())
}

/// Delete a transcript, its recording and everything made of it
#[utoipa::path(delete, path = "/v1/transcripts/{id}", tag = "transcripts", operation_id = "deleteTranscript",
    params(("id" = i64, Path, description = "the transcript's number")),
    responses((status = 200, body = Done), Unauthorized, Missing, AnyError), security(("bearer" = [])))]
pub(crate) async fn delete(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
) -> Result<Answer<Done>, Failure> {
    let entry = audit::by(&identity, audit::TRANSCRIPT_DELETED);
    app.store.transcripts().audited(&entry).delete(identity.account(), TranscriptId(id)).await?;
    Ok(Answer(Done { ok: true }))
}
