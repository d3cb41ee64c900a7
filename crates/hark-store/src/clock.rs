//! The time: the system's, or one that a test sets.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970 UTC, as every time is stored.
pub type Micros = i64;

/// Microseconds of a UTC day.
pub const DAY: Micros = 86_400_000_000;

/// Where the store takes the time from.
#[derive(Clone, Default)]
pub struct Clock {
    /// Set by hand in tests; otherwise the system's time counts.
    by_hand: Option<Arc<AtomicI64>>,
    /// What the database's clock is ahead of ours: leases must mean the same to every machine.
    ahead: Arc<AtomicI64>,
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

    /// Now.
    pub fn now(&self) -> Micros {
        match &self.by_hand {
            Some(now) => now.load(Ordering::SeqCst),
            None => system_now() + self.ahead.load(Ordering::Relaxed),
        }
    }

    /// Moves a manual clock; the system's does not move.
    pub fn advance(&self, by: Duration) {
        if let Some(now) = &self.by_hand {
            now.fetch_add(micros(by), Ordering::SeqCst);
        }
    }

    /// Follows the clock of a database that several machines share.
    pub(crate) fn follow(&self, database_now: Micros) {
        self.ahead.store(database_now - system_now(), Ordering::Relaxed);
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now())
    }
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
}
