//! A speech on its way, on a blocking thread.

use std::io;
use std::time::Instant;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use hark_api::ErrorKind;
use hark_media::CancelToken;
use hark_store::Owner;
use hark_voice::Spoken;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};

use super::Charge;
use super::log::SpeechLog;
use super::writer::BlockWriter;
use crate::app::App;
use crate::call_slots::CallSlot;
use crate::engine::{EngineError, SpeechStage, SpeechVoice, SpeechWork};
use crate::error::Failure;
use crate::limits::Place;
use crate::panics;
use crate::probe::CancelOnDrop;

/// Blocks of a file that wait for a slow client.
const WAITING_BLOCKS: usize = 32;

const DURATION: HeaderName = HeaderName::from_static("x-duration");
const GENERATION_TIME: HeaderName = HeaderName::from_static("x-generation-time");
const LANGUAGE: HeaderName = HeaderName::from_static("x-language");
const VOICE: HeaderName = HeaderName::from_static("x-voice");
const SPEED: HeaderName = HeaderName::from_static("x-speed");

/// A speech on its way. Dropped, it is cancelled.
pub(super) struct Running {
    stage: StageReceiver,
    blocks: Receiver<Bytes>,
    task: JoinHandle<Result<Spoken, EngineError>>,
    cancel: CancelOnDrop,
}

/// How it is spoken, and when there is something to hear.
struct StageReceiver {
    prepared: oneshot::Receiver<SpeechStage>,
    sounding: oneshot::Receiver<()>,
}

impl Running {
    /// Starts to speak; the places are released when the work has ended, not when nobody waits for it any more.
    pub(super) fn start(app: &App, work: SpeechWork, places: (Place<Owner>, CallSlot)) -> Self {
        let (sender, blocks) = channel(WAITING_BLOCKS);
        let ((tell_prepared, prepared), (tell_sounding, sounding)) = (oneshot::channel(), oneshot::channel());
        let cancel = CancelOnDrop(CancelToken::default());
        let settings = &app.config.text;
        let longest = if work.is_streamed { settings.stream_timeout } else { settings.timeout };
        let out = BlockWriter {
            blocks: sender,
            patience: app.config.idle_timeout.duration(),
            deadline: Instant::now() + longest.duration(),
            cancel: cancel.0.clone(),
        };
        let (token, span, engines) = (cancel.0.clone(), tracing::Span::current(), app.engines.clone());
        let is_matched = matches!(work.voice, SpeechVoice::Like(_));
        let task = tokio::task::spawn_blocking(move || {
            let _places = places;
            let (mut tell_prepared, mut tell_sounding) = (Some(tell_prepared), Some(tell_sounding));
            let mut stage = |stage: SpeechStage| match stage {
                SpeechStage::Prepared { .. } => drop(tell_prepared.take().map(|tell| tell.send(stage))),
                SpeechStage::Sounding => drop(tell_sounding.take().map(|tell| tell.send(()))),
            };
            span.in_scope(|| engines.speak(is_matched)?.speak(&work, Box::new(out), &mut stage, &token))
        });
        Running { stage: StageReceiver { prepared, sounding }, blocks, task, cancel }
    }

    /// Waits for the whole file.
    pub(super) async fn whole(mut self, mut log: SpeechLog, charge: Charge) -> Result<Response, Failure> {
        let mut file = BytesMut::new();
        while let Some(block) = self.blocks.recv().await {
            file.extend_from_slice(&block);
        }
        let spoken = joined((&mut self.task).await)?;
        let mut response = Response::new(Body::empty());
        describe(&mut response, self.stage.prepared.await)?;
        charge.post().await?;
        log.made();
        log.passed_on(file.len());
        log.completed(&spoken);
        let headers = response.headers_mut();
        headers.insert(DURATION, number(spoken.seconds)?);
        headers.insert(GENERATION_TIME, number(spoken.took)?);
        *response.body_mut() = Body::from(file.freeze());
        Ok(response)
    }

    /// Waits for the first sound and answers with the file as it is made. It is charged and logged before any of it is sent.
    pub(super) async fn stream(mut self, mut log: SpeechLog, charge: Charge) -> Result<Response, Failure> {
        if (&mut self.stage.sounding).await.is_err() {
            // It ended without a sound: the error says why.
            joined((&mut self.task).await)?;
            return Err(ErrorKind::Internal.into());
        }
        let mut response = Response::new(Body::empty());
        describe(&mut response, (&mut self.stage.prepared).await)?;
        charge.post().await?;
        log.made();
        let blocks = futures_util::stream::unfold(Some((self, log)), async |state| {
            let (mut running, mut log) = state?;
            if let Some(block) = running.blocks.recv().await {
                log.passed_on(block.len());
                return Some((Ok(block), Some((running, log))));
            }
            let done = (&mut running.task).await;
            // A body that ends with an error is seen as cut off.
            if running.cancel.0.is_cancelled() {
                // Only the writer can have done that: the client took nothing for too long.
                return Some((Err(io::ErrorKind::TimedOut.into()), None));
            }
            match joined(done) {
                Ok(spoken) => {
                    log.completed(&spoken);
                    None
                }
                Err(failure) => Some((Err(io::Error::other(failure.error)), None)),
            }
        });
        *response.body_mut() = Body::from_stream(blocks);
        Ok(response)
    }
}

fn joined(done: Result<Result<Spoken, EngineError>, JoinError>) -> Result<Spoken, Failure> {
    match done {
        Ok(done) => Ok(done?),
        Err(error) => {
            tracing::error!(error = panics::ending(&error), "speech.panicked");
            Err(ErrorKind::Internal.into())
        }
    }
}

/// Puts what the speech is into the headers.
fn describe(response: &mut Response, stage: Result<SpeechStage, oneshot::error::RecvError>) -> Result<(), Failure> {
    let Ok(SpeechStage::Prepared { language, voice, speed }) = stage else { return Err(ErrorKind::Internal.into()) };
    let headers = response.headers_mut();
    headers.insert(LANGUAGE, HeaderValue::from_static(language));
    headers.insert(VOICE, HeaderValue::from_str(&voice).map_err(|_| Failure::from(ErrorKind::Internal))?);
    headers
        .insert(SPEED, HeaderValue::from_str(&format!("{speed:.2}")).map_err(|_| Failure::from(ErrorKind::Internal))?);
    Ok(())
}

fn number(seconds: f64) -> Result<HeaderValue, Failure> {
    HeaderValue::from_str(&format!("{seconds:.3}")).map_err(|_| ErrorKind::Internal.into())
}
