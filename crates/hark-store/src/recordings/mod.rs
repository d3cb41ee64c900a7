//! Recordings: uploaded as a stream, stored in a folder or a bucket, read as a stream, a range or a seekable file.
//!
//! The key of a recording is in the database before its first byte is on disk, so that the sweep finds what a crash left behind.

mod chunks;
pub(crate) mod hash;
mod local;
mod pages;
mod reachable;
mod read;
#[cfg(feature = "object-store")]
mod remote;
pub(crate) mod sweep;
pub(crate) mod sweep_lease;
mod write;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::Store;
use crate::db::{Row, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, TranscriptId, UploadId};
use crate::jobs::product::Product;
use crate::random;
use local::Folder;
pub(crate) use pages::{Pages, StoredFile};
pub use read::{BlobReader, ReadSeek};
pub use write::Upload;

/// Recordings: upload, read, sweep and quarantine.
#[derive(Debug, Clone, Copy)]
pub struct Recordings<'a> {
    pub(crate) store: &'a Store,
}

/// The file at the root of a folder or bucket of recordings that has the id of their store.
pub(crate) const MARKER: &str = "hark-store.json";

/// The key of a recording: 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobKey(String);

impl BlobKey {
    fn generate() -> Result<BlobKey> {
        random::token::<16>().map(BlobKey)
    }

    /// Parses a key; `None` when the text is not one.
    pub fn parse(text: &str) -> Option<BlobKey> {
        let valid = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        valid.then(|| BlobKey(text.to_owned()))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A recording that is complete and durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// Its key.
    pub key: BlobKey,
    /// The account that owns it.
    pub account: AccountId,
    /// Its length in bytes.
    pub size: u64,
    /// Whether it is sealed at rest.
    pub is_sealed: bool,
    /// SHA-256 of its bytes; known after an upload, unless without hash.
    pub sha256: Option<[u8; 32]>,
    /// The upload in parts that it was joined from, which the job that is accepted with it consumes.
    pub joined_from: Option<UploadId>,
}

impl Blob {
    /// The checksum to store: SHA-256 in hexadecimal, for a plaintext recording whose hash is known.
    pub(crate) fn checksum(&self) -> Option<String> {
        self.sha256.filter(|_| !self.is_sealed).map(|hash| random::hex(&hash))
    }

    /// Its length as stored.
    pub(crate) fn stored_size(&self) -> u64 {
        if self.is_sealed { chunks::sealed_size(self.size) } else { self.size }
    }
}

/// How a decoder may read a recording.
pub enum BlobSource {
    /// A plaintext file.
    Path(PathBuf),
    /// Through the store, for a sealed recording or one in a bucket. To be read from a thread that may block.
    Reader(Box<dyn ReadSeek>),
}

/// The backend that stores recordings.
pub(crate) enum Blobs {
    Local(Folder),
    #[cfg(feature = "object-store")]
    Remote(remote::Bucket),
}

impl Blobs {
    pub(crate) fn open(location: &str) -> Result<Blobs> {
        match location.split_once("://") {
            None => Folder::open(Path::new(location)).map(Blobs::Local),
            Some(("file", path)) => Folder::open(Path::new(path)).map(Blobs::Local),
            #[cfg(feature = "object-store")]
            Some(_) => remote::Bucket::open(location).map(Blobs::Remote),
            #[cfg(not(feature = "object-store"))]
            Some((scheme, _)) => {
                Err(Error::Setup(format!("this build keeps recordings in folders, not in {scheme}://")))
            }
        }
    }

    pub(crate) async fn remove(&self, key: &BlobKey) -> Result<()> {
        match self {
            Blobs::Local(folder) => {
                let (folder, key) = (folder.clone(), key.clone());
                blocking(move || folder.remove(&key)).await
            }
            #[cfg(feature = "object-store")]
            Blobs::Remote(bucket) => bucket.remove(key).await,
        }
    }

    /// The path or address of the recordings, for messages.
    pub(crate) fn location(&self) -> String {
        match self {
            Blobs::Local(folder) => folder.root().display().to_string(),
            #[cfg(feature = "object-store")]
            Blobs::Remote(bucket) => bucket.location().to_owned(),
        }
    }

    /// Removes what killed readiness probes left at least `age` ago.
    pub(crate) async fn remove_stale_probes(&self, age: std::time::Duration) -> Result<()> {
        let before = pages::modified_before(age);
        match self {
            Blobs::Local(folder) => {
                let folder = folder.clone();
                blocking(move || folder.remove_stale_probes(before)).await
            }
            #[cfg(feature = "object-store")]
            Blobs::Remote(bucket) => bucket.remove_stale_probes(pages::unix_micros(before)).await,
        }
    }

    /// Files that were last modified at least `age` ago, by pages.
    pub(crate) async fn pages(&self, age: std::time::Duration) -> Result<Pages> {
        match self {
            Blobs::Local(folder) => {
                let folder = folder.clone();
                blocking(move || Pages::local(folder, age)).await
            }
            #[cfg(feature = "object-store")]
            Blobs::Remote(bucket) => Ok(Pages::remote(bucket, age)),
        }
    }

    /// The content of the file [`MARKER`], if there is one.
    pub(crate) async fn read_marker(&self) -> Result<Option<Vec<u8>>> {
        match self {
            Blobs::Local(folder) => {
                let folder = folder.clone();
                blocking(move || folder.read_marker()).await
            }
            #[cfg(feature = "object-store")]
            Blobs::Remote(bucket) => bucket.read_marker().await,
        }
    }

    /// Writes or replaces the file [`MARKER`].
    pub(crate) async fn write_marker(&self, bytes: Vec<u8>) -> Result<()> {
        match self {
            Blobs::Local(folder) => {
                let folder = folder.clone();
                blocking(move || folder.write_marker(&bytes)).await
            }
            #[cfg(feature = "object-store")]
            Blobs::Remote(bucket) => bucket.write_marker(bytes).await,
        }
    }
}

/// Runs blocking I/O on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(e) => Err(Error::Blob(format!("the work was stopped: {e}"))),
    }
}

pub(crate) fn blob(row: &Row) -> Result<Blob> {
    let key: String = row.get("key")?;
    Ok(Blob {
        key: BlobKey::parse(&key).ok_or_else(|| Error::Damaged(format!("{key:?} is no recording's name")))?,
        account: AccountId(row.get::<Option<i64>>("account_id")?.unwrap_or_default()),
        size: u64::try_from(row.get::<i64>("size")?).unwrap_or(0),
        is_sealed: row.get("is_sealed")?,
        sha256: None,
        joined_from: None,
    })
}

/// Storage used by the recordings of an account and by its open uploads, in bytes.
pub(crate) const STORAGE_USED: &str =
    "SELECT CAST((SELECT COALESCE(SUM(size), 0) FROM blobs WHERE account_id = $1 AND state = 'live')
         + (SELECT COALESCE(SUM(size), 0) FROM uploads WHERE account_id = $1 AND hash IS NULL) AS BIGINT) AS used";

impl Recordings<'_> {
    /// The path or address of the recordings, for the operator.
    pub fn location(self) -> String {
        self.store.blobs().location()
    }

    /// Storage used by the recordings of an account and by its open uploads, in bytes.
    pub async fn bytes_used(self, account: AccountId) -> Result<u64> {
        let used: i64 = self.store.db().one(STORAGE_USED, args![account]).await?.get("used")?;
        Ok(u64::try_from(used).unwrap_or(0))
    }

    /// The recording of a transcript, if it is still stored.
    pub async fn get(self, account: AccountId, id: TranscriptId) -> Result<Blob> {
        let mut tx = self.store.db().snapshot().await?;
        let found = Product::from(id).recording(&mut tx).await?.filter(|blob| blob.account == account);
        found.ok_or(Error::NotFound("recording"))
    }

    /// The path of a recording, if it is a plaintext file.
    pub fn local_path(self, blob: &Blob) -> Option<PathBuf> {
        match self.store.blobs() {
            Blobs::Local(folder) if !blob.is_sealed => Some(folder.path(&blob.key)),
            _ => None,
        }
    }

    /// Fails for a plaintext recording of an account whose data is all sealed.
    async fn refuse_unsealed(self, blob: &Blob) -> Result<()> {
        if blob.is_sealed || self.store.master_keys().current().is_none() {
            return Ok(());
        }
        match self.store.sealer(blob.account).await {
            Ok(sealer) if sealer.is_complete() => Err(Error::Sealed(crate::sealing::NOT_SEALED)),
            // The account was deleted and its recording not yet removed.
            Ok(_) | Err(Error::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// How a decoder may read a recording.
    pub async fn source(self, blob: &Blob) -> Result<BlobSource> {
        self.refuse_unsealed(blob).await?;
        match self.local_path(blob) {
            Some(path) => Ok(BlobSource::Path(path)),
            None => Ok(BlobSource::Reader(Box::new(self.read(blob, None).await?.into_blocking()))),
        }
    }

    /// Deletes an upload that no job was accepted for.
    pub async fn discard(self, key: &BlobKey) -> Result<()> {
        let sql = "UPDATE blobs SET state = 'deleting' WHERE key = $1 AND state = 'uploading'";
        if self.store.db().execute(sql, args![key.as_str()]).await? > 0 {
            self.store.blobs().remove(key).await?;
            self.forget(key).await?;
        }
        Ok(())
    }

    async fn forget(self, key: &BlobKey) -> Result<()> {
        let sql = "DELETE FROM blobs WHERE key = $1 AND state = 'deleting'";
        self.store.db().execute(sql, args![key.as_str()]).await.map(drop)
    }

    /// Removes the recordings of a transcript or enhancement that a committed transaction has marked for deletion. A failure is logged and left to the sweep.
    pub(crate) async fn remove(self, product: Product) {
        self.remove_deleted_or_defer(None, Some(product)).await;
    }

    /// [`Recordings::remove_deleted`] after a commit: what can't be removed while storage is unreachable is left to the sweep. Returns those that were removed.
    pub(crate) async fn remove_deleted_or_defer(
        self,
        account: Option<AccountId>,
        product: Option<Product>,
    ) -> Vec<BlobKey> {
        self.remove_deleted(account, product).await.unwrap_or_else(|error| {
            let account = account.map(|id| id.0);
            let (transcript, enhancement) = match product {
                Some(Product::Transcript(id)) => (Some(id.0), None),
                Some(Product::Enhancement(id)) => (None, Some(id.0)),
                None => (None, None),
            };
            tracing::warn!(%error, account, transcript, enhancement, "recordings.left_to_sweep");
            Vec::new()
        })
    }

    /// Removes recordings that a committed transaction has marked for deletion: all, or those of an account, transcript or enhancement.
    pub(crate) async fn remove_deleted(
        self,
        account: Option<AccountId>,
        product: Option<Product>,
    ) -> Result<Vec<BlobKey>> {
        // A running backup may list them: they stay until its lease ends.
        let sql = format!(
            "SELECT key, account_id, size, is_sealed FROM blobs WHERE state = 'deleting'
                 AND ($1 IS NULL OR account_id = $1) AND ($2 IS NULL OR {} = $2)
                 AND NOT EXISTS (SELECT 1 FROM maintenance m WHERE m.task LIKE 'backup:%' AND m.lease_until > $3)",
            product.map_or("transcript_id", Product::column)
        );
        let values = args![account, product.map(Product::number), self.store.now()];
        let rows = self.store.db().all(&sql, values).await?;
        let mut removed = Vec::with_capacity(rows.len());
        for row in &rows {
            let key = blob(row)?.key;
            // On failure its row stays for the sweep.
            self.store.blobs().remove(&key).await?;
            self.forget(&key).await?;
            removed.push(key);
        }
        Ok(removed)
    }
}
