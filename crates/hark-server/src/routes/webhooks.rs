//! The signing secret of an account's webhooks.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use hark_api::{DateTime, ErrorKind, WebhookRotation, WebhookSecret};

use crate::app::App;
use crate::audit;
use crate::error::Failure;
use crate::extract::OptionalJson;
use crate::middleware::Identity;
use crate::routes::{AnyError, Invalid, Missing, Unauthorized};
use crate::webhooks::webhook_secret;

/// How long the previous secret signs as well after a rotation, in seconds.
const GRACE: i64 = 86_400;
const MAX_GRACE: i64 = 30 * 86_400;

/// The secret of the account's webhooks
///
/// Calls to a `webhook_url` carry `X-Hark-Signature: t=…,v1=…`: the moment in seconds, and the HMAC-SHA256 with this secret of
/// that moment, a dot and the body, in hexadecimal. 404 where the server makes no such calls.
#[utoipa::path(get, path = "/v1/webhooks/secret", tag = "account", operation_id = "showWebhookSecret",
    responses((status = 200, body = WebhookSecret), Unauthorized, Missing, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn secret(State(app): State<App>, identity: Identity) -> Result<Answer<WebhookSecret>, Failure> {
    if !app.config.webhooks.enabled {
        return Err(Failure::new(ErrorKind::NotFound, "webhooks are not enabled on this server"));
    }
    shown(&app, &identity).await
}

async fn shown(app: &App, identity: &Identity) -> Result<Answer<WebhookSecret>, Failure> {
    let secret = webhook_secret(&app.store, identity.account()).await?;
    let (_, previous_until) = app.store.webhooks().rotation(identity.account()).await?;
    Ok(Answer(WebhookSecret { secret, previous_valid_until: previous_until.map(DateTime) }))
}

/// Rotate the secret of the account's webhooks
///
/// Calls are signed with the new one, and with the one before for a day more or for as long as the request says: then
/// `X-Hark-Signature` holds two `v1`, and either may be checked.
#[utoipa::path(post, path = "/v1/webhooks/secret/rotate", tag = "account", operation_id = "rotateWebhookSecret",
    request_body = Option<WebhookRotation>,
    responses((status = 200, body = WebhookSecret), Invalid, Unauthorized, Missing, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn rotate(
    State(app): State<App>,
    identity: Identity,
    OptionalJson(wanted): OptionalJson<WebhookRotation>,
) -> Result<Answer<WebhookSecret>, Failure> {
    if !app.config.webhooks.enabled {
        return Err(Failure::new(ErrorKind::NotFound, "webhooks are not enabled on this server"));
    }
    let seconds = wanted.grace_seconds.unwrap_or(GRACE);
    if !(0..=MAX_GRACE).contains(&seconds) {
        return Err(Failure::invalid(format!("`grace_seconds` must be a number from 0 to {MAX_GRACE}")));
    }
    let entry = audit::by(&identity, audit::WEBHOOK_SECRET_ROTATED);
    let grace = Duration::from_secs(seconds.unsigned_abs());
    app.store.webhooks().audited(&entry).rotate_secret(identity.account(), grace).await?;
    shown(&app, &identity).await
}
