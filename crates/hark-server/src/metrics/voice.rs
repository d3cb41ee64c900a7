//! Speech that was made.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Speech synthesis, for `/metrics`; its calls are counted with those that work on text.
#[derive(Default)]
pub(crate) struct VoiceMetrics {
    /// Speeches that were made.
    pub(crate) spoken: AtomicU64,
    /// Of these in the voice of a reference.
    pub(crate) matched: AtomicU64,
    /// Milliseconds of speech.
    pub(crate) milliseconds: AtomicU64,
    /// Milliseconds that making it took.
    pub(crate) work_milliseconds: AtomicU64,
}

impl VoiceMetrics {
    /// The text format of Prometheus.
    pub(super) fn render(&self, text: &mut String) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        for (name, help, value) in [
            ("hark_speeches_total", "Speeches made.", count(&self.spoken)),
            ("hark_speeches_matched_total", "Speeches made in the voice of a reference.", count(&self.matched)),
            ("hark_speech_seconds_total", "Seconds of speech made.", count(&self.milliseconds) / 1000.0),
            (
                "hark_speech_work_seconds_total",
                "Seconds that making speech took.",
                count(&self.work_milliseconds) / 1000.0,
            ),
        ] {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}\n");
        }
    }
}
