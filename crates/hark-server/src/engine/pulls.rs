//! Models that are being pulled while the service runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// The pulls of this process, by model; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Pulls(Arc<Mutex<BTreeMap<String, PullProgress>>>);

/// How much of a model is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PullProgress {
    /// Bytes that are there.
    pub(super) done: u64,
    /// Bytes of all of it; `None` where that is not known.
    pub(super) total: Option<u64>,
}

impl PullProgress {
    /// In percent, where known.
    pub(super) fn percent(self) -> Option<u8> {
        let total = self.total?;
        Some((u128::from(self.done.min(total)) * 100 / u128::from(total)) as u8)
    }
}

impl Pulls {
    /// Notes that a model will be pulled.
    pub fn expect(&self, model: &str) {
        self.lock().insert(model.to_owned(), PullProgress::default());
    }

    /// Notes how much of a model is there; `total` is 0 where it is not known.
    pub fn progress(&self, model: &str, done: u64, total: u64) {
        self.lock().insert(model.to_owned(), PullProgress { done, total: (total > 0).then_some(total) });
    }

    /// Notes that a model is there, or could not be pulled.
    pub fn end(&self, model: &str) {
        self.lock().remove(model);
    }

    /// How much of a model is there; `None` if it is not being pulled.
    pub(super) fn get(&self, model: &str) -> Option<PullProgress> {
        self.lock().get(model).copied()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, PullProgress>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_is_known_from_its_announcement_to_its_end() {
        let pulls = Pulls::default();
        assert_eq!(pulls.get("a"), None);
        pulls.expect("a");
        assert_eq!(pulls.get("a").unwrap().percent(), None);
        pulls.progress("a", 0, 0);
        assert_eq!(pulls.get("a").unwrap().percent(), None);
        pulls.clone().progress("a", 1 << 62, u64::MAX);
        assert_eq!(pulls.get("a").unwrap().percent(), Some(25));
        pulls.progress("a", 50, 200);
        assert_eq!(pulls.get("a"), Some(PullProgress { done: 50, total: Some(200) }));
        pulls.end("a");
        assert_eq!(pulls.get("a"), None);
    }
}
