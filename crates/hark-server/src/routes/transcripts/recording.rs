//! `GET /v1/transcripts/{id}/recording`: the recording as it was sent, whole or a byte range.

use std::ops::Range;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hark_api::ErrorKind;
use hark_store::{BlobReader, TranscriptId};

use crate::app::App;
use crate::error::Failure;
use crate::extract::Path;
use crate::middleware::Identity;
use crate::routes::transcripts::export::{attachment, file_name};
use crate::routes::{AnyError, Missing, Unauthorized};

/// The recording of a transcript
///
/// As it was sent, if it was kept. A `Range` of bytes is answered with 206, so that a player can seek and a download can be resumed.
#[utoipa::path(get, path = "/v1/transcripts/{id}/recording", tag = "transcripts", operation_id = "getRecording",
    params(("id" = i64, Path, description = "the transcript's number")),
    responses((status = 200, description = "the recording", content(
            (Vec<u8> = "audio/wav"), (Vec<u8> = "audio/aiff"), (Vec<u8> = "audio/x-caf"), (Vec<u8> = "audio/flac"),
            (Vec<u8> = "audio/mpeg"), (Vec<u8> = "audio/aac"), (Vec<u8> = "audio/ogg"), (Vec<u8> = "video/mp4"),
            (Vec<u8> = "video/webm"), (Vec<u8> = "video/x-ms-asf"), (Vec<u8> = "video/x-msvideo"), (Vec<u8> = "video/mpeg"),
            (Vec<u8> = "video/mp2t"), (Vec<u8> = "video/x-flv"), (Vec<u8> = "application/octet-stream"))),
        (status = 206, description = "the range of it that was asked for", content(
            (Vec<u8> = "audio/wav"), (Vec<u8> = "audio/aiff"), (Vec<u8> = "audio/x-caf"), (Vec<u8> = "audio/flac"),
            (Vec<u8> = "audio/mpeg"), (Vec<u8> = "audio/aac"), (Vec<u8> = "audio/ogg"), (Vec<u8> = "video/mp4"),
            (Vec<u8> = "video/webm"), (Vec<u8> = "video/x-ms-asf"), (Vec<u8> = "video/x-msvideo"), (Vec<u8> = "video/mpeg"),
            (Vec<u8> = "video/mp2t"), (Vec<u8> = "video/x-flv"), (Vec<u8> = "application/octet-stream"))),
        Unauthorized, Missing, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn show(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let (account, id) = (identity.account(), TranscriptId(id));
    let transcript = app.store.transcripts().get(account, id).await?;
    let recordings = app.store.recordings();
    let blob = recordings.get(account, id).await?;
    let start = recordings.read(&blob, Some(0..hark_media::SNIFFED_BYTES as u64)).await?;
    let size = start.size();
    let (media_type, extension) = hark_media::media_type(&start.read_all().await?);
    // A recording never changes, and its key is of no use to anybody else.
    let etag = format!("\"{}\"", blob.key.as_str());
    let requested = match requested_range(&headers, &etag, size) {
        Ok(requested) => requested,
        Err(Unsatisfiable) => return Ok(unsatisfiable(size)),
    };
    let reader = recordings.read(&blob, requested.clone()).await?;
    let length = reader.remaining();
    let mut response = stream(reader).into_response();
    let headers = response.headers_mut();
    let name = file_name(&transcript.title, extension);
    for (name, value) in [
        (header::CONTENT_LENGTH, length.to_string()),
        (header::ETAG, etag),
        (header::CONTENT_DISPOSITION, attachment(&name)),
    ] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
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

/// The body. A failed read aborts the connection: a part must not look like the whole.
fn stream(reader: BlobReader) -> Body {
    Body::from_stream(futures_util::stream::try_unfold(reader, async |mut reader| match reader.next().await {
        Ok(piece) => Ok(piece.map(|piece| (piece, reader))),
        Err(error) => {
            tracing::error!(%error, "recording.read_failed");
            Err(error)
        }
    }))
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
