//! What the log says of a speech, so that a file can be traced by its watermark. Never the text.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use hark_voice::{Payload, Spoken};

use crate::app::App;
use crate::engine::{SpeechVoice, SpeechWork};
use crate::metrics::Metrics;
use crate::middleware::Identity;

/// Writes that a speech was made before any of it leaves this server, and how it ended; dropped in between, that it broke off.
pub(super) struct SpeechLog {
    key: i64,
    account: i64,
    payload: Payload,
    is_matched: bool,
    characters: usize,
    /// Of the request: a stream ends outside of it.
    span: tracing::Span,
    metrics: Arc<Metrics>,
    begun: Instant,
    /// Bytes of the file that were passed on.
    bytes: u64,
    /// It was made, and did not end yet.
    is_open: bool,
}

impl SpeechLog {
    pub(super) fn new(app: &App, identity: &Identity, work: &SpeechWork, characters: usize) -> Self {
        SpeechLog {
            key: identity.key().0,
            account: identity.account().0,
            payload: work.payload,
            is_matched: matches!(work.voice, SpeechVoice::Like(_)),
            characters,
            span: tracing::Span::current(),
            metrics: Arc::clone(&app.metrics),
            begun: Instant::now(),
            bytes: 0,
            is_open: false,
        }
    }

    /// The speech is charged, and nothing of it was sent.
    pub(super) fn made(&mut self) {
        self.is_open = true;
        self.metrics.voice.spoken.fetch_add(1, Ordering::Relaxed);
        self.metrics.voice.matched.fetch_add(u64::from(self.is_matched), Ordering::Relaxed);
        let _request = self.span.enter();
        tracing::info!(
            key = self.key,
            account = self.account,
            mark = self.mark(),
            issuer = self.payload.issuer,
            matched = self.is_matched,
            characters = self.characters,
            "speech.made"
        );
    }

    /// So many more bytes of its file were passed on.
    pub(super) fn passed_on(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// All of it was passed on.
    pub(super) fn completed(mut self, spoken: &Spoken) {
        self.end(Some(spoken));
    }

    fn end(&mut self, spoken: Option<&Spoken>) {
        self.is_open = false;
        let took = spoken.map_or_else(|| self.begun.elapsed().as_secs_f64(), |spoken| spoken.took);
        let seconds = spoken.map(|spoken| spoken.seconds);
        let voice = &self.metrics.voice;
        voice.milliseconds.fetch_add((seconds.unwrap_or(0.0) * 1000.0) as u64, Ordering::Relaxed);
        voice.work_milliseconds.fetch_add((took * 1000.0) as u64, Ordering::Relaxed);
        let _request = self.span.enter();
        tracing::info!(
            mark = self.mark(),
            complete = spoken.is_some(),
            bytes = self.bytes,
            seconds,
            took,
            "speech.ended"
        );
    }

    /// The hash of the request, as the detector of watermarks writes it.
    fn mark(&self) -> String {
        format!("{:08x}", self.payload.request)
    }
}

impl Drop for SpeechLog {
    fn drop(&mut self) {
        if self.is_open {
            self.end(None);
        }
    }
}
