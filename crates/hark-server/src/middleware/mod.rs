//! What every request passes on its way: an id, a span, the clock of the metrics, the credential.

mod authenticate;
mod linger;
mod observe;

pub(crate) use authenticate::{Caller, Identity, allow_anonymous, require_account};
pub(crate) use observe::observe;
