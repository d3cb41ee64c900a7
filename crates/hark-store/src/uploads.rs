//! Uploads that go on after a connection broke.
//!
//! What arrived is kept as pieces: recordings of their own in the state `piece`, in a folder or a bucket, sealed where the account's recordings are. They are joined
//! when the upload is used; the job that is accepted consumes it in its own transaction (`jobs/accept.rs`). The whole length counts against the account's storage from
//! the beginning.

use std::time::Duration;

use crate::clock::{Micros, micros};
use crate::db::{Row, Tx, args};
use crate::error::{Error, Limit, Result};
use crate::ids::{AccountId, UploadId};
use crate::recordings::{STORAGE_USED, blob};
use crate::sealing::Sealer;
use crate::sealing::columns;
use crate::{Blob, Store, ledger, transcripts};

/// How long an upload is kept after its last byte, and how long one that was used is known to a request that is repeated.
pub const UPLOAD_KEPT: Duration = Duration::from_secs(24 * 3600);
/// Uploads that an account may have open.
pub const MAX_OPEN_UPLOADS: i64 = 4;

/// Uploads that go on after a connection broke.
#[derive(Debug, Clone, Copy)]
pub struct Uploads<'a> {
    pub(crate) store: &'a Store,
}

/// An upload that is not used yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenUpload {
    /// Its id.
    pub id: UploadId,
    /// The name of the file.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
    /// Bytes that are stored.
    pub received: u64,
    /// When it is deleted unless more arrives.
    pub expires_at: Micros,
}

impl OpenUpload {
    /// Whether all of it is stored.
    pub fn is_complete(&self) -> bool {
        self.received == self.size
    }
}

/// An upload that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedUpload {
    /// It is open.
    Open(OpenUpload),
    /// A request with an idempotency key used it.
    Used {
        /// SHA-256 of its bytes.
        sha256: [u8; 32],
    },
}

const COLUMNS: &str = "id, name, size, received, expires_at, hash";

fn open(sealer: &Sealer, row: &Row) -> Result<OpenUpload> {
    let id = UploadId(row.get("id")?);
    let name = sealer.open(&columns::UPLOAD_NAME.associated_data(&[&id]), &row.get::<Vec<u8>>("name")?)?;
    Ok(OpenUpload {
        id,
        name: String::from_utf8_lossy(&name).into_owned(),
        size: u64::try_from(row.get::<i64>("size")?).unwrap_or(0),
        received: u64::try_from(row.get::<i64>("received")?).unwrap_or(0),
        expires_at: row.get("expires_at")?,
    })
}

fn bytes(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Uploads<'_> {
    /// Begins an upload. [`Error::Conflict`] when the account has [`MAX_OPEN_UPLOADS`], [`Error::Limit`] when it does not fit into its storage.
    pub async fn create(
        self,
        account: AccountId,
        name: &str,
        size: u64,
        max_storage: Option<u64>,
    ) -> Result<OpenUpload> {
        let sealer = self.store.sealer(account).await?;
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, account).await?;
        let sql = "SELECT count(*) AS n FROM uploads WHERE account_id = $1 AND hash IS NULL AND expires_at > $2";
        if tx.one(sql, args![account, now]).await?.get::<i64>("n")? >= MAX_OPEN_UPLOADS {
            return Err(Error::Conflict("four uploads of this account are open: finish or delete one"));
        }
        if let Some(limit) = max_storage.map(bytes) {
            let used: i64 = tx.one(STORAGE_USED, args![account]).await?.get("used")?;
            if used.saturating_add(bytes(size)) > limit {
                return Err(Error::Limit { what: Limit::StorageBytes, limit, used });
            }
        }
        let expires_at = now.saturating_add(micros(UPLOAD_KEPT));
        loop {
            let id = UploadId(transcripts::random_number()?);
            let sealed = sealer.seal(&columns::UPLOAD_NAME.associated_data(&[&id]), name.as_bytes())?;
            let sql =
                "INSERT INTO uploads (id, account_id, name, size, received, expires_at) VALUES ($1, $2, $3, $4, 0, $5)
                 ON CONFLICT (id) DO NOTHING";
            if tx.execute(sql, args![id, account, &sealed, bytes(size), expires_at]).await? > 0 {
                tx.commit().await?;
                return Ok(OpenUpload { id, name: name.to_owned(), size, received: 0, expires_at });
            }
        }
    }

    /// An upload of an account that is open.
    pub async fn get(self, account: AccountId, id: UploadId) -> Result<OpenUpload> {
        match self.find(account, id).await? {
            NamedUpload::Open(upload) => Ok(upload),
            NamedUpload::Used { .. } => Err(Error::NotFound("upload")),
        }
    }

    /// An upload of an account, also one that a request with an idempotency key used.
    pub async fn find(self, account: AccountId, id: UploadId) -> Result<NamedUpload> {
        let sealer = self.store.sealer(account).await?;
        let sql = format!("SELECT {COLUMNS} FROM uploads WHERE id = $1 AND account_id = $2 AND expires_at > $3");
        let row = self.store.db().optional(&sql, args![id, account, self.store.now()]).await?;
        let row = row.ok_or(Error::NotFound("upload"))?;
        let Some(hash) = row.get::<Option<Vec<u8>>>("hash")? else {
            return Ok(NamedUpload::Open(open(&sealer, &row)?));
        };
        let hash = sealer.open(&columns::UPLOAD_HASH.associated_data(&[&id]), &hash)?;
        let sha256 = hash[..].try_into().map_err(|_| Error::Damaged(format!("the hash of upload {id}")))?;
        Ok(NamedUpload::Used { sha256 })
    }

    /// Adds a piece that begins at `offset`, which must be where the upload ends, or [`Error::Conflict`]; a piece that is not added is discarded.
    pub async fn add(self, account: AccountId, id: UploadId, offset: u64, piece: &Blob) -> Result<OpenUpload> {
        let added = self.write_piece(account, id, offset, piece).await;
        if added.is_err()
            && let Err(error) = self.store.recordings().discard(&piece.key).await
        {
            tracing::warn!(%error, key = %piece.key, "recording.discard_failed");
        }
        added
    }

    async fn write_piece(self, account: AccountId, id: UploadId, offset: u64, piece: &Blob) -> Result<OpenUpload> {
        let sealer = self.store.sealer(account).await?;
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        let sql = format!(
            "UPDATE uploads SET received = received + $1, expires_at = $2
             WHERE id = $3 AND account_id = $4 AND received = $5 AND received + $1 <= size AND hash IS NULL AND expires_at > $6
             RETURNING {COLUMNS}"
        );
        let expires_at = now.saturating_add(micros(UPLOAD_KEPT));
        let values = args![bytes(piece.size), expires_at, id, account, bytes(offset), now];
        let row = tx.optional(&sql, values).await?;
        let row = row.ok_or(Error::Conflict("the upload goes on elsewhere: ask where it is"))?;
        let sql = "UPDATE blobs SET state = 'piece', upload_id = $1, upload_offset = $2, size = $3, sha256 = $4
             WHERE key = $5 AND account_id = $6 AND state = 'uploading'";
        let checksum = piece.checksum();
        let values = args![id, bytes(offset), bytes(piece.size), checksum.as_deref(), piece.key.as_str(), account];
        if tx.execute(sql, values).await? == 0 {
            return Err(Error::Conflict("the piece took too long and was given up"));
        }
        let upload = open(&sealer, &row)?;
        tx.commit().await?;
        Ok(upload)
    }

    /// Deletes an upload that is open, with its pieces.
    pub async fn delete(self, account: AccountId, id: UploadId) -> Result<()> {
        let mut tx = self.store.db().begin().await?;
        let sql = "DELETE FROM uploads WHERE id = $1 AND account_id = $2 AND hash IS NULL";
        if tx.execute(sql, args![id, account]).await? == 0 {
            return Err(Error::NotFound("upload"));
        }
        release_pieces(&mut tx, id).await?;
        tx.commit().await?;
        self.store.recordings().remove_deleted_or_defer(Some(account), None).await;
        Ok(())
    }

    /// Joins the pieces of a complete upload into one recording. The upload stays until a job is accepted with that recording, which consumes it.
    pub async fn join(self, account: AccountId, upload: &OpenUpload, is_hashed: bool) -> Result<Blob> {
        if !upload.is_complete() {
            return Err(Error::Conflict("the upload is not complete"));
        }
        let gone = || Error::Conflict("the upload was used or deleted meanwhile");
        let sql = "SELECT key, account_id, size, is_sealed FROM blobs WHERE upload_id = $1 AND account_id = $2 AND state = 'piece' ORDER BY upload_offset";
        let pieces = self.store.db().all(sql, args![upload.id, account]).await?;
        let mut whole = self.store.recordings().upload(account).await?.joined_from(upload.id);
        if !is_hashed && whole.is_sealed() {
            whole = whole.without_hash();
        }
        for row in &pieces {
            let mut reader = match self.store.recordings().read(&blob(row)?, None).await {
                Err(Error::NotFound(_)) => return Err(gone()),
                reader => reader?,
            };
            while let Some(bytes) = reader.next().await? {
                whole.write(bytes).await?;
            }
        }
        if whole.size() != upload.size {
            return Err(gone());
        }
        whole.finish().await
    }
}

/// Marks the pieces of an upload for deletion.
async fn release_pieces(tx: &mut Tx, id: UploadId) -> Result<()> {
    let sql = "UPDATE blobs SET state = 'deleting' WHERE upload_id = $1 AND state = 'piece'";
    tx.execute(sql, args![id]).await.map(drop)
}

/// Consumes the upload that a recording was joined from. With a hash it is known, until it expires, to a repeat of the request.
pub(crate) async fn consume(
    tx: &mut Tx,
    sealer: &Sealer,
    account: AccountId,
    id: UploadId,
    hash: Option<&[u8; 32]>,
    now: Micros,
) -> Result<()> {
    let consumed = match hash {
        Some(hash) => {
            let sealed = sealer.seal(&columns::UPLOAD_HASH.associated_data(&[&id]), hash)?;
            let sql = "UPDATE uploads SET hash = $1, expires_at = $2 WHERE id = $3 AND account_id = $4 AND hash IS NULL AND received = size";
            tx.execute(sql, args![&sealed, now.saturating_add(micros(UPLOAD_KEPT)), id, account]).await?
        }
        None => {
            let sql = "DELETE FROM uploads WHERE id = $1 AND account_id = $2 AND hash IS NULL AND received = size";
            tx.execute(sql, args![id, account]).await?
        }
    };
    if consumed == 0 {
        return Err(Error::Conflict("the upload was used or deleted meanwhile"));
    }
    release_pieces(tx, id).await
}

/// Deletes uploads that have expired, and marks pieces that belong to none for deletion.
pub(crate) async fn expire(tx: &mut Tx, now: Micros) -> Result<()> {
    tx.execute("DELETE FROM uploads WHERE expires_at <= $1", args![now]).await?;
    release_orphans(tx).await
}

/// Deletes open uploads with plaintext pieces: they can't be sealed piece by piece while they go on.
pub(crate) async fn discard_unsealed(store: &Store) -> Result<()> {
    let mut tx = store.db().begin().await?;
    let sql = "DELETE FROM uploads WHERE hash IS NULL
         AND EXISTS (SELECT 1 FROM blobs b WHERE b.upload_id = uploads.id AND b.state = 'piece' AND b.is_sealed = $1)";
    tx.execute(sql, args![false]).await?;
    release_orphans(&mut tx).await?;
    tx.commit().await
}

async fn release_orphans(tx: &mut Tx) -> Result<()> {
    let sql = "UPDATE blobs SET state = 'deleting' WHERE state = 'piece'
         AND NOT EXISTS (SELECT 1 FROM uploads u WHERE u.id = blobs.upload_id AND u.hash IS NULL)";
    tx.execute(sql, &[]).await.map(drop)
}
