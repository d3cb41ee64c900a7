//! Online backups of a store.
//!
//! The database is dumped first, as a consistent snapshot; then every recording that the snapshot references is copied. Recordings are immutable once live, and
//! the files of those deleted meanwhile stay until the backup ends (by a lease in `maintenance`), so both parts are consistent. Sealed data stays sealed: the
//! master key is not part of a backup.
//!
//! A backup is a folder: `manifest.json`, a file of the database, a list of the recordings with their hashes, and `recordings/`. Everything else is
//! durable before the manifest is replaced atomically, and only then are files removed that it no longer references. So a backup that is killed leaves the old one or the new one.

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

/// The manifest of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    /// The version of the program that wrote it.
    program: String,
    /// Microseconds since 1970 UTC, and the same in readable form.
    created_at: i64,
    created: String,
    /// The id of the store.
    store: String,
    /// Version of the database's tables.
    schema: i64,
    database: DatabaseFile,
    recordings: RecordingList,
    /// Recordings that the database references and that were missing.
    missing: Vec<String>,
    /// Names of the master keys that decrypt it; empty when nothing is sealed.
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

/// A recording in a backup, sealed if it is sealed in the store.
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

/// The folder of a backup.
#[derive(Debug, Clone)]
struct Folder(PathBuf);

impl Folder {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn recording(&self, key: &BlobKey) -> PathBuf {
        self.0.join(RECORDINGS).join(&key.as_str()[..2]).join(key.as_str())
    }

    /// The manifest, if the folder holds a backup.
    fn manifest(&self) -> Result<Option<Manifest>> {
        let path = self.path(MANIFEST);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed("can't read", &path, e)),
        };
        let invalid = |problem: String| Error::Setup(format!("{}: {problem}", path.display()));
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|e| invalid(format!("not a manifest: {e}")))?;
        if manifest.format != FORMAT {
            let found = manifest.format;
            return Err(invalid(format!("format {found}, this program knows {FORMAT}: use a newer hark")));
        }
        // The manifest may have been tampered with: its names must not escape the folder.
        for name in [&manifest.database.file, &manifest.recordings.file] {
            if name.contains('/') || name.starts_with('.') || name.is_empty() {
                return Err(invalid(format!("{name:?} is no name of a file in a backup")));
            }
        }
        Ok(Some(manifest))
    }

    /// The manifest, or an error that there is no backup.
    fn require_manifest(&self) -> Result<Manifest> {
        let missing = || Error::Setup(format!("{} holds no complete backup: it has no {MANIFEST}", self.0.display()));
        self.manifest()?.ok_or_else(missing)
    }

    /// The list of recordings, checked against its checksum.
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
