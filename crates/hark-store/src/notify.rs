//! Notifications between processes that share a PostgreSQL database (`NOTIFY`): changes of one reach the others at once.
//!
//! A notification may be lost with a connection or a process, so nothing relies on it: whoever waits also polls. SQLite has one server process and needs none.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::error::Result;
use crate::ids::{EnhancementId, JobId, TranscriptId};
use crate::{Change, random};

/// The channel's name; a channel belongs to one database.
const CHANNEL: &str = "hark_changes";
/// Changes that may wait to be sent; beyond it they are dropped and left to polling.
const QUEUE_LENGTH: usize = 1024;
/// Changes in one notification: PostgreSQL takes less than 8,000 bytes.
const BATCH: usize = 200;
/// Delay between two attempts to listen.
const RECONNECT_DELAY: Duration = Duration::from_secs(5);
/// How long a process that closes waits for its last notifications to be sent.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Notifies other processes of the changes of this one.
pub(crate) struct Notifier {
    /// Identifies this process, so that it ignores its own notifications.
    name: String,
    pool: PgPool,
    outward: mpsc::Sender<Change>,
    /// Changes that are not sent yet.
    unsent: Arc<AtomicUsize>,
}

impl Notifier {
    /// Starts the task that sends.
    pub(crate) fn start(pool: &PgPool) -> Result<Self> {
        let name = random::token::<8>()?;
        let (outward, changes) = mpsc::channel(QUEUE_LENGTH);
        let unsent = Arc::new(AtomicUsize::new(0));
        tokio::spawn(send(pool.clone(), name.clone(), changes, Arc::clone(&unsent)));
        Ok(Notifier { name, pool: pool.clone(), outward, unsent })
    }

    /// Queues a change to be sent.
    pub(crate) fn send(&self, change: Change) {
        self.unsent.fetch_add(1, Ordering::SeqCst);
        if self.outward.try_send(change).is_err() {
            self.unsent.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Passes the changes of other processes on while this process has a subscriber; returns after the first attempt to listen.
    pub(crate) async fn listen(&self, to: broadcast::Sender<Change>) {
        let (tried, first) = oneshot::channel();
        tokio::spawn(listen(self.pool.clone(), self.name.clone(), to, tried));
        let _ = first.await;
    }

    /// Waits until the last notifications are sent.
    pub(crate) async fn close(&self) {
        let flushed = async {
            while self.unsent.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, flushed).await;
    }
}

async fn send(pool: PgPool, name: String, mut changes: mpsc::Receiver<Change>, unsent: Arc<AtomicUsize>) {
    loop {
        let mut batch = Vec::new();
        if changes.recv_many(&mut batch, BATCH).await == 0 {
            return;
        }
        let sent = sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(write(&name, &batch)).execute(&pool);
        if let Err(error) = sent.await {
            tracing::debug!(%error, "notify.send_failed");
        }
        unsent.fetch_sub(batch.len(), Ordering::SeqCst);
    }
}

async fn listen(pool: PgPool, name: String, to: broadcast::Sender<Change>, tried: oneshot::Sender<()>) {
    let mut tried = Some(tried);
    while to.receiver_count() > 0 && !pool.is_closed() {
        let received = async {
            let mut listener = open(&pool).await?;
            tried = None;
            // Whatever happened before was missed: poll once.
            let _ = to.send(Change::Queued);
            while let Some(notification) = listener.try_recv().await? {
                for change in read(&name, notification.payload()) {
                    // There may be no subscriber, which is fine.
                    let _ = to.send(change);
                }
            }
            Ok::<(), sqlx::Error>(())
        };
        let received = tokio::select! {
            received = received => received,
            () = pool.close_event() => return,
        };
        tried = None;
        if let Err(error) = received {
            tracing::warn!(%error, retry_in = ?RECONNECT_DELAY, "notify.listen_failed");
        }
        tokio::select! {
            () = tokio::time::sleep(RECONNECT_DELAY) => {}
            () = pool.close_event() => return,
        }
    }
}

/// A connection beside the pool that listens.
async fn open(pool: &PgPool) -> std::result::Result<PgListener, sqlx::Error> {
    let own = PgPoolOptions::new().max_connections(1).connect_with((*pool.connect_options()).clone()).await?;
    let mut listener = PgListener::connect_with(&own).await?;
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

/// The name of the sender, then a word for each change; [`Change::Queued`] is written once.
fn write(name: &str, batch: &[Change]) -> String {
    let mut out = name.to_owned();
    let mut queued = false;
    for change in batch {
        // Writing into a String can't fail.
        let _ = match change {
            Change::Queued if std::mem::replace(&mut queued, true) => Ok(()),
            Change::Queued => write!(out, " q"),
            Change::Finished(id) => write!(out, " f{}", id.0),
            Change::Enhanced(id) => write!(out, " e{}", id.0),
            Change::Stopped(id) => write!(out, " s{}", id.0),
        };
    }
    out
}

/// The changes of another process; words that a later version may write are skipped.
fn read<'a>(own: &str, payload: &'a str) -> impl Iterator<Item = Change> + use<'a> {
    let mut words = payload.split(' ');
    let is_own = words.next() == Some(own);
    words.filter(move |_| !is_own).filter_map(|word| match word.split_at_checked(1)? {
        ("q", "") => Some(Change::Queued),
        ("f", id) => Some(Change::Finished(TranscriptId(id.parse().ok()?))),
        ("e", id) => Some(Change::Enhanced(EnhancementId(id.parse().ok()?))),
        ("s", id) => Some(Change::Stopped(JobId(id.parse().ok()?))),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_as_they_were_written_by_everybody_but_the_writer() {
        let sent = [
            Change::Queued,
            Change::Finished(TranscriptId(7)),
            Change::Queued,
            Change::Stopped(JobId(i64::MAX)),
            Change::Enhanced(EnhancementId(7)),
        ];
        let text = write("ann", &sent);
        let received: Vec<Change> = read("ben", &text).collect();
        assert_eq!(received, [sent[0], sent[1], sent[3], sent[4]]);
        assert_eq!(read("ann", &text).count(), 0);
    }

    #[test]
    fn a_full_notification_is_short_enough_for_postgres() {
        let longest = vec![Change::Finished(TranscriptId(i64::MIN)); BATCH];
        assert!(write("0123456789abcdef", &longest).len() < 8000);
    }

    #[test]
    fn unknown_words_are_skipped() {
        let received: Vec<Change> = read("ben", "ann q x9 f f12a é fq s5 ").collect();
        assert_eq!(received, [Change::Queued, Change::Stopped(JobId(5))]);
        assert_eq!(read("ben", "").count(), 0);
    }
}
