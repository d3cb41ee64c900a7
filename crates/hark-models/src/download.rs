//! Downloading one file over HTTP into a `.partial` that survives broken connections, restarts and kills.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hark_http::{BlockingClient, BlockingResponse};
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{StatusCode, Url};
use serde::{Deserialize, Serialize};

use crate::archive::NO_LENGTH_LIMIT;
use crate::digest::{self, Pin};
use crate::error::Error;

/// Attempts without a single new byte before a download fails.
const MAX_FRUITLESS_ATTEMPTS: u32 = 5;

/// Redirects followed for one request; browsers allow about twenty, the hub needs two.
const MAX_REDIRECTS: u32 = 8;

/// Longest wait a server may ask for with `Retry-After`.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// How long to wait for the network.
#[derive(Debug, Clone)]
pub(crate) struct Timeouts {
    /// For a connection: name lookup, TCP and TLS together.
    pub connect: Duration,
    /// For the head of an answer, and for each read of its body.
    pub read: Duration,
    /// Before the first retry; it doubles.
    pub first_backoff: Duration,
}

/// One file to download.
pub(crate) struct Download<'a> {
    pub url: String,
    /// Its name in messages.
    pub name: &'a str,
    pub size: Option<u64>,
    pub pin: Option<Pin>,
    /// Sent to the first host only.
    pub token: Option<&'a str>,
    /// Whether the ETag of the first host is a git blob id or a SHA-256, as the hub's is.
    pub hub: bool,
    pub partial: PathBuf,
}

/// Downloads files, and remembers which hosts can be reached.
pub(crate) struct Downloader {
    http: BlockingClient,
    timeouts: Timeouts,
    reachable: HashSet<String>,
    /// Hosts that could not be connected to, and why.
    unreachable: HashMap<String, String>,
}

/// What is known of the file a `.partial` is the beginning of; stored beside it.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct PartialState {
    etag: Option<String>,
    sha256: Option<String>,
    git_sha1: Option<String>,
    total: Option<u64>,
}

/// Why an attempt ended before the file was complete.
enum AttemptError {
    Permanent(Error),
    Transient { why: String, retry_after: Option<Duration> },
}

impl From<Error> for AttemptError {
    fn from(error: Error) -> Self {
        AttemptError::Permanent(error)
    }
}

impl Downloader {
    pub(crate) fn new(timeouts: Timeouts) -> Result<Downloader, Error> {
        // Redirects are followed by hand: the hub states the hash in its first answer, and the token is for its host only.
        let identity = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"))]);
        let builder = hark_http::builder()
            .connect_timeout(timeouts.connect)
            .read_timeout(timeouts.read)
            .default_headers(identity);
        let http = BlockingClient::new(builder)?;
        Ok(Downloader { http, timeouts, reachable: HashSet::new(), unreachable: HashMap::new() })
    }

    /// Downloads into `partial` and checks length and hash; on success the partial is the whole file.
    pub(crate) fn download(&mut self, job: &Download<'_>, on_bytes: &mut dyn FnMut(u64, u64)) -> Result<(), Error> {
        let mut is_resumed = length(&job.partial) > 0;
        loop {
            self.download_with_retries(job, on_bytes)?;
            let stated = PartialState::read(&job.partial).pin();
            match job.pin.clone().or(stated) {
                None => break,
                Some(pin) => match digest::check(&job.partial, &pin, &mut |_| {})? {
                    Ok(()) => break,
                    Err(actual) => {
                        discard(&job.partial);
                        // A beginning from an earlier run may be of another file: once more from the start.
                        if std::mem::replace(&mut is_resumed, false) {
                            continue;
                        }
                        return Err(Error::Hash { file: job.name.to_owned(), expected: pin.text().to_owned(), actual });
                    }
                },
            }
        }
        remove_state(&job.partial);
        Ok(())
    }

    fn download_with_retries(&mut self, job: &Download<'_>, on_bytes: &mut dyn FnMut(u64, u64)) -> Result<(), Error> {
        let mut fruitless = 0;
        loop {
            let before = length(&job.partial);
            let (why, retry_after) = match self.attempt(job, on_bytes) {
                Ok(()) => return Ok(()),
                Err(AttemptError::Permanent(error)) => return Err(error),
                Err(AttemptError::Transient { why, retry_after }) => (why, retry_after),
            };
            fruitless = if length(&job.partial) > before { 1 } else { fruitless + 1 };
            if fruitless >= MAX_FRUITLESS_ATTEMPTS {
                return Err(Error::Transfer { url: job.url.clone(), why });
            }
            tracing::debug!(url = job.url, why, "model.download_retried");
            let backoff = self.timeouts.first_backoff * 2u32.pow(fruitless - 1);
            std::thread::sleep(retry_after.unwrap_or(backoff).min(MAX_RETRY_AFTER));
        }
    }

    fn attempt(&mut self, job: &Download<'_>, on_bytes: &mut dyn FnMut(u64, u64)) -> Result<(), AttemptError> {
        let mut have = length(&job.partial);
        let mut state = PartialState::read(&job.partial);
        let whole = job.size.or(state.total);
        if have > 0 && whole == Some(have) {
            return Ok(());
        }
        // A beginning is of use only if something can tell that the rest belongs to it.
        if have > 0 && (whole.is_some_and(|whole| have > whole) || (state.etag.is_none() && job.pin.is_none())) {
            discard(&job.partial);
            (have, state) = (0, PartialState::default());
        }
        let response = self.request(job, have, &mut state)?;
        let url = || job.url.clone();
        let status = response.status();
        match status {
            StatusCode::OK => have = 0,
            StatusCode::PARTIAL_CONTENT if range_start(response.headers()) == Some(have) => {}
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                discard(&job.partial);
                return Err(AttemptError::Transient {
                    why: "the server answered with another range".into(),
                    retry_after: Some(Duration::ZERO),
                });
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err(Error::Denied { url: url(), status: status.as_u16() }.into());
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                return Err(Error::NotFound { url: url(), status: status.as_u16() }.into());
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                return Err(busy(&response));
            }
            status if status.is_server_error() => return Err(busy(&response)),
            status => {
                return Err(Error::Transfer { url: url(), why: format!("the server answered {status}") }.into());
            }
        }
        let total = response.content_length().map(|rest| rest + have).or(state.total);
        if let (Some(expected), Some(actual)) = (job.size, total)
            && expected != actual
        {
            return Err(Error::Size { file: job.name.to_owned(), expected, actual }.into());
        }
        state.total = total;
        state.etag = strong_etag(response.headers());
        state.write(&job.partial)?;
        let mut file = open(&job.partial, have)?;
        receive(job, response, &mut file, have, total.or(job.size), on_bytes)
    }

    /// Sends the request and follows redirects; the token goes to the first host only.
    fn request(
        &mut self,
        job: &Download<'_>,
        have: u64,
        state: &mut PartialState,
    ) -> Result<BlockingResponse, AttemptError> {
        let first = Url::parse(&job.url)
            .map_err(|error| Error::Transfer { url: job.url.clone(), why: format!("it is not a URL: {error}") })?;
        let mut url = first.clone();
        for _ in 0..MAX_REDIRECTS {
            let host = host_and_port(&url);
            if let Some(why) = self.unreachable.get(&host) {
                return Err(Error::Unreachable { host, why: why.clone() }.into());
            }
            let is_first_host = host == host_and_port(&first);
            let mut headers = HeaderMap::new();
            if let Some(token) = job.token.filter(|_| is_first_host) {
                headers.insert(header::AUTHORIZATION, bearer(token)?);
            }
            if have > 0 {
                headers.insert(header::RANGE, HeaderValue::from_str(&format!("bytes={have}-")).expect("it is ASCII"));
                if let Some(etag) = state.etag.as_deref().and_then(|etag| HeaderValue::from_str(etag).ok()) {
                    headers.insert(header::IF_RANGE, etag);
                }
            }
            let response = match self.http.send(self.http.client().get(url.clone()).headers(headers), None) {
                Ok(response) => response,
                Err(error) => return Err(self.no_answer(&host, &error)),
            };
            self.reachable.insert(host);
            if job.hub && is_first_host {
                state.record_hub_hashes(response.headers());
            }
            if !response.status().is_redirection() {
                return Ok(response);
            }
            url = redirected(&url, &text(response.headers(), "location").unwrap_or_default())
                .map_err(|why| Error::Transfer { url: job.url.clone(), why: why.to_owned() })?;
        }
        Err(Error::Transfer { url: job.url.clone(), why: "it redirects without end".into() }.into())
    }

    /// A host that was never reached is not asked again in this pull; one that was is worth another attempt.
    fn no_answer(&mut self, host: &str, error: &hark_http::Error) -> AttemptError {
        let why = error.to_string();
        if error.is_connect() && !self.reachable.contains(host) {
            self.unreachable.insert(host.to_owned(), why.clone());
            return Error::Unreachable { host: host.to_owned(), why }.into();
        }
        AttemptError::Transient { why, retry_after: None }
    }
}

fn receive(
    job: &Download<'_>,
    mut response: BlockingResponse,
    file: &mut File,
    mut have: u64,
    total: Option<u64>,
    on_bytes: &mut dyn FnMut(u64, u64),
) -> Result<(), AttemptError> {
    let limit = total.unwrap_or(NO_LENGTH_LIMIT);
    on_bytes(have, total.unwrap_or(0));
    loop {
        let chunk = match response.chunk() {
            Ok(None) => break,
            Ok(Some(chunk)) => chunk,
            Err(error) => {
                return Err(AttemptError::Transient {
                    why: format!("the connection broke: {error}"),
                    retry_after: None,
                });
            }
        };
        have += chunk.len() as u64;
        if have > limit {
            discard(&job.partial);
            return Err(Error::Size { file: job.name.to_owned(), expected: limit, actual: have }.into());
        }
        file.write_all(&chunk).map_err(Error::io("write", &job.partial))?;
        on_bytes(have, total.unwrap_or(0));
    }
    match total {
        Some(total) if have < total => {
            Err(AttemptError::Transient { why: format!("it ended after {have} of {total} bytes"), retry_after: None })
        }
        _ => Ok(()),
    }
}

impl PartialState {
    fn read(partial: &Path) -> PartialState {
        std::fs::read(state_path(partial))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    fn write(&self, partial: &Path) -> Result<(), Error> {
        let path = state_path(partial);
        let bytes = serde_json::to_vec(self).expect("strings and numbers serialize");
        std::fs::write(&path, bytes).map_err(Error::io("write", &path))
    }

    /// The hash that the server stated, for files that the catalogue pins none for.
    fn pin(&self) -> Option<Pin> {
        self.sha256.clone().map(Pin::Sha256).or_else(|| self.git_sha1.clone().map(Pin::GitBlob))
    }

    /// The hub names the content: `X-Linked-ETag` is the SHA-256 of a large file, `ETag` the git blob id of a small one.
    /// The store behind it has ETags of another kind, so only the hub's own answers count.
    fn record_hub_hashes(&mut self, headers: &HeaderMap) {
        let stated = |name| text(headers, name).map(|etag| bare(&etag));
        if let Some(sha256) = stated("x-linked-etag").filter(|etag| is_hex(etag, 64)) {
            self.sha256 = Some(sha256);
        }
        if let Some(blob) = stated("etag").filter(|etag| is_hex(etag, 40)) {
            self.git_sha1 = Some(blob);
        }
    }
}

/// The file opened for appending after its first `have` bytes, which are kept.
fn open(partial: &Path, have: u64) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.create(true);
    if have == 0 {
        options.write(true).truncate(true)
    } else {
        options.append(true)
    };
    options.open(partial).map_err(Error::io("open", partial))
}

fn state_path(partial: &Path) -> PathBuf {
    let mut name = partial.as_os_str().to_owned();
    name.push(".json");
    name.into()
}

fn remove_state(partial: &Path) {
    let _ = std::fs::remove_file(state_path(partial));
}

fn discard(partial: &Path) {
    let _ = std::fs::remove_file(partial);
    remove_state(partial);
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |data| data.len())
}

fn busy(response: &BlockingResponse) -> AttemptError {
    let retry_after = text(response.headers(), "retry-after")
        .and_then(|seconds| seconds.trim().parse().ok())
        .map(Duration::from_secs);
    AttemptError::Transient { why: format!("the server answered {}", response.status()), retry_after }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// An ETag that `If-Range` may use: a weak one does not identify bytes.
fn strong_etag(headers: &HeaderMap) -> Option<String> {
    text(headers, "etag").filter(|etag| etag.starts_with('"'))
}

fn bare(etag: &str) -> String {
    etag.trim_start_matches("W/").trim_matches('"').to_ascii_lowercase()
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The first byte of `Content-Range: bytes 5-9/10`.
fn range_start(headers: &HeaderMap) -> Option<u64> {
    text(headers, "content-range")?.strip_prefix("bytes ")?.split('-').next()?.parse().ok()
}

/// The host of an address for messages, with its port where it is not the scheme's own.
pub(crate) fn host_of(url: &str) -> String {
    Url::parse(url).map_or_else(|_| url.to_owned(), |url| host_and_port(&url))
}

fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Where a redirect leads. It is read with the parser of the client, so that a host which is compared is the one that is asked.
fn redirected(from: &Url, location: &str) -> Result<Url, &'static str> {
    let to = from.join(location).map_err(|_| "it redirects to something that is not a URL")?;
    if from.scheme() == "https" && to.scheme() != "https" {
        return Err("it redirects from https to an unprotected address");
    }
    Ok(to)
}

fn bearer(token: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| Error::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

/// A path as part of a URL: all but unreserved characters and slashes encoded.
pub(crate) fn encode_path(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_joined_to_the_address_it_came_from() {
        let base = Url::parse("https://hub.example/a/b/resolve/main/x.bin").unwrap();
        let joined = |location: &str| redirected(&base, location).unwrap().to_string();
        assert_eq!(joined("https://cdn.example/y?z=1"), "https://cdn.example/y?z=1");
        assert_eq!(joined("//cdn.example/y"), "https://cdn.example/y");
        assert_eq!(joined("/api/resolve-cache/y"), "https://hub.example/api/resolve-cache/y");
        // An address in the query does not make a location absolute.
        let through = "/login?next=https://cdn.example/y";
        assert_eq!(joined(through), format!("https://hub.example{through}"));
        assert_eq!(joined("y.bin?from=s3://bucket/y"), "https://hub.example/a/b/resolve/main/y.bin?from=s3://bucket/y");
        assert_eq!(joined("y.bin"), "https://hub.example/a/b/resolve/main/y.bin");
        for unprotected in ["http://hub.example/y", "HTTP://hub.example/y", "ftp://hub.example/y"] {
            assert!(redirected(&base, unprotected).is_err(), "{unprotected}");
        }
        assert_eq!(host_of("http://user@host:81/x"), "host:81");
        assert_eq!(encode_path("a b/ñ+c.bin"), "a%20b/%C3%B1%2Bc.bin");
    }

    #[test]
    fn a_host_is_the_one_that_the_client_connects_to() {
        let hub = Url::parse("https://hub.example/x").unwrap();
        for elsewhere in [
            "https://cdn.example\\@hub.example/y",
            "https://hub.example@cdn.example/y",
            "https://hub.example:8443/y",
            "//hub.example.cdn.example/y",
        ] {
            let to = redirected(&hub, elsewhere).unwrap();
            assert_ne!(host_and_port(&to), host_and_port(&hub), "{elsewhere} is {to}");
        }
        for same in ["https://HUB.example:443/y", "/y", "https://user@hub.example/y"] {
            assert_eq!(host_and_port(&redirected(&hub, same).unwrap()), host_and_port(&hub), "{same}");
        }
    }
}
