//! Accounts as those who manage them list and change them.

use crate::accounts::plan::Plan;
use crate::accounts::{ANONYMOUS, Account, Accounts, COLUMNS, account, find};
use crate::audit::{self, NewAudit};
use crate::db::{Value, args};
use crate::error::{Error, Result};
use crate::ids::AccountId;
use crate::ledger::{self, EntryKind};

/// Which accounts to list.
#[derive(Debug, Clone, Copy)]
pub struct AccountFilter<'a> {
    /// Only those with this in their email address, ignoring case.
    pub email: Option<&'a str>,
    /// Which page, from 1.
    pub page: i64,
    /// Accounts a page.
    pub per_page: i64,
}

/// An account of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedAccount {
    /// The account.
    pub account: Account,
    /// The transcripts that it has now.
    pub transcripts: i64,
}

/// A page of accounts.
#[derive(Debug, Clone, PartialEq)]
pub struct AccountPage {
    /// Newest first.
    pub accounts: Vec<ListedAccount>,
    /// How many there are on all pages.
    pub total: i64,
}

/// What somebody who manages an account changes in it; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct Adjustment {
    /// The new plan.
    pub plan: Option<Plan>,
    /// Whether the plan is in force.
    pub plan_active: Option<bool>,
    /// Credits to add; negative ones are taken.
    pub credits: i64,
    /// The note of the ledger entry.
    pub note: String,
}

/// A pattern of `LIKE … ESCAPE '\\'` for what contains a text.
fn containing(text: &str) -> String {
    let mut pattern = String::from("%");
    for character in text.chars() {
        if matches!(character, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('%');
    pattern
}

impl Accounts<'_> {
    /// A page of all accounts but the anonymous one, newest first.
    pub async fn page(self, filter: &AccountFilter<'_>) -> Result<AccountPage> {
        let per_page = filter.per_page.clamp(1, 1000);
        let offset = filter.page.max(1).saturating_sub(1).saturating_mul(per_page);
        let pattern = filter.email.map(|part| containing(&part.trim().to_lowercase()));
        let mut values: Vec<Value<'_>> = args![ANONYMOUS].to_vec();
        let mut condition = String::from("email_key <> $1");
        if let Some(pattern) = &pattern {
            values.push(pattern.as_str().into());
            condition.push_str(" AND email_key LIKE $2 ESCAPE '\\'");
        }
        let mut tx = self.store.db().snapshot().await?;
        let sql = format!("SELECT count(*) AS n FROM accounts WHERE {condition}");
        let total = tx.one(&sql, &values).await?.get("n")?;
        let sql = format!(
            "SELECT {COLUMNS}, (SELECT count(*) FROM transcripts t WHERE t.account_id = accounts.id) AS transcripts
             FROM accounts WHERE {condition} ORDER BY id DESC LIMIT 0 + ${} OFFSET ${}",
            values.len() + 1,
            values.len() + 2
        );
        values.push(per_page.into());
        values.push(offset.into());
        let accounts = tx
            .all(&sql, &values)
            .await?
            .iter()
            .map(|row| Ok(ListedAccount { account: account(row)?, transcripts: row.get("transcripts")? }))
            .collect::<Result<_>>()?;
        Ok(AccountPage { accounts, total })
    }

    /// Changes the plan and the balance of an account in one transaction. The audit entry names who does it: one is written for the plan and one for the
    /// credits, as far as they change.
    pub async fn adjust(self, id: AccountId, adjustment: &Adjustment) -> Result<Account> {
        if id == self.store.anonymous_account() {
            return Err(Error::NotFound("account"));
        }
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, id).await?;
        let old = find(&mut tx, id).await?;
        let write = |event, detail| self.audit.map(|by| NewAudit { account: Some(id), event, detail, ..by.clone() });
        if adjustment.plan.is_some() || adjustment.plan_active.is_some() {
            let plan = adjustment.plan.unwrap_or(old.plan);
            let is_active = adjustment.plan_active.unwrap_or(old.plan_active);
            let sql = "UPDATE accounts SET plan = $1, plan_active = $2 WHERE id = $3";
            tx.execute(sql, args![plan.name(), is_active, id]).await?;
            let entry = write("plan.changed", format!("{plan}{}", if is_active { "" } else { ", not in force" }));
            audit::write_act(&mut tx, entry.as_ref(), "", now).await?;
        }
        if adjustment.credits != 0 {
            let (amount, note) = (adjustment.credits, adjustment.note.as_str());
            let kind = if amount > 0 { EntryKind::Grant } else { EntryKind::Adjust };
            ledger::post(&mut tx, id, kind, amount, None, note, now).await?;
            let entry = write("credits.changed", format!("{amount:+}: {note}"));
            audit::write_act(&mut tx, entry.as_ref(), "", now).await?;
        }
        let changed = find(&mut tx, id).await?;
        tx.commit().await?;
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pattern_means_something_by_is_taken_as_it_is() {
        assert_eq!(containing("a_b%c\\d@x"), "%a\\_b\\%c\\\\d@x%");
    }
}
