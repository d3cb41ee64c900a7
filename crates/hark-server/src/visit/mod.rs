//! The client of a sign-up, sign-in or similar request, with the same-origin check before its body is read.

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
    /// Whether the client's connection is HTTPS.
    pub(crate) is_https: bool,
    /// The known-browser cookie; not verified yet.
    pub(crate) device: Option<device::Shown>,
    /// The `User-Agent`, truncated.
    pub(crate) agent: String,
}

/// Maximum characters of `User-Agent` that are stored.
const MAX_AGENT_LENGTH: usize = 200;

impl FromRequestParts<App> for Visit {
    type Rejection = Failure;

    /// Rejects requests of other origins, unless they have a verified key or token, which is not sent by a browser
    /// automatically. Routes without authentication always check the origin, since their credential is not verified.
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
            agent: agent.chars().take(MAX_AGENT_LENGTH).collect(),
        })
    }
}
