//! One live session: a task that receives audio from its connection and sends text back, until it is stored.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use hark_api::{ApiError, ErrorKind, TranscriptionResult};
use hark_media::SAMPLE_RATE;
use hark_speech::live::LiveEvent;
use hark_store::Owner;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};

use super::outbox::Outbox;
use super::previous::PreviousPart;
use super::protocol::{ClientMessage, Protocol};
use super::record::{Record, StoredPosition};
use super::socket::{Incoming, Socket, refuse};
use super::{FINISH_TIMEOUT, FLUSH_AFTER, MAX_BACKLOG, MAX_UNANSWERED_PINGS};
use crate::app::App;
use crate::engine::{LiveHandle, Work};
use crate::error::Failure;
use crate::limits::Place;
use crate::middleware::Caller;
use crate::options::{checkpoint, model, too_many_at_once};
use crate::random;
use crate::streams::connection::close_code;
use crate::streams::{Connection, Registration};

/// Interval of the checks for timeouts.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Bytes of a second of audio.
const BYTES_PER_SECOND: f64 = SAMPLE_RATE as f64 * 2.0;

/// A session and everything that belongs to it.
pub(crate) struct Session {
    app: App,
    caller: Caller,
    id: String,
    work: Work,
    /// The message protocol.
    protocol: Protocol,
    /// The engine's session; `None` during a call, and after one that panicked.
    live: Option<Box<LiveHandle>>,
    /// Notified by the engine when it has events.
    wake: Arc<Notify>,
    outbox: Arc<Outbox>,
    /// Its record in the store.
    record: Record,
    /// The part that another process handled before.
    previous: PreviousPart,
    /// Its place among the caller's concurrent transcriptions, while connected.
    place: Option<Place<Owner>>,
    registration: Registration,
    /// Bytes of audio received.
    received_bytes: u64,
    /// The first byte of a sample whose second has not arrived.
    pending_byte: Option<u8>,
    times: Times,
    ending: Option<Ending>,
}

/// Times of the last events.
struct Times {
    audio: Instant,
    ping: Instant,
    /// When the connection broke; `None` while connected.
    broken: Option<Instant>,
    /// Whether the engine was flushed since the last audio.
    is_flushed: bool,
}

/// A session that accepts no more audio.
struct Ending {
    /// The cause, unless the client ended it.
    error: Option<ApiError>,
    /// The deadline of the engine's last text.
    until: Instant,
}

/// An event that the session's task handles.
enum Step {
    Received(Incoming),
    Attached(Connection),
    EngineReady,
    Tick,
    Stop,
}

/// Starts a session after checking the caller's limits and credits; resumes the session with the requested id if another process left it behind.
pub(crate) async fn begin(
    app: &App,
    caller: Caller,
    mut work: Work,
    protocol: Protocol,
    requested_id: Option<&str>,
) -> Result<Session, Failure> {
    let requested = model(&work.model, caller.plan().is_paid(), &app.config)?;
    work.model = checkpoint(requested, app.role, &*app.engines.models)?;
    let place = acquire_place(app, &caller).await?;
    let resumed = match (requested_id, &caller) {
        (Some(requested_id), Caller::Account(identity)) => {
            app.store.live().resume(identity.account(), requested_id).await?
        }
        _ => None,
    };
    let id = requested_id.filter(|_| resumed.is_some()).map_or_else(random::id, str::to_owned);
    let Some(registration) = app.streams.register(&app.metrics, app.config.stream.sessions, &id, caller.owner()) else {
        let busy = if app.is_draining() { ErrorKind::ShuttingDown } else { ErrorKind::QueueFull };
        return Err(busy.into());
    };
    let wake = Arc::new(Notify::new());
    let live = {
        let (engines, work, wake) = (app.engines.clone(), work.clone(), Arc::clone(&wake));
        // The first session of a model waits for it to load.
        let session = tokio::task::spawn_blocking(move || {
            engines.live()?.start_session(&work, Box::new(move || wake.notify_one()))
        });
        session.await.map_err(|_| Failure::from(ErrorKind::Internal))??
    };
    let record = Record::open(app, &caller, &id, &work, resumed.as_ref()).await?;
    let is_resumed = resumed.is_some();
    let previous = resumed.map_or_else(PreviousPart::default, PreviousPart::new);
    if is_resumed {
        tracing::info!(session = id, seconds = previous.seconds, "live.continued");
    }
    let outbox = Arc::new(Outbox::default());
    if let Some(ready) = protocol.ready(&id, is_resumed.then_some(previous.seconds)) {
        outbox.greeting(ready);
    }
    let now = Instant::now();
    Ok(Session {
        app: app.clone(),
        caller,
        id,
        work,
        protocol,
        live: Some(Box::new(live)),
        wake,
        outbox,
        record,
        place: Some(place),
        registration,
        received_bytes: bytes_of(previous.seconds),
        previous,
        pending_byte: None,
        times: Times { audio: now, ping: now, broken: None, is_flushed: true },
        ending: None,
    })
}

/// Hands a connection to the running session that its client resumes; returns it when there is none.
pub(crate) async fn resume(app: &App, caller: &Caller, id: &str, connection: Connection) -> Result<(), Connection> {
    match app.streams.find(id, &caller.owner()) {
        Some(session) => session.send(connection).await.map_err(|returned| returned.0),
        None => Err(connection),
    }
}

async fn acquire_place(app: &App, caller: &Caller) -> Result<Place<Owner>, Failure> {
    let owner = caller.owner();
    let place = app.uploads.acquire(owner.clone());
    let used = app.store.jobs().live_count(&owner).await? + place.before as i64;
    if used >= caller.plan().concurrency() { Err(too_many_at_once(app, caller, used)) } else { Ok(place) }
}

impl Session {
    /// Runs the session until it ends, with its first connection.
    pub(crate) async fn run(mut self, connection: Connection) {
        let mut socket = Some(Socket::new(connection, &self.outbox));
        let mut tick = tokio::time::interval(POLL_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let result = loop {
            let may_read = self.ending.is_none() && self.backlog() <= MAX_BACKLOG;
            let step = tokio::select! {
                incoming = next(&mut socket), if may_read && socket.is_some() => Step::Received(incoming),
                Some(connection) = self.registration.attached.recv() => Step::Attached(connection),
                () = self.wake.notified() => Step::EngineReady,
                Ok(_) = self.registration.stop.wait_for(|stop| *stop), if self.ending.is_none() => Step::Stop,
                _ = tick.tick() => Step::Tick,
            };
            if let (false, Some(socket)) = (may_read, &mut socket) {
                // While the socket is not read, pongs cannot arrive.
                socket.last_received = Instant::now();
            }
            let ended = match step {
                Step::Received(incoming) => self.handle(incoming, &mut socket).await,
                Step::Attached(connection) => self.attach(connection, &mut socket).await,
                Step::EngineReady => self.advance(Vec::new(), EngineCommand::None).await,
                Step::Tick => self.tick(&mut socket).await,
                Step::Stop => self.end(Some(ErrorKind::ShuttingDown.into())).await,
            };
            if let Some(result) = ended {
                break result;
            }
        };
        self.conclude(result, socket).await;
    }

    /// Handles a message of the client.
    async fn handle(&mut self, incoming: Incoming, socket: &mut Option<Socket>) -> Option<Ended> {
        match incoming {
            Incoming::Audio(audio) => match self.push_audio(&audio).await {
                Ok(done) => done,
                Err(failure) => self.end(Some(failure.error)).await,
            },
            Incoming::Text(text) => match self.protocol.read(&text) {
                Ok(ClientMessage::Audio(audio)) => match self.push_audio(&audio).await {
                    Ok(done) => done,
                    Err(failure) => self.end(Some(failure.error)).await,
                },
                Ok(ClientMessage::Flush) => self.advance(Vec::new(), EngineCommand::Flush).await,
                Ok(ClientMessage::Stop) => self.end(None).await,
                Ok(ClientMessage::Reply(reply)) => {
                    self.outbox.message(reply);
                    None
                }
                Err(failure) => self.end(Some(failure.error)).await,
            },
            Incoming::Invalid(failure) => self.end(Some(failure.error)).await,
            Incoming::Pong => None,
            Incoming::Closed => {
                *socket = None;
                self.end(None).await
            }
            Incoming::Broken => self.detach(socket).await,
        }
    }

    /// Passes audio to the engine, once its minutes are charged.
    async fn push_audio(&mut self, audio: &Bytes) -> Result<Option<Ended>, Failure> {
        if audio.is_empty() {
            return Ok(None);
        }
        let seconds = (self.received_bytes + audio.len() as u64) as f64 / BYTES_PER_SECOND;
        // The upload limit applies to the session's audio.
        let longest = self.app.config.stream.longest.0.min(self.caller.plan().max_upload() as f64 / BYTES_PER_SECOND);
        if seconds > longest {
            let message = format!("a session may have {longest:.0} seconds of sound: begin another");
            return Err(ApiError::new(ErrorKind::RateLimited, message).into());
        }
        self.record.charge_up_to(seconds).await?;
        self.received_bytes += audio.len() as u64;
        self.times.audio = Instant::now();
        self.times.is_flushed = false;
        let samples = samples(&mut self.pending_byte, audio);
        Ok(self.advance(samples, EngineCommand::None).await)
    }

    /// Checks for timeouts.
    async fn tick(&mut self, socket: &mut Option<Socket>) -> Option<Ended> {
        if let Some(ending) = &self.ending {
            // The engine is too slow or failed: end with the text so far.
            return (Instant::now() >= ending.until).then(|| Ended(self.so_far()));
        }
        if let Some(error) = self.record.error() {
            return self.end(Some(error)).await;
        }
        if let Some(broken) = self.times.broken {
            return self.wait_for_client(broken.elapsed()).await;
        }
        let ping = self.app.config.stream.ping.duration();
        let gone_after = ping * MAX_UNANSWERED_PINGS;
        if socket.as_ref().is_some_and(|socket| socket.is_writer_done() || socket.last_received.elapsed() >= gone_after)
        {
            return self.detach(socket).await;
        }
        if self.times.ping.elapsed() >= ping {
            self.times.ping = Instant::now();
            self.outbox.ping();
            self.record.renew().await;
        }
        if self.backlog() > MAX_BACKLOG {
            // Audio is waiting in the unread socket.
            self.times.audio = Instant::now();
        }
        let silence = self.times.audio.elapsed();
        if silence >= self.app.config.stream.idle.duration() {
            return self.end(None).await;
        }
        if silence >= FLUSH_AFTER && !self.times.is_flushed {
            self.times.is_flushed = true;
            return self.advance(Vec::new(), EngineCommand::Flush).await;
        }
        None
    }

    /// Checks how long the client of a broken connection has been away: its last words are finalized after a while, and the session ends
    /// after a longer one.
    async fn wait_for_client(&mut self, away: Duration) -> Option<Ended> {
        let stream = &self.app.config.stream;
        if away >= stream.resume.duration() {
            return self.end(None).await;
        }
        if away >= stream.reconnect.duration() && !self.times.is_flushed {
            self.times.is_flushed = true;
            return self.advance(Vec::new(), EngineCommand::Flush).await;
        }
        None
    }

    /// Handles a broken connection: the session waits for its client if there is anything to resume. Nothing is flushed yet: the break
    /// may split a word whose rest comes with the next connection.
    async fn detach(&mut self, socket: &mut Option<Socket>) -> Option<Ended> {
        *socket = None;
        self.place = None;
        if self.received_bytes == 0 || !self.protocol.can_resume() || !self.registration.wait(true) {
            return self.end(None).await;
        }
        self.times.broken = Some(Instant::now());
        None
    }

    /// Handles a reconnected client, perhaps before the old connection was noticed to be broken.
    async fn attach(&mut self, connection: Connection, socket: &mut Option<Socket>) -> Option<Ended> {
        if self.ending.is_some() {
            tokio::spawn(refuse_ended(connection));
            return None;
        }
        if self.place.is_none() {
            match acquire_place(&self.app, &self.caller).await {
                Ok(place) => self.place = Some(place),
                Err(failure) => {
                    tokio::spawn(async move { refuse(connection, &failure).await });
                    return None;
                }
            }
        }
        // Drop the old connection first, so that no message is sent twice.
        *socket = None;
        self.registration.wait(false);
        let now = Instant::now();
        self.times = Times { audio: now, ping: now, broken: None, ..self.times };
        // The client goes on with a whole sample.
        if self.pending_byte.take().is_some() {
            self.received_bytes -= 1;
        }
        if let Some(ready) = self.protocol.ready(&self.id, Some(self.received_bytes as f64 / BYTES_PER_SECOND)) {
            self.outbox.greeting(ready);
        }
        *socket = Some(Socket::new(connection, &self.outbox));
        None
    }

    /// Stops accepting audio; the engine's last text is still sent.
    async fn end(&mut self, error: Option<ApiError>) -> Option<Ended> {
        if self.ending.is_some() {
            return None;
        }
        let mut timeout = FINISH_TIMEOUT;
        if let Some(error) = &error {
            self.outbox.message(self.protocol.error(error));
            if error.kind == ErrorKind::ShuttingDown {
                timeout = self.app.config.drain_timeout.duration().mul_f64(0.7);
            }
        }
        self.ending = Some(Ending { error, until: Instant::now() + timeout });
        self.advance(Vec::new(), EngineCommand::Finish).await
    }

    /// Passes audio and a command to the engine and sends its events to the client.
    async fn advance(&mut self, samples: Vec<f32>, command: EngineCommand) -> Option<Ended> {
        let mut live = self.live.take()?;
        // A large block of audio takes milliseconds: not on a Tokio worker.
        let result = tokio::task::spawn_blocking(move || {
            live.push(&samples);
            match command {
                EngineCommand::None => {}
                EngineCommand::Flush => live.flush(),
                EngineCommand::Finish => live.finish(),
            }
            let events = live.poll();
            (live, events)
        });
        let events = match result.await {
            Ok((live, events)) => {
                self.live = Some(live);
                let events = events.map(|events| events.into_iter().map(|event| self.previous.event(event)).collect());
                events.map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        match events {
            Ok(events) => self.send_events(events),
            Err(error) => {
                tracing::error!(session = self.id, error, "live.engine_failed");
                let error = ApiError::from(ErrorKind::Internal);
                if self.ending.is_none() {
                    self.outbox.message(self.protocol.error(&error));
                }
                self.ending = Some(Ending { error: Some(error), until: Instant::now() });
                Some(Ended(self.so_far()))
            }
        }
    }

    fn send_events(&mut self, events: Vec<LiveEvent>) -> Option<Ended> {
        let mut has_capacity = true;
        if events.iter().any(|event| matches!(event, LiveEvent::Text(_))) {
            self.save();
        }
        for event in events {
            match event {
                LiveEvent::Partial { text, start } => match self.protocol.partial(&text, start) {
                    Ok(partial) => self.outbox.partial(partial),
                    Err(events) => events.into_iter().for_each(|event| has_capacity &= self.outbox.message(event)),
                },
                LiveEvent::Text(text) => {
                    self.protocol.text(&text).into_iter().for_each(|event| has_capacity &= self.outbox.message(event));
                }
                LiveEvent::Final(result) => return Some(Ended(Some(*result))),
            }
        }
        if !has_capacity && self.ending.is_none() {
            let message = "too many texts wait to be read: the client does not read them";
            let error = ApiError::new(ErrorKind::RequestTimeout, message);
            self.ending = Some(Ending { error: Some(error), until: Instant::now() });
            return Some(Ended(self.so_far()));
        }
        None
    }

    /// Queues text that became final since the last write to be stored.
    fn save(&self) {
        let Some(live) = &self.live else { return };
        let stored = self.record.stored();
        let settled = live.final_segments_from(stored.text);
        let next = StoredPosition { text: settled.next, position: stored.position + settled.closed as i64 };
        let language = live.language().unwrap_or_default();
        self.record.append(stored, self.previous.segments(settled.segments), language, next);
    }

    /// Stores the session, sends the final message and closes the connection.
    async fn conclude(mut self, Ended(result): Ended, socket: Option<Socket>) {
        let seconds = self.received_bytes as f64 / BYTES_PER_SECOND;
        self.app.metrics.audio_milliseconds.fetch_add((seconds * 1000.0) as u64, Ordering::Relaxed);
        let result = result.map(|result| TranscriptionResult { model: self.work.model.clone(), ..result });
        let stored = self.record.close(result.as_ref(), super::store_timeout(self.app.is_draining())).await;
        let mut error = self.ending.take().and_then(|ending| ending.error);
        let transcript = stored.unwrap_or_else(|failure| {
            tracing::error!(session = self.id, error = %failure.error, "live.store_failed");
            if error.is_none() {
                self.outbox.message(self.protocol.error(&failure.error));
            }
            error.get_or_insert(failure.error);
            None
        });
        tracing::info!(session = self.id, seconds, transcript = transcript.map(|id| id.0), "live.session_ended");
        // Release all but the connection, which a shutdown still waits for.
        drop((self.place, self.live));
        self.registration.attached.close();
        while let Ok(connection) = self.registration.attached.try_recv() {
            tokio::spawn(refuse_ended(connection));
        }
        let Some(socket) = socket else { return };
        if let Some(result) = &result {
            for message in self.protocol.final_result(result, transcript) {
                self.outbox.message(message);
            }
        }
        match &error {
            Some(error) => self.outbox.close(close_code(error), &error.message),
            None => self.outbox.close(1000, ""),
        }
        socket.end().await;
    }

    fn backlog(&self) -> f64 {
        self.live.as_ref().map_or(0.0, |live| live.backlog())
    }

    fn so_far(&self) -> Option<TranscriptionResult> {
        self.live.as_ref().map(|live| self.previous.whole(live.so_far()))
    }
}

/// Bytes of this many seconds of audio, in whole samples.
fn bytes_of(seconds: f64) -> u64 {
    (seconds * f64::from(SAMPLE_RATE)) as u64 * 2
}

async fn refuse_ended(connection: Connection) {
    refuse(connection, &Failure::new(ErrorKind::Conflict, "this session is ending: begin another")).await;
}

/// A command to the engine besides audio.
#[derive(Clone, Copy)]
enum EngineCommand {
    None,
    Flush,
    Finish,
}

/// The end of the session, with its text.
struct Ended(Option<TranscriptionResult>);

/// The next message of a connection; pends forever without one.
async fn next(socket: &mut Option<Socket>) -> Incoming {
    match socket {
        Some(socket) => socket.next().await,
        None => std::future::pending().await,
    }
}

/// 16-bit samples, little-endian, as numbers from -1 to 1; `pending_byte` is the first byte of a sample whose second has not arrived.
pub(super) fn samples(pending_byte: &mut Option<u8>, bytes: &[u8]) -> Vec<f32> {
    let mut samples = Vec::with_capacity(bytes.len() / 2 + 1);
    let sample = |low: u8, high: u8| f32::from(i16::from_le_bytes([low, high])) / 32_768.0;
    let mut rest = bytes;
    if let (Some(low), Some((&high, others))) = (*pending_byte, bytes.split_first()) {
        samples.push(sample(low, high));
        (*pending_byte, rest) = (None, others);
    }
    let pairs = rest.chunks_exact(2);
    if let [last] = pairs.remainder() {
        *pending_byte = Some(*last);
    }
    samples.extend(pairs.map(|pair| sample(pair[0], pair[1])));
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_do_not_depend_on_how_bytes_are_split() {
        let bytes: Vec<u8> = (0..=255).collect();
        let whole = samples(&mut None, &bytes);
        assert_eq!(whole.len(), 128);
        assert!(whole[0] > 0.0 && whole[127] < 0.0);
        for size in [1, 2, 3, 7, 255] {
            let mut pending_byte = None;
            let split: Vec<f32> = bytes.chunks(size).flat_map(|chunk| samples(&mut pending_byte, chunk)).collect();
            assert_eq!(split, whole, "chunks of {size}");
            assert_eq!(pending_byte, None);
        }
    }
}
