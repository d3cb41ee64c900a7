//! Verifying a backup against its manifest.

use std::path::Path;

use super::postgres::Tool;
use super::{DatabaseKind, Folder, Manifest, Recording, files, sqlite};
use crate::BlobKey;
use crate::error::{Error, Result};
use crate::recordings::blocking;

/// A verified backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedBackup {
    /// The id of the store.
    pub store: String,
    /// When it was started, microseconds since 1970 UTC.
    pub created_at: i64,
    /// Version of the database's tables.
    pub schema: i64,
    /// Recordings in it.
    pub recordings: u64,
    /// Their bytes.
    pub recording_bytes: u64,
    /// Recordings that were missing when it was made.
    pub missing: u64,
    /// Names of the master keys needed to decrypt it.
    pub master_keys: Vec<String>,
}

/// Reads all of a backup and compares it with its checksums; the error names the damaged file.
pub async fn verify_backup(folder: &Path) -> Result<VerifiedBackup> {
    let (manifest, _) = verify(&Folder(folder.to_owned())).await?;
    Ok(VerifiedBackup {
        store: manifest.store,
        created_at: manifest.created_at,
        schema: manifest.schema,
        recordings: manifest.recordings.count,
        recording_bytes: manifest.recordings.bytes,
        missing: manifest.missing.len() as u64,
        master_keys: manifest.master_keys,
    })
}

pub(super) async fn verify(folder: &Folder) -> Result<(Manifest, Vec<Recording>)> {
    let manifest = folder.require_manifest()?;
    let path = folder.path(&manifest.database.file);
    let hashed = path.clone();
    let found = blocking(move || files::length_and_hash(&hashed)).await?;
    if found != (manifest.database.bytes, manifest.database.sha256.clone()) {
        return Err(Error::Damaged(format!("{}: it was changed, its hash is not the manifest's", path.display())));
    }
    match manifest.database.kind {
        DatabaseKind::Sqlite => {
            sqlite::inspect(&path).await?;
        }
        DatabaseKind::Postgres => {
            // `pg_restore` reads the table of contents; without the tool the checksum must suffice.
            if let Ok(tool) = Tool::find("pg_restore", "postgres://localhost/none").await {
                tool.run(&["--list"], Some(&path)).await?;
            }
        }
    }
    let list = folder.recordings(&manifest)?;
    let (folder, checked) = (folder.clone(), list.clone());
    blocking(move || {
        for recording in &checked {
            check(&folder, recording, &recording.key()?)?;
        }
        Ok(())
    })
    .await?;
    Ok((manifest, list))
}

fn check(folder: &Folder, recording: &Recording, key: &BlobKey) -> Result<()> {
    let path = folder.recording(key);
    if files::length_and_hash(&path)? != (recording.bytes, recording.sha256.clone()) {
        return Err(Error::Damaged(format!("{}: it was changed, its hash is not the list's", path.display())));
    }
    Ok(())
}
