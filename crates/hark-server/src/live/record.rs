//! The stored record of a session, written as it runs: its text, and its charge by the started minute.
//!
//! A task of its own writes, so that a slow or unavailable database blocks neither audio nor text: failed writes are retried.
//! At most one write per [`WRITE_INTERVAL`], besides those that charge a minute.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hark_api::{ApiError, DateTime, ErrorKind, Segment, TranscriptionResult};
use hark_store::{
    AnonymousLimit, Error as StoreError, FaultKind, Limit, LiveAppend, LiveLease, NewTranscript, ResumedLive,
    TranscriptId, day_of, live_reference,
};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::grace;
use crate::app::App;
use crate::engine::Work;
use crate::error::Failure;
use crate::middleware::Caller;
use crate::probe;

/// Minimum interval between two writes of text.
const WRITE_INTERVAL: Duration = Duration::from_secs(2);
/// Interval of lease renewals while there is nothing to write.
const RENEW_INTERVAL: Duration = Duration::from_secs(5);
/// How long audio waits for the charge of its minute before it is processed anyway.
const CHARGE_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval of retries while the database fails.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// A session without audio extends its hold after this fraction of its duration.
const RENEW_FRACTION: f64 = 1.0 / 3.0;

/// The record of one session.
pub(crate) struct Record {
    writer: Writer,
    task: Option<JoinHandle<()>>,
    /// When the hold was last extended, while the first minute is held and not charged.
    hold_extended: Option<Instant>,
}

/// How much of a session is stored, in texts of the engine and in segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StoredPosition {
    /// Texts before this index are stored.
    pub(crate) text: usize,
    /// The position of the segment that the next text starts or extends.
    pub(crate) position: i64,
}

/// The writing side of a record.
#[derive(Clone)]
struct Writer {
    app: App,
    caller: Caller,
    session: String,
    new: NewTranscript,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Notified when there is something to write.
    wake: Notify,
    /// Changes after every write, successful or not.
    written: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    lease: Option<LiveLease>,
    /// Seconds of audio.
    audio_seconds: f64,
    charged: i64,
    /// The batch to write next.
    text: Option<Batch>,
    batches: u64,
    stored: StoredPosition,
    /// Since when writes fail.
    failing_since: Option<Instant>,
    /// The error that ends the session.
    fatal: Option<ApiError>,
    is_closed: bool,
}

#[derive(Clone)]
struct Batch {
    number: u64,
    language: String,
    position: i64,
    segments: Vec<Segment>,
    next: StoredPosition,
}

/// The next step after a write.
enum AfterWrite {
    Write,
    Retry,
    End,
}

impl Record {
    /// Holds the first minute, or fails if the caller cannot pay for it; a resumed session is charged already.
    pub(crate) async fn open(
        app: &App,
        caller: &Caller,
        session: &str,
        work: &Work,
        resumed: Option<&ResumedLive>,
    ) -> Result<Self, Failure> {
        if matches!(caller, Caller::Anonymous(_)) && !app.config.anonymous.enabled {
            return Err(ErrorKind::Unauthorized.into());
        }
        let new = NewTranscript {
            title: format!("Live {}", DateTime(app.clock.now()).date()),
            source_type: "stream".to_owned(),
            language: work.language.clone().unwrap_or_else(|| "auto".to_owned()),
            model: work.model.clone(),
        };
        let state = resumed.map_or_else(State::default, |resumed| State {
            lease: Some(resumed.lease.clone()),
            audio_seconds: resumed.heard_seconds,
            charged: resumed.charged_minutes,
            stored: StoredPosition { text: 0, position: resumed.segments.len() as i64 },
            ..State::default()
        });
        let shared = Shared { state: Mutex::new(state), wake: Notify::new(), written: watch::Sender::new(()) };
        let (app, caller, session) = (app.clone(), caller.clone(), session.to_owned());
        let writer = Writer { app, caller, session, new, shared: Arc::new(shared) };
        let hold_extended = match resumed {
            Some(_) => None,
            None => writer.hold().await.map_err(|error| writer.failure(error))?.then(Instant::now),
        };
        let task = tokio::spawn(writer.clone().run());
        Ok(Record { writer, task: Some(task), hold_extended })
    }

    /// Charges every minute started by audio up to `seconds`. While the database fails, audio is processed and charged later.
    pub(crate) async fn charge_up_to(&mut self, seconds: f64) -> Result<(), Failure> {
        let shared = Arc::clone(&self.writer.shared);
        let mut written = shared.written.subscribe();
        {
            let mut state = shared.lock();
            state.audio_seconds = state.audio_seconds.max(seconds);
            if probe::minutes(seconds) <= state.charged {
                return Ok(());
            }
        }
        self.hold_extended = None;
        shared.wake.notify_one();
        let charged = async {
            loop {
                {
                    let state = shared.lock();
                    if let Some(error) = &state.fatal {
                        return Err(error.clone());
                    }
                    if state.failing_since.is_some() || probe::minutes(seconds) <= state.charged {
                        return Ok(());
                    }
                }
                if written.changed().await.is_err() {
                    return Ok(());
                }
            }
        };
        match tokio::time::timeout(CHARGE_TIMEOUT, charged).await {
            Ok(charged) => charged.map_err(Failure::from),
            Err(_) => Ok(()),
        }
    }

    /// How much of the session is stored.
    pub(crate) fn stored(&self) -> StoredPosition {
        self.writer.shared.lock().stored
    }

    /// Queues the segments from `from` up to `next` to be written.
    pub(crate) fn append(&self, from: StoredPosition, segments: Vec<Segment>, language: &str, next: StoredPosition) {
        if self.writer.caller.identity().is_none() {
            return;
        }
        let mut state = self.writer.shared.lock();
        state.batches += 1;
        let number = state.batches;
        let (language, position) = (language.to_owned(), from.position);
        state.text = Some(Batch { number, language, position, segments, next });
        drop(state);
        self.writer.shared.wake.notify_one();
    }

    /// The error that ends the session, if any.
    pub(crate) fn error(&self) -> Option<ApiError> {
        let state = self.writer.shared.lock();
        let grace = grace(&self.writer.app.config.stream);
        let is_overdue = state.failing_since.is_some_and(|since| since.elapsed() >= grace);
        let not_stored =
            || ApiError::new(ErrorKind::Internal, "what is heard could not be stored for too long: begin another");
        state.fatal.clone().or_else(|| is_overdue.then(not_stored))
    }

    /// Extends the hold of a session without audio.
    pub(crate) async fn renew(&mut self) {
        let Writer { app, caller: Caller::Account(identity), session, .. } = &self.writer else { return };
        let duration = app.config.stream.hold.duration();
        let is_due = self.hold_extended.is_some_and(|at| at.elapsed() >= duration.mul_f64(RENEW_FRACTION));
        if !is_due {
            return;
        }
        self.hold_extended = Some(Instant::now());
        if let Err(error) =
            app.store.ledger().extend_hold(identity.account(), &live_reference(session), 0, duration).await
        {
            tracing::warn!(%error, "live.hold_not_renewed");
        }
    }

    /// Completes the transcript of an account's session with audio; retries until the timeout.
    pub(crate) async fn close(
        mut self,
        result: Option<&TranscriptionResult>,
        timeout: Duration,
    ) -> Result<Option<TranscriptId>, Failure> {
        let deadline = Instant::now() + timeout;
        self.writer.shared.lock().is_closed = true;
        self.writer.shared.wake.notify_one();
        if let Some(task) = self.task.take() {
            // A write in progress may take as long as the database's own timeouts.
            let _ = tokio::time::timeout(timeout, task).await;
        }
        loop {
            let closed = self.writer.complete(result).await;
            match closed {
                Ok(transcript) => return Ok(transcript),
                Err(error) if is_transient(&error) && Instant::now() < deadline => {
                    tracing::warn!(session = self.writer.session, %error, "live.complete_failed");
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                Err(error) => return Err(self.writer.not_completed(error)),
            }
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.writer.shared.lock().is_closed = true;
        self.writer.shared.wake.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Writer {
    /// Holds the first minute of an account; checks the remaining quota of an anonymous address.
    async fn hold(&self) -> hark_store::Result<bool> {
        let app = &self.app;
        match &self.caller {
            Caller::Account(identity) => {
                let duration = app.config.stream.hold.duration();
                app.store.ledger().hold(identity.account(), &live_reference(&self.session), 1, duration).await?;
                Ok(true)
            }
            Caller::Anonymous(address) => {
                let used = app.store.addresses().anonymous_use(address, day_of(app.clock.now())).await?;
                let (what, limit, used) = match app.config.anonymous.limit.into() {
                    AnonymousLimit::Transcriptions(limit) => {
                        (Limit::AnonymousTranscriptions, limit, used.transcriptions)
                    }
                    AnonymousLimit::Minutes(limit) => (Limit::AnonymousMinutes, limit, used.minutes),
                };
                if used >= limit { Err(StoreError::Limit { what, limit, used }) } else { Ok(false) }
            }
        }
    }

    /// Writes until the session ends or fails.
    async fn run(self) {
        let mut last: Option<Instant> = None;
        while self.wait(last).await {
            let written = self.write().await;
            last = Some(Instant::now());
            let next = self.record_outcome(written);
            self.shared.written.send_replace(());
            match next {
                AfterWrite::Write => {}
                AfterWrite::Retry => tokio::time::sleep(RETRY_INTERVAL).await,
                AfterWrite::End => return,
            }
        }
    }

    /// Records the outcome of a write.
    fn record_outcome(&self, written: hark_store::Result<()>) -> AfterWrite {
        let mut state = self.shared.lock();
        match written {
            Ok(()) => {
                state.failing_since = None;
                AfterWrite::Write
            }
            Err(error) if is_transient(&error) => {
                tracing::warn!(session = self.session, %error, "live.write_failed");
                state.failing_since.get_or_insert_with(Instant::now);
                AfterWrite::Retry
            }
            Err(error) => {
                state.fatal = Some(self.failure(error).error);
                AfterWrite::End
            }
        }
    }

    /// Waits until a write is due; false when the session has ended.
    async fn wait(&self, last: Option<Instant>) -> bool {
        loop {
            let since = last.map_or(WRITE_INTERVAL, |last| last.elapsed());
            let timeout = {
                let state = self.shared.lock();
                if state.is_closed {
                    return false;
                }
                let is_due = state.audio_seconds > 0.0 && probe::minutes(state.audio_seconds) > state.charged;
                if is_due || state.text.is_some() && since >= WRITE_INTERVAL {
                    return true;
                }
                match (&state.text, &state.lease) {
                    (Some(_), _) => WRITE_INTERVAL - since,
                    (None, Some(_)) if since >= RENEW_INTERVAL => return true,
                    (None, Some(_)) => RENEW_INTERVAL - since,
                    (None, None) => RENEW_INTERVAL,
                }
            };
            let _ = tokio::time::timeout(timeout, self.shared.wake.notified()).await;
        }
    }

    /// Charges due minutes and appends final text.
    async fn write(&self) -> hark_store::Result<()> {
        let store = &self.app.store;
        let (audio_seconds, charged, batch) = {
            let state = self.shared.lock();
            (state.audio_seconds, state.charged, state.text.clone())
        };
        let minutes = probe::minutes(audio_seconds);
        let identity = match &self.caller {
            Caller::Account(identity) => identity,
            Caller::Anonymous(address) => {
                let limit = AnonymousLimit::from(self.app.config.anonymous.limit);
                // A session is one transcription, however long.
                if minutes > charged && (charged == 0 || matches!(limit, AnonymousLimit::Minutes(_))) {
                    let day = day_of(self.app.clock.now());
                    store.addresses().count_anonymous(address, day, minutes - charged, limit).await?;
                }
                self.shared.lock().charged = minutes;
                return Ok(());
            }
        };
        let lease = self.lease().await?;
        // A failed charge ends the session, but its final text is still stored.
        let paid = match minutes > charged {
            true => store.live().charge(&lease, identity.key(), audio_seconds, minutes).await,
            false => Ok(()),
        };
        if paid.is_ok() {
            let mut state = self.shared.lock();
            state.charged = state.charged.max(minutes);
            self.shared.written.send_replace(());
        } else if paid.as_ref().is_err_and(is_transient) {
            return paid;
        }
        let Batch { number, language, position, segments, next } = match batch {
            Some(batch) => batch,
            None if minutes > charged => return paid,
            None => Batch {
                number: 0,
                language: String::new(),
                position: 0,
                segments: Vec::new(),
                next: StoredPosition::default(),
            },
        };
        let heard_seconds = if paid.is_ok() { audio_seconds } else { 0.0 };
        store.live().append(&lease, &LiveAppend { heard_seconds, language, position, segments }).await?;
        let mut state = self.shared.lock();
        if number > 0 {
            state.stored = next;
        }
        if state.text.as_ref().is_some_and(|text| text.number == number) {
            state.text = None;
        }
        paid
    }

    /// The lease; the transcript is created with the first audio.
    async fn lease(&self) -> hark_store::Result<LiveLease> {
        if let Some(lease) = self.shared.lock().lease.clone() {
            return Ok(lease);
        }
        let Caller::Account(identity) = &self.caller else { return Err(StoreError::NotFound("account")) };
        let lease = self.app.store.live().begin(identity.account(), &self.session, &self.new).await?;
        self.shared.lock().lease = Some(lease.clone());
        Ok(lease)
    }

    async fn complete(&self, result: Option<&TranscriptionResult>) -> hark_store::Result<Option<TranscriptId>> {
        let store = &self.app.store;
        let Caller::Account(identity) = &self.caller else { return Ok(None) };
        let (audio_seconds, charged, is_begun) = {
            let state = self.shared.lock();
            (state.audio_seconds, state.charged, state.lease.is_some())
        };
        // Audio of an unpaid minute was not processed.
        let audio_seconds = result.map_or(audio_seconds, |result| result.duration);
        if !is_begun && audio_seconds <= 0.0 {
            return match store.ledger().settle(&live_reference(&self.session), 0, "").await {
                Ok(_) | Err(StoreError::NotFound(_)) => Ok(None),
                Err(error) => Err(error),
            };
        }
        let lease = self.lease().await?;
        let minutes = probe::minutes(audio_seconds);
        if minutes > charged {
            match store.live().charge(&lease, identity.key(), audio_seconds, minutes).await {
                Err(error @ (StoreError::NotEnoughCredits { .. } | StoreError::Limit { .. })) => {
                    tracing::warn!(session = self.session, %error, "live.minutes_not_charged");
                }
                charged => charged?,
            }
            self.shared.lock().charged = minutes;
        }
        store.live().complete(&lease, result).await?;
        Ok(Some(lease.transcript))
    }

    fn not_completed(&self, error: StoreError) -> Failure {
        tracing::error!(session = self.session, %error, "live.not_completed");
        match self.shared.lock().lease.as_ref().map(|lease| lease.transcript) {
            Some(id) => Failure::new(
                ErrorKind::Internal,
                format!(
                    "the end of the session could not be stored: what was settled before is kept as transcript {id}"
                ),
            ),
            None => self.failure(error),
        }
    }

    fn failure(&self, error: StoreError) -> Failure {
        match error {
            StoreError::LeaseLost => Failure::new(
                ErrorKind::Conflict,
                "this session was continued elsewhere, or its transcript was deleted: begin another",
            ),
            error => Failure::of_store(error, self.app.clock.now()),
        }
    }
}

/// Whether a retry may succeed.
fn is_transient(error: &StoreError) -> bool {
    error.fault() == FaultKind::Unavailable
}
