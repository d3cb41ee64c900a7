//! Cached data derived from a transcript or its recording: summaries, analyses, embeddings, drafts, waveforms.

use crate::clock::Micros;
use crate::db::{Tx, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, TranscriptId};
use crate::sealing::Sealer;
use crate::sealing::columns::{self, AssociatedData};
use crate::transcripts::Transcripts;
use crate::transcripts::summary_aad;

/// The kind of the segments that are decoded while the transcript is processed, see `draft.rs`.
pub(crate) const DRAFT: &str = "draft";
/// The kind of the waveform, which is of the recording: it stays when the text changes and goes with the recording.
pub(crate) const WAVEFORM: &str = "waveform";
/// The kind of the warnings, which are of the recording too, and stay with the text when the recording goes.
pub(crate) const WARNINGS: &str = "warnings";

pub(crate) fn aad(id: TranscriptId, kind: &str) -> AssociatedData {
    columns::DERIVED.associated_data(&[&id, &kind])
}

/// Fails unless the transcript is the account's; locks it against deletion and edits until the transaction ends.
pub(crate) async fn check_owner(tx: &mut Tx, account: AccountId, id: TranscriptId) -> Result<()> {
    lock_text(tx, account, id).await.map(drop)
}

/// The same; returns the revision of the transcript's text.
pub(crate) async fn lock_text(tx: &mut Tx, account: AccountId, id: TranscriptId) -> Result<i64> {
    let lock = if tx.is_postgres() { " FOR KEY SHARE" } else { "" };
    let sql = format!("SELECT text_revision FROM transcripts WHERE id = $1 AND account_id = $2{lock}");
    tx.optional(&sql, args![id, account]).await?.ok_or(Error::NotFound("transcript"))?.get("text_revision")
}

/// What of the derived data stays when its source changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Nothing that is of the text: it has changed.
    Nothing,
    /// What holds no names of speakers, which have changed: translations are of the text alone.
    Nameless,
}

/// Deletes derived data that is out of date, and raises the revision so that a call under way does not store what it made of the old source.
pub(crate) async fn discard(tx: &mut Tx, id: TranscriptId, kept: Kept) -> Result<()> {
    let kept = match kept {
        Kept::Nothing => "",
        Kept::Nameless => " AND kind NOT LIKE 'translation:%'",
    };
    let sql = format!("DELETE FROM derived WHERE transcript_id = $1 AND kind NOT IN ($2, $3){kept}");
    tx.execute(&sql, args![id, WAVEFORM, WARNINGS]).await?;
    let sql = "UPDATE transcripts SET summary = NULL, text_revision = text_revision + 1 WHERE id = $1";
    tx.execute(sql, args![id]).await.map(drop)
}

/// Deletes the waveform: its recording goes.
pub(crate) async fn forget_waveform(tx: &mut Tx, id: TranscriptId) -> Result<()> {
    tx.execute("DELETE FROM derived WHERE transcript_id = $1 AND kind = $2", args![id, WAVEFORM]).await.map(drop)
}

impl Transcripts<'_> {
    /// The derived data of this kind (`summary:brief`, `analysis:topics`, an embedding) of a transcript.
    pub async fn derived(self, account: AccountId, id: TranscriptId, kind: &str) -> Result<Option<Vec<u8>>> {
        let sealer = self.store.sealer(account).await?;
        let sql = "SELECT d.body AS body FROM derived d JOIN transcripts t ON t.id = d.transcript_id
                   WHERE t.id = $1 AND t.account_id = $2 AND d.kind = $3";
        match self.store.db().optional(sql, args![id, account, kind]).await? {
            Some(row) => sealer.open(&aad(id, kind), &row.get::<Vec<u8>>("body")?).map(Some),
            None => Ok(None),
        }
    }

    /// The kinds of derived data of a transcript, each with the time when it was stored; drafts, waveforms and warnings are none.
    pub async fn derived_kinds(self, account: AccountId, id: TranscriptId) -> Result<Vec<(String, Micros)>> {
        let mut tx = self.store.db().snapshot().await?;
        let owned =
            tx.optional("SELECT id FROM transcripts WHERE id = $1 AND account_id = $2", args![id, account]).await?;
        owned.ok_or(Error::NotFound("transcript"))?;
        let sql = "SELECT kind, created_at FROM derived WHERE transcript_id = $1 AND kind NOT IN ($2, $3, $4) ORDER BY created_at DESC, kind";
        let rows = tx.all(sql, args![id, DRAFT, WAVEFORM, WARNINGS]).await?;
        rows.iter().map(|row| Ok((row.get("kind")?, row.get("created_at")?))).collect()
    }

    /// Stores derived data of a transcript, replacing that of the same kind.
    pub async fn store_derived(self, account: AccountId, id: TranscriptId, kind: &str, body: &[u8]) -> Result<()> {
        let sealer = self.store.sealer(account).await?;
        let mut tx = self.store.db().begin().await?;
        store(&mut tx, &sealer, account, id, kind, body, self.store.now()).await?;
        tx.commit().await
    }

    /// The waveform of the recording of a transcript, if it is stored.
    pub async fn waveform(self, account: AccountId, id: TranscriptId) -> Result<Option<Vec<u8>>> {
        self.derived(account, id, WAVEFORM).await
    }

    /// Stores the waveform of the recording of a transcript, which is deleted with the recording. [`Error::NotFound`] when that is gone.
    pub async fn store_waveform(self, account: AccountId, id: TranscriptId, body: &[u8]) -> Result<()> {
        let sealer = self.store.sealer(account).await?;
        let mut tx = self.store.db().begin().await?;
        // The recording is locked before the transcript, as where both are deleted.
        let sql = format!(
            "SELECT key FROM blobs WHERE transcript_id = $1 AND is_result = $2 AND state = 'live'{}",
            tx.for_update()
        );
        tx.optional(&sql, args![id, false]).await?.ok_or(Error::NotFound("recording"))?;
        store(&mut tx, &sealer, account, id, WAVEFORM, body, self.store.now()).await?;
        tx.commit().await
    }

    /// Sets the summary of a transcript.
    pub async fn set_summary(self, account: AccountId, id: TranscriptId, summary: &str) -> Result<()> {
        let sealer = self.store.sealer(account).await?;
        let mut tx = self.store.db().begin().await?;
        set_summary(&mut tx, &sealer, account, id, summary).await?;
        tx.commit().await
    }
}

/// Stores derived data of a transcript of the account, replacing that of the same kind.
pub(crate) async fn store(
    tx: &mut Tx,
    sealer: &Sealer,
    account: AccountId,
    id: TranscriptId,
    kind: &str,
    body: &[u8],
    now: Micros,
) -> Result<()> {
    check_owner(tx, account, id).await?;
    let sealed = sealer.seal(&aad(id, kind), body)?;
    tx.execute(
        "INSERT INTO derived (transcript_id, kind, body, created_at) VALUES ($1, $2, $3, $4)
         ON CONFLICT (transcript_id, kind) DO UPDATE SET body = excluded.body, created_at = excluded.created_at",
        args![id, kind, &sealed, now],
    )
    .await
    .map(drop)
}

/// Sets the summary of a transcript of the account.
pub(crate) async fn set_summary(
    tx: &mut Tx,
    sealer: &Sealer,
    account: AccountId,
    id: TranscriptId,
    summary: &str,
) -> Result<()> {
    let sealed = sealer.seal(&summary_aad(id), summary.as_bytes())?;
    let sql = "UPDATE transcripts SET summary = $1 WHERE id = $2 AND account_id = $3";
    match tx.execute(sql, args![&sealed, id, account]).await? {
        0 => Err(Error::NotFound("transcript")),
        _ => Ok(()),
    }
}
