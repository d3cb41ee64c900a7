//! Integrity checks: the structure of the database and a sample of the recordings.

pub(crate) mod probe;

use crate::db::{Db, args};
use crate::error::{Error, Result};
use crate::random;
use crate::recordings::blob;
use crate::recordings::hash::Hashing;
use crate::{Blob, BlobKey, Store};

/// Checks of the database and the recordings, and probes of whether both can be written.
#[derive(Debug, Clone, Copy)]
pub struct Integrity<'a> {
    pub(crate) store: &'a Store,
}

/// A database of up to this size is checked whenever it is opened, which takes about a second from a cold disk. A larger one is checked while the service runs.
const CHECKED_AT_OPEN: u64 = 256 << 20;
/// Problems of the database that are named; one is reason enough to act.
const NAMED: usize = 20;

/// What a sample of recordings showed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordingsChecked {
    /// Recordings that were read.
    pub checked: u64,
    /// Those that are missing or not what was stored.
    pub problems: Vec<RecordingProblem>,
}

/// A recording that can't be read as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingProblem {
    /// Its name.
    pub key: BlobKey,
    /// What is wrong.
    pub problem: String,
}

/// Refuses a damaged database: writing to it may spread the damage, and a restore needs the service stopped anyway. Returns whether it was small enough to be checked.
pub(crate) async fn check_at_open(db: &Db) -> Result<bool> {
    let Db::Sqlite { file, .. } = db else { return Ok(false) };
    if std::fs::metadata(file.path()).is_ok_and(|about| about.len() > CHECKED_AT_OPEN) {
        return Ok(false);
    }
    let problems = sqlite_problems(db, "PRAGMA quick_check(1)", "quick_check").await?;
    match problems.into_iter().next() {
        None => Ok(true),
        Some(problem) => Err(Error::Damaged(format!(
            "{}: {problem}; stop, keep a copy of the file, and restore the last backup (`hark restore`)",
            file.path().display()
        ))),
    }
}

async fn sqlite_problems(db: &Db, pragma: &str, column: &str) -> Result<Vec<String>> {
    match db.all_without_timeout(pragma, &[]).await {
        Ok(rows) => {
            let lines = rows.iter().map(|row| row.get::<String>(column)).collect::<Result<Vec<_>>>()?;
            Ok(lines.into_iter().filter(|line| line != "ok").collect())
        }
        // Too damaged to be looked through.
        Err(Error::Damaged(problem)) => Ok(vec![problem]),
        Err(error) => Err(error),
    }
}

impl Integrity<'_> {
    /// What is wrong with the database's structure; nothing, usually. Reads all of it, beside those who use it.
    ///
    /// SQLite checks every page, index and reference. PostgreSQL is made to read every row, which finds what its page checksums and headers tell.
    pub async fn check_database(self) -> Result<Vec<String>> {
        if let Db::Sqlite { .. } = self.store.db() {
            let pragma = format!("PRAGMA integrity_check({NAMED})");
            let mut problems = sqlite_problems(self.store.db(), &pragma, "integrity_check").await?;
            if problems.is_empty() {
                for row in
                    self.store.db().all_without_timeout("PRAGMA foreign_key_check", &[]).await?.iter().take(NAMED)
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
            // Counting whole rows reads them; counting alone may read an index only.
            let sql = format!("SELECT count(t.*) AS n FROM \"{}\" t", table.replace('"', "\"\""));
            match self.store.db().all_without_timeout(&sql, &[]).await {
                Ok(_) => {}
                Err(error @ (Error::Damaged(_) | Error::Database(_))) => problems.push(format!("{table}: {error}")),
                Err(error) => return Err(error),
            }
        }
        Ok(problems)
    }

    /// Reads some recordings, chosen at random, from beginning to end. Length and checksum must be the stored ones; the chunks of sealed recordings are
    /// authenticated. Recordings in the clear that were uploaded before checksums were stored are compared by length only.
    pub async fn check_recordings(self, sample: u32) -> Result<RecordingsChecked> {
        let sql = "SELECT key, account_id, size, is_sealed, sha256 FROM blobs WHERE state = 'live' ORDER BY random() LIMIT $1";
        let mut out = RecordingsChecked::default();
        for row in self.store.db().all_without_timeout(sql, args![i64::from(sample)]).await? {
            let blob = blob(&row)?;
            match self.check_recording(&blob, row.get("sha256")?).await {
                Ok(None) => out.checked += 1,
                Ok(Some(problem)) => {
                    // One that was deleted meanwhile is no problem.
                    let sql = "SELECT key FROM blobs WHERE key = $1 AND state = 'live'";
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
            let mut hashing = checksum.is_some().then(Hashing::new);
            let mut length = 0;
            while let Some(bytes) = reader.next().await? {
                length += bytes.len() as u64;
                if let Some(hashing) = &mut hashing {
                    hashing.push(&[bytes]).await?;
                }
            }
            let found = match hashing {
                Some(hashing) => Some(random::hex(&hashing.finish().await?)),
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

    /// Whether the database was checked when it was opened; one that is large, or PostgreSQL, was not.
    pub fn was_checked_at_open(self) -> bool {
        self.store.0.checked_at_open
    }
}
