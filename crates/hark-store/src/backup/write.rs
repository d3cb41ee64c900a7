//! Writes a backup.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::time::Duration;

use tokio::task::JoinSet;

use super::files::{self, AtomicFile, sync_folder};
use super::postgres::Tool;
use super::{DatabaseFile, DatabaseKind, FORMAT, Folder, MANIFEST, Manifest, RECORDINGS, Recording, RecordingList};
use super::{failed, sqlite};
use crate::clock::micros;
use crate::db::{Db, args, private_folder};
use crate::error::{Error, Result};
use crate::recordings::blocking;
use crate::{BlobKey, Store, random};

/// Duration of the lease that keeps the files of deleted recordings, and how often it is renewed.
const LEASE: Duration = Duration::from_secs(300);
const RENEW_INTERVAL: Duration = Duration::from_secs(60);
/// Recordings copied concurrently.
const CONCURRENT_COPIES: usize = 4;
/// Bytes of a recording read at a time.
const READ_SIZE: u64 = 1 << 20;
/// The lock file of a backup's folder.
const LOCK: &str = ".lock";

/// The progress of a backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupProgress {
    /// Recordings in the backup so far.
    pub done: u64,
    /// All recordings of the snapshot.
    pub total: u64,
}

/// The result of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// The id of the store.
    pub store: String,
    /// Bytes of the database's file.
    pub database_bytes: u64,
    /// Recordings in the backup.
    pub recordings: u64,
    /// Bytes of all recordings in the backup.
    pub recording_bytes: u64,
    /// Recordings copied by this run.
    pub copied: u64,
    /// Bytes copied by this run.
    pub copied_bytes: u64,
    /// Recordings of an earlier backup that were removed because they were deleted from the store.
    pub removed: u64,
    /// Recordings that the database references and that are missing.
    pub missing: Vec<BlobKey>,
    /// Names of the master keys needed to decrypt it.
    pub master_keys: Vec<String>,
}

/// What a database snapshot references.
pub(super) struct Snapshot {
    pub(super) schema: i64,
    pub(super) store: Option<String>,
    pub(super) recordings: Vec<BlobKey>,
}

/// A lease that defers the removal of deleted recordings' files while a backup runs.
struct DeletionLease {
    store: Store,
    task: String,
    renewal: tokio::task::JoinHandle<()>,
}

impl DeletionLease {
    async fn begin(store: &Store) -> Result<DeletionLease> {
        let task = format!("{}:{}", crate::recordings::sweep_lease::BACKUP, random::token::<8>()?);
        renew_lease(store, &task).await?;
        let renewal = tokio::spawn({
            let (store, task) = (store.clone(), task.clone());
            async move {
                loop {
                    tokio::time::sleep(RENEW_INTERVAL).await;
                    if let Err(error) = renew_lease(&store, &task).await {
                        tracing::warn!(%error, "backup.lease_not_renewed");
                    }
                }
            }
        });
        Ok(DeletionLease { store: store.clone(), task, renewal })
    }

    async fn end(self) -> Result<()> {
        self.renewal.abort();
        self.store.db().execute("DELETE FROM maintenance WHERE task = $1", args![&self.task]).await?;
        // Remove what was deleted in the meantime.
        self.store.recordings().remove_deleted(None, None).await.map(drop)
    }
}

impl Drop for DeletionLease {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

async fn renew_lease(store: &Store, task: &str) -> Result<()> {
    let now = store.lease_now().await?;
    let sql = "INSERT INTO maintenance (task, lease_until, finished_at) VALUES ($1, $2, 0)
               ON CONFLICT (task) DO UPDATE SET lease_until = excluded.lease_until";
    store.db().execute(sql, args![task, now.saturating_add(micros(LEASE))]).await.map(drop)
}

impl Store {
    /// Writes a backup to a folder, or updates an existing one: recordings that it already has are not copied again.
    pub async fn backup(
        &self,
        database: &str,
        folder: &Path,
        mut on_progress: impl FnMut(BackupProgress),
    ) -> Result<BackupReport> {
        let folder = Folder(folder.to_owned());
        private_folder(&folder.path(RECORDINGS)).map_err(|e| failed("can't create", &folder.0, e))?;
        let _lock = lock(&folder)?;
        let old = folder.manifest()?;
        if let Some(old) = old.as_ref().filter(|old| old.store != self.id()) {
            return Err(Error::Setup(format!(
                "{} holds a backup of store {}, this is store {}: choose another folder",
                folder.0.display(),
                old.store,
                self.id()
            )));
        }
        let existing = match &old {
            // With a damaged old list everything is copied again.
            Some(old) => folder.recordings(old).unwrap_or_default(),
            None => Vec::new(),
        };
        let deletion_lease = DeletionLease::begin(self).await?;
        let created_at = self.now();
        let (file, snapshot) = self.dump(database, &folder, created_at).await?;
        let (list, missing, copied) =
            self.copy_recordings(&folder, snapshot.recordings, existing, &mut on_progress).await?;
        let manifest = self.manifest(&folder, created_at, snapshot.schema, file, &list, &missing).await?;
        let removed = commit(&folder, &manifest, &list).await?;
        deletion_lease.end().await?;
        Ok(BackupReport {
            store: manifest.store,
            database_bytes: manifest.database.bytes,
            recordings: manifest.recordings.count,
            recording_bytes: manifest.recordings.bytes,
            copied: copied.len() as u64,
            copied_bytes: copied.iter().sum(),
            removed,
            missing,
            master_keys: manifest.master_keys,
        })
    }

    /// Dumps a snapshot of the database to a file; returns the file and what the snapshot references.
    async fn dump(&self, database: &str, folder: &Folder, at: i64) -> Result<(DatabaseFile, Snapshot)> {
        let (kind, file) = match self.db() {
            Db::Sqlite { .. } => (DatabaseKind::Sqlite, format!("database-{at}.db")),
            Db::Postgres(_) => (DatabaseKind::Postgres, format!("database-{at}.dump")),
        };
        let path = folder.path(&file);
        files::create(&path)?;
        let snapshot = match kind {
            DatabaseKind::Sqlite => {
                sqlite::dump(self.db(), &path).await?;
                sqlite::inspect(&path).await?
            }
            DatabaseKind::Postgres => self.dump_postgres(database, &path).await?,
        };
        if snapshot.store.as_deref() != Some(self.id()) {
            return Err(Error::Damaged("the copy of the database has another id than the store".into()));
        }
        let (bytes, sha256) = blocking(move || {
            files::sync(&path)?;
            files::length_and_hash(&path)
        })
        .await?;
        Ok((DatabaseFile { kind, file, bytes, sha256 }, snapshot))
    }

    async fn dump_postgres(&self, database: &str, path: &Path) -> Result<Snapshot> {
        let tool = Tool::find("pg_dump", database).await?;
        // The tool shares the snapshot of this transaction, which stays open until it is done.
        let mut tx = self.db().snapshot().await?;
        let sql = "SELECT pg_export_snapshot() AS snapshot, CAST(current_setting('server_version_num') AS BIGINT) AS version,
                       (SELECT count(*) FROM migrations) AS schema, (SELECT value FROM store_meta WHERE name = 'store_id') AS store";
        let row = tx.one(sql, &[]).await?;
        tool.check_server(row.get("version")?)?;
        let rows = tx.all("SELECT key FROM blobs WHERE state IN ('live', 'piece') ORDER BY key", &[]).await?;
        let keys: Vec<String> = rows.iter().map(|row| row.get("key")).collect::<Result<_>>()?;
        let snapshot = format!("--snapshot={}", row.get::<String>("snapshot")?);
        let file = format!("--file={}", path.display());
        tool.run(&["--format=custom", "--no-owner", "--no-privileges", &snapshot, &file], None).await?;
        tx.commit().await?;
        Ok(Snapshot {
            schema: row.get("schema")?,
            store: row.get("store")?,
            recordings: keys.iter().filter_map(|key| BlobKey::parse(key)).collect(),
        })
    }

    /// Copies the recordings that the backup lacks; returns all, the missing ones, and the bytes of each copied one.
    async fn copy_recordings(
        &self,
        folder: &Folder,
        keys: Vec<BlobKey>,
        existing: Vec<Recording>,
        on_progress: &mut impl FnMut(BackupProgress),
    ) -> Result<(Vec<Recording>, Vec<BlobKey>, Vec<u64>)> {
        let total = keys.len() as u64;
        let existing: HashMap<String, Recording> = existing.into_iter().map(|one| (one.key.clone(), one)).collect();
        let (mut list, mut missing, mut copied) = (Vec::with_capacity(keys.len()), Vec::new(), Vec::new());
        let mut copying: JoinSet<(BlobKey, Result<Recording>)> = JoinSet::new();
        let mut keys = keys.into_iter();
        let mut folders: HashSet<String> = HashSet::new();
        loop {
            let next = if copying.len() < CONCURRENT_COPIES { keys.next() } else { None };
            if let Some(key) = next {
                let path = folder.recording(&key);
                let unchanged =
                    existing.get(key.as_str()).filter(|one| fs::metadata(&path).is_ok_and(|m| m.len() == one.bytes));
                if let Some(one) = unchanged {
                    list.push(one.clone());
                } else {
                    folders.insert(key.as_str()[..2].to_owned());
                    let store = self.clone();
                    copying.spawn(async move {
                        let done = store.copy_recording(&key, &path).await;
                        (key, done)
                    });
                }
            } else {
                match copying.join_next().await {
                    None => break,
                    Some(Ok((_, Ok(one)))) => {
                        copied.push(one.bytes);
                        list.push(one);
                    }
                    Some(Ok((key, Err(Error::NotFound(_))))) => missing.push(key),
                    Some(Ok((_, Err(error)))) => return Err(error),
                    Some(Err(error)) => return Err(Error::Blob(format!("copying a recording was stopped: {error}"))),
                }
            }
            on_progress(BackupProgress { done: (list.len() + missing.len()) as u64, total });
        }
        let folder = folder.clone();
        blocking(move || {
            for name in folders {
                sync_folder(&folder.path(RECORDINGS).join(name))?;
            }
            sync_folder(&folder.path(RECORDINGS))
        })
        .await?;
        list.sort_by(|a, b| a.key.cmp(&b.key));
        missing.sort();
        Ok((list, missing, copied))
    }

    async fn copy_recording(&self, key: &BlobKey, path: &Path) -> Result<Recording> {
        let (stored, length) = self.recordings().stored(key).await?;
        let parent = path.parent().unwrap_or(Path::new(".")).to_owned();
        let place = path.to_owned();
        let mut file_writer = blocking(move || {
            private_folder(&parent).map_err(|e| failed("can't create", &parent, e))?;
            AtomicFile::begin(&place)
        })
        .await?;
        let mut at = 0;
        while at < length {
            let end = (at + READ_SIZE).min(length);
            let bytes = stored.read(at..end).await?;
            file_writer = blocking(move || {
                file_writer.write(&bytes)?;
                Ok(file_writer)
            })
            .await?;
            at = end;
        }
        let (bytes, sha256) = blocking(move || file_writer.finish()).await?;
        Ok(Recording { key: key.as_str().to_owned(), bytes, sha256 })
    }

    async fn manifest(
        &self,
        folder: &Folder,
        created_at: i64,
        schema: i64,
        database: DatabaseFile,
        list: &[Recording],
        missing: &[BlobKey],
    ) -> Result<Manifest> {
        let mut text = Vec::new();
        for one in list {
            serde_json::to_writer(&mut text, one).map_err(|e| Error::Blob(e.to_string()))?;
            text.push(b'\n');
        }
        let file = format!("recordings-{created_at}.jsonl");
        let mut file_writer = AtomicFile::begin(&folder.path(&file))?;
        file_writer.write(&text)?;
        let (_, sha256) = file_writer.finish()?;
        let rows = self.db().all("SELECT DISTINCT master_id FROM accounts WHERE master_id IS NOT NULL", &[]).await?;
        let mut master_keys: Vec<String> = rows.iter().map(|row| row.get("master_id")).collect::<Result<_>>()?;
        master_keys.sort();
        Ok(Manifest {
            format: FORMAT,
            program: format!("hark {}", env!("CARGO_PKG_VERSION")),
            created_at,
            created: hark_api::DateTime(created_at).to_string(),
            store: self.id().to_owned(),
            schema,
            database,
            recordings: RecordingList {
                file,
                sha256,
                count: list.len() as u64,
                bytes: list.iter().map(|one| one.bytes).sum(),
            },
            missing: missing.iter().map(|key| key.as_str().to_owned()).collect(),
            master_keys,
        })
    }
}

/// Locks a folder that holds nothing but a backup: one backup at a time.
fn lock(folder: &Folder) -> Result<File> {
    let ours = |name: &str| name == LOCK || name == MANIFEST || name == RECORDINGS || is_backup_file(name);
    let entries = fs::read_dir(&folder.0).map_err(|e| failed("can't read", &folder.0, e))?;
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(ours) {
            return Err(Error::Setup(format!(
                "{} holds {}, which is no part of a backup: choose an empty folder",
                folder.0.display(),
                entry.file_name().display()
            )));
        }
    }
    let path = folder.path(LOCK);
    let file = files::create(&path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(Error::Setup(format!("another backup is being written to {}", folder.0.display())))
        }
        Err(TryLockError::Error(error)) => Err(failed("can't lock", &path, error)),
    }
}

/// Whether a backup writes a file of this name beside its manifest.
fn is_backup_file(name: &str) -> bool {
    name.starts_with("database-") || name.starts_with("recordings-") || name == format!("{MANIFEST}.part")
}

/// Replaces the manifest, which commits the backup, and removes files that it no longer references. Returns how many recordings were removed.
async fn commit(folder: &Folder, manifest: &Manifest, list: &[Recording]) -> Result<u64> {
    let text = serde_json::to_vec_pretty(manifest).map_err(|e| Error::Blob(e.to_string()))?;
    let keep: HashSet<String> = list.iter().map(|one| one.key.clone()).collect();
    let names = [manifest.database.file.clone(), manifest.recordings.file.clone()];
    let folder = folder.clone();
    blocking(move || {
        // Files that the manifest references must be durable before it is.
        sync_folder(&folder.0)?;
        let mut file_writer = AtomicFile::begin(&folder.path(MANIFEST))?;
        file_writer.write(&text)?;
        file_writer.finish()?;
        sync_folder(&folder.0)?;
        let remove = |path: &Path| fs::remove_file(path).map_err(|e| failed("can't remove", path, e));
        for entry in fs::read_dir(&folder.0).map_err(|e| failed("can't read", &folder.0, e))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_backup_file(&name) && !names.contains(&name) {
                remove(&entry.path())?;
            }
        }
        let mut removed = 0;
        let recordings = folder.path(RECORDINGS);
        for entry in fs::read_dir(&recordings).map_err(|e| failed("can't read", &recordings, e))?.flatten() {
            for file in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                if !keep.contains(&*file.file_name().to_string_lossy()) {
                    remove(&file.path())?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    })
    .await
}
