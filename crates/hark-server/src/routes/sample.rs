//! `GET /v1/sample`: a recording to try the service with.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use hark_api::ErrorKind;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use crate::app::App;
use crate::error::Failure;
use crate::routes::{AnyError, Missing};

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// A recording to try the service with
///
/// A reading in English, ten seconds long. 404 where it is not installed.
#[utoipa::path(get, path = "/v1/sample", tag = "reference", operation_id = "sampleRecording",
    responses((status = 200, description = "the recording", body = Vec<u8>, content_type = "audio/wav"), Missing, AnyError))]
pub(crate) async fn show(State(app): State<App>) -> Result<Response, Failure> {
    let missing = || Failure::new(ErrorKind::NotFound, "the recording to try is not installed on this server");
    let models = std::sync::Arc::clone(&app.engines.models);
    let path = tokio::task::spawn_blocking(move || models.sample()).await.map_err(|_| ErrorKind::Internal)?;
    let file = File::open(path.ok_or_else(missing)?).await.map_err(|_| missing())?;
    let length = file.metadata().await.map_err(|_| missing())?.len();
    let body = futures_util::stream::try_unfold(file.take(length), async |mut file| {
        let mut piece = BytesMut::with_capacity(PIECE);
        let count = file.read_buf(&mut piece).await?;
        Ok::<_, std::io::Error>((count > 0).then(|| (piece.freeze(), file)))
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("audio/wav")),
        (header::CONTENT_LENGTH, length.into()),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("inline; filename=\"sample.wav\"")),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=86400")),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}
