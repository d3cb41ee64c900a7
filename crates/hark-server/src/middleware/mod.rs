//! What every request passes on its way: an id, a span, the clock of the metrics, the credential, other origins, and how
//! small its answer travels.

mod authenticate;
mod compress;
mod cors;
mod linger;
mod observe;
mod scope;

pub(crate) use authenticate::{Anonymous, Caller, Identity, allow_anonymous, by_token, require_account};
pub(crate) use compress::compress;
pub(crate) use cors::cors;
pub(crate) use observe::observe;
