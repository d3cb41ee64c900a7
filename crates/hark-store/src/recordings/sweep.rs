//! The sweep: removes what is no longer needed and what a crash left behind.
//!
//! A file that the database does not know is never removed when it is found: it may be the database that is wrong. It is noted in `quarantine`, stays where it
//! is, and is removed once it was seen, unknown, for days. Notes in the database instead of moved files: folder and bucket are treated alike, nothing is
//! copied, and once the right database is back the recordings are simply there.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::BlobKey;
use crate::clock::{DAY, Micros, day_of, micros};
use crate::db::{Db, Value, args};
use crate::error::{Error, Result};
use crate::recordings::Recordings;
use crate::recordings::StoredFile;

/// Days that anonymous counts are kept; only today's is ever looked at.
const ANONYMOUS_DAYS: i64 = 2;
/// Names that one statement asks for.
const PAGE: usize = 500;
/// Unknown files that one sweep notes; the next one goes on.
const MOST_NOTED: usize = 10_000;
/// More unknown files than this, and more than [`MISMATCH_SHARE`] of all, mean that database and recordings don't fit.
const MISMATCH_FILES: u64 = 10;
/// One in ten.
const MISMATCH_SHARE: u64 = 10;
/// A note that no sweep has confirmed for this long, as in a restored database, begins anew.
const STALE: Micros = 3 * DAY;

/// How a sweep behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepOptions {
    /// An upload that began longer ago counts as given up; a file that is younger is left alone.
    pub unfinished: Duration,
    /// How long a file that the database does not know is kept.
    pub quarantine: Duration,
}

impl Default for SweepOptions {
    fn default() -> Self {
        SweepOptions { unfinished: Duration::from_secs(24 * 3600), quarantine: Duration::from_secs(14 * 24 * 3600) }
    }
}

/// What a sweep did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Recordings removed: their upload or deletion was interrupted, or their transcript is gone.
    pub recordings: Vec<BlobKey>,
    /// Files that the database does not know, noted for the first time.
    pub quarantined: Vec<BlobKey>,
    /// Files that the database did not know for the whole quarantine, removed.
    pub purged: Vec<BlobKey>,
    /// Database and recordings don't fit, so that no recording was touched.
    pub mismatch: Option<Mismatch>,
    /// Holds of calls that nobody ended.
    pub holds: u64,
    /// Idempotency keys, sessions and tokens that have expired.
    pub expired: u64,
}

/// More files are unknown to the database than accidents leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Files that the database does not know.
    pub unknown: u64,
    /// All files that were looked at.
    pub files: u64,
}

/// A file that the database does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedFile {
    /// Its name.
    pub key: BlobKey,
    /// Its length in bytes, as stored.
    pub size: u64,
    /// When a sweep saw it first.
    pub first_seen: Micros,
    /// When a sweep saw it last.
    pub last_seen: Micros,
}

/// Whether so many unknown files mean that database and recordings don't fit.
pub(crate) fn is_mismatch(unknown: u64, files: u64) -> bool {
    unknown > MISMATCH_FILES && unknown > files / MISMATCH_SHARE
}

/// `$1, $2, …` for so many values.
fn placeholders(count: usize) -> String {
    (1..=count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

/// Those of the files that the database does not know, asked for a page at a time.
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

/// What a scan of all files found.
struct Found {
    files: u64,
    unknown: u64,
    /// Of the unknown, at most [`MOST_NOTED`].
    noted: Vec<StoredFile>,
}

impl Recordings<'_> {
    /// [`Recordings::sweep`] the default quarantine. An upload that began more than `unfinished` ago counts as given up.
    pub async fn sweep_older_than(self, unfinished: Duration) -> Result<SweepReport> {
        self.sweep(&SweepOptions { unfinished, ..SweepOptions::default() }).await
    }

    /// Removes what is left over, and notes files that the database does not know.
    pub async fn sweep(self, options: &SweepOptions) -> Result<SweepReport> {
        if let Db::Postgres(_) = self.store.db() {
            // Clocks drift; the one that leases are measured by is the database's.
            crate::follow_database(self.store.db(), &self.store.0.clock).await?;
        }
        let now = self.store.now();
        let mut swept = SweepReport { expired: self.remove_expired(now).await?, ..SweepReport::default() };
        swept.holds = self.store.ledger().release_expired().await?;
        // A server of an older version beside this one may still write them.
        self.store.transcripts().move_share_tokens().await?;
        let found = self.find_unknown(options.unfinished).await?;
        if is_mismatch(found.unknown, found.files) {
            let mismatch = Mismatch { unknown: found.unknown, files: found.files };
            tracing::error!(unknown = mismatch.unknown, files = mismatch.files, "recordings.mismatch");
            swept.mismatch = Some(mismatch);
            return Ok(swept);
        }
        let expired = self.note_unknown(&found, options, now, &mut swept).await?;
        if !swept.quarantined.is_empty() {
            tracing::warn!(count = swept.quarantined.len(), "recordings.quarantined");
        }
        swept.purged = self.delete_quarantined(&expired).await?;
        if !swept.purged.is_empty() {
            tracing::warn!(count = swept.purged.len(), "recordings.purged");
        }
        self.abandon_unused(now, micros(options.unfinished)).await?;
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

    /// Files that the database does not know. Files first, names second: a file whose name is not there then never had one, since names come
    /// before files.
    async fn find_unknown(self, age: Duration) -> Result<Found> {
        let mut found = Found { files: 0, unknown: 0, noted: Vec::new() };
        let mut pages = self.store.blobs().pages(age).await?;
        while let Some(page) = pages.next().await? {
            found.files += page.len() as u64;
            let unknown = unknown(self.store.db(), page).await?;
            found.unknown += unknown.len() as u64;
            let room = MOST_NOTED - found.noted.len();
            found.noted.extend(unknown.into_iter().take(room));
        }
        Ok(found)
    }

    /// Records unknown files; returns those whose quarantine has ended.
    async fn note_unknown(
        self,
        found: &Found,
        options: &SweepOptions,
        now: Micros,
        swept: &mut SweepReport,
    ) -> Result<Vec<BlobKey>> {
        let mut expired = Vec::new();
        let until = now.saturating_sub(micros(options.quarantine));
        for page in found.noted.chunks(PAGE) {
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
                        let first = if last < now - STALE { now } else { first };
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
        if found.noted.len() as u64 == found.unknown {
            // They are gone, or the database knows them again.
            self.store.db().execute("DELETE FROM quarantine WHERE last_seen < $1", args![now]).await?;
        }
        Ok(expired)
    }

    /// Marks recordings without a transcript and abandoned uploads for deletion.
    async fn abandon_unused(self, now: Micros, unfinished: Micros) -> Result<()> {
        let mut tx = self.store.db().begin().await?;
        // An upload dated far ahead began while the clock was wrong; it would never be old enough.
        tx.execute(
            "UPDATE blobs SET state = 'deleting' WHERE state = 'uploading' AND (created_at <= $1 OR created_at > $2)",
            args![now.saturating_sub(unfinished), now.saturating_add(unfinished)],
        )
        .await?;
        tx.execute(
            "UPDATE blobs SET state = 'deleting' WHERE state = 'live'
                 AND NOT EXISTS (SELECT 1 FROM transcripts t WHERE t.id = blobs.transcript_id)",
            &[],
        )
        .await?;
        tx.commit().await
    }

    /// Files that the database does not know, the oldest note first.
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

    /// Takes files off the quarantine; returns how many. Those that a later sweep finds unknown begin their quarantine anew.
    pub async fn restore_quarantined(self, keys: &[BlobKey]) -> Result<u64> {
        let mut restored = 0;
        let mut tx = self.store.db().begin().await?;
        for key in keys {
            restored += tx.execute("DELETE FROM quarantine WHERE key = $1", args![key.as_str()]).await?;
        }
        tx.commit().await?;
        Ok(restored)
    }

    /// Removes files in quarantine for good, unless the database knows them by now; returns those that it removed.
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
