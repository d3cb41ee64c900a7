//! Drains the body of a rejected request (lingering close).
//!
//! A client that still sends when its connection is closed may never read why: Node's reports a broken connection instead of
//! the response. So the unread rest of a body is read and discarded for a while.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Frame, SizeHint};

/// Maximum bytes that are discarded of a body, and the maximum time.
const MAX_DRAINED_BYTES: u64 = 64 << 20;
const MAX_DRAIN_TIME: Duration = Duration::from_secs(5);

/// Wraps a body: when it is dropped, its unread rest is read and discarded.
pub(crate) fn lingering(body: Body) -> Body {
    if body.is_end_stream() { body } else { Body::new(Lingering(Some(body))) }
}

struct Lingering(Option<Body>);

impl hyper::body::Body for Lingering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.0 else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.0 = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let Some(mut body) = self.0.take().filter(|body| !body.is_end_stream()) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let drain = async {
                let mut dropped = 0;
                while let Some(Ok(frame)) = body.frame().await {
                    dropped += frame.data_ref().map_or(0, |data| data.len() as u64);
                    if dropped > MAX_DRAINED_BYTES {
                        break;
                    }
                }
            };
            let _ = tokio::time::timeout(MAX_DRAIN_TIME, drain).await;
        });
    }
}
