//! Rate limits of sign-in requests and mails: a burst, then one per interval.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use hark_store::Micros;

/// A map with this many entries drops those that are no longer limited.
const SWEEP_AT: usize = 4096;

/// A rate limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    /// Tries at once.
    pub(crate) burst: u32,
    /// The interval between tries after the burst.
    pub(crate) interval: Duration,
}

/// For each caller the time when its whole burst is available again, in microseconds (GCRA).
///
/// Every process counts by itself: several processes allow as many times more.
#[derive(Default)]
pub(crate) struct Tries {
    seen: Mutex<Seen>,
    /// Randomly keyed in every process, so that hash collisions can't be provoked.
    hasher: RandomState,
}

#[derive(Default)]
struct Seen {
    free_at: HashMap<u64, Micros>,
    sweep_at: usize,
}

impl Tries {
    /// Counts a try of `who`; returns the seconds until the next is allowed if there is none.
    pub(crate) fn spend(&self, who: (&str, &str), allowance: Allowance, now: Micros) -> Result<(), u64> {
        let step = allowance.interval.as_micros() as i64;
        let tolerance = step * (i64::from(allowance.burst) - 1);
        let key = self.hasher.hash_one(who);
        let mut seen = self.lock();
        // Never later than this, unless the clock stepped back.
        let free_at = seen.free_at.get(&key).copied().unwrap_or(now).clamp(now, now + tolerance + step);
        if free_at - now > tolerance {
            seen.free_at.insert(key, free_at);
            return Err((free_at - now - tolerance).unsigned_abs().div_ceil(1_000_000).max(1));
        }
        seen.free_at.insert(key, free_at + step);
        if seen.free_at.len() >= seen.sweep_at.max(SWEEP_AT) {
            seen.free_at.retain(|_, free_at| *free_at > now);
            seen.sweep_at = seen.free_at.len() * 2;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: Allowance = Allowance { burst: 3, interval: Duration::from_secs(60) };

    #[test]
    fn after_a_few_tries_at_once_there_is_one_a_minute() {
        let tries = Tries::default();
        for _ in 0..3 {
            assert_eq!(tries.spend(("account", "a"), FEW, 0), Ok(()));
        }
        assert_eq!(tries.spend(("account", "a"), FEW, 0), Err(60));
        assert_eq!(tries.spend(("account", "a"), FEW, 59_500_000), Err(1));
        assert_eq!(tries.spend(("account", "a"), FEW, 60_000_000), Ok(()));
        assert_eq!(tries.spend(("account", "a"), FEW, 60_000_000), Err(60));
        assert_eq!(tries.spend(("account", "b"), FEW, 0), Ok(()), "another has tries of its own");
        assert_eq!(tries.spend(("address", "a"), FEW, 0), Ok(()), "and so has another kind of the same name");
    }

    #[test]
    fn those_who_may_try_freely_are_forgotten() {
        let tries = Tries::default();
        for who in 0..50_000i64 {
            tries.spend(("account", &who.to_string()), FEW, who * 60_000_000).unwrap();
        }
        assert!(tries.lock().free_at.len() <= SWEEP_AT + 1);
    }
}
