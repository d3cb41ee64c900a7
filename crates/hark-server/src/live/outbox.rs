//! What waits to be sent: texts in their order, at most one partial, and the end.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

/// Texts that may wait for a client that does not read.
const MOST_TEXTS: usize = 256;

/// The messages of a session that were not sent yet; they outlive a connection.
#[derive(Default)]
pub(crate) struct Outbox {
    queue: Mutex<Queue>,
    bell: Notify,
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

/// The end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Close {
    pub(crate) code: u16,
    pub(crate) reason: String,
}

/// What to send next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Ask whether the other end is there.
    Ping,
    /// A message, and the number under which it is done with.
    Message(u64, String),
    /// Nothing comes after it.
    Close(Close),
}

impl Outbox {
    /// Puts a partial; one that still waits is out of date.
    pub(crate) fn partial(&self, text: String) {
        let mut queue = self.lock();
        queue.items.retain(|item| !item.is_partial);
        queue.put(text, true);
        drop(queue);
        self.bell.notify_one();
    }

    /// Puts a message that must arrive; false when too many wait already.
    pub(crate) fn message(&self, text: String) -> bool {
        let mut queue = self.lock();
        let is_room = queue.items.len() < MOST_TEXTS;
        queue.put(text, false);
        drop(queue);
        self.bell.notify_one();
        is_room
    }

    /// Puts a message before all that wait: the greeting of a connection.
    pub(crate) fn greeting(&self, text: String) {
        let mut queue = self.lock();
        queue.close = None;
        queue.ping = false;
        let number = queue.next_number;
        queue.next_number += 1;
        queue.items.push_front(Item { number, is_partial: false, text });
        drop(queue);
        self.bell.notify_one();
    }

    /// Asks the other end whether it is there.
    pub(crate) fn ping(&self) {
        self.lock().ping = true;
        self.bell.notify_one();
    }

    /// Ends the connection behind all that waits.
    pub(crate) fn close(&self, code: u16, reason: &str) {
        self.lock().close = Some(Close { code, reason: reason.to_owned() });
        self.bell.notify_one();
    }

    /// Waits for the next thing to send; a message stays until [`Outbox::sent`].
    pub(crate) async fn next(&self) -> Next {
        loop {
            if let Some(next) = self.lock().next() {
                return next;
            }
            self.bell.notified().await;
        }
    }

    /// A message is with the client.
    pub(crate) fn sent(&self, number: u64) {
        self.lock().items.retain(|item| item.number != number);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Queue {
    fn put(&mut self, text: String, is_partial: bool) {
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
                Next::Ping => panic!("nobody asked for one"),
                Next::Close(close) => break assert_eq!(close.code, 1000),
            }
        }
        assert_eq!(sent, ["one", "c", "two"]);
    }

    #[tokio::test]
    async fn what_was_not_sent_is_sent_again_behind_the_next_greeting() {
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
    fn a_client_that_does_not_read_has_no_endless_queue() {
        let outbox = Outbox::default();
        let taken = (0..1000).take_while(|n| outbox.message(n.to_string())).count();
        assert_eq!(taken, MOST_TEXTS);
        for n in 0..1000 {
            outbox.partial(n.to_string());
        }
        assert_eq!(outbox.lock().items.len(), MOST_TEXTS + 2);
    }
}
