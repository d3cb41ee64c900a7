//! How often somebody may try: a few at once, then one now and then.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use hark_store::Micros;

/// The map forgets those who may try freely again when it holds this many.
const SWEEP_AT: usize = 4096;

/// How many tries somebody has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    /// At once.
    pub(crate) at_once: u32,
    /// Then one each.
    pub(crate) every: Duration,
}

/// Who tried how often: for each the moment when all tries are theirs again, in microseconds (GCRA).
///
/// It lives in this process: several processes allow as many times more.
#[derive(Default)]
pub(crate) struct Tries {
    seen: Mutex<Seen>,
    /// Keyed anew in every process, so that nobody can aim at another's entry.
    hasher: RandomState,
}

#[derive(Default)]
struct Seen {
    free_at: HashMap<u64, Micros>,
    sweep_at: usize,
}

impl Tries {
    /// Takes a try of `who`; otherwise the seconds until there is one.
    pub(crate) fn spend(&self, who: (&str, &str), allowance: Allowance, now: Micros) -> Result<(), u64> {
        let step = allowance.every.as_micros() as i64;
        let tolerance = step * (i64::from(allowance.at_once) - 1);
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

    const FEW: Allowance = Allowance { at_once: 3, every: Duration::from_secs(60) };

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
