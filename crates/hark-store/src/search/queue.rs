//! What is due to be indexed, and writing an index.

use std::collections::BTreeSet;
use std::time::Duration;

use super::terms::TermKey;
use super::{Search, vectors};
use crate::clock::micros;
use crate::db::{Value, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, TranscriptId};
use crate::random;
use crate::sealing::columns::{self, AssociatedData};

/// Rows of one `INSERT`.
const BATCH: usize = 50;

/// A transcript that is claimed to be indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexTask {
    /// The account that owns it.
    pub account: AccountId,
    /// The transcript.
    pub transcript: TranscriptId,
    /// How often it was tried before.
    pub attempts: u32,
    lease: String,
}

/// The index of a transcript.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewIndex {
    /// The version of how texts are cut and words are folded, from 1; another version is indexed again.
    pub version: i64,
    /// The passages in order.
    pub passages: Vec<NewPassage>,
    /// The model of the vectors.
    pub model: Option<String>,
    /// A unit vector for each passage, or none at all without a model.
    pub vectors: Vec<Vec<f32>>,
}

/// A passage: a run of segments, or a part of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewPassage {
    /// Its first segment, from 0.
    pub first_segment: i64,
    /// Its last segment.
    pub last_segment: i64,
    /// Where it begins in the text of its segments, in bytes: their trimmed texts, joined by a space.
    pub text_offset: i64,
    /// How long it is, in bytes.
    pub text_length: i64,
    /// Its words, folded.
    pub terms: Vec<String>,
}

/// How many transcripts of an account can be searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SearchCounts {
    /// Transcripts that are indexed.
    pub indexed: i64,
    /// Transcripts that are to be indexed, or indexed again.
    pub pending: i64,
}

pub(super) fn vectors_aad(id: TranscriptId) -> AssociatedData {
    columns::SEARCH_VECTORS.associated_data(&[&id])
}

impl Search<'_> {
    /// Claims the transcript that is due for longest, for as long as `lease` says; a claim that is not renewed in time is given to others.
    pub async fn claim(self, lease: Duration) -> Result<Option<IndexTask>> {
        let db = self.store.db();
        let due = "SELECT transcript_id FROM search_documents WHERE due_at <= $1 ORDER BY due_at LIMIT 1";
        let now = self.store.lease_now().await?;
        // Most of the time nothing is due, and looking needs no write transaction.
        if db.optional(due, args![now]).await?.is_none() {
            return Ok(None);
        }
        let token = random::token::<16>()?;
        let mut tx = db.begin().await?;
        let skip = if tx.is_postgres() { " FOR UPDATE SKIP LOCKED" } else { "" };
        let sql = format!(
            "UPDATE search_documents SET lease = $2, due_at = $3 WHERE transcript_id = ({due}{skip})
             RETURNING transcript_id, account_id, attempts"
        );
        let row = tx.optional(&sql, args![now, &token, now.saturating_add(micros(lease))]).await?;
        tx.commit().await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(IndexTask {
            account: AccountId(row.get("account_id")?),
            transcript: TranscriptId(row.get("transcript_id")?),
            attempts: u32::try_from(row.get::<i64>("attempts")?).unwrap_or(u32::MAX),
            lease: token,
        }))
    }

    /// Holds a claim for longer; [`Error::LeaseLost`] when the text has changed, the transcript is gone or somebody else has the claim.
    pub async fn renew(self, task: &IndexTask, lease: Duration) -> Result<()> {
        let until = self.store.lease_now().await?.saturating_add(micros(lease));
        self.release(task, "due_at = $3", until).await
    }

    /// Gives a claim up, to be tried again after `wait`.
    pub async fn retry(self, task: &IndexTask, wait: Duration) -> Result<()> {
        let due = self.store.lease_now().await?.saturating_add(micros(wait));
        self.release(task, "due_at = $3, lease = NULL, attempts = attempts + 1", due).await
    }

    async fn release(self, task: &IndexTask, set: &str, at: i64) -> Result<()> {
        let sql = format!("UPDATE search_documents SET {set} WHERE transcript_id = $1 AND lease = $2");
        match self.store.db().execute(&sql, args![task.transcript, &task.lease, at]).await? {
            0 => Err(Error::LeaseLost),
            _ => Ok(()),
        }
    }

    /// Writes the index of a claimed transcript in the place of the one before, in one transaction; [`Error::LeaseLost`] when the text has changed, the
    /// transcript is gone or somebody else has the claim.
    pub async fn index(self, task: &IndexTask, index: &NewIndex) -> Result<()> {
        if index.version < 1
            || index.model.is_some() != (index.vectors.len() == index.passages.len()) && !index.passages.is_empty()
        {
            return Err(Error::Invalid("an index has a version, and a vector for each passage where it has a model"));
        }
        let (account, id) = (task.account, task.transcript);
        let sealer = match self.store.sealer(account).await {
            Err(Error::NotFound(_)) => return Err(Error::LeaseLost),
            sealer => sealer?,
        };
        let key = TermKey::new(self.store, account, &sealer);
        let terms: Vec<String> = index
            .passages
            .iter()
            .map(|passage| {
                let terms: BTreeSet<String> = passage.terms.iter().map(|word| key.term(word)).collect();
                terms.into_iter().collect::<Vec<_>>().join(" ")
            })
            .collect();
        let vectors = match &index.model {
            Some(_) => Some(sealer.seal(&vectors_aad(id), &vectors::encode(&index.vectors)?)?),
            None => None,
        };
        let mut tx = self.store.db().begin().await?;
        let sql = "UPDATE search_documents SET due_at = NULL, lease = NULL, attempts = 0, version = $3, is_keyed = $4, model = $5, vectors = $6
                   WHERE transcript_id = $1 AND lease = $2";
        let values = args![id, &task.lease, index.version, key.is_keyed, index.model.as_deref(), vectors.as_deref()];
        if tx.execute(sql, values).await? == 0 {
            return Err(Error::LeaseLost);
        }
        tx.execute("DELETE FROM search_passages WHERE transcript_id = $1", args![id]).await?;
        let rows: Vec<(usize, (&NewPassage, &String))> = index.passages.iter().zip(&terms).enumerate().collect();
        for rows in rows.chunks(BATCH) {
            let mut sql = String::from(
                "INSERT INTO search_passages (transcript_id, account_id, position, first_segment, last_segment, text_offset, text_length, term_count, terms)
                 VALUES ",
            );
            let mut values: Vec<Value<'_>> = vec![id.into(), account.into()];
            for (number, (position, (passage, terms))) in rows.iter().enumerate() {
                let first = values.len() + 1;
                let separator = if number > 0 { "," } else { "" };
                let numbers: String = (first..first + 6).map(|place| format!(",${place}")).collect();
                let place = first + 6;
                let terms_value = match tx.is_postgres() {
                    true => format!("array_to_tsvector(string_to_array(${place}, ' '))"),
                    false => format!("${place}"),
                };
                sql.push_str(&format!("{separator}($1,$2{numbers},{terms_value})"));
                values.extend([
                    Value::from(*position as i64),
                    passage.first_segment.into(),
                    passage.last_segment.into(),
                    passage.text_offset.into(),
                    passage.text_length.into(),
                    (passage.terms.len() as i64).into(),
                    Value::from(*terms),
                ]);
            }
            tx.execute(&sql, &values).await?;
        }
        tx.commit().await
    }

    /// Marks what has no index, or one of another version, key or model, as due; returns how many. Without a model, indexes keep their vectors. Changes are
    /// marked when they are made: this finds what a process of an earlier version completed, and models that were installed later.
    pub async fn reconcile(self, version: i64, model: Option<&str>) -> Result<u64> {
        let now = self.store.lease_now().await?;
        let missing = "INSERT INTO search_documents (transcript_id, account_id, due_at, attempts, version, is_keyed)
                       SELECT t.id, t.account_id, $1, 0, 0, FALSE FROM transcripts t
                       WHERE t.status = 'completed' AND substr(t.owner, 1, 8) = 'account:'
                           AND NOT EXISTS (SELECT 1 FROM search_documents d WHERE d.transcript_id = t.id)
                       ON CONFLICT (transcript_id) DO NOTHING";
        let outdated = "UPDATE search_documents SET due_at = $1, attempts = 0
                        WHERE due_at IS NULL AND (
                            version <> $2 OR ($3 <> '' AND COALESCE(model, '') <> $3)
                            OR (NOT is_keyed AND EXISTS (SELECT 1 FROM accounts a WHERE a.id = search_documents.account_id AND a.data_key IS NOT NULL))
                        )";
        let mut tx = self.store.db().begin().await?;
        let mut due = tx.execute(missing, args![now]).await?;
        due += tx.execute(outdated, args![now, version, model.unwrap_or_default()]).await?;
        tx.commit().await?;
        Ok(due)
    }

    /// How many transcripts of an account are indexed, and how many are due.
    pub async fn counts(self, account: AccountId) -> Result<SearchCounts> {
        let sql = "SELECT count(*) AS documents, count(due_at) AS pending FROM search_documents WHERE account_id = $1";
        let row = self.store.db().one(sql, args![account]).await?;
        let pending: i64 = row.get("pending")?;
        Ok(SearchCounts { indexed: row.get::<i64>("documents")? - pending, pending })
    }
}
