//! Finding passages: by terms, and by the vectors of their meanings.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use super::queue::vectors_aad;
use super::terms::TermKey;
use super::{Search, vectors};
use crate::clock::Micros;
use crate::db::{Db, JsonKind, Value, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, PassageId, TranscriptId};
use crate::recordings::blocking;

/// Passages that are read for one term, newest first. A term of more passages says little about each.
const MAX_POSTINGS: usize = 5_000;
/// Transcripts whose vectors are in memory at once: three hours are some 120 kB.
const PAGE: usize = 64;

/// Which transcripts to search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchFilter {
    /// Only this one.
    pub transcript: Option<TranscriptId>,
    /// Only those in this language.
    pub language: Option<String>,
    /// Only those created at this time or later.
    pub created_after: Option<Micros>,
    /// Only those created before this time.
    pub created_before: Option<Micros>,
}

/// Passages that have some of the terms, and what a ranking needs to know about the account's passages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Candidates {
    /// The passages with the most telling terms first; among equals the newest first.
    pub passages: Vec<PassageId>,
    /// How many passages of the account have each term, in the order of the terms.
    pub frequencies: Vec<u64>,
    /// How many passages the account has.
    pub total: u64,
    /// How many terms a passage has on average.
    pub average_terms: f64,
}

/// A passage with a meaning like the one searched for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nearest {
    /// The passage.
    pub passage: PassageId,
    /// The cosine of the vectors, -1 to 1.
    pub cosine: f64,
}

impl SearchFilter {
    fn is_empty(&self) -> bool {
        *self == SearchFilter::default()
    }

    /// Conditions on a transcript `t`, each with ` AND ` before it.
    fn conditions<'a>(&'a self, values: &mut Vec<Value<'a>>) -> String {
        let conditions: [(&str, Option<Value<'a>>); 4] = [
            ("t.id =", self.transcript.map(Value::from)),
            ("t.language =", self.language.as_ref().map(Value::from)),
            ("t.created_at >=", self.created_after.map(Value::from)),
            ("t.created_at <", self.created_before.map(Value::from)),
        ];
        let mut sql = String::new();
        for (column, value) in conditions {
            if let Some(value) = value {
                values.push(value);
                sql.push_str(&format!(" AND {column} ${}", values.len()));
            }
        }
        sql
    }
}

/// A full-text query for passages with all of these terms.
fn expression(db: &Db, terms: &[&str]) -> String {
    let (quote, and) = match db {
        Db::Sqlite { .. } => ('"', " AND "),
        Db::Postgres(_) => ('\'', " & "),
    };
    terms.iter().map(|term| format!("{quote}{term}{quote}")).collect::<Vec<_>>().join(and)
}

/// A `SELECT` of the ids of passages `s` that match the full-text query `$1` and the conditions, newest first.
fn select(db: &Db, filter: &str) -> String {
    let joined = if filter.is_empty() { "" } else { " JOIN transcripts t ON t.id = s.transcript_id" };
    match db {
        Db::Sqlite { .. } => format!(
            "SELECT s.id AS id FROM search_terms f JOIN search_passages s ON s.id = f.rowid{joined}
             WHERE f.search_terms MATCH $1 AND s.account_id = $2{filter} ORDER BY f.rowid DESC LIMIT {MAX_POSTINGS}"
        ),
        Db::Postgres(_) => format!(
            "SELECT s.id AS id FROM search_passages s{joined}
             WHERE s.terms @@ CAST($1 AS tsquery) AND s.account_id = $2{filter} ORDER BY s.id DESC LIMIT {MAX_POSTINGS}"
        ),
    }
}

/// How telling a term is that `documents` of `all` passages have; always above 0.
fn weight(all: u64, documents: u64) -> f64 {
    let (all, documents) = (all as f64, documents as f64);
    (((all - documents).max(0.0) + 0.5) / (documents + 0.5)).ln_1p()
}

impl Search<'_> {
    /// At most `limit` passages of an account that have any of the words and all of the required ones. Words are folded as those of the index are.
    pub async fn candidates(
        self,
        account: AccountId,
        words: &[String],
        required: &[String],
        filter: &SearchFilter,
        limit: usize,
    ) -> Result<Candidates> {
        let db = self.store.db();
        let sealer = self.store.sealer(account).await?;
        let key = TermKey::new(self.store, account, &sealer);
        let sql = "SELECT count(*) AS passages, CAST(COALESCE(AVG(term_count), 0) AS DOUBLE PRECISION) AS average
                   FROM search_passages WHERE account_id = $1";
        let row = db.one(sql, args![account]).await?;
        let total = u64::try_from(row.get::<i64>("passages")?).unwrap_or(0);
        let mut found = Candidates { total, average_terms: row.get("average")?, ..Candidates::default() };
        let required: Vec<String> = required.iter().map(|word| key.term(word)).collect();
        let mut terms = Vec::with_capacity(words.len());
        for word in words {
            let term = key.term(word);
            let frequency = if total == 0 { 0 } else { self.frequency(&term).await? };
            found.frequencies.push(frequency);
            terms.push((frequency, term));
        }
        terms.retain(|(frequency, _)| *frequency > 0);
        // Telling terms first: passages with only frequent ones are of interest where nothing else is found.
        terms.sort();
        let mut scores: HashMap<i64, f64> = HashMap::new();
        for (frequency, term) in &terms {
            if scores.len() >= limit && *frequency > MAX_POSTINGS as u64 {
                break;
            }
            let all: HashSet<&str> = required.iter().map(String::as_str).chain([term.as_str()]).collect();
            let mut all: Vec<&str> = all.into_iter().collect();
            all.sort_unstable();
            for id in self.postings(account, &all, filter).await? {
                *scores.entry(id).or_insert(0.0) += weight(total, *frequency);
            }
        }
        let mut ranked: Vec<(i64, f64)> = scores.into_iter().collect();
        ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
        found.passages = ranked.into_iter().take(limit).map(|(id, _)| PassageId(id)).collect();
        Ok(found)
    }

    /// How many passages have a term. The term is the account's own, since it is keyed.
    async fn frequency(self, term: &str) -> Result<u64> {
        let db = self.store.db();
        let query = expression(db, &[term]);
        let sql = match db {
            Db::Sqlite { .. } => "SELECT count(*) AS n FROM search_terms WHERE search_terms MATCH $1",
            Db::Postgres(_) => "SELECT count(*) AS n FROM search_passages WHERE terms @@ CAST($1 AS tsquery)",
        };
        let row = db.one(sql, args![&query]).await?;
        Ok(u64::try_from(row.get::<i64>("n")?).unwrap_or(0))
    }

    /// Passages with all of these terms, newest first, as one JSON value: the driver's work for each row costs more than all the rest.
    async fn postings(self, account: AccountId, terms: &[&str], filter: &SearchFilter) -> Result<Vec<i64>> {
        let db = self.store.db();
        let query = expression(db, terms);
        let mut values: Vec<Value<'_>> = vec![(&query).into(), account.into()];
        let conditions = filter.conditions(&mut values);
        let sql = format!(
            "SELECT {} AS ids FROM ({}) p",
            db.json_rows(&[("p.id", JsonKind::Plain)], "p.id DESC"),
            select(db, &conditions)
        );
        let ids: Option<String> = db.one(&sql, &values).await?.get("ids")?;
        let ids: Vec<(i64,)> = serde_json::from_str(ids.as_deref().unwrap_or("[]"))
            .map_err(|error| Error::Damaged(format!("a list of passages: {error}")))?;
        Ok(ids.into_iter().map(|(id,)| id).collect())
    }

    /// The passages of an account whose vectors of this model are nearest to a unit vector, nearest first. Vectors are opened a few transcripts at a time.
    pub async fn nearest(
        self,
        account: AccountId,
        model: &str,
        vector: &[f32],
        filter: &SearchFilter,
        limit: usize,
    ) -> Result<Vec<Nearest>> {
        let sealer = self.store.sealer(account).await?;
        let mut best: BinaryHeap<Reverse<(Score, i64, i64)>> = BinaryHeap::new();
        let mut after = i64::MIN;
        loop {
            let mut values: Vec<Value<'_>> = vec![account.into(), model.into(), after.into()];
            let conditions = filter.conditions(&mut values);
            let joined = if filter.is_empty() { "" } else { " JOIN transcripts t ON t.id = d.transcript_id" };
            let sql = format!(
                "SELECT d.transcript_id AS transcript_id, d.vectors AS vectors FROM search_documents d{joined}
                 WHERE d.account_id = $1 AND d.model = $2 AND d.transcript_id > $3 AND d.vectors IS NOT NULL{conditions}
                 ORDER BY d.transcript_id LIMIT {PAGE}"
            );
            let mut page: Vec<(i64, Vec<u8>)> = Vec::with_capacity(PAGE);
            for row in self.store.db().all(&sql, &values).await? {
                page.push((row.get("transcript_id")?, row.get("vectors")?));
            }
            let Some((last, _)) = page.last() else { break };
            after = *last;
            let is_last = page.len() < PAGE;
            let (sealer, vector) = (sealer.clone(), vector.to_vec());
            let scored = blocking(move || {
                let mut scored = Vec::new();
                for (id, stored) in page {
                    let opened = sealer.open(&vectors_aad(TranscriptId(id)), &stored)?;
                    let scores = vectors::scores(&opened, &vector)?;
                    scored.extend((0_i64..).zip(scores).map(|(position, score)| (Score(score), id, position)));
                }
                Ok(scored)
            });
            for one in scored.await? {
                best.push(Reverse(one));
                if best.len() > limit {
                    best.pop();
                }
            }
            if is_last {
                break;
            }
        }
        let mut best: Vec<(Score, i64, i64)> = best.into_iter().map(|Reverse(one)| one).collect();
        best.sort_by(|one, other| other.cmp(one));
        self.with_ids(account, &best).await
    }

    /// The passages at these positions of transcripts; those that were replaced meanwhile are left out.
    async fn with_ids(self, account: AccountId, best: &[(Score, i64, i64)]) -> Result<Vec<Nearest>> {
        if best.is_empty() {
            return Ok(Vec::new());
        }
        let mut values: Vec<Value<'_>> = vec![account.into()];
        let pairs: Vec<String> = best
            .iter()
            .map(|(_, transcript, position)| {
                values.extend([Value::from(*transcript), Value::from(*position)]);
                format!("(${}, ${})", values.len() - 1, values.len())
            })
            .collect();
        let sql = format!(
            "SELECT id, transcript_id, position FROM search_passages
             WHERE account_id = $1 AND (transcript_id, position) IN (VALUES {})",
            pairs.join(", ")
        );
        let mut ids = HashMap::new();
        for row in self.store.db().all(&sql, &values).await? {
            ids.insert((row.get::<i64>("transcript_id")?, row.get::<i64>("position")?), row.get::<i64>("id")?);
        }
        let nearest = best.iter().filter_map(|(score, transcript, position)| {
            let id = ids.get(&(*transcript, *position))?;
            Some(Nearest { passage: PassageId(*id), cosine: f64::from(score.0) })
        });
        Ok(nearest.collect())
    }
}

/// A cosine with an order.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Score(f32);

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
