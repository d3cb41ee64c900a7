//! One live session: a task that takes sound from its connection and sends words back, until it is stored.

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

use super::before::Before;
use super::dialect::{ClientMessage, Dialect};
use super::outbox::Outbox;
use super::record::{Mark, Record};
use super::socket::{Incoming, Line, refuse};
use super::{FINISH_WITHIN, MOST_BACKLOG, PAUSE, UNANSWERED_PINGS};
use crate::app::App;
use crate::engine::{LiveHandle, Work};
use crate::error::Failure;
use crate::limits::Place;
use crate::middleware::Caller;
use crate::options::{checkpoint, model, too_many_at_once};
use crate::random;
use crate::streams::connection::close_code;
use crate::streams::{Connection, Registration};

/// How often a session looks at the clock.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Bytes of a second of sound.
const BYTES_A_SECOND: f64 = SAMPLE_RATE as f64 * 2.0;

/// A session and everything that belongs to it.
pub(crate) struct Session {
    app: App,
    caller: Caller,
    id: String,
    work: Work,
    /// How the two ends talk.
    dialect: Dialect,
    /// The engine's side; away while it is worked with, for good if that failed.
    live: Option<Box<LiveHandle>>,
    /// Rung by the engine.
    wake: Arc<Notify>,
    outbox: Arc<Outbox>,
    /// What the store has of it.
    record: Record,
    /// What another process heard of it before.
    before: Before,
    /// Counts among the transcriptions at once while there is a connection.
    place: Option<Place<Owner>>,
    registration: Registration,
    /// Bytes of sound taken.
    taken: u64,
    /// The first byte of a sample whose second is still to come.
    half: Option<u8>,
    times: Times,
    ending: Option<Ending>,
}

/// When things happened last.
struct Times {
    sound: Instant,
    ping: Instant,
    /// When the connection broke; none while there is one.
    broken: Option<Instant>,
    /// Whether the pause that goes on was told to the engine.
    is_pause_told: bool,
}

/// A session that takes no more sound.
struct Ending {
    /// Why, if not because the client wanted it.
    error: Option<ApiError>,
    /// When the engine's last words are not waited for any more.
    until: Instant,
}

/// What a session does next.
enum Step {
    Came(Incoming),
    Attached(Connection),
    Woken,
    Look,
    Stop,
}

/// A new session for a caller, who may have it and can pay for it; or one that goes on with a session of this name that another process left behind.
pub(crate) async fn begin(
    app: &App,
    caller: Caller,
    mut work: Work,
    dialect: Dialect,
    wanted: Option<&str>,
) -> Result<Session, Failure> {
    let asked = model(&work.model, caller.plan().is_paid(), &app.config)?;
    work.model = checkpoint(asked, app.role, &*app.engines.models)?;
    let place = acquire_place(app, &caller).await?;
    let continued = match (wanted, &caller) {
        (Some(wanted), Caller::Account(identity)) => app.store.live().resume(identity.account(), wanted).await?,
        _ => None,
    };
    let id = wanted.filter(|_| continued.is_some()).map_or_else(random::id, str::to_owned);
    let Some(registration) = app.streams.register(&app.metrics, app.config.stream.sessions, &id, caller.owner()) else {
        let busy = if app.is_draining() { ErrorKind::ShuttingDown } else { ErrorKind::QueueFull };
        return Err(busy.into());
    };
    let wake = Arc::new(Notify::new());
    let live = {
        let (engines, work, wake) = (app.engines.clone(), work.clone(), Arc::clone(&wake));
        // The first session of a model waits until it is loaded.
        let begun = tokio::task::spawn_blocking(move || {
            engines.live()?.start_session(&work, Box::new(move || wake.notify_one()))
        });
        begun.await.map_err(|_| Failure::from(ErrorKind::Internal))??
    };
    let record = Record::open(app, &caller, &id, &work, continued.as_ref()).await?;
    let is_continued = continued.is_some();
    let before = continued.map_or_else(Before::default, Before::new);
    if is_continued {
        tracing::info!(session = id, seconds = before.seconds, "live.continued");
    }
    let outbox = Arc::new(Outbox::default());
    if let Some(ready) = dialect.ready(&id, is_continued.then_some(before.seconds)) {
        outbox.greeting(ready);
    }
    let now = Instant::now();
    Ok(Session {
        app: app.clone(),
        caller,
        id,
        work,
        dialect,
        live: Some(Box::new(live)),
        wake,
        outbox,
        record,
        place: Some(place),
        registration,
        taken: bytes_of(before.seconds),
        before,
        half: None,
        times: Times { sound: now, ping: now, broken: None, is_pause_told: true },
        ending: None,
    })
}

/// Hands a connection to the session that its client goes on with; gives it back when there is no such session.
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
    /// Runs the session to its end, with its first connection.
    pub(crate) async fn run(mut self, connection: Connection) {
        let mut line = Some(Line::new(connection, &self.outbox));
        let mut look = tokio::time::interval(POLL_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let result = loop {
            let may_read = self.ending.is_none() && self.backlog() <= MOST_BACKLOG;
            let step = tokio::select! {
                incoming = next(&mut line), if may_read && line.is_some() => Step::Came(incoming),
                Some(connection) = self.registration.attached.recv() => Step::Attached(connection),
                () = self.wake.notified() => Step::Woken,
                Ok(_) = self.registration.stop.wait_for(|stop| *stop), if self.ending.is_none() => Step::Stop,
                _ = look.tick() => Step::Look,
            };
            if let (false, Some(line)) = (may_read, &mut line) {
                // Who is not listened to can't say that it is there.
                line.heard = Instant::now();
            }
            let done = match step {
                Step::Came(incoming) => self.handle(incoming, &mut line).await,
                Step::Attached(connection) => self.attach(connection, &mut line).await,
                Step::Woken => self.advance(Vec::new(), Ask::Nothing).await,
                Step::Look => self.look(&mut line).await,
                Step::Stop => self.end(Some(ErrorKind::ShuttingDown.into())).await,
            };
            if let Some(result) = done {
                break result;
            }
        };
        self.conclude(result, line).await;
    }

    /// Takes what the client sent.
    async fn handle(&mut self, incoming: Incoming, line: &mut Option<Line>) -> Option<Done> {
        match incoming {
            Incoming::Sound(sound) => match self.push_audio(&sound).await {
                Ok(done) => done,
                Err(failure) => self.end(Some(failure.error)).await,
            },
            Incoming::Text(text) => match self.dialect.read(&text) {
                Ok(ClientMessage::Sound(sound)) => match self.push_audio(&sound).await {
                    Ok(done) => done,
                    Err(failure) => self.end(Some(failure.error)).await,
                },
                Ok(ClientMessage::Flush) => self.advance(Vec::new(), Ask::Flush).await,
                Ok(ClientMessage::Stop) => self.end(None).await,
                Ok(ClientMessage::Answer(answer)) => {
                    self.outbox.message(answer);
                    None
                }
                Err(failure) => self.end(Some(failure.error)).await,
            },
            Incoming::Wrong(failure) => self.end(Some(failure.error)).await,
            Incoming::Pong => None,
            Incoming::Closed => {
                *line = None;
                self.end(None).await
            }
            Incoming::Broken => self.detach(line).await,
        }
    }

    /// Takes sound, once the minutes that it begins are paid for.
    async fn push_audio(&mut self, sound: &Bytes) -> Result<Option<Done>, Failure> {
        if sound.is_empty() {
            return Ok(None);
        }
        let seconds = (self.taken + sound.len() as u64) as f64 / BYTES_A_SECOND;
        // A session counts as an upload of its sound.
        let longest = self.app.config.stream.longest.0.min(self.caller.plan().max_upload() as f64 / BYTES_A_SECOND);
        if seconds > longest {
            let message = format!("a session may have {longest:.0} seconds of sound: begin another");
            return Err(ApiError::new(ErrorKind::RateLimited, message).into());
        }
        self.record.cover(seconds).await?;
        self.taken += sound.len() as u64;
        self.times.sound = Instant::now();
        self.times.is_pause_told = false;
        let samples = samples(&mut self.half, sound);
        Ok(self.advance(samples, Ask::Nothing).await)
    }

    /// Looks at the clock.
    async fn look(&mut self, line: &mut Option<Line>) -> Option<Done> {
        if let Some(ending) = &self.ending {
            // The engine is too slow, or gone: what was told is what there is.
            return (Instant::now() >= ending.until).then(|| Done(self.so_far()));
        }
        if let Some(problem) = self.record.problem() {
            return self.end(Some(problem)).await;
        }
        if let Some(broken) = self.times.broken {
            let is_over = broken.elapsed() >= self.app.config.stream.resume.duration();
            return if is_over { self.end(None).await } else { None };
        }
        let ping = self.app.config.stream.ping.duration();
        let gone_after = ping * UNANSWERED_PINGS;
        if line.as_ref().is_some_and(|line| line.is_writer_done() || line.heard.elapsed() >= gone_after) {
            return self.detach(line).await;
        }
        if self.times.ping.elapsed() >= ping {
            self.times.ping = Instant::now();
            self.outbox.ping();
            self.record.renew().await;
        }
        if self.backlog() > MOST_BACKLOG {
            // The sound that is missing waits in the socket.
            self.times.sound = Instant::now();
        }
        let silence = self.times.sound.elapsed();
        if silence >= self.app.config.stream.idle.duration() {
            return self.end(None).await;
        }
        if silence >= PAUSE && !self.times.is_pause_told {
            self.times.is_pause_told = true;
            return self.advance(Vec::new(), Ask::Flush).await;
        }
        None
    }

    /// The connection broke: the session waits for its client, if there is anything to come back to.
    async fn detach(&mut self, line: &mut Option<Line>) -> Option<Done> {
        *line = None;
        self.place = None;
        if self.taken == 0 || !self.dialect.can_resume() || !self.registration.wait(true) {
            return self.end(None).await;
        }
        self.times.broken = Some(Instant::now());
        self.advance(Vec::new(), Ask::Flush).await
    }

    /// The client came back, perhaps before anybody noticed that it was gone.
    async fn attach(&mut self, connection: Connection, line: &mut Option<Line>) -> Option<Done> {
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
        // The old one first: the two must not send the same.
        *line = None;
        self.registration.wait(false);
        let now = Instant::now();
        self.times = Times { sound: now, ping: now, broken: None, is_pause_told: true };
        self.half = None;
        if let Some(ready) = self.dialect.ready(&self.id, Some(self.taken as f64 / BYTES_A_SECOND)) {
            self.outbox.greeting(ready);
        }
        *line = Some(Line::new(connection, &self.outbox));
        None
    }

    /// Takes no more sound; the engine's last words are still told.
    async fn end(&mut self, error: Option<ApiError>) -> Option<Done> {
        if self.ending.is_some() {
            return None;
        }
        let mut within = FINISH_WITHIN;
        if let Some(error) = &error {
            self.outbox.message(self.dialect.error(error));
            if error.kind == ErrorKind::ShuttingDown {
                within = self.app.config.drain_timeout.duration().mul_f64(0.7);
            }
        }
        self.ending = Some(Ending { error, until: Instant::now() + within });
        self.advance(Vec::new(), Ask::Finish).await
    }

    /// Gives the engine what is new and tells the client what the engine has to say.
    async fn advance(&mut self, samples: Vec<f32>, ask: Ask) -> Option<Done> {
        let mut live = self.live.take()?;
        // A large piece of sound takes milliseconds: not on the threads that serve everybody.
        let worked = tokio::task::spawn_blocking(move || {
            live.push(&samples);
            match ask {
                Ask::Nothing => {}
                Ask::Flush => live.flush(),
                Ask::Finish => live.finish(),
            }
            let events = live.poll();
            (live, events)
        });
        let events = match worked.await {
            Ok((live, events)) => {
                self.live = Some(live);
                let events = events.map(|events| events.into_iter().map(|event| self.before.event(event)).collect());
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
                    self.outbox.message(self.dialect.error(&error));
                }
                self.ending = Some(Ending { error: Some(error), until: Instant::now() });
                Some(Done(self.so_far()))
            }
        }
    }

    fn send_events(&mut self, events: Vec<LiveEvent>) -> Option<Done> {
        let mut is_room = true;
        if events.iter().any(|event| matches!(event, LiveEvent::Text(_))) {
            self.save();
        }
        for event in events {
            match event {
                LiveEvent::Partial { text, start } => match self.dialect.partial(&text, start) {
                    Ok(partial) => self.outbox.partial(partial),
                    Err(events) => events.into_iter().for_each(|event| is_room &= self.outbox.message(event)),
                },
                LiveEvent::Text(text) => {
                    self.dialect.text(&text).into_iter().for_each(|event| is_room &= self.outbox.message(event));
                }
                LiveEvent::Final(result) => return Some(Done(Some(*result))),
            }
        }
        if !is_room && self.ending.is_none() {
            let message = "too many texts wait to be read: the client does not read them";
            let error = ApiError::new(ErrorKind::RequestTimeout, message);
            self.ending = Some(Ending { error: Some(error), until: Instant::now() });
            return Some(Done(self.so_far()));
        }
        None
    }

    /// Has written what was settled since the last write.
    fn save(&self) {
        let Some(live) = &self.live else { return };
        let stored = self.record.stored();
        let settled = live.settled_from(stored.text);
        let next = Mark { text: settled.next, position: stored.position + settled.closed as i64 };
        let language = live.language().unwrap_or_default();
        self.record.append(stored, self.before.segments(settled.segments), language, next);
    }

    /// Stores the session, tells its end and closes the connection.
    async fn conclude(mut self, Done(result): Done, line: Option<Line>) {
        let seconds = self.taken as f64 / BYTES_A_SECOND;
        self.app.metrics.audio_milliseconds.fetch_add((seconds * 1000.0) as u64, Ordering::Relaxed);
        let result = result.map(|result| TranscriptionResult { model: self.work.model.clone(), ..result });
        let stored = self.record.close(result.as_ref(), super::store_within(self.app.is_draining())).await;
        let mut error = self.ending.take().and_then(|ending| ending.error);
        let transcript = stored.unwrap_or_else(|failure| {
            tracing::error!(session = self.id, error = %failure.error, "live.store_failed");
            if error.is_none() {
                self.outbox.message(self.dialect.error(&failure.error));
            }
            error.get_or_insert(failure.error);
            None
        });
        tracing::info!(session = self.id, seconds, transcript = transcript.map(|id| id.0), "live.session_ended");
        // It is over for everybody but its connection, which the end of the service still waits for.
        drop((self.place, self.live));
        self.registration.attached.close();
        while let Ok(connection) = self.registration.attached.try_recv() {
            tokio::spawn(refuse_ended(connection));
        }
        let Some(line) = line else { return };
        if let Some(result) = &result {
            for message in self.dialect.last(result, transcript) {
                self.outbox.message(message);
            }
        }
        match &error {
            Some(error) => self.outbox.close(close_code(error), &error.message),
            None => self.outbox.close(1000, ""),
        }
        line.end().await;
    }

    fn backlog(&self) -> f64 {
        self.live.as_ref().map_or(0.0, |live| live.backlog())
    }

    fn so_far(&self) -> Option<TranscriptionResult> {
        self.live.as_ref().map(|live| self.before.whole(live.so_far()))
    }
}

/// Bytes of so many seconds of sound, in whole samples.
fn bytes_of(seconds: f64) -> u64 {
    (seconds * f64::from(SAMPLE_RATE)) as u64 * 2
}

async fn refuse_ended(connection: Connection) {
    refuse(connection, &Failure::new(ErrorKind::Conflict, "this session is ending: begin another")).await;
}

/// What the engine is asked beside taking sound.
#[derive(Clone, Copy)]
enum Ask {
    Nothing,
    Flush,
    Finish,
}

/// The session is over, with this text.
struct Done(Option<TranscriptionResult>);

/// The next thing that comes over a connection; nothing, for ever, without one.
async fn next(line: &mut Option<Line>) -> Incoming {
    match line {
        Some(line) => line.next().await,
        None => std::future::pending().await,
    }
}

/// 16-bit samples, little-endian, as numbers from -1 to 1; `half` is a sample's first byte whose second has yet to come.
pub(super) fn samples(half: &mut Option<u8>, bytes: &[u8]) -> Vec<f32> {
    let mut samples = Vec::with_capacity(bytes.len() / 2 + 1);
    let sample = |low: u8, high: u8| f32::from(i16::from_le_bytes([low, high])) / 32_768.0;
    let mut rest = bytes;
    if let (Some(low), Some((&high, others))) = (*half, bytes.split_first()) {
        samples.push(sample(low, high));
        (*half, rest) = (None, others);
    }
    let pairs = rest.chunks_exact(2);
    if let [last] = pairs.remainder() {
        *half = Some(*last);
    }
    samples.extend(pairs.map(|pair| sample(pair[0], pair[1])));
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_is_the_same_however_it_is_cut() {
        let bytes: Vec<u8> = (0..=255).collect();
        let whole = samples(&mut None, &bytes);
        assert_eq!(whole.len(), 128);
        assert!(whole[0] > 0.0 && whole[127] < 0.0);
        for size in [1, 2, 3, 7, 255] {
            let mut half = None;
            let cut: Vec<f32> = bytes.chunks(size).flat_map(|piece| samples(&mut half, piece)).collect();
            assert_eq!(cut, whole, "pieces of {size}");
            assert_eq!(half, None);
        }
    }
}
