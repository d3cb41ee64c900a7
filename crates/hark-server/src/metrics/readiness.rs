//! Readiness checks and how they ended.

use std::fmt::Write as _;
use std::sync::Mutex;

/// What the service needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// The database takes a write.
    Database,
    /// The last integrity check found the database undamaged.
    Integrity,
    /// The data folder and the temporary folder have space.
    Disk,
    /// The folder or bucket of recordings takes, gives and removes.
    Recordings,
    /// A model can run here.
    Models,
}

impl Check {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Check::Database => "database",
            Check::Integrity => "integrity",
            Check::Disk => "disk",
            Check::Recordings => "recordings",
            Check::Models => "models",
        }
    }
}

/// How each check ended; one that does not concern this role is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report(Vec<(Check, bool)>);

impl Report {
    pub(crate) fn new(checks: Vec<(Check, bool)>) -> Self {
        Report(checks)
    }

    pub(crate) fn checks(&self) -> impl Iterator<Item = (Check, bool)> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.0.iter().all(|(_, passed)| *passed)
    }

    pub(crate) fn passed(&self, check: Check) -> bool {
        self.0.iter().all(|(other, passed)| *other != check || *passed)
    }
}

/// The last result of each readiness check.
#[derive(Default)]
pub(crate) struct ReadinessMetrics(Mutex<Report>);

impl ReadinessMetrics {
    pub(crate) fn set(&self, report: &Report) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = report.clone();
    }

    pub(crate) fn last(&self) -> Report {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub(super) fn render(&self, text: &mut String) {
        let report = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let name = "hark_ready";
        let _ = write!(text, "# HELP {name} Whether a readiness check passed.\n# TYPE {name} gauge\n");
        for (check, passed) in report.checks() {
            let _ = writeln!(text, "{name}{{check=\"{}\"}} {}", check.name(), u8::from(passed));
        }
    }
}
