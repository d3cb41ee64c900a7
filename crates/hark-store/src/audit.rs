//! The audit log: who did what to an account; append-only.
//!
//! An entry holds no secret and no text of a transcript. Its address is deleted before it is.

use std::time::Duration;

use crate::Store;
use crate::clock::{Micros, micros};
use crate::db::{Row, Tx, Value, args};
use crate::error::Result;
use crate::ids::{AccountId, KeyId};

/// The audit log.
#[derive(Debug, Clone, Copy)]
pub struct Audit<'a> {
    pub(crate) store: &'a Store,
}

/// The actor of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// The account, by a session or a user token.
    Account,
    /// An API key of the account.
    Key,
    /// The operator, on the machine of the service.
    Operator,
    /// An account that manages others.
    Admin,
    /// An unauthenticated caller.
    Visitor,
}

impl Actor {
    /// The name as stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Actor::Account => "account",
            Actor::Key => "key",
            Actor::Operator => "operator",
            Actor::Admin => "admin",
            Actor::Visitor => "visitor",
        }
    }
}

/// A new entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAudit {
    /// The account that it is about; `None` if no account has the email address.
    pub account: Option<AccountId>,
    /// The actor.
    pub actor: Actor,
    /// The key, token or session that was used.
    pub key: Option<KeyId>,
    /// The network address of the client.
    pub address: Option<String>,
    /// The event, such as `key.created`.
    pub event: &'static str,
    /// The subject, such as `key 7`.
    pub subject: String,
    /// Details, for people.
    pub detail: String,
}

impl NewAudit {
    /// An event of the operator about an account.
    pub fn by_operator(account: AccountId, event: &'static str) -> NewAudit {
        NewAudit { account: Some(account), ..NewAudit::operator(event) }
    }

    /// An event of the operator without an account, or about one that it creates.
    pub fn operator(event: &'static str) -> NewAudit {
        NewAudit {
            account: None,
            actor: Actor::Operator,
            key: None,
            address: None,
            event,
            subject: String::new(),
            detail: String::new(),
        }
    }

    /// Sets the subject.
    pub fn with_subject(self, subject: impl Into<String>) -> NewAudit {
        NewAudit { subject: subject.into(), ..self }
    }

    /// Sets the details.
    pub fn with_detail(self, detail: impl Into<String>) -> NewAudit {
        NewAudit { detail: detail.into(), ..self }
    }
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its id, ascending in the order of writing.
    pub id: i64,
    /// When it happened.
    pub at: Micros,
    /// The account that it is about.
    pub account: Option<AccountId>,
    /// The actor: `account`, `key`, `operator`, `admin` or `visitor`.
    pub actor: String,
    /// The key, token or session that was used.
    pub key: Option<KeyId>,
    /// The network address of the client, until it is deleted.
    pub address: Option<String>,
    /// The event.
    pub event: String,
    /// The subject.
    pub subject: String,
    /// Details.
    pub detail: String,
}

/// A page of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// Newest first.
    pub entries: Vec<AuditEntry>,
    /// How many there are in all.
    pub total: i64,
}

fn entry(row: &Row) -> Result<AuditEntry> {
    Ok(AuditEntry {
        id: row.get("id")?,
        at: row.get("at")?,
        account: row.get::<Option<i64>>("account_id")?.map(AccountId),
        actor: row.get("actor")?,
        key: row.get::<Option<i64>>("key_id")?.map(KeyId),
        address: row.get("address")?,
        event: row.get("event")?,
        subject: row.get("subject")?,
        detail: row.get("detail")?,
    })
}

/// Adds an entry in the transaction of the change it records.
pub(crate) async fn write(tx: &mut Tx, new: &NewAudit, now: Micros) -> Result<()> {
    tx.execute(
        "INSERT INTO audit (at, account_id, actor, key_id, address, event, subject, detail)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        args![
            now,
            new.account,
            new.actor.name(),
            new.key,
            new.address.as_deref(),
            new.event,
            &new.subject,
            &new.detail
        ],
    )
    .await
    .map(drop)
}

/// Writes the entry of a change, if there is one, in the transaction of the change. `subject` is used if the entry has none.
pub(crate) async fn write_act(tx: &mut Tx, entry: Option<&NewAudit>, subject: &str, now: Micros) -> Result<()> {
    match entry {
        None => Ok(()),
        Some(entry) if entry.subject.is_empty() => write(tx, &entry.clone().with_subject(subject), now).await,
        Some(entry) => write(tx, entry, now).await,
    }
}

/// Gives a part `audited`: its next change writes an audit entry in its own transaction, so that neither exists without the other.
macro_rules! audited {
    ($part:ident) => {
        impl<'a> $part<'a> {
            /// The part with an audit entry, which the next change writes in its own transaction. An empty subject is filled in by the change.
            pub fn audited(self, entry: &'a $crate::NewAudit) -> $part<'a> {
                $part { audit: Some(entry), ..self }
            }
        }
    };
}
pub(crate) use audited;

impl Audit<'_> {
    /// Adds an entry.
    pub async fn record(self, new: &NewAudit) -> Result<()> {
        let mut tx = self.store.db().begin().await?;
        write(&mut tx, new, self.store.now()).await?;
        tx.commit().await
    }

    /// A page of the log, newest first: of one account, or of all.
    pub async fn page(self, account: Option<AccountId>, page: i64, per_page: i64) -> Result<AuditPage> {
        let per_page = per_page.clamp(1, 1000);
        let offset = page.max(1).saturating_sub(1).saturating_mul(per_page);
        let (condition, mut values): (&str, Vec<Value<'_>>) = match account {
            Some(account) => ("WHERE account_id = $1", vec![account.into()]),
            None => ("", Vec::new()),
        };
        let mut tx = self.store.db().snapshot().await?;
        let total = tx.one(&format!("SELECT count(*) AS n FROM audit {condition}"), &values).await?.get("n")?;
        let sql = format!(
            "SELECT id, at, account_id, actor, key_id, address, event, subject, detail FROM audit {condition}
             ORDER BY id DESC LIMIT 0 + ${} OFFSET ${}",
            values.len() + 1,
            values.len() + 2
        );
        values.push(per_page.into());
        values.push(offset.into());
        let entries = tx.all(&sql, &values).await?.iter().map(entry).collect::<Result<_>>()?;
        Ok(AuditPage { entries, total })
    }

    /// Deletes entries older than `keep` and the addresses of those older than `keep_addresses`; returns how many entries went.
    pub async fn expire(self, keep: Duration, keep_addresses: Duration) -> Result<u64> {
        let now = self.store.now();
        let sql = "UPDATE audit SET address = NULL WHERE address IS NOT NULL AND at < $1";
        self.store.db().execute(sql, args![now.saturating_sub(micros(keep_addresses))]).await?;
        self.store.db().execute("DELETE FROM audit WHERE at < $1", args![now.saturating_sub(micros(keep))]).await
    }
}
