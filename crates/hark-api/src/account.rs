//! Accounts, credits, usage and private cloud.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{DateTime, Password};

/// The caller's account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Account {
    /// Its number.
    pub id: i64,
    /// Where mail goes.
    pub email: String,
    /// free, pro, business or enterprise.
    pub plan: String,
    /// Whether a paid plan is active.
    pub is_plan_active: bool,
    /// Minutes of audio left.
    pub credits: i64,
    /// When the plan is paid next.
    pub next_billing_date: Option<DateTime>,
    /// The language of mails and pages.
    pub lang: String,
    /// Whether the address was confirmed.
    pub is_confirmed: bool,
    /// Whether it manages others.
    pub is_admin: bool,
    /// When it was made.
    pub created_at: DateTime,
    /// Which mails the owner wants.
    pub email_preferences: EmailPreferences,
}

/// Which mails an account wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EmailPreferences {
    /// Offers.
    pub marketing: bool,
    /// The newsletter.
    pub newsletter: bool,
    /// What is new.
    pub product_updates: bool,
    /// Credits running out.
    pub usage_alerts: bool,
}

/// Preferences to change; those left out stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EmailPreferencesUpdate {
    /// Offers.
    pub marketing: Option<bool>,
    /// The newsletter.
    pub newsletter: Option<bool>,
    /// What is new.
    pub product_updates: Option<bool>,
    /// Credits running out.
    pub usage_alerts: Option<bool>,
}

/// The body of `PUT /v1/account`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountUpdate {
    /// Preferences to change.
    #[serde(deserialize_with = "crate::object::object")]
    pub email_preferences: EmailPreferencesUpdate,
}

/// What `PUT /v1/account` did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountUpdated {
    /// Always true.
    pub ok: bool,
    /// The preferences that were given.
    pub updated: Vec<String>,
}

/// The body of `DELETE /v1/account`: what shows that it is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountDeletion {
    /// The account's password, where it has one.
    pub password: Option<Password>,
    /// The account's email address, where it has no password.
    #[schema(max_length = 254)]
    pub confirmation: Option<String>,
}

/// A line of the account's ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerEntry {
    /// Its number.
    pub id: i64,
    /// When it was posted.
    pub at: DateTime,
    /// grant, hold, release, charge, refund or adjust.
    pub kind: String,
    /// Credits; what is taken is negative.
    pub amount: i64,
    /// What it is about.
    pub reference: Option<String>,
    /// Why, for people.
    pub note: String,
}

/// `GET /v1/account/ledger`: a page of the account's ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LedgerPage {
    /// Newest first.
    pub entries: Vec<LedgerEntry>,
    /// How many there are on all pages.
    pub total: i64,
    /// Which page this is, from 1.
    pub page: i64,
    /// Entries a page.
    pub per_page: i64,
}

/// `GET /v1/credits`: of an account, or of an address without one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Credits {
    /// With a credential.
    Account(AccountCredits),
    /// Without.
    Anonymous(AnonymousCredits),
}

/// What an account has left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AccountCredits {
    /// free, pro, business or enterprise.
    pub plan: String,
    /// Minutes of audio left.
    pub credits: i64,
    /// Whether a paid plan is active.
    pub is_active: bool,
}

/// What an address without an account has left today (UTC), in transcriptions or in minutes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AnonymousCredits {
    /// How much a day.
    pub daily_limit: u64,
    /// How much of it is gone.
    pub used_today: u64,
    /// How much is left.
    pub remaining_today: u64,
}

/// `GET /v1/usage`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Usage {
    /// Days looked at, today included.
    pub period_days: u32,
    /// All of them together.
    pub summary: UsageSummary,
    /// Day by day, oldest first; days without use are left out.
    pub daily: Vec<DailyUsage>,
}

/// Usage of a period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageSummary {
    /// Completed transcripts.
    pub total_transcripts: i64,
    /// Seconds of audio.
    pub total_duration_seconds: f64,
    /// Words recognized.
    pub total_words: i64,
    /// Credits the account has now.
    pub credits_remaining: i64,
    /// free, pro, business or enterprise.
    pub plan: String,
}

/// Usage of one day.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DailyUsage {
    /// The day in UTC.
    #[schema(format = Date)]
    pub date: String,
    /// Completed transcripts.
    pub transcripts: i64,
    /// Seconds of audio.
    pub duration_seconds: f64,
    /// Words recognized.
    pub words: i64,
}

/// `GET /v1/cloud`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CloudInstances {
    /// The nodes that serve this account alone.
    pub instances: Vec<CloudInstance>,
}

/// A node dedicated to an account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CloudInstance {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub region: String,
    /// What it is doing.
    pub status: String,
    /// What computes in it.
    pub gpu: String,
    /// Where it is reached.
    pub base_url: String,
    /// When it was made.
    pub created_at: DateTime,
}
