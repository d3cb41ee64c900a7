//! The time: the system's, or one that a test sets.
//!
//! Two readings, for two questions. [`Clock::now`] is the date: what people see, and what days and months are counted by. It may be stepped, by an operator
//! or by the network. [`Clock::monotonic`] only goes forward, at the pace of time: how long something took, and whether it took too long.

use std::fmt;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970 UTC, as every time is stored.
pub type Micros = i64;

/// Microseconds of a UTC day.
pub const DAY: Micros = 86_400_000_000;

/// Where the store takes the time from.
#[derive(Clone, Default)]
pub struct Clock {
    /// Set by hand in tests; otherwise the system's time counts.
    by_hand: Option<Arc<AtomicI64>>,
    /// What the date of a shared database is ahead of the monotonic reading; 0 where no database is followed.
    followed: Arc<AtomicI64>,
    /// How far the system's date was stepped, as tests do with [`Clock::step`].
    stepped: Arc<AtomicI64>,
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Clock {
        Clock::default()
    }

    /// A clock that stands still until [`Clock::advance`].
    pub fn manual(start: Micros) -> Clock {
        Clock { by_hand: Some(Arc::new(AtomicI64::new(start))), ..Clock::default() }
    }

    /// The date.
    pub fn now(&self) -> Micros {
        if let Some(now) = &self.by_hand {
            return now.load(Ordering::SeqCst);
        }
        match self.followed.load(Ordering::Relaxed) {
            0 => system_now() + self.stepped.load(Ordering::SeqCst),
            ahead => monotonic() + ahead,
        }
    }

    /// Microseconds since some moment; no step of the date moves it.
    pub fn monotonic(&self) -> Micros {
        match &self.by_hand {
            Some(now) => now.load(Ordering::SeqCst),
            None => monotonic(),
        }
    }

    /// The date when this process began, moved on by the monotonic reading: a date that no step moves while the process runs.
    pub(crate) fn steady(&self) -> Micros {
        match &self.by_hand {
            Some(now) => now.load(Ordering::SeqCst),
            None => BEGUN.1 + monotonic(),
        }
    }

    /// Whether a test moves it.
    pub(crate) fn is_manual(&self) -> bool {
        self.by_hand.is_some()
    }

    /// Moves a manual clock; the system's does not move.
    pub fn advance(&self, by: Duration) {
        if let Some(now) = &self.by_hand {
            now.fetch_add(micros(by), Ordering::SeqCst);
        }
    }

    /// Steps the date of the system's clock as this process sees it, forward or back; for tests of what such a step does.
    pub fn step(&self, by: Micros) {
        self.stepped.fetch_add(by, Ordering::SeqCst);
    }

    /// Takes the date of a database that several machines share.
    pub(crate) fn follow(&self, database_now: Micros) {
        self.followed.store(database_now - monotonic(), Ordering::Relaxed);
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}

/// When this process first asked for the time, by both readings.
static BEGUN: LazyLock<(Instant, Micros)> = LazyLock::new(|| (Instant::now(), system_now()));

fn monotonic() -> Micros {
    micros(BEGUN.0.elapsed())
}

fn system_now() -> Micros {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, micros)
}

/// A duration in the unit of the store.
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
    fn a_manual_clock_moves_only_when_told() {
        let clock = Clock::manual(5);
        assert_eq!(clock.now(), 5);
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.clone().now(), 1_000_005);
    }

    #[test]
    fn a_step_of_the_date_moves_the_date_only() {
        let clock = Clock::system();
        let (date, monotonic, steady) = (clock.now(), clock.monotonic(), clock.steady());
        clock.step(-3_600_000_000);
        assert!(clock.now() < date - 3_500_000_000);
        assert!(clock.monotonic() >= monotonic && clock.steady() >= steady);
        assert!(clock.steady() < steady + 60_000_000);
    }
}
