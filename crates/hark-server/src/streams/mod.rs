//! The live sessions of this process, and the connections that wait for one.

pub(crate) mod connection;
mod registry;

pub(crate) use connection::Connection;
pub(crate) use registry::{Registration, Streams};
