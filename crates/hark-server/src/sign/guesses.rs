//! Throttling of password guesses: each failed try waits longer, without locking out the owner of the account.
//!
//! A try is counted for the pair of address and account first, so that a guesser slows itself down. Tries from a browser
//! or an address that signed in to the account before are counted separately.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use hark_store::Micros;

/// A map with this many entries drops those without a try for [`FORGET_AFTER`].
const SWEEP_AT: usize = 4096;
/// Tries are forgotten after this long without another.
const FORGET_AFTER: Micros = 24 * 3600 * 1_000_000;
/// A try that may start within this time is delayed until then; otherwise it is rejected.
const MAX_DELAY: Duration = Duration::from_secs(2);

/// The limit of tries of one kind: some are free, then each waits twice as long as the one before (exponential backoff).
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuessLimit {
    /// Tries without a wait.
    pub(crate) free: u32,
    /// The first wait.
    pub(crate) first_wait: Duration,
    /// The maximum wait.
    pub(crate) max_wait: Duration,
}

/// Failed tries by caller; every process counts by itself, so several processes allow as many times more.
#[derive(Default)]
pub(crate) struct Guesses {
    seen: Mutex<Seen>,
    /// Randomly keyed in every process, so that hash collisions can't be provoked.
    hasher: RandomState,
}

#[derive(Default)]
struct Seen {
    tries: HashMap<u64, TryCount>,
    sweep_at: usize,
}

#[derive(Clone, Copy)]
struct TryCount {
    count: u32,
    /// When the next try may begin.
    next_at: Micros,
}

impl GuessLimit {
    /// The wait after this many tries.
    fn after(self, count: u32) -> Duration {
        match count.checked_sub(self.free) {
            None => Duration::ZERO,
            Some(over) => self.first_wait.saturating_mul(2u32.saturating_pow(over)).min(self.max_wait),
        }
    }
}

impl Guesses {
    /// Counts a try for each of `who`: returns how long to delay it, or the seconds until the next is allowed. A rejected try
    /// is not counted.
    pub(crate) fn begin(&self, who: &[(&str, &str, GuessLimit)], now: Micros) -> Result<Duration, u64> {
        let mut seen = self.lock();
        let mut wait = 0;
        for (kind, name, limit) in who {
            if let Some(tried) = seen.tries.get_mut(&self.key(kind, name)) {
                // A clock that steps back must not lock anybody out for longer than the maximum wait.
                tried.next_at = tried.next_at.min(now + micros(MAX_DELAY) + micros(limit.max_wait));
                wait = wait.max(tried.next_at - now);
            }
        }
        if wait > micros(MAX_DELAY) {
            return Err(wait.unsigned_abs().div_ceil(1_000_000));
        }
        for (kind, name, limit) in who {
            let key = self.key(kind, name);
            let before = seen.tries.get(&key).filter(|tried| tried.next_at + FORGET_AFTER > now);
            let count = before.map_or(0, |tried| tried.count).saturating_add(1);
            let next_at = now + wait + micros(limit.after(count));
            seen.tries.insert(key, TryCount { count, next_at });
        }
        if seen.tries.len() >= seen.sweep_at.max(SWEEP_AT) {
            seen.tries.retain(|_, tried| tried.next_at + FORGET_AFTER > now);
            seen.sweep_at = seen.tries.len() * 2;
        }
        Ok(Duration::from_micros(wait.max(0).unsigned_abs()))
    }

    /// Uncounts a try whose password was right.
    pub(crate) fn undo(&self, kind: &str, name: &str) {
        let key = self.key(kind, name);
        let mut seen = self.lock();
        if let Some(tried) = seen.tries.get_mut(&key) {
            tried.count = tried.count.saturating_sub(1);
            if tried.count == 0 {
                seen.tries.remove(&key);
            }
        }
    }

    /// Resets the tries of one key.
    pub(crate) fn reset(&self, kind: &str, name: &str) {
        let key = self.key(kind, name);
        self.lock().tries.remove(&key);
    }

    fn key(&self, kind: &str, name: &str) -> u64 {
        self.hasher.hash_one((kind, name))
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn micros(duration: Duration) -> Micros {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Micros = 1_000_000;
    const FEW: GuessLimit =
        GuessLimit { free: 3, first_wait: Duration::from_secs(1), max_wait: Duration::from_secs(60) };

    #[test]
    fn after_the_free_tries_each_waits_twice_as_long_up_to_the_longest_wait() {
        let guesses = Guesses::default();
        let try_at = |now| guesses.begin(&[("pair", "a", FEW)], now).map(|hold| hold.as_secs());
        let mut now = 0;
        assert_eq!([(); 3].map(|()| try_at(now)), [Ok(0); 3]);
        assert_eq!(try_at(now), Ok(1), "held for a second");
        assert_eq!(try_at(now), Err(3), "that second and two more");
        now = 3 * SECOND;
        for wait in [4, 8, 16, 32, 60, 60] {
            assert_eq!(try_at(now), Ok(0));
            assert_eq!(try_at(now), Err(wait));
            assert_eq!(try_at(now + (wait as i64 - 1) * SECOND), Ok(1));
            guesses.undo("pair", "a");
            now += 10_000 * SECOND;
        }
        assert!(guesses.begin(&[("pair", "b", FEW)], now).is_ok_and(|hold| hold.is_zero()), "another has its own");
    }

    #[test]
    fn no_wait_is_longer_than_the_longest_even_when_the_clock_steps_back() {
        let guesses = Guesses::default();
        let mut now = 0;
        for _ in 0..40 {
            if let Err(seconds) = guesses.begin(&[("pair", "a", FEW)], now) {
                assert!(seconds <= 60, "{seconds}");
                now += seconds as i64 * SECOND;
            }
        }
        let back = now - 3600 * SECOND;
        let wait = guesses.begin(&[("pair", "a", FEW)], back).unwrap_err() as i64;
        assert!(wait <= 62, "{wait}");
        assert!(guesses.begin(&[("pair", "a", FEW)], back + wait * SECOND).is_ok());
        assert!(guesses.begin(&[("pair", "a", FEW)], now + FORGET_AFTER * 2).is_ok_and(|hold| hold.is_zero()));
        assert!(
            guesses.begin(&[("pair", "a", FEW)], now + FORGET_AFTER * 2).is_ok_and(|hold| hold.is_zero()),
            "forgiven"
        );
    }

    #[test]
    fn a_refused_try_counts_for_nobody_and_a_right_one_is_taken_back() {
        let guesses = Guesses::default();
        for _ in 0..6 {
            let _ = guesses.begin(&[("pair", "a", FEW)], 0);
        }
        assert!(guesses.begin(&[("pair", "a", FEW), ("address", "x", FEW)], 0).is_err());
        assert_eq!(guesses.lock().tries.len(), 1);
        guesses.reset("pair", "a");
        for _ in 0..50 {
            assert!(guesses.begin(&[("address", "x", FEW)], 0).is_ok_and(|hold| hold.is_zero()));
            guesses.undo("address", "x");
        }
    }

    #[test]
    fn those_who_were_quiet_are_forgotten() {
        let guesses = Guesses::default();
        for who in 0..50_000i64 {
            guesses.begin(&[("pair", &who.to_string(), FEW)], who * 60 * SECOND).unwrap();
        }
        assert!(guesses.lock().tries.len() <= SWEEP_AT + 1);
    }
}
