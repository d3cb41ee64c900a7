//! Transcripts: list, read, share, delete. A transcript of another account is not found.

pub(crate) mod derived;
pub(crate) mod draft;
pub(crate) mod edit;
mod reassign;
pub(crate) mod segment;
pub(crate) mod share;
pub(crate) mod warnings;
mod word_times;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use hark_api::{FaultKind, TranscriptionResult};

use crate::accounts::usage;
use crate::audit::{self, NewAudit, audited};
use crate::clock::Micros;
use crate::db::{JsonKind, Row, Tx, Value, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, JobId, Owner, TranscriptId};
use crate::jobs::product::Product;
use crate::jobs::queue::{self, remove_jobs};
use crate::ledger::{self, Settlement};
use crate::sealing::Sealer;
use crate::sealing::columns::{self, AssociatedData};
use crate::{BlobKey, Change, Store, idempotency, random, search};

/// Transcripts: their text, names, summaries and public pages.
#[derive(Debug, Clone, Copy)]
pub struct Transcripts<'a> {
    pub(crate) store: &'a Store,
    /// Written in the transaction of the next change.
    pub(crate) audit: Option<&'a NewAudit>,
}

audited!(Transcripts);

/// A new transcript.
#[derive(Debug, Clone, Default)]
pub struct NewTranscript {
    /// Its title.
    pub title: String,
    /// `api`, `web` or `stream`.
    pub source_type: String,
    /// The requested language.
    pub language: String,
    /// The requested model.
    pub model: String,
}

/// The status of a transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// In the queue.
    Queued,
    /// Claimed by a worker.
    Processing,
    /// Done.
    Completed,
    /// Failed, with an error.
    Failed,
}

impl Status {
    /// The status on the wire and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Processing => "processing",
            Status::Completed => "completed",
            Status::Failed => "failed",
        }
    }
}

impl FromStr for Status {
    type Err = Error;

    fn from_str(name: &str) -> Result<Status> {
        [Status::Queued, Status::Processing, Status::Completed, Status::Failed]
            .into_iter()
            .find(|status| status.name() == name)
            .ok_or_else(|| Error::Damaged(format!("no status is called {name:?}")))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A transcript without its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    /// Its id.
    pub id: TranscriptId,
    /// The account that owns it.
    pub account: AccountId,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: Status,
    /// Share of the audio decoded, 0 to 100.
    pub progress: i64,
    /// Detected or requested language.
    pub language: String,
    /// Length of the audio.
    pub duration_seconds: f64,
    /// Words, once completed.
    pub word_count: i64,
    /// Speakers detected, once completed.
    pub num_speakers: i64,
    /// `api`, `web` or `stream`.
    pub source_type: String,
    /// The requested model; once completed, the one that ran.
    pub model: String,
    /// The last summary.
    pub summary: Option<String>,
    /// Whether its text and audio are sealed at rest.
    pub is_encrypted: bool,
    /// The token of its public page while it is shared.
    pub share_token: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// The kind of fault.
    pub error_kind: Option<FaultKind>,
    /// When it was created.
    pub created_at: Micros,
    /// When it was completed or failed.
    pub completed_at: Option<Micros>,
    /// How often its text, or the name of a speaker, was changed.
    pub text_revision: i64,
}

/// Which transcripts to list.
#[derive(Debug, Clone)]
pub struct TranscriptFilter {
    /// Page, from 1.
    pub page: i64,
    /// Transcripts per page, at most 100.
    pub per_page: i64,
    /// Only with this status.
    pub status: Option<Status>,
    /// Only in this language.
    pub language: Option<String>,
    /// Only created at this time or later.
    pub created_after: Option<Micros>,
    /// Only created before this time.
    pub created_before: Option<Micros>,
}

impl Default for TranscriptFilter {
    fn default() -> Self {
        TranscriptFilter {
            page: 1,
            per_page: 20,
            status: None,
            language: None,
            created_after: None,
            created_before: None,
        }
    }
}

/// A page of transcripts, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptPage {
    /// The transcripts of this page.
    pub transcripts: Vec<TranscriptSummary>,
    /// How many there are in all.
    pub total: i64,
}

/// A transcript in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct TranscriptSummary {
    /// Its id.
    pub id: TranscriptId,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: Status,
    /// Language spoken.
    pub language: String,
    /// Length of the audio.
    pub duration_seconds: f64,
    /// Words.
    pub word_count: i64,
    /// `api`, `web` or `stream`.
    pub source_type: String,
    /// When it was uploaded.
    pub created_at: Micros,
    /// The token of its public page while it is shared.
    pub share_token: Option<String>,
}

/// The values of a transcript in the order of [`LIST_COLUMNS`]; bytes in hexadecimal.
type ListRow = (i64, String, String, String, String, i64, String, i64, Option<String>);

/// The columns of a transcript `p` that a list reads.
const LIST_COLUMNS: &[(&str, JsonKind)] = &[
    ("p.id", JsonKind::Plain),
    ("p.title", JsonKind::Bytes),
    ("p.status", JsonKind::Plain),
    ("p.language", JsonKind::Plain),
    ("p.duration_seconds", JsonKind::Real),
    ("p.word_count", JsonKind::Plain),
    ("p.source_type", JsonKind::Plain),
    ("p.created_at", JsonKind::Plain),
    ("CASE WHEN p.is_shared THEN p.share_sealed END", JsonKind::Bytes),
];

fn summary_of(values: ListRow, sealer: &Sealer) -> Result<TranscriptSummary> {
    let (id, title, status, language, duration, word_count, source_type, created_at, share_token) = values;
    let id = TranscriptId(id);
    // SQLite's hex() of NULL is an empty text.
    let token = share_token.filter(|token| !token.is_empty()).map(|token| {
        let token =
            random::unhex_any(&token).ok_or_else(|| Error::Damaged(format!("the share token of transcript {id}")))?;
        sealer.open_text(&share::aad(id), &token)
    });
    let title = random::unhex_any(&title).ok_or_else(|| Error::Damaged(format!("the title of transcript {id}")))?;
    Ok(TranscriptSummary {
        id,
        title: sealer.open_text(&title_aad(id), &title)?,
        status: status.parse()?,
        language,
        duration_seconds: duration.parse().map_err(|_| Error::Damaged(format!("the length of transcript {id}")))?,
        word_count,
        source_type,
        created_at,
        share_token: token.transpose()?,
    })
}

/// The public status of a transcript: anyone who knows its id may see it.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusView {
    /// Its status.
    pub status: Status,
    /// Share of the audio decoded, 0 to 100.
    pub progress: i64,
    /// Its position in the queue, from 1, while it is queued.
    pub queue_position: Option<i64>,
    /// Length of the audio.
    pub duration_seconds: f64,
    /// Words, once completed.
    pub word_count: i64,
    /// Language.
    pub language: String,
    /// Why it failed.
    pub error: Option<String>,
    /// The kind of fault.
    pub error_kind: Option<FaultKind>,
}

/// The fault kind of something that failed.
pub(crate) fn error_kind(row: &Row) -> Result<Option<FaultKind>> {
    let name: Option<String> = row.get("error_kind")?;
    name.map(|name| name.parse().map_err(|_| Error::Damaged(format!("no fault is of kind {name:?}")))).transpose()
}

const COLUMNS: &str =
    "id, account_id, title, status, progress, language, duration_seconds, word_count, num_speakers, source_type, model,
    summary, is_encrypted, share_sealed, is_shared, error, error_kind, created_at, completed_at, text_revision";

pub(crate) fn title_aad(id: TranscriptId) -> AssociatedData {
    columns::TITLE.associated_data(&[&id])
}

pub(crate) fn summary_aad(id: TranscriptId) -> AssociatedData {
    columns::SUMMARY.associated_data(&[&id])
}

fn name_aad(id: TranscriptId, label: &str) -> AssociatedData {
    columns::SPEAKER_NAME.associated_data(&[&id, &label])
}

fn transcript(row: &Row, sealer: &Sealer) -> Result<Transcript> {
    let id = TranscriptId(row.get("id")?);
    let summary = row.get::<Option<Vec<u8>>>("summary")?;
    let is_shared: bool = row.get("is_shared")?;
    let token = row.get::<Option<Vec<u8>>>("share_sealed")?.filter(|_| is_shared);
    Ok(Transcript {
        id,
        account: AccountId(row.get("account_id")?),
        title: sealer.open_text(&title_aad(id), &row.get::<Vec<u8>>("title")?)?,
        status: row.get::<String>("status")?.parse()?,
        progress: row.get("progress")?,
        language: row.get("language")?,
        duration_seconds: row.get("duration_seconds")?,
        word_count: row.get("word_count")?,
        num_speakers: row.get("num_speakers")?,
        source_type: row.get("source_type")?,
        model: row.get("model")?,
        summary: summary.map(|stored| sealer.open_text(&summary_aad(id), &stored)).transpose()?,
        is_encrypted: row.get("is_encrypted")?,
        share_token: token.map(|stored| sealer.open_text(&share::aad(id), &stored)).transpose()?,
        error: row.get("error")?,
        error_kind: error_kind(row)?,
        created_at: row.get("created_at")?,
        completed_at: row.get("completed_at")?,
        text_revision: row.get("text_revision")?,
    })
}

/// One transcript of an account.
pub(crate) async fn find(tx: &mut Tx, sealer: &Sealer, account: AccountId, id: TranscriptId) -> Result<Transcript> {
    let sql = format!("SELECT {COLUMNS} FROM transcripts WHERE id = $1 AND account_id = $2");
    let row = tx.optional(&sql, args![id, account]).await?.ok_or(Error::NotFound("transcript"))?;
    transcript(&row, sealer)
}

/// The speaker names of a transcript, by label.
pub(crate) async fn names(tx: &mut Tx, sealer: &Sealer, id: TranscriptId) -> Result<BTreeMap<String, String>> {
    let rows = tx.all("SELECT label, name FROM speaker_names WHERE transcript_id = $1", args![id]).await?;
    rows.iter()
        .map(|row| {
            let label: String = row.get("label")?;
            let name = sealer.open_text(&name_aad(id, &label), &row.get::<Vec<u8>>("name")?)?;
            Ok((label, name))
        })
        .collect()
}

/// Sets or replaces the name of a speaker label.
pub(crate) async fn write_name(tx: &mut Tx, sealer: &Sealer, id: TranscriptId, label: &str, name: &str) -> Result<()> {
    let sealed = sealer.seal(&name_aad(id, label), name.as_bytes())?;
    tx.execute(
        "INSERT INTO speaker_names (transcript_id, label, name) VALUES ($1, $2, $3)
         ON CONFLICT (transcript_id, label) DO UPDATE SET name = excluded.name",
        args![id, label, &sealed],
    )
    .await
    .map(drop)
}

/// The text of a transcript, with speaker names instead of labels.
async fn result(tx: &mut Tx, sealer: &Sealer, of: &Transcript) -> Result<TranscriptionResult> {
    let names = names(tx, sealer, of.id).await?;
    let mut segments = segment::read(tx, sealer, of.id).await?;
    for segment in &mut segments {
        for speaker in segment.speaker.iter_mut().chain(&mut segment.overlapping_speakers) {
            if let Some(name) = names.get(speaker) {
                speaker.clone_from(name);
            }
        }
    }
    let text = segment::assemble(segments, of.language.clone(), of.duration_seconds, of.model.clone());
    Ok(TranscriptionResult { warnings: warnings::read(tx, sealer, of.id).await?, ..text })
}

/// The number of a new id. It has 53 random bits: too many to guess, and still a safe integer in JSON. Older ones have 40.
pub(crate) fn random_number() -> Result<i64> {
    let number = u64::from_le_bytes(random::bytes::<8>()?) >> 11;
    // 0 refers to no transcript in other tables.
    if number == 0 { random_number() } else { Ok(number as i64) }
}

/// Inserts a queued transcript with a new random id.
pub(crate) async fn insert(
    tx: &mut Tx,
    sealer: &Sealer,
    account: AccountId,
    owner: &str,
    new: &NewTranscript,
    seconds: f64,
    now: i64,
) -> Result<TranscriptId> {
    loop {
        let id = TranscriptId(random_number()?);
        let title = sealer.seal(&title_aad(id), new.title.as_bytes())?;
        let inserted = tx
            .execute(
                "INSERT INTO transcripts (id, account_id, owner, title, status, progress, language, duration_seconds, word_count, num_speakers,
                     source_type, model, is_encrypted, is_shared, created_at)
                 VALUES ($1, $2, $3, $4, 'queued', 0, $5, $6, 0, 0, $7, $8, $9, $10, $11) ON CONFLICT (id) DO NOTHING",
                args![
                    id,
                    account,
                    owner,
                    &title,
                    &new.language,
                    seconds,
                    &new.source_type,
                    &new.model,
                    sealer.is_sealing(),
                    false,
                    now
                ],
            )
            .await?;
        if inserted > 0 {
            return Ok(id);
        }
    }
}

impl Transcripts<'_> {
    /// Stores a completed transcript that had no job (a live session), settles the hold of its session and counts its usage, in one transaction.
    pub async fn save(
        self,
        account: AccountId,
        new: &NewTranscript,
        result: &TranscriptionResult,
        hold: Option<(&str, i64)>,
    ) -> Result<(TranscriptId, Option<Settlement>)> {
        let sealer = self.store.sealer(account).await?;
        let now = self.store.now();
        let words: i64 = result.segments.iter().map(segment::words_in).sum();
        let owner = Owner::Account(account).name();
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, account).await?;
        let id = insert(&mut tx, &sealer, account, &owner, new, result.duration, now).await?;
        segment::write(&mut tx, id, &segment::seal_all(&sealer, id, &result.segments)?).await?;
        tx.execute(
            "UPDATE transcripts SET status = 'completed', progress = 100, language = $1, word_count = $2, num_speakers = $3, model = $4,
                 completed_at = $5
             WHERE id = $6",
            args![
                &result.language,
                words,
                segment::speakers(&result.segments).len() as i64,
                &result.model,
                now,
                id
            ],
        )
        .await?;
        let settled = match hold {
            Some((reference, used)) => {
                let settled = ledger::settle(&mut tx, reference, used, "live transcription", now).await?;
                Some(settled.ok_or(Error::NotFound("hold"))?)
            }
            None => None,
        };
        usage::count(&mut tx, account, result.duration, words, now).await?;
        search::mark_due(&mut tx, id, now).await?;
        tx.commit().await?;
        self.store.notify(Change::Finished(id));
        Ok((id, settled))
    }

    /// A page of an account's transcripts, newest first.
    ///
    /// One statement: page, total and data key are consistent and cost one round trip.
    pub async fn list(self, account: AccountId, filter: &TranscriptFilter) -> Result<TranscriptPage> {
        let per_page = filter.per_page.clamp(1, 100);
        let mut condition = String::from("account_id = $1");
        let mut values: Vec<Value<'_>> = vec![account.into()];
        let conditions: [(&str, Option<Value<'_>>); 4] = [
            ("status =", filter.status.map(|status| status.name().into())),
            ("language =", filter.language.as_ref().map(Value::from)),
            ("created_at >=", filter.created_after.map(Value::from)),
            ("created_at <", filter.created_before.map(Value::from)),
        ];
        for (column, value) in conditions {
            if let Some(value) = value {
                values.push(value);
                condition.push_str(&format!(" AND {column} ${}", values.len()));
            }
        }
        // `0 +`: SQLite reads a plain bound LIMIT while it plans, and prepares the statement again whenever another value is bound.
        // The page is one JSON value: the driver allocates for every value and wakes its caller for every row, so twenty rows would cost more than all the rest.
        let sql = format!(
            "SELECT a.data_key AS data_key, a.master_id AS master_id, (SELECT count(*) FROM transcripts WHERE {condition}) AS total,
                 (SELECT {} FROM (
                     SELECT {COLUMNS} FROM transcripts WHERE {condition} ORDER BY created_at DESC, id DESC LIMIT 0 + ${} OFFSET ${}
                 ) p) AS page
             FROM accounts a WHERE a.id = $1",
            self.store.db().json_rows(LIST_COLUMNS, "p.created_at DESC, p.id DESC"),
            values.len() + 1,
            values.len() + 2
        );
        values.push(per_page.into());
        values.push(filter.page.max(1).saturating_sub(1).saturating_mul(per_page).into());
        let row = self.store.db().optional(&sql, &values).await?.ok_or(Error::NotFound("account"))?;
        let sealer = self.store.sealer_of_row(account, &row)?;
        let page: Vec<ListRow> = match row.get::<Option<String>>("page")? {
            Some(page) => {
                serde_json::from_str(&page).map_err(|e| Error::Damaged(format!("a page of transcripts: {e}")))?
            }
            None => Vec::new(),
        };
        let transcripts = page.into_iter().map(|values| summary_of(values, &sealer)).collect::<Result<_>>()?;
        Ok(TranscriptPage { transcripts, total: row.get("total")? })
    }

    /// A transcript of an account, without its text.
    pub async fn get(self, account: AccountId, id: TranscriptId) -> Result<Transcript> {
        let sealer = self.store.sealer(account).await?;
        find(&mut self.store.db().snapshot().await?, &sealer, account, id).await
    }

    /// A transcript of an account with its text and speaker names.
    pub async fn text(self, account: AccountId, id: TranscriptId) -> Result<(Transcript, TranscriptionResult)> {
        let sealer = self.store.sealer(account).await?;
        let mut tx = self.store.db().snapshot().await?;
        let found = find(&mut tx, &sealer, account, id).await?;
        let text = result(&mut tx, &sealer, &found).await?;
        Ok((found, text))
    }

    /// The same, with the draft as its text while a worker is at it.
    pub async fn text_so_far(self, account: AccountId, id: TranscriptId) -> Result<(Transcript, TranscriptionResult)> {
        let sealer = self.store.sealer(account).await?;
        let mut tx = self.store.db().snapshot().await?;
        let found = find(&mut tx, &sealer, account, id).await?;
        let mut text = result(&mut tx, &sealer, &found).await?;
        // That of a live session is stored as it goes.
        if found.status == Status::Processing && text.segments.is_empty() {
            let draft = draft::read(&mut tx, &sealer, id).await?;
            text = segment::assemble(draft, text.language, text.duration, text.model);
        }
        Ok((found, text))
    }

    /// The language of most of the latest transcripts of an account; none without any. Transcripts of a few words say nothing, since their language
    /// may itself be a guess.
    pub async fn usual_language(self, account: AccountId) -> Result<Option<String>> {
        let sql = "SELECT language, COUNT(*) AS count FROM
                       (SELECT language FROM transcripts WHERE account_id = $1 AND status = 'completed' AND word_count >= 20
                        ORDER BY created_at DESC LIMIT 50) AS latest
                   GROUP BY language ORDER BY count DESC, language LIMIT 1";
        let row = self.store.db().optional(sql, args![account]).await?;
        row.map(|row| row.get("language")).transpose()
    }

    /// The speaker names of a transcript, by label.
    pub async fn speaker_names(self, account: AccountId, id: TranscriptId) -> Result<BTreeMap<String, String>> {
        let sealer = self.store.sealer(account).await?;
        let mut tx = self.store.db().snapshot().await?;
        find(&mut tx, &sealer, account, id).await?;
        names(&mut tx, &sealer, id).await
    }

    /// A shared transcript with its text, by the token of its public page.
    pub async fn shared(self, token: &str) -> Result<(Transcript, TranscriptionResult)> {
        let sql = "SELECT id, account_id FROM transcripts WHERE share_hash = $1 AND is_shared = $2";
        let hash = share::hash(token);
        let row = self.store.db().optional(sql, args![&hash[..], true]).await?.ok_or(Error::NotFound("transcript"))?;
        self.text(AccountId(row.get("account_id")?), TranscriptId(row.get("id")?)).await
    }

    /// The status of a transcript of any account.
    pub async fn status(self, id: TranscriptId) -> Result<StatusView> {
        let mut tx = self.store.db().snapshot().await?;
        let row = tx
            .optional(
                "SELECT status, progress, duration_seconds, word_count, language, error, error_kind FROM transcripts WHERE id = $1",
                args![id],
            )
            .await?
            .ok_or(Error::NotFound("transcript"))?;
        let status = row.get::<String>("status")?.parse()?;
        let queue_position =
            if status == Status::Queued { queue::position(&mut tx, self.store, id.into()).await? } else { None };
        Ok(StatusView {
            status,
            progress: row.get("progress")?,
            queue_position,
            duration_seconds: row.get("duration_seconds")?,
            word_count: row.get("word_count")?,
            language: row.get("language")?,
            error: row.get("error")?,
            error_kind: error_kind(&row)?,
        })
    }

    /// Deletes a transcript with all data derived from it, cancels its job and releases its hold. Returns the recordings removed; one that can't be
    /// removed now is left to the sweep.
    pub async fn delete(self, account: AccountId, id: TranscriptId) -> Result<Vec<BlobKey>> {
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        crate::ledger::lock(&mut tx, account).await?;
        let found =
            tx.optional("SELECT status FROM transcripts WHERE id = $1 AND account_id = $2", args![id, account]).await?;
        let status: String = found.ok_or(Error::NotFound("transcript"))?.get("status")?;
        // An anonymous transcript that was not completed cost nothing, so a repeated request may start again.
        if account != self.store.anonymous_account() || status == Status::Completed.name() {
            idempotency::tombstone(&mut tx, id.into()).await?;
        }
        let jobs = remove_jobs(&mut tx, id.into(), now).await?;
        Product::from(id).release_recordings(&mut tx).await?;
        tx.execute("DELETE FROM transcripts WHERE id = $1", args![id]).await?;
        audit::write_act(&mut tx, self.audit, &format!("transcript {id}"), now).await?;
        tx.commit().await?;
        for job in jobs {
            self.store.notify(Change::Stopped(job));
        }
        self.store.notify(Change::Finished(id));
        Ok(self.store.recordings().remove_deleted_or_defer(None, Some(id.into())).await)
    }

    /// Cancels the job of a transcript and releases its hold; the transcript stays, failed with this reason. [`Error::NotFound`] when no job is queued or
    /// running.
    pub async fn cancel(self, account: AccountId, id: TranscriptId, reason: &str) -> Result<JobId> {
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        crate::ledger::lock(&mut tx, account).await?;
        let found =
            tx.optional("SELECT id FROM transcripts WHERE id = $1 AND account_id = $2", args![id, account]).await?;
        found.ok_or(Error::NotFound("transcript"))?;
        let job = remove_jobs(&mut tx, id.into(), now).await?.into_iter().next().ok_or(Error::NotFound("job"))?;
        let product = Product::from(id);
        product.mark_failed(&mut tx, FaultKind::Cancelled, reason, now).await?;
        product.release_recordings(&mut tx).await?;
        tx.commit().await?;
        self.store.notify(Change::Stopped(job));
        self.store.notify(Change::Finished(id));
        self.store.recordings().remove(product).await;
        Ok(job)
    }
}
