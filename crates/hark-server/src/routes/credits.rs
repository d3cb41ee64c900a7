//! `GET /v1/credits`: the credits of an account, or the free quota of an address.

use axum::Json;
use axum::extract::State;
use hark_api::{AccountCredits, AnonymousCredits, Credits};
use hark_store::Owner;

use crate::app::App;
use crate::config::LimitUnit;
use crate::error::Failure;
use crate::middleware::Caller;
use crate::routes::{AnyError, Unauthorized};

/// What is left
///
/// With a credential: the account's credits. Without: what the address may still do today.
#[utoipa::path(get, path = "/v1/credits", tag = "account", operation_id = "credits",
    responses((status = 200, body = Credits), Unauthorized, AnyError), security((), ("bearer" = [])))]
pub(crate) async fn credits(State(app): State<App>, caller: Caller) -> Result<Json<Credits>, Failure> {
    match caller.owner() {
        Owner::Account(id) => {
            let account = app.store.accounts().get(id).await?;
            Ok(Json(Credits::Account(AccountCredits {
                plan: account.plan.name().to_owned(),
                credits: account.credits,
                is_active: account.is_paid(),
            })))
        }
        Owner::Anonymous(address) => {
            let used = app.store.addresses().anonymous_use(&address, hark_store::day_of(app.clock.now())).await?;
            let limit = app.config.anonymous.limit;
            let used = match limit.unit {
                LimitUnit::Transcriptions => used.transcriptions,
                LimitUnit::Minutes => used.minutes,
            };
            let daily_limit = if app.config.anonymous.enabled { limit.amount } else { 0 };
            let used_today = used.max(0).unsigned_abs();
            let remaining_today = daily_limit.saturating_sub(used_today);
            Ok(Json(Credits::Anonymous(AnonymousCredits { daily_limit, used_today, remaining_today })))
        }
    }
}
