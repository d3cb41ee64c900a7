//! What a job makes: a transcript or an enhancement. Its row follows the job: its status, its progress, and how it failed.

use crate::clock::Micros;
use crate::db::{Row, Tx, args};
use crate::error::Result;
use crate::ids::{EnhancementId, TranscriptId};
use crate::jobs::queue::TRANSCRIBE;
use crate::transcripts::{derived, draft};
use crate::{Blob, Change, FaultKind, Status, recordings, webhooks};

/// What a job makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Product {
    /// A transcript.
    Transcript(TranscriptId),
    /// A recording without its noise.
    Enhancement(EnhancementId),
}

impl From<TranscriptId> for Product {
    fn from(id: TranscriptId) -> Self {
        Product::Transcript(id)
    }
}

impl From<EnhancementId> for Product {
    fn from(id: EnhancementId) -> Self {
        Product::Enhancement(id)
    }
}

impl Product {
    /// What the job of a row with `kind`, `transcript_id` and `enhancement_id` makes. A job of another kind may be about a transcript without making it.
    pub(crate) fn of_job(row: &Row) -> Result<Option<Product>> {
        if let Some(id) = row.get::<Option<i64>>("enhancement_id")? {
            return Ok(Some(EnhancementId(id).into()));
        }
        let transcript = row.get::<Option<i64>>("transcript_id")?.map(TranscriptId);
        let makes_it = row.get::<String>("kind")? == TRANSCRIBE;
        Ok(transcript.filter(|_| makes_it).map(Product::from))
    }

    /// The table of its row.
    fn table(self) -> &'static str {
        match self {
            Product::Transcript(_) => "transcripts",
            Product::Enhancement(_) => "enhancements",
        }
    }

    /// The column of other tables that refers to it.
    pub(crate) fn column(self) -> &'static str {
        match self {
            Product::Transcript(_) => "transcript_id",
            Product::Enhancement(_) => "enhancement_id",
        }
    }

    /// Its number; those of different kinds may be the same.
    pub fn number(self) -> i64 {
        match self {
            Product::Transcript(id) => id.0,
            Product::Enhancement(id) => id.0,
        }
    }

    /// The change that ends the wait for it.
    pub(crate) fn finished(self) -> Change {
        match self {
            Product::Transcript(id) => Change::Finished(id),
            Product::Enhancement(id) => Change::Enhanced(id),
        }
    }

    /// The reason of a job whose workers all stopped renewing their leases.
    pub(crate) fn workers_died(self) -> &'static str {
        match self {
            Product::Transcript(_) => {
                "the recording could not be transcribed: every attempt ended unexpectedly; nothing was charged, and the recording is kept: retry the transcript, or send us the file"
            }
            Product::Enhancement(_) => {
                "the recording could not be enhanced: every attempt ended unexpectedly; nothing was charged: send it again, or send us the file"
            }
        }
    }

    /// Sets the status when an attempt begins or ends; a draft is of one attempt.
    pub(crate) async fn set_status(self, tx: &mut Tx, status: Status) -> Result<()> {
        let sql = format!("UPDATE {} SET status = $1 WHERE id = $2", self.table());
        tx.execute(&sql, args![status.name(), self.number()]).await?;
        match self {
            Product::Transcript(id) => draft::forget(tx, id).await,
            Product::Enhancement(_) => Ok(()),
        }
    }

    /// Raises the progress, 0 to 100.
    pub(crate) async fn set_progress(self, tx: &mut Tx, percent: i64) -> Result<()> {
        let sql = format!("UPDATE {} SET progress = $1 WHERE id = $2 AND progress < $1", self.table());
        tx.execute(&sql, args![percent.clamp(0, 100), self.number()]).await.map(drop)
    }

    /// Marks it as failed.
    pub(crate) async fn mark_failed(self, tx: &mut Tx, kind: FaultKind, reason: &str, now: Micros) -> Result<()> {
        let sql = format!(
            "UPDATE {} SET status = 'failed', error = $1, error_kind = $2, completed_at = $3 WHERE id = $4",
            self.table()
        );
        tx.execute(&sql, args![reason, kind.name(), now, self.number()]).await?;
        match self {
            Product::Transcript(id) => {
                draft::forget(tx, id).await?;
                webhooks::mark_due(tx, id, now).await
            }
            Product::Enhancement(_) => Ok(()),
        }
    }

    /// Marks it as queued again after it had failed.
    pub(crate) async fn mark_queued(self, tx: &mut Tx) -> Result<()> {
        let sql = format!(
            "UPDATE {} SET status = 'queued', progress = 0, error = NULL, error_kind = NULL, completed_at = NULL WHERE id = $1",
            self.table()
        );
        tx.execute(&sql, args![self.number()]).await?;
        if let Product::Transcript(id) = self {
            // A webhook that was not delivered for the failure yet is delivered for the final result.
            let sql = "UPDATE webhooks SET state = 'waiting', attempts = 0, lease = NULL WHERE transcript_id = $1";
            tx.execute(sql, args![id]).await?;
        }
        Ok(())
    }

    /// The recording that was sent.
    pub(crate) async fn recording(self, tx: &mut Tx) -> Result<Option<Blob>> {
        self.blob(tx, false).await
    }

    /// The recording that was made.
    pub(crate) async fn result(self, tx: &mut Tx) -> Result<Option<Blob>> {
        self.blob(tx, true).await
    }

    async fn blob(self, tx: &mut Tx, is_result: bool) -> Result<Option<Blob>> {
        let sql = format!(
            "SELECT key, account_id, size, is_sealed FROM blobs WHERE {} = $1 AND is_result = $2 AND state = 'live'",
            self.column()
        );
        tx.optional(&sql, args![self.number(), is_result]).await?.as_ref().map(recordings::blob).transpose()
    }

    /// Marks its recordings for deletion, and deletes what was made of them.
    pub(crate) async fn release_recordings(self, tx: &mut Tx) -> Result<()> {
        let sql = format!("UPDATE blobs SET state = 'deleting' WHERE {} = $1", self.column());
        tx.execute(&sql, args![self.number()]).await?;
        match self {
            Product::Transcript(id) => derived::forget_waveform(tx, id).await,
            Product::Enhancement(_) => Ok(()),
        }
    }
}
