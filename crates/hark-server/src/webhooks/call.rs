//! One call: to an address that was looked at, signed, without redirects, and soon over.

use std::fmt;
use std::time::Duration;

use ureq::config::Config as AgentConfig;
use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Error};

use super::{Webhooks, address::is_public};
use crate::mac::{hex, mac};

/// How long a call may take, from the first look at its name to the end of the answer's head.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How a call ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A status from 200 to 299.
    Delivered,
    /// Worth another try.
    Again(String),
    /// It will never be answered.
    Never(String),
}

/// What is sent.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) url: String,
    pub(crate) body: String,
    pub(crate) event: &'static str,
    pub(crate) delivery: i64,
    /// `X-Hark-Signature`.
    pub(crate) signature: String,
}

/// `t=…,v1=…`: the moment in seconds, and the HMAC-SHA256 of it, a dot and the body, so that a call can't be replayed later. A `v1` for
/// each secret that signs now.
pub(crate) fn signature(secrets: &[String], at: i64, body: &str) -> String {
    let mut text = format!("t={at}");
    for secret in secrets {
        let signed = mac(secret.as_bytes(), &[at.to_string().as_bytes(), b".", body.as_bytes()]);
        text += &format!(",v1={}", hex(&signed));
    }
    text
}

/// Makes calls; blocks while one is under way.
#[derive(Clone)]
pub(crate) struct Caller(Agent);

impl Caller {
    pub(crate) fn new(settings: &Webhooks) -> Self {
        let config = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
            .https_only(!settings.allow_http)
            // A proxy would look the name up by itself, and a redirect would lead past the look at the address.
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .max_idle_connections(0)
            .user_agent(concat!("hark/", env!("CARGO_PKG_VERSION")))
            .build();
        let resolver = OnlyPublic { allow_private: settings.allow_private, inner: DefaultResolver::default() };
        Caller(Agent::with_parts(config, DefaultConnector::default(), resolver))
    }

    pub(crate) fn call(&self, call: &Call) -> Outcome {
        let sent = self
            .0
            .post(&call.url)
            .content_type("application/json")
            .header("X-Hark-Event", call.event)
            .header("X-Hark-Delivery", call.delivery.to_string())
            .header("X-Hark-Signature", &call.signature)
            .send(&call.body);
        match sent {
            Ok(answer) => match answer.status().as_u16() {
                200..=299 => Outcome::Delivered,
                // The receiver says that nobody lives there any more.
                410 => Outcome::Never("it answered 410 Gone".to_owned()),
                status => Outcome::Again(format!("it answered {status}")),
            },
            Err(Error::Other(why)) if why.is::<NotPublic>() => Outcome::Never(why.to_string()),
            Err(Error::RequireHttpsOnly(_)) => Outcome::Never("it is not https".to_owned()),
            Err(Error::BadUri(why)) => Outcome::Never(format!("it is no address: {why}")),
            Err(error) => Outcome::Again(error.to_string()),
        }
    }
}

/// Looks names up and passes on only addresses of the internet. The connection goes to what was passed on: a name that
/// changes its mind afterwards changes nothing.
struct OnlyPublic {
    allow_private: bool,
    inner: DefaultResolver,
}

impl fmt::Debug for OnlyPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnlyPublic").field("allow_private", &self.allow_private).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("its name leads to an address that is not on the internet")]
struct NotPublic;

impl Resolver for OnlyPublic {
    fn resolve(&self, uri: &Uri, config: &AgentConfig, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let found = self.inner.resolve(uri, config, timeout)?;
        if self.allow_private {
            return Ok(found);
        }
        let mut public = self.empty();
        for address in found.iter().filter(|address| is_public(address.ip())) {
            public.push(*address);
        }
        if public.is_empty() { Err(Error::Other(Box::new(NotPublic))) } else { Ok(public) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(url: &str) -> Call {
        Call {
            url: url.to_owned(),
            body: "{}".into(),
            event: "transcript.completed",
            delivery: 1,
            signature: signature(&["secret".to_owned()], 1, "{}"),
        }
    }

    #[test]
    fn a_signature_is_the_hash_of_the_moment_and_the_body() {
        // printf '1700000000.{"id":1}' | openssl dgst -sha256 -hmac whsec_test
        let made = signature(&["whsec_test".to_owned()], 1_700_000_000, "{\"id\":1}");
        let hash = "2f441ba4b3b2d50d28a9ab9d9fd8880376ecd1eb5d0435401553f5d8d0a5dcf8";
        assert_eq!(made, format!("t=1700000000,v1={hash}"));
        assert_ne!(made, signature(&["whsec_test".to_owned()], 1_700_000_001, "{\"id\":1}"));
        assert_ne!(made, signature(&["whsec_other".to_owned()], 1_700_000_000, "{\"id\":1}"));
    }

    #[test]
    fn private_addresses_are_refused_however_they_are_written() {
        let caller = Caller::new(&Webhooks { enabled: true, allow_http: true, allow_private: false });
        for host in
            ["127.0.0.1:9", "localhost:9", "[::1]:9", "127.1:9", "0x7f000001:9", "2130706433:9", "169.254.169.254"]
        {
            let outcome = caller.call(&call(&format!("http://{host}/")));
            assert!(matches!(outcome, Outcome::Never(_)), "{host}: {outcome:?}");
        }
    }

    #[test]
    fn a_call_without_tls_is_refused_unless_it_is_allowed() {
        let caller = Caller::new(&Webhooks { enabled: true, allow_http: false, allow_private: true });
        assert!(matches!(caller.call(&call("http://127.0.0.1:9/")), Outcome::Never(_)));
        let caller = Caller::new(&Webhooks { enabled: true, allow_http: true, allow_private: true });
        assert!(matches!(caller.call(&call("http://127.0.0.1:9/")), Outcome::Again(_)), "nobody listens there now");
    }
}
