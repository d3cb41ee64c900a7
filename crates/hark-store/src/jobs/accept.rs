//! Accepting jobs: everything that a job needs is committed in one transaction.

use std::collections::BTreeSet;

use hark_api::Lane;

use crate::addresses::anonymous::{self, AnonymousLimit};
use crate::clock::{Micros, day_of};
use crate::db::{Tx, args};
use crate::enhancements::{self, ENHANCE};
use crate::error::{Error, Limit, Result};
use crate::idempotency::IdempotencyKey;
use crate::ids::{AccountId, EnhancementId, JobId, KeyId, Owner, TranscriptId};
use crate::jobs::Jobs;
use crate::jobs::needs::Need;
use crate::jobs::product::Product;
use crate::jobs::queue::{TRANSCRIBE, lane_number, payload_aad};
use crate::jobs::retry::{RetryLimits, check_limits};
use crate::keys;
use crate::ledger::{self, job_reference};
use crate::recordings::STORAGE_USED;
use crate::sealing::Sealer;
use crate::transcripts::{self, NewTranscript};
use crate::uploads;
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

/// A recording to take the noise out of.
#[derive(Debug, Clone)]
pub struct NewEnhancement {
    /// The account whose limits it counts against.
    pub account: AccountId,
    /// The format of the result; opaque here.
    pub format: String,
    /// The parameters; opaque here.
    pub payload: String,
    /// The capabilities that a worker needs to run it.
    pub needs: Vec<Need>,
    /// The recording, uploaded and durable.
    pub blob: Blob,
    /// Length of the audio as probed.
    pub seconds: f64,
    /// Minutes that it counts for, rounded up: as many credits are held.
    pub minutes: i64,
    /// How urgent it is.
    pub lane: Lane,
    /// The key whose month it counts against.
    pub key: Option<KeyId>,
    /// Maximum queued and running jobs of the account, including this one.
    pub max_live: Option<i64>,
    /// Maximum queued jobs in all, including this one.
    pub max_queued: Option<i64>,
    /// Maximum bytes of stored recordings of the account, including this one.
    pub max_storage: Option<u64>,
    /// Makes the request idempotent.
    pub idempotency: Option<IdempotencyKey>,
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

/// The outcome of accepting an enhancement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptedEnhancement {
    /// It was queued.
    New {
        /// The enhancement.
        enhancement: EnhancementId,
        /// The job.
        job: JobId,
    },
    /// A repeat of an idempotent request; the recording of the repeat was discarded.
    Repeat {
        /// The enhancement of the first request.
        enhancement: EnhancementId,
    },
}

/// What a job with a recording is to make.
enum NewProduct<'a> {
    Transcript { new: &'a NewTranscript, webhook: Option<&'a WebhookTarget> },
    Enhancement { format: &'a str },
}

impl NewProduct<'_> {
    fn kind(&self) -> &'static str {
        match self {
            NewProduct::Transcript { .. } => TRANSCRIBE,
            NewProduct::Enhancement { .. } => ENHANCE,
        }
    }
}

/// A job with a recording.
struct Upload<'a> {
    owner: &'a Owner,
    product: NewProduct<'a>,
    payload: &'a str,
    needs: &'a [Need],
    blob: &'a Blob,
    seconds: f64,
    minutes: i64,
    hold: i64,
    lane: Lane,
    key: Option<KeyId>,
    limits: RetryLimits,
    anonymous_limit: Option<AnonymousLimit>,
    max_storage: Option<u64>,
    idempotency: Option<&'a IdempotencyKey>,
}

impl<'a> From<&'a NewJob> for Upload<'a> {
    fn from(new: &'a NewJob) -> Self {
        Upload {
            owner: &new.owner,
            product: NewProduct::Transcript { new: &new.transcript, webhook: new.webhook.as_ref() },
            payload: &new.payload,
            needs: &new.needs,
            blob: &new.blob,
            seconds: new.seconds,
            minutes: new.minutes,
            hold: new.hold,
            lane: new.lane,
            key: new.key,
            limits: RetryLimits { max_live: new.max_live, max_queued: new.max_queued },
            anonymous_limit: new.anonymous_limit,
            max_storage: new.max_storage,
            idempotency: new.idempotency.as_ref(),
        }
    }
}

/// What accepting a job with a recording came to.
enum Outcome {
    New(Product, JobId),
    Repeat(Product),
}

/// A job as it is inserted.
struct JobRow<'a> {
    kind: &'a str,
    transcript: Option<TranscriptId>,
    enhancement: Option<EnhancementId>,
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
        match self.accept_upload(&Upload::from(&new)).await? {
            Outcome::New(Product::Transcript(transcript), job) => Ok(Accepted::New { transcript, job }),
            Outcome::Repeat(Product::Transcript(transcript)) => Ok(Accepted::Repeat { transcript }),
            Outcome::New(..) | Outcome::Repeat(_) => Err(Error::KeyReused),
        }
    }

    /// Queues an enhancement: its row, job, hold, counts and idempotency key in one transaction. The recording of a rejected or repeated request is
    /// discarded.
    pub async fn accept_enhancement(self, new: NewEnhancement) -> Result<AcceptedEnhancement> {
        let owner = Owner::Account(new.account);
        let upload = Upload {
            owner: &owner,
            product: NewProduct::Enhancement { format: &new.format },
            payload: &new.payload,
            needs: &new.needs,
            blob: &new.blob,
            seconds: new.seconds,
            minutes: new.minutes,
            hold: new.minutes,
            lane: new.lane,
            key: new.key,
            limits: RetryLimits { max_live: new.max_live, max_queued: new.max_queued },
            anonymous_limit: None,
            max_storage: new.max_storage,
            idempotency: new.idempotency.as_ref(),
        };
        match self.accept_upload(&upload).await? {
            Outcome::New(Product::Enhancement(enhancement), job) => Ok(AcceptedEnhancement::New { enhancement, job }),
            Outcome::Repeat(Product::Enhancement(enhancement)) => Ok(AcceptedEnhancement::Repeat { enhancement }),
            Outcome::New(..) | Outcome::Repeat(_) => Err(Error::KeyReused),
        }
    }

    async fn accept_upload(self, new: &Upload<'_>) -> Result<Outcome> {
        if new.blob.account != self.store.account_of(new.owner) {
            return Err(Error::Conflict("the recording belongs to another account"));
        }
        let accepted = self.write_upload(new).await;
        if let Ok(Outcome::New(..)) = accepted {
            self.store.notify(Change::Queued);
            if new.blob.joined_from.is_some() {
                // The pieces; what is left the sweep removes.
                let (store, account) = (self.store.clone(), new.blob.account);
                tokio::spawn(async move { store.recordings().remove_deleted_or_defer(Some(account), None).await });
            }
        } else if let Err(error) = self.store.recordings().discard(&new.blob.key).await {
            tracing::warn!(%error, key = %new.blob.key, "recording.discard_failed");
        }
        accepted
    }

    async fn write_upload(self, new: &Upload<'_>) -> Result<Outcome> {
        let account = self.store.account_of(new.owner);
        let sealer = self.store.sealer(account).await?;
        let owner = new.owner.name();
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, account).await?;
        if let Some(name) = new.idempotency
            && let Some(product) = idempotency::repeated_job(&mut tx, &owner, name, now).await?
        {
            return Ok(Outcome::Repeat(product));
        }
        check_limits(&mut tx, &owner, new.limits).await?;
        if let Some(upload) = new.blob.joined_from {
            // Its bytes count no more; those of the recording do. A repeat needs the hash.
            let hash = new.blob.sha256.as_ref().filter(|_| new.idempotency.is_some());
            uploads::consume(&mut tx, &sealer, account, upload, hash, now).await?;
        }
        check_storage(&mut tx, new, account).await?;
        let (product, transcript, enhancement) = match new.product {
            NewProduct::Transcript { new: transcript, .. } => {
                let id = transcripts::insert(&mut tx, &sealer, account, &owner, transcript, new.seconds, now).await?;
                (Product::from(id), Some(id), None)
            }
            NewProduct::Enhancement { format } => {
                let id = enhancements::insert(&mut tx, account, format, new.seconds, now).await?;
                (Product::from(id), None, Some(id))
            }
        };
        let key_month = match new.key {
            Some(id) => Some(keys::use_minutes(&mut tx, id, new.minutes, now).await?),
            None => None,
        };
        let anonymous_day = match new.owner {
            Owner::Anonymous(address) => {
                let day = day_of(now);
                anonymous::count(&mut tx, address, day, new.minutes, new.anonymous_limit).await?;
                Some(day)
            }
            Owner::Account(_) => None,
        };
        let row = JobRow {
            kind: new.product.kind(),
            transcript,
            enhancement,
            account,
            owner: &owner,
            lane: new.lane,
            payload: new.payload,
            needs: new.needs,
            seconds: new.seconds,
            minutes: new.minutes,
            hold: new.hold,
            key: new.key.zip(key_month),
            anonymous_day,
        };
        let job = self.insert(&mut tx, &sealer, &row, now).await?;
        let sql = format!(
            "UPDATE blobs SET state = 'live', {} = $1, size = $2, sha256 = $3 WHERE key = $4 AND account_id = $5 AND state = 'uploading'",
            product.column()
        );
        let blob = new.blob;
        let checksum = blob.checksum();
        let values = args![product.number(), blob.size as i64, checksum.as_deref(), blob.key.as_str(), account];
        if tx.execute(&sql, values).await? == 0 {
            return Err(Error::Conflict("the upload took too long and was given up; please send it again"));
        }
        if let Some(name) = new.idempotency {
            idempotency::record_job(&mut tx, &owner, account, name, product, now).await?;
        }
        if let (NewProduct::Transcript { webhook: Some(target), .. }, Some(id)) = (&new.product, transcript) {
            webhooks::insert(&mut tx, &sealer, account, id, target, now).await?;
        }
        tx.commit().await?;
        Ok(Outcome::New(product, job))
    }

    /// Queues a job without a recording, with its hold, in one transaction.
    pub async fn enqueue(self, new: &NewTask) -> Result<JobId> {
        if new.kind == TRANSCRIBE || new.kind == ENHANCE {
            return Err(Error::Conflict("a job of this kind needs a recording"));
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
            enhancement: None,
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
            "INSERT INTO jobs (kind, transcript_id, enhancement_id, account_id, owner, lane, state, payload, payload_key, seconds, minutes, hold, key_id, key_month,
                 anonymous_day, attempts, deferrals, retries, queued_at, not_before)
             VALUES ($1, $2, $3, $4, $5, $6, 'queued', $7, $8, $9, $10, $11, $12, $13, $14, 0, 0, 0, {}, 0) RETURNING id",
            self.lease_now_sql("$15")
        );
        let values = args![
            new.kind,
            new.transcript,
            new.enhancement,
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
async fn check_storage(tx: &mut Tx, new: &Upload<'_>, account: AccountId) -> Result<()> {
    let Some(limit) = new.max_storage else { return Ok(()) };
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let used: i64 = tx.one(STORAGE_USED, args![account]).await?.get("used")?;
    if used.saturating_add(i64::try_from(new.blob.size).unwrap_or(i64::MAX)) > limit {
        return Err(Error::Limit { what: Limit::StorageBytes, limit, used });
    }
    Ok(())
}
