//! Authentication: an account by its key or session, or an address; and its rate limit.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hark_api::{ApiError, ErrorKind};
use hark_store::{AccountId, Credential, KeyId, KeyKind, Owner, Plan};
use ipnet::IpNet;

use super::scope;
use crate::app::App;
use crate::error::{Failure, RATE_LIMIT, RATE_REMAINING, RATE_RESET};
use crate::limits::{Rate, client_address, networks};
use crate::sign::{cookie, guard};

/// The caller of a request.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// Somebody with an account.
    Account(Identity),
    /// Somebody at an address, which is a keyed hash here.
    Anonymous(Anonymous),
}

/// Somebody at an address: its keyed hash, and those of the networks around it with how many times as much they may do.
#[derive(Debug, Clone)]
pub(crate) struct Anonymous {
    address: IpAddr,
    hash: String,
    wider: Vec<(String, i64)>,
}

impl Anonymous {
    pub(crate) fn wider(&self) -> &[(String, i64)] {
        &self.wider
    }
}

impl std::ops::Deref for Anonymous {
    type Target = str;

    fn deref(&self) -> &str {
        &self.hash
    }
}

/// Somebody with an account, known by a credential.
#[derive(Debug, Clone)]
pub(crate) struct Identity(Arc<Credential>);

impl Identity {
    pub(crate) fn account(&self) -> AccountId {
        self.0.key.account
    }

    pub(crate) fn key(&self) -> KeyId {
        self.0.key.id
    }

    /// What the account may do now: a paid plan that is not in force allows what a free one does.
    pub(crate) fn plan(&self) -> Plan {
        if self.0.plan.is_paid() && !self.0.plan_active { Plan::Free } else { self.0.plan }
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.0.is_admin
    }

    /// What the key may do; a session or user token may do everything.
    pub(crate) fn scopes(&self) -> &[hark_store::Scope] {
        &self.0.key.scopes
    }

    pub(crate) fn kind(&self) -> KeyKind {
        self.0.key.kind
    }

    /// Where transcripts of this credential come from (decisions: source_type).
    pub(crate) fn source_type(&self) -> &'static str {
        match self.0.key.kind {
            KeyKind::Session => "web",
            _ => "api",
        }
    }
}

impl Caller {
    /// The owner that limits are counted for. Addresses are stored as a hash whose key is deleted after a day.
    pub(crate) fn owner(&self) -> Owner {
        match self {
            Caller::Account(identity) => Owner::Account(identity.account()),
            Caller::Anonymous(address) => Owner::Anonymous(address.hash.clone()),
        }
    }

    /// The account that its rows belong to.
    pub(crate) fn account(&self, app: &App) -> AccountId {
        match self {
            Caller::Account(identity) => identity.account(),
            Caller::Anonymous(_) => app.store.anonymous_account(),
        }
    }

    pub(crate) fn plan(&self) -> Plan {
        match self {
            Caller::Account(identity) => identity.plan(),
            Caller::Anonymous(_) => Plan::Anonymous,
        }
    }

    pub(crate) fn identity(&self) -> Option<&Identity> {
        match self {
            Caller::Account(identity) => Some(identity),
            Caller::Anonymous(_) => None,
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        // A route without one of the layers below is a defect: it rejects everybody.
        parts.extensions.get::<Caller>().cloned().ok_or_else(|| ErrorKind::Unauthorized.into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Identity {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match Caller::from_request_parts(parts, state).await? {
            Caller::Account(identity) => Ok(identity),
            Caller::Anonymous(_) => Err(ErrorKind::Unauthorized.into()),
        }
    }
}

/// Requires an account.
pub(crate) async fn require_account(State(app): State<App>, request: Request, next: Next) -> Response {
    authenticate(&app, request, next, true).await
}

/// Lets in everybody; a credential that is sent must hold.
pub(crate) async fn allow_anonymous(State(app): State<App>, request: Request, next: Next) -> Response {
    authenticate(&app, request, next, false).await
}

async fn authenticate(app: &App, mut request: Request, next: Next, required: bool) -> Response {
    let peer = guard::peer(request.extensions());
    let route = request.extensions().get::<MatchedPath>().map_or("", |path| path.as_str());
    let (caller, rate) = match caller(app, request.method(), route, request.headers(), peer, required).await {
        Ok(found) => found,
        Err(failure) => return failure.into_response(),
    };
    let mut response = match rate.filter(|rate| !rate.passes) {
        Some(refused) => {
            Failure::from(ApiError::from(ErrorKind::RateLimited).retry_after(refused.retry_after)).into_response()
        }
        None => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
    };
    if let Some(rate) = rate {
        write_rate(response.headers_mut(), rate);
    }
    response
}

async fn caller(
    app: &App,
    method: &Method,
    route: &str,
    headers: &HeaderMap,
    peer: IpAddr,
    required: bool,
) -> Result<(Caller, Option<Rate>), Failure> {
    let by_header = bearer(headers)?;
    let address = client_address(peer, headers, &app.config.trusted_proxies);
    let Some(secret) = by_header.or_else(|| cookie::session(headers)) else {
        if required {
            return Err(ErrorKind::Unauthorized.into());
        }
        return Ok((Caller::Anonymous(anonymous(app, address).await?), None));
    };
    let is_session = by_header.is_none();
    let (identity, rate) = identify(app, secret, is_session).await?;
    check_address(&identity, address)?;
    scope::check(&identity.0, method, route)?;
    if is_session {
        guard::check(&app.config, method, headers, peer, secret)?;
    }
    Ok((Caller::Account(identity), Some(rate)))
}

/// An address as it is counted today.
async fn anonymous(app: &App, address: IpAddr) -> Result<Anonymous, Failure> {
    let now = app.clock.now();
    let hash = app.addresses.hash(&app.store, address, now).await?;
    let mut wider = Vec::new();
    for network in networks(address).into_iter().skip(1) {
        let hash = app.addresses.hash_network(&app.store, &network.name, now).await?;
        wider.push((hash, i64::from(network.multiple)));
    }
    Ok(Anonymous { address, hash, wider })
}

/// The caller of a secret sent in a message or a query, where no header is possible; counts as a request.
pub(crate) async fn by_token(app: &App, token: &str, from: &Anonymous) -> Result<Caller, Failure> {
    let (identity, rate) = identify(app, token.trim(), false).await?;
    check_address(&identity, from.address)?;
    scope::check(&identity.0, &Method::GET, LIVE)?;
    if !rate.passes {
        return Err(ApiError::from(ErrorKind::RateLimited).retry_after(rate.retry_after).into());
    }
    Ok(Caller::Account(identity))
}

async fn identify(app: &App, secret: &str, is_session: bool) -> Result<(Identity, Rate), Failure> {
    let credential = match app.credentials.look_up(&app.store, secret).await {
        // A session is a cookie's, which comes with protection against forged requests; a header is not its place.
        Ok(credential) if (credential.key.kind == KeyKind::Session) == is_session => credential,
        Ok(_) | Err(hark_store::Error::NotFound(_)) => {
            return Err(Failure::new(
                ErrorKind::Unauthorized,
                match is_session {
                    true => "the session is over: sign in again",
                    false => "this key is not valid: it is unknown, revoked or expired",
                },
            ));
        }
        Err(error) => return Err(error.into()),
    };
    let limit = match credential.key.kind {
        KeyKind::Service => u32::try_from(credential.key.rate_limit).unwrap_or(1),
        _ => app.config.user_rate_limit,
    };
    let rate = app.rates.check(credential.key.id.0.unsigned_abs(), limit, app.clock.monotonic());
    Ok((Identity(credential), rate))
}

/// The path whose scopes a token in a message needs: only live sessions take one.
const LIVE: &str = "/v1/stream";

/// Refuses a key from an address that its owner did not allow.
fn check_address(identity: &Identity, address: IpAddr) -> Result<(), Failure> {
    let allowed = &identity.0.key.allowed_addresses;
    let is_in = |network: &String| network.parse::<IpNet>().is_ok_and(|network| network.contains(&address));
    if allowed.is_empty() || allowed.iter().any(is_in) {
        return Ok(());
    }
    Err(Failure::new(ErrorKind::Forbidden, "this key may not be used from this address"))
}

/// The secret of `Authorization: Bearer …`; anything else in that header opens nothing.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Failure> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let secret = value.to_str().ok().and_then(|value| value.split_once(' '));
    match (secret, values.next()) {
        (Some((scheme, secret)), None) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(secret.trim())),
        _ => Err(ErrorKind::Unauthorized.into()),
    }
}

/// Adds the rate limit headers of the key, unless the response has those of a stricter limit.
fn write_rate(headers: &mut HeaderMap, rate: Rate) {
    if headers.contains_key(RATE_LIMIT) {
        return;
    }
    let mut put = |name: HeaderName, value: u64| headers.insert(name, HeaderValue::from(value));
    put(RATE_LIMIT, u64::from(rate.limit));
    put(RATE_REMAINING, u64::from(rate.remaining));
    put(RATE_RESET, rate.reset);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_well_formed_bearer_is_a_credential() {
        let read = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, value.parse().unwrap());
            }
            bearer(&headers).map(|secret| secret.map(str::to_owned)).map_err(|failure| failure.error.status())
        };
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["Bearer svc_1"]), Ok(Some("svc_1".to_owned())));
        assert_eq!(read(&["bearer  svc_1"]), Ok(Some("svc_1".to_owned())));
        assert_eq!(read(&["Basic abc"]), Err(401));
        assert_eq!(read(&["svc_1"]), Err(401));
        assert_eq!(read(&["Bearer a", "Bearer b"]), Err(401));
    }
}
