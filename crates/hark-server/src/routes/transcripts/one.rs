//! One transcript: show, change, delete.

use axum::Json as Answer;
use axum::extract::State;
use hark_api::{DateTime, Done, TranscriptChange, TranscriptDetail, TranscriptionResult};
use hark_store::{AccountId, SegmentEdit, Transcript, TranscriptEdit, TranscriptId};

use crate::app::App;
use crate::audit;
use crate::error::Failure;
use crate::extract::{Json, Path};
use crate::middleware::Identity;
use crate::routes::{AnyError, Invalid, Missing, Unauthorized};
use crate::wire::{wire_language, wire_status};

const MAX_TITLE: usize = 500;
const MAX_NAME: usize = 200;
const MAX_SEGMENT: usize = 100_000;

/// A transcript with its words
///
/// While it is being made, `text` and `segments` are a draft: what was decoded so far, without speakers and the times of words.
#[utoipa::path(get, path = "/v1/transcripts/{id}", tag = "transcripts", operation_id = "showTranscript",
    params(("id" = i64, Path, description = "the transcript's number")),
    responses((status = 200, body = TranscriptDetail), Unauthorized, Missing, AnyError), security(("bearer" = [])))]
pub(crate) async fn show(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
) -> Result<Answer<TranscriptDetail>, Failure> {
    so_far(&app, identity.account(), TranscriptId(id)).await.map(Answer)
}

/// A transcript of an account as its owner sees it; a draft while it is being made.
async fn so_far(app: &App, account: AccountId, id: TranscriptId) -> Result<TranscriptDetail, Failure> {
    let (transcript, text) = app.store.transcripts().text_so_far(account, id).await?;
    Ok(wire_detail(transcript, text))
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
    }
}

/// Change a transcript: its title, its sharing, its speakers' names, its text
#[utoipa::path(patch, path = "/v1/transcripts/{id}", tag = "transcripts", operation_id = "changeTranscript",
    params(("id" = i64, Path, description = "the transcript's number")), request_body = TranscriptChange,
    responses((status = 200, body = TranscriptDetail), Invalid, Unauthorized, Missing, AnyError), security(("bearer" = [])))]
pub(crate) async fn change(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    Json(change): Json<TranscriptChange>,
) -> Result<Answer<TranscriptDetail>, Failure> {
    let edit = edit(change)?;
    let id = TranscriptId(id);
    match app.store.transcripts().edit(identity.account(), id, &edit).await {
        Ok(_) => {
            app.index_due.notify_one();
            so_far(&app, identity.account(), id).await.map(Answer)
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
    if speakers.iter().any(|(label, name)| too_long(label, MAX_NAME) || too_long(name, MAX_NAME)) {
        return Err(Failure::invalid(format!("a speaker's name may have {MAX_NAME} characters")));
    }
    // An empty name removes the name; a blank one would be invisible.
    if speakers.values().any(|name| !name.is_empty() && name.trim().is_empty() || name.contains(char::is_control)) {
        return Err(Failure::invalid(
            "a speaker's name must have visible characters, on one line; an empty one takes the name away",
        ));
    }
    let speakers = speakers.into_iter().map(|(label, name)| (label, name.trim().to_owned())).collect();
    let segments = change.segments.unwrap_or_default();
    // Line breaks and tabs are blanks to every format; the rest, such as NUL, no file should hold.
    let is_unwanted = |c: char| c.is_control() && !c.is_whitespace();
    if title.iter().chain(segments.iter().map(|segment| &segment.text)).any(|text| text.contains(is_unwanted)) {
        return Err(Failure::invalid("titles and texts must not hold control characters such as NUL"));
    }
    if segments.iter().any(|segment| segment.index < 0 || too_long(&segment.text, MAX_SEGMENT)) {
        return Err(Failure::invalid("a segment has an `index` from 0 and a `text` that is not endless"));
    }
    let segments = segments.into_iter().map(|segment| SegmentEdit { position: segment.index, text: segment.text });
    Ok(TranscriptEdit {
        title,
        shared: change.shared,
        rotate_share_token: change.rotate_share_token.unwrap_or(false),
        speakers,
        segments: segments.collect(),
    })
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
