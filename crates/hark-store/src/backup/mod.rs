//! A copy of everything that a store keeps, made while it is in use.
//!
//! The database comes first, as one moment of it; then every recording that this moment names. Recordings never change once they are live, and the files of those
//! that are deleted meanwhile stay until they were copied (a lease in `maintenance` says so), so both halves are of the same moment. Sealed data stays
//! sealed: the master key is not part of a backup.
//!
//! A backup is a folder: `manifest.json`, a file of the database, a list of the recordings with their hashes, and `recordings/`. Everything else is
//! on disk before the manifest is replaced, in one step, and only then is removed what it no longer names. So a backup that is killed leaves the old one or the new one.

mod files;
mod postgres;
mod restore;
mod sqlite;
mod verify;
mod write;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::BlobKey;
use crate::error::{Error, Result};
pub use restore::{RestoreOptions, RestoreReport, restore};
pub use verify::{VerifiedBackup, verify_backup};
pub use write::{BackupProgress, BackupReport};

const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";
const RECORDINGS: &str = "recordings";

/// What a backup consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    /// The version of the program that wrote it.
    program: String,
    /// Microseconds since 1970 UTC, and the same for people.
    created_at: i64,
    created: String,
    /// The id of the store.
    store: String,
    /// Version of the database's tables.
    schema: i64,
    database: DatabaseFile,
    recordings: RecordingList,
    /// Recordings that the database names and that were not there.
    missing: Vec<String>,
    /// Names of the master keys that open it; none when nothing is sealed.
    master_keys: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DatabaseFile {
    kind: DatabaseKind,
    file: String,
    bytes: u64,
    sha256: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DatabaseKind {
    Sqlite,
    Postgres,
}

impl DatabaseKind {
    fn of(database: &str) -> DatabaseKind {
        if database.starts_with("sqlite:") { DatabaseKind::Sqlite } else { DatabaseKind::Postgres }
    }

    fn name(self) -> &'static str {
        match self {
            DatabaseKind::Sqlite => "SQLite",
            DatabaseKind::Postgres => "PostgreSQL",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RecordingList {
    /// A line of JSON for each, see [`Recording`].
    file: String,
    sha256: String,
    count: u64,
    bytes: u64,
}

/// A recording in a backup, as it is stored: sealed, where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Recording {
    key: String,
    bytes: u64,
    sha256: String,
}

impl Recording {
    fn key(&self) -> Result<BlobKey> {
        BlobKey::parse(&self.key).ok_or_else(|| Error::Damaged(format!("{:?} is no recording's name", self.key)))
    }
}

/// A folder that holds a backup, or will.
#[derive(Debug, Clone)]
struct Folder(PathBuf);

impl Folder {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn recording(&self, key: &BlobKey) -> PathBuf {
        self.0.join(RECORDINGS).join(&key.as_str()[..2]).join(key.as_str())
    }

    /// The manifest of the backup that is there.
    fn manifest(&self) -> Result<Option<Manifest>> {
        let path = self.path(MANIFEST);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed("can't read", &path, e)),
        };
        let wrong = |problem: String| Error::Setup(format!("{}: {problem}", path.display()));
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|e| wrong(format!("not a manifest: {e}")))?;
        if manifest.format != FORMAT {
            let found = manifest.format;
            return Err(wrong(format!("format {found}, this program knows {FORMAT}: use a newer hark")));
        }
        // Names from a file that somebody may have changed must not lead elsewhere.
        for name in [&manifest.database.file, &manifest.recordings.file] {
            if name.contains('/') || name.starts_with('.') || name.is_empty() {
                return Err(wrong(format!("{name:?} is no name of a file in a backup")));
            }
        }
        Ok(Some(manifest))
    }

    /// The manifest, or why there is no backup.
    fn must_have_manifest(&self) -> Result<Manifest> {
        let missing = || Error::Setup(format!("{} holds no complete backup: it has no {MANIFEST}", self.0.display()));
        self.manifest()?.ok_or_else(missing)
    }

    /// The list of recordings, whose hash must be right.
    fn recordings(&self, manifest: &Manifest) -> Result<Vec<Recording>> {
        let list = &manifest.recordings;
        let path = self.path(&list.file);
        let text = std::fs::read(&path).map_err(|e| failed("can't read", &path, e))?;
        let damaged = |problem: &str| Error::Damaged(format!("{}: {problem}", path.display()));
        if files::hash(&text) != list.sha256 {
            return Err(damaged("it was changed: its hash is not the manifest's"));
        }
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let out: Vec<Recording> = lines
            .map(|line| serde_json::from_slice(line).map_err(|e| damaged(&e.to_string())))
            .collect::<Result<_>>()?;
        if out.len() as u64 != list.count {
            return Err(damaged("it names another number of recordings than the manifest"));
        }
        out.iter().try_for_each(|recording| recording.key().map(drop))?;
        Ok(out)
    }
}

fn failed(doing: &str, path: &Path, error: std::io::Error) -> Error {
    Error::Blob(format!("{doing} {}: {error}", path.display()))
}
