//! Integrity checks: the structure of the database and a sample of the recordings.

pub(crate) mod probe;

use crate::db::{Db, Row, args};
use crate::error::{Error, Result};
use crate::random;
use crate::recordings::blob;
use crate::recordings::hash::BackgroundHasher;
use crate::{Blob, BlobKey, Store};

/// Integrity checks of the database and the recordings, and write probes of both.
#[derive(Debug, Clone, Copy)]
pub struct Integrity<'a> {
    pub(crate) store: &'a Store,
}

/// A database up to this size is checked when it is opened, which takes about a second with a cold cache. A larger one is checked while the service runs.
const MAX_SIZE_CHECKED_AT_OPEN: u64 = 256 << 20;
/// The maximum number of reported problems of a database.
const MAX_PROBLEMS: usize = 20;

/// The result of checking a sample of recordings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordingsReport {
    /// Recordings that were read.
    pub checked: u64,
    /// Those that are missing or damaged.
    pub problems: Vec<RecordingProblem>,
}

/// A missing or damaged recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingProblem {
    /// Its key.
    pub key: BlobKey,
    /// What is wrong with it.
    pub problem: String,
}

/// Refuses a damaged database: writing to it may spread the damage, and a restore needs the service stopped anyway. Returns whether it was checked.
pub(crate) async fn check_at_open(db: &Db) -> Result<bool> {
    let Db::Sqlite { file, .. } = db else { return Ok(false) };
    if std::fs::metadata(file.path()).is_ok_and(|about| about.len() > MAX_SIZE_CHECKED_AT_OPEN) {
        return Ok(false);
    }
    let problems = sqlite_problems(db.all_without_timeout("PRAGMA quick_check(1)", &[]).await, "quick_check")?;
    match problems.into_iter().next() {
        None => Ok(true),
        Some(problem) => Err(Error::Damaged(format!(
            "{}: {problem}; stop, keep a copy of the file, and restore the last backup (`hark restore`)",
            file.path().display()
        ))),
    }
}

fn sqlite_problems(checked: Result<Vec<Row>>, column: &str) -> Result<Vec<String>> {
    match checked {
        Ok(rows) => {
            let lines = rows.iter().map(|row| row.get::<String>(column)).collect::<Result<Vec<_>>>()?;
            Ok(lines.into_iter().filter(|line| line != "ok").collect())
        }
        // Too damaged for the pragma to run.
        Err(Error::Damaged(problem)) => Ok(vec![problem]),
        Err(error) => Err(error),
    }
}

/// Runs a check of SQLite. A connection caches the structure of the full-text index; the check does not notice that another connection has changed it, and
/// would report pages that were merged away as missing (SQLite 3.51 and 3.54). A query notices, so one comes first, in the same snapshot.
async fn check_in_snapshot(db: &Db, pragma: &str) -> Result<Vec<Row>> {
    let mut tx = db.snapshot().await?;
    tx.all("SELECT rowid FROM search_terms WHERE search_terms MATCH 'none' LIMIT 1", &[]).await?;
    tx.all(pragma, &[]).await
}

impl Integrity<'_> {
    /// Problems of the database's structure. Reads the whole database, while it is in use.
    ///
    /// SQLite checks every page, index and foreign key. On PostgreSQL every row is read, which verifies page checksums and headers.
    pub async fn check_database(self) -> Result<Vec<String>> {
        if let Db::Sqlite { .. } = self.store.db() {
            let pragma = format!("PRAGMA integrity_check({MAX_PROBLEMS})");
            let mut problems = sqlite_problems(check_in_snapshot(self.store.db(), &pragma).await, "integrity_check")?;
            if problems.is_empty() {
                for row in self
                    .store
                    .db()
                    .all_without_timeout("PRAGMA foreign_key_check", &[])
                    .await?
                    .iter()
                    .take(MAX_PROBLEMS)
                {
                    let (table, parent): (String, String) = (row.get("table")?, row.get("parent")?);
                    problems.push(format!("a row of {table} refers to a row of {parent} that is not there"));
                }
            }
            return Ok(problems);
        }
        let tables = "SELECT CAST(table_name AS TEXT) AS name FROM information_schema.tables
                      WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY table_name";
        let mut problems = Vec::new();
        for row in self.store.db().all(tables, &[]).await? {
            let table: String = row.get("name")?;
            // count(t.*) reads whole rows; count(*) may use an index-only scan.
            let sql = format!("SELECT count(t.*) AS n FROM \"{}\" t", table.replace('"', "\"\""));
            match self.store.db().all_without_timeout(&sql, &[]).await {
                Ok(_) => {}
                Err(error @ (Error::Damaged(_) | Error::Database(_))) => problems.push(format!("{table}: {error}")),
                Err(error) => return Err(error),
            }
        }
        Ok(problems)
    }

    /// Reads a random sample of recordings completely. Length and checksum must match the database; the chunks of sealed recordings are
    /// authenticated. Plaintext recordings that were uploaded before checksums were stored are compared by length only.
    pub async fn check_recordings(self, sample: u32) -> Result<RecordingsReport> {
        let sql = "SELECT key, account_id, size, is_sealed, sha256 FROM blobs WHERE state IN ('live', 'piece') ORDER BY random() LIMIT 0 + $1";
        let mut out = RecordingsReport::default();
        for row in self.store.db().all_without_timeout(sql, args![i64::from(sample)]).await? {
            let blob = blob(&row)?;
            match self.check_recording(&blob, row.get("sha256")?).await {
                Ok(None) => out.checked += 1,
                Ok(Some(problem)) => {
                    // Not a problem if it was deleted in the meantime.
                    let sql = "SELECT key FROM blobs WHERE key = $1 AND state IN ('live', 'piece')";
                    if self.store.db().optional(sql, args![blob.key.as_str()]).await?.is_some() {
                        out.checked += 1;
                        out.problems.push(RecordingProblem { key: blob.key, problem });
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(out)
    }

    async fn check_recording(self, blob: &Blob, checksum: Option<String>) -> Result<Option<String>> {
        let read = async {
            let mut reader = self.store.recordings().read(blob, None).await?;
            let mut hasher = checksum.is_some().then(BackgroundHasher::new);
            let mut length = 0;
            while let Some(bytes) = reader.next().await? {
                length += bytes.len() as u64;
                if let Some(hasher) = &mut hasher {
                    hasher.push(&[bytes]).await?;
                }
            }
            let found = match hasher {
                Some(hasher) => Some(random::hex(&hasher.finish().await?)),
                None => None,
            };
            Ok((length, found))
        };
        match read.await {
            Ok((length, _)) if length != blob.size => {
                Ok(Some(format!("it has {length} bytes instead of {}", blob.size)))
            }
            Ok((_, found)) if found != checksum => Ok(Some("its content is not what was uploaded".into())),
            Ok(_) => Ok(None),
            Err(Error::NotFound(_)) => Ok(Some("it is missing".into())),
            Err(error @ (Error::Damaged(_) | Error::Sealed(_) | Error::Blob(_))) => Ok(Some(error.to_string())),
            Err(error) => Err(error),
        }
    }

    /// Whether the database was checked when it was opened; a large one or PostgreSQL is not.
    pub fn was_checked_at_open(self) -> bool {
        self.store.0.checked_at_open
    }
}
