//! `multipart/form-data` (RFC 7578) as a stream: memory for one block at a time, whatever the sender does.
//!
//! Blocks of a file are passed on without a copy, unless one ends inside a possible delimiter.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Buf, Bytes, BytesMut};
use hark_api::ErrorKind;
use http_body_util::BodyExt;
use memchr::memmem::Finder;

use crate::error::Failure;

/// Maximum bytes of the preamble and of the headers of a part.
const MAX_HEAD: usize = 16 << 10;
/// A form has fewer parts than this.
const MAX_PARTS: usize = 1000;
/// RFC 2046 allows a boundary of 70 characters.
const MAX_BOUNDARY: usize = 70;
/// A form that arrives.
pub(crate) struct Multipart {
    body: Option<Body>,
    /// `CR LF -- boundary`: what ends a part.
    delimiter: Finder<'static>,
    /// Received bytes that were not passed on yet.
    buffer: Bytes,
    place: Place,
    parts: usize,
    idle: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Preamble,
    Data,
    /// Right behind a delimiter.
    Delimited,
    End,
}

/// The head of a part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Part {
    /// The name of the field.
    pub(crate) name: String,
    /// The name of the file, where it is one.
    pub(crate) file_name: Option<String>,
}

impl Multipart {
    /// Begins to read a form; the sender may be silent for at most `idle`.
    pub(crate) fn new(headers: &HeaderMap, body: Body, idle: Duration) -> Result<Self, Failure> {
        let boundary = boundary(headers)?;
        let delimiter = Finder::new(format!("\r\n--{boundary}").as_bytes()).into_owned();
        // The first delimiter may stand at the very start, where no line end comes before it.
        let buffer = Bytes::from_static(b"\r\n");
        Ok(Multipart { body: Some(body), delimiter, buffer, place: Place::Preamble, parts: 0, idle })
    }

    /// The same for a request: one without a body gets the error that it is missing, whatever its headers are.
    pub(crate) async fn open(headers: &HeaderMap, body: Body, idle: Duration) -> Result<Self, Failure> {
        if let Err(failure) = boundary(headers) {
            if crate::extract::is_missing(body, idle).await? {
                return Err(Failure::invalid("the body is missing: this path takes a form (multipart/form-data)"));
            }
            return Err(failure);
        }
        Multipart::new(headers, body, idle)
    }

    /// The next part; what is left of the current one is dropped.
    pub(crate) async fn next_part(&mut self) -> Result<Option<Part>, Failure> {
        let mut skipped = 0;
        while matches!(self.place, Place::Preamble | Place::Data) {
            let before_first = self.place == Place::Preamble;
            if let Some(block) = self.until_delimiter().await? {
                skipped += block.len();
                if before_first && skipped > MAX_HEAD {
                    return Err(malformed("its first part does not begin"));
                }
            }
        }
        if self.place == Place::End {
            return Ok(None);
        }
        let head = self.line(true).await?;
        if head.starts_with(b"--") {
            self.place = Place::End;
            return Ok(None);
        }
        if !head.iter().all(|byte| matches!(byte, b' ' | b'\t')) {
            return Err(malformed("something stands behind its boundary"));
        }
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(malformed("it has too many parts"));
        }
        let mut part = None;
        let mut length = 0;
        loop {
            let line = self.line(false).await?;
            if line.is_empty() {
                break;
            }
            length += line.len();
            if length > MAX_HEAD {
                return Err(malformed("the head of a part is too long"));
            }
            let text = String::from_utf8_lossy(&line);
            if let Some((name, value)) = text.split_once(':')
                && name.trim().eq_ignore_ascii_case("content-disposition")
            {
                part = Some(disposition(value)?);
            }
        }
        self.place = Place::Data;
        part.ok_or_else(|| malformed("a part has no Content-Disposition")).map(Some)
    }

    /// The next block of the current part; none at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        while self.place == Place::Data {
            match self.until_delimiter().await? {
                Some(block) if block.is_empty() => continue,
                block => return Ok(block),
            }
        }
        Ok(None)
    }

    /// The current part as text of at most `limit` bytes.
    pub(crate) async fn text(&mut self, name: &str, limit: usize) -> Result<String, Failure> {
        let mut whole = BytesMut::new();
        while let Some(block) = self.chunk().await? {
            if whole.len() + block.len() > limit {
                return Err(Failure::invalid(format!("the field `{name}` is too long: it may have {limit} bytes")));
            }
            whole.extend_from_slice(&block);
        }
        let text = String::from_utf8(whole.into())
            .map_err(|_| Failure::invalid(format!("the field `{name}` is not UTF-8")))?;
        if text.contains('\0') {
            return Err(Failure::invalid(format!("the field `{name}` contains the character U+0000 (NUL)")));
        }
        Ok(text)
    }

    /// Data up to the delimiter: a block of it, or none when the delimiter was reached (and passed).
    async fn until_delimiter(&mut self) -> Result<Option<Bytes>, Failure> {
        let length = self.delimiter.needle().len();
        loop {
            if let Some(at) = self.delimiter.find(&self.buffer) {
                let block = self.buffer.split_to(at);
                if block.is_empty() {
                    self.buffer.advance(length);
                    self.place = Place::Delimited;
                    return Ok(None);
                }
                return Ok(Some(block));
            }
            let kept = self.possible_delimiter();
            if kept < self.buffer.len() {
                let data = self.buffer.len() - kept;
                return Ok(Some(self.buffer.split_to(data)));
            }
            self.more().await?;
        }
    }

    /// How many bytes at the end of the buffer may be the start of a delimiter.
    fn possible_delimiter(&self) -> usize {
        let needle = self.delimiter.needle();
        let from = self.buffer.len().saturating_sub(needle.len() - 1);
        let tail = &self.buffer[from..];
        let starts = memchr::memchr_iter(b'\r', tail);
        starts.map(|at| &tail[at..]).find(|rest| needle.starts_with(rest)).map_or(0, <[u8]>::len)
    }

    /// A line of a head, without its end; the one right behind a delimiter may be the last of the form.
    async fn line(&mut self, is_first: bool) -> Result<Bytes, Failure> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.buffer, b"\r\n") {
                let line = self.buffer.split_to(at);
                self.buffer.advance(2);
                return Ok(line);
            }
            if is_first && self.buffer.starts_with(b"--") {
                // The last delimiter needs no line end.
                return Ok(self.buffer.split_off(0));
            }
            if self.buffer.len() > MAX_HEAD {
                return Err(malformed("the head of a part is too long"));
            }
            self.more().await?;
        }
    }

    /// Waits for bytes and puts them behind those that are there.
    async fn more(&mut self) -> Result<(), Failure> {
        let Some(body) = &mut self.body else { return Err(malformed("it ended early")) };
        let frame = tokio::time::timeout(self.idle, body.frame()).await;
        let frame = frame.map_err(|_| Failure::from(ErrorKind::RequestTimeout))?;
        let Some(frame) = frame else {
            self.body = None;
            return Err(malformed("it ended early"));
        };
        let frame = frame.map_err(|error| {
            tracing::debug!(%error, "upload.aborted");
            self.body = None;
            Failure::of_body(&error, malformed("it ended early"))
        })?;
        if let Ok(data) = frame.into_data() {
            if self.buffer.is_empty() {
                self.buffer = data;
            } else {
                let mut both = BytesMut::with_capacity(self.buffer.len() + data.len());
                both.extend_from_slice(&self.buffer);
                both.extend_from_slice(&data);
                self.buffer = both.freeze();
            }
        }
        Ok(())
    }
}

fn malformed(why: &'static str) -> Failure {
    Failure::invalid(format!("the form is malformed: {why}"))
}

fn boundary(headers: &HeaderMap) -> Result<String, Failure> {
    let wrong = || {
        Failure::new(
            ErrorKind::UnsupportedMediaType,
            "this path takes a form: send it with Content-Type: multipart/form-data",
        )
    };
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).ok_or_else(wrong)?;
    let (essence, parameters) = value.split_once(';').unwrap_or((value, ""));
    if !essence.trim().eq_ignore_ascii_case("multipart/form-data") {
        return Err(wrong());
    }
    let boundary = parameter(parameters, "boundary").filter(|text| (1..=MAX_BOUNDARY).contains(&text.len()));
    boundary.ok_or_else(|| Failure::invalid("the Content-Type names no boundary"))
}

fn disposition(value: &str) -> Result<Part, Failure> {
    let (kind, parameters) = value.split_once(';').unwrap_or((value, ""));
    if !kind.trim().eq_ignore_ascii_case("form-data") {
        return Err(malformed("a part is not form-data"));
    }
    let name = parameter(parameters, "name").ok_or_else(|| malformed("a part has no name"))?;
    let extended = parameter(parameters, "filename*").and_then(|text| {
        let (charset, rest) = text.split_once('\'')?;
        let (_, encoded) = rest.split_once('\'')?;
        charset.eq_ignore_ascii_case("utf-8").then(|| percent_decoded(encoded))
    });
    let plain = parameter(parameters, "filename").map(|text| {
        // How browsers write quotes and line ends in names (WHATWG, multipart/form-data encoding).
        text.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n")
    });
    Ok(Part { name, file_name: extended.or(plain) })
}

/// The value of one parameter of a header, quotes and escapes resolved.
fn parameter(parameters: &str, wanted: &str) -> Option<String> {
    let mut rest = parameters;
    while !rest.is_empty() {
        rest = rest.trim_start_matches([';', ' ', '\t']);
        let (name, after) = rest.split_once('=')?;
        let mut value = String::new();
        let after = after.trim_start();
        if let Some(quoted) = after.strip_prefix('"') {
            let mut characters = quoted.char_indices();
            let mut end = quoted.len();
            while let Some((at, character)) = characters.next() {
                match character {
                    '"' => {
                        end = at + 1;
                        break;
                    }
                    // Only what needs it is escaped: some senders leave the backslashes of their paths as they are.
                    '\\' => match quoted[at + 1..].chars().next() {
                        Some(escaped @ ('"' | '\\')) => {
                            value.push(escaped);
                            characters.next();
                        }
                        _ => value.push('\\'),
                    },
                    other => value.push(other),
                }
            }
            rest = &quoted[end..];
            rest = rest.find(';').map_or("", |at| &rest[at..]);
        } else {
            let end = after.find(';').unwrap_or(after.len());
            value.push_str(after[..end].trim());
            rest = &after[end..];
        }
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
    }
    None
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    const FORM: &[u8] = b"preamble\r\n--xyz\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nsmall\r\n--xyz  \r\n\
        content-disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\".wav\"\r\nContent-Type: audio/wav\r\n\r\n\
        data\r\n--xy\r\n-\r\r\n--xyw\r\n\r\n--xyz\r\nContent-Disposition: form-data; name=empty\r\n\r\n\r\n--xyz--\r\nafter";

    fn form(blocks: Vec<Vec<u8>>) -> Multipart {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "multipart/form-data; boundary=\"xyz\"".parse().unwrap());
        let body = Body::from_stream(stream::iter(blocks.into_iter().map(Ok::<_, std::io::Error>)));
        Multipart::new(&headers, body, Duration::from_secs(1)).unwrap()
    }

    async fn read(mut form: Multipart) -> Result<Vec<(Part, Vec<u8>)>, String> {
        let mut parts = Vec::new();
        while let Some(part) = form.next_part().await.map_err(|failure| failure.error.to_string())? {
            let mut data = Vec::new();
            while let Some(block) = form.chunk().await.map_err(|failure| failure.error.to_string())? {
                data.extend_from_slice(&block);
            }
            parts.push((part, data));
        }
        Ok(parts)
    }

    #[tokio::test]
    async fn a_form_reads_the_same_however_it_is_cut() {
        let whole = read(form(vec![FORM.to_vec()])).await.unwrap();
        let names: Vec<&str> = whole.iter().map(|(part, _)| part.name.as_str()).collect();
        assert_eq!(names, ["model", "file", "empty"]);
        assert_eq!(whole[0].1, b"small");
        assert_eq!(whole[1].0.file_name.as_deref(), Some("a \"b\".wav"));
        assert_eq!(whole[1].1, b"data\r\n--xy\r\n-\r\r\n--xyw\r\n");
        assert_eq!(whole[2].1, b"");
        for size in 1..40 {
            let blocks = FORM.chunks(size).map(<[u8]>::to_vec).collect();
            assert_eq!(read(form(blocks)).await.unwrap(), whole, "blocks of {size}");
        }
    }

    #[tokio::test]
    async fn a_line_of_a_head_that_begins_like_an_end_is_none() {
        let head = b"--xyz\r\nContent-Disposition: form-data; name=a\r\n--xy\r\n--: b\r\n\r\ndata\r\n--xyz--";
        let whole = read(form(vec![head.to_vec()])).await.unwrap();
        assert_eq!(whole[0].1, b"data");
        for size in 1..20 {
            let blocks = head.chunks(size).map(<[u8]>::to_vec).collect();
            assert_eq!(read(form(blocks)).await.unwrap(), whole, "blocks of {size}");
        }
    }

    #[tokio::test]
    async fn a_form_that_ends_early_is_refused_wherever_it_ends() {
        let last = FORM.windows(7).position(|window| window == b"--xyz--").unwrap();
        for end in 0..last + 7 {
            assert!(read(form(vec![FORM[..end].to_vec()])).await.is_err(), "cut at {end}");
        }
    }

    #[tokio::test]
    async fn heads_without_end_are_refused_before_they_fill_memory() {
        let long = vec![vec![b'a'; 1 << 20]; 64];
        assert!(read(form(long.clone())).await.is_err());
        let mut head = vec![b"--xyz\r\nContent-Disposition: ".to_vec()];
        head.extend(long);
        assert!(read(form(head)).await.is_err());
    }

    #[test]
    fn parameters_are_read_in_every_form_that_senders_write() {
        let of = |text: &str| disposition(text).map(|part| (part.name, part.file_name)).ok();
        let named = |name: &str, file: &str| Some((name.to_owned(), Some(file.to_owned())));
        assert_eq!(of("form-data; name=file; filename=a.wav"), named("file", "a.wav"));
        assert_eq!(of("form-data; name=\"f;=\"; filename=\"a%22b.wav\""), named("f;=", "a\"b.wav"));
        assert_eq!(of("form-data; name=\"f\"; filename=\"C:\\temp\\a.wav\""), named("f", "C:\\temp\\a.wav"));
        assert_eq!(of("form-data; name=f; filename=\"?\"; filename*=UTF-8''%E2%82%AC.wav"), named("f", "€.wav"));
        assert_eq!(of("form-data; filename=a"), None);
        assert_eq!(of("attachment; name=a"), None);
    }
}
