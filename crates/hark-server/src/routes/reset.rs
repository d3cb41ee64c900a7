//! Password reset: a single-use link by mail.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hark_api::{ApiError, Done, ErrorKind, PasswordReset, ResetRequest, ResetSent};
use hark_store::{Account, AccountChange, KeyKind, NewKey};

use crate::app::App;
use crate::audit;
use crate::error::Failure;
use crate::extract::Json;
use crate::limits::subnet;
use crate::routes::session::MAILS;
use crate::routes::{AnyError, Invalid, Limited};
use crate::sign::{Allowance, check_password};
use crate::visit::Visit;

/// How long a link is valid.
const LINK: Duration = Duration::from_secs(3600);
/// Requests from an address.
const REQUESTS: Allowance = Allowance { burst: 10, interval: Duration::from_secs(60) };

/// Ask for a new password by mail
///
/// The answer is the same whether the address has an account or not: its mailbox is told. 403 where the server sends no mail.
#[utoipa::path(post, path = "/v1/auth/reset", tag = "account", operation_id = "requestPasswordReset", request_body = ResetRequest,
    responses((status = 202, description = "if the address has an account, a mail is on its way", body = ResetSent),
        Invalid, Limited, AnyError))]
pub(crate) async fn request(
    State(app): State<App>,
    visit: Visit,
    Json(wanted): Json<ResetRequest>,
) -> Result<Response, Failure> {
    if app.mailer.is_none() {
        let message = "this server sends no mail: ask whoever runs it for a new password";
        return Err(Failure::new(ErrorKind::Forbidden, message));
    }
    let from = subnet(visit.address).to_string();
    app.sign.tries.spend(("resets from", &from), REQUESTS, app.clock.now()).map_err(|seconds| {
        let message = format!("too many requests for new passwords from here: wait {seconds} seconds");
        Failure::from(ApiError::new(ErrorKind::RateLimited, message).retry_after(seconds))
    })?;
    let email = wanted.email.trim().to_lowercase();
    // In a task of its own: the response time must not reveal whether there is an account.
    tokio::spawn(async move {
        match app.store.accounts().by_email(&email).await {
            Ok(account) => {
                if let Err(failure) = send(&app, &visit, &account).await {
                    tracing::error!(error = %failure.error, "password_reset.failed");
                }
            }
            Err(hark_store::Error::NotFound(_) | hark_store::Error::Conflict(_)) => {}
            Err(error) => tracing::error!(%error, "password_reset.failed"),
        }
    });
    Ok((StatusCode::ACCEPTED, Answer(ResetSent { reset_sent: true })).into_response())
}

async fn send(app: &App, visit: &Visit, account: &Account) -> Result<(), Failure> {
    let (Some(mailer), Some(url)) = (&app.mailer, &app.config.public_url) else { return Ok(()) };
    if app.sign.tries.spend(("mails", &account.email), MAILS, app.clock.now()).is_err() {
        return Ok(());
    }
    let key = NewKey { valid_for: Some(LINK), ..NewKey::new(KeyKind::Reset, "") };
    let (_, secret) = app.store.keys().create(account.id, &key).await?;
    // In the fragment, which is not sent to servers and not logged.
    let text = format!(
        "Open this link to choose a new password; it can be used once, for an hour.\n\n{}/v1/auth/reset#{}\n\n\
         If you did not ask for it, ignore this mail: your password stays as it is.\n",
        url.trim_end_matches('/'),
        secret.reveal()
    );
    mailer.send(&account.email, "Choose a new password", text);
    audit::record(app, audit::at_the_door(visit, Some(account.id), audit::RESET_REQUESTED)).await;
    Ok(())
}

/// Set a new password with the link of the mail
///
/// The token works once. Everybody is signed out: sessions and user API tokens end, API keys stay.
#[utoipa::path(post, path = "/v1/auth/reset/confirm", tag = "account", operation_id = "resetPassword", request_body = PasswordReset,
    responses((status = 200, body = Done), Invalid, Limited, AnyError))]
pub(crate) async fn confirm(
    State(app): State<App>,
    visit: Visit,
    Json(wanted): Json<PasswordReset>,
) -> Result<Answer<Done>, Failure> {
    let over = |error| match error {
        hark_store::Error::NotFound(_) => Failure::invalid("this link was used already or is too old: ask for another"),
        other => Failure::from(other),
    };
    // Checked first: a rejected password must not redeem the link.
    let account = app.store.keys().account_of(&wanted.token.0, KeyKind::Reset).await.map_err(over)?;
    let account = app.store.accounts().get(account).await?;
    check_password(&account.email, &wanted.new_password.0).map_err(|error| Failure::invalid(error.to_string()))?;
    let hash = app.sign.passwords.hash(wanted.new_password.0).await?;
    app.store.keys().redeem(&wanted.token.0, KeyKind::Reset).await.map_err(over)?;
    let change = AccountChange { password_hash: Some(hash), ..AccountChange::default() };
    let entry = audit::at_the_door(&visit, Some(account.id), audit::PASSWORD_RESET);
    app.store.accounts().audited(&entry).change(account.id, &change).await?;
    for kind in [KeyKind::Session, KeyKind::User, KeyKind::Reset] {
        app.store.keys().revoke_all(account.id, kind).await?;
    }
    // The link was mailed, so it also confirms the address.
    if !account.is_confirmed {
        app.store.accounts().confirm(account.id, app.config.initial_credits()).await?;
    }
    app.credentials.invalidate_account(account.id);
    Ok(Answer(Done { ok: true }))
}

/// The page that the link of the mail opens
#[utoipa::path(get, path = "/v1/auth/reset", tag = "account", operation_id = "passwordResetPage",
    responses((status = 200, description = "a form for the new password", body = String, content_type = "text/html; charset=utf-8"), AnyError))]
pub(crate) async fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    ];
    (headers, PAGE).into_response()
}

/// Content security policy: only the inline script, and requests to this server.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

const PAGE: &str = r#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Choose a new password</title>
<h1>Choose a new password</h1>
<form id="form">
<p><label>New password <input id="password" type="password" minlength="8" maxlength="256" autocomplete="new-password" required></label>
<p><button>Set it</button>
</form>
<p id="outcome" role="status"></p>
<script>
document.getElementById("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const outcome = document.getElementById("outcome");
  const body = { token: location.hash.slice(1), new_password: document.getElementById("password").value };
  try {
    const answer = await fetch("reset/confirm", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    });
    outcome.textContent = answer.ok ? "Your password is set. You can sign in now." : (await answer.json()).error;
  } catch {
    outcome.textContent = "The server could not be reached: try again.";
  }
});
</script>
</html>
"#;
