//! The registry of live sessions of this process, to resume them and to end them at shutdown.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use hark_store::Owner;
use tokio::sync::{Notify, mpsc, watch};

use super::Connection;
use crate::metrics::Metrics;

/// Maximum disconnected sessions of one owner.
const MAX_WAITING: usize = 5;

/// All live sessions.
pub(crate) struct Streams {
    sessions: Mutex<HashMap<String, Known>>,
    /// True at shutdown.
    stop: watch::Sender<bool>,
    one_ended: Notify,
}

struct Known {
    owner: Owner,
    is_waiting: bool,
    attach: mpsc::Sender<Connection>,
}

/// A registered session; dropping it removes it.
pub(crate) struct Registration {
    streams: Arc<Streams>,
    metrics: Arc<Metrics>,
    id: String,
    /// Connections of clients that resume the session.
    pub(crate) attached: mpsc::Receiver<Connection>,
    /// Turns true at shutdown.
    pub(crate) stop: watch::Receiver<bool>,
}

impl Default for Streams {
    fn default() -> Self {
        Streams { sessions: Mutex::default(), stop: watch::Sender::new(false), one_ended: Notify::new() }
    }
}

impl Streams {
    /// Registers a session, unless there are `limit` of them or the service shuts down.
    pub(crate) fn register(
        self: &Arc<Self>,
        metrics: &Arc<Metrics>,
        limit: usize,
        id: &str,
        owner: Owner,
    ) -> Option<Registration> {
        let mut sessions = self.lock();
        if *self.stop.borrow() || sessions.len() >= limit || sessions.contains_key(id) {
            return None;
        }
        let (attach, attached) = mpsc::channel(1);
        sessions.insert(id.to_owned(), Known { owner, is_waiting: false, attach });
        metrics.streams.fetch_add(1, Ordering::Relaxed);
        let (streams, metrics) = (Arc::clone(self), Arc::clone(metrics));
        Some(Registration { streams, metrics, id: id.to_owned(), attached, stop: self.stop.subscribe() })
    }

    /// The channel for connections that resume a session of this owner.
    pub(crate) fn find(&self, id: &str, owner: &Owner) -> Option<mpsc::Sender<Connection>> {
        let sessions = self.lock();
        sessions.get(id).filter(|known| known.owner == *owner).map(|known| known.attach.clone())
    }

    /// Ends all sessions and rejects new ones.
    pub(crate) fn stop(&self) {
        let _sessions = self.lock();
        self.stop.send_replace(true);
    }

    /// Waits until no session is left.
    pub(crate) async fn all_ended(&self) {
        loop {
            let ended = self.one_ended.notified();
            if self.lock().is_empty() {
                return;
            }
            ended.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.sessions.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Registration {
    /// Marks the session as disconnected or connected; false when its owner has too many disconnected ones.
    pub(crate) fn wait(&self, is_waiting: bool) -> bool {
        let mut sessions = self.streams.lock();
        let Some(owner) = sessions.get(&self.id).map(|known| known.owner.clone()) else { return false };
        let others = sessions.iter().filter(|(id, known)| **id != self.id && known.is_waiting && known.owner == owner);
        let is_room = !is_waiting || others.count() < MAX_WAITING;
        if let Some(known) = sessions.get_mut(&self.id) {
            known.is_waiting = is_waiting && is_room;
        }
        is_room
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.streams.lock().remove(&self.id);
        self.metrics.streams.fetch_sub(1, Ordering::Relaxed);
        // There is one waiter: the shutdown.
        self.streams.one_ended.notify_one();
    }
}
