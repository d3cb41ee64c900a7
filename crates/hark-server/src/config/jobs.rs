//! The `[server.jobs]` table: how jobs are retried.

use hark_store::RetryPolicy;
use serde::Deserialize;

use super::Seconds;

/// Retry settings of jobs.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobSettings {
    /// Attempts after which a job fails.
    pub max_attempts: u32,
    /// Backoff in seconds after the first fault; it doubles with every further one.
    pub backoff_base: Seconds,
    /// Maximum backoff in seconds.
    pub backoff_max: Seconds,
    /// Seconds that a job waits for an unavailable dependency (storage, a model, a decoder) before it fails.
    pub unavailable_for: Seconds,
    /// Seconds that the recording of a job that failed by no fault of its sender is kept for a retry if `keep_audio` is off.
    pub failed_retention: Seconds,
}

impl Default for JobSettings {
    fn default() -> Self {
        let policy = RetryPolicy::default();
        JobSettings {
            max_attempts: policy.max_attempts as u32,
            backoff_base: Seconds(policy.backoff_base.as_secs_f64()),
            backoff_max: Seconds(policy.backoff_max.as_secs_f64()),
            unavailable_for: Seconds(policy.unavailable_for.as_secs_f64()),
            failed_retention: Seconds(7.0 * 86_400.0),
        }
    }
}

impl JobSettings {
    /// Validates the settings; the error is for the operator.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=100).contains(&self.max_attempts) {
            return Err("`jobs.max_attempts` must be a number from 1 to 100".to_owned());
        }
        if self.backoff_max.0 > 3600.0 || self.backoff_base.0 > self.backoff_max.0 {
            return Err("`jobs.backoff_max` must be at least `jobs.backoff_base` and at most 3600 seconds".to_owned());
        }
        Ok(())
    }

    /// The settings as a retry policy of the store.
    pub fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            max_attempts: i64::from(self.max_attempts),
            backoff_base: self.backoff_base.duration(),
            backoff_max: self.backoff_max.duration(),
            unavailable_for: self.unavailable_for.duration(),
            ..RetryPolicy::default()
        }
    }
}
