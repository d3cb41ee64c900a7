//! The `[server.integrity]` table.

use serde::Deserialize;

use super::Seconds;

/// Periodic integrity checks of the database and of recordings.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Integrity {
    /// Whether this process runs the checks.
    pub enabled: bool,
    /// Seconds from one check to the next.
    pub interval: Seconds,
    /// Recordings read per check, chosen at random.
    pub recordings: u32,
}

impl Default for Integrity {
    fn default() -> Self {
        Integrity { enabled: true, interval: Seconds(86_400.0), recordings: 100 }
    }
}
