//! When a job is tried again, and when it has failed.

use std::time::Duration;

use crate::random;

/// Nobody waits longer than this for a retry; a `not_before` that lies further ahead was written under another date.
pub(crate) const LONGEST_BACKOFF: Duration = Duration::from_secs(3600);

/// How faults are retried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// Attempts that count before a job has failed.
    pub max_attempts: i64,
    /// The wait after the first fault; it doubles with each.
    pub backoff_base: Duration,
    /// The longest wait, at most an hour.
    pub backoff_max: Duration,
    /// The longest wait for something that is unavailable: what comes back should be noticed soon.
    pub unavailable_backoff_max: Duration,
    /// How long a job may wait for something that is unavailable before it has failed, counted from when it was queued.
    pub unavailable_for: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy {
            max_attempts: 3,
            backoff_base: Duration::from_secs(2),
            backoff_max: Duration::from_secs(300),
            unavailable_backoff_max: Duration::from_secs(30),
            unavailable_for: Duration::from_secs(24 * 3600),
        }
    }
}

impl RetryPolicy {
    /// The wait after so many attempts that counted.
    pub(crate) fn backoff(&self, attempts: i64) -> Duration {
        jittered(self.backoff_base, attempts, self.backoff_max)
    }

    /// The wait after so many faults of something that is unavailable.
    pub(crate) fn unavailable_backoff(&self, deferrals: i64) -> Duration {
        jittered(self.backoff_base, deferrals, self.unavailable_backoff_max.min(self.backoff_max))
    }
}

/// `base` doubled with each fault after the first, at most `most`; up to a half is taken off at random, so that jobs which failed together do not come
/// back together.
fn jittered(base: Duration, faults: i64, most: Duration) -> Duration {
    let doublings = u32::try_from(faults.clamp(1, 32) - 1).unwrap_or(0);
    let full = base.saturating_mul(1 << doublings).min(most).min(LONGEST_BACKOFF);
    // Without randomness jobs come back together, which is worse but no reason to fail.
    let share = random::bytes::<2>().map_or(0.0, |bytes| f64::from(u16::from_le_bytes(bytes)) / 65536.0);
    full.mul_f64(1.0 - share / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_are_spread() {
        let policy = RetryPolicy::default();
        for (attempts, full) in [(1, 2), (2, 4), (3, 8), (8, 256), (9, 300), (1000, 300)] {
            for _ in 0..50 {
                let wait = policy.backoff(attempts);
                let full = Duration::from_secs(full);
                assert!(wait > full / 2 - Duration::from_millis(1) && wait <= full, "{attempts}: {wait:?}");
            }
        }
        assert!(policy.unavailable_backoff(1000) <= Duration::from_secs(30));
        let waits: std::collections::HashSet<Duration> = (0..20).map(|_| policy.backoff(5)).collect();
        assert!(waits.len() > 1, "no jitter");
    }

    #[test]
    fn no_setting_makes_a_wait_longer_than_an_hour() {
        let day = Duration::from_secs(86_400);
        let policy = RetryPolicy { backoff_base: day, backoff_max: day, ..RetryPolicy::default() };
        assert!(policy.backoff(1) <= LONGEST_BACKOFF);
    }
}
