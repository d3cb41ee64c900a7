//! How jobs are retried, as an operator may set it.

use hark_store::RetryPolicy;
use serde::Deserialize;

use super::Seconds;

/// The `[server.jobs]` table.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobSettings {
    /// Attempts before a job has failed.
    pub max_attempts: u32,
    /// Seconds to wait after the first fault; the wait doubles with each.
    pub backoff_base: Seconds,
    /// The longest such wait.
    pub backoff_max: Seconds,
    /// How long a job waits for what is unavailable (storage, a model, a decoder) before it has failed.
    pub unavailable_for: Seconds,
    /// How long the recording of a job that failed through no fault of its sender is kept to be retried, where `keep_audio` would not keep it.
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
    /// What makes no sense, in words for the operator.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=100).contains(&self.max_attempts) {
            return Err("`jobs.max_attempts` must be a number from 1 to 100".to_owned());
        }
        if self.backoff_max.0 > 3600.0 || self.backoff_base.0 > self.backoff_max.0 {
            return Err("`jobs.backoff_max` must be at least `jobs.backoff_base` and at most 3600 seconds".to_owned());
        }
        Ok(())
    }

    /// The same as the store takes it.
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
