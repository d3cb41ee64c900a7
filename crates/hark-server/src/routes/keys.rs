//! API keys: create, list, change, roll over, revoke.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hark_api::{CreatedKey, DateTime, Done, ErrorKind, Key, KeyList, KeyRoll, KeyScope, KeyUpdate, NewKey};
use hark_store::{IdempotencyKey, KeyChange, KeyId, KeyKind, Owner, Scope, Secret};
use ipnet::IpNet;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::audit;
use crate::error::Failure;
use crate::extract::{Json, OptionalJson, Path};
use crate::idempotent::{self, Canonical};
use crate::middleware::Identity;
use crate::routes::{AnyError, Invalid, Missing, Reused, Unauthorized};

const MAX_NAME: usize = 200;
const MAX_RATE: i64 = 10_000_000;
const MAX_MINUTES: i64 = 1_000_000_000;
/// Maximum active keys of an account.
const MAX_KEYS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
/// How long the previous secret stays valid after a rollover.
const GRACE: i64 = 86_400;
const MAX_GRACE: i64 = 30 * 86_400;

/// The keys of the account
#[utoipa::path(get, path = "/v1/keys", tag = "account", operation_id = "listKeys",
    responses((status = 200, body = KeyList), Unauthorized, AnyError), security(("bearer" = [])))]
pub(crate) async fn list(State(app): State<App>, identity: Identity) -> Result<Answer<KeyList>, Failure> {
    let keys = app.store.keys().list(identity.account(), KeyKind::Service).await?;
    let now = app.clock.now();
    Ok(Answer(KeyList { keys: keys.into_iter().rev().map(|key| wire_key(key, now)).collect() }))
}

/// A key in a response.
pub(crate) fn wire_key(key: hark_store::Key, now: hark_store::Micros) -> Key {
    let scope = |scope: &Scope| match scope {
        Scope::Transcribe => KeyScope::Transcribe,
        Scope::Read => KeyScope::Read,
        Scope::Manage => KeyScope::Manage,
    };
    Key {
        id: key.id.0,
        name: key.name,
        prefix: key.prefix,
        is_active: key.is_active && key.expires_at.is_none_or(|at| at > now),
        rate_limit: key.rate_limit,
        monthly_limit_minutes: key.monthly_limit_minutes,
        last_used: key.last_used.map(DateTime),
        created_at: DateTime(key.created_at),
        scopes: key.scopes.iter().map(scope).collect(),
        expires_at: key.expires_at.map(DateTime),
        allowed_addresses: key.allowed_addresses,
        spending_limit: key.spending_limit,
        previous_valid_until: key.previous_until.filter(|until| *until > now).map(DateTime),
    }
}

/// Make a key
///
/// The answer is the only place where the whole key is shown.
#[utoipa::path(post, path = "/v1/keys", tag = "account", operation_id = "createKey", request_body = Option<NewKey>,
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$",
            description = "makes a repeat safe: the same answer, one key")),
    responses((status = 201, body = CreatedKey), Invalid, Unauthorized, Reused, AnyError), security(("bearer" = [])))]
pub(crate) async fn create(
    State(app): State<App>,
    identity: Identity,
    headers: HeaderMap,
    OptionalJson(wanted): OptionalJson<NewKey>,
) -> Result<Response, Failure> {
    let owner = Owner::Account(identity.account());
    let name = name(&headers, &wanted)?;
    if let Some(name) = &name
        && let Some(answer) = app.store.idempotency().answer(&owner, name).await?
    {
        return idempotent::give(&headers, &answer);
    }
    let new = new_key(wanted, app.clock.now())?;
    refuse_more_scopes(&identity, &new.scopes)?;
    let keys = app.store.keys().list(identity.account(), KeyKind::Service).await?;
    if keys.iter().filter(|key| key.is_active).count() >= MAX_KEYS {
        return Err(Failure::invalid(format!("the account has {MAX_KEYS} keys: revoke some first")));
    }
    let entry = audit::by(&identity, audit::KEY_CREATED);
    let Some(name) = name else {
        let (key, secret) = app.store.keys().audited(&entry).create(identity.account(), &new).await?;
        return Ok((StatusCode::CREATED, Answer(created(key, &secret))).into_response());
    };
    let write = |key: hark_store::Key, secret: Secret| {
        let answer = idempotent::keep(&headers, StatusCode::CREATED, &created(key, &secret));
        answer.ok_or(hark_store::Error::Conflict("the answer can't be kept; please try again"))
    };
    let answer = app.store.keys().audited(&entry).create_once(identity.account(), &new, &name, write).await?;
    idempotent::give(&headers, &answer)
}

/// The idempotency key of the request with its fingerprint, if it has one.
fn name(headers: &HeaderMap, wanted: &NewKey) -> Result<Option<IdempotencyKey>, Failure> {
    let Some(key) = idempotent::key(headers)? else { return Ok(None) };
    let canonical = Canonical::new("POST /v1/keys").with("key", wanted, &NewKey::default())?;
    // The first encoding: the `Debug` output of the request as it was declared then.
    let NewKey { name, rate_limit, monthly_limit_minutes, .. } = wanted;
    let print = format!(
        "POST /v1/keys NewKey {{ name: {name:?}, rate_limit: {rate_limit:?}, monthly_limit_minutes: {monthly_limit_minutes:?} }}"
    );
    Ok(Some(canonical.fingerprint().or(Sha256::digest(print).to_vec()).named(key)))
}

/// A key can't create a key with more permissions than its own.
fn refuse_more_scopes(identity: &Identity, scopes: &[Scope]) -> Result<(), Failure> {
    match scopes.iter().find(|scope| !identity.scopes().contains(scope)) {
        None => Ok(()),
        Some(scope) => {
            let message = format!("this key lacks the scope `{}` and can't give it to another", scope.name());
            Err(Failure::new(ErrorKind::Forbidden, message))
        }
    }
}

fn new_key(wanted: NewKey, now: hark_store::Micros) -> Result<hark_store::NewKey, Failure> {
    let mut new = hark_store::NewKey::new(KeyKind::Service, name_of(wanted.name.as_deref().unwrap_or("API key"))?);
    if let Some(scopes) = wanted.scopes {
        new.scopes = scopes_of(&scopes)?;
    }
    if let Some(expires_at) = wanted.expires_at {
        let left = u64::try_from(expires_at.0 - now).ok().filter(|left| *left > 0);
        let left = left.ok_or_else(|| Failure::invalid("`expires_at` is in the past"))?;
        new.valid_for = Some(std::time::Duration::from_micros(left));
    }
    if let Some(addresses) = wanted.allowed_addresses {
        new.allowed_addresses = addresses_of(&addresses)?;
    }
    if let Some(credits) = wanted.spending_limit {
        new.spending_limit = Some(in_range("spending_limit", credits, 0, MAX_MINUTES)?);
    }
    if let Some(rate) = wanted.rate_limit {
        new.rate_limit = in_range("rate_limit", rate, 1, MAX_RATE)?;
    }
    if let Some(minutes) = wanted.monthly_limit_minutes {
        new.monthly_limit_minutes = in_range("monthly_limit_minutes", minutes, 0, MAX_MINUTES)?;
    }
    Ok(new)
}

fn name_of(name: &str) -> Result<&str, Failure> {
    let name = name.trim();
    if name.chars().count() > MAX_NAME {
        return Err(Failure::invalid(format!("`name` is longer than {MAX_NAME} characters")));
    }
    Ok(name)
}

fn scopes_of(given: &[KeyScope]) -> Result<Vec<Scope>, Failure> {
    if given.is_empty() {
        return Err(Failure::invalid("`scopes` is empty: a key that may do nothing is of no use"));
    }
    let is_given = |scope: &Scope| {
        given.contains(match scope {
            Scope::Transcribe => &KeyScope::Transcribe,
            Scope::Read => &KeyScope::Read,
            Scope::Manage => &KeyScope::Manage,
        })
    };
    Ok(Scope::ALL.into_iter().filter(is_given).collect())
}

fn addresses_of(given: &[String]) -> Result<Vec<String>, Failure> {
    if given.len() > MAX_ADDRESSES {
        return Err(Failure::invalid(format!("`allowed_addresses` may hold {MAX_ADDRESSES} networks")));
    }
    given.iter().map(|text| Ok(network(text)?.to_string())).collect()
}

/// A network such as `2001:db8::/48`, or one address as the network that holds only it.
fn network(text: &str) -> Result<IpNet, Failure> {
    let text = text.trim();
    let one = text.parse::<std::net::IpAddr>().ok().map(|address| IpNet::from(address.to_canonical()));
    one.or_else(|| text.parse::<IpNet>().ok().map(|network| network.trunc())).ok_or_else(|| {
        let message = "`allowed_addresses` holds what is no network: write 192.0.2.7, 192.0.2.0/24 or 2001:db8::/48";
        Failure::invalid(message)
    })
}

fn created(key: hark_store::Key, secret: &Secret) -> CreatedKey {
    CreatedKey {
        id: key.id.0,
        name: key.name,
        key: secret.reveal().to_owned(),
        prefix: key.prefix,
        created_at: DateTime(key.created_at),
        expires_at: key.expires_at.map(DateTime),
        previous_valid_until: key.previous_until.map(DateTime),
    }
}

fn in_range(name: &str, value: i64, least: i64, most: i64) -> Result<i64, Failure> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(Failure::invalid(format!("`{name}` must be a number from {least} to {most}")))
}

/// Change a key: its name and its limits
#[utoipa::path(patch, path = "/v1/keys/{id}", tag = "account", operation_id = "changeKey", request_body = KeyUpdate,
    params(("id" = i64, Path, description = "the key's number")),
    responses((status = 200, body = Key), Invalid, Unauthorized, Missing, AnyError), security(("bearer" = [])))]
pub(crate) async fn change(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    Json(update): Json<KeyUpdate>,
) -> Result<Answer<Key>, Failure> {
    let bounded = |name: &str, value: Option<i64>, least: i64, most: i64| {
        value.map(|value| in_range(name, value, least, most)).transpose()
    };
    let change = KeyChange {
        name: update.name.as_deref().map(name_of).transpose()?.map(str::to_owned),
        rate_limit: bounded("rate_limit", update.rate_limit, 1, MAX_RATE)?,
        monthly_limit_minutes: bounded("monthly_limit_minutes", update.monthly_limit_minutes, 0, MAX_MINUTES)?,
        spending_limit: bounded("spending_limit", update.spending_limit, 0, MAX_MINUTES)?.map(Some),
    };
    let entry = audit::by(&identity, audit::KEY_CHANGED);
    let key = app.store.keys().audited(&entry).change(identity.account(), KeyId(id), &change).await?;
    app.credentials.invalidate_key(KeyId(id));
    Ok(Answer(wire_key(key, app.clock.now())))
}

/// Roll a key over
///
/// Gives it a new secret, shown only in this answer; its limits and what it used stay. The secret before is valid for a day
/// more, or for as long as the request says; one from before an earlier roll-over ends at once.
#[utoipa::path(post, path = "/v1/keys/{id}/roll", tag = "account", operation_id = "rollKey", request_body = Option<KeyRoll>,
    params(("id" = i64, Path, description = "the key's number")),
    responses((status = 200, body = CreatedKey), Invalid, Unauthorized, Missing, AnyError), security(("bearer" = [])))]
pub(crate) async fn roll(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    OptionalJson(wanted): OptionalJson<KeyRoll>,
) -> Result<Answer<CreatedKey>, Failure> {
    let grace = in_range("grace_seconds", wanted.grace_seconds.unwrap_or(GRACE), 0, MAX_GRACE)?;
    let grace = std::time::Duration::from_secs(grace.unsigned_abs());
    let entry = audit::by(&identity, audit::KEY_ROLLED);
    let entry = entry.with_detail(format!("the secret before ends after {} s", grace.as_secs()));
    let (key, secret) = app.store.keys().audited(&entry).roll(identity.account(), KeyId(id), grace).await?;
    app.credentials.invalidate_key(KeyId(id));
    Ok(Answer(created(key, &secret)))
}

/// Revoke a key
#[utoipa::path(delete, path = "/v1/keys/{id}", tag = "account", operation_id = "revokeKey",
    params(("id" = i64, Path, description = "the key's number")),
    responses((status = 200, body = Done), Unauthorized, Missing, AnyError), security(("bearer" = [])))]
pub(crate) async fn revoke(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
) -> Result<Answer<Done>, Failure> {
    let entry = audit::by(&identity, audit::KEY_REVOKED);
    app.store.keys().audited(&entry).revoke(identity.account(), KeyId(id)).await?;
    app.credentials.invalidate_key(KeyId(id));
    Ok(Answer(Done { ok: true }))
}
