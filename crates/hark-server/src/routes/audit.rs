//! The audit log: of the account, and of all accounts for admins.

use axum::Json as Answer;
use axum::extract::State;
use hark_api::{AuditEvent, AuditLog, DateTime, ErrorKind};
use hark_store::{AccountId, AuditEntry};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::error::Failure;
use crate::extract::Query;
use crate::middleware::Identity;
use crate::routes::paging::{PageQuery, check_page, first_page, page_size};
use crate::routes::{AnyError, Invalid, Unauthorized};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AdminAuditQuery {
    /// Which page, from 1.
    #[serde(default = "first_page")]
    #[param(minimum = 1, default = 1)]
    page: i64,
    /// Events a page.
    #[serde(default = "page_size")]
    #[param(minimum = 1, maximum = 100, default = 20)]
    per_page: i64,
    /// Only what is about this account.
    account: Option<i64>,
}

/// What was done to the account, and by whom
///
/// Sign-ins and failed ones, keys made, rolled over and revoked, passwords, deletions, exports, and what whoever runs the server did.
#[utoipa::path(get, path = "/v1/audit", tag = "account", operation_id = "auditLog", params(PageQuery),
    responses((status = 200, body = AuditLog), Invalid, Unauthorized, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn own(
    State(app): State<App>,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Result<Answer<AuditLog>, Failure> {
    log(&app, Some(identity.account()), query.page, query.per_page, false).await
}

/// What was done to all accounts, for those who manage them
#[utoipa::path(get, path = "/v1/admin/audit", tag = "account", operation_id = "adminAuditLog", params(AdminAuditQuery),
    responses((status = 200, body = AuditLog), Invalid, Unauthorized, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn all(
    State(app): State<App>,
    identity: Identity,
    Query(query): Query<AdminAuditQuery>,
) -> Result<Answer<AuditLog>, Failure> {
    if !identity.is_admin() {
        return Err(Failure::new(ErrorKind::Forbidden, "only an account that manages others may read this"));
    }
    log(&app, query.account.map(AccountId), query.page, query.per_page, true).await
}

async fn log(
    app: &App,
    account: Option<AccountId>,
    page: i64,
    per_page: i64,
    is_admin: bool,
) -> Result<Answer<AuditLog>, Failure> {
    check_page(page, per_page)?;
    let found = app.store.audit().page(account, page, per_page).await?;
    let events = found.entries.into_iter().map(|entry| wire_event(entry, is_admin)).collect();
    Ok(Answer(AuditLog { events, total: found.total, page, per_page }))
}

/// An entry of the audit log in a response.
pub(crate) fn wire_event(entry: AuditEntry, with_account: bool) -> AuditEvent {
    AuditEvent {
        id: entry.id,
        at: DateTime(entry.at),
        event: entry.event,
        actor: entry.actor,
        key_id: entry.key.map(|key| key.0),
        address: entry.address,
        subject: entry.subject,
        detail: entry.detail,
        account_id: entry.account.filter(|_| with_account).map(|account| account.0),
    }
}
