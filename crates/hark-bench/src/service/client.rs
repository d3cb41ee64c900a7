//! A client as lean as one gets: one connection, one request at a time, no more of HTTP than the service's answers need.
//!
//! The client shares the machine's cores with the server, so what it spends is taken from what is measured.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// The boundary of forms; no recording of the bench contains it.
const BOUNDARY: &str = "hark-bench-7d1f0c";

/// A connection that is kept between requests.
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Bytes of the buffer that belong to the answer that was given last.
    used: usize,
}

/// An answer, whole.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// A header's value.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let value = |line: &'_ str| line.split_once(':').is_some_and(|(found, _)| found.eq_ignore_ascii_case(name));
        self.head.lines().find(|line| value(line)).and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    }

    /// How long the caller should wait, in whole seconds.
    pub(super) fn retry_after(&self) -> Option<u64> {
        self.header("retry-after").and_then(|seconds| seconds.parse().ok())
    }

    /// The body as JSON; null where it is none.
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> io::Result<Self> {
        Self::open_from(Ipv4Addr::LOCALHOST, address).await
    }

    /// Connects from an address of one's own, since limits count by address.
    pub(super) async fn open_from(from: Ipv4Addr, address: SocketAddr) -> io::Result<Self> {
        let stream = connect_from(from, address).await?;
        Ok(Connection { stream, buffer: Vec::with_capacity(4096), used: 0 })
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.send(request).await?;
        self.answer().await
    }

    /// The next answer.
    pub(super) async fn answer(&mut self) -> io::Result<Answer> {
        let (status, head, end) = self.receive().await?;
        let text = String::from_utf8_lossy(&self.buffer[..head]).into_owned();
        Ok(Answer { status, head: text, body: self.buffer[head..end].to_vec() })
    }

    /// The status of the next answer, whose bytes are passed over.
    pub(super) async fn status(&mut self) -> io::Result<u16> {
        Ok(self.receive().await?.0)
    }

    /// Reads one answer into the buffer; gives its status and where its head and its body end.
    async fn receive(&mut self) -> io::Result<(u16, usize, usize)> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let mut seen = 0;
        let head = loop {
            let from = seen;
            if let Some(at) = self.buffer[from..].windows(4).position(|four| four == b"\r\n\r\n") {
                break from + at + 4;
            }
            seen = self.buffer.len().saturating_sub(3);
            self.more().await?;
        };
        let (status, length) = read_head(&self.buffer[..head]).ok_or_else(|| broken("an answer without a length"))?;
        while self.buffer.len() < head + length {
            self.more().await?;
        }
        self.used = head + length;
        Ok((status, head, head + length))
    }

    async fn more(&mut self) -> io::Result<()> {
        self.buffer.reserve(4096);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(broken("the server closed the connection")),
            _ => Ok(()),
        }
    }
}

/// A connection to an address of IPv4, from this one.
pub(super) async fn connect_from(from: Ipv4Addr, address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn broken(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, why)
}

/// Status and length of the body.
fn read_head(head: &[u8]) -> Option<(u16, usize)> {
    let head = std::str::from_utf8(head).ok()?;
    let status = head.get(9..12)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    Some((status, length?))
}

/// A request as bytes.
pub(super) fn request(method: &str, path: &str, key: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if method != "GET" {
        head += &format!("content-length: {}\r\n", body.len());
    }
    head += "\r\n";
    [head.as_bytes(), body].concat()
}

/// The `Content-Type` of the forms below.
pub(super) fn form_type() -> String {
    format!("multipart/form-data; boundary={BOUNDARY}")
}

/// What stands in a form before and after a recording of this name.
pub(super) fn around(file_name: &str) -> (Vec<u8>, Vec<u8>) {
    let disposition = format!("Content-Disposition: form-data; name=\"file\"; filename=\"{file_name}\"");
    let before = format!("--{BOUNDARY}\r\n{disposition}\r\nContent-Type: audio/wav\r\n\r\n");
    (before.into_bytes(), format!("\r\n--{BOUNDARY}--\r\n").into_bytes())
}

/// A whole request that uploads a recording.
pub(super) fn upload(path: &str, key: &str, headers: &[(&str, &str)], file_name: &str, recording: &[u8]) -> Vec<u8> {
    let (before, after) = around(file_name);
    let kind = form_type();
    let headers = [&[("content-type", kind.as_str())], headers].concat();
    request("POST", path, key, &headers, &[&before, recording, &after].concat())
}

/// The header of a WAV file of one channel of bytes.
pub(super) fn wav_header(samples: u32, rate: u32) -> Vec<u8> {
    let mut header = b"RIFF".to_vec();
    header.extend((36 + samples).to_le_bytes());
    header.extend(b"WAVEfmt ");
    header.extend(16u32.to_le_bytes());
    header.extend([1, 0, 1, 0]);
    header.extend(rate.to_le_bytes());
    header.extend(rate.to_le_bytes());
    header.extend([1, 0, 8, 0]);
    header.extend(b"data");
    header.extend(samples.to_le_bytes());
    header
}

/// A silent recording.
pub(super) fn wav(seconds: u32, rate: u32) -> Vec<u8> {
    let mut wav = wav_header(seconds * rate, rate);
    wav.resize(wav.len() + (seconds * rate) as usize, 128);
    wav
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_whatever_the_case_of_its_names_and_one_without_a_length_is_none() {
        let read = |text: &str| read_head(text.as_bytes());
        assert_eq!(read("HTTP/1.1 200 OK\r\ncontent-type: a/b\r\nContent-Length: 17\r\n\r\n"), Some((200, 17)));
        assert_eq!(read("HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n"), Some((429, 0)));
        assert_eq!(read("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"), None);
    }
}
