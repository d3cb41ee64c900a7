//! What the service keeps: accounts, keys, credits, transcripts, jobs, recordings and known voices.
//!
//! In: facts from the server (who asks, what was said, how long it took), bytes of recordings. Out: the same, later, after any crash, and only to their
//! account. None of its business: passwords (it keeps a hash it is given), prices, HTTP, and what a job's payload means.
//!
//! One [`Store`] over SQLite (a file, the default) or PostgreSQL (several machines), and a folder or bucket for recordings. What belongs together is one
//! transaction: a job is accepted with its transcript, its hold and its idempotency key, and completed with its segments, its charge and its usage.

mod account;
mod address;
mod anonymous;
mod audit;
mod backup;
mod blob;
mod chat;
mod clock;
mod cloud;
mod columns;
mod db;
mod derived;
mod edit;
mod error;
mod failed;
mod idempotency;
mod identity;
mod ids;
mod integrity;
mod job;
mod key;
mod lease;
mod ledger;
mod live;
mod maintenance;
mod migrate;
mod needs;
mod news;
mod plan;
mod presence;
mod probe;
mod queue;
mod raise;
mod random;
mod readable;
mod retime;
mod retry;
mod seal;
mod secret;
mod segment;
mod share;
mod sweep;
mod transcript;
mod unsealed;
mod usage;
mod voiceprint;
mod webhook;

use std::fmt;
use std::sync::Arc;

use tokio::sync::broadcast;

pub use account::{Account, AccountChange, EmailPreferences, NewAccount};
pub use address::AddressUse;
pub use anonymous::{AnonymousLimit, AnonymousUse};
pub use audit::{Actor, AuditEntry, AuditPage, NewAudit};
pub use backup::{BackupProgress, BackupReport, RestoreOptions, Restored, VerifiedBackup, restore, verify_backup};
pub use blob::{Blob, BlobKey, BlobReader, BlobSource, ReadSeek, Upload};
pub use chat::{ChatRole, ChatTurn};
pub use clock::{Clock, DAY, Micros, day_of};
pub use cloud::{CloudInstance, NewInstance};
pub use edit::{SegmentEdit, TranscriptEdit};
pub use error::{Error, Limit, Result};
pub use failed::{JobFilter, JobSummary, RetryLimits};
pub use hark_api::{FaultKind, Lane};
pub use idempotency::{Idempotency, StoredAnswer};
pub use identity::IdentityCheck;
pub use ids::{AccountId, InstanceId, JobId, KeyId, Owner, TranscriptId, VoiceprintId, WebhookId};
pub use integrity::{RecordingProblem, RecordingsChecked};
pub use job::{Accepted, IdempotencyKey, NewJob, NewTask, NewTranscript};
pub use key::{Credential, Key, KeyChange, KeyKind, NewKey, Scope, Secret};
pub use lease::Lease;
pub use ledger::{Entry, EntryKind, Settled, Unbalanced};
pub use live::{ContinuedLive, LiveAppend, LiveLease, live_reference};
pub use maintenance::MaintenanceLease;
pub use needs::{Capabilities, Need};
pub use plan::Plan;
pub use probe::free_space;
pub use queue::{AfterFault, BULK_PATIENCE, Claim, Job, TRANSCRIBE};
pub use retry::RetryPolicy;
pub use seal::{MasterKey, MasterKeys};
pub use sweep::{Mismatch, Quarantined, SweepOptions, Swept};
pub use transcript::{Listed, Status, StatusView, Transcript, TranscriptFilter, TranscriptPage};
pub use unsealed::{Amount, SealedAll};
pub use usage::{UsageDay, UsageSummary};
pub use voiceprint::{MOST_VOICEPRINTS, Voiceprint};
pub use webhook::{WebhookDelivery, WebhookTarget};

use blob::Blobs;
use db::Db;
use news::News;
use presence::Presence;
use seal::KeyCache;

/// Where a store lives and how it behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// `sqlite:///path/hark.db` or `postgres://user:password@host/name`.
    pub database: String,
    /// The folder of recordings, or `s3://bucket/prefix`, `gs://…`, `az://…` where built in.
    pub blobs: String,
    /// Keys that seal what is stored; none by default.
    pub master_keys: MasterKeys,
    /// Connections that read (SQLite) or all connections (PostgreSQL).
    pub connections: u32,
    /// The time.
    pub clock: Clock,
    /// What to do about recordings of another store.
    pub identity: IdentityCheck,
    /// Whether to check a database that is not too large before it is used, and refuse one that is damaged.
    pub check_at_open: bool,
    /// How faults of jobs are retried.
    pub retry: RetryPolicy,
}

impl Options {
    /// A store at these places, unsealed.
    pub fn new(database: impl Into<String>, blobs: impl Into<String>) -> Options {
        Options {
            database: database.into(),
            blobs: blobs.into(),
            master_keys: MasterKeys::none(),
            connections: 8,
            clock: Clock::system(),
            identity: IdentityCheck::default(),
            check_at_open: true,
            retry: RetryPolicy::default(),
        }
    }
}

/// Something that others may wait for. Processes that share a PostgreSQL database hear of it if they asked to ([`Store::listen`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A job waits in the queue.
    Queued,
    /// A transcript is completed, failed, canceled or deleted.
    Finished(TranscriptId),
    /// A running job was canceled or deleted: its worker should stop.
    Stopped(JobId),
}

/// The store; cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    db: Db,
    blobs: Blobs,
    master_keys: MasterKeys,
    data_keys: KeyCache,
    clock: Clock,
    changes: broadcast::Sender<Change>,
    news: Option<News>,
    presence: Presence,
    anonymous: AccountId,
    id: String,
    seen_renewals: live::SeenRenewals,
    retry: RetryPolicy,
    seen_leases: lease::SeenLeases,
    /// When expired leases were last looked for, by the monotonic clock.
    last_expiry: std::sync::atomic::AtomicI64,
    /// By the monotonic clock.
    no_expiry_before: std::sync::atomic::AtomicI64,
    checked_at_open: bool,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self.0.db, Db::Sqlite { .. }) { "Store(sqlite)" } else { "Store(postgres)" })
    }
}

impl Store {
    /// Opens the store, creating or updating its tables.
    pub async fn open(options: Options) -> Result<Store> {
        let db = Db::connect(&options.database, options.connections, &presence::name(&options.master_keys)).await?;
        let presence = Presence::of(&options.database, &options.master_keys)?;
        let checked_at_open = options.check_at_open && integrity::check_at_open(&db).await?;
        let blobs = Blobs::open(&options.blobs)?;
        if let Db::Postgres(_) = db {
            follow_database(&db, &options.clock).await?;
        }
        migrate::migrate(&db, options.clock.now()).await?;
        let id = identity::check(&db, &blobs, options.identity).await?;
        let anonymous = account::anonymous_account(&db, options.clock.now()).await?;
        let news = match &db {
            Db::Postgres(pool) => Some(News::start(pool)?),
            Db::Sqlite { .. } => None,
        };
        let store = Store(Arc::new(Inner {
            db,
            news,
            presence,
            blobs,
            master_keys: options.master_keys,
            data_keys: KeyCache::default(),
            clock: options.clock,
            // A receiver that falls this far behind is told so and asks the store instead.
            changes: broadcast::channel(1024).0,
            anonymous,
            id,
            seen_renewals: live::SeenRenewals::default(),
            checked_at_open,
            retry: options.retry,
            seen_leases: lease::SeenLeases::default(),
            last_expiry: i64::MIN.into(),
            no_expiry_before: i64::MIN.into(),
        }));
        store.move_share_tokens().await?;
        Ok(store)
    }

    /// Waits until everything is written and closes the connections.
    pub async fn close(&self) {
        if let Some(news) = &self.0.news {
            news.close().await;
        }
        // Closing can't fail; what was committed is on disk already.
        let _ = self.0.db.close().await;
        self.0.presence.leave();
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<()> {
        self.db().one("SELECT 1 AS one", &[]).await.map(drop)
    }

    /// Hears what other processes change, too, over a connection of its own: [`Store::changes`] tells of it. They are heard until the store is closed or nobody asks for changes.
    pub async fn listen(&self) {
        if let Some(news) = &self.0.news {
            news.listen(self.0.changes.clone()).await;
        }
    }

    /// What happens in this process from now on, and in others after [`Store::listen`].
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.0.changes.subscribe()
    }

    /// The store's time.
    pub fn now(&self) -> Micros {
        self.0.clock.now()
    }

    /// The id of the store, which stands in the database and beside the recordings.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Where recordings are kept, in words for the operator.
    pub fn recordings_place(&self) -> String {
        self.blobs().place()
    }

    /// The account that anonymous transcripts belong to; nobody signs in as it.
    pub fn anonymous_account(&self) -> AccountId {
        self.0.anonymous
    }

    /// The account whose rows an owner's jobs are.
    fn account_of(&self, owner: &Owner) -> AccountId {
        match owner {
            Owner::Account(id) => *id,
            Owner::Anonymous(_) => self.0.anonymous,
        }
    }

    fn db(&self) -> &Db {
        &self.0.db
    }

    fn blobs(&self) -> &Blobs {
        &self.0.blobs
    }

    fn seen_renewals(&self) -> &live::SeenRenewals {
        &self.0.seen_renewals
    }

    fn clock(&self) -> &Clock {
        &self.0.clock
    }

    fn retry_policy(&self) -> &RetryPolicy {
        &self.0.retry
    }

    fn seen_leases(&self) -> &lease::SeenLeases {
        &self.0.seen_leases
    }

    fn keys(&self) -> &KeyCache {
        &self.0.data_keys
    }

    fn master_keys(&self) -> &MasterKeys {
        &self.0.master_keys
    }

    fn tell(&self, change: Change) {
        // Nobody may be listening, which is fine.
        let _ = self.0.changes.send(change);
        if let Some(news) = &self.0.news {
            news.tell(change);
        }
    }
}

/// Machines that share a database take its date; leases are measured by the database itself.
async fn follow_database(db: &Db, clock: &Clock) -> Result<()> {
    let sql = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT) AS now";
    clock.follow(db.one(sql, &[]).await?.get("now")?);
    Ok(())
}
