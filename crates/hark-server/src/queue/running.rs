//! Jobs that run in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use hark_speech::CancelToken;
use hark_store::JobId;

/// The jobs that run here, with the means to cancel them; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<Mutex<HashMap<JobId, CancelToken>>>);

impl Running {
    pub(crate) fn add(&self, job: JobId, cancel: &CancelToken) {
        self.lock().insert(job, cancel.clone());
    }

    pub(crate) fn remove(&self, job: JobId) {
        self.lock().remove(&job);
    }

    /// Cancels a job if it runs here.
    pub(crate) fn cancel(&self, job: JobId) {
        if let Some(cancel) = self.lock().get(&job) {
            cancel.cancel();
        }
    }

    pub(crate) fn cancel_all(&self) {
        self.lock().values().for_each(CancelToken::cancel);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, CancelToken>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
