//! What accounts that manage others may do: accounts, the queue, models, the processes of the service. The audit log of all accounts is in `audit.rs`.

pub(crate) mod accounts;
pub(crate) mod models;
pub(crate) mod nodes;
pub(crate) mod queue;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use hark_api::ErrorKind;
use hark_store::{AccountId, Actor, NewAudit};

use crate::error::Failure;
use crate::middleware::Identity;

/// The caller of a path that only an account that manages others may use; everybody else is refused, whatever they ask for.
#[derive(Debug, Clone)]
pub(crate) struct Admin(Identity);

impl<S: Send + Sync> FromRequestParts<S> for Admin {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let identity = Identity::from_request_parts(parts, state).await?;
        if !identity.is_admin() {
            return Err(Failure::new(ErrorKind::Forbidden, "only an account that manages others may do this"));
        }
        Ok(Admin(identity))
    }
}

impl Admin {
    /// Its account.
    fn account(&self) -> AccountId {
        self.0.account()
    }

    /// An event of this account about its own; the store puts the account that it is about in its place.
    fn audit(&self, event: &'static str) -> NewAudit {
        NewAudit {
            account: Some(self.0.account()),
            actor: Actor::Admin,
            key: Some(self.0.key()),
            address: None,
            event,
            subject: String::new(),
            detail: String::new(),
        }
    }
}
