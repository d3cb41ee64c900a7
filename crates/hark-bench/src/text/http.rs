//! A client for long answers: one connection for each request, whole bodies or server-sent events.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::failed;
use crate::error::BenchError;

/// The longest silence; an hour of transcript takes a small machine minutes.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// How often a request is repeated that the server asks to repeat.
const ATTEMPTS: usize = 5;

/// The boundary of forms; no recording of the bench contains it.
const BOUNDARY: &str = "hark-bench-2c81e6";

/// A server and the key to use it with.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
}

/// What a caller waits for in an answer.
#[derive(Debug, Clone, Copy)]
enum Mark<'a> {
    Text(&'a str),
    /// Bytes of a body that is sent in chunks.
    Bytes(usize),
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(super) status: u16,
    pub(crate) body: Vec<u8>,
    /// Until the whole was there.
    pub(crate) seconds: f64,
    /// Until the mark was seen that the caller waits for.
    pub(crate) first: Option<f64>,
    retry_after: Option<u64>,
}

impl Reply {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl Client {
    /// Posts JSON and gives the JSON of a 200; what else is answered is an error. Waits where the server asks for it.
    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value, BenchError> {
        Ok(self.accepted(path, "application/json", body.to_string().as_bytes(), None)?.json())
    }

    /// Posts JSON and tells when `mark` was received.
    pub(super) fn stream(&self, path: &str, body: &Value, mark: &str) -> Result<Reply, BenchError> {
        self.accepted(path, "application/json", body.to_string().as_bytes(), Some(Mark::Text(mark)))
    }

    /// Posts JSON and tells when so many bytes of a body in chunks were received.
    pub(crate) fn stream_bytes(&self, path: &str, body: &Value, bytes: usize) -> Result<Reply, BenchError> {
        self.accepted(path, "application/json", body.to_string().as_bytes(), Some(Mark::Bytes(bytes)))
    }

    /// Posts a recording as a form.
    pub(super) fn upload(&self, path: &str, recording: &[u8]) -> Result<Reply, BenchError> {
        let before = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"clip.wav\"\r\nContent-Type: audio/wav\r\n\r\n"
        );
        let body = [before.as_bytes(), recording, format!("\r\n--{BOUNDARY}--\r\n").as_bytes()].concat();
        self.accepted(path, &format!("multipart/form-data; boundary={BOUNDARY}"), &body, None)
    }

    /// The status of a GET; none where nobody listens.
    pub(super) fn status(&self, path: &str) -> Option<u16> {
        self.send("GET", path, "text/plain", &[], None).ok().map(|reply| reply.status)
    }

    fn accepted(&self, path: &str, kind: &str, body: &[u8], mark: Option<Mark<'_>>) -> Result<Reply, BenchError> {
        let mut attempt = 1;
        loop {
            let reply = self.send("POST", path, kind, body, mark)?;
            match reply.status {
                200 => return Ok(reply),
                429 | 503 if attempt < ATTEMPTS && reply.retry_after.is_some() => {
                    std::thread::sleep(Duration::from_secs(reply.retry_after.unwrap_or(1).clamp(1, 60)));
                    attempt += 1;
                }
                status => {
                    let said: String = String::from_utf8_lossy(&reply.body).chars().take(300).collect();
                    return Err(failed(format!("{path} answered {status}: {said}")));
                }
            }
        }
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: &[u8],
        mark: Option<Mark<'_>>,
    ) -> Result<Reply, BenchError> {
        let broken = |error: std::io::Error| failed(format!("{path}: {error}"));
        let start = Instant::now();
        let mut stream = TcpStream::connect(self.address).map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        stream.set_read_timeout(Some(TIMEOUT)).map_err(broken)?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Accept: */*\r\nConnection: close\r\n\r\n",
            self.address,
            self.key,
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).map_err(broken)?;
        let (mut received, mut first) = (Vec::new(), None);
        let mut block = [0; 16 << 10];
        loop {
            let count = stream.read(&mut block).map_err(broken)?;
            if count == 0 {
                break;
            }
            received.extend_from_slice(&block[..count]);
            if let (Some(mark), None) = (mark, first)
                && mark.is_in(&received)
            {
                first = Some(start.elapsed().as_secs_f64());
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let (status, retry_after, body) =
            parse(&received).ok_or_else(|| failed(format!("{path}: the answer is not HTTP or ends early")))?;
        Ok(Reply { status, body, seconds, first, retry_after })
    }
}

impl Mark<'_> {
    fn is_in(self, received: &[u8]) -> bool {
        let position = |mark: &[u8]| received.windows(mark.len()).position(|window| window == mark);
        match self {
            Mark::Text(mark) => position(mark.as_bytes()).is_some(),
            Mark::Bytes(wanted) => {
                position(b"\r\n\r\n").is_some_and(|head_end| body_bytes(&received[head_end + 4..]) >= wanted)
            }
        }
    }
}

/// Bytes of a body in chunks that were received so far.
fn body_bytes(mut rest: &[u8]) -> usize {
    let mut bytes = 0;
    while let Some(line_end) = rest.windows(2).position(|two| two == b"\r\n") {
        let line = std::str::from_utf8(&rest[..line_end]).unwrap_or_default();
        let length = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16).unwrap_or(0);
        let chunk = &rest[line_end + 2..];
        bytes += length.min(chunk.len());
        match chunk.get(length + 2..) {
            Some(next) if length > 0 => rest = next,
            _ => break,
        }
    }
    bytes
}

/// Status, `Retry-After` and body of a whole answer.
fn parse(answer: &[u8]) -> Option<(u16, Option<u64>, Vec<u8>)> {
    let head_end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&answer[..head_end]).ok()?;
    let header = |wanted: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
    };
    let status = head.get(9..12)?.parse().ok()?;
    let rest = &answer[head_end..];
    let body = if header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        unchunk(rest)?
    } else {
        let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(rest.len());
        rest.get(..length)?.to_vec()
    };
    Some((status, header("retry-after").and_then(|seconds| seconds.parse().ok()), body))
}

fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line_end = rest.windows(2).position(|two| two == b"\r\n")?;
        let line = std::str::from_utf8(&rest[..line_end]).ok()?;
        let length = usize::from_str_radix(line.split(';').next()?.trim(), 16).ok()?;
        rest = &rest[line_end + 2..];
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..length)?);
        rest = rest.get(length + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_with_a_length_and_in_chunks_are_read() {
        let sized = b"HTTP/1.1 503 Unavailable\r\nRetry-After: 15\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(parse(sized), Some((503, Some(15), b"hi".to_vec())));
        let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n3;x=y\r\n ho\r\n0\r\n\r\n";
        assert_eq!(parse(chunked), Some((200, None, b"hi ho".to_vec())));
    }

    #[test]
    fn bytes_of_a_body_count_without_the_lines_between_them() {
        let head: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let body: &[u8] = b"4\r\nabcd\r\n3\r\nef";
        let all = [head, body].concat();
        assert!(Mark::Bytes(6).is_in(&all) && !Mark::Bytes(7).is_in(&all));
        assert!(!Mark::Bytes(1).is_in(head) && !Mark::Bytes(1).is_in(&head[..20]));
        assert!(Mark::Text("bcd").is_in(&all) && !Mark::Text("bcde").is_in(&all));
        assert_eq!(body_bytes(b"2\r\nhi\r\n0\r\n\r\n"), 2);
    }

    #[test]
    fn an_answer_that_ends_early_is_none() {
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi"), None);
        assert_eq!(parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhi"), None);
    }
}
