//! `/v1/admin/accounts`: all accounts, their plans and their credits.

use axum::Json as Answer;
use axum::extract::State;
use hark_api::{Account, AccountAdjustment, AccountList};
use hark_store::{AccountFilter, AccountId, Adjustment, Error, Plan};
use serde::Deserialize;
use utoipa::IntoParams;

use super::Admin;
use crate::app::App;
use crate::audit;
use crate::error::Failure;
use crate::extract::{Json, Path, Query};
use crate::routes::account::wire_account;
use crate::routes::paging::{check_page, first_page, page_size};
use crate::routes::{AnyError, Forbidden, Invalid, Missing, Unauthorized};

/// The longest search, in characters: no address is longer.
const MAX_QUERY: usize = 254;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AccountsQuery {
    /// Part of the email address, in any case.
    #[param(max_length = 254)]
    q: Option<String>,
    /// Which page, from 1.
    #[serde(default = "first_page")]
    #[param(minimum = 1, default = 1)]
    page: i64,
    /// Accounts a page.
    #[serde(default = "page_size")]
    #[param(minimum = 1, maximum = 100, default = 20)]
    per_page: i64,
}

/// All accounts
#[utoipa::path(get, path = "/v1/admin/accounts", tag = "administration", operation_id = "adminAccounts", params(AccountsQuery),
    responses((status = 200, body = AccountList), Invalid, Unauthorized, Forbidden, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn list(
    State(app): State<App>,
    _: Admin,
    Query(query): Query<AccountsQuery>,
) -> Result<Answer<AccountList>, Failure> {
    check_page(query.page, query.per_page)?;
    if query.q.as_ref().is_some_and(|part| part.chars().count() > MAX_QUERY) {
        return Err(Failure::invalid(format!("`q` has at most {MAX_QUERY} characters")));
    }
    let email = query.q.as_deref().map(str::trim).filter(|part| !part.is_empty());
    let filter = AccountFilter { email, page: query.page, per_page: query.per_page };
    let found = app.store.accounts().page(&filter).await?;
    let accounts = found.accounts.into_iter().map(|listed| hark_api::ListedAccount {
        account: wire_account(listed.account),
        transcripts: listed.transcripts,
    });
    Ok(Answer(AccountList {
        accounts: accounts.collect(),
        total: found.total,
        page: query.page,
        per_page: query.per_page,
    }))
}

/// Change the plan or the credits of an account
///
/// All of it is done, or nothing.
#[utoipa::path(patch, path = "/v1/admin/accounts/{id}", tag = "administration", operation_id = "adminChangeAccount",
    params(("id" = i64, Path, description = "the account's number")), request_body = AccountAdjustment,
    responses((status = 200, body = Account), Invalid, Unauthorized, Forbidden, Missing, AnyError),
    security(("bearer" = []), ("session" = [])))]
pub(crate) async fn change(
    State(app): State<App>,
    admin: Admin,
    Path(id): Path<i64>,
    Json(given): Json<AccountAdjustment>,
) -> Result<Answer<Account>, Failure> {
    given.check()?;
    let plan = given.plan.as_deref().map(|name| match name.parse() {
        Ok(Plan::Anonymous) | Err(_) => Err(Failure::invalid("`plan` is one of free, pro, business and enterprise")),
        Ok(plan) => Ok(plan),
    });
    let adjustment = Adjustment {
        plan: plan.transpose()?,
        plan_active: given.is_plan_active,
        credits: given.credits.unwrap_or(0),
        note: given.note.unwrap_or_default().trim().to_owned(),
    };
    let by = admin.audit(audit::ACCOUNT_CHANGED);
    let changed = app.store.accounts().audited(&by).adjust(AccountId(id), &adjustment).await;
    let changed = changed.map_err(|error| match error {
        Error::NotEnoughCredits { have, .. } => {
            Failure::invalid(format!("`credits` would leave less than nothing: the account has {have}"))
        }
        Error::Conflict(why) => Failure::invalid(why),
        error => error.into(),
    })?;
    app.credentials.invalidate_account(changed.id);
    tracing::info!(account = %changed.id, by = %admin.account(), "account.changed");
    Ok(Answer(wire_account(changed)))
}
