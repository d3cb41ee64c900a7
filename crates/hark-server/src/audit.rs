//! Audit log entries of the service: event names and actors.

use hark_store::{AccountId, Actor, KeyKind, NewAudit};

use crate::app::App;
use crate::middleware::Identity;
use crate::visit::Visit;

/// Sign-up.
pub(crate) const ACCOUNT_CREATED: &str = "account.created";
/// The address of an account was confirmed.
pub(crate) const ACCOUNT_CONFIRMED: &str = "account.confirmed";
/// The data of an account was exported.
pub(crate) const ACCOUNT_EXPORTED: &str = "account.exported";
/// An account was deleted with all its data.
pub(crate) const ACCOUNT_DELETED: &str = "account.deleted";
/// Sign-in.
pub(crate) const SIGNED_IN: &str = "session.created";
/// A failed sign-in: wrong password.
pub(crate) const SIGN_IN_FAILED: &str = "session.refused";
/// A session or user token was ended.
pub(crate) const SIGNED_OUT: &str = "session.ended";
/// The password was changed.
pub(crate) const PASSWORD_CHANGED: &str = "password.changed";
/// A password reset was requested.
pub(crate) const RESET_REQUESTED: &str = "password.reset_requested";
/// The password was reset by its link.
pub(crate) const PASSWORD_RESET: &str = "password.reset";
/// A key was created.
pub(crate) const KEY_CREATED: &str = "key.created";
/// The name or the limits of a key were changed.
pub(crate) const KEY_CHANGED: &str = "key.changed";
/// A key got a new secret.
pub(crate) const KEY_ROLLED: &str = "key.rolled";
/// A key was revoked.
pub(crate) const KEY_REVOKED: &str = "key.revoked";
/// The secret of the webhooks was replaced.
pub(crate) const WEBHOOK_SECRET_ROTATED: &str = "webhook_secret.rotated";
/// A transcript was deleted.
pub(crate) const TRANSCRIPT_DELETED: &str = "transcript.deleted";
/// A known voice was deleted.
pub(crate) const SPEAKER_DELETED: &str = "speaker.deleted";

/// The plan or the credits of an account were changed by one that manages others; the store writes `plan.changed` and `credits.changed`.
pub(crate) const ACCOUNT_CHANGED: &str = "account.changed";
/// A failed job was queued again.
pub(crate) const JOB_RETRIED: &str = "job.retried";
/// A failed job was dropped.
pub(crate) const JOB_DROPPED: &str = "job.dropped";
/// A model is being pulled.
pub(crate) const MODEL_PULLED: &str = "model.pulled";

/// An event of an authenticated caller.
pub(crate) fn by(identity: &Identity, event: &'static str) -> NewAudit {
    NewAudit {
        account: Some(identity.account()),
        actor: if identity.kind() == KeyKind::Service { Actor::Key } else { Actor::Account },
        key: Some(identity.key()),
        address: None,
        event,
        subject: String::new(),
        detail: String::new(),
    }
}

/// An event of an unauthenticated caller. The address is stored for a while, for the owner of the account.
pub(crate) fn at_the_door(visit: &Visit, account: Option<AccountId>, event: &'static str) -> NewAudit {
    NewAudit {
        account,
        actor: Actor::Visitor,
        key: None,
        address: Some(visit.address.to_canonical().to_string()),
        event,
        subject: String::new(),
        detail: String::new(),
    }
}

/// Writes an entry. The event has happened: a failure to write is logged as an error and does not fail the request.
pub(crate) async fn record(app: &App, entry: NewAudit) {
    if let Err(error) = app.store.audit().record(&entry).await {
        tracing::error!(%error, event = entry.event, "audit.write_failed");
    }
}
