//! Clocks: the system's, or one that a test sets.
//!
//! [`Clock::now`] is wall-clock time: what people see, and what days and months are counted by. It may be stepped, by an operator or by NTP.
//! [`Clock::monotonic`] never goes back: durations and timeouts are measured by it.

use std::fmt;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970 UTC, as every time is stored.
pub type Micros = i64;

/// Microseconds of a UTC day.
pub const DAY: Micros = 86_400_000_000;

/// The clock of a store.
#[derive(Clone, Default)]
pub struct Clock {
    /// Set in tests; otherwise the system's time is used.
    manual: Option<Arc<AtomicI64>>,
    /// Offset from monotonic time to the wall clock of a shared database; 0 without one.
    database_offset: Arc<AtomicI64>,
    /// Sum of the steps by [`Clock::step`], for tests.
    step_offset: Arc<AtomicI64>,
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Clock {
        Clock::default()
    }

    /// A clock that stands still until [`Clock::advance`].
    pub fn manual(start: Micros) -> Clock {
        Clock { manual: Some(Arc::new(AtomicI64::new(start))), ..Clock::default() }
    }

    /// Wall-clock time.
    pub fn now(&self) -> Micros {
        if let Some(now) = &self.manual {
            return now.load(Ordering::SeqCst);
        }
        match self.database_offset.load(Ordering::Relaxed) {
            0 => system_now() + self.step_offset.load(Ordering::SeqCst),
            offset => monotonic() + offset,
        }
    }

    /// Monotonic time in microseconds since an arbitrary moment.
    pub fn monotonic(&self) -> Micros {
        match &self.manual {
            Some(now) => now.load(Ordering::SeqCst),
            None => monotonic(),
        }
    }

    /// Wall-clock time at the start of the process plus the monotonic time since: unaffected by steps while the process runs.
    pub(crate) fn steady(&self) -> Micros {
        match &self.manual {
            Some(now) => now.load(Ordering::SeqCst),
            None => PROCESS_START.1 + monotonic(),
        }
    }

    /// Whether it is a manual clock.
    pub(crate) fn is_manual(&self) -> bool {
        self.manual.is_some()
    }

    /// Advances a manual clock; does nothing to the system's.
    pub fn advance(&self, by: Duration) {
        if let Some(now) = &self.manual {
            now.fetch_add(micros(by), Ordering::SeqCst);
        }
    }

    /// Steps the wall clock as this process sees it, forward or back; for tests.
    pub fn step(&self, by: Micros) {
        self.step_offset.fetch_add(by, Ordering::SeqCst);
    }

    /// Synchronizes the wall clock with a database that several machines share.
    pub(crate) fn sync_with_database(&self, database_now: Micros) {
        self.database_offset.store(database_now - monotonic(), Ordering::Relaxed);
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

/// The first use of a clock in this process, in monotonic and wall-clock time.
static PROCESS_START: LazyLock<(Instant, Micros)> = LazyLock::new(|| (Instant::now(), system_now()));

fn monotonic() -> Micros {
    micros(PROCESS_START.0.elapsed())
}

fn system_now() -> Micros {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, micros)
}

/// A duration in microseconds.
pub(crate) fn micros(duration: Duration) -> Micros {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// The UTC day of a time, counted from 1970.
pub fn day_of(at: Micros) -> i64 {
    at.div_euclid(DAY)
}

/// The UTC month of a time, counted from January of year 0.
pub(crate) fn month_of(at: Micros) -> i64 {
    // Counting from 1 March 0000 puts the leap day last; 400 years have 146,097 days, 5 months from March 153.
    let day = day_of(at) + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    (era * 400 + year_of_era) * 12 + month_from_march + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn month(year: i64, month: i64) -> i64 {
        year * 12 + month - 1
    }

    #[test]
    fn months_change_at_the_first_of_the_month() {
        assert_eq!(month_of(0), month(1970, 1));
        assert_eq!(month_of(31 * DAY - 1), month(1970, 1));
        assert_eq!(month_of(31 * DAY), month(1970, 2));
        // 2024-02-29 is day 19,782.
        assert_eq!(month_of(19_782 * DAY), month(2024, 2));
        assert_eq!(month_of(19_783 * DAY), month(2024, 3));
        assert_eq!(month_of(-DAY), month(1969, 12));
    }

    #[test]
    fn a_manual_clock_moves_only_by_advance() {
        let clock = Clock::manual(5);
        assert_eq!(clock.now(), 5);
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.clone().now(), 1_000_005);
    }

    #[test]
    fn a_step_of_the_wall_clock_does_not_move_monotonic_time() {
        let clock = Clock::system();
        let (date, monotonic, steady) = (clock.now(), clock.monotonic(), clock.steady());
        clock.step(-3_600_000_000);
        assert!(clock.now() < date - 3_500_000_000);
        assert!(clock.monotonic() >= monotonic && clock.steady() >= steady);
        assert!(clock.steady() < steady + 60_000_000);
    }
}
