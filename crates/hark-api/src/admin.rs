//! What accounts that manage others see and change.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Account, DateTime};

/// The most credits that one change adds or takes.
const MAX_CREDITS: i64 = 1_000_000_000;
/// The longest note, in characters.
const MAX_NOTE: usize = 500;

/// A page of all accounts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AccountList {
    /// Newest first.
    pub accounts: Vec<ListedAccount>,
    /// How many there are on all pages.
    pub total: i64,
    /// Which page this is, from 1.
    pub page: i64,
    /// Accounts a page.
    pub per_page: i64,
}

/// An account of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ListedAccount {
    /// The account.
    #[serde(flatten)]
    pub account: Account,
    /// The transcripts that it has now.
    pub transcripts: i64,
}

/// What is changed in an account; what is left out stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountAdjustment {
    /// free, pro, business or enterprise.
    #[schema(max_length = 20)]
    pub plan: Option<String>,
    /// Whether a paid plan is active.
    pub is_plan_active: Option<bool>,
    /// Credits to add; negative ones are taken, down to a balance of zero.
    #[serde(default, deserialize_with = "crate::integer::optional")]
    #[schema(minimum = -1_000_000_000, maximum = 1_000_000_000)]
    pub credits: Option<i64>,
    /// Why the credits change, for the ledger and the audit log.
    #[schema(max_length = 500)]
    pub note: Option<String>,
}

impl AccountAdjustment {
    /// Checks the limits of the fields.
    pub fn check(&self) -> Result<(), crate::ApiError> {
        let invalid = |why: String| Err(crate::ApiError::new(crate::ErrorKind::InvalidInput, why));
        if self.credits.is_some_and(|credits| credits.unsigned_abs() > MAX_CREDITS.unsigned_abs()) {
            return invalid(format!("`credits` adds or takes at most {MAX_CREDITS}"));
        }
        if self.note.as_ref().is_some_and(|note| note.chars().count() > MAX_NOTE) {
            return invalid(format!("`note` has at most {MAX_NOTE} characters"));
        }
        Ok(())
    }
}

/// The queue of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueState {
    /// Jobs that wait.
    pub queued: i64,
    /// Jobs that run.
    pub running: i64,
    /// Jobs that have failed and can be retried or dropped.
    pub failed: i64,
    /// Seconds that the oldest of those that wait has waited; null where none waits.
    pub oldest_wait_seconds: Option<f64>,
    /// Those that run, then those that have failed, then those that wait, each the oldest first: 100 at most.
    pub jobs: Vec<QueueJob>,
}

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueueJobState {
    /// It waits.
    Queued,
    /// It runs.
    Running,
    /// It has no attempts left.
    Failed,
}

/// A job of the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueJob {
    /// Its number.
    pub id: i64,
    /// What it does: `transcribe` or `enhance`.
    pub kind: String,
    /// Whether it waits, runs or has failed.
    pub state: QueueJobState,
    /// The account whose it is.
    pub account_id: i64,
    /// The transcript that it makes, where it makes one.
    pub transcript_id: Option<i64>,
    /// Counted attempts.
    pub attempts: i64,
    /// When it was queued.
    pub created_at: DateTime,
    /// When it failed.
    pub failed_at: Option<DateTime>,
    /// Length of the audio in seconds, where it is known.
    pub duration: Option<f64>,
    /// The capabilities that a worker needs to run it.
    pub needs: Vec<String>,
    /// The kind of the last fault: input, credits, internal, timeout, unavailable or cancelled.
    pub error_kind: Option<String>,
    /// The details of that fault; no text of a transcript.
    pub error: Option<String>,
}

/// The models of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatalogueModels {
    /// In the order of the catalogue.
    pub models: Vec<CatalogueModel>,
}

/// A model of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatalogueModel {
    /// Its name.
    pub name: String,
    /// The name that people read.
    pub title: String,
    /// What it does, such as `transcription`, `translation` or `language`.
    pub role: String,
    /// What it is good for.
    pub description: String,
    /// Bytes of its files; 0 where that is not known.
    pub bytes: u64,
    /// Its licence.
    pub license: String,
    /// The attribution or note that the licence asks for.
    pub license_note: String,
    /// Whether a new installation gets it.
    pub is_default: bool,
    /// Whether it is on this server.
    pub installed: bool,
    /// Whether it is being pulled, or waits for that.
    pub pulling: bool,
    /// While it is pulled: bytes that are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_done: Option<u64>,
    /// While it is pulled: bytes of all of it, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<u64>,
    /// Why the last pull of this process failed, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The processes that share the database of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeList {
    /// By machine and address.
    pub nodes: Vec<Node>,
}

/// A process, as it last said of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Its id, new at each start.
    pub id: String,
    /// The name of its machine.
    pub host: String,
    /// The address that it listens on.
    pub address: String,
    /// Its version.
    pub version: String,
    /// What it is for: `all`, `account` (no jobs) or `gpu` (jobs).
    pub role: String,
    /// Whether it is the one that answers.
    pub is_current: bool,
    /// Whether it was heard of lately. One that was not has ended without saying so, hangs, or can't reach the database; after a quarter of an hour it is no longer
    /// listed.
    pub is_responding: bool,
    /// When it was started.
    pub started_at: DateTime,
    /// When it was last heard of.
    pub last_seen: DateTime,
    /// What it did then.
    #[serde(flatten)]
    pub state: NodeState,
}

/// What a process does; one of another version may leave something out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct NodeState {
    /// Whether it is shutting down.
    pub is_draining: bool,
    /// Whether it takes no jobs because the recordings or the database can't be reached.
    pub is_paused: bool,
    /// The checks of `/health/ready` that failed there when they last ran, which is a minute ago at most.
    pub failing: Vec<String>,
    /// Processor cores of its machine.
    pub cores: u32,
    /// Processes that its machine ran or wanted to run, on average over the last minute.
    pub load_average: Option<f64>,
    /// Memory that it uses, in bytes.
    pub memory_bytes: Option<u64>,
    /// What computes there, such as `cpu (amx, 2 threads)`.
    pub device: Option<String>,
    /// Jobs that it can run at once; 0 where it runs none.
    pub workers: u32,
    /// Jobs that it runs.
    pub workers_busy: u32,
    /// Live sessions.
    pub live_sessions: u32,
    /// What jobs may need of it, such as `model:whisper-base` or `capability:enhance`.
    pub runs: Vec<String>,
    /// The models that it has in memory.
    pub models: Vec<NodeModel>,
}

/// A model in the memory of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct NodeModel {
    /// Its name.
    pub name: String,
    /// The most memory that it may use, in bytes.
    pub bytes: u64,
    /// Whether its engine works; false while it is loaded again after a fault.
    pub is_running: bool,
}
