//! Sends one signed message: to a checked address, without proxies or redirects, within ten seconds.

use std::error::Error as StdError;
use std::net::SocketAddr;
use std::time::Duration;

use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::CONTENT_TYPE;

use super::{Webhooks, address::is_public, parse_url};
use crate::mac::{hex, mac};

/// How long a request may take, from the name lookup to the end of the answer's head.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How a request ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A status from 200 to 299.
    Delivered,
    /// Another attempt may succeed.
    Retry(String),
    /// No attempt will succeed.
    GiveUp(String),
}

/// What is sent.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) url: String,
    pub(crate) body: String,
    pub(crate) event: &'static str,
    pub(crate) delivery: i64,
    /// `X-Hark-Signature`.
    pub(crate) signature: String,
}

/// `t=…,v1=…`: the time in seconds, and the HMAC-SHA256 of it, a dot and the body, so that a message can't be replayed later. A `v1` for
/// each secret that signs now.
pub(crate) fn signature(secrets: &[String], at: i64, body: &str) -> String {
    let mut text = format!("t={at}");
    for secret in secrets {
        let signed = mac(secret.as_bytes(), &[at.to_string().as_bytes(), b".", body.as_bytes()]);
        text += &format!(",v1={}", hex(&signed));
    }
    text
}

/// Sends messages.
#[derive(Clone)]
pub(crate) struct Sender {
    client: Client,
    settings: Webhooks,
}

impl Sender {
    pub(crate) fn new(settings: &Webhooks) -> Self {
        let client = hark_http::builder()
            .https_only(!settings.allow_http)
            // A proxy would look the name up by itself, past the check of its addresses. (Redirects, which would lead past it
            // too, are never followed.)
            .no_proxy()
            .dns_resolver(PublicResolver { allow_private: settings.allow_private })
            .timeout(TIMEOUT)
            .pool_max_idle_per_host(0)
            .build()
            .expect("constant settings make a client");
        Sender { client, settings: *settings }
    }

    /// Sends a message. The body of the answer is not read.
    pub(crate) async fn send(&self, message: Message) -> Outcome {
        // Checked again, with the settings of now. The resolver below is not asked about an IP address in the URL.
        let url = match parse_url(&self.settings, &message.url) {
            Ok(url) => url,
            Err(why) => return Outcome::GiveUp(why.to_owned()),
        };
        let sent = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header("X-Hark-Event", message.event)
            .header("X-Hark-Delivery", message.delivery)
            .header("X-Hark-Signature", message.signature)
            .body(message.body)
            .send()
            .await;
        match sent {
            Ok(answer) => match answer.status().as_u16() {
                200..=299 => Outcome::Delivered,
                // 410 Gone: the receiver no longer exists.
                410 => Outcome::GiveUp("it answered 410 Gone".to_owned()),
                status => Outcome::Retry(format!("it answered {status}")),
            },
            Err(error) if is_not_public(&error) => Outcome::GiveUp(NotPublic.to_string()),
            Err(error) => Outcome::Retry(hark_http::Error::from(error).to_string()),
        }
    }
}

/// Looks names up and returns only public addresses. The connection goes to one of those: a name that changes afterwards
/// changes nothing.
struct PublicResolver {
    allow_private: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("its name leads to an address that is not on the internet")]
struct NotPublic;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            // The client puts the port of the URL, or of its scheme, in place of 0.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> = found.filter(|address| allow_private || is_public(address.ip())).collect();
            if allowed.is_empty() {
                return Err(NotPublic.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

fn is_not_public(error: &reqwest::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        if error.is::<NotPublic>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(url: &str) -> Message {
        Message {
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

    #[tokio::test]
    async fn private_addresses_are_refused_however_they_are_written_and_nobody_connects() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let sender = Sender::new(&Webhooks { enabled: true, allow_http: true, allow_private: false });
        for host in [
            "127.0.0.1",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "127.1",
            "0x7f000001",
            "2130706433",
            "017700000001",
            "127.0.0.1.",
            "１２７.0.0.1",
            "0",
            "169.254.169.254",
            "localhost",
            "localhost.",
            "LOCALHOST",
            "any.localhost",
        ] {
            let outcome = sender.send(message(&format!("http://{host}:{port}/"))).await;
            assert!(matches!(outcome, Outcome::GiveUp(_)), "{host}: {outcome:?}");
        }
        // A name like any other, which is not known to lead here before it is looked up.
        let refused = sender.client.post(format!("http://localhost:{port}/")).send().await.unwrap_err();
        assert!(is_not_public(&refused), "{refused:?}");
        let connected = std::future::poll_fn(|context| std::task::Poll::Ready(listener.poll_accept(context))).await;
        assert!(connected.is_pending(), "nobody was connected to");
    }

    #[tokio::test]
    async fn a_request_without_tls_is_refused_unless_it_is_allowed() {
        // Bound and dropped: nothing listens there.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = format!("http://127.0.0.1:{port}/?token=geheim");
        let sender = Sender::new(&Webhooks { enabled: true, allow_http: false, allow_private: true });
        assert!(matches!(sender.send(message(&url)).await, Outcome::GiveUp(_)));
        let sender = Sender::new(&Webhooks { enabled: true, allow_http: true, allow_private: true });
        match sender.send(message(&url)).await {
            Outcome::Retry(why) => assert!(why.contains("refused") && !why.contains("geheim"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}
