//! Share tokens: the random token in the address of a transcript's public page.
//!
//! Anyone who knows the token may read the transcript. It is looked up by its SHA-256, and stored sealed if there is a master key; then a
//! copy of the database reveals no token. Turning a page off deletes its token.

use sha2::{Digest, Sha256};

use crate::db::{Tx, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, TranscriptId};
use crate::random;
use crate::sealing::Sealer;
use crate::sealing::columns::{self, AssociatedData};
use crate::transcripts::Transcripts;

/// Transcripts whose tokens are converted in one transaction.
const PAGE: i64 = 200;

pub(crate) fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

pub(crate) fn aad(id: TranscriptId) -> AssociatedData {
    columns::SHARE_TOKEN.associated_data(&[&id])
}

/// Turns the public page of a transcript on or off. Turning it on or rotating makes a new token.
pub(crate) async fn set(
    tx: &mut Tx,
    sealer: &Sealer,
    id: TranscriptId,
    was_shared: bool,
    shared: bool,
    rotate: bool,
) -> Result<()> {
    if rotate && !shared {
        return Err(Error::Conflict("the transcript is not shared: there is no share token to replace"));
    }
    if shared && (!was_shared || rotate) {
        return write(tx, sealer, id, &random::token::<16>()?).await;
    }
    if !shared {
        let sql = "UPDATE transcripts SET is_shared = $1, share_hash = NULL, share_sealed = NULL, share_token = NULL WHERE id = $2";
        tx.execute(sql, args![false, id]).await?;
    }
    Ok(())
}

async fn write(tx: &mut Tx, sealer: &Sealer, id: TranscriptId, token: &str) -> Result<()> {
    let sealed = sealer.seal(&aad(id), token.as_bytes())?;
    let sql =
        "UPDATE transcripts SET is_shared = $1, share_hash = $2, share_sealed = $3, share_token = NULL WHERE id = $4";
    tx.execute(sql, args![true, &hash(token)[..], &sealed, id]).await.map(drop)
}

impl Transcripts<'_> {
    /// Converts tokens that an older version stored in plaintext. Accounts whose master key is not configured are skipped.
    pub(crate) async fn move_share_tokens(self) -> Result<()> {
        let mut after = i64::MIN;
        loop {
            let sql = "SELECT id, account_id, share_token, is_shared FROM transcripts
                       WHERE share_token IS NOT NULL AND id > $1 ORDER BY id LIMIT 0 + $2";
            let rows = self.store.db().all(sql, args![after, PAGE]).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.get("id")?;
            // Before the transaction: creating a data key is a transaction of its own.
            let mut sealers = Vec::with_capacity(rows.len());
            for row in &rows {
                match self.store.sealer(AccountId(row.get("account_id")?)).await {
                    Ok(sealer) => sealers.push(Some(sealer)),
                    Err(Error::Sealed(_) | Error::NotFound(_)) => sealers.push(None),
                    Err(error) => return Err(error),
                }
            }
            let mut tx = self.store.db().begin().await?;
            for (row, sealer) in rows.iter().zip(sealers) {
                let Some(sealer) = sealer else { continue };
                let id = TranscriptId(row.get("id")?);
                let (token, is_shared): (String, bool) = (row.get("share_token")?, row.get("is_shared")?);
                let sql = format!(
                    "SELECT id FROM transcripts WHERE id = $1 AND share_token = $2 AND is_shared = $3{}",
                    tx.for_update()
                );
                if tx.optional(&sql, args![id, &token, is_shared]).await?.is_none() {
                    // It was changed in the meantime; if by an older version, the next run converts it.
                    continue;
                }
                if is_shared {
                    write(&mut tx, &sealer, id, &token).await?;
                } else {
                    set(&mut tx, &sealer, id, false, false, false).await?;
                }
            }
            tx.commit().await?;
        }
    }
}
