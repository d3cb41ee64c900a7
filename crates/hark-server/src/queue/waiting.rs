//! Requests that wait for a transcript or an enhancement, and the action when the last of them disconnects.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use hark_store::Product;
use tokio::sync::Notify;

/// The waiting requests of this process by what they wait for; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Waiting {
    entries: Arc<Mutex<HashMap<Product, Entry>>>,
}

struct Entry {
    count: usize,
    changed: Arc<Notify>,
    /// The action when the last one disconnects.
    when_abandoned: Option<Action>,
}

type Action = Box<dyn FnOnce() + Send>;

/// One waiting request; dropping it counts as a disconnect.
pub(crate) struct Waiter {
    waiting: Waiting,
    product: Product,
    changed: Arc<Notify>,
}

impl Waiting {
    /// Begins to wait for a transcript or an enhancement.
    pub(crate) fn join(&self, product: impl Into<Product>) -> Waiter {
        let product = product.into();
        let mut entries = self.lock();
        let entry =
            entries.entry(product).or_insert_with(|| Entry { count: 0, changed: Arc::default(), when_abandoned: None });
        entry.count += 1;
        let changed = Arc::clone(&entry.changed);
        drop(entries);
        Waiter { waiting: self.clone(), product, changed }
    }

    /// Wakes all requests that wait for a transcript or an enhancement.
    pub(crate) fn wake(&self, product: impl Into<Product>) {
        if let Some(entry) = self.lock().get(&product.into()) {
            entry.changed.notify_waiters();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Product, Entry>> {
        self.entries.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Waiter {
    /// Subscribes to changes; subscribe before reading the state, so that no change is missed.
    pub(crate) fn changed(&self) -> tokio::sync::futures::OwnedNotified {
        Arc::clone(&self.changed).notified_owned()
    }

    /// Runs `action` when the last request that waits for it disconnects.
    pub(crate) fn when_abandoned(&self, action: impl FnOnce() + Send + 'static) {
        if let Some(entry) = self.waiting.lock().get_mut(&self.product) {
            entry.when_abandoned = Some(Box::new(action));
        }
    }

    /// The wait has ended, or a response promised that the job continues: a disconnect no longer matters.
    pub(crate) fn settled(&self) {
        if let Some(entry) = self.waiting.lock().get_mut(&self.product) {
            entry.when_abandoned = None;
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut entries = self.waiting.lock();
        let Some(entry) = entries.get_mut(&self.product) else { return };
        entry.count -= 1;
        if entry.count > 0 {
            return;
        }
        let left = entries.remove(&self.product);
        drop(entries);
        if let Some(action) = left.and_then(|entry| entry.when_abandoned) {
            action();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_store::TranscriptId;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn abandoned(waiters: usize, settled: bool) -> u32 {
        let count = Arc::new(AtomicU32::new(0));
        let waiting = Waiting::default();
        let all: Vec<Waiter> = (0..waiters).map(|_| waiting.join(TranscriptId(1))).collect();
        let counted = Arc::clone(&count);
        all[0].when_abandoned(move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        if settled {
            all[waiters - 1].settled();
        }
        let before_last = all.into_iter().reduce(|_gone, next| next);
        assert_eq!(count.load(Ordering::SeqCst), 0, "somebody still waits");
        drop(before_last);
        assert!(waiting.lock().is_empty());
        count.load(Ordering::SeqCst)
    }

    #[test]
    fn a_transcript_is_abandoned_once_when_the_last_goes_away() {
        assert_eq!(abandoned(1, false), 1);
        assert_eq!(abandoned(3, false), 1);
        assert_eq!(abandoned(3, true), 0);
        assert_eq!(abandoned(1, true), 0);
    }

    #[tokio::test]
    async fn a_change_between_looking_and_waiting_is_not_missed() {
        let waiting = Waiting::default();
        let waiter = waiting.join(TranscriptId(7));
        let changed = waiter.changed();
        waiting.wake(TranscriptId(7));
        tokio::time::timeout(std::time::Duration::from_secs(1), changed).await.expect("the change was missed");
    }
}
