//! Kinds of jobs: how each runs, and how its result is committed. Each kind has a file of its own and a line in [`Kinds::standard`].

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hark_api::Segment;
use hark_speech::CancelToken;
use hark_store::{Job, Lease};

use super::enhancement::Enhancement;
use super::transcription::Transcription;
use crate::app::App;
use crate::queue::Fault;

/// A kind of job.
pub(crate) trait JobKind: Send + Sync + 'static {
    /// Its name in the database.
    fn name(&self) -> &'static str;

    /// Runs the job. It should check `run.cancel` often. A panic counts as an attempt.
    fn run(&self, app: App, run: Arc<Run>) -> BoxFuture<'static, Result<Box<dyn JobResult>, Fault>>;
}

/// The result of a job.
pub(crate) trait JobResult: Send + Sync + 'static {
    /// Commits the result and ends the job in one transaction, if the lease is still valid; retried while the database is unavailable.
    fn commit<'a>(&'a self, app: &'a App, lease: &'a Lease) -> BoxFuture<'a, hark_store::Result<()>>;

    /// Updates metrics and logs after the commit.
    fn committed(&self, app: &App, lease: &Lease, took: Duration);
}

/// One attempt of a job.
pub(crate) struct Run {
    pub(crate) job: Job,
    /// Set when the result is no longer wanted.
    pub(crate) cancel: CancelToken,
    percent: AtomicI64,
    /// The draft of the transcript, until it is written.
    draft: Mutex<Option<Vec<Segment>>>,
}

impl Run {
    pub(super) fn new(job: Job) -> Self {
        Run { job, cancel: CancelToken::default(), percent: AtomicI64::new(0), draft: Mutex::default() }
    }

    /// Sets the progress, 0 to 100; it is written periodically.
    pub(crate) fn set_progress(&self, percent: i64) {
        self.percent.store(percent, Ordering::Relaxed);
    }

    pub(super) fn progress(&self) -> i64 {
        self.percent.load(Ordering::Relaxed)
    }

    /// Sets the draft of the transcript; it is written with the progress.
    pub(crate) fn set_draft(&self, segments: Vec<Segment>) {
        *self.draft.lock().unwrap_or_else(PoisonError::into_inner) = Some(segments);
    }

    pub(super) fn take_draft(&self) -> Option<Vec<Segment>> {
        self.draft.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The kinds that this process can run.
pub(crate) struct Kinds(Vec<Box<dyn JobKind>>);

impl Kinds {
    /// All kinds.
    pub(crate) fn standard() -> Self {
        Kinds(vec![Box::new(Transcription), Box::new(Enhancement)])
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|kind| kind.name()).collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&dyn JobKind> {
        self.0.iter().map(|kind| &**kind).find(|kind| kind.name() == name)
    }
}
