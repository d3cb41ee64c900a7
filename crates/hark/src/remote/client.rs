//! HTTP to a hark server: one client, one base address, one key.

use std::time::Duration;

use hark_http::{BlockingClient, BlockingResponse};
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde::de::DeserializeOwned;

use super::upload::Form;
use crate::CliError;
use crate::cli::RemoteArgs;

/// An answer that is a success.
pub(crate) type Answer = BlockingResponse;

/// The longest answer that is read: a day of speech as JSON is well below.
const MAX_ANSWER: u64 = 1 << 30;
/// The longest explanation of a refusal that is read.
const MAX_ERROR_BODY: u64 = 1 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For the head of an answer; its body may take as long as it comes.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// For the head of an answer that a model makes, which comes when all of it is made. The server ends such work after its `text.timeout`.
const MODEL_TIMEOUT: Duration = Duration::from_secs(3600);
/// For a request whose answer is short.
const SHORT_TIMEOUT: Duration = Duration::from_secs(30);
/// Shorter than the 15 s after which a hark server closes an idle connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a server did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    /// It said no.
    #[error("{message}")]
    Refused { status: u16, message: String, retry_after: Option<u64> },
    /// It could not be reached, or the connection broke.
    #[error("the server can't be reached: {0}")]
    Unreachable(String),
    /// It answered something that is no answer of a hark server.
    #[error("this is not the answer of a hark server: {0}")]
    UnexpectedAnswer(String),
    /// Something on this machine is in the way.
    #[error("{0}")]
    Local(String),
}

impl RemoteError {
    /// Whether asking again later may help.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, RemoteError::Unreachable(_) | RemoteError::Refused { status: 429 | 500..=504, .. })
    }
}

impl From<hark_http::Error> for RemoteError {
    fn from(error: hark_http::Error) -> Self {
        use hark_http::Error;
        match error {
            Error::Body(_) | Error::Setup(_) => RemoteError::Local(error.to_string()),
            Error::TooLong { .. } => RemoteError::UnexpectedAnswer(error.to_string()),
            Error::UnknownHost | Error::Connect(_) | Error::Timeout | Error::Broken(_) => {
                RemoteError::Unreachable(error.to_string())
            }
        }
    }
}

impl From<RemoteError> for CliError {
    fn from(error: RemoteError) -> Self {
        CliError::Failed(error.to_string())
    }
}

/// A hark server and the key for it.
pub(crate) struct Client {
    http: BlockingClient,
    /// Without a slash at its end.
    base: String,
    key: Option<String>,
}

impl Client {
    /// The server that the arguments name, if they name one; an empty value counts as none.
    pub(crate) fn from_args(args: &RemoteArgs) -> Result<Option<Self>, CliError> {
        let given = |value: &Option<String>| {
            value.as_deref().map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned)
        };
        let Some(server) = given(&args.server) else { return Ok(None) };
        let base = server.trim_end_matches('/').trim_end_matches("/v1").to_owned();
        if !base.starts_with("https://") && !base.starts_with("http://") {
            return Err(CliError::Usage(format!("{server:?} is not the address of a server: begin it with https://")));
        }
        let url = Url::parse(&base)
            .map_err(|error| CliError::Usage(format!("{server:?} is not the address of a server: {error}")))?;
        let key = given(&args.key);
        if key.as_ref().is_some_and(|key| !key.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(CliError::Usage("the key holds characters that no key has".to_owned()));
        }
        if key.is_some() && url.scheme() == "http" && !is_this_machine(&url) {
            eprintln!("hark: warning: the key and the recordings travel unprotected: use https");
        }
        // Redirects are not followed: the key is for this server.
        let builder = hark_http::builder().gzip(true).connect_timeout(CONNECT_TIMEOUT).pool_idle_timeout(IDLE_TIMEOUT);
        let http = BlockingClient::new(builder).map_err(RemoteError::from)?;
        Ok(Some(Client { http, base, key }))
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
        success(self.http.send(self.request(Method::GET, path), Some(HEAD_TIMEOUT)))
    }

    pub(crate) fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, RemoteError> {
        read_json(self.get(path)?)
    }

    pub(crate) fn delete(&self, path: &str) -> Result<(), RemoteError> {
        success(self.http.send(self.request(Method::DELETE, path).timeout(SHORT_TIMEOUT), None)).map(drop)
    }

    /// A request without a body.
    pub(crate) fn post(&self, path: &str) -> Result<(), RemoteError> {
        success(self.http.send(self.request(Method::POST, path).timeout(SHORT_TIMEOUT), None)).map(drop)
    }

    /// Sends JSON to a model and reads the JSON of its answer.
    pub(crate) fn post_json<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &serde_json::Value,
    ) -> Result<T, RemoteError> {
        let request = self.request(Method::POST, path).header(header::CONTENT_TYPE, "application/json");
        read_json(success(self.http.send(request.body(body.to_string()), Some(MODEL_TIMEOUT)))?)
    }

    /// Sends a form. It stops when the server answers, so that a refusal does not cost the whole upload. There is no time limit:
    /// the answer may be the transcript.
    pub(crate) fn post_form(
        &self,
        path: &str,
        name: &str,
        form: &mut Form,
        on_progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<Answer, RemoteError> {
        let mut request = self.request(Method::POST, path).header(header::CONTENT_TYPE, form.content_type());
        if self.has_key() {
            request = request.header("Idempotency-Key", name);
        }
        if let Some(length) = form.length() {
            request = request.header(header::CONTENT_LENGTH, length);
        }
        success(self.http.upload(request, &mut || form.next_piece(on_progress)))
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let mut headers = HeaderMap::new();
        if let Some(credential) = self.credential() {
            let mut value = HeaderValue::try_from(credential).expect("a key is checked to be ASCII without blanks");
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        self.http.client().request(method, self.url(path)).headers(headers)
    }
}

fn success(answer: Result<Answer, hark_http::Error>) -> Result<Answer, RemoteError> {
    let answer = answer?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let text =
        |name: header::HeaderName| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    if status.is_redirection() {
        let to = text(header::LOCATION).unwrap_or_default();
        return Err(RemoteError::UnexpectedAnswer(format!(
            "it redirects to {to:?}: give that address if you trust it"
        )));
    }
    let retry_after = text(header::RETRY_AFTER).and_then(|seconds| seconds.parse().ok());
    let body = answer.read(MAX_ERROR_BODY).unwrap_or_default();
    let message = match serde_json::from_slice::<hark_api::ErrorBody>(&body) {
        Ok(body) => body.error,
        Err(_) => format!("the server answered {status}"),
    };
    let message = if status == StatusCode::UNAUTHORIZED { format!("{message} (--key or HARK_KEY)") } else { message };
    Err(RemoteError::Refused { status: status.as_u16(), message, retry_after })
}

/// The JSON of an answer.
pub(crate) fn read_json<T: DeserializeOwned>(answer: Answer) -> Result<T, RemoteError> {
    let bytes = read(answer)?;
    serde_json::from_slice(&bytes).map_err(|error| RemoteError::UnexpectedAnswer(error.to_string()))
}

/// All bytes of an answer.
pub(crate) fn read(answer: Answer) -> Result<Vec<u8>, RemoteError> {
    Ok(answer.read(MAX_ANSWER)?)
}

/// Whether a URL's host is this machine.
fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A unique name: 128 random bits in hexadecimal.
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
        Client::from_args(&RemoteArgs { server: Some(server.to_owned()), key: Some(key.to_owned()) })
    }

    #[test]
    fn the_address_of_a_server_is_taken_as_people_write_it() {
        for written in ["http://localhost:8600", " http://localhost:8600/ ", "http://localhost:8600/v1/"] {
            assert_eq!(client(written, "").unwrap().unwrap().url("/health"), "http://localhost:8600/health");
        }
        assert!(client("", "").unwrap().is_none(), "an empty variable counts as unset");
        assert!(client("localhost:8600", "").is_err());
        assert!(client("http://", "").is_err());
        assert!(client("http://localhost:8600", "svc_1\r\nX: y").is_err());
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        let is_here = |rest: &str| is_this_machine(&Url::parse(&format!("http://{rest}")).unwrap());
        for here in ["localhost", "localhost:8600/x", "127.0.0.1:8600", "[::1]:8600", "127.8.8.8"] {
            assert!(is_here(here), "{here}");
        }
        for elsewhere in ["example.com", "localhost.example.com", "10.0.0.1:80", "[2001:db8::1]", "localhost@x.example"]
        {
            assert!(!is_here(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn a_model_is_waited_for_at_least_as_long_as_a_server_lets_it_work() {
        let text = hark_server::TextSettings::default();
        assert!(MODEL_TIMEOUT >= text.timeout.duration().max(text.stream_timeout.duration()));
    }

    #[test]
    fn no_two_names_are_the_same() {
        let names: std::collections::HashSet<String> = (0..1000).map(|_| random_name()).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.len() == 32));
    }
}
