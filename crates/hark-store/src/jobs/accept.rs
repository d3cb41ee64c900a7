//! Accepting jobs: everything that a job needs is committed in one transaction.

use std::collections::BTreeSet;

use hark_api::Lane;

use crate::addresses::anonymous::{self, AnonymousLimit};
use crate::clock::{Micros, day_of};
use crate::db::{Tx, args};
use crate::error::{Error, Limit, Result};
use crate::idempotency::IdempotencyKey;
use crate::ids::{AccountId, JobId, KeyId, Owner, TranscriptId};
use crate::jobs::Jobs;
use crate::jobs::needs::Need;
use crate::jobs::queue::{TRANSCRIBE, lane_number, payload_aad};
use crate::jobs::retry::{RetryLimits, check_limits};
use crate::keys;
use crate::ledger::{self, job_reference};
use crate::recordings::STORAGE_USED;
use crate::sealing::Sealer;
use crate::transcripts::{self, NewTranscript};
use crate::webhooks::{self, WebhookTarget};
use crate::{Blob, Change, idempotency, random};

/// A job to accept.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// The owner whose limits it counts against.
    pub owner: Owner,
    /// The transcript it makes.
    pub transcript: NewTranscript,
    /// The parameters; opaque here.
    pub payload: String,
    /// The capabilities that a worker needs to run it.
    pub needs: Vec<Need>,
    /// The recording, uploaded and durable.
    pub blob: Blob,
    /// Length of the audio as probed.
    pub seconds: f64,
    /// Minutes that it counts for, rounded up.
    pub minutes: i64,
    /// Credits to hold; 0 for anonymous use.
    pub hold: i64,
    /// How urgent it is.
    pub lane: Lane,
    /// The key whose month it counts against.
    pub key: Option<KeyId>,
    /// Maximum queued and running jobs of the owner, including this one.
    pub max_live: Option<i64>,
    /// Maximum queued jobs in all, including this one.
    pub max_queued: Option<i64>,
    /// The daily limit of the address of anonymous use.
    pub anonymous_limit: Option<AnonymousLimit>,
    /// Maximum bytes of stored recordings of the account, including this one.
    pub max_storage: Option<u64>,
    /// Makes the request idempotent.
    pub idempotency: Option<IdempotencyKey>,
    /// The webhook to call when it ends.
    pub webhook: Option<WebhookTarget>,
}

/// A job of another kind, without a transcript to make and without a recording.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// What it does.
    pub kind: String,
    /// The owner whose limits it counts against.
    pub owner: Owner,
    /// The transcript that it works on, if any.
    pub transcript: Option<TranscriptId>,
    /// The parameters; opaque here.
    pub payload: String,
    /// The capabilities that a worker needs to run it.
    pub needs: Vec<Need>,
    /// Credits to hold.
    pub hold: i64,
    /// How urgent it is.
    pub lane: Lane,
    /// Maximum queued jobs in all, including this one.
    pub max_queued: Option<i64>,
}

/// The outcome of accepting a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It was queued.
    New {
        /// The transcript it makes.
        transcript: TranscriptId,
        /// The job.
        job: JobId,
    },
    /// A repeat of an idempotent request; the recording of the repeat was discarded.
    Repeat {
        /// The transcript of the first request.
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

impl Jobs<'_> {
    /// Queues a job: transcript, job, hold, counts, idempotency key and webhook in one transaction. The recording of a rejected or repeated request is
    /// discarded.
    pub async fn accept(self, new: NewJob) -> Result<Accepted> {
        if new.blob.account != self.store.account_of(&new.owner) {
            return Err(Error::Conflict("the recording belongs to another account"));
        }
        let accepted = self.accept_blob(&new).await;
        if let Ok(Accepted::New { .. }) = accepted {
            self.store.notify(Change::Queued);
        } else if let Err(error) = self.store.recordings().discard(&new.blob.key).await {
            tracing::warn!(%error, key = %new.blob.key, "recording.discard_failed");
        }
        accepted
    }

    async fn accept_blob(self, new: &NewJob) -> Result<Accepted> {
        let account = self.store.account_of(&new.owner);
        let sealer = self.store.sealer(account).await?;
        let owner = new.owner.name();
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
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
            transcripts::insert(&mut tx, &sealer, account, &owner, &new.transcript, new.seconds, now).await?;
        let key_month = match new.key {
            Some(id) => Some(keys::use_minutes(&mut tx, id, new.minutes, now).await?),
            None => None,
        };
        let anonymous_day = match &new.owner {
            Owner::Anonymous(address) => {
                let day = day_of(now);
                anonymous::count(&mut tx, address, day, new.minutes, new.anonymous_limit).await?;
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
        let job = self.insert(&mut tx, &sealer, &row, now).await?;
        let live = tx
            .execute(
                "UPDATE blobs SET state = 'live', transcript_id = $1, size = $2, sha256 = $3 WHERE key = $4 AND account_id = $5 AND state = 'uploading'",
                args![transcript, new.blob.size as i64, new.blob.checksum().as_deref(), new.blob.key.as_str(), account],
            )
            .await?;
        if live == 0 {
            return Err(Error::Conflict("the upload took too long and was given up; please send it again"));
        }
        if let Some(name) = &new.idempotency {
            idempotency::record_job(&mut tx, &owner, account, name, transcript, now).await?;
        }
        if let Some(target) = &new.webhook {
            webhooks::insert(&mut tx, &sealer, account, transcript, target, now).await?;
        }
        tx.commit().await?;
        Ok(Accepted::New { transcript, job })
    }

    /// Queues a job without a recording, with its hold, in one transaction.
    pub async fn enqueue(self, new: &NewTask) -> Result<JobId> {
        if new.kind == TRANSCRIBE {
            return Err(Error::Conflict("a transcription needs a recording"));
        }
        let account = self.store.account_of(&new.owner);
        let sealer = self.store.sealer(account).await?;
        let (owner, now) = (new.owner.name(), self.store.now());
        let mut tx = self.store.db().begin().await?;
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
        let job = self.insert(&mut tx, &sealer, &row, now).await?;
        tx.commit().await?;
        self.store.notify(Change::Queued);
        Ok(job)
    }

    /// Inserts a queued job with its needs and its hold.
    async fn insert(self, tx: &mut Tx, sealer: &Sealer, new: &JobRow<'_>, now: Micros) -> Result<JobId> {
        let payload_key = random::token::<16>()?;
        let payload = sealer.seal(&payload_aad(&payload_key), new.payload.as_bytes())?;
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
}

/// Fails when the recording exceeds the account's storage limit. The account is locked, so concurrent requests cannot exceed it together.
async fn check_storage(tx: &mut Tx, new: &NewJob, account: AccountId) -> Result<()> {
    let Some(limit) = new.max_storage else { return Ok(()) };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let used: i64 = tx.one(STORAGE_USED, args![account]).await?.get("used")?;
    if used.saturating_add(i64::try_from(new.blob.size).unwrap_or(i64::MAX)) > limit {
        return Err(Error::Limit { what: Limit::StorageBytes, limit, used });
    }
    Ok(())
}
