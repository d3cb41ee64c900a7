//! The `[server.webhooks]` table: whether webhooks are sent, and to which addresses.

use serde::Deserialize;

/// Settings of webhooks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Webhooks {
    /// Whether `webhook_url` is accepted.
    pub enabled: bool,
    /// Whether targets without TLS are allowed.
    pub allow_http: bool,
    /// Whether targets on this machine and its private network are allowed: only if every account is trusted with that.
    pub allow_private: bool,
}
