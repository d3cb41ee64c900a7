//! The warnings of a transcript: what is wrong or remarkable about its recording. A row of derived data, where there is something to say.

use crate::clock::Micros;
use crate::db::{Tx, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, TranscriptId};
use crate::sealing::Sealer;
use crate::transcripts::derived::{self, WARNINGS};

/// Stores the warnings; none leave no row.
pub(crate) async fn write(
    tx: &mut Tx,
    sealer: &Sealer,
    account: AccountId,
    id: TranscriptId,
    warnings: &[String],
    now: Micros,
) -> Result<()> {
    if warnings.is_empty() {
        return Ok(());
    }
    let body = serde_json::to_vec(warnings).map_err(|_| Error::Conflict("a warning is no text"))?;
    derived::store(tx, sealer, account, id, WARNINGS, &body, now).await
}

/// The warnings, as they were stored.
pub(crate) async fn read(tx: &mut Tx, sealer: &Sealer, id: TranscriptId) -> Result<Vec<String>> {
    let sql = "SELECT body FROM derived WHERE transcript_id = $1 AND kind = $2";
    let Some(row) = tx.optional(sql, args![id, WARNINGS]).await? else { return Ok(Vec::new()) };
    let body = sealer.open(&derived::aad(id, WARNINGS), &row.get::<Vec<u8>>("body")?)?;
    serde_json::from_slice(&body).map_err(|_| Error::Damaged(format!("the warnings of transcript {id}")))
}
