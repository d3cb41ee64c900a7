//! Work on text: calls by task and outcome, and the language model.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use hark_text::model::BreakerState;

use super::{BUCKETS, Metrics, Timings};
use crate::engine::LanguageReport;
use crate::error::Failure;

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// It has its answer.
    Answered,
    /// Its caller left.
    Cancelled,
    /// It took too long.
    TimedOut,
    /// Something in it is wrong, or a limit was reached.
    Refused,
    /// The model is not there, or has too much to do.
    Unavailable,
    /// A defect.
    Failed,
}

impl Outcome {
    /// The outcome of a call that ends with this.
    pub(crate) fn of<T>(result: &Result<T, Failure>) -> Self {
        Self::of_status(result.as_ref().map_or_else(|failure| failure.error.status(), |_| 200))
    }

    /// The outcome of a request that is answered with this status.
    pub(crate) fn of_status(status: u16) -> Self {
        match status {
            ..400 => Outcome::Answered,
            400..500 => Outcome::Refused,
            503 => Outcome::Unavailable,
            504 => Outcome::TimedOut,
            _ => Outcome::Failed,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::Cancelled => "cancelled",
            Outcome::TimedOut => "timed_out",
            Outcome::Refused => "refused",
            Outcome::Unavailable => "unavailable",
            Outcome::Failed => "failed",
        }
    }
}

/// Work on text, for `/metrics`.
#[derive(Default)]
pub(crate) struct TextMetrics {
    calls: Mutex<BTreeMap<(&'static str, Outcome), Timings>>,
    /// Texts that were translated.
    pub(crate) translated: AtomicU64,
    /// Texts that were embedded.
    pub(crate) embedded: AtomicU64,
    /// Tokens of texts that were embedded.
    pub(crate) embedded_tokens: AtomicU64,
}

/// The time of a call. Dropped without an outcome, its caller has left.
pub(crate) struct TextTimer {
    metrics: Arc<Metrics>,
    task: &'static str,
    begun: Instant,
    outcome: Outcome,
}

impl TextTimer {
    pub(crate) fn start(metrics: &Arc<Metrics>, task: &'static str) -> Self {
        TextTimer { metrics: Arc::clone(metrics), task, begun: Instant::now(), outcome: Outcome::Cancelled }
    }

    pub(crate) fn end(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for TextTimer {
    fn drop(&mut self) {
        let mut calls = self.metrics.text.calls.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        calls.entry((self.task, self.outcome)).or_default().add(self.begun.elapsed());
    }
}

impl TextMetrics {
    /// The text format of Prometheus.
    pub(super) fn render(&self, text: &mut String) {
        for (name, help, value) in [
            ("hark_translated_texts_total", "Texts translated.", &self.translated),
            ("hark_embedded_texts_total", "Texts embedded.", &self.embedded),
            ("hark_embedded_tokens_total", "Tokens of texts embedded.", &self.embedded_tokens),
        ] {
            single(text, name, "counter", help, value.load(Ordering::Relaxed) as f64);
        }
        let name = "hark_text_call_seconds";
        let _ = write!(text, "# HELP {name} Time of calls that work on text.\n# TYPE {name} histogram\n");
        let calls = self.calls.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        for ((task, outcome), timings) in &*calls {
            timings.render(text, name, &format!("task=\"{task}\",outcome=\"{}\"", outcome.name()));
        }
    }
}

/// Writes the metrics of the language model. Counters begin anew when it is loaded again.
pub(crate) fn render_language(text: &mut String, report: &LanguageReport) {
    if let Some(engine) = &report.engine {
        let forward = engine.forward_micros as f64 / 1e6;
        let used = engine.total_pages.saturating_sub(engine.free_pages);
        for (name, kind, help, value) in [
            ("hark_lm_waiting", "gauge", "Completions that wait.", engine.waiting as f64),
            ("hark_lm_running", "gauge", "Completions that are computed.", engine.running as f64),
            ("hark_lm_cache_pages", "gauge", "Pages of the KV cache.", engine.total_pages as f64),
            ("hark_lm_cache_pages_used", "gauge", "Pages of the KV cache that hold something.", used as f64),
            (
                "hark_lm_prefix_pages",
                "gauge",
                "Pages of the KV cache that only the prefix cache uses.",
                engine.cached_pages as f64,
            ),
            ("hark_lm_prompt_tokens_total", "counter", "Prompt tokens computed.", engine.prompt_tokens as f64),
            (
                "hark_lm_cached_tokens_total",
                "counter",
                "Prompt tokens that the prefix cache had.",
                engine.cached_tokens as f64,
            ),
            ("hark_lm_generated_tokens_total", "counter", "Tokens generated.", engine.generated_tokens as f64),
            ("hark_lm_drafted_tokens_total", "counter", "Tokens computed ahead.", engine.drafted_tokens as f64),
            (
                "hark_lm_accepted_tokens_total",
                "counter",
                "Tokens computed ahead that came next.",
                engine.accepted_tokens as f64,
            ),
            ("hark_lm_steps_total", "counter", "Batches computed.", engine.steps as f64),
            ("hark_lm_forward_seconds_total", "counter", "Seconds of forward passes.", forward),
        ] {
            single(text, name, kind, help, value);
        }
    }
    if let Some(endpoint) = &report.endpoint {
        let breaker = match endpoint.breaker {
            BreakerState::Closed => 0.0,
            BreakerState::HalfOpen => 1.0,
            BreakerState::Open => 2.0,
        };
        let usage = endpoint.usage;
        for (name, kind, help, value) in [
            (
                "hark_endpoint_breaker",
                "gauge",
                "0 while the endpoint answers, 1 while it is tried, 2 while not.",
                breaker,
            ),
            ("hark_endpoint_running", "gauge", "Completions at the endpoint.", endpoint.running as f64),
            (
                "hark_endpoint_breaker_opened_total",
                "counter",
                "Times that the endpoint was found not to answer.",
                endpoint.opened as f64,
            ),
            ("hark_endpoint_requests_total", "counter", "Requests to the endpoint.", endpoint.requests as f64),
            ("hark_endpoint_retries_total", "counter", "Requests that were sent again.", endpoint.retries as f64),
            (
                "hark_endpoint_prompt_tokens_total",
                "counter",
                "Prompt tokens at the endpoint.",
                usage.prompt_tokens as f64,
            ),
            (
                "hark_endpoint_cached_tokens_total",
                "counter",
                "Prompt tokens that the endpoint had cached.",
                usage.cached_tokens as f64,
            ),
            (
                "hark_endpoint_generated_tokens_total",
                "counter",
                "Tokens generated at the endpoint.",
                usage.completion_tokens as f64,
            ),
        ] {
            single(text, name, kind, help, value);
        }
    }
}

fn single(text: &mut String, name: &str, kind: &str, help: &str, value: f64) {
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
}

impl Timings {
    pub(super) fn render(&self, text: &mut String, name: &str, labels: &str) {
        let mut up_to = 0;
        for (end, count) in BUCKETS.iter().zip(self.buckets) {
            up_to += count;
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{end}\"}} {up_to}");
        }
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", self.count);
        let _ = writeln!(text, "{name}_sum{{{labels}}} {}", self.seconds);
        let _ = writeln!(text, "{name}_count{{{labels}}} {}", self.count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_lm::engine::EngineStats;

    #[test]
    fn calls_are_counted_by_task_and_outcome_and_who_left_is_cancelled() {
        let metrics: Arc<Metrics> = Arc::default();
        TextTimer::start(&metrics, "summarize").end(Outcome::of_status(200));
        TextTimer::start(&metrics, "summarize").end(Outcome::of_status(504));
        drop(TextTimer::start(&metrics, "analyze"));
        metrics.text.embedded.fetch_add(3, Ordering::Relaxed);
        let text = metrics.render(None);
        for line in [
            "hark_text_call_seconds_count{task=\"summarize\",outcome=\"answered\"} 1",
            "hark_text_call_seconds_count{task=\"summarize\",outcome=\"timed_out\"} 1",
            "hark_text_call_seconds_bucket{task=\"analyze\",outcome=\"cancelled\",le=\"+Inf\"} 1",
            "hark_embedded_texts_total 3",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
    }

    #[test]
    fn the_language_model_tells_its_tokens_and_its_cache() {
        let engine = EngineStats { total_pages: 10, free_pages: 4, generated_tokens: 7, ..EngineStats::default() };
        let mut text = String::new();
        render_language(&mut text, &LanguageReport { engine: Some(engine), endpoint: None });
        for line in ["hark_lm_cache_pages_used 6", "hark_lm_generated_tokens_total 7", "hark_lm_waiting 0"] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
        assert!(!text.contains("hark_endpoint"));
    }
}
