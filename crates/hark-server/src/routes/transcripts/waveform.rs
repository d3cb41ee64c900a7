//! `GET /v1/transcripts/{id}/waveform`: the peaks of a recording, for drawing.

use std::time::Instant;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use hark_api::Waveform;
use hark_store::{AccountId, TranscriptId};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::error::Failure;
use crate::extract::{Path, Query};
use crate::middleware::{Caller, Identity};
use crate::recording;
use crate::routes::{AnyError, Invalid, Limited, Missing, TimedOut, Unauthorized, Unavailable};
use crate::waveforms::{STORED_POINTS, StoredWaveform};

const MIN_POINTS: i64 = 100;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct WaveformQuery {
    /// How many peaks.
    #[serde(default = "default_points")]
    #[param(minimum = 100, maximum = 4000, default = 1000)]
    points: i64,
}

fn default_points() -> i64 {
    1000
}

impl WaveformQuery {
    fn points(&self) -> Result<usize, Failure> {
        let points = usize::try_from(self.points).unwrap_or(0);
        if !(MIN_POINTS as usize..=STORED_POINTS).contains(&points) {
            return Err(Failure::invalid(format!("`points` must be from {MIN_POINTS} to {STORED_POINTS}")));
        }
        Ok(points)
    }
}

/// The waveform of a recording
///
/// The absolute peak in each of `points` equal parts of the recording, if it was kept, for drawing. The first request decodes the recording, which takes
/// seconds for hours of sound; later ones are answered at once.
#[utoipa::path(get, path = "/v1/transcripts/{id}/waveform", tag = "transcripts", operation_id = "getWaveform",
    params(("id" = i64, Path, description = "the transcript's number"), WaveformQuery),
    responses((status = 200, body = Waveform), Invalid, Unauthorized, Missing, Limited, Unavailable, TimedOut, AnyError),
    security(("bearer" = []), ("session" = [])))]
pub(crate) async fn show(
    State(app): State<App>,
    identity: Identity,
    caller: Caller,
    Path(id): Path<i64>,
    Query(query): Query<WaveformQuery>,
) -> Result<Response, Failure> {
    let points = query.points()?;
    let (account, id) = (identity.account(), TranscriptId(id));
    let waveform = match stored(&app, account, id).await? {
        Some(stored) => stored,
        None => computed(&app, &caller, account, id).await?,
    };
    let mut response = Answer(waveform.with_points(points)).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}

async fn stored(app: &App, account: AccountId, id: TranscriptId) -> Result<Option<StoredWaveform>, Failure> {
    let bytes = app.store.transcripts().waveform(account, id).await?;
    Ok(bytes.and_then(|bytes| StoredWaveform::from_bytes(&bytes)))
}

/// Decodes the recording, unless another request just did, and stores its waveform.
async fn computed(app: &App, caller: &Caller, account: AccountId, id: TranscriptId) -> Result<StoredWaveform, Failure> {
    app.store.transcripts().get(account, id).await?;
    let blob = app.store.recordings().get(account, id).await?;
    let _turn = app.waveforms.turn(id).await;
    if let Some(stored) = stored(app, account, id).await? {
        return Ok(stored);
    }
    let slot = app.waveforms.enter(caller.owner()).await?;
    let begun = Instant::now();
    let waveform = recording::decode_in(app, slot, &blob, StoredWaveform::decode).await?;
    app.store.transcripts().store_waveform(account, id, &waveform.to_bytes()).await?;
    let took = begun.elapsed().as_secs_f64();
    tracing::debug!(transcript = id.0, seconds = waveform.seconds(), took, "waveform.computed");
    Ok(waveform)
}
