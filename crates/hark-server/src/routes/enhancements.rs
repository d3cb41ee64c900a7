//! Enhancements: how far one is, its result, delete.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use hark_api::{DateTime, Done, ErrorKind};
use hark_store::{Enhancement, EnhancementId, Micros, Status};

use crate::app::App;
use crate::engine::SoundFormat;
use crate::error::Failure;
use crate::extract::Path;
use crate::middleware::Identity;
use crate::routes::download::Download;
use crate::routes::{AnyError, Invalid, Missing, Unauthorized};
use crate::wire::wire_status;

/// How far an enhancement is
#[utoipa::path(get, path = "/v1/enhancements/{id}", tag = "audio", operation_id = "showEnhancement",
    params(("id" = i64, Path, description = "the enhancement's number")),
    responses((status = 200, body = hark_api::Enhancement), Unauthorized, Missing, AnyError), security(("bearer" = [])))]
pub(crate) async fn show(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
) -> Result<Answer<hark_api::Enhancement>, Failure> {
    let found = app.store.enhancements().get(identity.account(), EnhancementId(id)).await?;
    Ok(Answer(wire(&app, found)))
}

fn wire(app: &App, found: Enhancement) -> hark_api::Enhancement {
    let is_completed = found.status == Status::Completed;
    let kept = Micros::try_from(app.config.enhance.keep().as_micros()).unwrap_or(Micros::MAX);
    hark_api::Enhancement {
        id: found.id.0,
        status: wire_status(found.status),
        progress: found.progress.clamp(0, 100) as u8,
        queue_position: found.queue_position.and_then(|position| u64::try_from(position).ok()),
        content_type: format_of(&found).media_type().to_owned(),
        created_at: DateTime(found.created_at),
        duration: is_completed.then_some(found.duration_seconds),
        channels: is_completed.then_some(found.channels),
        model: is_completed.then_some(found.model),
        audio_url: is_completed.then(|| format!("/v1/enhancements/{}/audio", found.id)),
        expires_at: found.completed_at.map(|at| DateTime(at.saturating_add(kept))),
        error: found.error.filter(|_| found.status == Status::Failed),
    }
}

/// The format of a result.
pub(crate) fn format_of(enhancement: &Enhancement) -> SoundFormat {
    let named = SoundFormat::ALL.into_iter().find(|format| format.name() == enhancement.format);
    named.unwrap_or_default()
}

/// What is sent in the place of the first bytes of a result.
pub(crate) fn header_of(enhancement: &Enhancement) -> Result<Bytes, Failure> {
    let header = format_of(enhancement).header(enhancement.channels, enhancement.frames).map_err(|error| {
        tracing::error!(%error, enhancement = %enhancement.id, "enhancement.header_failed");
        Failure::from(ErrorKind::Internal)
    })?;
    Ok(header.unwrap_or_default().into())
}

/// The recording without its noise
///
/// A `Range` of bytes is answered with 206, so that a player can seek and a download can be resumed.
#[utoipa::path(get, path = "/v1/enhancements/{id}/audio", tag = "audio", operation_id = "enhancedAudio",
    params(("id" = i64, Path, description = "the enhancement's number")),
    responses((status = 200, description = "the recording without its noise", content(
            (Vec<u8> = "audio/wav"), (Vec<u8> = "audio/flac"), (Vec<u8> = "audio/mpeg"), (Vec<u8> = "audio/ogg"))),
        (status = 206, description = "the range of it that was asked for", content(
            (Vec<u8> = "audio/wav"), (Vec<u8> = "audio/flac"), (Vec<u8> = "audio/mpeg"), (Vec<u8> = "audio/ogg"))),
        Invalid, Unauthorized, Missing, AnyError), security(("bearer" = [])))]
pub(crate) async fn audio(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let (enhancement, blob) = app.store.enhancements().result(identity.account(), EnhancementId(id)).await?;
    let Some(blob) = blob else {
        return Err(Failure::new(ErrorKind::NotReady, "the enhancement is not completed: ask for its status"));
    };
    let format = format_of(&enhancement);
    let name = format!("enhanced.{}", format.name());
    let download =
        Download { blob: &blob, header: header_of(&enhancement)?, media_type: format.media_type(), name: &name };
    download.respond(&app, &headers).await
}

/// Delete an enhancement with its recordings
///
/// One that is queued or running is cancelled, and costs nothing.
#[utoipa::path(delete, path = "/v1/enhancements/{id}", tag = "audio", operation_id = "deleteEnhancement",
    params(("id" = i64, Path, description = "the enhancement's number")),
    responses((status = 200, body = Done), Unauthorized, Missing, AnyError), security(("bearer" = [])))]
pub(crate) async fn delete(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
) -> Result<Answer<Done>, Failure> {
    app.store.enhancements().delete(identity.account(), EnhancementId(id)).await?;
    Ok(Answer(Done { ok: true }))
}
