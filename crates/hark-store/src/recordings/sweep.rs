//! The sweep: removes expired data, and recordings that a crash left behind.
//!
//! A file that the database does not know is not removed at once: it may be the database that is wrong. It is recorded in the table `quarantine`, stays where it
//! is, and is removed when it is still unknown after the quarantine time. Files are not moved, so that folder and bucket are treated alike, nothing is
//! copied, and after the right database is restored the recordings are in their place.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::BlobKey;
use crate::clock::{DAY, Micros, day_of, micros};
use crate::db::{Db, Value, args};
use crate::error::{Error, Result};
use crate::recordings::Recordings;
use crate::recordings::StoredFile;
use crate::uploads;

/// Days that anonymous counts are kept; only today's is ever read.
const ANONYMOUS_DAYS: i64 = 2;
/// Keys in one query.
const PAGE: usize = 500;
/// Unknown files that one sweep quarantines; the next sweep continues.
const MAX_NEW_QUARANTINED: usize = 10_000;
/// More unknown files than this, and more than one in [`MISMATCH_SHARE`] of all, mean that database and recordings don't belong together.
const MISMATCH_FILES: u64 = 10;
/// One in ten.
const MISMATCH_SHARE: u64 = 10;
/// The quarantine of a file that no sweep has seen for this long, as in a restored database, starts again.
const STALE_AFTER: Micros = 3 * DAY;

/// How a sweep behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepOptions {
    /// An upload that began longer ago counts as abandoned; younger files are left alone.
    pub abandoned_after: Duration,
    /// How long a file that the database does not know stays in quarantine.
    pub quarantine: Duration,
}

impl Default for SweepOptions {
    fn default() -> Self {
        SweepOptions {
            abandoned_after: Duration::from_secs(24 * 3600),
            quarantine: Duration::from_secs(14 * 24 * 3600),
        }
    }
}

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Recordings removed: their upload was abandoned, their deletion interrupted, or their transcript deleted.
    pub recordings: Vec<BlobKey>,
    /// Files that the database does not know, newly in quarantine.
    pub quarantined: Vec<BlobKey>,
    /// Files removed because their quarantine has ended.
    pub purged: Vec<BlobKey>,
    /// Database and recordings don't belong together, so no recording was removed.
    pub mismatch: Option<Mismatch>,
    /// Expired holds that were released.
    pub holds: u64,
    /// Idempotency keys, sessions and tokens that have expired.
    pub expired: u64,
}

/// More unknown files than crashes explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Files that the database does not know.
    pub unknown: u64,
    /// All files that were scanned.
    pub files: u64,
}

/// A file in quarantine: the database does not know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedFile {
    /// Its key.
    pub key: BlobKey,
    /// Its length in bytes, as stored.
    pub size: u64,
    /// When a sweep saw it first.
    pub first_seen: Micros,
    /// When a sweep saw it last.
    pub last_seen: Micros,
}

/// Whether so many unknown files mean that database and recordings don't belong together.
pub(crate) fn is_mismatch(unknown: u64, files: u64) -> bool {
    unknown > MISMATCH_FILES && unknown > files / MISMATCH_SHARE
}

/// `$1, $2, …` for this many values.
fn placeholders(count: usize) -> String {
    (1..=count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

/// The files that the database does not know, queried by pages.
pub(crate) async fn unknown(db: &Db, files: Vec<StoredFile>) -> Result<Vec<StoredFile>> {
    let mut out = Vec::new();
    for page in files.chunks(PAGE) {
        let keys: Vec<Value<'_>> = page.iter().map(|file| file.key.as_str().into()).collect();
        let sql = format!("SELECT key FROM blobs WHERE key IN ({})", placeholders(keys.len()));
        let rows = db.all(&sql, &keys).await?;
        let known: std::collections::HashSet<String> = rows.iter().map(|row| row.get("key")).collect::<Result<_>>()?;
        out.extend(page.iter().filter(|file| !known.contains(file.key.as_str())).cloned());
    }
    Ok(out)
}

/// The result of a scan of all files.
struct FileScan {
    files: u64,
    unknown: u64,
    /// Of the unknown files, at most [`MAX_NEW_QUARANTINED`].
    listed: Vec<StoredFile>,
}

impl Recordings<'_> {
    /// [`Recordings::sweep`] with the default quarantine time.
    pub async fn sweep_older_than(self, abandoned_after: Duration) -> Result<SweepReport> {
        self.sweep(&SweepOptions { abandoned_after, ..SweepOptions::default() }).await
    }

    /// Removes expired and abandoned data, and quarantines files that the database does not know.
    pub async fn sweep(self, options: &SweepOptions) -> Result<SweepReport> {
        if let Db::Postgres(_) = self.store.db() {
            // Clocks drift; leases are measured by the database's.
            crate::follow_database(self.store.db(), &self.store.0.clock).await?;
        }
        let now = self.store.now();
        let mut swept = SweepReport { expired: self.remove_expired(now).await?, ..SweepReport::default() };
        swept.holds = self.store.ledger().release_expired().await?;
        self.store.blobs().remove_stale_probes(options.abandoned_after).await?;
        // A server of an older version on the same database may still write them.
        self.store.transcripts().move_share_tokens().await?;
        let scan = self.scan_files(options.abandoned_after).await?;
        if is_mismatch(scan.unknown, scan.files) {
            let mismatch = Mismatch { unknown: scan.unknown, files: scan.files };
            tracing::error!(unknown = mismatch.unknown, files = mismatch.files, "recordings.mismatch");
            swept.mismatch = Some(mismatch);
            return Ok(swept);
        }
        let expired = self.quarantine_unknown(&scan, options, now, &mut swept).await?;
        if !swept.quarantined.is_empty() {
            tracing::warn!(count = swept.quarantined.len(), "recordings.quarantined");
        }
        swept.purged = self.delete_quarantined(&expired).await?;
        if !swept.purged.is_empty() {
            tracing::warn!(count = swept.purged.len(), "recordings.purged");
        }
        self.mark_abandoned(now, micros(options.abandoned_after)).await?;
        swept.recordings = self.remove_deleted(None, None).await?;
        Ok(swept)
    }

    async fn remove_expired(self, now: Micros) -> Result<u64> {
        let mut tx = self.store.db().begin().await?;
        let mut expired = tx.execute("DELETE FROM idempotency WHERE expires_at <= $1", args![now]).await?;
        expired += tx.execute("DELETE FROM keys WHERE expires_at <= $1 AND kind <> 'svc'", args![now]).await?;
        tx.execute("DELETE FROM maintenance WHERE task LIKE 'backup:%' AND lease_until <= $1", args![now]).await?;
        tx.execute("DELETE FROM anonymous_days WHERE day < $1", args![day_of(now) - ANONYMOUS_DAYS]).await?;
        tx.commit().await?;
        Ok(expired)
    }

    /// Finds files that the database does not know. Files are listed before rows are read: rows are inserted before files are created, so a file without a
    /// row never had one, or it was deleted.
    async fn scan_files(self, age: Duration) -> Result<FileScan> {
        let mut scan = FileScan { files: 0, unknown: 0, listed: Vec::new() };
        let mut pages = self.store.blobs().pages(age).await?;
        while let Some(page) = pages.next().await? {
            scan.files += page.len() as u64;
            let unknown = unknown(self.store.db(), page).await?;
            scan.unknown += unknown.len() as u64;
            let room = MAX_NEW_QUARANTINED - scan.listed.len();
            scan.listed.extend(unknown.into_iter().take(room));
        }
        Ok(scan)
    }

    /// Records unknown files in the quarantine; returns those whose quarantine has ended.
    async fn quarantine_unknown(
        self,
        scan: &FileScan,
        options: &SweepOptions,
        now: Micros,
        swept: &mut SweepReport,
    ) -> Result<Vec<BlobKey>> {
        let mut expired = Vec::new();
        let until = now.saturating_sub(micros(options.quarantine));
        for page in scan.listed.chunks(PAGE) {
            let mut tx = self.store.db().begin().await?;
            for file in page {
                let key = file.key.as_str();
                let sql = "SELECT first_seen, last_seen FROM quarantine WHERE key = $1";
                match tx.optional(sql, args![key]).await? {
                    None => {
                        let sql = "INSERT INTO quarantine (key, size, first_seen, last_seen) VALUES ($1, $2, $3, $3)";
                        tx.execute(sql, args![key, file.size as i64, now]).await?;
                        swept.quarantined.push(file.key.clone());
                    }
                    Some(row) => {
                        let (first, last): (Micros, Micros) = (row.get("first_seen")?, row.get("last_seen")?);
                        let first = if last < now - STALE_AFTER { now } else { first };
                        let sql = "UPDATE quarantine SET first_seen = $1, last_seen = $2 WHERE key = $3";
                        tx.execute(sql, args![first, now, key]).await?;
                        if first <= until && first < now {
                            expired.push(file.key.clone());
                        }
                    }
                }
            }
            tx.commit().await?;
        }
        if scan.listed.len() as u64 == scan.unknown {
            // The others were removed, or the database knows them again.
            self.store.db().execute("DELETE FROM quarantine WHERE last_seen < $1", args![now]).await?;
        }
        Ok(expired)
    }

    /// Marks recordings without a transcript or enhancement, abandoned uploads and the pieces of expired ones for deletion.
    async fn mark_abandoned(self, now: Micros, abandoned_after: Micros) -> Result<()> {
        let mut tx = self.store.db().begin().await?;
        uploads::expire(&mut tx, now).await?;
        // An upload dated far in the future began while the clock was wrong; it would never be old enough.
        tx.execute(
            "UPDATE blobs SET state = 'deleting' WHERE state = 'uploading' AND (created_at <= $1 OR created_at > $2)",
            args![now.saturating_sub(abandoned_after), now.saturating_add(abandoned_after)],
        )
        .await?;
        tx.execute(
            "UPDATE blobs SET state = 'deleting' WHERE state = 'live'
                 AND NOT EXISTS (SELECT 1 FROM transcripts t WHERE t.id = blobs.transcript_id)
                 AND NOT EXISTS (SELECT 1 FROM enhancements e WHERE e.id = blobs.enhancement_id)",
            &[],
        )
        .await?;
        tx.commit().await
    }

    /// The files in quarantine, the oldest first.
    pub async fn quarantined(self) -> Result<Vec<QuarantinedFile>> {
        let sql = "SELECT key, size, first_seen, last_seen FROM quarantine ORDER BY first_seen, key";
        let rows = self.store.db().all(sql, &[]).await?;
        rows.iter()
            .map(|row| {
                let key: String = row.get("key")?;
                Ok(QuarantinedFile {
                    key: BlobKey::parse(&key)
                        .ok_or_else(|| Error::Damaged(format!("{key:?} is no recording's name")))?,
                    size: u64::try_from(row.get::<i64>("size")?).unwrap_or(0),
                    first_seen: row.get("first_seen")?,
                    last_seen: row.get("last_seen")?,
                })
            })
            .collect()
    }

    /// How many files are in quarantine.
    pub async fn quarantine_count(self) -> Result<u64> {
        let row = self.store.db().one("SELECT count(*) AS n FROM quarantine", &[]).await?;
        Ok(u64::try_from(row.get::<i64>("n")?).unwrap_or(0))
    }

    /// Removes files from the quarantine list; returns how many. If a later sweep finds them unknown, their quarantine starts again.
    pub async fn restore_quarantined(self, keys: &[BlobKey]) -> Result<u64> {
        let mut restored = 0;
        let mut tx = self.store.db().begin().await?;
        for key in keys {
            restored += tx.execute("DELETE FROM quarantine WHERE key = $1", args![key.as_str()]).await?;
        }
        tx.commit().await?;
        Ok(restored)
    }

    /// Deletes files in quarantine, unless the database knows them again; returns the deleted ones.
    pub async fn delete_quarantined(self, keys: &[BlobKey]) -> Result<Vec<BlobKey>> {
        let mut removed = Vec::new();
        for key in keys {
            let sql =
                "SELECT key FROM quarantine WHERE key = $1 AND NOT EXISTS (SELECT 1 FROM blobs b WHERE b.key = $1)";
            if self.store.db().optional(sql, args![key.as_str()]).await?.is_none() {
                continue;
            }
            self.store.blobs().remove(key).await?;
            self.store.db().execute("DELETE FROM quarantine WHERE key = $1", args![key.as_str()]).await?;
            removed.push(key.clone());
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::is_mismatch;

    #[test]
    fn a_few_unknown_files_are_an_accident_and_many_are_a_mismatch() {
        assert!(!is_mismatch(0, 0));
        assert!(!is_mismatch(10, 10), "ten may be left over");
        assert!(is_mismatch(11, 11));
        assert!(!is_mismatch(100, 1000), "one in ten");
        assert!(is_mismatch(101, 1000));
    }
}
