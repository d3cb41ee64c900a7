//! A request that waits for its job.

use std::time::Duration;

use hark_api::{ApiError, ErrorKind};
use tokio::time::Instant;

use crate::app::{App, Role};
use crate::error::Failure;
use crate::queue::Waiter;

/// Poll interval of a waiting request: changes of this process wake it, changes of others may not.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
const REMOTE_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How far a job is.
pub(crate) enum JobState<T> {
    Queued,
    Running,
    /// It was completed or has failed.
    Ended(T),
}

/// Waits until a job has ended. `what` is the work in words, `goes_on` what becomes of it when the wait ends first.
pub(crate) async fn wait<T, Look: Future<Output = Result<JobState<T>, Failure>>>(
    app: &App,
    waiter: &Waiter,
    what: &str,
    goes_on: &str,
    look: impl Fn() -> Look,
) -> Result<T, Failure> {
    let deadline = Instant::now() + app.config.transcribe_timeout.duration();
    let poll_interval = if app.role == Role::Account { REMOTE_POLL_INTERVAL } else { POLL_INTERVAL };
    loop {
        let changed = waiter.changed();
        match look().await? {
            JobState::Ended(ended) => return Ok(ended),
            // This process starts no more jobs; the next one will.
            JobState::Queued if app.is_draining() => {
                let message = format!("the server is going down before the {what} began: {goes_on}");
                return Err(ApiError::new(ErrorKind::ShuttingDown, message).retry_after(30).into());
            }
            JobState::Queued | JobState::Running => {}
        }
        if Instant::now() >= deadline {
            let message = format!("the {what} takes longer than this request may wait: {goes_on}");
            return Err(Failure::new(ErrorKind::Timeout, message));
        }
        let until = deadline.min(Instant::now() + poll_interval);
        let _ = tokio::time::timeout_at(until, changed).await;
    }
}
