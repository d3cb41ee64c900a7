//! The search index over the transcripts of an account: by terms (FTS5 or a GIN index) and by the vectors of passages.
//!
//! A completed or edited transcript is due to be indexed ([`mark_due`], in the transaction of the change). A caller claims it, cuts it into passages and writes
//! them with [`Search::index`]. Terms are stored as keyed hashes of words, vectors are sealed: the index tells a reader of the database no word. The index can be
//! rebuilt from the transcripts at any time, so whatever makes it invalid drops it and marks the transcript as due.

mod find;
mod queue;
mod read;
mod terms;
mod vectors;

use crate::Store;
use crate::clock::Micros;
use crate::db::{Tx, args};
use crate::error::Result;
use crate::ids::TranscriptId;

pub use find::{Candidates, Nearest, SearchFilter};
pub use queue::{IndexTask, NewIndex, NewPassage, SearchCounts};
pub use read::{FoundPassage, PassageSegment, SearchedTranscript};

/// The search index.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    pub(crate) store: &'a Store,
}

/// Marks a completed transcript of an account as due to be indexed; one of nobody's is not indexed.
pub(crate) async fn mark_due(tx: &mut Tx, id: TranscriptId, now: Micros) -> Result<()> {
    tx.execute(
        "INSERT INTO search_documents (transcript_id, account_id, due_at, attempts, version, is_keyed)
         SELECT id, account_id, $2, 0, 0, FALSE FROM transcripts WHERE id = $1 AND substr(owner, 1, 8) = 'account:'
         ON CONFLICT (transcript_id) DO UPDATE SET due_at = excluded.due_at, lease = NULL, attempts = 0",
        args![id, now],
    )
    .await
    .map(drop)
}

/// Removes the index of a transcript whose text has changed and marks it as due. Whoever is indexing the old text loses the lease.
pub(crate) async fn discard(tx: &mut Tx, id: TranscriptId, now: Micros) -> Result<()> {
    tx.execute(
        "UPDATE search_documents SET due_at = $2, lease = NULL, attempts = 0, version = 0, model = NULL, vectors = NULL WHERE transcript_id = $1",
        args![id, now],
    )
    .await?;
    tx.execute("DELETE FROM search_passages WHERE transcript_id = $1", args![id]).await.map(drop)
}

/// Removes every index whose terms are not keyed by a data key, in transactions of a few transcripts; returns how many had vectors.
pub(crate) async fn discard_unkeyed(store: &Store) -> Result<u64> {
    let mut with_vectors = 0;
    loop {
        let mut tx = store.db().begin().await?;
        let sql = "SELECT transcript_id, vectors IS NOT NULL AS has_vectors FROM search_documents
                   WHERE is_keyed = $1 AND version > 0 ORDER BY transcript_id LIMIT 50";
        let rows = tx.all(sql, args![false]).await?;
        if rows.is_empty() {
            return Ok(with_vectors);
        }
        for row in rows {
            with_vectors += u64::from(row.get::<bool>("has_vectors")?);
            discard(&mut tx, TranscriptId(row.get("transcript_id")?), store.now()).await?;
        }
        tx.commit().await?;
    }
}
