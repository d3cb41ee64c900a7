//! Sessions of an account: list, end one, end all others.

use axum::Json as Answer;
use axum::extract::State;
use hark_api::{DateTime, Done, SessionInfo, SessionKind, SessionList};
use hark_store::{Key, KeyId, KeyKind};

use crate::app::App;
use crate::audit;
use crate::error::Failure;
use crate::extract::Path;
use crate::middleware::Identity;
use crate::routes::{AnyError, Missing, Unauthorized};

/// Credentials that come from a sign-in.
const KINDS: [(KeyKind, SessionKind); 2] =
    [(KeyKind::Session, SessionKind::Session), (KeyKind::User, SessionKind::Token)];

/// Where the account is signed in
///
/// Sessions of browsers and user API tokens that still open something, newest first.
#[utoipa::path(get, path = "/v1/auth/sessions", tag = "account", operation_id = "listSessions",
    responses((status = 200, body = SessionList), Unauthorized, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn list(State(app): State<App>, identity: Identity) -> Result<Answer<SessionList>, Failure> {
    let now = app.clock.now();
    let mut sessions = Vec::new();
    for (kind, shown) in KINDS {
        let keys = app.store.keys().list(identity.account(), kind).await?;
        let open = keys.into_iter().filter(|key| key.is_active && key.expires_at.is_none_or(|at| at > now));
        sessions.extend(open.map(|key| info(key, shown, identity.key())));
    }
    sessions.sort_by_key(|session| std::cmp::Reverse(session.id));
    Ok(Answer(SessionList { sessions }))
}

fn info(key: Key, kind: SessionKind, current: KeyId) -> SessionInfo {
    SessionInfo {
        id: key.id.0,
        kind,
        user_agent: key.name,
        created_at: DateTime(key.created_at),
        last_used: key.last_used.map(DateTime),
        expires_at: key.expires_at.map(DateTime),
        is_current: key.id == current,
    }
}

/// Sign out somewhere: end one session or user API token
#[utoipa::path(delete, path = "/v1/auth/sessions/{id}", tag = "account", operation_id = "endSession",
    params(("id" = i64, Path, description = "the session's number")),
    responses((status = 200, body = Done), Unauthorized, Missing, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn end(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
) -> Result<Answer<Done>, Failure> {
    let mut found = false;
    for (kind, _) in KINDS {
        found |=
            app.store.keys().list(identity.account(), kind).await?.iter().any(|key| key.id.0 == id && key.is_active);
    }
    if !found {
        return Err(hark_store::Error::NotFound("session").into());
    }
    let entry = audit::by(&identity, audit::SIGNED_OUT).with_subject(format!("session {id}"));
    app.store.keys().audited(&entry).revoke(identity.account(), KeyId(id)).await?;
    app.credentials.invalidate_key(KeyId(id));
    Ok(Answer(Done { ok: true }))
}

/// Sign out everywhere else: end all sessions and user API tokens but this one
#[utoipa::path(delete, path = "/v1/auth/sessions", tag = "account", operation_id = "endOtherSessions",
    responses((status = 200, body = Done), Unauthorized, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn end_others(State(app): State<App>, identity: Identity) -> Result<Answer<Done>, Failure> {
    let mut ended = 0;
    for (kind, _) in KINDS {
        ended += app.store.keys().revoke_others(identity.account(), kind, identity.key()).await?;
    }
    app.credentials.invalidate_account(identity.account());
    let entry = audit::by(&identity, audit::SIGNED_OUT)
        .with_subject("all other sessions")
        .with_detail(format!("{ended} ended"));
    audit::record(&app, entry).await;
    Ok(Answer(Done { ok: true }))
}
