//! Turns of calls that would each take much memory: one computes at a time, first come, first served.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a caller who left is looked for while his call waits.
const CANCEL_INTERVAL: Duration = Duration::from_millis(50);

/// Calls in the order in which they came; the first has its turn.
#[derive(Default)]
pub(super) struct Turns {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<u64>,
    last: u64,
}

/// A turn; dropping it ends it.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Turns {
    /// Waits for its turn; none for a call that is cancelled before.
    pub(super) fn take(&self, is_cancelled: &dyn Fn() -> bool) -> Option<Turn<'_>> {
        let mut queue = self.lock();
        queue.last += 1;
        let number = queue.last;
        queue.waiting.push_back(number);
        // From here on leaving gives the place up.
        let turn = Turn { turns: self, number };
        while queue.waiting.front() != Some(&number) {
            if is_cancelled() {
                drop(queue);
                return None;
            }
            let waited = self.changed.wait_timeout(queue, CANCEL_INTERVAL);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(turn)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.lock().waiting.retain(|number| *number != self.number);
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(happened: impl Fn() -> bool) {
        while !happened() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn calls_have_their_turns_in_their_order_and_one_that_is_cancelled_has_none() {
        let (turns, order) = (Turns::default(), Mutex::new(Vec::new()));
        let first = turns.take(&|| false).unwrap();
        std::thread::scope(|scope| {
            for call in 2..=4 {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    if let Some(_turn) = turns.take(&|| call == 3) {
                        order.lock().unwrap().push(call);
                    }
                });
                until(|| turns.lock().last == call);
            }
            until(|| turns.lock().waiting.len() == 3);
            assert!(order.lock().unwrap().is_empty(), "the first has not ended");
            drop(first);
        });
        assert_eq!(*order.lock().unwrap(), [2, 4]);
        assert!(turns.lock().waiting.is_empty());
    }
}
