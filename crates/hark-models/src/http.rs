//! Downloading one file over HTTP into a `.partial` that survives cuts, restarts and kills.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use ureq::http::{HeaderMap, Response, StatusCode, header};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use crate::archive::NO_LENGTH_LIMIT;
use crate::digest::{self, Pin};
use crate::error::Error;

/// Tries without a single new byte before a download is given up.
const FRUITLESS_TRIES: u32 = 5;

/// Redirects followed for one request; browsers allow about twenty, the hub needs two.
const REDIRECTS: u32 = 8;

/// Longest wait a server may ask for with `Retry-After`.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// How patient the network code is.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    pub connect: Duration,
    pub read: Duration,
    pub first_wait: Duration,
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

/// An HTTP client that remembers which hosts answer.
pub(crate) struct Http {
    agent: Agent,
    patience: Patience,
    answered: HashSet<String>,
    silent: HashMap<String, String>,
}

/// What is known of the file a `.partial` is a beginning of; kept beside it.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct Known {
    etag: Option<String>,
    sha256: Option<String>,
    git_sha1: Option<String>,
    total: Option<u64>,
}

/// Why an attempt ended before the file was whole.
enum Trouble {
    /// Trying again is useless.
    Over(Error),
    /// Trying again may help.
    Again { why: String, wait: Option<Duration> },
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Over(error)
    }
}

impl Http {
    pub(crate) fn new(patience: Patience) -> Http {
        // The platform's trust store, so that SSL_CERT_FILE and a company's own authority hold; the proxy comes from
        // HTTPS_PROXY and its kin. Redirects are followed by hand: the hub says the hash in the first answer.
        let config = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(patience.connect))
            .timeout_connect(Some(patience.connect))
            .timeout_recv_response(Some(patience.read))
            .timeout_per_read(Some(patience.read))
            .accept_encoding("identity")
            .user_agent(concat!("hark/", env!("CARGO_PKG_VERSION")))
            .build();
        Http { agent: config.into(), patience, answered: HashSet::new(), silent: HashMap::new() }
    }

    /// Downloads into `partial` and checks length and hash; on success the partial is the whole file.
    pub(crate) fn download(&mut self, job: &Download<'_>, on_bytes: &mut dyn FnMut(u64, u64)) -> Result<(), Error> {
        let mut resumed = length(&job.partial) > 0;
        loop {
            self.until_whole(job, on_bytes)?;
            let stated = Known::read(&job.partial).pin();
            match job.pin.clone().or(stated) {
                None => break,
                Some(pin) => match digest::check(&job.partial, &pin, &mut |_| {})? {
                    Ok(()) => break,
                    Err(actual) => {
                        discard(&job.partial);
                        // A beginning kept from an earlier run may be of another file: once more from the start.
                        if std::mem::replace(&mut resumed, false) {
                            continue;
                        }
                        return Err(Error::Hash { file: job.name.to_owned(), expected: pin.text().to_owned(), actual });
                    }
                },
            }
        }
        forget(&job.partial);
        Ok(())
    }

    fn until_whole(&mut self, job: &Download<'_>, on_bytes: &mut dyn FnMut(u64, u64)) -> Result<(), Error> {
        let mut fruitless = 0;
        loop {
            let before = length(&job.partial);
            let (why, wait) = match self.attempt(job, on_bytes) {
                Ok(()) => return Ok(()),
                Err(Trouble::Over(error)) => return Err(error),
                Err(Trouble::Again { why, wait }) => (why, wait),
            };
            fruitless = if length(&job.partial) > before { 1 } else { fruitless + 1 };
            if fruitless >= FRUITLESS_TRIES {
                return Err(Error::Transfer { url: job.url.clone(), why });
            }
            tracing::debug!(url = job.url, why, "model.download_retried");
            let doubled = self.patience.first_wait * 2u32.pow(fruitless - 1);
            std::thread::sleep(wait.unwrap_or(doubled).min(LONGEST_WAIT));
        }
    }

    fn attempt(&mut self, job: &Download<'_>, on_bytes: &mut dyn FnMut(u64, u64)) -> Result<(), Trouble> {
        let mut have = length(&job.partial);
        let mut known = Known::read(&job.partial);
        let whole = job.size.or(known.total);
        if have > 0 && whole == Some(have) {
            return Ok(());
        }
        // A beginning is of use only if something can tell that the rest belongs to it.
        if have > 0 && (whole.is_some_and(|whole| have > whole) || (known.etag.is_none() && job.pin.is_none())) {
            discard(&job.partial);
            (have, known) = (0, Known::default());
        }
        let response = self.request(job, have, &mut known)?;
        let url = || job.url.clone();
        let status = response.status();
        match status {
            StatusCode::OK => have = 0,
            StatusCode::PARTIAL_CONTENT if range_start(response.headers()) == Some(have) => {}
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                discard(&job.partial);
                return Err(Trouble::Again {
                    why: "the server answered with another range".into(),
                    wait: Some(Duration::ZERO),
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
        let total = response.body().content_length().map(|rest| rest + have).or(known.total);
        if let (Some(expected), Some(actual)) = (job.size, total)
            && expected != actual
        {
            return Err(Error::Size { file: job.name.to_owned(), expected, actual }.into());
        }
        known.total = total;
        known.etag = strong_etag(response.headers());
        known.write(&job.partial)?;
        let mut file = open(&job.partial, have)?;
        receive(job, response, &mut file, have, total.or(job.size), on_bytes)
    }

    /// Sends the request and follows redirects; the token goes to the first host only.
    fn request(&mut self, job: &Download<'_>, have: u64, known: &mut Known) -> Result<Response<Body>, Trouble> {
        let mut url = job.url.clone();
        for _ in 0..REDIRECTS {
            let host = host_of(&url).to_owned();
            if let Some(why) = self.silent.get(&host) {
                return Err(Error::Unreachable { host, why: why.clone() }.into());
            }
            let mut request = self.agent.get(&url);
            let same_host = host == host_of(&job.url);
            if let Some(token) = job.token.filter(|_| same_host) {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            if have > 0 {
                request = request.header(header::RANGE, format!("bytes={have}-"));
                if let Some(etag) = &known.etag {
                    request = request.header(header::IF_RANGE, etag);
                }
            }
            let response = match request.call() {
                Ok(response) => response,
                Err(error) => return Err(self.no_answer(&host, &error)),
            };
            self.answered.insert(host);
            if job.hub {
                known.learn(response.headers(), same_host);
            }
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let location = text(response.headers(), "location").unwrap_or_default();
            let next = join_url(&url, &location);
            if url.starts_with("https:") && !next.starts_with("https:") {
                return Err(
                    Error::Transfer { url, why: "it redirects from https to an unprotected address".into() }.into()
                );
            }
            url = next;
        }
        Err(Error::Transfer { url: job.url.clone(), why: "it redirects without end".into() }.into())
    }

    /// A host that never answered is not asked again in this pull; one that did is worth another try.
    fn no_answer(&mut self, host: &str, error: &ureq::Error) -> Trouble {
        let why = explain(error);
        let no_connection = match error {
            ureq::Error::HostNotFound | ureq::Error::ConnectionFailed | ureq::Error::ConnectProxyFailed(_) => true,
            ureq::Error::Timeout(kind) => {
                matches!(kind, ureq::Timeout::Resolve | ureq::Timeout::Connect)
            }
            ureq::Error::Io(error) => {
                !matches!(error.kind(), std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset)
            }
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) => true,
            _ => false,
        };
        if no_connection && !self.answered.contains(host) {
            self.silent.insert(host.to_owned(), why.clone());
            return Error::Unreachable { host: host.to_owned(), why }.into();
        }
        Trouble::Again { why, wait: None }
    }
}

fn receive(
    job: &Download<'_>,
    response: Response<Body>,
    file: &mut File,
    mut have: u64,
    total: Option<u64>,
    on_bytes: &mut dyn FnMut(u64, u64),
) -> Result<(), Trouble> {
    let limit = total.unwrap_or(NO_LENGTH_LIMIT);
    let mut reader = response.into_body().into_reader();
    let mut buffer = vec![0; 1 << 17];
    on_bytes(have, total.unwrap_or(0));
    loop {
        let read = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) => {
                return Err(Trouble::Again { why: format!("the connection broke: {error}"), wait: None });
            }
        };
        have += read as u64;
        if have > limit {
            discard(&job.partial);
            return Err(Error::Size { file: job.name.to_owned(), expected: limit, actual: have }.into());
        }
        file.write_all(&buffer[..read]).map_err(Error::io("write", &job.partial))?;
        on_bytes(have, total.unwrap_or(0));
    }
    match total {
        Some(total) if have < total => {
            Err(Trouble::Again { why: format!("it ended after {have} of {total} bytes"), wait: None })
        }
        _ => Ok(()),
    }
}

impl Known {
    fn read(partial: &Path) -> Known {
        std::fs::read(beside(partial)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    fn write(&self, partial: &Path) -> Result<(), Error> {
        let path = beside(partial);
        let bytes = serde_json::to_vec(self).expect("strings and numbers serialize");
        std::fs::write(&path, bytes).map_err(Error::io("write", &path))
    }

    /// The hash the server itself promised, for files the catalogue pins none for.
    fn pin(&self) -> Option<Pin> {
        self.sha256.clone().map(Pin::Sha256).or_else(|| self.git_sha1.clone().map(Pin::GitBlob))
    }

    /// The hub names the content: `X-Linked-ETag` is the SHA-256 of a large file, `ETag` the git blob id of a small one.
    /// The store behind it has ETags of another kind, so only the hub's own answers count.
    fn learn(&mut self, headers: &HeaderMap, from_hub: bool) {
        if !from_hub {
            return;
        }
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

fn beside(partial: &Path) -> PathBuf {
    let mut name = partial.as_os_str().to_owned();
    name.push(".json");
    name.into()
}

fn forget(partial: &Path) {
    let _ = std::fs::remove_file(beside(partial));
}

fn discard(partial: &Path) {
    let _ = std::fs::remove_file(partial);
    forget(partial);
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |data| data.len())
}

fn busy(response: &Response<Body>) -> Trouble {
    let wait = text(response.headers(), "retry-after")
        .and_then(|seconds| seconds.trim().parse().ok())
        .map(Duration::from_secs);
    Trouble::Again { why: format!("the server answered {}", response.status()), wait }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// An ETag that `If-Range` may use: weak ones may not vouch for bytes.
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

pub(crate) fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

fn join_url(base: &str, location: &str) -> String {
    let (scheme, rest) = base.split_once("://").unwrap_or(("https", base));
    if has_scheme(location) {
        location.to_owned()
    } else if let Some(other) = location.strip_prefix("//") {
        format!("{scheme}://{other}")
    } else if location.starts_with('/') {
        format!("{scheme}://{}{location}", rest.split('/').next().unwrap_or(rest))
    } else {
        let folder = base.rsplit_once('/').map_or(base, |(folder, _)| folder);
        format!("{folder}/{location}")
    }
}

/// Whether an address names its scheme (RFC 3986, 3.1); one in its path or query does not count.
fn has_scheme(location: &str) -> bool {
    let Some((scheme, _)) = location.split_once("://") else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|other| other.is_ascii_alphanumeric() || "+-.".contains(other))
}

/// A path as part of a URL: all but unreserved characters and slashes encoded.
pub(crate) fn encode_path(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    path.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn explain(error: &ureq::Error) -> String {
    match error {
        ureq::Error::HostNotFound => "its name is not known here (no DNS answer)".into(),
        ureq::Error::Timeout(kind) => format!("no answer in time ({kind})"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_joined_to_the_address_it_came_from() {
        let base = "https://hub.example/a/b/resolve/main/x.bin";
        assert_eq!(join_url(base, "https://cdn.example/y?z=1"), "https://cdn.example/y?z=1");
        assert_eq!(join_url(base, "//cdn.example/y"), "https://cdn.example/y");
        assert_eq!(join_url(base, "/api/resolve-cache/y"), "https://hub.example/api/resolve-cache/y");
        // An address in the query does not make a location absolute.
        let through = "/login?next=https://cdn.example/y";
        assert_eq!(join_url(base, through), format!("https://hub.example{through}"));
        assert_eq!(
            join_url(base, "y.bin?from=s3://bucket/y"),
            "https://hub.example/a/b/resolve/main/y.bin?from=s3://bucket/y"
        );
        assert_eq!(join_url(base, "y.bin"), "https://hub.example/a/b/resolve/main/y.bin");
        assert_eq!(host_of("http://user@host:81/x"), "host:81");
        assert_eq!(encode_path("a b/ñ+c.bin"), "a%20b/%C3%B1%2Bc.bin");
    }
}
