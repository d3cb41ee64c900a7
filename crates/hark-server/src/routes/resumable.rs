//! `/v1/uploads`: a recording that is sent in several requests, so that a connection that breaks costs little.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Json as Answer;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hark_api::{DateTime, Done, ErrorKind, NewUpload, UploadConflict, UploadPart, UploadState};
use hark_store::{AccountId, Error, OpenUpload, Upload, UploadId};
use http_body_util::BodyExt;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::error::Failure;
use crate::extract::{Json, Path, Query};
use crate::middleware::{Caller, Identity};
use crate::routes::upload::{announced, title, too_large};
use crate::routes::{AnyError, Contradicted, Invalid, Missing, TooLarge, Unauthorized};

/// Bytes of a piece that is stored before more is read.
const PIECE: u64 = 8 << 20;
/// The smallest piece that is stored, but for the last one of an upload, so that there are not too many.
const MIN_PIECE: u64 = 1_000_000;

/// Begin an upload that may be sent in parts
///
/// For recordings whose connection may break. At most four are open at once; one is deleted 24 hours after its last byte. Its whole size counts against the account's
/// storage from the beginning.
#[utoipa::path(post, path = "/v1/uploads", tag = "speech", operation_id = "createUpload", request_body = NewUpload,
    responses((status = 201, description = "begun", body = UploadState), Invalid, Unauthorized, Contradicted, TooLarge, AnyError),
    security(("bearer" = []), ("session" = [])))]
pub(crate) async fn create(
    State(app): State<App>,
    identity: Identity,
    caller: Caller,
    Json(new): Json<NewUpload>,
) -> Result<Response, Failure> {
    new.check()?;
    let plan = caller.plan();
    let size = new.size.unsigned_abs();
    if size > plan.max_upload() {
        return Err(too_large(plan));
    }
    let quota = app.config.recordings.quota.of(plan);
    let upload = app.store.uploads().create(identity.account(), &title(&new.name), size, quota).await?;
    let location = [(header::LOCATION, format!("/v1/uploads/{}", upload.id))];
    Ok((StatusCode::CREATED, location, Answer(wire(&upload))).into_response())
}

fn wire(upload: &OpenUpload) -> UploadState {
    UploadState { id: upload.id.0, size: upload.size, offset: upload.received, expires_at: DateTime(upload.expires_at) }
}

/// How much of an upload is there
#[utoipa::path(get, path = "/v1/uploads/{id}", tag = "speech", operation_id = "showUpload",
    params(("id" = i64, Path, description = "the upload's number")),
    responses((status = 200, body = UploadState), Unauthorized, Missing, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn show(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
) -> Result<Answer<UploadState>, Failure> {
    let upload = app.store.uploads().get(identity.account(), UploadId(id)).await?;
    Ok(Answer(wire(&upload)))
}

/// Delete an upload
#[utoipa::path(delete, path = "/v1/uploads/{id}", tag = "speech", operation_id = "deleteUpload",
    params(("id" = i64, Path, description = "the upload's number")),
    responses((status = 200, body = Done), Unauthorized, Missing, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn delete(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
) -> Result<Answer<Done>, Failure> {
    app.store.uploads().delete(identity.account(), UploadId(id)).await?;
    Ok(Answer(Done { ok: true }))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OffsetQuery {
    /// The place of the first byte in the recording: the `offset` of the upload.
    #[param(minimum = 0)]
    offset: u64,
}

/// Send a part of an upload
///
/// From its `offset` on, as much as is wanted but at least 1 MB, or what is left. Whole pieces of what arrived before a connection broke are kept: `offset` says
/// where to go on.
#[utoipa::path(put, path = "/v1/uploads/{id}", tag = "speech", operation_id = "continueUpload",
    params(("id" = i64, Path, description = "the upload's number"), OffsetQuery),
    request_body(content = UploadPart, content_type = "application/octet-stream"),
    responses((status = 200, body = UploadState),
        (status = 409, description = "the upload is elsewhere: go on at its offset", body = UploadConflict),
        Invalid, Unauthorized, Missing, AnyError),
    security(("bearer" = []), ("session" = [])))]
pub(crate) async fn put(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    Query(query): Query<OffsetQuery>,
    request: Request,
) -> Result<Response, Failure> {
    let (head, body) = request.into_parts();
    let account = identity.account();
    let upload = app.store.uploads().get(account, UploadId(id)).await?;
    if query.offset != upload.received {
        return Ok(behind(&upload));
    }
    if !is_bytes(&head.headers) {
        let message = "this path takes bytes: send them with Content-Type: application/octet-stream";
        return Err(Failure::new(ErrorKind::UnsupportedMediaType, message));
    }
    let left = upload.size - upload.received;
    match announced(&head.headers) {
        Some(length) if length > left => return Err(too_much(left)),
        Some(length) if length < MIN_PIECE.min(left) => return Err(too_little()),
        _ => {}
    }
    let idle = app.config.idle_timeout.duration();
    // In a task of its own: what arrived is stored, also when the client is gone.
    let receiving = tokio::spawn(receive(app, account, upload, body, idle));
    receiving.await.unwrap_or_else(|_| Err(ErrorKind::Internal.into()))
}

fn is_bytes(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/octet-stream")
}

fn too_much(left: u64) -> Failure {
    Failure::invalid(format!("these are more bytes than the {left} that are missing"))
}

fn too_little() -> Failure {
    Failure::invalid("a part has at least 1 MB (1000000 bytes), or all that is left")
}

/// The answer to a part that begins elsewhere.
fn behind(upload: &OpenUpload) -> Response {
    let message = format!("the upload goes on at {}", upload.received);
    Failure::new(ErrorKind::Conflict, message).with_details(&wire(upload))
}

/// What ended a body.
enum End {
    Whole,
    Failed(Failure),
}

/// Stores a body piece by piece.
async fn receive(
    app: App,
    account: AccountId,
    mut upload: OpenUpload,
    mut body: Body,
    idle: Duration,
) -> Result<Response, Failure> {
    let mut piece: Option<Upload> = None;
    let mut arrived = 0;
    let end = loop {
        let data = match next(&mut body, idle).await {
            Ok(Some(data)) => data,
            Ok(None) => break End::Whole,
            Err(failure) => break End::Failed(failure),
        };
        let begun = piece.as_ref().map_or(0, Upload::size);
        if upload.received + begun + data.len() as u64 > upload.size {
            break End::Failed(too_much(upload.size - upload.received - begun));
        }
        arrived += data.len() as u64;
        app.metrics.upload_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        let mut open = match piece.take() {
            Some(open) => open,
            None => begin(&app, account).await?,
        };
        open.write(data).await?;
        if open.size() >= PIECE {
            upload = match store(&app, account, &upload, open).await? {
                Ok(upload) => upload,
                Err(elsewhere) => return Ok(behind(&elsewhere)),
            };
        } else {
            piece = Some(open);
        }
    };
    let before = upload.received;
    if let Some(open) = piece
        && (open.size() >= MIN_PIECE || before + open.size() == upload.size)
    {
        upload = match store(&app, account, &upload, open).await? {
            Ok(upload) => upload,
            Err(elsewhere) => return Ok(behind(&elsewhere)),
        };
    }
    match end {
        End::Failed(failure) => Err(failure),
        End::Whole if arrived > 0 && arrived < MIN_PIECE && !upload.is_complete() => Err(too_little()),
        End::Whole => Ok(Answer(wire(&upload)).into_response()),
    }
}

async fn begin(app: &App, account: AccountId) -> Result<Upload, Failure> {
    let piece = app.store.recordings().upload(account).await?;
    // The stored checksum of a plaintext piece needs its hash; the chunks of a sealed one are authenticated.
    Ok(if piece.is_sealed() { piece.without_hash() } else { piece })
}

/// Adds a piece to the upload; the inner error is the upload where another request took it further.
async fn store(
    app: &App,
    account: AccountId,
    upload: &OpenUpload,
    piece: Upload,
) -> Result<Result<OpenUpload, OpenUpload>, Failure> {
    let piece = piece.finish().await?;
    match app.store.uploads().add(account, upload.id, upload.received, &piece).await {
        Ok(upload) => Ok(Ok(upload)),
        Err(Error::Conflict(_)) => Ok(Err(app.store.uploads().get(account, upload.id).await?)),
        Err(error) => Err(error.into()),
    }
}

/// The next bytes of a body; an error when it ended early or nothing arrives.
async fn next(body: &mut Body, idle: Duration) -> Result<Option<Bytes>, Failure> {
    loop {
        let frame =
            tokio::time::timeout(idle, body.frame()).await.map_err(|_| Failure::from(ErrorKind::RequestTimeout))?;
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|error| Failure::of_body(&error, Failure::invalid("the body ended early")))?;
        match frame.into_data() {
            Ok(data) if !data.is_empty() => return Ok(Some(data)),
            _ => {}
        }
    }
}
