//! HTTP to a hark server: one agent, one base address, one key.

use std::io::Read;
use std::time::Duration;

use serde::de::DeserializeOwned;
use ureq::http::{Response, StatusCode, header};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, SendBody};

use super::upload::Form;
use crate::CliError;
use crate::cli::RemoteArgs;

/// An answer that is a success.
pub(crate) type Answer = Response<Body>;

/// The longest answer that is read: a day of speech as JSON is well below.
const LONGEST: u64 = 1 << 30;

/// Why a server did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    /// It said no.
    #[error("{message}")]
    Refused { status: u16, message: String, retry_after: Option<u64> },
    /// It could not be reached, or the connection broke.
    #[error("the server can't be reached: {0}")]
    Broken(String),
    /// It answered something that is no answer of a hark server.
    #[error("this is not the answer of a hark server: {0}")]
    Odd(String),
    /// Something on this machine is in the way.
    #[error("{0}")]
    Here(String),
}

impl RemoteError {
    /// Whether asking again later may help.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, RemoteError::Broken(_) | RemoteError::Refused { status: 429 | 500..=504, .. })
    }
}

impl From<RemoteError> for CliError {
    fn from(error: RemoteError) -> Self {
        CliError::Failed(error.to_string())
    }
}

/// A hark server and who we are to it.
pub(crate) struct Client {
    agent: Agent,
    /// Without a slash at its end.
    base: String,
    key: Option<String>,
}

impl Client {
    /// The server that the arguments name, if they name one; an empty value counts as none.
    pub(crate) fn of(args: &RemoteArgs) -> Result<Option<Self>, CliError> {
        let said = |value: &Option<String>| {
            value.as_deref().map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned)
        };
        let Some(server) = said(&args.server) else { return Ok(None) };
        let base = server.trim_end_matches('/').trim_end_matches("/v1").to_owned();
        let Some(rest) = base.strip_prefix("https://").or_else(|| base.strip_prefix("http://")) else {
            return Err(CliError::Usage(format!("{server:?} is not the address of a server: begin it with https://")));
        };
        let key = said(&args.key);
        if key.as_ref().is_some_and(|key| !key.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(CliError::Usage("the key holds characters that no key has".to_owned()));
        }
        if key.is_some() && base.starts_with("http://") && !is_this_machine(rest) {
            eprintln!("hark: warning: the key and the recordings travel unprotected: use https");
        }
        let config = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
            .http_status_as_error(false)
            // A key must not follow a redirect to somebody else.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(Duration::from_secs(10)))
            .timeout_connect(Some(Duration::from_secs(10)))
            .timeout_await_100(Some(Duration::from_secs(3)))
            .user_agent(concat!("hark/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Some(Client { agent: config.into(), base, key }))
    }

    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub(crate) fn credential(&self) -> Option<String> {
        self.key.as_ref().map(|key| format!("Bearer {key}"))
    }

    pub(crate) fn get(&self, path: &str) -> Result<Answer, RemoteError> {
        let mut request = self.agent.get(self.url(path));
        if let Some(credential) = self.credential() {
            request = request.header(header::AUTHORIZATION, credential);
        }
        let request = request.config().timeout_recv_response(Some(Duration::from_secs(60))).build();
        success(request.call())
    }

    pub(crate) fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, RemoteError> {
        read_json(self.get(path)?)
    }

    pub(crate) fn delete(&self, path: &str) -> Result<(), RemoteError> {
        let mut request = self.agent.delete(self.url(path));
        if let Some(credential) = self.credential() {
            request = request.header(header::AUTHORIZATION, credential);
        }
        let request = request.config().timeout_global(Some(Duration::from_secs(30))).build();
        success(request.call()).map(drop)
    }

    /// Asks for something that needs no body.
    pub(crate) fn post(&self, path: &str) -> Result<(), RemoteError> {
        let mut request = self.agent.post(self.url(path));
        if let Some(credential) = self.credential() {
            request = request.header(header::AUTHORIZATION, credential);
        }
        let request = request.config().timeout_global(Some(Duration::from_secs(30))).build();
        success(request.send_empty()).map(drop)
    }

    /// Sends a form. The server is asked before the recording is sent, so that a refusal costs nothing.
    pub(crate) fn post_form(
        &self,
        path: &str,
        name: &str,
        form: &mut Form,
        told: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<Answer, RemoteError> {
        let mut request = self
            .agent
            .post(self.url(path))
            .header(header::CONTENT_TYPE, form.content_type())
            .header(header::EXPECT, "100-continue");
        if let Some(credential) = self.credential() {
            request = request.header(header::AUTHORIZATION, credential).header("Idempotency-Key", name);
        }
        if let Some(length) = form.length() {
            request = request.header(header::CONTENT_LENGTH, length);
        }
        let mut reader = form.reader(told);
        success(request.send(SendBody::from_reader(&mut reader)))
    }
}

fn success(answer: Result<Answer, ureq::Error>) -> Result<Answer, RemoteError> {
    let answer = answer.map_err(|error| match error {
        ureq::Error::BadUri(why) => RemoteError::Here(format!("the address of the server is wrong: {why}")),
        other => RemoteError::Broken(other.to_string()),
    })?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let text =
        |name: header::HeaderName| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    if status.is_redirection() {
        let to = text(header::LOCATION).unwrap_or_default();
        return Err(RemoteError::Odd(format!("it sends us on to {to:?}: give that address if you trust it")));
    }
    let retry_after = text(header::RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
    let body = answer.into_body().into_with_config().limit(1 << 20).read_to_string().unwrap_or_default();
    let message = match serde_json::from_str::<hark_api::ErrorBody>(&body) {
        Ok(body) => body.error,
        Err(_) => format!("the server answered {status}"),
    };
    let message = if status == StatusCode::UNAUTHORIZED { format!("{message} (--key or HARK_KEY)") } else { message };
    Err(RemoteError::Refused { status: status.as_u16(), message, retry_after })
}

/// The JSON of an answer.
pub(crate) fn read_json<T: DeserializeOwned>(answer: Answer) -> Result<T, RemoteError> {
    let bytes = read(answer)?;
    serde_json::from_slice(&bytes).map_err(|error| RemoteError::Odd(error.to_string()))
}

/// All bytes of an answer.
pub(crate) fn read(answer: Answer) -> Result<Vec<u8>, RemoteError> {
    let mut bytes = Vec::new();
    let mut reader = answer.into_body().into_with_config().limit(LONGEST).reader();
    reader.read_to_end(&mut bytes).map_err(|error| RemoteError::Broken(error.to_string()))?;
    Ok(bytes)
}

/// Whether the host (and port, and path) after `http://` is this machine.
fn is_this_machine(rest: &str) -> bool {
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A name that nobody else takes: 128 random bits in hexadecimal.
pub(crate) fn random_name() -> String {
    let mut bytes = [0u8; 16];
    // Without random numbers two recordings could be taken for one: better to stop.
    getrandom::fill(&mut bytes).expect("the system has no source of random numbers");
    format!("{:032x}", u128::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(server: &str, key: &str) -> Result<Option<Client>, CliError> {
        Client::of(&RemoteArgs { server: Some(server.to_owned()), key: Some(key.to_owned()) })
    }

    #[test]
    fn the_address_of_a_server_is_taken_as_people_write_it() {
        for written in ["http://localhost:8600", " http://localhost:8600/ ", "http://localhost:8600/v1/"] {
            assert_eq!(client(written, "").unwrap().unwrap().url("/health"), "http://localhost:8600/health");
        }
        assert!(client("", "").unwrap().is_none(), "an empty variable counts as unset");
        assert!(client("localhost:8600", "").is_err());
        assert!(client("http://localhost:8600", "svc_1\r\nX: y").is_err());
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        for here in ["localhost", "localhost:8600/x", "127.0.0.1:8600", "[::1]:8600", "127.8.8.8"] {
            assert!(is_this_machine(here), "{here}");
        }
        for elsewhere in ["example.com", "localhost.example.com", "10.0.0.1:80", "[2001:db8::1]"] {
            assert!(!is_this_machine(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn no_two_names_are_the_same() {
        let names: std::collections::HashSet<String> = (0..1000).map(|_| random_name()).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.len() == 32));
    }
}
