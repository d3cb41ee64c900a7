//! Requests per minute, by the generic cell rate algorithm (GCRA): a leaky bucket, stored as one timestamp.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Mutex;

use super::subnet;

/// Shards, so that busy keys do not wait for each other.
const SHARDS: usize = 16;
/// A shard with this many buckets drops those without any recent request.
const SWEEP_AT: usize = 4096;
const MINUTE: i64 = 60_000_000;

/// For each caller the time when its bucket will be empty again, in microseconds.
pub(crate) struct RateLimiter {
    shards: [Mutex<Shard>; SHARDS],
    /// Randomly keyed in every process, so that hash collisions can't be provoked.
    hasher: RandomState,
}

#[derive(Default)]
struct Shard {
    empty_at: HashMap<u64, i64>,
    sweep_at: usize,
}

/// The rate limit of a caller after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Whether the request may pass.
    pub(crate) passes: bool,
    /// Requests a minute.
    pub(crate) limit: u32,
    /// Requests that may follow at once.
    pub(crate) remaining: u32,
    /// Seconds until all of `limit` may follow at once.
    pub(crate) reset: u64,
    /// Seconds until the next request passes; 0 where it does now.
    pub(crate) retry_after: u64,
}

impl RateLimiter {
    pub(crate) fn new() -> Self {
        RateLimiter { shards: std::array::from_fn(|_| Mutex::default()), hasher: RandomState::new() }
    }

    /// Counts a request of an address, or rather of its subnet.
    pub(crate) fn check_address(&self, address: IpAddr, limit: u32, now: i64) -> Rate {
        self.check(self.hasher.hash_one(subnet(address)), limit, now)
    }

    /// Counts a request of `caller` at `now` against `limit` requests per minute. `now` is in microseconds of a monotonic clock: a wall clock set back
    /// by an hour would lock every key out for one.
    pub(crate) fn check(&self, caller: u64, limit: u32, now: i64) -> Rate {
        let limit = limit.max(1);
        let step = MINUTE / i64::from(limit);
        // The burst: a whole minute's worth at once, then evenly.
        let tolerance = step * (i64::from(limit) - 1);
        let shard = &self.shards[(caller % SHARDS as u64) as usize];
        let mut shard = shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // No bucket is ever fuller than this, unless the clock stepped back: then no wait is longer than a minute.
        let fullest = now + tolerance + step;
        let empty_at = shard.empty_at.get(&caller).copied().unwrap_or(now).clamp(now, fullest);
        let passes = empty_at - now <= tolerance;
        let then = if passes { empty_at + step } else { empty_at };
        // Also after a rejection, to store the clamped value.
        shard.empty_at.insert(caller, then);
        shard.drop_idle(now);
        let ahead = then - now;
        Rate {
            passes,
            limit,
            remaining: ((tolerance + step - ahead).max(0) / step) as u32,
            reset: seconds(ahead),
            retry_after: if passes { 0 } else { seconds(empty_at - now - tolerance).max(1) },
        }
    }
}

impl Shard {
    fn drop_idle(&mut self, now: i64) {
        if self.empty_at.len() >= self.sweep_at.max(SWEEP_AT) {
            self.empty_at.retain(|_, empty_at| *empty_at > now);
            self.sweep_at = self.empty_at.len() * 2;
        }
    }
}

fn seconds(microseconds: i64) -> u64 {
    microseconds.max(0).unsigned_abs().div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minutes_worth_passes_at_once_and_then_one_by_one() {
        let limiter = RateLimiter::new();
        for left in (0..60).rev() {
            let rate = limiter.check(7, 60, 0);
            assert!(rate.passes);
            assert_eq!(rate.remaining, left);
        }
        let refused = limiter.check(7, 60, 0);
        assert_eq!((refused.passes, refused.remaining, refused.retry_after, refused.reset), (false, 0, 1, 60));
        assert!(limiter.check(7, 60, 1_000_000).passes);
        assert!(!limiter.check(7, 60, 1_000_000).passes);
        assert!(limiter.check(8, 60, 1_000_000).passes, "another caller has its own bucket");
    }

    #[test]
    fn after_a_quiet_minute_the_whole_limit_is_there_again() {
        let limiter = RateLimiter::new();
        for _ in 0..5 {
            limiter.check(1, 5, 0);
        }
        let rate = limiter.check(1, 5, MINUTE);
        assert_eq!((rate.passes, rate.remaining), (true, 4));
    }

    #[test]
    fn no_more_than_the_limit_and_a_minutes_worth_ever_pass_in_a_minute() {
        let limiter = RateLimiter::new();
        let passed = (0..120_000).filter(|&tick| limiter.check(1, 100, tick * 500).passes).count();
        assert!((195..=201).contains(&passed), "{passed} passed in a minute of hammering");
    }

    #[test]
    fn a_clock_that_steps_back_locks_nobody_out() {
        let limiter = RateLimiter::new();
        for _ in 0..60 {
            limiter.check(1, 60, 100 * MINUTE);
        }
        let refused = limiter.check(1, 60, 40 * MINUTE);
        assert!(refused.retry_after <= 2, "{refused:?}");
        assert!(limiter.check(1, 60, 40 * MINUTE + 2_000_000).passes);
    }

    #[test]
    fn callers_whose_buckets_are_empty_are_forgotten() {
        let limiter = RateLimiter::new();
        for caller in 0..200_000 {
            limiter.check(caller, 60, caller as i64 * 1_000_000);
        }
        let kept: usize = limiter.shards.iter().map(|shard| shard.lock().unwrap().empty_at.len()).sum();
        assert!(kept <= SHARDS * (SWEEP_AT + 1), "{kept} callers are kept");
    }
}
