//! `POST /v1/transcripts/{id}/retry`: retries a transcript that failed through no fault of its sender.

use axum::extract::State;
use axum::response::Response;
use hark_api::{ApiError, ErrorKind};
use hark_store::{Error, Limit, RetryLimits, TranscriptId};

use crate::app::App;
use crate::error::Failure;
use crate::extract::Path;
use crate::middleware::{Caller, Identity};
use crate::options::too_many_at_once;
use crate::routes::transcribe::accepted;
use crate::routes::{AnyError, Contradicted, Limited, Missing, Payment, Unauthorized, Unavailable};

/// Try a failed transcript again
///
/// For a transcript that failed through no fault of its sender: its recording is kept. Credits are held again, and charged when it is done. Answers 202; the
/// status path says how it goes on.
#[utoipa::path(post, path = "/v1/transcripts/{id}/retry", tag = "transcripts", operation_id = "retryTranscript",
    params(("id" = i64, Path, description = "the transcript's number")),
    responses((status = 202, description = "accepted: it will be transcribed", body = hark_api::Accepted),
        Unauthorized, Payment, Missing, Contradicted, Limited, Unavailable, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn retry(
    State(app): State<App>,
    identity: Identity,
    caller: Caller,
    Path(id): Path<i64>,
) -> Result<Response, Failure> {
    if app.is_draining() {
        return Err(ApiError::from(ErrorKind::ShuttingDown).retry_after(10).into());
    }
    let id = TranscriptId(id);
    let limits = RetryLimits {
        max_live: Some(caller.plan().concurrency()),
        max_queued: Some(i64::try_from(app.config.max_queue).unwrap_or(i64::MAX)),
    };
    match app.store.jobs().retry_transcript(identity.account(), id, limits).await {
        Ok(()) => accepted(&app, id).await,
        Err(Error::Limit { what: Limit::ConcurrentJobs, used, .. }) => Err(too_many_at_once(&app, &caller, used)),
        Err(error) => Err(Failure::of_store(error, app.clock.now())),
    }
}
