//! Restoring a backup.

use std::path::{Path, PathBuf};

use super::files::{self, sync_folder};
use super::postgres::Tool;
use super::verify::verify;
use super::{DatabaseKind, Folder, Manifest, Recording, failed};
use crate::db::{Db, private_folder, sqlite_path};
use crate::error::{Error, Result};
use crate::identity::Marker;
use crate::recordings::{Blobs, blocking};
use crate::{BlobKey, Options, Store, Unbalanced};

/// How to restore.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Replace the contents of the database, and add recordings to existing ones.
    pub force: bool,
}

/// The result of a restore.
#[derive(Debug)]
pub struct RestoreReport {
    /// The id of the store.
    pub store: String,
    /// Recordings that were written.
    pub written: u64,
    /// Recordings that existed already, unchanged.
    pub kept: u64,
    /// Accounts whose ledger does not add up.
    pub unbalanced: Vec<Unbalanced>,
    /// Recordings that the database references and that are missing.
    pub missing: Vec<BlobKey>,
    /// Where the replaced database was moved.
    pub replaced: Option<PathBuf>,
    /// Names of the master keys needed to decrypt it.
    pub master_keys: Vec<String>,
}

/// Restores a backup to the database and recordings of `options`, which must be empty, and checks the result. The backup is verified before anything is
/// written. An interrupted restore can be repeated.
pub async fn restore(folder: &Path, options: Options, how: RestoreOptions) -> Result<RestoreReport> {
    let folder = Folder(folder.to_owned());
    let (manifest, list) = verify(&folder).await?;
    let kind = DatabaseKind::of(&options.database);
    if kind != manifest.database.kind {
        return Err(Error::Setup(format!(
            "this is a backup of a {} database, and `database` is {}: restore to a database of the same kind",
            manifest.database.kind.name(),
            kind.name()
        )));
    }
    let blobs = Blobs::open(&options.blobs)?;
    check_recordings(&blobs, &manifest, how).await?;
    check_database(&options.database, how).await?;
    // The id first: a repeat of an interrupted restore recognizes it.
    Marker::new(&manifest.store).write(&blobs).await?;
    let (written, kept) = write_recordings(&folder, &blobs, &list).await?;
    let replaced = match kind {
        DatabaseKind::Sqlite => write_sqlite(&folder, &manifest, &options.database).await?,
        DatabaseKind::Postgres => write_postgres(&folder, &manifest, &options.database, how).await?,
    };
    drop(blobs);
    let store = Store::open(options).await?;
    store.db().execute("DELETE FROM quarantine", &[]).await?;
    store.db().execute("DELETE FROM maintenance", &[]).await?;
    let unbalanced = store.ledger().check().await?;
    let missing = store.recordings().missing().await?;
    store.close().await;
    Ok(RestoreReport {
        store: manifest.store,
        written,
        kept,
        unbalanced,
        missing,
        replaced,
        master_keys: manifest.master_keys,
    })
}

/// Fails unless the folder or bucket of recordings is empty or belongs to the same store.
async fn check_recordings(blobs: &Blobs, manifest: &Manifest, how: RestoreOptions) -> Result<()> {
    let location = blobs.location();
    match Marker::read(blobs).await? {
        Some(there) if there == manifest.store => return Ok(()),
        Some(there) if !how.force => {
            return Err(Error::Setup(format!(
                "{location} holds recordings of store {there}, the backup is of store {}: choose an empty place, or `--force` to mix them",
                manifest.store
            )));
        }
        _ => {}
    }
    let mut pages = blobs.pages(std::time::Duration::ZERO).await?;
    while let Some(page) = pages.next().await? {
        if !page.is_empty() && !how.force {
            return Err(Error::Setup(format!(
                "{location} holds recordings: choose an empty place, or `--force` to put those of the backup among them"
            )));
        }
    }
    Ok(())
}

async fn check_database(database: &str, how: RestoreOptions) -> Result<()> {
    if how.force {
        return Ok(());
    }
    let is_empty = match sqlite_path(database) {
        Some(path) => std::fs::metadata(path).map_or(true, |metadata| metadata.len() == 0),
        None => tables(database).await? == 0,
    };
    if is_empty {
        return Ok(());
    }
    Err(Error::Setup(
        "the database is not empty: choose another, or `--force` to replace it (stop the servers that use it first)"
            .into(),
    ))
}

async fn tables(database: &str) -> Result<i64> {
    let db = Db::connect(database, 1, "hark restore").await?;
    let sql = "SELECT count(*) AS n FROM information_schema.tables WHERE table_schema = current_schema()";
    let tables = db.one(sql, &[]).await?.get("n");
    db.close().await?;
    tables
}

/// Writes missing recordings; returns how many were written and how many existed.
async fn write_recordings(folder: &Folder, blobs: &Blobs, list: &[Recording]) -> Result<(u64, u64)> {
    let (mut written, mut kept) = (0, 0);
    for recording in list {
        let key = recording.key()?;
        if blobs.stored_size(&key).await? == Some(recording.bytes) && blobs.stored_hash(&key).await? == recording.sha256
        {
            kept += 1;
            continue;
        }
        blobs.remove(&key).await?;
        blobs.put_file(&key, &folder.recording(&key)).await?;
        written += 1;
    }
    Ok((written, kept))
}

/// Installs the database file atomically; returns where an existing one was moved.
async fn write_sqlite(folder: &Folder, manifest: &Manifest, database: &str) -> Result<Option<PathBuf>> {
    let path = sqlite_path(database).ok_or_else(|| Error::Setup("the database has no file".into()))?;
    let from = folder.path(&manifest.database.file);
    let (bytes, sha256, at) = (manifest.database.bytes, manifest.database.sha256.clone(), manifest.created_at);
    blocking(move || {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        private_folder(parent).map_err(|e| failed("can't create", parent, e))?;
        let beside = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let part = beside(".restoring");
        drop(files::create(&part)?);
        std::fs::copy(&from, &part).map_err(|e| failed("can't copy", &from, e))?;
        files::sync(&part)?;
        if files::length_and_hash(&part)? != (bytes, sha256) {
            return Err(Error::Damaged(format!("{} was not written as it should be", part.display())));
        }
        // The WAL belongs to the database that is replaced.
        let suffix = format!(".before-restore-{at}");
        let mut replaced = None;
        for end in ["", "-wal", "-shm"] {
            let old = beside(end);
            if std::fs::metadata(&old).is_ok_and(|metadata| metadata.len() > 0) {
                let aside = beside(&format!("{suffix}{end}"));
                std::fs::rename(&old, &aside).map_err(|e| failed("can't rename", &old, e))?;
                replaced.get_or_insert(aside);
            } else {
                let _ = std::fs::remove_file(&old);
            }
        }
        std::fs::rename(&part, &path).map_err(|e| failed("can't rename", &part, e))?;
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .map_err(|e| failed("can't protect", &path, e))?;
        sync_folder(parent)?;
        Ok(replaced)
    })
    .await
}

async fn write_postgres(
    folder: &Folder,
    manifest: &Manifest,
    database: &str,
    how: RestoreOptions,
) -> Result<Option<PathBuf>> {
    let tool = Tool::find("pg_restore", database).await?;
    // One transaction: all or nothing.
    let into = format!("--dbname={}", tool.database());
    let mut arguments = vec!["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", &into];
    if how.force {
        arguments.extend(["--clean", "--if-exists"]);
    }
    tool.run(&arguments, Some(&folder.path(&manifest.database.file))).await?;
    Ok(None)
}
