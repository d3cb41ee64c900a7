//! Limits: requests per minute, concurrent transcriptions, bytes of an upload; and client addresses.

mod address;
mod anonymous;
mod at_once;
mod bodies;
mod connections;
mod rate;

pub(crate) use address::{client_address, networks, subnet};
pub(crate) use anonymous::AddressHash;
pub(crate) use at_once::{AtOnce, Place};
pub(crate) use bodies::{Bodies, BodyRefusal};
pub(crate) use connections::{Connections, Refused};
pub(crate) use rate::{Rate, RateLimiter};
