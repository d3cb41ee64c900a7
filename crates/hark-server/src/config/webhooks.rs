//! The `[server.webhooks]` table.

use serde::Deserialize;

/// Whether and whom the service calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Webhooks {
    /// Whether `webhook_url` is taken at all.
    pub enabled: bool,
    /// Whether calls may go without TLS.
    pub allow_http: bool,
    /// Whether calls may go to this machine and its network: only where every account is trusted with that.
    pub allow_private: bool,
}
