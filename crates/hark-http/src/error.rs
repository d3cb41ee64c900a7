//! Why a request failed.

use std::error::Error as StdError;
use std::io;

/// Why there is no answer, or not the whole of it. No variant holds the address: its query or password may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The host's name has no address.
    #[error("its name is not known here (no DNS answer)")]
    UnknownHost,
    /// There is no connection: the host, its proxy or TLS refused, or nobody answered.
    #[error("{0}")]
    Connect(String),
    /// The connection was there, and nothing came for too long.
    #[error("no answer in time")]
    Timeout,
    /// The connection broke, or what came is not HTTP.
    #[error("{0}")]
    Broken(String),
    /// An answer is longer than its reader allows.
    #[error("the answer is longer than {limit} bytes")]
    TooLong {
        /// Bytes that were allowed.
        limit: u64,
    },
    /// The body of a request could not be read.
    #[error("{0}")]
    Body(io::Error),
    /// The client can't be set up.
    #[error("can't set up HTTP: {0}")]
    Setup(String),
}

impl Error {
    /// Whether the host was never reached.
    pub fn is_connect(&self) -> bool {
        matches!(self, Error::UnknownHost | Error::Connect(_))
    }
}

impl From<reqwest::Error> for Error {
    fn from(error: reqwest::Error) -> Self {
        if error.is_builder() {
            return Error::Setup(innermost(&error));
        }
        match (error.is_connect(), error.is_timeout()) {
            (true, true) => Error::Connect("no answer in time (connect)".to_owned()),
            (true, false) if error.is_dns() => Error::UnknownHost,
            (true, false) => Error::Connect(innermost(&error)),
            (false, true) => Error::Timeout,
            (false, false) => Error::Broken(innermost(&error)),
        }
    }
}

/// The last of an error's causes: what the system, TLS or the protocol said. Those above it only say where.
fn innermost(error: &reqwest::Error) -> String {
    let Some(mut cause) = error.source() else { return "the request failed".to_owned() };
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
