//! Forms: the first line chooses the boundary and how the rest is cut into blocks. However it is cut, it reads the same.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use futures_util::stream;

use crate::multipart::{Multipart, Part};

/// A form that reads one way or another; more parts than these are refused.
const MOST_PARTS: usize = 1000;

/// Reads a form whole and in blocks, and compares.
pub fn multipart(data: &[u8]) {
    let (&size, data) = data.split_first().unwrap_or((&0, &[]));
    let line = data.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let (boundary, body) = (&data[..line], &data[line..]);
    let mut kind = b"multipart/form-data; boundary=".to_vec();
    kind.extend(boundary);
    let Ok(kind) = axum::http::HeaderValue::from_bytes(&kind) else { return };
    let mut headers = HeaderMap::new();
    headers.insert("content-type", kind);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let whole = read(&headers, vec![body.to_vec()]).await;
        let cut = read(&headers, body.chunks(usize::from(size % 64) + 1).map(<[u8]>::to_vec).collect()).await;
        match (whole, cut) {
            (Ok(whole), Ok(cut)) => assert_eq!(whole, cut),
            (Err(whole), Err(cut)) => assert_eq!(whole.0, cut.0, "{} and {}", whole.1, cut.1),
            (whole, cut) => panic!("whole: {whole:?}, cut: {cut:?}"),
        }
    });
}

type Parts = Vec<(Part, Vec<u8>)>;

async fn read(headers: &HeaderMap, blocks: Vec<Vec<u8>>) -> Result<Parts, (u16, String)> {
    let refused = |failure: crate::error::Failure| (failure.error.status(), failure.error.to_string());
    let all: usize = blocks.iter().map(Vec::len).sum();
    let body = Body::from_stream(stream::iter(blocks.into_iter().map(Ok::<_, std::io::Error>)));
    let mut form = Multipart::new(headers, body, Duration::from_secs(5)).map_err(refused)?;
    let (mut parts, mut length) = (Vec::new(), 0);
    while let Some(part) = form.next_part().await.map_err(refused)? {
        let mut data = Vec::new();
        while let Some(block) = form.chunk().await.map_err(refused)? {
            assert!(!block.is_empty(), "a block holds something");
            data.extend_from_slice(&block);
        }
        length += data.len();
        parts.push((part, data));
        assert!(parts.len() <= MOST_PARTS && length <= all, "more came out than went in");
    }
    Ok(parts)
}
