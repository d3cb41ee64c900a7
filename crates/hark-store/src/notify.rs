//! News between the processes that share a PostgreSQL database: what one changes the others hear at once, through its notifications.
//!
//! A notification may be lost, with a connection or with a process; so nobody relies on one: whoever waits also looks by himself now and then. On SQLite
//! there is one process that serves, and no news.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::PgPool;
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::sync::{broadcast, mpsc, oneshot};

use crate::error::Result;
use crate::ids::{JobId, TranscriptId};
use crate::{Change, random};

/// The channel's name; a channel belongs to one database.
const CHANNEL: &str = "hark_changes";
/// Changes that wait to be told; what comes beyond is left to those who look by themselves.
const WAITING: usize = 1024;
/// Changes in one notification: PostgreSQL takes less than 8,000 bytes.
const AT_ONCE: usize = 200;
/// Between two attempts to listen.
const PAUSE: Duration = Duration::from_secs(5);
/// How long a process that ends waits for its last news to go out.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Tells other processes what this one changes.
pub(crate) struct News {
    /// Tells this process's own news from those of others.
    name: String,
    pool: PgPool,
    outward: mpsc::Sender<Change>,
    /// Changes that are not told yet.
    untold: Arc<AtomicUsize>,
}

impl News {
    /// Begins to tell.
    pub(crate) fn start(pool: &PgPool) -> Result<Self> {
        let name = random::token::<8>()?;
        let (outward, changes) = mpsc::channel(WAITING);
        let untold = Arc::new(AtomicUsize::new(0));
        tokio::spawn(tell(pool.clone(), name.clone(), changes, Arc::clone(&untold)));
        Ok(News { name, pool: pool.clone(), outward, untold })
    }

    /// Tells others of a change, soon.
    pub(crate) fn tell(&self, change: Change) {
        self.untold.fetch_add(1, Ordering::SeqCst);
        if self.outward.try_send(change).is_err() {
            self.untold.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Passes on what others tell for as long as somebody in this process listens; returns after the first attempt to.
    pub(crate) async fn listen(&self, to: broadcast::Sender<Change>) {
        let (tried, first) = oneshot::channel();
        tokio::spawn(listen(self.pool.clone(), self.name.clone(), to, tried));
        let _ = first.await;
    }

    /// Lets the last news go out.
    pub(crate) async fn close(&self) {
        let all_told = async {
            while self.untold.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, all_told).await;
    }
}

async fn tell(pool: PgPool, name: String, mut changes: mpsc::Receiver<Change>, untold: Arc<AtomicUsize>) {
    loop {
        let mut batch = Vec::new();
        if changes.recv_many(&mut batch, AT_ONCE).await == 0 {
            return;
        }
        let told = sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(write(&name, &batch)).execute(&pool);
        if let Err(error) = told.await {
            tracing::debug!(%error, "other processes can't be told; they look by themselves");
        }
        untold.fetch_sub(batch.len(), Ordering::SeqCst);
    }
}

async fn listen(pool: PgPool, name: String, to: broadcast::Sender<Change>, tried: oneshot::Sender<()>) {
    let mut tried = Some(tried);
    while to.receiver_count() > 0 && !pool.is_closed() {
        let heard = async {
            let mut listener = open(&pool).await?;
            tried = None;
            // Whatever happened before was missed: one look.
            let _ = to.send(Change::Queued);
            while let Some(heard) = listener.try_recv().await? {
                for change in read(&name, heard.payload()) {
                    // Nobody may be listening, which is fine.
                    let _ = to.send(change);
                }
            }
            Ok::<(), sqlx::Error>(())
        };
        let heard = tokio::select! {
            heard = heard => heard,
            () = pool.close_event() => return,
        };
        tried = None;
        if let Err(error) = heard {
            tracing::warn!(%error, "news of other processes can't be heard; trying again");
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
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

/// The name of who tells, then a word for each change; a change that stands there already is not written twice.
fn write(name: &str, batch: &[Change]) -> String {
    let mut out = name.to_owned();
    let mut queued = false;
    for change in batch {
        // Writing into a String can't fail.
        let _ = match change {
            Change::Queued if std::mem::replace(&mut queued, true) => Ok(()),
            Change::Queued => write!(out, " q"),
            Change::Finished(id) => write!(out, " f{}", id.0),
            Change::Stopped(id) => write!(out, " s{}", id.0),
        };
    }
    out
}

/// The changes that somebody else tells; words that a later version may write are skipped.
fn read<'a>(own: &str, payload: &'a str) -> impl Iterator<Item = Change> + use<'a> {
    let mut words = payload.split(' ');
    let is_own = words.next() == Some(own);
    words.filter(move |_| !is_own).filter_map(|word| match word.split_at_checked(1)? {
        ("q", "") => Some(Change::Queued),
        ("f", id) => Some(Change::Finished(TranscriptId(id.parse().ok()?))),
        ("s", id) => Some(Change::Stopped(JobId(id.parse().ok()?))),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_are_read_as_they_were_written_by_everybody_but_the_writer() {
        let told =
            [Change::Queued, Change::Finished(TranscriptId(7)), Change::Queued, Change::Stopped(JobId(i64::MAX))];
        let text = write("ann", &told);
        let heard: Vec<Change> = read("ben", &text).collect();
        assert_eq!(heard, [told[0], told[1], told[3]]);
        assert_eq!(read("ann", &text).count(), 0);
    }

    #[test]
    fn a_full_notification_is_short_enough_for_postgres() {
        let longest = vec![Change::Finished(TranscriptId(i64::MIN)); AT_ONCE];
        assert!(write("0123456789abcdef", &longest).len() < 8000);
    }

    #[test]
    fn words_that_mean_nothing_are_skipped() {
        let heard: Vec<Change> = read("ben", "ann q x9 f f12a é fq s5 ").collect();
        assert_eq!(heard, [Change::Queued, Change::Stopped(JobId(5))]);
        assert_eq!(read("ben", "").count(), 0);
    }
}
