//! CSRF protection of requests with a cookie: by the origin of the request, and by a token that only this service's
//! pages can read.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::{Extensions, HeaderMap, HeaderName, Method, Uri, header};
use hark_api::ErrorKind;
use subtle::ConstantTimeEq as _;

use crate::config::Config;
use crate::error::Failure;
use crate::mac::{hex, mac};

/// The header with the CSRF token.
pub(crate) const CSRF_TOKEN: HeaderName = HeaderName::from_static("x-csrf-token");

/// The CSRF token of a session, derived from the session's secret.
pub(crate) fn csrf_token(session: &str) -> String {
    hex(&mac(session.as_bytes(), &[b"hark csrf token"]))
}

/// Checks a request that is authenticated by the session cookie.
pub(crate) fn check(
    config: &Config,
    method: &Method,
    headers: &HeaderMap,
    peer: IpAddr,
    session: &str,
) -> Result<(), Failure> {
    let is_safe = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    // A WebSocket starts with a safe method, but is not read-only.
    if is_safe && !headers.contains_key(header::UPGRADE) {
        return Ok(());
    }
    same_origin(config, headers, peer)?;
    if is_safe {
        return Ok(());
    }
    let given = headers.get(CSRF_TOKEN).map_or(&[][..], |value| value.as_bytes());
    if bool::from(given.ct_eq(csrf_token(session).as_bytes())) {
        return Ok(());
    }
    Err(Failure::new(
        ErrorKind::Forbidden,
        "a request with the session cookie needs the X-CSRF-Token that GET /v1/auth/session answers",
    ))
}

/// Rejects requests of pages of other sites. Programs that are no browsers send no origin and pass.
pub(crate) fn same_origin(config: &Config, headers: &HeaderMap, peer: IpAddr) -> Result<(), Failure> {
    let refused =
        || Failure::new(ErrorKind::Forbidden, "a page of another site can't do this: open the site of this server");
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("-"));
    if let Some("cross-site" | "same-site") = text(&HeaderName::from_static("sec-fetch-site")) {
        return Err(refused());
    }
    let Some(origin) = text(&header::ORIGIN) else { return Ok(()) };
    if let Some(ours) = &config.public_url
        && is_origin_of(origin, ours)
    {
        return Ok(());
    }
    let Some((scheme, authority)) = origin.split_once("://") else { return Err(refused()) };
    let forwarded = text(&HeaderName::from_static("x-forwarded-host")).filter(|_| is_trusted(config, peer));
    let host = forwarded.or_else(|| text(&header::HOST)).unwrap_or_default();
    let is_ours = !host.is_empty() && authority.eq_ignore_ascii_case(host.trim());
    // A page that was loaded without TLS may be forged.
    if is_ours && (scheme == "https" || !is_https(config, headers, peer)) { Ok(()) } else { Err(refused()) }
}

/// Whether `origin` is the origin of `url`.
fn is_origin_of(origin: &str, url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    match (uri.scheme_str(), uri.authority()) {
        (Some(scheme), Some(authority)) => origin.eq_ignore_ascii_case(&format!("{scheme}://{authority}")),
        _ => false,
    }
}

/// Whether the client's connection is HTTPS, by the configuration or a trusted proxy.
pub(crate) fn is_https(config: &Config, headers: &HeaderMap, peer: IpAddr) -> bool {
    if config.public_url.as_ref().is_some_and(|url| url.starts_with("https://")) {
        return true;
    }
    let said = headers.get_all("x-forwarded-proto").iter().next_back().and_then(|value| value.to_str().ok());
    let nearest = said.and_then(|value| value.rsplit(',').next()).map(str::trim);
    is_trusted(config, peer) && nearest.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))
}

fn is_trusted(config: &Config, peer: IpAddr) -> bool {
    config.trusted_proxies.iter().any(|net| net.contains(&peer.to_canonical()))
}

/// The peer address of the connection.
pub(crate) fn peer(extensions: &Extensions) -> IpAddr {
    let peer = extensions.get::<ConnectInfo<SocketAddr>>();
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |info| info.0.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "ses_1";

    fn passes(config: &Config, method: Method, pairs: &[(&str, &str)], peer: &str) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        check(config, &method, &headers, peer.parse().unwrap(), SESSION).is_ok()
    }

    #[test]
    fn reading_is_free_and_writing_needs_the_sessions_own_token() {
        let config = Config::default();
        let token = csrf_token(SESSION);
        let other = csrf_token("ses_2");
        let post = |pairs: &[(&str, &str)]| passes(&config, Method::POST, pairs, "192.0.2.1");
        assert!(passes(&config, Method::GET, &[], "192.0.2.1"));
        assert!(post(&[("x-csrf-token", &token)]));
        for wrong in [&[][..], &[("x-csrf-token", "")], &[("x-csrf-token", &other)], &[("x-csrf-token", &token[1..])]] {
            assert!(!post(wrong), "{wrong:?}");
        }
        for method in [Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(!passes(&config, method, &[], "192.0.2.1"));
        }
    }

    #[test]
    fn a_page_of_another_site_is_refused_even_with_the_token() {
        let config = Config::default();
        let token = csrf_token(SESSION);
        let from = |origin: &str, more: (&str, &str)| {
            let pairs = [("host", "hark.example"), ("origin", origin), ("x-csrf-token", &token), more];
            passes(&config, Method::POST, &pairs, "192.0.2.1")
        };
        let nothing = ("x-nothing", "");
        assert!(from("https://hark.example", nothing));
        assert!(from("http://hark.example", nothing));
        for origin in ["https://evil.example", "null", "https://hark.example.evil", "https://hark.example:444", ""] {
            assert!(!from(origin, nothing), "{origin}");
        }
        assert!(!from("https://hark.example", ("sec-fetch-site", "cross-site")));
        assert!(!from("https://evil.example", ("x-forwarded-host", "evil.example")), "nobody trusts that proxy");
    }

    #[test]
    fn a_websocket_from_another_site_is_refused() {
        let config = Config::default();
        let upgrade = |origin: &str| {
            let pairs = [("host", "hark.example"), ("upgrade", "websocket"), ("origin", origin)];
            passes(&config, Method::GET, &pairs, "192.0.2.1")
        };
        assert!(upgrade("http://hark.example"));
        assert!(!upgrade("http://evil.example"));
    }

    #[test]
    fn behind_a_trusted_proxy_its_words_count() {
        let config = Config { trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()], ..Config::default() };
        let token = csrf_token(SESSION);
        let from = |peer: &str, origin: &str| {
            let pairs = [
                ("host", "inner:8600"),
                ("x-forwarded-host", "hark.example"),
                ("x-forwarded-proto", "https"),
                ("origin", origin),
                ("x-csrf-token", &token),
            ];
            passes(&config, Method::POST, &pairs, peer)
        };
        assert!(from("10.0.0.1", "https://hark.example"));
        assert!(!from("10.0.0.1", "http://hark.example"), "the visitor's connection is https");
        assert!(!from("192.0.2.1", "https://hark.example"));
        let public = Config { public_url: Some("https://hark.example/app".to_owned()), ..Config::default() };
        let pairs = [("host", "inner:8600"), ("origin", "https://hark.example"), ("x-csrf-token", &*token)];
        assert!(passes(&public, Method::POST, &pairs, "192.0.2.1"));
        assert!(is_https(&public, &HeaderMap::new(), "192.0.2.1".parse().unwrap()));
    }
}
