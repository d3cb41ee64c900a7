//! Whether recordings are reachable: cheap checks after a job failed to read its recording.

use std::time::Duration;

use crate::db::args;
use crate::error::Result;
use crate::recordings;
use crate::recordings::Recordings;
use crate::{Blob, BlobKey};

/// A read that takes longer counts as failed.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How many of the newest recordings are tried: a single one may be missing.
const SAMPLE: i64 = 5;

impl Recordings<'_> {
    /// Whether the first byte of a recording can be read.
    pub async fn can_read(self, blob: &Blob) -> bool {
        tokio::time::timeout(READ_TIMEOUT, self.try_read(blob)).await.unwrap_or(false)
    }

    async fn try_read(self, blob: &Blob) -> bool {
        match self.read(blob, Some(0..blob.size.min(1))).await {
            Ok(mut reader) => reader.next().await.is_ok(),
            Err(_) => false,
        }
    }

    /// Whether storage is reachable: one of the newest recordings can be read, or there are no recordings.
    pub async fn can_read_any(self) -> bool {
        let sql = "SELECT key, account_id, size, is_sealed FROM blobs WHERE state = 'live' ORDER BY created_at DESC LIMIT 0 + $1";
        let Ok(rows) = self.store.db().all(sql, args![SAMPLE]).await else { return false };
        let newest: Vec<Blob> = rows.iter().filter_map(|row| recordings::blob(row).ok()).collect();
        let any = async {
            for blob in &newest {
                if self.try_read(blob).await {
                    return true;
                }
            }
            newest.is_empty()
        };
        tokio::time::timeout(READ_TIMEOUT, any).await.unwrap_or(false)
    }

    /// Live recordings whose file is missing or has the wrong length.
    pub async fn missing(self) -> Result<Vec<BlobKey>> {
        let mut missing = Vec::new();
        let mut after = String::new();
        loop {
            let sql = "SELECT key, account_id, size, is_sealed FROM blobs WHERE state = 'live' AND key > $1 ORDER BY key LIMIT 500";
            let rows = self.store.db().all(sql, args![&after]).await?;
            let Some(last) = rows.last() else { return Ok(missing) };
            after = last.get("key")?;
            for row in &rows {
                let blob = crate::recordings::blob(row)?;
                if self.store.blobs().stored_size(&blob.key).await? != Some(blob.stored_size()) {
                    missing.push(blob.key);
                }
            }
        }
    }
}
