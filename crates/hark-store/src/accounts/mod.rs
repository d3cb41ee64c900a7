//! Accounts: who owns what.

pub(crate) mod plan;
pub(crate) mod usage;

use serde::{Deserialize, Serialize};

use crate::accounts::plan::Plan;
use crate::audit::{self, NewAudit, audited};
use crate::clock::Micros;
use crate::db::{Db, Row, Tx, args};
use crate::error::{Error, Result};
use crate::ids::AccountId;
use crate::ledger::{self, EntryKind};
use crate::{BlobKey, Change, Store};

/// Accounts, their credentials and what they used.
#[derive(Debug, Clone, Copy)]
pub struct Accounts<'a> {
    pub(crate) store: &'a Store,
    /// Written in the transaction of the next act.
    pub(crate) audit: Option<&'a NewAudit>,
}

audited!(Accounts);

/// An account as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// Its address, as it was typed.
    pub email: String,
    /// What it has paid for.
    pub plan: Plan,
    /// Whether the plan is in force.
    pub plan_active: bool,
    /// What is left: the sum of its ledger.
    pub credits: i64,
    /// When the plan is billed next.
    pub next_billing_at: Option<Micros>,
    /// Language of mails and pages.
    pub lang: String,
    /// Whether the address was confirmed.
    pub is_confirmed: bool,
    /// Whether it may manage other accounts.
    pub is_admin: bool,
    /// Which mails it wants.
    pub email_preferences: EmailPreferences,
    /// When it was made.
    pub created_at: Micros,
}

impl Account {
    /// Whether paid features are open to it.
    pub fn is_paid(&self) -> bool {
        self.plan.is_paid() && self.plan_active
    }
}

/// Which mails an account wants.
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
    /// Only what concerns the account's own use.
    fn default() -> Self {
        EmailPreferences { marketing: false, newsletter: false, product_updates: false, usage_alerts: true }
    }
}

/// An account to make.
#[derive(Debug, Clone)]
pub struct NewAccount {
    /// Its address; one account each, whatever the case of its letters.
    pub email: String,
    /// Hash of its password, if it may sign in with one; opaque here.
    pub password_hash: Option<String>,
    /// Its plan.
    pub plan: Plan,
    /// Credits to begin with, posted as a grant.
    pub credits: i64,
    /// Language of mails and pages.
    pub lang: String,
    /// Whether the address needs no confirmation.
    pub is_confirmed: bool,
    /// Whether it may manage other accounts.
    pub is_admin: bool,
}

impl NewAccount {
    /// A confirmed account without a password, with the credits its plan begins with.
    pub fn new(email: impl Into<String>, plan: Plan) -> NewAccount {
        NewAccount {
            email: email.into(),
            password_hash: None,
            plan,
            credits: plan.first_credits(),
            lang: "en".into(),
            is_confirmed: true,
            is_admin: false,
        }
    }
}

/// What to change of an account; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct AccountChange {
    /// A new hash of a password.
    pub password_hash: Option<String>,
    /// Another plan.
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
    /// Which mails it wants.
    pub email_preferences: Option<EmailPreferences>,
}

/// The note of the credits that an account begins with.
const BEGINNING: &str = "to begin with";

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

/// No address is this, since it has no @.
const ANONYMOUS: &str = "anonymous";

/// The account that anonymous transcripts belong to, made when it is not there.
pub(crate) async fn anonymous_account(db: &Db, now: Micros) -> Result<AccountId> {
    let select = "SELECT id FROM accounts WHERE email_key = $1";
    // Not by the insert below alone: even one that does nothing uses up a number.
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

/// Inserts the account unless its address has one; returns its id if it was inserted.
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
    /// Creates an account; [`Error::Conflict`] when its address has one.
    pub async fn create(self, new: &NewAccount) -> Result<Account> {
        let now = self.store.now();
        let key = email_key(&new.email)?;
        let mut tx = self.store.db().begin().await?;
        let id = insert(&mut tx, new, &key, now).await?.ok_or(Error::Conflict("this email address has an account"))?;
        if new.credits != 0 {
            ledger::post(&mut tx, id, EntryKind::Grant, new.credits, None, BEGINNING, now).await?;
        }
        let sql = format!("SELECT {COLUMNS} FROM accounts WHERE id = $1");
        let account = account(&tx.one(&sql, args![id]).await?)?;
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

    /// An account by its address, whatever the case of its letters.
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

    /// Changes an account and returns it as it is now.
    pub async fn change(self, id: AccountId, change: &AccountChange) -> Result<Account> {
        let mut tx = self.store.db().begin().await?;
        let select = format!("SELECT {COLUMNS} FROM accounts WHERE id = $1");
        let lock = format!("{select}{}", tx.for_update());
        let old = account(&tx.optional(&lock, args![id]).await?.ok_or(Error::NotFound("account"))?)?;
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
        let changed = account(&tx.one(&select, args![id]).await?)?;
        audit::write_act(&mut tx, self.audit, "", self.store.now()).await?;
        tx.commit().await?;
        Ok(changed)
    }

    /// Records that an account's address is confirmed and grants the initial credits, once.
    pub async fn confirm(self, id: AccountId, credits: i64) -> Result<Account> {
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, id).await?;
        tx.execute("UPDATE accounts SET is_confirmed = $1 WHERE id = $2", args![true, id]).await?;
        let sql = "SELECT id FROM ledger WHERE account_id = $1 AND kind = $2 AND note = $3 LIMIT 1";
        let given = tx.optional(sql, args![id, EntryKind::Grant.name(), BEGINNING]).await?;
        if credits > 0 && given.is_none() {
            let reference = format!("beginning:{id}");
            ledger::post(&mut tx, id, EntryKind::Grant, credits, Some(&reference), BEGINNING, now).await?;
        }
        let sql = format!("SELECT {COLUMNS} FROM accounts WHERE id = $1");
        let confirmed = account(&tx.one(&sql, args![id]).await?)?;
        audit::write_act(&mut tx, self.audit, "", now).await?;
        tx.commit().await?;
        Ok(confirmed)
    }

    /// Deletes an account with everything that is its: rows, recordings and its data key. Returns the recordings removed; what can't be
    /// removed now is left to the sweep.
    pub async fn delete(self, id: AccountId) -> Result<Vec<BlobKey>> {
        if id == self.store.anonymous_account() {
            return Err(Error::Conflict("the anonymous account can't be deleted"));
        }
        let mut tx = self.store.db().begin().await?;
        // In the order that every transaction locks in; nothing can be added to the account from here on.
        let lock = if tx.is_postgres() { " FOR UPDATE" } else { "" };
        let sql = format!("SELECT id FROM accounts WHERE id = $1{lock}");
        tx.optional(&sql, args![id]).await?.ok_or(Error::NotFound("account"))?;
        // Jobs that run learn of it when they renew; those of this process at once.
        let running = tx.all("DELETE FROM jobs WHERE account_id = $1 RETURNING id, transcript_id", args![id]).await?;
        let recordings = tx.execute("UPDATE blobs SET state = 'deleting' WHERE account_id = $1", args![id]).await?;
        // The log outlives the account, but not where its owner was.
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
            if let Some(transcript) = row.get::<Option<i64>>("transcript_id")? {
                self.store.notify(Change::Finished(crate::TranscriptId(transcript)));
            }
        }
        Ok(self.store.recordings().remove_deleted_or_leave(Some(id), None).await)
    }
}
