//! Who may do how much: requests a minute, transcriptions at once, bytes an upload; and who asks, by address.

mod address;
mod anonymous;
mod at_once;
mod rate;

pub(crate) use address::{client_address, subnet};
pub(crate) use anonymous::AddressHash;
pub(crate) use at_once::{AtOnce, Place};
pub(crate) use rate::{Rate, RateLimiter};
