//! Uploads under way, by account or address: the part of "transcriptions at once" that the store does not see yet.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};

/// Counts what each caller has under way; clones count together.
pub(crate) struct AtOnce<K> {
    counts: Arc<Mutex<HashMap<K, usize>>>,
}

impl<K> Clone for AtOnce<K> {
    fn clone(&self) -> Self {
        AtOnce { counts: Arc::clone(&self.counts) }
    }
}

/// An occupied slot; dropping it frees it.
pub(crate) struct Place<K: Eq + Hash> {
    counts: AtOnce<K>,
    caller: K,
    /// How many slots the caller occupied before this one.
    pub(crate) before: usize,
}

impl<K: Eq + Hash + Clone> AtOnce<K> {
    pub(crate) fn new() -> Self {
        AtOnce { counts: Arc::default() }
    }

    /// Takes a place for `caller`; whether it may have it is for the asker to judge by `before`.
    pub(crate) fn acquire(&self, caller: K) -> Place<K> {
        let mut counts = self.lock();
        let count = counts.entry(caller.clone()).or_default();
        let before = *count;
        *count += 1;
        drop(counts);
        Place { counts: self.clone(), caller, before }
    }
}

impl<K> AtOnce<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.counts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_by_caller_and_given_back() {
        let at_once = AtOnce::new();
        let first = at_once.acquire("a");
        let second = at_once.acquire("a");
        assert_eq!((first.before, second.before, at_once.acquire("b").before), (0, 1, 0));
        drop(first);
        assert_eq!(at_once.acquire("a").before, 1);
        drop(second);
        assert_eq!(at_once.acquire("a").before, 0);
        assert!(at_once.lock().is_empty());
    }
}
