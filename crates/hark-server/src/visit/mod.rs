//! What sign-up, sign-in and the like know of a request beside its body, and what they refuse before reading it.

pub(crate) mod attempt;

pub(crate) use attempt::Attempt;

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::Method;
use axum::http::request::Parts;
use hark_store::KeyKind;

use crate::app::App;
use crate::error::Failure;
use crate::limits::client_address;
use crate::middleware::Caller;
use crate::sign::{device, guard};

/// Where a request comes from.
pub(crate) struct Visit {
    /// The client's address.
    pub(crate) address: IpAddr,
    /// Whether the visitor's connection is protected.
    pub(crate) is_https: bool,
    /// What the browser shows as a sign that somebody signed in with it before; not checked yet.
    pub(crate) device: Option<device::Shown>,
    /// What the client calls itself.
    pub(crate) agent: String,
}

/// Characters of `User-Agent` that are kept.
const LONGEST_AGENT: usize = 200;

impl FromRequestParts<App> for Visit {
    type Rejection = Failure;

    /// Refuses what a page of another site wants to do, by what lets the request in: a key or token that was checked is nothing
    /// that a page has by accident. A header that nobody checked says nothing, so paths that need no credential refuse always.
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let (peer, headers) = (guard::peer(&parts.extensions), &parts.headers);
        let by_bearer = match parts.extensions.get::<Caller>() {
            Some(Caller::Account(identity)) => identity.kind() != KeyKind::Session,
            _ => false,
        };
        if parts.method != Method::GET && !by_bearer {
            guard::same_origin(&app.config, headers, peer)?;
        }
        let agent = headers.get("user-agent").and_then(|value| value.to_str().ok()).unwrap_or_default();
        Ok(Visit {
            address: client_address(peer, headers, &app.config.trusted_proxies),
            is_https: guard::is_https(&app.config, headers, peer),
            device: device::shown(headers),
            agent: agent.chars().take(LONGEST_AGENT).collect(),
        })
    }
}
