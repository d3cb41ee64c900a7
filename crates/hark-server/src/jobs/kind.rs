//! What a kind of job is: how it runs, and how its result is committed. Each kind has a file of its own and a line in [`Kinds::standard`].

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hark_speech::CancelToken;
use hark_store::{FaultKind, Job, Lease};

use super::transcription::Transcription;
use crate::app::App;
use crate::engine::{Dependency, EngineError};

/// A kind of job.
pub(crate) trait JobKind: Send + Sync + 'static {
    /// Its name in the database.
    fn name(&self) -> &'static str;

    /// Does the work. It should notice soon when `run` is cancelled. A panic counts as an attempt.
    fn run(&self, app: App, run: Arc<Run>) -> BoxFuture<'static, Result<Box<dyn JobResult>, Fault>>;
}

/// What a job has made.
pub(crate) trait JobResult: Send + Sync + 'static {
    /// Writes it and ends the job in one transaction, if the lease still stands; may be called again when the database did not answer.
    fn commit<'a>(&'a self, app: &'a App, lease: &'a Lease) -> BoxFuture<'a, hark_store::Result<()>>;

    /// Counts and logs what was committed.
    fn committed(&self, app: &App, lease: &Lease, took: Duration);
}

/// One attempt of a job.
pub(crate) struct Run {
    pub(crate) job: Job,
    /// Set when nobody wants the result any more.
    pub(crate) cancel: CancelToken,
    percent: AtomicI64,
}

impl Run {
    pub(super) fn new(job: Job) -> Self {
        Run { job, cancel: CancelToken::default(), percent: AtomicI64::new(0) }
    }

    /// Says how far the work is, 0 to 100; it is written now and then.
    pub(crate) fn set_progress(&self, percent: i64) {
        self.percent.store(percent, Ordering::Relaxed);
    }

    pub(super) fn progress(&self) -> i64 {
        self.percent.load(Ordering::Relaxed)
    }
}

/// Why an attempt gave no result.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Whose fault it is.
    pub(crate) kind: FaultKind,
    /// What is away, where something is.
    pub(crate) dependency: Option<Dependency>,
    /// What went wrong: for the log, and for the sender where the fault is the sender's.
    pub(crate) detail: String,
}

impl Fault {
    /// A defect of ours.
    pub(crate) fn internal(detail: impl std::fmt::Display) -> Self {
        Fault { kind: FaultKind::Internal, dependency: None, detail: detail.to_string() }
    }

    /// What the owner of the job is told when it has failed.
    pub(crate) fn reason(&self) -> String {
        match self.kind {
            FaultKind::Input | FaultKind::Credits | FaultKind::Cancelled => self.detail.clone(),
            FaultKind::Internal | FaultKind::Timeout => {
                "the recording could not be transcribed: something went wrong on the server; nothing was charged, and the recording is kept: retry the transcript"
                    .to_owned()
            }
            FaultKind::Unavailable => {
                "the recording could not be transcribed: what the server needs for it was away for too long; nothing was charged, and the recording is kept: retry the transcript later"
                    .to_owned()
            }
        }
    }
}

impl From<EngineError> for Fault {
    fn from(error: EngineError) -> Self {
        let dependency = match &error {
            EngineError::Unavailable { dependency, .. } => Some(*dependency),
            EngineError::ModelMissing(_) | EngineError::UnknownModel(_) | EngineError::NoVoices => {
                Some(Dependency::Engine)
            }
            _ => None,
        };
        Fault { kind: error.fault(), dependency, detail: error.to_string() }
    }
}

impl From<hark_store::Error> for Fault {
    fn from(error: hark_store::Error) -> Self {
        let (kind, dependency) = match &error {
            // A recording that is not where it should be may be back soon, with the folder or bucket that it lies in.
            hark_store::Error::Blob(_) | hark_store::Error::Sealed(_) | hark_store::Error::NotFound("recording") => {
                (FaultKind::Unavailable, Some(Dependency::Recordings))
            }
            other => (other.fault(), None),
        };
        Fault { kind, dependency, detail: error.to_string() }
    }
}

/// The kinds that this process can run.
pub(crate) struct Kinds(Vec<Box<dyn JobKind>>);

impl Kinds {
    /// All kinds there are.
    pub(crate) fn standard() -> Self {
        Kinds(vec![Box::new(Transcription)])
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|kind| kind.name()).collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&dyn JobKind> {
        self.0.iter().map(|kind| &**kind).find(|kind| kind.name() == name)
    }
}
