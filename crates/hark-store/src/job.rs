//! Accepting work: everything that a job needs is there in one transaction, or nothing is.

use std::collections::BTreeSet;
use std::time::Duration;

use hark_api::{Lane, TranscriptionResult};

use crate::anonymous::{self, AnonymousLimit};
use crate::clock::{Micros, day_of};
use crate::db::{Tx, args};
use crate::error::{Error, Limit, Result};
use crate::failed::{RetryLimits, check_limits};
use crate::ids::{AccountId, JobId, KeyId, Owner, TranscriptId};
use crate::ledger::{self, Settled, job_reference};
use crate::needs::Need;
use crate::queue::{TRANSCRIBE, lane_number, payload_place};
use crate::seal::Sealer;
use crate::transcript::title_place;
use crate::webhook::{self, WebhookTarget};
use crate::{Blob, Change, Store, idempotency, key, random, segment, usage};

/// A transcript to make.
#[derive(Debug, Clone, Default)]
pub struct NewTranscript {
    /// What to call it.
    pub title: String,
    /// `api`, `web` or `stream`.
    pub source_type: String,
    /// The language asked for.
    pub language: String,
    /// The model asked for.
    pub model: String,
}

/// A job to accept.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Whom it counts for.
    pub owner: Owner,
    /// The transcript it makes.
    pub transcript: NewTranscript,
    /// What to do; opaque here.
    pub payload: String,
    /// What a worker must have to run it.
    pub needs: Vec<Need>,
    /// The recording, uploaded and durable.
    pub blob: Blob,
    /// Length of the audio as probed.
    pub seconds: f64,
    /// Minutes that it counts for, rounded up.
    pub minutes: i64,
    /// Credits to hold; none for anonymous use.
    pub hold: i64,
    /// How urgent it is.
    pub lane: Lane,
    /// The key whose month it counts against.
    pub key: Option<KeyId>,
    /// Jobs that the owner may have waiting or running, this one included.
    pub max_live: Option<i64>,
    /// Jobs that may wait in all, this one included.
    pub max_queued: Option<i64>,
    /// What the address of anonymous use may use a day.
    pub anonymous_limit: Option<AnonymousLimit>,
    /// Bytes of recordings that the account may keep, this one included.
    pub max_storage: Option<u64>,
    /// Makes a repeat of the request safe.
    pub idempotency: Option<IdempotencyKey>,
    /// Whom to tell when it is done.
    pub webhook: Option<WebhookTarget>,
}

/// A job of another kind: it makes no transcript and brings no recording.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// What it does.
    pub kind: String,
    /// Whom it counts for.
    pub owner: Owner,
    /// The transcript that it is about, if it is about one.
    pub transcript: Option<TranscriptId>,
    /// What to do; opaque here.
    pub payload: String,
    /// What a worker must have to run it.
    pub needs: Vec<Need>,
    /// Credits to hold.
    pub hold: i64,
    /// How urgent it is.
    pub lane: Lane,
    /// Jobs that may wait in all, this one included.
    pub max_queued: Option<i64>,
}

/// The name that a client gave to a request, and what the request was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The name.
    pub key: String,
    /// A hash of everything that makes the request what it is.
    pub fingerprint: Vec<u8>,
    /// The same by the encodings of earlier versions: a repeat across an upgrade is recognized by one of them.
    pub older: Vec<Vec<u8>>,
    /// How long a repeat is recognized.
    pub keep: Duration,
}

/// What became of a job that was handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It waits in the queue.
    New {
        /// The transcript it makes.
        transcript: TranscriptId,
        /// The job.
        job: JobId,
    },
    /// The same request came before; the recording that came with this one was dropped.
    Repeat {
        /// The transcript of the first.
        transcript: TranscriptId,
    },
}

/// A job as it is inserted.
struct JobRow<'a> {
    kind: &'a str,
    transcript: Option<TranscriptId>,
    account: AccountId,
    owner: &'a str,
    lane: Lane,
    payload: &'a str,
    needs: &'a [Need],
    seconds: f64,
    minutes: i64,
    hold: i64,
    /// The key whose minutes it counts, and the month.
    key: Option<(KeyId, i64)>,
    anonymous_day: Option<i64>,
}

/// Ids are drawn from 53 bits: too many to try, and still safe integers in JSON. Older ones have 40.
fn draw_id() -> Result<TranscriptId> {
    let number = u64::from_le_bytes(random::bytes::<8>()?) >> 11;
    // 0 names nothing in other tables.
    if number == 0 { draw_id() } else { Ok(TranscriptId(number as i64)) }
}

impl Store {
    /// Puts a job into the queue: transcript, job, hold, counts, idempotency key and webhook in one transaction. When it is refused, or is a repeat, the
    /// recording is removed.
    pub async fn accept(&self, new: NewJob) -> Result<Accepted> {
        if new.blob.account != self.account_of(&new.owner) {
            return Err(Error::Conflict("the recording belongs to another account"));
        }
        let accepted = self.accept_blob(&new).await;
        if let Ok(Accepted::New { .. }) = accepted {
            self.tell(Change::Queued);
        } else if let Err(error) = self.discard(&new.blob.key).await {
            tracing::warn!(%error, "a recording that was not accepted is left to the sweep");
        }
        accepted
    }

    async fn accept_blob(&self, new: &NewJob) -> Result<Accepted> {
        let account = self.account_of(&new.owner);
        let sealer = self.sealer(account).await?;
        let owner = new.owner.name();
        let now = self.now();
        let mut tx = self.db().begin().await?;
        ledger::lock(&mut tx, account).await?;
        if let Some(name) = &new.idempotency
            && let Some(transcript) = idempotency::repeated_job(&mut tx, &owner, name, now).await?
        {
            return Ok(Accepted::Repeat { transcript });
        }
        let limits = RetryLimits { max_live: new.max_live, max_queued: new.max_queued };
        check_limits(&mut tx, &owner, limits).await?;
        check_storage(&mut tx, new, account).await?;
        let transcript =
            insert_transcript(&mut tx, &sealer, account, &owner, &new.transcript, new.seconds, now).await?;
        let key_month = match new.key {
            Some(id) => Some(key::use_minutes(&mut tx, id, new.minutes, now).await?),
            None => None,
        };
        let anonymous_day = match &new.owner {
            Owner::Anonymous(address) => {
                let day = day_of(now);
                anonymous::take(&mut tx, address, day, new.minutes, new.anonymous_limit).await?;
                Some(day)
            }
            Owner::Account(_) => None,
        };
        let row = JobRow {
            kind: TRANSCRIBE,
            transcript: Some(transcript),
            account,
            owner: &owner,
            lane: new.lane,
            payload: &new.payload,
            needs: &new.needs,
            seconds: new.seconds,
            minutes: new.minutes,
            hold: new.hold,
            key: new.key.zip(key_month),
            anonymous_day,
        };
        let job = self.insert_job(&mut tx, &sealer, &row, now).await?;
        let live = tx
            .execute(
                "UPDATE blobs SET state = 'live', transcript_id = $1, size = $2 WHERE key = $3 AND account_id = $4 AND state = 'uploading'",
                args![transcript, new.blob.size as i64, new.blob.key.as_str(), account],
            )
            .await?;
        if live == 0 {
            return Err(Error::Conflict("the upload took too long and was given up; please send it again"));
        }
        if let Some(name) = &new.idempotency {
            idempotency::record_job(&mut tx, &owner, account, name, transcript, now).await?;
        }
        if let Some(target) = &new.webhook {
            webhook::insert(&mut tx, &sealer, account, transcript, target, now).await?;
        }
        tx.commit().await?;
        Ok(Accepted::New { transcript, job })
    }

    /// Bytes of recordings that an account keeps.
    pub async fn storage_used(&self, account: AccountId) -> Result<u64> {
        let used: i64 = self.db().one(STORAGE_USED, args![account]).await?.get("used")?;
        Ok(u64::try_from(used).unwrap_or(0))
    }

    /// Puts a job without a recording into the queue, with its hold, in one transaction.
    pub async fn enqueue(&self, new: &NewTask) -> Result<JobId> {
        if new.kind == TRANSCRIBE {
            return Err(Error::Conflict("a transcription needs a recording"));
        }
        let account = self.account_of(&new.owner);
        let sealer = self.sealer(account).await?;
        let (owner, now) = (new.owner.name(), self.now());
        let mut tx = self.db().begin().await?;
        ledger::lock(&mut tx, account).await?;
        check_limits(&mut tx, &owner, RetryLimits { max_queued: new.max_queued, ..RetryLimits::default() }).await?;
        let row = JobRow {
            kind: &new.kind,
            transcript: new.transcript,
            account,
            owner: &owner,
            lane: new.lane,
            payload: &new.payload,
            needs: &new.needs,
            seconds: 0.0,
            minutes: 0,
            hold: new.hold,
            key: None,
            anonymous_day: None,
        };
        let job = self.insert_job(&mut tx, &sealer, &row, now).await?;
        tx.commit().await?;
        self.tell(Change::Queued);
        Ok(job)
    }

    /// Inserts a job that waits, with what it needs and its hold.
    async fn insert_job(&self, tx: &mut Tx, sealer: &Sealer, new: &JobRow<'_>, now: Micros) -> Result<JobId> {
        let payload_key = random::token::<16>()?;
        let payload = sealer.seal(&payload_place(&payload_key), new.payload.as_bytes())?;
        let (key, key_month) = new.key.unzip();
        let sql = format!(
            "INSERT INTO jobs (kind, transcript_id, account_id, owner, lane, state, payload, payload_key, seconds, minutes, hold, key_id, key_month,
                 anonymous_day, attempts, deferrals, retries, queued_at, not_before)
             VALUES ($1, $2, $3, $4, $5, 'queued', $6, $7, $8, $9, $10, $11, $12, $13, 0, 0, 0, {}, 0) RETURNING id",
            self.lease_now_sql("$14")
        );
        let values = args![
            new.kind,
            new.transcript,
            new.account,
            new.owner,
            lane_number(new.lane),
            &payload,
            &payload_key,
            new.seconds,
            new.minutes,
            new.hold,
            key,
            key_month,
            new.anonymous_day,
            self.lease_time()
        ];
        let job = JobId(tx.one(&sql, values).await?.get("id")?);
        for need in &new.needs.iter().map(Need::to_string).collect::<BTreeSet<_>>() {
            tx.execute("INSERT INTO job_needs (job_id, need) VALUES ($1, $2)", args![job, need]).await?;
        }
        if new.hold > 0 {
            ledger::hold(tx, new.account, &job_reference(job, 0), new.hold, None, now).await?;
        }
        Ok(job)
    }

    /// Whether a request of this name was accepted before and is still remembered.
    pub async fn is_name_used(&self, owner: &Owner, key: &str) -> Result<bool> {
        let sql = "SELECT 1 AS one FROM idempotency WHERE owner = $1 AND key = $2 AND expires_at > $3";
        Ok(self.db().optional(sql, args![&owner.name(), key, self.now()]).await?.is_some())
    }

    /// The transcript that an earlier request of this name made; [`Error::KeyReused`] when it was another request, [`Error::Deleted`] when the transcript is
    /// gone. Asked before an upload begins, it saves the upload.
    pub async fn repeated(&self, owner: &Owner, name: &IdempotencyKey) -> Result<Option<TranscriptId>> {
        let mut tx = self.db().snapshot().await?;
        idempotency::repeated_job(&mut tx, &owner.name(), name, self.now()).await
    }

    /// Keeps a transcript that came about without a job (a live session), charges the hold of its session and counts its usage, in one transaction.
    pub async fn save_transcript(
        &self,
        account: AccountId,
        new: &NewTranscript,
        result: &TranscriptionResult,
        hold: Option<(&str, i64)>,
    ) -> Result<(TranscriptId, Option<Settled>)> {
        let sealer = self.sealer(account).await?;
        let now = self.now();
        let words: i64 = result.segments.iter().map(segment::words_in).sum();
        let owner = Owner::Account(account).name();
        let mut tx = self.db().begin().await?;
        ledger::lock(&mut tx, account).await?;
        let id = insert_transcript(&mut tx, &sealer, account, &owner, new, result.duration, now).await?;
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
        tx.commit().await?;
        Ok((id, settled))
    }
}

/// Bytes of recordings that belong to an account's transcripts.
const STORAGE_USED: &str =
    "SELECT CAST(COALESCE(SUM(size), 0) AS BIGINT) AS used FROM blobs WHERE account_id = $1 AND state = 'live'";

/// Fails when the recording does not fit into what the account may keep. The account is locked, so that two can't fit by turns.
async fn check_storage(tx: &mut Tx, new: &NewJob, account: AccountId) -> Result<()> {
    let Some(limit) = new.max_storage else { return Ok(()) };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let used: i64 = tx.one(STORAGE_USED, args![account]).await?.get("used")?;
    if used.saturating_add(i64::try_from(new.blob.size).unwrap_or(i64::MAX)) > limit {
        return Err(Error::Limit { what: Limit::StorageBytes, limit, used });
    }
    Ok(())
}

/// Inserts a transcript that waits, under an id that nobody has.
pub(crate) async fn insert_transcript(
    tx: &mut Tx,
    sealer: &Sealer,
    account: AccountId,
    owner: &str,
    new: &NewTranscript,
    seconds: f64,
    now: i64,
) -> Result<TranscriptId> {
    loop {
        let id = draw_id()?;
        let title = sealer.seal(&title_place(id), new.title.as_bytes())?;
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
