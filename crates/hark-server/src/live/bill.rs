//! What a session costs, minute by begun minute, and what becomes of it.

use std::time::{Duration, Instant};

use hark_api::{DateTime, ErrorKind, TranscriptionResult};
use hark_store::{AnonymousLimit, Limit, NewTranscript, TranscriptId, day_of};

use crate::app::App;
use crate::engine::Work;
use crate::error::Failure;
use crate::middleware::Caller;
use crate::probe;

/// A session says that it goes on when this part of its hold's time is over.
const RENEW_AFTER: f64 = 1.0 / 3.0;

/// The account of one session: credits held ahead, minutes counted as they begin.
pub(crate) struct Bill {
    app: App,
    caller: Caller,
    reference: String,
    /// Credits held; none without an account.
    held: i64,
    /// Minutes counted.
    counted: i64,
    renewed: Instant,
}

impl Bill {
    /// Refuses whoever can't begin a minute, and holds the first one.
    pub(crate) async fn open(app: &App, caller: &Caller, session: &str) -> Result<Self, Failure> {
        let reference = format!("stream:{session}");
        let mut bill =
            Bill { app: app.clone(), caller: caller.clone(), reference, held: 0, counted: 0, renewed: Instant::now() };
        match caller {
            Caller::Account(identity) => {
                let held = app.store.hold(identity.account(), &bill.reference, 1, bill.keep()).await;
                held.map_err(|error| bill.refused(error))?;
                bill.held = 1;
            }
            Caller::Anonymous(address) => {
                if !app.config.anonymous.enabled {
                    return Err(ErrorKind::Unauthorized.into());
                }
                let used = app.store.anonymous_use(address, day_of(app.clock.now())).await?;
                let (what, limit, used) = match app.config.anonymous.limit.into() {
                    AnonymousLimit::Transcriptions(limit) => {
                        (Limit::AnonymousTranscriptions, limit, used.transcriptions)
                    }
                    AnonymousLimit::Minutes(limit) => (Limit::AnonymousMinutes, limit, used.minutes),
                };
                if used >= limit {
                    return Err(bill.refused(hark_store::Error::Limit { what, limit, used }));
                }
            }
        }
        Ok(bill)
    }

    /// Holds and counts every minute that sound up to `seconds` begins.
    pub(crate) async fn cover(&mut self, seconds: f64) -> Result<(), Failure> {
        let minutes = probe::minutes(seconds);
        let more = minutes - self.counted;
        if more <= 0 {
            return Ok(());
        }
        match &self.caller {
            Caller::Account(identity) => {
                let (account, key) = (identity.account(), identity.key());
                if minutes > self.held {
                    let missing = minutes - self.held;
                    let held = self.app.store.extend_hold(account, &self.reference, missing, self.keep()).await;
                    held.map_err(|error| self.refused(error))?;
                    (self.held, self.renewed) = (minutes, Instant::now());
                }
                self.app.store.use_key_minutes(key, more).await.map_err(|error| self.refused(error))?;
            }
            Caller::Anonymous(address) => {
                let limit = AnonymousLimit::from(self.app.config.anonymous.limit);
                // A session is one transcription, however long.
                if self.counted == 0 || matches!(limit, AnonymousLimit::Minutes(_)) {
                    let day = day_of(self.app.clock.now());
                    let used = self.app.store.use_anonymous(address, day, more, limit).await;
                    used.map_err(|error| self.refused(error))?;
                }
            }
        }
        self.counted = minutes;
        Ok(())
    }

    /// Keeps the hold of a session in which little is said.
    pub(crate) async fn renew(&mut self) {
        let Caller::Account(identity) = &self.caller else { return };
        if self.renewed.elapsed() < self.keep().mul_f64(RENEW_AFTER) {
            return;
        }
        self.renewed = Instant::now();
        if let Err(error) = self.app.store.extend_hold(identity.account(), &self.reference, 0, self.keep()).await {
            tracing::warn!(%error, "the hold of a live session can't be kept");
        }
    }

    /// Charges the session and keeps it as a transcript, where it belongs to an account and heard anything.
    pub(crate) async fn close(
        self,
        work: &Work,
        result: Option<&TranscriptionResult>,
    ) -> Result<Option<TranscriptId>, Failure> {
        let Caller::Account(identity) = &self.caller else { return Ok(None) };
        let store = &self.app.store;
        let Some(result) = result.filter(|result| result.duration > 0.0) else {
            store.settle(&self.reference, 0, "").await.map_err(|error| self.refused(error))?;
            return Ok(None);
        };
        let new = NewTranscript {
            title: format!("Live {}", DateTime(self.app.clock.now()).date()),
            source_type: "stream".to_owned(),
            language: result.language.clone(),
            model: work.model.clone(),
        };
        let hold = Some((self.reference.as_str(), self.counted));
        let saved = match store.save_transcript(identity.account(), &new, result, hold).await {
            Err(hark_store::Error::NotFound("hold")) => {
                tracing::warn!(reference = self.reference, "the hold of a live session was gone at its end");
                store.save_transcript(identity.account(), &new, result, None).await
            }
            saved => saved,
        };
        saved.map(|(id, _)| Some(id)).map_err(|error| self.refused(error))
    }

    /// How long a hold outlives its process.
    fn keep(&self) -> Duration {
        self.app.config.stream.hold.duration()
    }

    fn refused(&self, error: hark_store::Error) -> Failure {
        Failure::of_store(error, self.app.clock.now())
    }
}
