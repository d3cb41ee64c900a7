//! Credits: an append-only ledger whose sum is the balance.
//!
//! A job or a call first holds what it may cost. Settling releases the hold and charges what was used, in one transaction and once: an entry of a kind
//! is unique for a reference. The balance in `accounts.credits` is updated in the transaction of the entry.

use std::time::Duration;

use crate::Store;
use crate::audit::{self, NewAudit, audited};
use crate::clock::{Micros, micros};
use crate::db::{Row, Tx, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, JobId, KeyId};
use crate::keys;

/// Credits: grants, holds and charges.
#[derive(Debug, Clone, Copy)]
pub struct Ledger<'a> {
    pub(crate) store: &'a Store,
    /// Written in the transaction of the next change.
    pub(crate) audit: Option<&'a NewAudit>,
}

audited!(Ledger);

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// Credits granted or bought.
    Grant,
    /// Reserved for work that starts.
    Hold,
    /// The end of a hold.
    Release,
    /// Payment for finished work.
    Charge,
    /// A charge returned.
    Refund,
    /// A manual correction.
    Adjust,
}

impl EntryKind {
    const ALL: [EntryKind; 6] = [
        EntryKind::Grant,
        EntryKind::Hold,
        EntryKind::Release,
        EntryKind::Charge,
        EntryKind::Refund,
        EntryKind::Adjust,
    ];

    /// The name as stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            EntryKind::Grant => "grant",
            EntryKind::Hold => "hold",
            EntryKind::Release => "release",
            EntryKind::Charge => "charge",
            EntryKind::Refund => "refund",
            EntryKind::Adjust => "adjust",
        }
    }
}

/// An entry of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its id, ascending in the order of posting.
    pub id: i64,
    /// When it was posted.
    pub at: Micros,
    /// Its kind.
    pub kind: EntryKind,
    /// Credits; negative reduces the balance.
    pub amount: i64,
    /// What it is for: `job:7` or the reference of a call.
    pub reference: Option<String>,
    /// A note for people.
    pub note: String,
}

/// A page of an account's ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerPage {
    /// Newest first.
    pub entries: Vec<Entry>,
    /// How many there are in all.
    pub total: i64,
}

/// The result of settling a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settlement {
    /// Credits charged.
    pub charged: i64,
    /// The balance afterwards.
    pub credits: i64,
}

/// An account whose balance is not the sum of its ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unbalanced {
    /// The account.
    pub account: AccountId,
    /// Its balance.
    pub credits: i64,
    /// The sum of its ledger.
    pub sum: i64,
}

fn entry(row: &Row) -> Result<Entry> {
    let kind: String = row.get("kind")?;
    Ok(Entry {
        id: row.get("id")?,
        at: row.get("at")?,
        kind: EntryKind::ALL
            .into_iter()
            .find(|k| k.name() == kind)
            .ok_or_else(|| Error::Damaged(format!("no ledger entry is of kind {kind:?}")))?,
        amount: row.get("amount")?,
        reference: row.get("reference")?,
        note: row.get("note")?,
    })
}

/// The reference of a job's entries. An entry of a kind is unique for a reference, so a job that is retried after it failed gets another.
pub(crate) fn job_reference(job: JobId, retries: i64) -> String {
    if retries == 0 { format!("job:{job}") } else { format!("job:{job}.{retries}") }
}

/// Locks the account until the transaction ends and returns its balance. Every transaction that posts entries begins with it, which prevents
/// deadlocks.
pub(crate) async fn lock(tx: &mut Tx, account: AccountId) -> Result<i64> {
    let sql = format!("SELECT credits FROM accounts WHERE id = $1{}", tx.for_update());
    tx.optional(&sql, args![account]).await?.ok_or(Error::NotFound("account"))?.get("credits")
}

/// Posts an entry and updates the balance; returns the balance.
pub(crate) async fn post(
    tx: &mut Tx,
    account: AccountId,
    kind: EntryKind,
    amount: i64,
    reference: Option<&str>,
    note: &str,
    now: Micros,
) -> Result<i64> {
    let have = lock(tx, account).await?;
    let left = have.checked_add(amount).ok_or(Error::Conflict("no account may have that many credits"))?;
    if left < 0 {
        return Err(Error::NotEnoughCredits { have, need: -amount });
    }
    tx.execute(
        "INSERT INTO ledger (account_id, at, kind, amount, reference, note) VALUES ($1, $2, $3, $4, $5, $6)",
        args![account, now, kind.name(), amount, reference, note],
    )
    .await?;
    tx.execute("UPDATE accounts SET credits = $1 WHERE id = $2", args![left, account]).await?;
    Ok(left)
}

/// Holds credits for a reference.
pub(crate) async fn hold(
    tx: &mut Tx,
    account: AccountId,
    reference: &str,
    amount: i64,
    expires_at: Option<Micros>,
    now: Micros,
) -> Result<i64> {
    if amount < 0 {
        return Err(Error::Conflict("a hold can't be negative"));
    }
    let left = post(tx, account, EntryKind::Hold, -amount, Some(reference), "", now).await?;
    tx.execute(
        "INSERT INTO holds (reference, account_id, amount, expires_at) VALUES ($1, $2, $3, $4)",
        args![reference, account, amount, expires_at],
    )
    .await?;
    Ok(left)
}

/// Increases the hold of a reference; does nothing without a hold, as for anonymous use. The account must be locked.
pub(crate) async fn raise(tx: &mut Tx, account: AccountId, reference: &str, more: i64, now: Micros) -> Result<()> {
    let sql = "UPDATE holds SET amount = amount + $1 WHERE reference = $2 AND account_id = $3 RETURNING amount";
    let Some(hold) = tx.optional(sql, args![more, reference, account]).await? else { return Ok(()) };
    // Entries are immutable and unique by kind and reference: the new total makes the reference unique.
    let raised = format!("{reference}+{}", hold.get::<i64>("amount")?);
    post(tx, account, EntryKind::Hold, -more, Some(&raised), "", now).await.map(drop)
}

/// Settles a hold: releases it and charges what was used, at most the balance. `None` when there is no such hold (any more).
pub(crate) async fn settle(
    tx: &mut Tx,
    reference: &str,
    used: i64,
    note: &str,
    now: Micros,
) -> Result<Option<Settlement>> {
    let account = tx.optional("SELECT account_id FROM holds WHERE reference = $1", args![reference]).await?;
    let Some(account) = account else { return Ok(None) };
    let account = AccountId(account.get("account_id")?);
    lock(tx, account).await?;
    // With the lock, no other transaction can settle the same hold.
    let sql = "DELETE FROM holds WHERE reference = $1 RETURNING amount, key_id, month";
    let Some(hold) = tx.optional(sql, args![reference]).await? else { return Ok(None) };
    let held: i64 = hold.get("amount")?;
    let mut credits = post(tx, account, EntryKind::Release, held, Some(reference), "", now).await?;
    // Work that was longer than probed is charged at most the balance.
    let charged = used.clamp(0, credits);
    if charged > 0 {
        credits = post(tx, account, EntryKind::Charge, -charged, Some(reference), note, now).await?;
    }
    if let (Some(key), Some(month)) = (hold.get::<Option<i64>>("key_id")?, hold.get::<Option<i64>>("month")?) {
        keys::add_credits(tx, KeyId(key), month, charged - held).await?;
    }
    Ok(Some(Settlement { charged, credits }))
}

/// Notes that the credits of a hold were counted for a key in a month.
pub(crate) async fn count_for_key(tx: &mut Tx, reference: &str, key: KeyId, month: i64) -> Result<()> {
    let sql = "UPDATE holds SET key_id = $1, month = $2 WHERE reference = $3";
    tx.execute(sql, args![key, month, reference]).await.map(drop)
}

impl Ledger<'_> {
    /// Grants credits to an account; returns its balance.
    pub async fn grant(self, account: AccountId, amount: i64, note: &str) -> Result<i64> {
        if amount <= 0 {
            return Err(Error::Conflict("a grant is at least one credit"));
        }
        self.post(account, EntryKind::Grant, amount, None, note).await
    }

    /// Corrects a balance manually; it can't go below zero.
    pub async fn adjust(self, account: AccountId, amount: i64, note: &str) -> Result<i64> {
        self.post(account, EntryKind::Adjust, amount, None, note).await
    }

    /// Refunds the charge of a reference, once.
    pub async fn refund(self, account: AccountId, reference: &str, note: &str) -> Result<i64> {
        let mut tx = self.store.db().begin().await?;
        lock(&mut tx, account).await?;
        let charge = tx
            .optional(
                "SELECT amount FROM ledger WHERE account_id = $1 AND reference = $2 AND kind = 'charge'",
                args![account, reference],
            )
            .await?
            .ok_or(Error::NotFound("charge"))?;
        let amount: i64 = charge.get("amount")?;
        let posted = post(&mut tx, account, EntryKind::Refund, -amount, Some(reference), note, self.store.now()).await;
        let left =
            posted.map_err(|e| if e.is_duplicate() { Error::Conflict("this was refunded before") } else { e })?;
        tx.commit().await?;
        Ok(left)
    }

    async fn post(
        self,
        account: AccountId,
        kind: EntryKind,
        amount: i64,
        reference: Option<&str>,
        note: &str,
    ) -> Result<i64> {
        let mut tx = self.store.db().begin().await?;
        let now = self.store.now();
        let left = post(&mut tx, account, kind, amount, reference, note, now).await?;
        audit::write_act(&mut tx, self.audit, "", now).await?;
        tx.commit().await?;
        Ok(left)
    }

    /// Holds credits for a call that is not a job (a summary, a live session) under a new reference. A hold that is not settled, because the
    /// process died, expires after `ttl`.
    pub async fn hold(self, account: AccountId, reference: &str, amount: i64, ttl: Duration) -> Result<i64> {
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        let held = hold(&mut tx, account, reference, amount, Some(now.saturating_add(micros(ttl))), now).await;
        let left = held.map_err(|e| if e.is_duplicate() { Error::Conflict("this name was held before") } else { e })?;
        tx.commit().await?;
        Ok(left)
    }

    /// Increases a hold by `more` and extends its expiry, for a live session that continues.
    pub async fn extend_hold(self, account: AccountId, reference: &str, more: i64, ttl: Duration) -> Result<i64> {
        if more < 0 {
            return Err(Error::Conflict("a hold can't be negative"));
        }
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        lock(&mut tx, account).await?;
        let row = tx
            .optional(
                "UPDATE holds SET amount = amount + $1, expires_at = $2 WHERE reference = $3 AND account_id = $4 RETURNING amount",
                args![more, now.saturating_add(micros(ttl)), reference, account],
            )
            .await?
            .ok_or(Error::NotFound("hold"))?;
        let left = if more > 0 {
            // Entries are immutable and unique by kind and reference: the new total makes the reference unique.
            let extended = format!("{reference}+{}", row.get::<i64>("amount")?);
            post(&mut tx, account, EntryKind::Hold, -more, Some(&extended), "", now).await?
        } else {
            lock(&mut tx, account).await?
        };
        tx.commit().await?;
        Ok(left)
    }

    /// Settles a hold and charges what was used, which may be zero; [`Error::NotFound`] when it was settled before.
    pub async fn settle(self, reference: &str, used: i64, note: &str) -> Result<Settlement> {
        let mut tx = self.store.db().begin().await?;
        let settled = settle(&mut tx, reference, used, note, self.store.now()).await?.ok_or(Error::NotFound("hold"))?;
        tx.commit().await?;
        Ok(settled)
    }

    /// Releases expired holds; returns how many.
    pub async fn release_expired(self) -> Result<u64> {
        let now = self.store.now();
        let late = self.store.db().all("SELECT reference FROM holds WHERE expires_at < $1", args![now]).await?;
        let mut released = 0;
        for row in late {
            let mut tx = self.store.db().begin().await?;
            let ended = settle(&mut tx, &row.get::<String>("reference")?, 0, "", now).await?;
            tx.commit().await?;
            released += u64::from(ended.is_some());
        }
        Ok(released)
    }

    /// The last entries of an account, newest first.
    pub async fn entries(self, account: AccountId, limit: i64) -> Result<Vec<Entry>> {
        let sql = "SELECT id, at, kind, amount, reference, note FROM ledger WHERE account_id = $1 ORDER BY id DESC LIMIT 0 + $2";
        self.store.db().all(sql, args![account, limit]).await?.iter().map(entry).collect()
    }

    /// A page of an account's entries, newest first.
    pub async fn page(self, account: AccountId, page: i64, per_page: i64) -> Result<LedgerPage> {
        let per_page = per_page.clamp(1, 1000);
        let offset = page.max(1).saturating_sub(1).saturating_mul(per_page);
        let mut tx = self.store.db().snapshot().await?;
        let sql = "SELECT count(*) AS n FROM ledger WHERE account_id = $1";
        let total = tx.one(sql, args![account]).await?.get("n")?;
        let sql = "SELECT id, at, kind, amount, reference, note FROM ledger WHERE account_id = $1
             ORDER BY id DESC LIMIT 0 + $2 OFFSET $3";
        let entries = tx.all(sql, args![account, per_page, offset]).await?.iter().map(entry).collect::<Result<_>>()?;
        Ok(LedgerPage { entries, total })
    }

    /// Every account whose balance is not the sum of its ledger; there should be none.
    pub async fn check(self) -> Result<Vec<Unbalanced>> {
        let rows = self
            .store
            .db()
            .all_without_timeout(
                "SELECT a.id AS id, a.credits AS credits, CAST(COALESCE(SUM(l.amount), 0) AS BIGINT) AS total
                 FROM accounts a LEFT JOIN ledger l ON l.account_id = a.id
                 GROUP BY a.id, a.credits HAVING a.credits <> COALESCE(SUM(l.amount), 0) ORDER BY a.id",
                &[],
            )
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Unbalanced {
                    account: AccountId(row.get("id")?),
                    credits: row.get("credits")?,
                    sum: row.get("total")?,
                })
            })
            .collect()
    }
}
