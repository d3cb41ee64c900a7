//! API keys: make, list, revoke.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hark_api::{CreatedKey, DateTime, Done, Key, KeyList, NewKey};
use hark_store::{KeyId, KeyKind, Owner, Secret};

use crate::app::App;
use crate::error::Failure;
use crate::extract::{OptionalJson, Path};
use crate::idempotent;
use crate::middleware::Identity;
use crate::routes::{AnyError, Invalid, Missing, Reused, Unauthorized};

const MAX_NAME: usize = 200;
const MAX_RATE: i64 = 10_000_000;
const MAX_MINUTES: i64 = 1_000_000_000;
/// Keys an account may have in use.
const MOST_KEYS: usize = 1000;

/// The keys of the account
#[utoipa::path(get, path = "/v1/keys", tag = "account", operation_id = "listKeys",
    responses((status = 200, body = KeyList), Unauthorized, AnyError), security(("bearer" = [])))]
pub(crate) async fn list(State(app): State<App>, identity: Identity) -> Result<Answer<KeyList>, Failure> {
    let keys = app.store.keys_of(identity.account(), KeyKind::Service).await?;
    let keys = keys.into_iter().rev().map(|key| Key {
        id: key.id.0,
        name: key.name,
        prefix: key.prefix,
        is_active: key.is_active,
        rate_limit: key.rate_limit,
        monthly_limit_minutes: key.monthly_limit_minutes,
        last_used: key.last_used.map(DateTime),
        created_at: DateTime(key.created_at),
    });
    Ok(Answer(KeyList { keys: keys.collect() }))
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
    let name = idempotent::name(&headers, format!("POST /v1/keys {wanted:?}").as_bytes())?;
    if let Some(name) = &name
        && let Some(answer) = app.store.answered(&owner, name).await?
    {
        return idempotent::give(&headers, &answer);
    }
    let new = new_key(wanted)?;
    let keys = app.store.keys_of(identity.account(), KeyKind::Service).await?;
    if keys.iter().filter(|key| key.is_active).count() >= MOST_KEYS {
        return Err(Failure::invalid(format!("the account has {MOST_KEYS} keys: revoke some first")));
    }
    let Some(name) = name else {
        let (key, secret) = app.store.create_key(identity.account(), &new).await?;
        return Ok((StatusCode::CREATED, Answer(created(key, &secret))).into_response());
    };
    let write = |key: hark_store::Key, secret: Secret| {
        let answer = idempotent::keep(&headers, StatusCode::CREATED, &created(key, &secret));
        answer.ok_or(hark_store::Error::Conflict("the answer can't be kept; please try again"))
    };
    let answer = app.store.create_key_once(identity.account(), &new, &name, write).await?;
    idempotent::give(&headers, &answer)
}

fn new_key(wanted: NewKey) -> Result<hark_store::NewKey, Failure> {
    let mut new = hark_store::NewKey::new(KeyKind::Service, wanted.name.as_deref().unwrap_or("API key").trim());
    if new.name.chars().count() > MAX_NAME {
        return Err(Failure::invalid(format!("`name` is longer than {MAX_NAME} characters")));
    }
    if let Some(rate) = wanted.rate_limit {
        new.rate_limit = within("rate_limit", rate, 1, MAX_RATE)?;
    }
    if let Some(minutes) = wanted.monthly_limit_minutes {
        new.monthly_limit_minutes = within("monthly_limit_minutes", minutes, 0, MAX_MINUTES)?;
    }
    Ok(new)
}

fn created(key: hark_store::Key, secret: &Secret) -> CreatedKey {
    CreatedKey {
        id: key.id.0,
        name: key.name,
        key: secret.reveal().to_owned(),
        prefix: key.prefix,
        created_at: DateTime(key.created_at),
    }
}

fn within(name: &str, value: i64, least: i64, most: i64) -> Result<i64, Failure> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(Failure::invalid(format!("`{name}` must be a number from {least} to {most}")))
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
    app.store.revoke_key(identity.account(), KeyId(id)).await?;
    app.credentials.forget_key(KeyId(id));
    Ok(Answer(Done { ok: true }))
}
