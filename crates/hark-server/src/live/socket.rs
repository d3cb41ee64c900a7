//! One WebSocket connection: what comes in, and what goes out at the pace of its reader.

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

/// The largest binary message: half a minute of sound.
pub(crate) const MOST_BINARY: usize = 1 << 20;
/// What the library reads of one message. More than is allowed: a message that it refuses stays unread, and then the
/// reason may not reach the client.
pub(crate) const MOST_LIBRARY_BYTES: usize = 4 << 20;

/// Sends an error over a connection that no session has, and closes it.
pub(crate) async fn refuse(connection: Connection, failure: &Failure) {
    connection.close(message::error(&failure.error), failure).await;
}

/// A connection that a session has.
pub(crate) struct Line {
    stream: SplitStream<WebSocket>,
    first: Option<Message>,
    writer: JoinHandle<()>,
    /// When anything came last.
    pub(crate) heard: Instant,
}

/// What a client sends.
pub(crate) enum Incoming {
    Sound(Bytes),
    Text(Utf8Bytes),
    /// A sign of life.
    Pong,
    /// It makes no sense.
    Wrong(Failure),
    /// The client ended it.
    Closed,
    /// The connection is gone, for whatever reason.
    Broken,
}

impl Line {
    pub(crate) fn new(connection: Connection, outbox: &Arc<Outbox>) -> Self {
        let Connection { sink, stream, first } = connection;
        let writer = tokio::spawn(write(sink, Arc::clone(outbox)));
        Line { stream, first, writer, heard: Instant::now() }
    }

    /// The next thing that comes; safe to be dropped.
    pub(crate) async fn next(&mut self) -> Incoming {
        let incoming = match self.first.take() {
            Some(message) => Some(Ok(message)),
            None => self.stream.next().await,
        };
        self.heard = Instant::now();
        match incoming {
            Some(Ok(Message::Binary(sound))) if sound.len() > MOST_BINARY => Incoming::Wrong(too_large()),
            Some(Ok(Message::Binary(sound))) => Incoming::Sound(sound),
            Some(Ok(Message::Text(text))) => Incoming::Text(text),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Incoming::Pong,
            Some(Ok(Message::Close(frame))) => match frame.map(|frame| frame.code) {
                // A client that means to end it says so; a page that goes away may come back.
                None | Some(1000 | 1005) => Incoming::Closed,
                Some(_) => Incoming::Broken,
            },
            Some(Err(error)) if is_too_large(&error) => Incoming::Wrong(too_large()),
            Some(Err(_)) | None => Incoming::Broken,
        }
    }

    /// Whether nothing can be sent any more.
    pub(crate) fn is_writer_done(&self) -> bool {
        self.writer.is_finished()
    }

    /// Lets the client take its last messages and close its end.
    pub(crate) async fn end(mut self) {
        if !self.writer.is_finished() && timeout(CLOSE_TIMEOUT, &mut self.writer).await.is_err() {
            return;
        }
        linger(&mut self.stream).await;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

/// Sends what waits, until the end or until nothing can be sent.
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
