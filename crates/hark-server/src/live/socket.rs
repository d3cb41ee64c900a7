//! One WebSocket connection of a session: incoming messages, and a task that sends the outbox.

use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::message;
use super::outbox::{Next, Outbox};
use crate::error::Failure;
use crate::streams::Connection;
use crate::streams::connection::{CLOSE_TIMEOUT, is_too_large, linger, reason, too_large};

/// The largest binary message: half a minute of audio.
pub(crate) const MAX_BINARY_BYTES: usize = 1 << 20;
/// The WebSocket library's message limit. More than is allowed: a message that the library refuses stays unread, and then
/// the close reason may not reach the client.
pub(crate) const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Sends an error over a connection without a session, and closes it.
pub(crate) async fn refuse(connection: Connection, failure: &Failure) {
    connection.close(message::error(&failure.error), failure).await;
}

/// The connection of a session.
pub(crate) struct Socket {
    stream: SplitStream<WebSocket>,
    first: Option<Message>,
    writer: JoinHandle<()>,
    /// When a message last arrived.
    pub(crate) last_received: Instant,
}

/// A message of the client, or the end of the connection.
pub(crate) enum Incoming {
    Audio(Bytes),
    Text(Utf8Bytes),
    /// A ping or pong.
    Pong,
    /// An invalid message.
    Invalid(Failure),
    /// The client closed it on purpose.
    Closed,
    /// The connection broke.
    Broken,
}

impl Socket {
    pub(crate) fn new(connection: Connection, outbox: &Arc<Outbox>) -> Self {
        let Connection { sink, stream, first } = connection;
        let writer = tokio::spawn(write(sink, Arc::clone(outbox)));
        Socket { stream, first, writer, last_received: Instant::now() }
    }

    /// The next message; cancel safe.
    pub(crate) async fn next(&mut self) -> Incoming {
        let incoming = match self.first.take() {
            Some(message) => Some(Ok(message)),
            None => self.stream.next().await,
        };
        self.last_received = Instant::now();
        match incoming {
            Some(Ok(Message::Binary(audio))) if audio.len() > MAX_BINARY_BYTES => Incoming::Invalid(too_large()),
            Some(Ok(Message::Binary(audio))) => Incoming::Audio(audio),
            Some(Ok(Message::Text(text))) => Incoming::Text(text),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Incoming::Pong,
            Some(Ok(Message::Close(frame))) => match frame.map(|frame| frame.code) {
                // A normal close ends the session; after any other code, such as "going away", the client may resume.
                None | Some(1000 | 1005) => Incoming::Closed,
                Some(_) => Incoming::Broken,
            },
            Some(Err(error)) if is_too_large(&error) => Incoming::Invalid(too_large()),
            Some(Err(_)) | None => Incoming::Broken,
        }
    }

    /// Whether the sending task has ended.
    pub(crate) fn is_writer_done(&self) -> bool {
        self.writer.is_finished()
    }

    /// Waits for the last messages to be sent and for the client to close.
    pub(crate) async fn end(mut self) {
        if !self.writer.is_finished() && timeout(CLOSE_TIMEOUT, &mut self.writer).await.is_err() {
            return;
        }
        linger(&mut self.stream).await;
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

/// Sends the outbox until the close frame or a failed send.
async fn write(mut sink: SplitSink<WebSocket, Message>, outbox: Arc<Outbox>) {
    loop {
        let sent = match outbox.next().await {
            Next::Ping => sink.send(Message::Ping(Bytes::new())).await,
            Next::Message(number, text) => {
                let sent = sink.send(Message::Text(text.into())).await;
                if sent.is_ok() {
                    outbox.sent(number);
                }
                sent
            }
            Next::Close(close) => {
                let frame = CloseFrame { code: close.code, reason: reason(&close.reason) };
                let _ = sink.send(Message::Close(Some(frame))).await;
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}
