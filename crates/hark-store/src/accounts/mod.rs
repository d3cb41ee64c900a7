//! Accounts, which own all other data.

pub(crate) mod manage;
pub(crate) mod plan;
pub(crate) mod usage;

use serde::{Deserialize, Serialize};

use crate::accounts::plan::Plan;
use crate::audit::{self, NewAudit, audited};
use crate::clock::Micros;
use crate::db::{Db, Row, Tx, args};
use crate::error::{Error, Result};
use crate::ids::AccountId;
use crate::jobs::product::Product;
use crate::ledger::{self, EntryKind};
use crate::{BlobKey, Change, Store};

/// Accounts and their usage.
#[derive(Debug, Clone, Copy)]
pub struct Accounts<'a> {
    pub(crate) store: &'a Store,
    /// Written in the transaction of the next change.
    pub(crate) audit: Option<&'a NewAudit>,
}

audited!(Accounts);

/// An account as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// Its email address, as typed.
    pub email: String,
    /// Its plan.
    pub plan: Plan,
    /// Whether the plan is in force.
    pub plan_active: bool,
    /// Its balance: the sum of its ledger.
    pub credits: i64,
    /// When the plan is billed next.
    pub next_billing_at: Option<Micros>,
    /// Language of mails and pages.
    pub lang: String,
    /// Whether the address was confirmed.
    pub is_confirmed: bool,
    /// Whether it may manage other accounts.
    pub is_admin: bool,
    /// Which emails it wants.
    pub email_preferences: EmailPreferences,
    /// When it was created.
    pub created_at: Micros,
}

impl Account {
    /// Whether it may use paid features.
    pub fn is_paid(&self) -> bool {
        self.plan.is_paid() && self.plan_active
    }
}

/// Which emails an account wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmailPreferences {
    /// Offers.
    pub marketing: bool,
    /// News.
    pub newsletter: bool,
    /// What changed in the product.
    pub product_updates: bool,
    /// Credits running out.
    pub usage_alerts: bool,
}

impl Default for EmailPreferences {
    /// Only usage alerts.
    fn default() -> Self {
        EmailPreferences { marketing: false, newsletter: false, product_updates: false, usage_alerts: true }
    }
}

/// A new account.
#[derive(Debug, Clone)]
pub struct NewAccount {
    /// Its email address, unique ignoring case.
    pub email: String,
    /// The hash of its password, if it has one; opaque here.
    pub password_hash: Option<String>,
    /// Its plan.
    pub plan: Plan,
    /// Initial credits, posted as a grant.
    pub credits: i64,
    /// Language of mails and pages.
    pub lang: String,
    /// Whether the address needs no confirmation.
    pub is_confirmed: bool,
    /// Whether it may manage other accounts.
    pub is_admin: bool,
}

impl NewAccount {
    /// A confirmed account without a password, with the initial credits of its plan.
    pub fn new(email: impl Into<String>, plan: Plan) -> NewAccount {
        NewAccount {
            email: email.into(),
            password_hash: None,
            plan,
            credits: plan.initial_credits(),
            lang: "en".into(),
            is_confirmed: true,
            is_admin: false,
        }
    }
}

/// Changes to an account; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct AccountChange {
    /// The hash of a new password.
    pub password_hash: Option<String>,
    /// The new plan.
    pub plan: Option<Plan>,
    /// Whether the plan is in force.
    pub plan_active: Option<bool>,
    /// When the plan is billed next; `Some(None)` is never.
    pub next_billing_at: Option<Option<Micros>>,
    /// Language of mails and pages.
    pub lang: Option<String>,
    /// Whether the address is confirmed.
    pub is_confirmed: Option<bool>,
    /// Whether it may manage other accounts.
    pub is_admin: Option<bool>,
    /// Which emails it wants.
    pub email_preferences: Option<EmailPreferences>,
}

/// The ledger note of the initial credits.
const INITIAL_CREDITS_NOTE: &str = "to begin with";

const COLUMNS: &str =
    "id, email, plan, plan_active, credits, next_billing_at, lang, is_confirmed, is_admin, mail_marketing,
    mail_newsletter, mail_product_updates, mail_usage_alerts, created_at";

fn account(row: &Row) -> Result<Account> {
    Ok(Account {
        id: AccountId(row.get("id")?),
        email: row.get::<Option<String>>("email")?.unwrap_or_default(),
        plan: row.get::<String>("plan")?.parse()?,
        plan_active: row.get("plan_active")?,
        credits: row.get("credits")?,
        next_billing_at: row.get("next_billing_at")?,
        lang: row.get("lang")?,
        is_confirmed: row.get("is_confirmed")?,
        is_admin: row.get("is_admin")?,
        email_preferences: EmailPreferences {
            marketing: row.get("mail_marketing")?,
            newsletter: row.get("mail_newsletter")?,
            product_updates: row.get("mail_product_updates")?,
            usage_alerts: row.get("mail_usage_alerts")?,
        },
        created_at: row.get("created_at")?,
    })
}

/// An account that exists.
async fn find(tx: &mut Tx, id: AccountId) -> Result<Account> {
    let sql = format!("SELECT {COLUMNS} FROM accounts WHERE id = $1");
    account(&tx.one(&sql, args![id]).await?)
}

/// The `email_key` of the anonymous account; no email address, since it has no @.
const ANONYMOUS: &str = "anonymous";

/// The account that anonymous transcripts belong to; created if missing.
pub(crate) async fn anonymous_account(db: &Db, now: Micros) -> Result<AccountId> {
    let select = "SELECT id FROM accounts WHERE email_key = $1";
    // Look first: an insert that does nothing still consumes an id.
    if let Some(row) = db.optional(select, args![ANONYMOUS]).await? {
        return Ok(AccountId(row.get("id")?));
    }
    let mut tx = db.begin().await?;
    let new = NewAccount { email: String::new(), ..NewAccount::new("", Plan::Anonymous) };
    insert(&mut tx, &new, ANONYMOUS, now).await?;
    let row = tx.one(select, args![ANONYMOUS]).await?;
    tx.commit().await?;
    Ok(AccountId(row.get("id")?))
}

/// Inserts an account unless its email address has one; returns its id if it was inserted.
async fn insert(tx: &mut Tx, new: &NewAccount, email_key: &str, now: Micros) -> Result<Option<AccountId>> {
    let mail = EmailPreferences::default();
    let row = tx
        .optional(
            "INSERT INTO accounts (email, email_key, password_hash, plan, plan_active, credits, lang, is_confirmed, is_admin,
                 mail_marketing, mail_newsletter, mail_product_updates, mail_usage_alerts, created_at)
             VALUES ($1, $2, $3, $4, $5, 0, $6, $7, $8, $9, $10, $11, $12, $13)
             ON CONFLICT (email_key) DO NOTHING RETURNING id",
            args![
                &new.email,
                email_key,
                new.password_hash.as_deref(),
                new.plan.name(),
                true,
                &new.lang,
                new.is_confirmed,
                new.is_admin,
                mail.marketing,
                mail.newsletter,
                mail.product_updates,
                mail.usage_alerts,
                now
            ],
        )
        .await?;
    row.map(|row| Ok(AccountId(row.get("id")?))).transpose()
}

fn email_key(email: &str) -> Result<String> {
    let key = email.trim().to_lowercase();
    if key.contains('@') { Ok(key) } else { Err(Error::Conflict("an email address has an @")) }
}

impl Accounts<'_> {
    /// Creates an account; [`Error::Conflict`] when its email address has one.
    pub async fn create(self, new: &NewAccount) -> Result<Account> {
        let now = self.store.now();
        let key = email_key(&new.email)?;
        let mut tx = self.store.db().begin().await?;
        let id = insert(&mut tx, new, &key, now).await?.ok_or(Error::Conflict("this email address has an account"))?;
        if new.credits != 0 {
            ledger::post(&mut tx, id, EntryKind::Grant, new.credits, None, INITIAL_CREDITS_NOTE, now).await?;
        }
        let account = find(&mut tx, id).await?;
        let entry = self.audit.map(|entry| NewAudit { account: Some(id), ..entry.clone() });
        audit::write_act(&mut tx, entry.as_ref(), "", now).await?;
        tx.commit().await?;
        Ok(account)
    }

    /// An account by its id.
    pub async fn get(self, id: AccountId) -> Result<Account> {
        let sql = format!("SELECT {COLUMNS} FROM accounts WHERE id = $1");
        account(&self.store.db().optional(&sql, args![id]).await?.ok_or(Error::NotFound("account"))?)
    }

    /// An account by its email address, ignoring case.
    pub async fn by_email(self, email: &str) -> Result<Account> {
        let key = email_key(email)?;
        let sql = format!("SELECT {COLUMNS} FROM accounts WHERE email_key = $1");
        account(&self.store.db().optional(&sql, args![&key]).await?.ok_or(Error::NotFound("account"))?)
    }

    /// The hash of an account's password; `None` when it has none.
    pub async fn password_hash(self, id: AccountId) -> Result<Option<String>> {
        let row = self.store.db().optional("SELECT password_hash FROM accounts WHERE id = $1", args![id]).await?;
        row.ok_or(Error::NotFound("account"))?.get("password_hash")
    }

    /// Every account but the anonymous one, oldest first.
    pub async fn list(self) -> Result<Vec<Account>> {
        let sql = format!("SELECT {COLUMNS} FROM accounts WHERE email_key <> $1 ORDER BY id");
        self.store.db().all(&sql, args![ANONYMOUS]).await?.iter().map(account).collect()
    }

    /// Changes an account and returns the changed account.
    pub async fn change(self, id: AccountId, change: &AccountChange) -> Result<Account> {
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, id).await?;
        let old = find(&mut tx, id).await?;
        let mail = change.email_preferences.unwrap_or(old.email_preferences);
        tx.execute(
            "UPDATE accounts SET plan = $1, plan_active = $2, next_billing_at = $3, lang = $4, is_confirmed = $5, is_admin = $6,
                 mail_marketing = $7, mail_newsletter = $8, mail_product_updates = $9, mail_usage_alerts = $10
             WHERE id = $11",
            args![
                change.plan.unwrap_or(old.plan).name(),
                change.plan_active.unwrap_or(old.plan_active),
                change.next_billing_at.unwrap_or(old.next_billing_at),
                change.lang.as_ref().unwrap_or(&old.lang),
                change.is_confirmed.unwrap_or(old.is_confirmed),
                change.is_admin.unwrap_or(old.is_admin),
                mail.marketing,
                mail.newsletter,
                mail.product_updates,
                mail.usage_alerts,
                id
            ],
        )
        .await?;
        if let Some(hash) = &change.password_hash {
            tx.execute("UPDATE accounts SET password_hash = $1 WHERE id = $2", args![hash, id]).await?;
        }
        let changed = find(&mut tx, id).await?;
        audit::write_act(&mut tx, self.audit, "", self.store.now()).await?;
        tx.commit().await?;
        Ok(changed)
    }

    /// Marks an account's email address as confirmed and grants the initial credits, once.
    pub async fn confirm(self, id: AccountId, credits: i64) -> Result<Account> {
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, id).await?;
        tx.execute("UPDATE accounts SET is_confirmed = $1 WHERE id = $2", args![true, id]).await?;
        let sql = "SELECT id FROM ledger WHERE account_id = $1 AND kind = $2 AND note = $3 LIMIT 1";
        let granted = tx.optional(sql, args![id, EntryKind::Grant.name(), INITIAL_CREDITS_NOTE]).await?;
        if credits > 0 && granted.is_none() {
            let reference = format!("beginning:{id}");
            ledger::post(&mut tx, id, EntryKind::Grant, credits, Some(&reference), INITIAL_CREDITS_NOTE, now).await?;
        }
        let confirmed = find(&mut tx, id).await?;
        audit::write_act(&mut tx, self.audit, "", now).await?;
        tx.commit().await?;
        Ok(confirmed)
    }

    /// Deletes an account with all its rows, recordings and its data key. Returns the recordings removed; what can't be
    /// removed now is left to the sweep.
    pub async fn delete(self, id: AccountId) -> Result<Vec<BlobKey>> {
        if id == self.store.anonymous_account() {
            return Err(Error::Conflict("the anonymous account can't be deleted"));
        }
        let mut tx = self.store.db().begin().await?;
        // The account is locked first, as in every transaction; nothing can be added to it from here on.
        let lock = if tx.is_postgres() { " FOR UPDATE" } else { "" };
        let sql = format!("SELECT id FROM accounts WHERE id = $1{lock}");
        tx.optional(&sql, args![id]).await?.ok_or(Error::NotFound("account"))?;
        // Running jobs of other processes stop when they renew their lease, those of this process at once.
        let running = tx
            .all("DELETE FROM jobs WHERE account_id = $1 RETURNING id, kind, transcript_id, enhancement_id", args![id])
            .await?;
        // Before their pieces, as where one is added.
        tx.execute("DELETE FROM uploads WHERE account_id = $1", args![id]).await?;
        let recordings = tx.execute("UPDATE blobs SET state = 'deleting' WHERE account_id = $1", args![id]).await?;
        // The audit log outlives the account, but without network addresses.
        tx.execute("UPDATE audit SET address = NULL WHERE account_id = $1", args![id]).await?;
        tx.execute("DELETE FROM accounts WHERE id = $1", args![id]).await?;
        let entry = self.audit.map(|entry| match entry.detail.is_empty() {
            true => entry.clone().with_detail(format!("{recordings} recordings")),
            false => entry.clone(),
        });
        audit::write_act(&mut tx, entry.as_ref(), "", self.store.now()).await?;
        tx.commit().await?;
        self.store.data_keys().forget(id);
        for row in running {
            self.store.notify(Change::Stopped(crate::JobId(row.get("id")?)));
            if let Some(product) = Product::of_job(&row)? {
                self.store.notify(product.finished());
            }
        }
        Ok(self.store.recordings().remove_deleted_or_defer(Some(id), None).await)
    }
}
