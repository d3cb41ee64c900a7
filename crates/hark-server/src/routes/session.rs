//! Sign-up, sign-in and sign-out of the web app, with passwords and session cookies.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hark_api::{AwaitsConfirmation, Done, ErrorKind, PasswordChange, Session, SignIn, SignUp, SignedIn};
use hark_store::{Account, AccountChange, AccountId, AddressUse, KeyKind, NewAccount, NewKey, Plan, Secret};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::audit;
use crate::error::Failure;
use crate::extract::{Json, Query};
use crate::limits::networks;
use crate::middleware::Identity;
use crate::routes::account::wire_account;
use crate::routes::{AnyError, Invalid, Limited, Unauthorized};
use crate::sign::{Allowance, Verdict, check_password, cookie, device, guard};
use crate::visit::{Attempt, Visit, attempt};

/// How long a session is valid.
const SESSION: Duration = Duration::from_secs(30 * 86_400);
/// How long a user API token is valid.
const TOKEN: Duration = Duration::from_secs(365 * 86_400);
/// How long a confirmation is valid.
const CONFIRMATION: Duration = Duration::from_secs(86_400);

/// The rate limit of mails to one address, which any caller may give.
pub(crate) const MAILS: Allowance = Allowance { burst: 3, interval: Duration::from_secs(600) };

/// Make an account
///
/// Answers with a session cookie, or, where the server confirms addresses, with 202 once a mail is on its way; then the
/// answer is the same whether the address has an account or not.
#[utoipa::path(post, path = "/v1/auth/signup", tag = "account", operation_id = "signUp", request_body = SignUp,
    responses((status = 201, body = SignedIn, headers(("Set-Cookie" = String, description = "hark_session"))),
        (status = 202, description = "a mail asks to confirm the address", body = AwaitsConfirmation),
        Invalid, Limited, AnyError))]
pub(crate) async fn sign_up(
    State(app): State<App>,
    visit: Visit,
    Json(wanted): Json<SignUp>,
) -> Result<Response, Failure> {
    if !app.config.allows_sign_up() {
        return Err(Failure::new(ErrorKind::Forbidden, "accounts are made by whoever runs this server"));
    }
    let email = email(&wanted.email)?;
    let lang = lang(wanted.lang)?;
    check_password(&email, &wanted.password.0).map_err(|error| Failure::invalid(error.to_string()))?;
    count_sign_up(&app, &visit).await?;
    // Hashed before the address is looked up, so that the response time reveals nothing about it.
    let hash = app.sign.passwords.hash(wanted.password.0).await?;
    let new = NewAccount {
        password_hash: Some(hash),
        lang,
        is_confirmed: app.mailer.is_none(),
        // Without a confirmed address there are no credits.
        credits: if app.mailer.is_none() { app.config.initial_credits() } else { 0 },
        ..NewAccount::new(email, Plan::Free)
    };
    if app.mailer.is_some() {
        confirm_by_mail(&app, &new).await?;
        return Ok(no_store((StatusCode::ACCEPTED, Answer(AwaitsConfirmation { confirmation_sent: true }))));
    }
    let account = app.store.accounts().create(&new).await?;
    tracing::info!(account = %account.id, "account.created");
    audit::record(&app, audit::at_the_door(&visit, Some(account.id), audit::ACCOUNT_CREATED)).await;
    attempt::remember_address(&app, &visit, account.id).await?;
    let session = begin_session(&app, &visit, account.id).await?;
    signed_in(&app, &visit, StatusCode::CREATED, account, Opened::Session(session)).await
}

/// Counts a new account for the networks of its address.
async fn count_sign_up(app: &App, visit: &Visit) -> Result<(), Failure> {
    let now = app.clock.now();
    let mut counted = Vec::new();
    for network in networks(visit.address) {
        let limit = i64::from(app.config.sign_ups_a_day()) * i64::from(network.multiple);
        counted.push((app.addresses.hash_network(&app.store, &network.name, now).await?, limit));
    }
    let taken = app.store.addresses().count(AddressUse::SignUps, &counted, 1).await;
    taken.map_err(|error| Failure::of_store(error, now))
}

/// Creates the account and mails a link; for an address that has an account, mails a notice instead.
async fn confirm_by_mail(app: &App, new: &NewAccount) -> Result<(), Failure> {
    let account = match app.store.accounts().create(new).await {
        Ok(account) => Some(account),
        Err(hark_store::Error::Conflict(_)) => {
            let old = app.store.accounts().by_email(&new.email).await?;
            if old.is_confirmed || !app.store.keys().list(old.id, KeyKind::Service).await?.is_empty() {
                None
            } else {
                // It was never confirmed and never used; its old links become invalid.
                app.store.accounts().delete(old.id).await?;
                Some(app.store.accounts().create(new).await?)
            }
        }
        Err(error) => return Err(error.into()),
    };
    match account {
        Some(account) => send_confirmation(app, &account).await,
        None => {
            if app.sign.tries.spend(("mails", &new.email), MAILS, app.clock.now()).is_ok()
                && let Some(mailer) = &app.mailer
            {
                let text = "Somebody, perhaps you, wanted to make an account with this address, which has one already.\n\
                            Sign in with your password. If it was not you, nothing happened and nothing is to be done.\n";
                mailer.send(&new.email, "Your account", text.to_owned());
            }
            Ok(())
        }
    }
}

async fn send_confirmation(app: &App, account: &Account) -> Result<(), Failure> {
    let (Some(mailer), Some(url)) = (&app.mailer, &app.config.public_url) else { return Ok(()) };
    if app.sign.tries.spend(("mails", &account.email), MAILS, app.clock.now()).is_err() {
        return Ok(());
    }
    let key = NewKey { valid_for: Some(CONFIRMATION), ..NewKey::new(KeyKind::Confirmation, "") };
    let (_, secret) = app.store.keys().create(account.id, &key).await?;
    let text = format!(
        "Open this link to confirm your address; it can be used for a day.\n\n{}/v1/auth/confirm?token={}\n\n\
         If you did not sign up, ignore this mail.\n",
        url.trim_end_matches('/'),
        secret.reveal()
    );
    mailer.send(&account.email, "Confirm your address", text);
    Ok(())
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ConfirmQuery {
    /// What the mail's link holds.
    token: String,
}

/// Confirm an address
///
/// The link of the mail; it works once.
#[utoipa::path(get, path = "/v1/auth/confirm", tag = "account", operation_id = "confirmAddress", params(ConfirmQuery),
    responses((status = 200, description = "confirmed: sign in now", content((Done = "application/json"), (String = "text/html; charset=utf-8"))),
        Invalid, AnyError))]
pub(crate) async fn confirm(
    State(app): State<App>,
    visit: Visit,
    headers: HeaderMap,
    Query(query): Query<ConfirmQuery>,
) -> Result<Response, Failure> {
    let account = app.store.keys().redeem(&query.token, KeyKind::Confirmation).await.map_err(|error| match error {
        hark_store::Error::NotFound(_) => {
            Failure::invalid("this link was used already or is too old: sign in to get another by mail")
        }
        other => other.into(),
    })?;
    app.store.accounts().confirm(account, app.config.initial_credits()).await?;
    app.credentials.invalidate_account(account);
    audit::record(&app, audit::at_the_door(&visit, Some(account), audit::ACCOUNT_CONFIRMED)).await;
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("text/html") {
        const PAGE: &str = "<!doctype html><html lang=en><meta charset=utf-8><title>Confirmed</title>\
                            <p>Your address is confirmed. You can <a href=/>sign in</a> now.</html>";
        let kind = HeaderValue::from_static("text/html; charset=utf-8");
        return Ok(no_store(([(header::CONTENT_TYPE, kind)], PAGE)));
    }
    Ok(no_store(Answer(Done { ok: true })))
}

/// Sign in
///
/// Answers with a session cookie, or with a user API token where one is asked for. An unknown address and a wrong
/// password get the same answer after the same time.
#[utoipa::path(post, path = "/v1/auth/signin", tag = "account", operation_id = "signIn", request_body = SignIn,
    responses((status = 200, body = SignedIn, headers(("Set-Cookie" = String, description = "hark_session"))),
        Invalid, Unauthorized, Limited, AnyError))]
pub(crate) async fn sign_in(
    State(app): State<App>,
    visit: Visit,
    Json(given): Json<SignIn>,
) -> Result<Response, Failure> {
    let email = given.email.trim().to_lowercase();
    if given.password.0.len() > 4 * 256 {
        // No account has such a long password, and hashing it would be slow.
        return Err(wrong_password());
    }
    let (account, stored) = match find(&app, &email).await? {
        Some((account, stored)) => (Some(account), stored),
        None => (None, None),
    };
    let attempt = Attempt::begin(&app, &visit, account.as_ref().map(|account| account.id), &email).await?;
    let verdict = app.sign.passwords.verify(stored.clone(), given.password.0).await?;
    let id = account.as_ref().map(|account| account.id);
    let (Some(mut account), Verdict::Right { renewed }) = (account, verdict) else {
        tracing::info!("session.refused");
        audit::record(&app, audit::at_the_door(&visit, id, audit::SIGN_IN_FAILED)).await;
        return Err(wrong_password());
    };
    attempt.succeeded(account.id).await?;
    if !account.is_confirmed {
        if app.mailer.is_some() {
            send_confirmation(&app, &account).await?;
            return Err(Failure::new(ErrorKind::Forbidden, "confirm your address first: the link is in your mail"));
        }
        // Confirmation is no longer required; an account in use must not count as unconfirmed.
        account = app.store.accounts().confirm(account.id, app.config.initial_credits()).await?;
    }
    let kept = match renewed {
        Some(renewed) => {
            let change = AccountChange { password_hash: Some(renewed.clone()), ..AccountChange::default() };
            app.store.accounts().change(account.id, &change).await?;
            Some(renewed)
        }
        None => stored,
    };
    let opened = if given.token {
        Opened::Token(begin_token(&app, account.id).await?)
    } else {
        Opened::Session(begin_session(&app, &visit, account.id).await?)
    };
    // A concurrent password change has ended all sessions and must not let this one in.
    if app.store.accounts().password_hash(account.id).await? != kept {
        app.store.keys().revoke(account.id, opened.key()).await?;
        return Err(wrong_password());
    }
    tracing::info!(account = %account.id, "account.signed_in");
    let opened_as = if given.token { "token" } else { "session" };
    let entry = audit::at_the_door(&visit, Some(account.id), audit::SIGNED_IN);
    audit::record(&app, entry.with_subject(format!("{opened_as} {}", opened.key()))).await;
    signed_in(&app, &visit, StatusCode::OK, account, opened).await
}

fn wrong_password() -> Failure {
    Failure::new(ErrorKind::Unauthorized, "the email address or the password is not right")
}

/// The account of an address and the hash to verify its password with.
async fn find(app: &App, email: &str) -> Result<Option<(Account, Option<String>)>, Failure> {
    match app.store.accounts().by_email(email).await {
        Ok(account) => {
            let hash = app.store.accounts().password_hash(account.id).await?;
            Ok(Some((account, hash)))
        }
        // Unknown or invalid address. As many queries as for a known one.
        Err(hark_store::Error::NotFound(_) | hark_store::Error::Conflict(_)) => {
            match app.store.accounts().password_hash(AccountId(0)).await {
                Ok(_) | Err(hark_store::Error::NotFound(_)) => Ok(None),
                Err(error) => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Sign out
///
/// Ends the session or revokes the user API token that the request came with.
#[utoipa::path(post, path = "/v1/auth/signout", tag = "account", operation_id = "signOut",
    responses((status = 200, body = Done), Unauthorized, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn sign_out(State(app): State<App>, visit: Visit, identity: Identity) -> Result<Response, Failure> {
    if identity.kind() == KeyKind::Service {
        let message = "an API key does not sign out: DELETE /v1/keys/{id} revokes it";
        return Err(Failure::new(ErrorKind::Forbidden, message));
    }
    match app.store.keys().revoke(identity.account(), identity.key()).await {
        // Another request was faster, or the session was cached here and ended by another process.
        Ok(()) | Err(hark_store::Error::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    app.credentials.invalidate_key(identity.key());
    audit::record(&app, audit::by(&identity, audit::SIGNED_OUT).with_subject(format!("session {}", identity.key())))
        .await;
    let mut response = no_store(Answer(Done { ok: true }));
    put_cookie(&mut response, cookie::clear(visit.is_https));
    Ok(response)
}

/// Who is signed in
///
/// For pages: whom the session cookie stands for, and the token that their unsafe requests send as `X-CSRF-Token`.
#[utoipa::path(get, path = "/v1/auth/session", tag = "account", operation_id = "showSession",
    responses((status = 200, body = Session), AnyError), security((), ("session" = [])))]
pub(crate) async fn show(State(app): State<App>, visit: Visit, headers: HeaderMap) -> Result<Response, Failure> {
    let nobody = Session { sign_up: app.config.allows_sign_up(), ..Session::default() };
    let Some(secret) = cookie::session(&headers) else { return Ok(no_store(Answer(nobody))) };
    let credential = match app.credentials.look_up(&app.store, secret).await {
        Ok(credential) if credential.key.kind == KeyKind::Session => credential,
        Ok(_) | Err(hark_store::Error::NotFound(_)) => {
            let mut response = no_store(Answer(nobody));
            put_cookie(&mut response, cookie::clear(visit.is_https));
            return Ok(response);
        }
        Err(error) => return Err(error.into()),
    };
    let account = app.store.accounts().get(credential.key.account).await?;
    Ok(no_store(Answer(Session {
        signed_in: true,
        account: Some(wire_account(account)),
        csrf_token: Some(guard::csrf_token(secret)),
        ..nobody
    })))
}

/// Change the password
///
/// Signs out everywhere else: sessions and user API tokens end, API keys stay. The answer holds a new session or token.
#[utoipa::path(post, path = "/v1/auth/password", tag = "account", operation_id = "changePassword", request_body = PasswordChange,
    responses((status = 200, body = SignedIn), Invalid, Unauthorized, Limited, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn change_password(
    State(app): State<App>,
    visit: Visit,
    identity: Identity,
    Json(change): Json<PasswordChange>,
) -> Result<Response, Failure> {
    let id = identity.account();
    let account = app.store.accounts().get(id).await?;
    check_password(&account.email, &change.new_password.0).map_err(|error| Failure::invalid(error.to_string()))?;
    let attempt = Attempt::of_credential(&app, &visit, identity.key()).await?;
    let stored = app.store.accounts().password_hash(id).await?;
    if app.sign.passwords.verify(stored, change.current_password.0).await? == Verdict::Wrong {
        return Err(Failure::new(ErrorKind::Forbidden, "`current_password` is not right"));
    }
    attempt.succeeded(id).await?;
    let hash = app.sign.passwords.hash(change.new_password.0).await?;
    let change = AccountChange { password_hash: Some(hash), ..AccountChange::default() };
    let entry = audit::by(&identity, audit::PASSWORD_CHANGED);
    let account = app.store.accounts().audited(&entry).change(id, &change).await?;
    for kind in [KeyKind::Session, KeyKind::User, KeyKind::Reset] {
        app.store.keys().revoke_all(id, kind).await?;
    }
    app.credentials.invalidate_account(id);
    tracing::info!(account = %id, "account.password_changed");
    let opened = match identity.kind() {
        KeyKind::Session => Opened::Session(begin_session(&app, &visit, id).await?),
        KeyKind::User => Opened::Token(begin_token(&app, id).await?),
        _ => Opened::Nothing,
    };
    signed_in(&app, &visit, StatusCode::OK, account, opened).await
}

/// The session or token of a sign-in.
enum Opened {
    Session((hark_store::KeyId, Secret)),
    Token((hark_store::KeyId, Secret)),
    Nothing,
}

impl Opened {
    fn key(&self) -> hark_store::KeyId {
        match self {
            Opened::Session((key, _)) | Opened::Token((key, _)) => *key,
            Opened::Nothing => hark_store::KeyId(0),
        }
    }
}

async fn begin_session(app: &App, visit: &Visit, account: AccountId) -> Result<(hark_store::KeyId, Secret), Failure> {
    let new = NewKey { valid_for: Some(SESSION), ..NewKey::new(KeyKind::Session, visit.agent.as_str()) };
    let (key, secret) = app.store.keys().create(account, &new).await?;
    Ok((key.id, secret))
}

async fn begin_token(app: &App, account: AccountId) -> Result<(hark_store::KeyId, Secret), Failure> {
    let new = NewKey { valid_for: Some(TOKEN), ..NewKey::new(KeyKind::User, "sign-in") };
    let (key, secret) = app.store.keys().create(account, &new).await?;
    Ok((key.id, secret))
}

async fn signed_in(
    app: &App,
    visit: &Visit,
    status: StatusCode,
    account: Account,
    opened: Opened,
) -> Result<Response, Failure> {
    let device = device::remember(&app.store, account.id, visit.is_https).await?;
    let mut body = SignedIn { account: wire_account(account), csrf_token: None, token: None };
    let mut cookie = None;
    match &opened {
        Opened::Session((_, secret)) => {
            body.csrf_token = Some(guard::csrf_token(secret.reveal()));
            cookie = cookie::set(secret.reveal(), SESSION, visit.is_https);
        }
        Opened::Token((_, secret)) => body.token = Some(secret.reveal().to_owned()),
        Opened::Nothing => {}
    }
    let mut response = no_store((status, Answer(body)));
    let is_session = cookie.is_some();
    put_cookie(&mut response, cookie);
    if let Some(device) = device.filter(|_| is_session) {
        response.headers_mut().append(header::SET_COOKIE, device);
    }
    Ok(response)
}

fn put_cookie(response: &mut Response, cookie: Option<HeaderValue>) {
    if let Some(cookie) = cookie {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
}

/// A response with `Cache-Control: no-store`.
fn no_store(answer: impl IntoResponse) -> Response {
    let mut response = answer.into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Validates an email address.
fn email(given: &str) -> Result<String, Failure> {
    let email = given.trim();
    // The maximum length of RFC 5321.
    let is_short = email.len() <= 254;
    match email.parse::<lettre::Address>() {
        Ok(_) if is_short && !email.chars().any(char::is_control) => Ok(email.to_owned()),
        _ => Err(Failure::invalid("`email` is not an email address such as ann@example.com")),
    }
}

/// A language tag such as `en` or `zh-Hant`.
fn lang(given: Option<String>) -> Result<String, Failure> {
    let Some(lang) = given.filter(|lang| !lang.trim().is_empty()) else { return Ok("en".to_owned()) };
    let lang = lang.trim();
    let is_tag = lang.len() <= 35 && lang.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_tag {
        Ok(lang.to_owned())
    } else {
        Err(Failure::invalid("`lang` is not a language tag such as en or zh-Hant"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_languages_that_are_none_are_refused() {
        for good in ["ann@example.com", " ann+hark@mail.example.co.uk ", "admin@localhost", "ünï@example.com"] {
            assert!(email(good).is_ok(), "{good}");
        }
        for wrong in ["", "ann", "@example.com", "ann@", "a b@example.com", "ann@exa mple.com", "a@b\r\nRCPT TO:<c@d>"]
        {
            assert!(email(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(lang(None).unwrap(), "en");
        assert_eq!(lang(Some("zh-Hant".into())).unwrap(), "zh-Hant");
        assert!(lang(Some("en; drop".into())).is_err());
    }
}
