//! Retry policy and backoff of jobs.

use std::time::Duration;

use crate::random;

/// Maximum delay of a retry; a `not_before` further in the future was computed before the clock was stepped.
pub(crate) const MAX_BACKOFF: Duration = Duration::from_secs(3600);

/// How faults are retried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// Counted attempts after which a job has failed.
    pub max_attempts: i64,
    /// The delay after the first fault; it doubles with each.
    pub backoff_base: Duration,
    /// The maximum delay, at most an hour.
    pub backoff_max: Duration,
    /// The maximum delay during an outage, so that its end is noticed soon.
    pub unavailable_backoff_max: Duration,
    /// How long after it was queued a job is still retried during an outage.
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
    /// The delay after this many counted attempts.
    pub(crate) fn backoff(&self, attempts: i64) -> Duration {
        jittered(self.backoff_base, attempts, self.backoff_max)
    }

    /// The delay after this many faults by an outage.
    pub(crate) fn unavailable_backoff(&self, deferrals: i64) -> Duration {
        jittered(self.backoff_base, deferrals, self.unavailable_backoff_max.min(self.backoff_max))
    }
}

/// Exponential backoff with jitter: `base` doubled with each fault after the first, at most `max`, minus up to a half at random, so that jobs that failed
/// together are not retried together.
fn jittered(base: Duration, faults: i64, max: Duration) -> Duration {
    let doublings = u32::try_from(faults.clamp(1, 32) - 1).unwrap_or(0);
    let full = base.saturating_mul(1 << doublings).min(max).min(MAX_BACKOFF);
    // Without randomness there is no jitter, which is no reason to fail.
    let share = random::bytes::<2>().map_or(0.0, |bytes| f64::from(u16::from_le_bytes(bytes)) / 65536.0);
    full.mul_f64(1.0 - share / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_limit_with_jitter() {
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
    fn no_setting_makes_a_delay_longer_than_an_hour() {
        let day = Duration::from_secs(86_400);
        let policy = RetryPolicy { backoff_base: day, backoff_max: day, ..RetryPolicy::default() };
        assert!(policy.backoff(1) <= MAX_BACKOFF);
    }
}
