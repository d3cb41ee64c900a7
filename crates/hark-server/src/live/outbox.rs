//! The outgoing messages of a session: texts in order, at most one partial, and the close frame.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

/// Maximum queued messages for a client that does not read.
const MAX_QUEUED: usize = 256;

/// The unsent messages of a session; they outlive a connection.
#[derive(Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    queued: Notify,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    next_number: u64,
    ping: bool,
    close: Option<Close>,
}

struct Item {
    number: u64,
    is_partial: bool,
    text: String,
}

/// A close frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Close {
    pub(crate) code: u16,
    pub(crate) reason: String,
}

/// What to send next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A ping frame.
    Ping,
    /// A message and its number for [`Outbox::sent`].
    Message(u64, String),
    /// The last frame.
    Close(Close),
}

impl Outbox {
    /// Queues a partial; it replaces one that is still queued.
    pub(crate) fn partial(&self, text: String) {
        let mut queue = self.lock();
        queue.items.retain(|item| !item.is_partial);
        queue.push(text, true);
        drop(queue);
        self.queued.notify_one();
    }

    /// Queues a message that must be delivered; false when too many are queued.
    pub(crate) fn message(&self, text: String) -> bool {
        let mut queue = self.lock();
        let has_capacity = queue.items.len() < MAX_QUEUED;
        queue.push(text, false);
        drop(queue);
        self.queued.notify_one();
        has_capacity
    }

    /// Queues a message before all others: the greeting of a connection.
    pub(crate) fn greeting(&self, text: String) {
        let mut queue = self.lock();
        queue.close = None;
        queue.ping = false;
        let number = queue.next_number;
        queue.next_number += 1;
        queue.items.push_front(Item { number, is_partial: false, text });
        drop(queue);
        self.queued.notify_one();
    }

    /// Queues a ping.
    pub(crate) fn ping(&self) {
        self.lock().ping = true;
        self.queued.notify_one();
    }

    /// Closes the connection after all queued messages.
    pub(crate) fn close(&self, code: u16, reason: &str) {
        self.lock().close = Some(Close { code, reason: reason.to_owned() });
        self.queued.notify_one();
    }

    /// Waits for the next frame to send; a message stays queued until [`Outbox::sent`].
    pub(crate) async fn next(&self) -> Next {
        loop {
            if let Some(next) = self.lock().next() {
                return next;
            }
            self.queued.notified().await;
        }
    }

    /// Removes a message that was sent.
    pub(crate) fn sent(&self, number: u64) {
        self.lock().items.retain(|item| item.number != number);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Queue {
    fn push(&mut self, text: String, is_partial: bool) {
        let number = self.next_number;
        self.next_number += 1;
        self.items.push_back(Item { number, is_partial, text });
    }

    fn next(&mut self) -> Option<Next> {
        if std::mem::take(&mut self.ping) {
            return Some(Next::Ping);
        }
        match self.items.front() {
            Some(item) => Some(Next::Message(item.number, item.text.clone())),
            None => self.close.take().map(Next::Close),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn texts_keep_their_order_and_only_the_last_partial_is_sent() {
        let outbox = Outbox::default();
        outbox.partial("a".into());
        outbox.partial("ab".into());
        assert!(outbox.message("one".into()));
        outbox.partial("c".into());
        assert!(outbox.message("two".into()));
        outbox.close(1000, "");
        let mut sent = Vec::new();
        loop {
            match outbox.next().await {
                Next::Message(number, text) => {
                    outbox.sent(number);
                    sent.push(text);
                }
                Next::Ping => panic!("no ping was queued"),
                Next::Close(close) => break assert_eq!(close.code, 1000),
            }
        }
        assert_eq!(sent, ["one", "c", "two"]);
    }

    #[tokio::test]
    async fn unsent_messages_follow_the_next_greeting() {
        let outbox = Outbox::default();
        outbox.message("one".into());
        let Next::Message(..) = outbox.next().await else { panic!() };
        outbox.greeting("hello".into());
        let Next::Message(number, first) = outbox.next().await else { panic!() };
        outbox.sent(number);
        let Next::Message(_, second) = outbox.next().await else { panic!() };
        assert_eq!((first.as_str(), second.as_str()), ("hello", "one"));
    }

    #[test]
    fn the_queue_of_a_client_that_does_not_read_is_bounded() {
        let outbox = Outbox::default();
        let taken = (0..1000).take_while(|n| outbox.message(n.to_string())).count();
        assert_eq!(taken, MAX_QUEUED);
        for n in 0..1000 {
            outbox.partial(n.to_string());
        }
        assert_eq!(outbox.lock().items.len(), MAX_QUEUED + 2);
    }
}
