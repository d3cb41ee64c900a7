//! The HTTP client of Hark.
//!
//! In: what a caller may ask for ([`builder`]) and its requests. Out: answers as they come, and errors that name what went
//! wrong without the address, which may hold a secret. What an answer means, and whether to retry, is the caller's business.

mod blocking;
mod error;
mod tls;

use reqwest::ClientBuilder;
use reqwest::redirect::Policy;

pub use blocking::{BlockingClient, BlockingResponse};
pub use error::Error;

/// A client as all of Hark's begin: HTTP/1.1, TLS by ring with the system's certificates, proxies from the environment, and
/// nothing that the caller did not ask for: no redirects, no retries, no decompression.
///
/// The head of an answer may have 100 fields and about 400 KiB (limits of hyper); a body has the limit its reader sets.
pub fn builder() -> ClientBuilder {
    let builder = ClientBuilder::new()
        .tls_backend_preconfigured(tls::config())
        .http1_only()
        .redirect(Policy::none())
        .referer(false)
        .retry(reqwest::retry::never())
        .no_gzip()
        .user_agent(concat!("hark/", env!("CARGO_PKG_VERSION")));
    // With this option Linux also drops a connection whose peer is alive but takes nothing for a while, such as a server that
    // holds an upload back. Keepalive probes find peers that are gone.
    #[cfg(target_os = "linux")]
    let builder = builder.tcp_user_timeout(None);
    builder
}
