//! Known browsers: a cookie that separates the owner of an account from those who guess its password.
//!
//! It is no credential: tries with it are only counted separately.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use hark_store::{AccountId, Store};
use subtle::ConstantTimeEq as _;

use super::cookie;
use crate::mac::{hex, mac};
use crate::random;

const NAME: &str = "hark_device";
/// How long a browser is known without a sign-in.
const LASTS: Duration = Duration::from_secs(365 * 86_400);

/// The content of the cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    id: String,
    proof: String,
}

/// The cookie of a request, not verified.
pub(crate) fn shown(headers: &HeaderMap) -> Option<Shown> {
    let (id, proof) = cookie::named(headers, NAME)?.split_once('.')?;
    Some(Shown { id: id.to_owned(), proof: proof.to_owned() })
}

/// The id of the browser, if the account signed in with it before.
pub(crate) async fn known(
    store: &Store,
    shown: Option<&Shown>,
    account: AccountId,
) -> hark_store::Result<Option<String>> {
    let Some(shown) = shown else { return Ok(None) };
    let expected = proof(store, &shown.id, account).await?;
    Ok(bool::from(shown.proof.as_bytes().ct_eq(expected.as_bytes())).then(|| shown.id.clone()))
}

/// The cookie that a browser gets when the account signs in with it.
pub(crate) async fn remember(
    store: &Store,
    account: AccountId,
    is_https: bool,
) -> hark_store::Result<Option<HeaderValue>> {
    let id = random::id();
    let value = format!("{id}.{}", proof(store, &id, account).await?);
    Ok(cookie::write(NAME, &value, "/v1/auth", LASTS, is_https))
}

async fn proof(store: &Store, id: &str, account: AccountId) -> hark_store::Result<String> {
    let key = store.secret("devices", None).await?;
    Ok(hex(&mac(&*key, &[b"device ", id.as_bytes(), b" of ", account.to_string().as_bytes()])))
}
