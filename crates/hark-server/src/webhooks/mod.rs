//! Webhooks: signed requests to other servers when a transcript is completed or failed, retried, and only to the internet.

mod address;
mod deliver;
mod send;

use std::net::IpAddr;

use hark_store::{AccountId, Store, WebhookTarget};
use reqwest::Url;

pub(crate) use deliver::start;

use crate::config::Webhooks;
use crate::mac::{hex, mac};

/// What is wrong with a URL, as far as it can be known without looking its name up.
pub(crate) fn check_url(settings: &Webhooks, url: &str) -> Result<(), &'static str> {
    if !settings.enabled {
        return Err("`webhook_url` is not enabled on this server: ask for the status instead");
    }
    parse_url(settings, url).map(drop)
}

/// Parses a URL with the parser of the HTTP client, so that what is checked is what the client connects to: `127.1` and
/// `0x7f000001` are 127.0.0.1 here, too.
fn parse_url(settings: &Webhooks, url: &str) -> Result<Url, &'static str> {
    const WRONG: &str = "`webhook_url` is not an address such as https://example.com/transcripts";
    let url = Url::parse(url).map_err(|_| WRONG)?;
    match url.scheme() {
        "https" => {}
        "http" if settings.allow_http => {}
        "http" => return Err("`webhook_url` must begin with https://"),
        _ => return Err(WRONG),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("`webhook_url` must not hold a password: calls are signed instead");
    }
    let host = url.host_str().ok_or(WRONG)?;
    let literal: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
    // RFC 6761, 6.3: all names below it lead to this machine.
    let name = host.trim_end_matches('.');
    let is_localhost = name == "localhost" || name.ends_with(".localhost");
    let is_private = is_localhost || literal.is_some_and(|ip| !address::is_public(ip));
    if is_private && !settings.allow_private {
        return Err("`webhook_url` must lead to the internet, not to this machine or its network");
    }
    Ok(url)
}

/// The secret that signs the webhooks of an account; the same until it is rotated.
///
/// Each account has its own, so that the receiver of one can't sign for another.
pub async fn webhook_secret(store: &Store, account: AccountId) -> hark_store::Result<String> {
    let (rotation, _) = store.webhooks().rotation(account).await?;
    secret_of(store, account, rotation).await
}

/// The secrets that sign now: the newest, and for a while after a rotation the one before.
pub(crate) async fn secrets(store: &Store, account: AccountId) -> hark_store::Result<Vec<String>> {
    let (rotation, previous_until) = store.webhooks().rotation(account).await?;
    let mut secrets = vec![secret_of(store, account, rotation).await?];
    if previous_until.is_some() {
        secrets.push(secret_of(store, account, rotation - 1).await?);
    }
    Ok(secrets)
}

async fn secret_of(store: &Store, account: AccountId, rotation: i64) -> hark_store::Result<String> {
    let key = store.secret("webhooks", None).await?;
    let name = match rotation {
        0 => account.to_string(),
        rotation => format!("{account} rotation {rotation}"),
    };
    Ok(format!("whsec_{}", hex(&mac(&*key, &[b"account ", name.as_bytes()]))))
}

/// The webhook of an account's transcript.
pub(crate) async fn target(store: &Store, account: AccountId, url: String) -> hark_store::Result<WebhookTarget> {
    Ok(WebhookTarget { url, secret: webhook_secret(store, account).await? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: Webhooks = Webhooks { enabled: true, allow_http: false, allow_private: false };

    #[test]
    fn addresses_that_can_be_known_to_be_wrong_are_refused_before_anything_is_uploaded() {
        assert_eq!(check_url(&ON, "https://example.com/hook?a=b"), Ok(()));
        assert_eq!(check_url(&ON, "https://example.com:8443"), Ok(()));
        for wrong in [
            "http://example.com",
            "ftp://example.com",
            "example.com/hook",
            "/hook",
            "",
            "https://",
            "https://user:pw@example.com",
            "https://127.0.0.1/",
            "https://localhost/",
            "https://[::1]/",
            "https://169.254.169.254/latest",
            "https://10.0.0.1:8080",
            "https://LocalHost./",
            "https://any.localhost/",
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://[::ffff:10.0.0.1]/",
            "https://exa mple.com",
        ] {
            assert!(check_url(&ON, wrong).is_err(), "{wrong}");
        }
        assert!(check_url(&Webhooks::default(), "https://example.com").unwrap_err().contains("not enabled"));
    }

    #[test]
    fn the_switches_allow_what_they_say_and_nothing_else() {
        assert_eq!(check_url(&Webhooks { allow_http: true, ..ON }, "http://example.com"), Ok(()));
        assert!(check_url(&Webhooks { allow_http: true, ..ON }, "http://127.0.0.1").is_err());
        assert_eq!(check_url(&Webhooks { allow_private: true, ..ON }, "https://127.0.0.1"), Ok(()));
        assert!(check_url(&Webhooks { allow_private: true, ..ON }, "http://127.0.0.1").is_err());
    }
}
