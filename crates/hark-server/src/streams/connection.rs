//! A WebSocket connection before its session starts.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hark_api::ApiError;
use tokio::time::timeout;

use crate::error::Failure;

/// The time for a client to receive its last messages…
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// …and to close its end, while what it still sends is discarded.
const LINGER: Duration = Duration::from_secs(2);
/// A reason may have 123 bytes (RFC 6455).
const MOST_REASON: usize = 123;

/// A connection without a session.
pub(crate) struct Connection {
    pub(crate) sink: SplitSink<WebSocket, Message>,
    pub(crate) stream: SplitStream<WebSocket>,
    /// Messages received before the session started.
    pub(crate) first: Option<Message>,
}

impl Connection {
    pub(crate) fn new(socket: WebSocket) -> Self {
        let (sink, stream) = socket.split();
        Connection { sink, stream, first: None }
    }

    /// The config message; `None` when the client sends audio at once. The error is `None` when the client disconnected.
    pub(crate) async fn greeting(&mut self, within: Duration) -> Result<Option<Utf8Bytes>, Option<Failure>> {
        let first = timeout(within, async {
            loop {
                match self.stream.next().await {
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    other => return other,
                }
            }
        });
        match first.await {
            Err(_) => Err(Some(Failure::new(
                hark_api::ErrorKind::RequestTimeout,
                "no config message came: send language and model as JSON",
            ))),
            Ok(Some(Ok(Message::Text(text)))) => Ok(Some(text)),
            Ok(Some(Ok(Message::Binary(sound)))) => {
                self.first = Some(Message::Binary(sound));
                Ok(None)
            }
            Ok(Some(Err(error))) if is_too_large(&error) => Err(Some(too_large())),
            Ok(_) => Err(None),
        }
    }

    /// Sends a message before the session starts; false on failure.
    pub(crate) async fn send(&mut self, text: String) -> bool {
        matches!(timeout(CLOSE_TIMEOUT, self.sink.send(Message::Text(text.into()))).await, Ok(Ok(())))
    }

    /// Lets the session read this message first.
    pub(crate) fn put_back(&mut self, text: Utf8Bytes) {
        self.first = Some(Message::Text(text));
    }

    /// Sends the error and closes the connection.
    pub(crate) async fn close(mut self, text: String, failure: &Failure) {
        let close = CloseFrame { code: close_code(&failure.error), reason: reason(&failure.error.message) };
        let sent = timeout(CLOSE_TIMEOUT, async {
            self.sink.send(Message::Text(text.into())).await?;
            self.sink.send(Message::Close(Some(close))).await
        });
        if let Ok(Ok(())) = sent.await {
            linger(&mut self.stream).await;
        }
    }
}

/// Discards what still arrives: closing a socket with unread bytes resets the connection, and the client loses the last messages.
pub(crate) async fn linger(stream: &mut SplitStream<WebSocket>) {
    let _ = timeout(LINGER, async { while let Some(Ok(_)) = stream.next().await {} }).await;
}

/// Whether a message exceeded the size limit.
pub(crate) fn is_too_large(error: &axum::Error) -> bool {
    // By the text of the library's error: the framework does not expose its type.
    error.to_string().contains("too long")
}

/// The error for such a message.
pub(crate) fn too_large() -> Failure {
    Failure::invalid("the message is too large: send at most 1 MB of sound at once")
}

/// Truncates a reason to the size of a close frame.
pub(crate) fn reason(text: &str) -> Utf8Bytes {
    let mut end = text.len().min(MOST_REASON);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].into()
}

/// The code that a connection is closed with for an error (decisions: streaming).
pub(crate) fn close_code(error: &ApiError) -> u16 {
    match error.status() {
        401 | 402 | 403 | 408 | 409 | 429 => 1008,
        400..500 => 1003,
        503 => 1013,
        _ => 1011,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_api::ErrorKind;

    #[test]
    fn a_close_says_whose_fault_it_is() {
        let code = |kind: ErrorKind| close_code(&kind.into());
        assert_eq!(code(ErrorKind::InvalidInput), 1003);
        assert_eq!(code(ErrorKind::Unauthorized), 1008);
        assert_eq!(code(ErrorKind::InsufficientCredits), 1008);
        assert_eq!(code(ErrorKind::TooManyAtOnce), 1008);
        assert_eq!(code(ErrorKind::Internal), 1011);
        assert_eq!(code(ErrorKind::ShuttingDown), 1013);
    }
}
