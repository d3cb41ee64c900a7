//! The account, its usage and its private cloud.

use axum::Json as Answer;
use axum::extract::State;
use hark_api::{
    Account, AccountUpdate, AccountUpdated, CloudInstance, CloudInstances, DailyUsage, DateTime, EmailPreferences,
    ErrorKind, LedgerEntry, LedgerPage, Usage, UsageSummary,
};
use hark_store::AccountChange;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::error::Failure;
use crate::extract::{Json, Query};
use crate::middleware::Identity;
use crate::routes::paging::{PageQuery, check_page};
use crate::routes::{AnyError, Invalid, Payment, Unauthorized};

/// The account
#[utoipa::path(get, path = "/v1/account", tag = "account", operation_id = "showAccount",
    responses((status = 200, body = Account), Unauthorized, AnyError), security(("bearer" = [])))]
pub(crate) async fn show(State(app): State<App>, identity: Identity) -> Result<Answer<Account>, Failure> {
    Ok(Answer(wire_account(app.store.accounts().get(identity.account()).await?)))
}

/// The account as its owner sees it.
pub(crate) fn wire_account(account: hark_store::Account) -> Account {
    let mails = account.email_preferences;
    Account {
        id: account.id.0,
        is_plan_active: account.is_paid(),
        plan: account.plan.name().to_owned(),
        credits: account.credits,
        next_billing_date: account.next_billing_at.map(DateTime),
        is_confirmed: account.is_confirmed,
        is_admin: account.is_admin,
        created_at: DateTime(account.created_at),
        email_preferences: EmailPreferences {
            marketing: mails.marketing,
            newsletter: mails.newsletter,
            product_updates: mails.product_updates,
            usage_alerts: mails.usage_alerts,
        },
        email: account.email,
        lang: account.lang,
    }
}

/// Choose which mails to get
#[utoipa::path(put, path = "/v1/account", tag = "account", operation_id = "updateAccount", request_body = AccountUpdate,
    responses((status = 200, body = AccountUpdated), Invalid, Unauthorized, AnyError), security(("bearer" = [])))]
pub(crate) async fn update(
    State(app): State<App>,
    identity: Identity,
    Json(update): Json<AccountUpdate>,
) -> Result<Answer<AccountUpdated>, Failure> {
    let mut mails = app.store.accounts().get(identity.account()).await?.email_preferences;
    let given = update.email_preferences;
    let mut updated = Vec::new();
    let fields = [
        ("marketing", given.marketing, &mut mails.marketing),
        ("newsletter", given.newsletter, &mut mails.newsletter),
        ("product_updates", given.product_updates, &mut mails.product_updates),
        ("usage_alerts", given.usage_alerts, &mut mails.usage_alerts),
    ];
    for (name, given, place) in fields {
        if let Some(given) = given {
            *place = given;
            updated.push(name.to_owned());
        }
    }
    let change = AccountChange { email_preferences: Some(mails), ..AccountChange::default() };
    app.store.accounts().change(identity.account(), &change).await?;
    Ok(Answer(AccountUpdated { ok: true, updated }))
}

/// Where the credits came from and went
///
/// Grants, holds for work that began, their releases, charges and refunds. Their sum is the balance.
#[utoipa::path(get, path = "/v1/account/ledger", tag = "account", operation_id = "ledger", params(PageQuery),
    responses((status = 200, body = LedgerPage), Invalid, Unauthorized, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn ledger(
    State(app): State<App>,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Result<Answer<LedgerPage>, Failure> {
    check_page(query.page, query.per_page)?;
    let found = app.store.ledger().page(identity.account(), query.page, query.per_page).await?;
    let entries = found.entries.into_iter().map(wire_entry).collect();
    Ok(Answer(LedgerPage { entries, total: found.total, page: query.page, per_page: query.per_page }))
}

/// An entry of the ledger as its owner sees it.
pub(crate) fn wire_entry(entry: hark_store::Entry) -> LedgerEntry {
    LedgerEntry {
        id: entry.id,
        at: DateTime(entry.at),
        kind: entry.kind.name().to_owned(),
        amount: entry.amount,
        reference: entry.reference,
        note: entry.note,
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageQuery {
    /// Days to look at, today (UTC) included.
    #[serde(default = "a_month")]
    #[param(minimum = 1, maximum = 365, default = 30)]
    days: u32,
}

fn a_month() -> u32 {
    30
}

/// What the account used, day by day
#[utoipa::path(get, path = "/v1/usage", tag = "account", operation_id = "usage", params(UsageQuery),
    responses((status = 200, body = Usage), Invalid, Unauthorized, AnyError), security(("bearer" = [])))]
pub(crate) async fn usage(
    State(app): State<App>,
    identity: Identity,
    Query(query): Query<UsageQuery>,
) -> Result<Answer<Usage>, Failure> {
    if !(1..=365).contains(&query.days) {
        return Err(Failure::invalid("`days` must be a number from 1 to 365"));
    }
    let used = app.store.accounts().usage(identity.account(), i64::from(query.days)).await?;
    let account = app.store.accounts().get(identity.account()).await?;
    Ok(Answer(Usage {
        period_days: query.days,
        summary: UsageSummary {
            total_transcripts: used.total_transcripts,
            total_duration_seconds: used.total_duration_seconds,
            total_words: used.total_words,
            credits_remaining: account.credits,
            plan: account.plan.name().to_owned(),
        },
        daily: used
            .daily
            .into_iter()
            .map(|day| DailyUsage {
                date: DateTime(day.day * hark_store::DAY).date(),
                transcripts: day.transcripts,
                duration_seconds: day.duration_seconds,
                words: day.words,
            })
            .collect(),
    }))
}

/// The nodes that serve this account alone
#[utoipa::path(get, path = "/v1/cloud", tag = "account", operation_id = "listCloudInstances",
    responses((status = 200, body = CloudInstances), Unauthorized, Payment, AnyError), security(("bearer" = [])))]
pub(crate) async fn cloud(State(app): State<App>, identity: Identity) -> Result<Answer<CloudInstances>, Failure> {
    let instances = app.store.instances().list(identity.account()).await?;
    // A subscription is a dedicated node, or the plan that includes them.
    if instances.is_empty() && identity.plan() != hark_store::Plan::Enterprise {
        return Err(Failure::new(ErrorKind::PlanNeeded, "private cloud is not in the plan of this account"));
    }
    let instances = instances.into_iter().map(|instance| CloudInstance {
        id: instance.id.0,
        name: instance.about.name,
        region: instance.about.region,
        status: instance.about.status,
        gpu: instance.about.gpu,
        base_url: instance.about.base_url,
        created_at: DateTime(instance.created_at),
    });
    Ok(Answer(CloudInstances { instances: instances.collect() }))
}
