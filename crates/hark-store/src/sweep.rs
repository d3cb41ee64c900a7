//! Removing what nobody needs any more, and what a crash left behind.

use std::time::Duration;

use crate::clock::{day_of, micros};
use crate::db::args;
use crate::error::Result;
use crate::{BlobKey, Store};

/// Days that anonymous counts are kept; only today's is ever looked at.
const ANONYMOUS_DAYS: i64 = 2;

/// What a sweep removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Recordings whose upload or deletion was interrupted, or whose transcript is gone.
    pub recordings: Vec<BlobKey>,
    /// Files that the database does not know.
    pub strays: Vec<BlobKey>,
    /// Holds of calls that nobody ended.
    pub holds: u64,
    /// Idempotency keys, sessions and tokens whose time is over.
    pub expired: u64,
}

impl Store {
    /// Removes what is left over. An upload that began more than `unfinished` ago counts as given up.
    pub async fn sweep(&self, unfinished: Duration) -> Result<Swept> {
        if let crate::db::Db::Postgres(_) = self.db() {
            // Clocks drift; the one that leases are measured by is the database's.
            crate::follow_database(self.db(), &self.0.clock).await?;
        }
        let now = self.now();
        // Files first, names second: a file whose name is not there then never had one, since names come before files.
        let files = self.blobs().list(unfinished).await?;
        let mut strays = Vec::new();
        for key in files {
            if self.db().optional("SELECT key FROM blobs WHERE key = $1", args![key.as_str()]).await?.is_none() {
                self.blobs().remove(&key).await?;
                strays.push(key);
            }
        }
        let before = now.saturating_sub(micros(unfinished));
        let mut tx = self.db().begin().await?;
        tx.execute("UPDATE blobs SET state = 'deleting' WHERE state = 'uploading' AND created_at <= $1", args![before])
            .await?;
        tx.execute(
            "UPDATE blobs SET state = 'deleting' WHERE state = 'live'
                 AND NOT EXISTS (SELECT 1 FROM transcripts t WHERE t.id = blobs.transcript_id)",
            &[],
        )
        .await?;
        let mut expired = tx.execute("DELETE FROM idempotency WHERE expires_at <= $1", args![now]).await?;
        expired += tx.execute("DELETE FROM keys WHERE expires_at <= $1", args![now]).await?;
        tx.execute("DELETE FROM anonymous_days WHERE day < $1", args![day_of(now) - ANONYMOUS_DAYS]).await?;
        tx.commit().await?;
        let recordings = self.remove_deleted(None, None).await?;
        let holds = self.release_expired_holds().await?;
        Ok(Swept { recordings, strays, holds, expired })
    }
}
