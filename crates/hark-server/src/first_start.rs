//! A fresh store gets an account that may do everything, and one key to it.

use hark_store::{KeyKind, NewAccount, NewKey, Plan, Secret, Store};

use crate::error::ServerError;

/// The address of the first account.
const EMAIL: &str = "admin@localhost";
/// Initial credits of the first account, which is the operator's.
const CREDITS: i64 = 1_000_000;
const RATE_LIMIT: i64 = 6000;
const MONTHLY_MINUTES: i64 = 1_000_000;

/// The key that a first start makes; it is shown nowhere else.
#[derive(Debug)]
pub struct FirstKey {
    /// The account it opens.
    pub email: String,
    /// The key.
    pub key: Secret,
}

/// Makes the first account and its key where there is no account yet.
pub async fn first_start(store: &Store) -> Result<Option<FirstKey>, ServerError> {
    if !store.accounts().list().await?.is_empty() {
        return Ok(None);
    }
    let new = NewAccount { credits: CREDITS, is_admin: true, ..NewAccount::new(EMAIL, Plan::Enterprise) };
    let account = match store.accounts().create(&new).await {
        Ok(account) => account,
        // Another process of a fleet that starts together was first.
        Err(hark_store::Error::Conflict(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let key = NewKey {
        rate_limit: RATE_LIMIT,
        monthly_limit_minutes: MONTHLY_MINUTES,
        ..NewKey::new(KeyKind::Service, "first start")
    };
    let (_, secret) = store.keys().create(account.id, &key).await?;
    Ok(Some(FirstKey { email: account.email, key: secret }))
}
