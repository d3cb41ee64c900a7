//! Who may do how much: requests a minute, transcriptions at once, bytes an upload; and who asks, by address.

mod address;
mod anonymous;
mod at_once;
mod rate;
mod storage;

pub(crate) use address::{client_address, subnet};
pub(crate) use anonymous::AddressHash;
pub(crate) use at_once::{AtOnce, Place};
pub(crate) use rate::{Rate, RateLimiter};
pub(crate) use storage::{StorageRoom, storage_full};
