//! The `[server.enhance]` table.

use std::time::Duration;

use serde::Deserialize;

/// Noise reduction.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EnhanceSettings {
    /// Hours that a result is kept which its request was not sent whole, and one that was asked for without waiting or with an idempotency key.
    pub keep_hours: u32,
}

impl Default for EnhanceSettings {
    fn default() -> Self {
        EnhanceSettings { keep_hours: 24 }
    }
}

impl EnhanceSettings {
    pub(super) fn check(&self) -> Result<(), String> {
        match self.keep_hours {
            1..=8760 => Ok(()),
            _ => Err("`enhance.keep_hours` must be a number from 1 to 8760".to_owned()),
        }
    }

    /// How long a result is kept.
    pub(crate) fn keep(&self) -> Duration {
        Duration::from_secs(u64::from(self.keep_hours) * 3600)
    }
}
