//! What a session leaves in the store, written as it goes: its text, and its charge, minute by begun minute.
//!
//! A task of its own writes, so that a database that is slow or away for a while stops neither sound nor words: what could not be written is written later.
//! At most one write in [`WRITE_EVERY`], beside those that charge a minute.

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

/// The shortest time between two writes of text.
const WRITE_EVERY: Duration = Duration::from_secs(2);
/// A session that has nothing to write says so often that it goes on.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// What a minute's charge may take before its sound is heard without it.
const CHARGE_WITHIN: Duration = Duration::from_secs(3);
/// How often a write is tried again while the database fails.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// A session without sound says that it goes on when this part of its hold's time is over.
const RENEW_AFTER: f64 = 1.0 / 3.0;

/// The record of one session.
pub(crate) struct Record {
    writer: Writer,
    task: Option<JoinHandle<()>>,
    /// Whether the first minute is held and not charged yet.
    renewed: Option<Instant>,
}

/// How much of a session is stored: texts of the engine, and the segments that they became.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Texts before this one are stored for good.
    pub(crate) text: usize,
    /// The position of the segment that the next text begins or goes on with.
    pub(crate) position: i64,
}

/// Writes what a session has to write.
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
    /// There is something to write.
    bell: Notify,
    /// Something was written, or could not be.
    written: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    lease: Option<LiveLease>,
    /// Seconds of sound.
    heard: f64,
    charged: i64,
    /// What waits to be written.
    text: Option<Batch>,
    batches: u64,
    stored: Mark,
    /// Since when the database fails.
    failing: Option<Instant>,
    /// Why the session can't go on.
    refused: Option<ApiError>,
    is_closed: bool,
}

#[derive(Clone)]
struct Batch {
    number: u64,
    language: String,
    position: i64,
    segments: Vec<Segment>,
    next: Mark,
}

/// What a writer does after a write.
enum Next {
    Write,
    Retry,
    End,
}

impl Record {
    /// Refuses whoever can't begin a minute, and holds the first one; a session that is continued has one already.
    pub(crate) async fn open(
        app: &App,
        caller: &Caller,
        session: &str,
        work: &Work,
        continued: Option<&ResumedLive>,
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
        let state = continued.map_or_else(State::default, |continued| State {
            lease: Some(continued.lease.clone()),
            heard: continued.heard_seconds,
            charged: continued.charged_minutes,
            stored: Mark { text: 0, position: continued.segments.len() as i64 },
            ..State::default()
        });
        let shared = Shared { state: Mutex::new(state), bell: Notify::new(), written: watch::Sender::new(()) };
        let (app, caller, session) = (app.clone(), caller.clone(), session.to_owned());
        let writer = Writer { app, caller, session, new, shared: Arc::new(shared) };
        let renewed = match continued {
            Some(_) => None,
            None => writer.hold().await.map_err(|error| writer.refused(error))?.then(Instant::now),
        };
        let task = tokio::spawn(writer.clone().run());
        Ok(Record { writer, task: Some(task), renewed })
    }

    /// Charges every minute that sound up to `seconds` begins. While the database fails the sound is heard all the same, and charged later.
    pub(crate) async fn cover(&mut self, seconds: f64) -> Result<(), Failure> {
        let shared = Arc::clone(&self.writer.shared);
        let mut written = shared.written.subscribe();
        {
            let mut state = shared.lock();
            state.heard = state.heard.max(seconds);
            if probe::minutes(seconds) <= state.charged {
                return Ok(());
            }
        }
        self.renewed = None;
        shared.bell.notify_one();
        let settled = async {
            loop {
                {
                    let state = shared.lock();
                    if let Some(refused) = &state.refused {
                        return Err(refused.clone());
                    }
                    if state.failing.is_some() || probe::minutes(seconds) <= state.charged {
                        return Ok(());
                    }
                }
                if written.changed().await.is_err() {
                    return Ok(());
                }
            }
        };
        match tokio::time::timeout(CHARGE_WITHIN, settled).await {
            Ok(settled) => settled.map_err(Failure::from),
            Err(_) => Ok(()),
        }
    }

    /// How far the texts of the session are stored.
    pub(crate) fn stored(&self) -> Mark {
        self.writer.shared.lock().stored
    }

    /// Has segments written that begin at a mark and end before `next`.
    pub(crate) fn append(&self, from: Mark, segments: Vec<Segment>, language: &str, next: Mark) {
        if self.writer.caller.identity().is_none() {
            return;
        }
        let mut state = self.writer.shared.lock();
        state.batches += 1;
        let number = state.batches;
        let (language, position) = (language.to_owned(), from.position);
        state.text = Some(Batch { number, language, position, segments, next });
        drop(state);
        self.writer.shared.bell.notify_one();
    }

    /// Why the session can't go on, if it can't.
    pub(crate) fn problem(&self) -> Option<ApiError> {
        let state = self.writer.shared.lock();
        let patience = grace(&self.writer.app.config.stream);
        let is_away = state.failing.is_some_and(|since| since.elapsed() >= patience);
        let away =
            || ApiError::new(ErrorKind::Internal, "what is heard could not be stored for too long: begin another");
        state.refused.clone().or_else(|| is_away.then(away))
    }

    /// Keeps the hold of a session in which nothing was said yet.
    pub(crate) async fn renew(&mut self) {
        let Writer { app, caller: Caller::Account(identity), session, .. } = &self.writer else { return };
        let keep = app.config.stream.hold.duration();
        let is_due = self.renewed.is_some_and(|renewed| renewed.elapsed() >= keep.mul_f64(RENEW_AFTER));
        if !is_due {
            return;
        }
        self.renewed = Some(Instant::now());
        if let Err(error) = app.store.ledger().extend_hold(identity.account(), &live_reference(session), 0, keep).await
        {
            tracing::warn!(%error, "live.hold_not_renewed");
        }
    }

    /// Completes the transcript, where the session belongs to an account and heard anything; tries for as long as others may wait for it.
    pub(crate) async fn close(
        mut self,
        result: Option<&TranscriptionResult>,
        within: Duration,
    ) -> Result<Option<TranscriptId>, Failure> {
        let deadline = Instant::now() + within;
        self.writer.shared.lock().is_closed = true;
        self.writer.shared.bell.notify_one();
        if let Some(task) = self.task.take() {
            // A write under way may take as long as the database lets it wait.
            let _ = tokio::time::timeout(within, task).await;
        }
        loop {
            let closed = self.writer.complete(result).await;
            match closed {
                Ok(transcript) => return Ok(transcript),
                Err(error) if is_transient(&error) && Instant::now() < deadline => {
                    tracing::warn!(session = self.writer.session, %error, "live.complete_failed");
                    tokio::time::sleep(RETRY_EVERY).await;
                }
                Err(error) => return Err(self.writer.not_completed(error)),
            }
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.writer.shared.lock().is_closed = true;
        self.writer.shared.bell.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Writer {
    /// Holds the first minute of an account; looks whether an address without one has anything left.
    async fn hold(&self) -> hark_store::Result<bool> {
        let app = &self.app;
        match &self.caller {
            Caller::Account(identity) => {
                let keep = app.config.stream.hold.duration();
                app.store.ledger().hold(identity.account(), &live_reference(&self.session), 1, keep).await?;
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

    /// Writes until the session is over or can't go on.
    async fn run(self) {
        let mut last: Option<Instant> = None;
        while self.wait(last).await {
            let written = self.write().await;
            last = Some(Instant::now());
            let next = self.note(written);
            self.shared.written.send_replace(());
            match next {
                Next::Write => {}
                Next::Retry => tokio::time::sleep(RETRY_EVERY).await,
                Next::End => return,
            }
        }
    }

    /// Notes what became of a write.
    fn note(&self, written: hark_store::Result<()>) -> Next {
        let mut state = self.shared.lock();
        match written {
            Ok(()) => {
                state.failing = None;
                Next::Write
            }
            Err(error) if is_transient(&error) => {
                tracing::warn!(session = self.session, %error, "live.write_failed");
                state.failing.get_or_insert_with(Instant::now);
                Next::Retry
            }
            Err(error) => {
                state.refused = Some(self.refused(error).error);
                Next::End
            }
        }
    }

    /// Waits until there is something to write, after the last write at this time; false when the session is over.
    async fn wait(&self, last: Option<Instant>) -> bool {
        loop {
            let since = last.map_or(WRITE_EVERY, |last| last.elapsed());
            let patience = {
                let state = self.shared.lock();
                if state.is_closed {
                    return false;
                }
                let is_due = state.heard > 0.0 && probe::minutes(state.heard) > state.charged;
                if is_due || state.text.is_some() && since >= WRITE_EVERY {
                    return true;
                }
                match (&state.text, &state.lease) {
                    (Some(_), _) => WRITE_EVERY - since,
                    (None, Some(_)) if since >= RENEW_EVERY => return true,
                    (None, Some(_)) => RENEW_EVERY - since,
                    (None, None) => RENEW_EVERY,
                }
            };
            let _ = tokio::time::timeout(patience, self.shared.bell.notified()).await;
        }
    }

    /// Charges what is due and appends what was settled.
    async fn write(&self) -> hark_store::Result<()> {
        let store = &self.app.store;
        let (heard, charged, batch) = {
            let state = self.shared.lock();
            (state.heard, state.charged, state.text.clone())
        };
        let minutes = probe::minutes(heard);
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
        // What can't be charged ends the session, and does not keep what was settled from being stored.
        let paid = match minutes > charged {
            true => store.live().charge(&lease, identity.key(), heard, minutes).await,
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
            None => {
                Batch { number: 0, language: String::new(), position: 0, segments: Vec::new(), next: Mark::default() }
            }
        };
        let heard_seconds = if paid.is_ok() { heard } else { 0.0 };
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

    /// The right to write; the transcript begins with the first sound.
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
        let (heard, charged, is_begun) = {
            let state = self.shared.lock();
            (state.heard, state.charged, state.lease.is_some())
        };
        // The minute that could not be paid for was not heard.
        let heard = result.map_or(heard, |result| result.duration);
        if !is_begun && heard <= 0.0 {
            return match store.ledger().settle(&live_reference(&self.session), 0, "").await {
                Ok(_) | Err(StoreError::NotFound(_)) => Ok(None),
                Err(error) => Err(error),
            };
        }
        let lease = self.lease().await?;
        let minutes = probe::minutes(heard);
        if minutes > charged {
            match store.live().charge(&lease, identity.key(), heard, minutes).await {
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
            None => self.refused(error),
        }
    }

    fn refused(&self, error: StoreError) -> Failure {
        match error {
            StoreError::LeaseLost => Failure::new(
                ErrorKind::Conflict,
                "this session was continued elsewhere, or its transcript was deleted: begin another",
            ),
            error => Failure::of_store(error, self.app.clock.now()),
        }
    }
}

/// Whether another try may succeed.
fn is_transient(error: &StoreError) -> bool {
    error.fault() == FaultKind::Unavailable
}
