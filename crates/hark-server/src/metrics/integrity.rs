//! What integrity checks found.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;

/// The structure of the database.
pub(crate) const DATABASE: &str = "database";
/// The sum of every account's ledger is its balance.
pub(crate) const LEDGER: &str = "ledger";
/// Recordings are there, whole and, where sealed, authentic.
pub(crate) const RECORDINGS: &str = "recordings";

/// What the checks found, for `/metrics`.
#[derive(Default)]
pub(crate) struct IntegrityMetrics(Mutex<BTreeMap<&'static str, Record>>);

#[derive(Default)]
struct Record {
    failures: u64,
    is_failing: bool,
    last_run: i64,
}

impl IntegrityMetrics {
    pub(crate) fn record(&self, check: &'static str, passed: bool, now: i64) {
        let mut records = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let record = records.entry(check).or_default();
        record.failures += u64::from(!passed);
        record.is_failing = !passed;
        record.last_run = now;
    }

    /// Whether the last run of a check found something.
    pub(crate) fn is_failing(&self, check: &str) -> bool {
        let records = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        records.get(check).is_some_and(|record| record.is_failing)
    }

    /// The text format of Prometheus. Every check is there from the start, so that an increase from 0 is one.
    pub(crate) fn render(&self, text: &mut String) {
        let records = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let of = |check: &str| records.get(check);
        let name = "hark_integrity_failures_total";
        let _ = write!(text, "# HELP {name} Integrity checks that found something wrong.\n# TYPE {name} counter\n");
        for check in [DATABASE, LEDGER, RECORDINGS] {
            let _ = writeln!(text, "{name}{{check=\"{check}\"}} {}", of(check).map_or(0, |record| record.failures));
        }
        let name = "hark_integrity_last_run_timestamp_seconds";
        let _ = write!(text, "# HELP {name} When an integrity check last ended.\n# TYPE {name} gauge\n");
        for check in [DATABASE, LEDGER, RECORDINGS] {
            let _ = writeln!(text, "{name}{{check=\"{check}\"}} {}", of(check).map_or(0, |record| record.last_run));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_and_the_last_result_counts() {
        let metrics = IntegrityMetrics::default();
        metrics.record(LEDGER, false, 100);
        assert!(metrics.is_failing(LEDGER) && !metrics.is_failing(DATABASE));
        metrics.record(LEDGER, true, 200);
        assert!(!metrics.is_failing(LEDGER));
        let mut text = String::new();
        metrics.render(&mut text);
        assert!(text.contains("hark_integrity_failures_total{check=\"ledger\"} 1\n"), "{text}");
        assert!(text.contains("hark_integrity_failures_total{check=\"database\"} 0\n"), "{text}");
        assert!(text.contains("hark_integrity_last_run_timestamp_seconds{check=\"ledger\"} 200\n"), "{text}");
    }
}
