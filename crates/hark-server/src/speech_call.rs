//! Speaks a text for a credit: into a whole file, or into one that is sent while it is made.

use std::io::{self, Write};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use hark_api::{ApiError, ErrorKind};
use hark_media::CancelToken;
use hark_store::Owner;
use hark_voice::{Payload, Spoken};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::engine::{EngineError, SpeechStage, SpeechVoice, SpeechWork};
use crate::error::{Failure, until_tomorrow};
use crate::idempotent::{self, Canonical};
use crate::limits::Place;
use crate::metrics::Metrics;
use crate::metrics::text::{Outcome, TextTimer};
use crate::middleware::Identity;
use crate::paid_call::{PaidCall, Started};
use crate::probe::CancelOnDrop;
use crate::text_work::{take_place, within};

/// What the ledger and the metrics call it.
const NOTE: &str = "speak";
/// The same in the voice of a reference; the entries of a day are counted against its limit.
const NOTE_MATCHED: &str = "speak matched";
/// Blocks of a file that wait for a slow client.
const WAITING_BLOCKS: usize = 32;

const DURATION: HeaderName = HeaderName::from_static("x-duration");
const GENERATION_TIME: HeaderName = HeaderName::from_static("x-generation-time");
const LANGUAGE: HeaderName = HeaderName::from_static("x-language");
const VOICE: HeaderName = HeaderName::from_static("x-voice");
const SPEED: HeaderName = HeaderName::from_static("x-speed");

/// What is to be spoken, before its watermark is known.
pub(crate) struct Speech {
    pub(crate) text: String,
    /// The language; detected when not given.
    pub(crate) language: Option<String>,
    pub(crate) voice: SpeechVoice,
    pub(crate) speed: f32,
    pub(crate) format: hark_voice::FileFormat,
    pub(crate) is_streamed: bool,
}

/// What is stored for repeats of a request: not the sound, but what its watermark says. A repeat is spoken again with the same mark, for nothing.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct SpokenBefore {
    payload: Payload,
}

/// Speaks a text and answers with the file. `canonical` describes the request for its idempotency key.
pub(crate) async fn respond(
    app: &App,
    identity: &Identity,
    headers: &HeaderMap,
    canonical: Canonical,
    speech: Speech,
) -> Result<Response, Failure> {
    let is_matched = matches!(speech.voice, SpeechVoice::Like(_));
    app.engines.speak(is_matched)?;
    let place = take_place(app, identity)?;
    let counted = if is_matched { Some(check_matched(app, identity).await?) } else { None };
    let (call, payload) = match PaidCall::start(app, identity, headers, canonical).await? {
        Started::New(call) => (Some(call), None),
        Started::Answered(answer) => {
            let body = idempotent::open_answer(headers, &answer)?;
            let before: SpokenBefore = serde_json::from_slice(&body).map_err(|_| Failure::from(ErrorKind::Internal))?;
            (None, Some(before.payload))
        }
    };
    let marker = app.marker.get(&app.config)?;
    let payload = payload.unwrap_or_else(|| {
        // The same text spoken twice is two requests: each has a hash of its own in the log.
        let request = format!("{}\n{}\n{}", crate::random::id(), identity.account().0, speech.text);
        marker.payload(request.as_bytes(), app.clock.now().unsigned_abs() / 1_000_000)
    });
    let timer = TextTimer::start(&app.metrics, NOTE);
    let (format, is_streamed, characters) = (speech.format, speech.is_streamed, speech.text.chars().count());
    let Speech { text, language, voice, speed, .. } = speech;
    let work = SpeechWork { text, language, voice, speed, format, is_streamed, payload, marker };
    let running = Running::start(app, work, [Some(place), counted]);
    let span = tracing::Span::current();
    let log = Log { key: identity.key().0, account: identity.account().0, payload, is_matched, characters, span };
    let charge = Charge { headers: headers.clone(), call, before: SpokenBefore { payload }, is_matched };
    let timeout = app.config.text.timeout.duration();
    let answered = match is_streamed {
        true => within(timeout, running.stream(log, charge)).await,
        false => within(timeout, running.whole(app, log, charge)).await,
    };
    timer.end(Outcome::of_status(answered.as_ref().map_or_else(|failure| failure.error.status(), |_| 200)));
    let mut response = answered?;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    Ok(response)
}

/// Refuses what is beyond the day's matched voices of the plan, those under way included; the place is for one more.
async fn check_matched(app: &App, identity: &Identity) -> Result<Place<Owner>, Failure> {
    let account = identity.account();
    let place = app.matched_calls.acquire(Owner::Account(account));
    let Some(limit) = app.config.voice.matched_per_day.of(identity.plan()) else { return Ok(place) };
    let used = app.store.calls().charged_today(account, NOTE_MATCHED).await? + place.before as i64;
    if used < limit {
        return Ok(place);
    }
    let message = format!("{limit} speeches a day in the voice of a reference are in this plan");
    Err(ApiError::new(ErrorKind::SpeechLimit, message).retry_after(until_tomorrow(app.clock.now())).into())
}

/// The charge of a speech; none for a repeat.
struct Charge {
    headers: HeaderMap,
    call: Option<PaidCall>,
    before: SpokenBefore,
    is_matched: bool,
}

impl Charge {
    async fn post(self) -> Result<(), Failure> {
        let note = if self.is_matched { NOTE_MATCHED } else { NOTE };
        match self.call {
            Some(call) => call.charge(&self.headers, note, &self.before, None).await,
            None => Ok(()),
        }
    }
}

/// What the log says of a speech, so that a file can be traced by its watermark. Never the text.
struct Log {
    key: i64,
    account: i64,
    payload: Payload,
    is_matched: bool,
    characters: usize,
    /// Of the request: a stream ends outside of it.
    span: tracing::Span,
}

impl Log {
    fn write(&self, metrics: &Metrics, spoken: &Spoken) {
        let voice = &metrics.voice;
        voice.spoken.fetch_add(1, Ordering::Relaxed);
        voice.matched.fetch_add(u64::from(self.is_matched), Ordering::Relaxed);
        voice.milliseconds.fetch_add((spoken.seconds * 1000.0) as u64, Ordering::Relaxed);
        voice.work_milliseconds.fetch_add((spoken.took * 1000.0) as u64, Ordering::Relaxed);
        let _request = self.span.enter();
        tracing::info!(
            key = self.key,
            account = self.account,
            mark = format!("{:08x}", self.payload.request),
            issuer = self.payload.issuer,
            matched = self.is_matched,
            characters = self.characters,
            seconds = spoken.seconds,
            took = spoken.took,
            "speech.made"
        );
    }
}

/// A speech on its way, on a blocking thread. Dropped, it is cancelled.
struct Running {
    metrics: Arc<Metrics>,
    stage: StageReceiver,
    blocks: Receiver<Bytes>,
    task: JoinHandle<Result<Spoken, EngineError>>,
    _cancel: CancelOnDrop,
}

/// How it is spoken, and when there is something to hear.
struct StageReceiver {
    prepared: oneshot::Receiver<SpeechStage>,
    sounding: oneshot::Receiver<()>,
}

impl Running {
    fn start(app: &App, work: SpeechWork, places: [Option<Place<Owner>>; 2]) -> Self {
        let (sender, blocks) = channel(WAITING_BLOCKS);
        let ((tell_prepared, prepared), (tell_sounding, sounding)) = (oneshot::channel(), oneshot::channel());
        let cancel = CancelOnDrop(CancelToken::default());
        let (token, span, engines) = (cancel.0.clone(), tracing::Span::current(), app.engines.clone());
        let is_matched = matches!(work.voice, SpeechVoice::Like(_));
        let task = tokio::task::spawn_blocking(move || {
            // The places are released when the work has ended, not when nobody waits for it any more.
            let _places = places;
            let (mut tell_prepared, mut tell_sounding) = (Some(tell_prepared), Some(tell_sounding));
            let mut stage = |stage: SpeechStage| match stage {
                SpeechStage::Prepared { .. } => drop(tell_prepared.take().map(|tell| tell.send(stage))),
                SpeechStage::Sounding => drop(tell_sounding.take().map(|tell| tell.send(()))),
            };
            let out = Box::new(BlockWriter(sender));
            span.in_scope(|| engines.speak(is_matched)?.speak(&work, out, &mut stage, &token))
        });
        let stage = StageReceiver { prepared, sounding };
        Running { metrics: Arc::clone(&app.metrics), stage, blocks, task, _cancel: cancel }
    }

    /// Waits for the whole file.
    async fn whole(mut self, app: &App, log: Log, charge: Charge) -> Result<Response, Failure> {
        let mut file = BytesMut::new();
        while let Some(block) = self.blocks.recv().await {
            file.extend_from_slice(&block);
        }
        let spoken = joined((&mut self.task).await)?;
        let mut response = Response::new(Body::from(file.freeze()));
        describe(&mut response, self.stage.prepared.await)?;
        charge.post().await?;
        log.write(&app.metrics, &spoken);
        let headers = response.headers_mut();
        headers.insert(DURATION, number(spoken.seconds)?);
        headers.insert(GENERATION_TIME, number(spoken.took)?);
        Ok(response)
    }

    /// Waits for the first sound and answers with the file as it is made. It is charged before any of it is sent.
    async fn stream(mut self, log: Log, charge: Charge) -> Result<Response, Failure> {
        if (&mut self.stage.sounding).await.is_err() {
            // It ended without a sound: the error says why.
            joined((&mut self.task).await)?;
            return Err(ErrorKind::Internal.into());
        }
        let mut response = Response::new(Body::empty());
        describe(&mut response, (&mut self.stage.prepared).await)?;
        charge.post().await?;
        let blocks = futures_util::stream::unfold(Some((self, log)), async |state| {
            let (mut running, log) = state?;
            if let Some(block) = running.blocks.recv().await {
                return Some((Ok(block), Some((running, log))));
            }
            // A body that ends with an error is seen as cut off.
            let done = pin!(&mut running.task).await;
            match joined(done) {
                Ok(spoken) => {
                    log.write(&running.metrics, &spoken);
                    None
                }
                Err(failure) => Some((Err(io::Error::other(failure.error)), None)),
            }
        });
        *response.body_mut() = Body::from_stream(blocks);
        Ok(response)
    }
}

fn joined(done: Result<Result<Spoken, EngineError>, tokio::task::JoinError>) -> Result<Spoken, Failure> {
    match done {
        Ok(done) => Ok(done?),
        Err(error) => {
            tracing::error!(%error, "speech.panicked");
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

/// Passes a file on in blocks; waits while the client is slow, and fails once it has left.
struct BlockWriter(Sender<Bytes>);

impl Write for BlockWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.blocking_send(Bytes::copy_from_slice(bytes)) {
            Ok(()) => Ok(bytes.len()),
            Err(_) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "nobody waits for the file any more")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
