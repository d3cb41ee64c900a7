//! A stored recording as an answer, whole or a byte range.

use std::ops::Range;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use hark_api::ErrorKind;
use hark_store::{Blob, BlobReader};

use crate::app::App;
use crate::error::Failure;
use crate::routes::transcripts::export::attachment;

/// A stored recording to send.
pub(crate) struct Download<'a> {
    pub(crate) blob: &'a Blob,
    /// Sent in the place of the first bytes; empty for a recording that is sent as it is stored.
    pub(crate) header: Bytes,
    pub(crate) media_type: &'static str,
    /// The file name that is proposed.
    pub(crate) name: &'a str,
}

impl Download<'_> {
    /// The answer: 206 with the one byte range that the request asks for, else all of it.
    pub(crate) async fn respond(&self, app: &App, request: &HeaderMap) -> Result<Response, Failure> {
        // A recording never changes, and its key is of no use to anybody else.
        let etag = format!("\"{}\"", self.blob.key.as_str());
        let size = app.store.recordings().read(self.blob, Some(0..0)).await?.size();
        let requested = match requested_range(request, &etag, size) {
            Ok(requested) => requested,
            Err(Unsatisfiable) => return Ok(unsatisfiable(size)),
        };
        let body = RecordingBody::open(app, self.blob, self.header.clone(), requested.clone()).await?;
        let length = body.remaining();
        let mut response = body.into_body().into_response();
        let headers = response.headers_mut();
        for (name, value) in [
            (header::CONTENT_LENGTH, length.to_string()),
            (header::ETAG, etag),
            (header::CONTENT_DISPOSITION, attachment(self.name)),
        ] {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        if let Some(range) = requested {
            let range = format!("bytes {}-{}/{size}", range.start, range.end - 1);
            if let Ok(range) = HeaderValue::from_str(&range) {
                headers.insert(header::CONTENT_RANGE, range);
            }
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        Ok(response)
    }
}

/// A recording, or a range of it, on its way to a client.
pub(crate) struct RecordingBody {
    reader: BlobReader,
    header: Bytes,
    /// The place of the next byte in the recording.
    at: u64,
    /// Called once the last byte is handed over.
    when_sent: Option<Box<dyn FnOnce() + Send>>,
}

impl RecordingBody {
    pub(crate) async fn open(
        app: &App,
        blob: &Blob,
        header: Bytes,
        range: Option<Range<u64>>,
    ) -> Result<Self, Failure> {
        let at = range.as_ref().map_or(0, |range| range.start);
        let reader = app.store.recordings().read(blob, range).await?;
        Ok(RecordingBody { reader, header, at, when_sent: None })
    }

    /// Runs `action` once the last byte is handed to the connection; never if the client leaves before.
    pub(crate) fn when_sent(self, action: impl FnOnce() + Send + 'static) -> Self {
        RecordingBody { when_sent: Some(Box::new(action)), ..self }
    }

    /// Bytes that are still to be sent.
    pub(crate) fn remaining(&self) -> u64 {
        self.reader.remaining()
    }

    async fn next(&mut self) -> hark_store::Result<Option<Bytes>> {
        let Some(piece) = self.reader.next().await? else { return Ok(None) };
        let piece = with_header(piece, self.at, &self.header);
        self.at += piece.len() as u64;
        if self.remaining() == 0
            && let Some(action) = self.when_sent.take()
        {
            action();
        }
        Ok(Some(piece))
    }

    /// The body. A failed read aborts the connection: a part must not look like the whole.
    pub(crate) fn into_body(self) -> Body {
        Body::from_stream(futures_util::stream::try_unfold(self, async |mut body| match body.next().await {
            Ok(piece) => Ok(piece.map(|piece| (piece, body))),
            Err(error) => {
                tracing::error!(%error, "recording.read_failed");
                Err(error)
            }
        }))
    }
}

/// A piece of a recording, which begins at `at`, with `header` in the place of the first bytes.
fn with_header(piece: Bytes, at: u64, header: &[u8]) -> Bytes {
    let Some(rest) = usize::try_from(at).ok().and_then(|at| header.get(at..)).filter(|rest| !rest.is_empty()) else {
        return piece;
    };
    let count = rest.len().min(piece.len());
    let mut replaced = BytesMut::with_capacity(piece.len());
    replaced.extend_from_slice(&rest[..count]);
    replaced.extend_from_slice(&piece[count..]);
    replaced.freeze()
}

/// No byte of the range exists.
#[derive(Debug, PartialEq, Eq)]
struct Unsatisfiable;

/// 416 with the size that the next request needs.
fn unsatisfiable(size: u64) -> Response {
    let mut response = Failure::from(ErrorKind::RangeNotSatisfiable).into_response();
    if let Ok(value) = HeaderValue::from_str(&format!("bytes */{size}")) {
        response.headers_mut().insert(header::CONTENT_RANGE, value);
    }
    response
}

/// The one byte range that a request asks for. Several ranges, other units and what is malformed are ignored, as RFC 9110 allows: the answer is the
/// whole recording.
fn requested_range(headers: &HeaderMap, etag: &str, size: u64) -> Result<Option<Range<u64>>, Unsatisfiable> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let Some(range) = text(header::RANGE).and_then(|range| range.trim().strip_prefix("bytes=")) else {
        return Ok(None);
    };
    // A resumed download of another version begins anew.
    if headers.contains_key(header::IF_RANGE) && text(header::IF_RANGE) != Some(etag) {
        return Ok(None);
    }
    let Some((first, last)) = range.split_once('-') else { return Ok(None) };
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(Some(digits.parse().unwrap_or(u64::MAX))),
        _ => None,
    };
    let (Some(first), Some(last)) = (number(first), number(last)) else { return Ok(None) };
    let range = match (first, last) {
        (None, None) => return Ok(None),
        (Some(first), Some(last)) if last < first => return Ok(None),
        (Some(first), last) => first..last.unwrap_or(u64::MAX).saturating_add(1).min(size),
        (None, Some(last)) => size.saturating_sub(last)..size,
    };
    if range.is_empty() { Err(Unsatisfiable) } else { Ok(Some(range)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(range: &str, if_range: Option<&str>) -> Result<Option<Range<u64>>, Unsatisfiable> {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, range.parse().unwrap());
        if let Some(etag) = if_range {
            headers.insert(header::IF_RANGE, etag.parse().unwrap());
        }
        requested_range(&headers, "\"a\"", 100)
    }

    #[test]
    fn a_header_takes_the_place_of_the_first_bytes_however_they_are_cut() {
        let stored: Vec<u8> = (0..20).collect();
        let header = [100, 101, 102, 103, 104];
        let whole = [&header[..], &stored[5..]].concat();
        for start in 0..20 {
            for end in start + 1..=20 {
                let piece = with_header(Bytes::copy_from_slice(&stored[start..end]), start as u64, &header);
                assert_eq!(piece, whole[start..end], "{start}..{end}");
            }
        }
        assert_eq!(with_header(Bytes::from_static(b"ab"), 0, &[]), "ab");
    }

    #[test]
    fn one_range_of_bytes_is_cut_to_what_is_there() {
        for (range, expected) in [
            ("bytes=0-9", 0..10),
            ("bytes=90-", 90..100),
            ("bytes=-10", 90..100),
            ("bytes=-1000", 0..100),
            ("bytes=99-99999999999999999999999", 99..100),
            ("bytes= 5 - 6 ", 5..7),
        ] {
            assert_eq!(requested(range, None), Ok(Some(expected)), "{range}");
        }
        for beyond in ["bytes=100-", "bytes=100-200", "bytes=-0"] {
            assert_eq!(requested(beyond, None), Err(Unsatisfiable), "{beyond}");
        }
    }

    #[test]
    fn what_is_no_single_range_of_bytes_asks_for_everything() {
        for other in ["bytes=0-1,5-6", "items=0-1", "bytes=", "bytes=-", "bytes=a-b", "bytes=9-5", "bytes=+1-2"] {
            assert_eq!(requested(other, None), Ok(None), "{other}");
        }
        assert_eq!(requested("bytes=5-", Some("\"b\"")), Ok(None), "of another version");
        assert_eq!(requested("bytes=5-", Some("\"a\"")), Ok(Some(5..100)));
    }
}
