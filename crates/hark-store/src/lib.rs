//! What the service keeps: accounts, keys, credits, transcripts, jobs, recordings and known voices.
//!
//! In: facts from the server (who asks, what was said, how long it took), bytes of recordings. Out: the same, later, after any crash, and only to their
//! account. None of its business: passwords (it keeps a hash it is given), prices, HTTP, and what a job's payload means.
//!
//! One [`Store`] over SQLite (a file, the default) or PostgreSQL (several machines), and a folder or bucket for recordings. It is used in parts: `store.jobs()`,
//! `store.ledger()`, `store.transcripts()`. A part is a handle that borrows the store and costs nothing; its types stand in the module of the same name.
//!
//! Some transactions cross parts. Such a transaction belongs to the part whose state decides whether it happens, and the other parts lend it functions that take
//! the open transaction:
//!
//! - [`Jobs::accept`] writes transcript, hold, idempotency key, webhook and recording with the job: if the queue refuses, none of them exists.
//! - [`Jobs::complete`] and [`Jobs::fail`] write segments, charge, usage and webhook: only the worker that holds the lease may end a job.
//! - [`Jobs::accept_enhancement`] and [`Jobs::complete_enhancement`] do the same for recordings whose noise is reduced, [`Enhancements::delete`] ends the job.
//! - [`Transcripts::delete`] and [`Transcripts::cancel`] end the job of a transcript: whoever owns the transcript decides.
//! - [`Keys::create_once`] writes the response for repeats with the key.
//! - [`LiveSessions`] charge the ledger and the key's month with the text that a session appends.
//!
//! All of them lock in one order: account, job, transcript.

mod accounts;
mod addresses;
mod audit;
mod backup;
mod calls;
mod chats;
mod clock;
mod db;
mod enhancements;
mod error;
mod idempotency;
mod identity;
mod ids;
mod instances;
mod integrity;
mod jobs;
mod keys;
mod ledger;
mod live;
mod mac;
mod migrate;
mod nodes;
mod notify;
mod random;
mod recordings;
mod sealing;
mod search;
mod secret;
mod transcripts;
mod uploads;
mod voiceprints;
mod webhooks;

use std::fmt;
use std::sync::Arc;

use tokio::sync::broadcast;

pub use accounts::manage::{AccountFilter, AccountPage, Adjustment, ListedAccount};
pub use accounts::plan::Plan;
pub use accounts::usage::{UsageDay, UsageSummary};
pub use accounts::{Account, AccountChange, Accounts, EmailPreferences, NewAccount};
pub use addresses::anonymous::{AnonymousLimit, AnonymousUse};
pub use addresses::{AddressUse, Addresses};
pub use audit::{Actor, Audit, AuditEntry, AuditPage, NewAudit};
pub use backup::{BackupProgress, BackupReport, RestoreOptions, RestoreReport, VerifiedBackup, restore, verify_backup};
pub use calls::{Begun, Call, CallResult, Calls, Derived, NewCall};
pub use chats::{ChatRole, ChatTurn, Chats, CountedQuestion};
pub use clock::{Clock, DAY, Micros, day_of};
pub use enhancements::{ENHANCE, EnhancedRecording, Enhancement, Enhancements};
pub use error::{Error, Limit, Result};
pub use hark_api::{FaultKind, Lane};
pub use idempotency::{Idempotency, IdempotencyKey, IdempotencyKeys, KeyClaim, StoredAnswer};
pub use identity::IdentityCheck;
pub use ids::{
    AccountId, EnhancementId, InstanceId, JobId, KeyId, Owner, PassageId, TranscriptId, UploadId, VoiceprintId,
    WebhookId,
};
pub use instances::{CloudInstance, Instances, NewInstance};
pub use integrity::probe::free_space;
pub use integrity::{Integrity, RecordingProblem, RecordingsReport};
pub use jobs::Jobs;
pub use jobs::accept::{Accepted, AcceptedEnhancement, NewEnhancement, NewJob, NewTask};
pub use jobs::backoff::RetryPolicy;
pub use jobs::lease::Lease;
pub use jobs::needs::{Capabilities, Need};
pub use jobs::product::Product;
pub use jobs::queue::{AfterFault, BULK_MAX_WAIT, Claim, Job, TRANSCRIBE};
pub use jobs::retry::{JobCounts, JobFilter, JobSummary, RetryLimits};
pub use keys::{Credential, Key, KeyChange, KeyKind, Keys, NewKey, Scope, Secret};
pub use ledger::{Entry, EntryKind, Ledger, LedgerPage, Settlement, Unbalanced};
pub use live::{LiveAppend, LiveLease, LiveSessions, ResumedLive, live_reference};
pub use nodes::{Heartbeat, NODE_KEPT, Node, Nodes};
pub use recordings::sweep::{Mismatch, QuarantinedFile, SweepOptions, SweepReport};
pub use recordings::sweep_lease::MaintenanceLease;
pub use recordings::{Blob, BlobKey, BlobReader, BlobSource, ReadSeek, Recordings, Upload};
pub use sealing::seal_all::{SealReport, UnsealedAmount};
pub use sealing::{MasterKey, MasterKeys, Sealing};
pub use search::{
    Candidates, FoundPassage, IndexTask, Nearest, NewIndex, NewPassage, PassageSegment, Search, SearchCounts,
    SearchFilter, SearchedTranscript,
};
pub use transcripts::edit::{SegmentEdit, TranscriptEdit};
pub use transcripts::{
    NewTranscript, Status, StatusView, Transcript, TranscriptFilter, TranscriptPage, TranscriptSummary, Transcripts,
};
pub use uploads::{MAX_OPEN_UPLOADS, NamedUpload, OpenUpload, UPLOAD_KEPT, Uploads};
pub use voiceprints::{MAX_VOICEPRINTS, Voiceprint, Voiceprints};
pub use webhooks::{WebhookDelivery, WebhookTarget, Webhooks};

use db::Db;
use notify::Notifier;
use recordings::Blobs;
use sealing::DataKeyCache;
use sealing::keyless::KeylessLock;

/// The options of a store.
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
    /// The clock.
    pub clock: Clock,
    /// What to do about recordings of another store.
    pub identity: IdentityCheck,
    /// Whether to check a database that is not too large before it is used, and refuse one that is damaged.
    pub check_at_open: bool,
    /// How faults of jobs are retried.
    pub retry: RetryPolicy,
}

impl Options {
    /// A store with this database and these recordings, without master keys.
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

/// A change that others may wait for. Processes that share a PostgreSQL database are notified of it after [`Store::listen`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A job waits in the queue.
    Queued,
    /// A transcript is completed, failed, canceled or deleted.
    Finished(TranscriptId),
    /// An enhancement is completed, failed or deleted.
    Enhanced(EnhancementId),
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
    data_keys: DataKeyCache,
    clock: Clock,
    changes: broadcast::Sender<Change>,
    notifier: Option<Notifier>,
    keyless: KeylessLock,
    anonymous: AccountId,
    id: String,
    observed_renewals: live::ObservedRenewals,
    retry: RetryPolicy,
    observed_leases: jobs::lease::ObservedLeases,
    /// Monotonic time of the last check for expired leases.
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
        let db = Db::connect(
            &options.database,
            options.connections,
            &sealing::keyless::application_name(&options.master_keys),
        )
        .await?;
        let keyless = KeylessLock::take(&options.database, &options.master_keys)?;
        let checked_at_open = options.check_at_open && integrity::check_at_open(&db).await?;
        let blobs = Blobs::open(&options.blobs)?;
        if let Db::Postgres(_) = db {
            follow_database(&db, &options.clock).await?;
        }
        migrate::migrate(&db, options.clock.now()).await?;
        let id = identity::check(&db, &blobs, options.identity).await?;
        let anonymous = accounts::anonymous_account(&db, options.clock.now()).await?;
        let notifier = match &db {
            Db::Postgres(pool) => Some(Notifier::start(pool)?),
            Db::Sqlite { .. } => None,
        };
        let store = Store(Arc::new(Inner {
            db,
            notifier,
            keyless,
            blobs,
            master_keys: options.master_keys,
            data_keys: DataKeyCache::default(),
            clock: options.clock,
            // A receiver that falls this far behind gets an error and queries the store instead.
            changes: broadcast::channel(1024).0,
            anonymous,
            id,
            observed_renewals: live::ObservedRenewals::default(),
            checked_at_open,
            retry: options.retry,
            observed_leases: jobs::lease::ObservedLeases::default(),
            last_expiry: i64::MIN.into(),
            no_expiry_before: i64::MIN.into(),
        }));
        store.transcripts().move_share_tokens().await?;
        Ok(store)
    }

    /// Waits until everything is written and closes the connections.
    pub async fn close(&self) {
        if let Some(notifier) = &self.0.notifier {
            notifier.close().await;
        }
        // Closing can't fail; what was committed is on disk already.
        let _ = self.0.db.close().await;
        self.0.keyless.release();
    }

    /// Checks that the database responds.
    pub async fn ping(&self) -> Result<()> {
        self.db().one("SELECT 1 AS one", &[]).await.map(drop)
    }

    /// Receives the changes of other processes as well, over a connection of its own, and passes them to [`Store::changes`], until the store is closed or has no
    /// subscriber left.
    pub async fn listen(&self) {
        if let Some(notifier) = &self.0.notifier {
            notifier.listen(self.0.changes.clone()).await;
        }
    }

    /// Subscribes to the changes of this process from now on, and of others after [`Store::listen`].
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.0.changes.subscribe()
    }

    /// The store's time.
    pub fn now(&self) -> Micros {
        self.0.clock.now()
    }

    /// The id of the store, which is in the database and beside the recordings.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The account that anonymous transcripts belong to; it has no credentials.
    pub fn anonymous_account(&self) -> AccountId {
        self.0.anonymous
    }

    /// The account that an owner's jobs belong to.
    fn account_of(&self, owner: &Owner) -> AccountId {
        match owner {
            Owner::Account(id) => *id,
            Owner::Anonymous(_) => self.0.anonymous,
        }
    }

    /// The time that leases are measured by: the database's, where several machines share it.
    async fn lease_now(&self) -> Result<Micros> {
        if let Db::Postgres(_) = self.db() {
            follow_database(self.db(), &self.0.clock).await?;
        }
        Ok(self.now())
    }

    fn db(&self) -> &Db {
        &self.0.db
    }

    fn blobs(&self) -> &Blobs {
        &self.0.blobs
    }

    fn observed_renewals(&self) -> &live::ObservedRenewals {
        &self.0.observed_renewals
    }

    fn clock(&self) -> &Clock {
        &self.0.clock
    }

    fn retry_policy(&self) -> &RetryPolicy {
        &self.0.retry
    }

    fn observed_leases(&self) -> &jobs::lease::ObservedLeases {
        &self.0.observed_leases
    }

    fn data_keys(&self) -> &DataKeyCache {
        &self.0.data_keys
    }

    fn master_keys(&self) -> &MasterKeys {
        &self.0.master_keys
    }

    fn notify(&self, change: Change) {
        // There may be no subscriber, which is fine.
        let _ = self.0.changes.send(change);
        if let Some(notifier) = &self.0.notifier {
            notifier.send(change);
        }
    }
}

/// The parts of the store: each is a handle that borrows it, free to make and to copy.
impl Store {
    /// Accounts and their usage.
    pub fn accounts(&self) -> Accounts<'_> {
        Accounts { store: self, audit: None }
    }

    /// Usage by network address, and the known addresses of accounts.
    pub fn addresses(&self) -> Addresses<'_> {
        Addresses { store: self }
    }

    /// The audit log.
    pub fn audit(&self) -> Audit<'_> {
        Audit { store: self }
    }

    /// Calls that cost credits.
    pub fn calls(&self) -> Calls<'_> {
        Calls { store: self }
    }

    /// Chat sessions about transcripts.
    pub fn chats(&self) -> Chats<'_> {
        Chats { store: self }
    }

    /// Recordings without their noise.
    pub fn enhancements(&self) -> Enhancements<'_> {
        Enhancements { store: self }
    }

    /// Idempotency keys.
    pub fn idempotency(&self) -> IdempotencyKeys<'_> {
        IdempotencyKeys { store: self }
    }

    /// Private cloud instances.
    pub fn instances(&self) -> Instances<'_> {
        Instances { store: self }
    }

    /// Integrity checks and probes.
    pub fn integrity(&self) -> Integrity<'_> {
        Integrity { store: self }
    }

    /// Uploads that go on after a connection broke.
    pub fn uploads(&self) -> Uploads<'_> {
        Uploads { store: self }
    }

    /// The job queue.
    pub fn jobs(&self) -> Jobs<'_> {
        Jobs { store: self, audit: None }
    }

    /// API keys, tokens and sessions.
    pub fn keys(&self) -> Keys<'_> {
        Keys { store: self, audit: None }
    }

    /// Credits.
    pub fn ledger(&self) -> Ledger<'_> {
        Ledger { store: self, audit: None }
    }

    /// Live sessions.
    pub fn live(&self) -> LiveSessions<'_> {
        LiveSessions { store: self }
    }

    /// The processes that use the store.
    pub fn nodes(&self) -> Nodes<'_> {
        Nodes { store: self }
    }

    /// Recordings.
    pub fn recordings(&self) -> Recordings<'_> {
        Recordings { store: self }
    }

    /// The search index.
    pub fn search(&self) -> Search<'_> {
        Search { store: self }
    }

    /// Encryption at rest.
    pub fn sealing(&self) -> Sealing<'_> {
        Sealing { store: self }
    }

    /// Transcripts.
    pub fn transcripts(&self) -> Transcripts<'_> {
        Transcripts { store: self, audit: None }
    }

    /// Voiceprints.
    pub fn voiceprints(&self) -> Voiceprints<'_> {
        Voiceprints { store: self, audit: None }
    }

    /// Webhook deliveries.
    pub fn webhooks(&self) -> Webhooks<'_> {
        Webhooks { store: self, audit: None }
    }
}

/// Sets the clock by the database, which machines share; leases are measured by the database itself.
async fn follow_database(db: &Db, clock: &Clock) -> Result<()> {
    let sql = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT) AS now";
    clock.sync_with_database(db.one(sql, &[]).await?.get("now")?);
    Ok(())
}
