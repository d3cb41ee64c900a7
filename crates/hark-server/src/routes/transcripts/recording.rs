//! `GET /v1/transcripts/{id}/recording`: the recording as it was sent, whole or a byte range.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use hark_store::TranscriptId;

use crate::app::App;
use crate::error::Failure;
use crate::extract::Path;
use crate::middleware::Identity;
use crate::routes::download::Download;
use crate::routes::transcripts::export::file_name;
use crate::routes::{AnyError, Missing, Unauthorized};

/// The recording of a transcript
///
/// As it was sent, if it was kept. A `Range` of bytes is answered with 206, so that a player can seek and a download can be resumed.
#[utoipa::path(get, path = "/v1/transcripts/{id}/recording", tag = "transcripts", operation_id = "getRecording",
    params(("id" = i64, Path, description = "the transcript's number")),
    responses((status = 200, description = "the recording", content(
            (Vec<u8> = "audio/wav"), (Vec<u8> = "audio/aiff"), (Vec<u8> = "audio/x-caf"), (Vec<u8> = "audio/flac"),
            (Vec<u8> = "audio/mpeg"), (Vec<u8> = "audio/aac"), (Vec<u8> = "audio/ogg"), (Vec<u8> = "video/mp4"),
            (Vec<u8> = "video/webm"), (Vec<u8> = "video/x-ms-asf"), (Vec<u8> = "video/x-msvideo"), (Vec<u8> = "video/mpeg"),
            (Vec<u8> = "video/mp2t"), (Vec<u8> = "video/x-flv"), (Vec<u8> = "application/octet-stream"))),
        (status = 206, description = "the range of it that was asked for", content(
            (Vec<u8> = "audio/wav"), (Vec<u8> = "audio/aiff"), (Vec<u8> = "audio/x-caf"), (Vec<u8> = "audio/flac"),
            (Vec<u8> = "audio/mpeg"), (Vec<u8> = "audio/aac"), (Vec<u8> = "audio/ogg"), (Vec<u8> = "video/mp4"),
            (Vec<u8> = "video/webm"), (Vec<u8> = "video/x-ms-asf"), (Vec<u8> = "video/x-msvideo"), (Vec<u8> = "video/mpeg"),
            (Vec<u8> = "video/mp2t"), (Vec<u8> = "video/x-flv"), (Vec<u8> = "application/octet-stream"))),
        Unauthorized, Missing, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn show(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let (account, id) = (identity.account(), TranscriptId(id));
    let transcript = app.store.transcripts().get(account, id).await?;
    let recordings = app.store.recordings();
    let blob = recordings.get(account, id).await?;
    let start = recordings.read(&blob, Some(0..hark_media::SNIFFED_BYTES as u64)).await?;
    let (media_type, extension) = hark_media::media_type(&start.read_all().await?);
    let name = file_name(&transcript.title, extension);
    Download { blob: &blob, header: Bytes::new(), media_type, name: &name }.respond(&app, &headers).await
}
