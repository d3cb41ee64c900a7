//! The `[server.integrity]` table.

use serde::Deserialize;

use super::Seconds;

/// When and how much is checked.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Integrity {
    /// Whether this process checks.
    pub enabled: bool,
    /// Seconds from one check to the next.
    pub interval: Seconds,
    /// Recordings that are read each time, chosen at random.
    pub recordings: u32,
}

impl Default for Integrity {
    fn default() -> Self {
        Integrity { enabled: true, interval: Seconds(86_400.0), recordings: 100 }
    }
}
