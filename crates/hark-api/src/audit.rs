//! The audit log.

use hark_transcript::DateTime;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that was done to the account, or by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEvent {
    /// Its number; later ones are higher.
    pub id: i64,
    /// When it was done.
    pub at: DateTime,
    /// What was done, such as `session.created` or `key.revoked`.
    pub event: String,
    /// Who did it: `account`, `key`, `operator` (whoever runs the server), `admin` (an account that manages others) or `visitor` (somebody who was not let in).
    pub actor: String,
    /// The number of the key, token or session that was used.
    pub key_id: Option<i64>,
    /// Where it came from, as long as that is kept.
    pub address: Option<String>,
    /// What it was done to, such as `key 7`.
    pub subject: String,
    /// More about it.
    pub detail: String,
    /// The account that it is about; only where the events of all accounts are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_id: Option<i64>,
}

/// A page of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditLog {
    /// Newest first.
    pub events: Vec<AuditEvent>,
    /// How many there are on all pages.
    pub total: i64,
    /// Which page this is, from 1.
    pub page: i64,
    /// Events a page.
    pub per_page: i64,
}
