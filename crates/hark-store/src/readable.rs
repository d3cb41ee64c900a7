//! Whether recordings can be read: cheap questions, asked when a job could not.

use std::time::Duration;

use crate::db::args;
use crate::{Blob, Store, blob};

/// How long an answer may take before it counts as none.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many of the newest recordings are tried: one alone may be gone.
const SAMPLE: i64 = 5;

impl Store {
    /// Whether the beginning of a recording can be read where it is kept.
    pub async fn can_read(&self, blob: &Blob) -> bool {
        tokio::time::timeout(PATIENCE, self.reads(blob)).await.unwrap_or(false)
    }

    async fn reads(&self, blob: &Blob) -> bool {
        match self.read(blob, Some(0..blob.size.min(1))).await {
            Ok(mut reader) => reader.next().await.is_ok(),
            Err(_) => false,
        }
    }

    /// Whether recordings can be read at all: one of the newest, or there is none.
    pub async fn can_read_recordings(&self) -> bool {
        let sql =
            "SELECT key, account_id, size, is_sealed FROM blobs WHERE state = 'live' ORDER BY created_at DESC LIMIT $1";
        let Ok(rows) = self.db().all(sql, args![SAMPLE]).await else { return false };
        let newest: Vec<Blob> = rows.iter().filter_map(|row| blob::blob(row).ok()).collect();
        let any = async {
            for blob in &newest {
                if self.reads(blob).await {
                    return true;
                }
            }
            newest.is_empty()
        };
        tokio::time::timeout(PATIENCE, any).await.unwrap_or(false)
    }
}
