//! What calls to an account's webhooks are signed with.

use axum::Json as Answer;
use axum::extract::State;
use hark_api::{ErrorKind, WebhookSecret};

use crate::app::App;
use crate::error::Failure;
use crate::middleware::Identity;
use crate::routes::{AnyError, Missing, Unauthorized};
use crate::webhooks::webhook_secret;

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
    Ok(Answer(WebhookSecret { secret: webhook_secret(&app.store, identity.account()).await? }))
}
