//! Network addresses as keyed hashes: their usage by day, and the known addresses of accounts.

pub(crate) mod anonymous;

use crate::Store;
use crate::clock::{DAY, Micros, day_of};
use crate::db::args;
use crate::error::{Error, Limit, Result};
use crate::ids::AccountId;

/// Usage by network address, and the known addresses of accounts.
#[derive(Debug, Clone, Copy)]
pub struct Addresses<'a> {
    pub(crate) store: &'a Store,
}

/// A known address expires after this long without a sign-in.
const KNOWN_FOR: Micros = 180 * DAY;
/// Counts of days are deleted after this many.
const KEPT_DAYS: i64 = 2;

/// What is counted by address and day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressUse {
    /// Accounts created.
    SignUps,
    /// Anonymous transcriptions or minutes in a network wider than one subnet.
    Anonymous,
}

impl AddressUse {
    fn name(self) -> &'static str {
        match self {
            AddressUse::SignUps => "sign-ups",
            AddressUse::Anonymous => "anonymous",
        }
    }

    fn limit(self) -> Limit {
        match self {
            AddressUse::SignUps => Limit::SignUps,
            AddressUse::Anonymous => Limit::AnonymousNetwork,
        }
    }
}

impl Addresses<'_> {
    /// Counts `amount` for each of the networks (hash, daily limit) today, or for none of them when one has reached its limit.
    pub async fn count(self, what: AddressUse, networks: &[(String, i64)], amount: i64) -> Result<()> {
        let day = day_of(self.store.now());
        let mut tx = self.store.db().begin().await?;
        for (address, limit) in networks {
            // Counting first creates and locks the row; a rejection rolls it back.
            let row = tx
                .one(
                    "INSERT INTO address_days (day, purpose, address, amount) VALUES ($1, $2, $3, $4)
                     ON CONFLICT (day, purpose, address) DO UPDATE SET amount = address_days.amount + excluded.amount
                     RETURNING amount",
                    args![day, what.name(), address, amount],
                )
                .await?;
            let used: i64 = row.get("amount")?;
            if used > *limit {
                return Err(Error::Limit { what: what.limit(), limit: *limit, used: used - amount });
            }
        }
        tx.commit().await
    }

    /// Fails when one of the networks (hash, daily limit) has reached its limit today.
    pub async fn check(self, what: AddressUse, networks: &[(String, i64)]) -> Result<()> {
        let day = day_of(self.store.now());
        for (address, limit) in networks {
            let sql = "SELECT amount FROM address_days WHERE day = $1 AND purpose = $2 AND address = $3";
            let row = self.store.db().optional(sql, args![day, what.name(), address]).await?;
            let used: i64 = row.map_or(Ok(0), |row| row.get("amount"))?;
            if used >= *limit {
                return Err(Error::Limit { what: what.limit(), limit: *limit, used });
            }
        }
        Ok(())
    }

    /// Whether the account signed in from this address (its hash) before.
    pub async fn is_known(self, account: AccountId, address: &str) -> Result<bool> {
        let sql = "SELECT last_at FROM known_addresses WHERE account_id = $1 AND address = $2 AND last_at > $3";
        Ok(self.store.db().optional(sql, args![account, address, self.store.now() - KNOWN_FOR]).await?.is_some())
    }

    /// Records that the account signed in from this address (its hash).
    pub async fn remember(self, account: AccountId, address: &str) -> Result<()> {
        self.store
            .db()
            .execute(
                "INSERT INTO known_addresses (account_id, address, last_at) VALUES ($1, $2, $3)
                 ON CONFLICT (account_id, address) DO UPDATE SET last_at = excluded.last_at",
                args![account, address, self.store.now()],
            )
            .await
            .map(drop)
    }

    /// Deletes expired counts and known addresses.
    pub async fn expire(self) -> Result<()> {
        let now = self.store.now();
        self.store.db().execute("DELETE FROM address_days WHERE day < $1", args![day_of(now) - KEPT_DAYS]).await?;
        self.store
            .db()
            .execute("DELETE FROM known_addresses WHERE last_at <= $1", args![now - KNOWN_FOR])
            .await
            .map(drop)
    }
}
