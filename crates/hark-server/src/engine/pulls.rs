//! Models that are being pulled while the service runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// The pulls of this process, by model; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Pulls(Arc<Mutex<BTreeMap<String, Option<u8>>>>);

impl Pulls {
    /// Notes that a model will be pulled.
    pub fn expect(&self, model: &str) {
        self.lock().insert(model.to_owned(), None);
    }

    /// Notes how much of a model is there; `total` is 0 where it is not known.
    pub fn progress(&self, model: &str, done: u64, total: u64) {
        let percent = (total > 0).then(|| (done.min(total).saturating_mul(100) / total) as u8);
        self.lock().insert(model.to_owned(), percent);
    }

    /// Notes that a model is there, or could not be pulled.
    pub fn end(&self, model: &str) {
        self.lock().remove(model);
    }

    /// How much of a model is there in percent, if known; the outer `None` if nobody pulls it.
    pub(super) fn percent(&self, model: &str) -> Option<Option<u8>> {
        self.lock().get(model).copied()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Option<u8>>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_is_known_from_its_announcement_to_its_end() {
        let pulls = Pulls::default();
        assert_eq!(pulls.percent("a"), None);
        pulls.expect("a");
        assert_eq!(pulls.percent("a"), Some(None));
        pulls.progress("a", 0, 0);
        assert_eq!(pulls.percent("a"), Some(None));
        pulls.clone().progress("a", 1 << 62, u64::MAX);
        assert!(matches!(pulls.percent("a"), Some(Some(0..=100))));
        pulls.progress("a", 50, 200);
        assert_eq!(pulls.percent("a"), Some(Some(25)));
        pulls.end("a");
        assert_eq!(pulls.percent("a"), None);
    }
}
