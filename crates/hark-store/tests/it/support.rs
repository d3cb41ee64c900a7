//! Where a test's store lives, and short ways to the beginnings that most tests share.

use std::time::Duration;

use bytes::Bytes;
use hark_api::{Segment, TranscriptionResult, Word};
use hark_store::{
    Accepted, AccountId, Blob, Clock, Idempotency, Job, JobId, KeyClaim, Lane, MasterKey, MasterKeys, NewAccount,
    NewJob, NewTranscript, Options, Owner, Plan, RetryPolicy, Store, TranscriptId,
};

/// 2026-01-15 12:00 UTC.
pub const START: i64 = 1_768_478_400_000_000;

/// A database and a folder of recordings that only this test has.
pub struct Place {
    pub database: String,
    pub folder: tempfile::TempDir,
    pub clock: Clock,
}

impl Place {
    pub fn sqlite() -> Place {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = format!("sqlite://{}", folder.path().join("data/hark.db").display());
        Place { database, folder, clock: Clock::manual(START) }
    }

    pub async fn postgres() -> Place {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let database = hark_postgres::new_database().await.unwrap_or_else(|error| panic!("{error}"));
        Place { database, folder, clock: Clock::manual(START) }
    }

    pub fn options(&self) -> Options {
        let blobs = self.folder.path().join("blobs");
        Options { clock: self.clock.clone(), ..Options::new(&self.database, blobs.display().to_string()) }
    }

    pub async fn open(&self) -> Store {
        Store::open(self.options()).await.expect("the store opens")
    }

    /// A store whose jobs are retried without a wait.
    pub async fn open_without_backoff(&self) -> Store {
        Store::open(Options { retry: without_backoff(), ..self.options() }).await.expect("the store opens")
    }

    /// A store that seals what it keeps.
    pub async fn open_sealed(&self, key: [u8; 32]) -> Store {
        let master_keys = MasterKeys::new(MasterKey::new(key));
        Store::open(Options { master_keys, ..self.options() }).await.expect("the store opens")
    }

    /// Every file below the folder.
    pub fn files(&self) -> Vec<std::path::PathBuf> {
        let mut out = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() { folders.push(path) } else { out.push(path) }
            }
        }
        out
    }

    /// Every recording on disk, whole or not.
    pub fn recordings(&self) -> Vec<std::path::PathBuf> {
        let blobs = self.folder.path().join("blobs");
        let is_recording = |path: &std::path::PathBuf| path.starts_with(&blobs) && !path.ends_with("hark-store.json");
        self.files().into_iter().filter(is_recording).collect()
    }
}

/// Retries that wait for nothing.
pub fn without_backoff() -> RetryPolicy {
    RetryPolicy { backoff_base: Duration::ZERO, ..RetryPolicy::default() }
}

/// Defines a test that runs on both databases.
macro_rules! on_both {
    ($($(#[$meta:meta])* async fn $name:ident($place:ident: Place) $body:block)+) => {$(
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn test($place: $crate::support::Place) $body

            $(#[$meta])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                test($crate::support::Place::sqlite()).await;
            }

            $(#[$meta])*
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "needs PostgreSQL"]
            async fn postgres() {
                test($crate::support::Place::postgres().await).await;
            }
        }
    )+};
}
pub(crate) use on_both;

pub async fn account(store: &Store, credits: i64) -> AccountId {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let email = format!("someone{}@example.org", NEXT.fetch_add(1, Ordering::Relaxed));
    let new = NewAccount { credits, ..NewAccount::new(email, Plan::Pro) };
    store.accounts().create(&new).await.expect("an account can be made").id
}

/// The claim of a request that is new.
pub fn new_claim(found: Idempotency) -> KeyClaim {
    match found {
        Idempotency::New(claim) => claim,
        other => panic!("not new: {other:?}"),
    }
}

pub async fn upload(store: &Store, account: AccountId, bytes: &[u8]) -> Blob {
    let mut upload = store.recordings().upload(account).await.expect("an upload begins");
    upload.write(Bytes::copy_from_slice(bytes)).await.expect("bytes are taken");
    upload.finish().await.expect("the upload is durable")
}

/// A job of an account over a short recording that costs `hold` credits.
pub async fn new_job(store: &Store, owner: &Owner, hold: i64) -> NewJob {
    let account = match owner {
        Owner::Account(id) => *id,
        Owner::Anonymous(_) => store.anonymous_account(),
    };
    NewJob {
        owner: owner.clone(),
        transcript: NewTranscript {
            title: "Monday meeting".into(),
            source_type: "api".into(),
            language: "auto".into(),
            model: "large-v3-turbo".into(),
        },
        payload: r#"{"diarize":true}"#.into(),
        needs: Vec::new(),
        blob: upload(store, account, b"RIFF a recording").await,
        seconds: 90.5,
        minutes: 2,
        hold,
        lane: Lane::Interactive,
        key: None,
        max_live: None,
        max_queued: None,
        anonymous_limit: None,
        max_storage: None,
        idempotency: None,
        webhook: None,
    }
}

/// Accepts a job of the account that holds `hold` credits.
pub async fn accept(store: &Store, account: AccountId, hold: i64) -> (TranscriptId, JobId) {
    let job = new_job(store, &Owner::Account(account), hold).await;
    match store.jobs().accept(job).await.expect("the job is accepted") {
        Accepted::New { transcript, job } => (transcript, job),
        Accepted::Repeat { .. } => panic!("a job without an idempotency key can't be a repeat"),
    }
}

pub const LEASE: Duration = Duration::from_secs(30);

pub async fn claim(store: &Store) -> Job {
    store.jobs().claim_any("worker", LEASE).await.expect("claiming works").expect("a job waits")
}

/// What an engine might have heard.
pub fn result() -> TranscriptionResult {
    let word = |word: &str, start: f64| Word { word: word.into(), start, end: start + 0.4, confidence: 0.9 };
    TranscriptionResult {
        text: "Good morning everyone. Shall we begin?".into(),
        language: "en".into(),
        duration: 90.5,
        segments: vec![
            Segment {
                start: 0.0,
                end: 2.0,
                text: "Good morning everyone.".into(),
                speaker: Some("SPEAKER_00".into()),
                language: Some("en".into()),
                overlapping_speakers: Vec::new(),
                confidence: 0.95,
                words: vec![word("Good", 0.0), word("morning", 0.5), word("everyone.", 1.0)],
            },
            Segment {
                start: 2.5,
                end: 4.0,
                text: "Shall we begin?".into(),
                speaker: Some("SPEAKER_01".into()),
                language: None,
                overlapping_speakers: vec!["SPEAKER_00".into()],
                confidence: 0.85,
                words: vec![word("Shall", 2.5), word("we", 3.0), word("begin?", 3.5)],
            },
        ],
        speakers: vec!["SPEAKER_00".into(), "SPEAKER_01".into()],
        model: "whisper-large-v3-turbo".into(),
        warnings: Vec::new(),
    }
}

/// A completed transcript of the account.
pub async fn completed(store: &Store, account: AccountId) -> TranscriptId {
    accept(store, account, 0).await;
    let job = claim(store).await;
    store.jobs().complete(&job.lease, &result(), 0, true).await.expect("the lease stands");
    job.lease.transcript.unwrap()
}

/// Fails with every account that does not add up.
pub async fn assert_balanced(store: &Store) {
    assert_eq!(store.ledger().check().await.expect("the ledger can be read"), []);
}
