//! Making a backup.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::time::Duration;

use tokio::task::JoinSet;

use super::files::{self, Writing, sync_folder};
use super::postgres::Tool;
use super::{DatabaseFile, DatabaseKind, FORMAT, Folder, MANIFEST, Manifest, RECORDINGS, Recording, RecordingList};
use super::{failed, sqlite};
use crate::clock::micros;
use crate::db::{Db, args, private_folder};
use crate::error::{Error, Result};
use crate::recordings::blocking;
use crate::{BlobKey, Store, random};

/// How long the files of deleted recordings stay for a backup that says nothing, and how often it says something.
const LEASE: Duration = Duration::from_secs(300);
const BEAT: Duration = Duration::from_secs(60);
/// Recordings that are copied at once.
const AT_ONCE: usize = 4;
/// Bytes of a recording that are read at a time.
const BLOCK: u64 = 1 << 20;
/// What holds the lock of a backup's folder.
const LOCK: &str = ".lock";

/// What a backup has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackupProgress {
    /// Recordings that are in the backup by now.
    pub done: u64,
    /// All recordings of the snapshot.
    pub total: u64,
}

/// A backup that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// The id of the store.
    pub store: String,
    /// Bytes of the database's file.
    pub database_bytes: u64,
    /// Recordings in the backup, and their bytes.
    pub recordings: u64,
    /// Bytes of all recordings in the backup.
    pub recording_bytes: u64,
    /// Of those, the ones that were copied now.
    pub copied: u64,
    /// Bytes of those.
    pub copied_bytes: u64,
    /// Recordings of an earlier backup that were removed, since their transcripts are gone.
    pub removed: u64,
    /// Recordings that the database names and that are not there.
    pub missing: Vec<BlobKey>,
    /// Names of the master keys that it can't be read without.
    pub master_keys: Vec<String>,
}

/// What one moment of the database names.
pub(super) struct Snapshot {
    pub(super) schema: i64,
    pub(super) store: Option<String>,
    pub(super) recordings: Vec<BlobKey>,
}

/// While it lives, the files of deleted recordings stay.
struct Hold {
    store: Store,
    task: String,
    beat: tokio::task::JoinHandle<()>,
}

impl Hold {
    async fn begin(store: &Store) -> Result<Hold> {
        let task = format!("{}:{}", crate::recordings::sweep_lease::BACKUP, random::token::<8>()?);
        extend(store, &task).await?;
        let beat = tokio::spawn({
            let (store, task) = (store.clone(), task.clone());
            async move {
                loop {
                    tokio::time::sleep(BEAT).await;
                    if let Err(error) = extend(&store, &task).await {
                        tracing::warn!(%error, "backup.lease_not_renewed");
                    }
                }
            }
        });
        Ok(Hold { store: store.clone(), task, beat })
    }

    async fn end(self) -> Result<()> {
        self.beat.abort();
        self.store.db().execute("DELETE FROM maintenance WHERE task = $1", args![&self.task]).await?;
        // What was deleted meanwhile goes now.
        self.store.recordings().remove_deleted(None, None).await.map(drop)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.beat.abort();
    }
}

async fn extend(store: &Store, task: &str) -> Result<()> {
    let now = store.lease_now().await?;
    let sql = "INSERT INTO maintenance (task, lease_until, finished_at) VALUES ($1, $2, 0)
               ON CONFLICT (task) DO UPDATE SET lease_until = excluded.lease_until";
    store.db().execute(sql, args![task, now.saturating_add(micros(LEASE))]).await.map(drop)
}

impl Store {
    /// Writes a backup into a folder, or brings the one that is there up to date: recordings that it holds already are not copied again.
    pub async fn backup(
        &self,
        database: &str,
        folder: &Path,
        mut tell: impl FnMut(BackupProgress),
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
        let have = match &old {
            // An old list that is damaged is no reason to have no backup: everything is copied again.
            Some(old) => folder.recordings(old).unwrap_or_default(),
            None => Vec::new(),
        };
        let hold = Hold::begin(self).await?;
        let created_at = self.now();
        let (file, snapshot) = self.dump(database, &folder, created_at).await?;
        let (list, missing, copied) = self.copy_recordings(&folder, snapshot.recordings, have, &mut tell).await?;
        let manifest = self.manifest(&folder, created_at, snapshot.schema, file, &list, &missing).await?;
        let removed = commit(&folder, &manifest, &list).await?;
        hold.end().await?;
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

    /// Writes one moment of the database to a file; gives that and what it names.
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
            files::measure(&path)
        })
        .await?;
        Ok((DatabaseFile { kind, file, bytes, sha256 }, snapshot))
    }

    async fn dump_postgres(&self, database: &str, path: &Path) -> Result<Snapshot> {
        let tool = Tool::find("pg_dump", database).await?;
        // The tool sees the same moment as this transaction, which stays open until it is done.
        let mut tx = self.db().snapshot().await?;
        let sql = "SELECT pg_export_snapshot() AS snapshot, CAST(current_setting('server_version_num') AS BIGINT) AS version,
                       (SELECT count(*) FROM migrations) AS schema, (SELECT value FROM store_meta WHERE name = 'store_id') AS store";
        let row = tx.one(sql, &[]).await?;
        tool.check_server(row.get("version")?)?;
        let rows = tx.all("SELECT key FROM blobs WHERE state = 'live' ORDER BY key", &[]).await?;
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

    /// Copies the recordings that the backup has not; gives all, those that are missing, and the bytes of each that was copied.
    async fn copy_recordings(
        &self,
        folder: &Folder,
        keys: Vec<BlobKey>,
        have: Vec<Recording>,
        tell: &mut impl FnMut(BackupProgress),
    ) -> Result<(Vec<Recording>, Vec<BlobKey>, Vec<u64>)> {
        let total = keys.len() as u64;
        let have: HashMap<String, Recording> = have.into_iter().map(|one| (one.key.clone(), one)).collect();
        let (mut list, mut missing, mut copied) = (Vec::with_capacity(keys.len()), Vec::new(), Vec::new());
        let mut copying: JoinSet<(BlobKey, Result<Recording>)> = JoinSet::new();
        let mut keys = keys.into_iter();
        let mut folders: HashSet<String> = HashSet::new();
        loop {
            let next = if copying.len() < AT_ONCE { keys.next() } else { None };
            if let Some(key) = next {
                let path = folder.recording(&key);
                let there =
                    have.get(key.as_str()).filter(|one| fs::metadata(&path).is_ok_and(|m| m.len() == one.bytes));
                if let Some(one) = there {
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
            tell(BackupProgress { done: (list.len() + missing.len()) as u64, total });
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
        let mut writing = blocking(move || {
            private_folder(&parent).map_err(|e| failed("can't create", &parent, e))?;
            Writing::begin(&place)
        })
        .await?;
        let mut at = 0;
        while at < length {
            let end = (at + BLOCK).min(length);
            let bytes = stored.read(at..end).await?;
            writing = blocking(move || {
                writing.write(&bytes)?;
                Ok(writing)
            })
            .await?;
            at = end;
        }
        let (bytes, sha256) = blocking(move || writing.finish()).await?;
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
        let mut writing = Writing::begin(&folder.path(&file))?;
        writing.write(&text)?;
        let (_, sha256) = writing.finish()?;
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

/// One backup at a time into a folder that holds nothing else.
fn lock(folder: &Folder) -> Result<File> {
    let ours = |name: &str| name == LOCK || name == MANIFEST || name == RECORDINGS || is_ours(name);
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

/// Whether a file of that name is one that a backup writes beside its manifest.
fn is_ours(name: &str) -> bool {
    name.starts_with("database-") || name.starts_with("recordings-") || name == format!("{MANIFEST}.part")
}

/// Puts the manifest in place, which makes the backup the new one, and removes what it no longer names. Returns how many recordings that were.
async fn commit(folder: &Folder, manifest: &Manifest, list: &[Recording]) -> Result<u64> {
    let text = serde_json::to_vec_pretty(manifest).map_err(|e| Error::Blob(e.to_string()))?;
    let keep: HashSet<String> = list.iter().map(|one| one.key.clone()).collect();
    let names = [manifest.database.file.clone(), manifest.recordings.file.clone()];
    let folder = folder.clone();
    blocking(move || {
        // Names of what the manifest speaks of are on disk before it is.
        sync_folder(&folder.0)?;
        let mut writing = Writing::begin(&folder.path(MANIFEST))?;
        writing.write(&text)?;
        writing.finish()?;
        sync_folder(&folder.0)?;
        let remove = |path: &Path| fs::remove_file(path).map_err(|e| failed("can't remove", path, e));
        for entry in fs::read_dir(&folder.0).map_err(|e| failed("can't read", &folder.0, e))?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_ours(&name) && !names.contains(&name) {
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
