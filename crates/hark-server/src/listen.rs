//! Accepts and serves connections: limits of heads and idle time, and graceful shutdown.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use tower::ServiceExt as _;

use crate::config::Config;
use crate::limits::{Connections, Refused};
use crate::metrics::Metrics;

/// The maximum size of a request's head, and the size of the read buffer.
const MAX_HEAD: usize = 64 << 10;
/// The timeout of the response to a rejected connection.
const REFUSAL: Duration = Duration::from_secs(1);
/// The pause after a failed accept (too many open files, for example).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections until `stop` turns true, then waits at most `drain` for requests in progress.
pub(crate) async fn serve<S>(
    listener: TcpListener,
    service: S,
    config: &Config,
    metrics: Arc<Metrics>,
    mut stop: watch::Receiver<bool>,
) where
    S: tower::Service<Request, Response = Response<Body>, Error = std::convert::Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(config.header_timeout.duration())
        .max_buf_size(MAX_HEAD)
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEAD as u32)
        .max_concurrent_streams(128)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .keep_alive_interval(config.idle_timeout.duration())
        .keep_alive_timeout(config.idle_timeout.duration());
    let connections = Connections::default();
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "connection.accept_failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let is_proxy = config.trusted_proxies.iter().any(|net| net.contains(&peer.ip().to_canonical()));
        let per_address = (!is_proxy).then_some(config.limits.connections_per_address);
        let place = match connections.open(peer.ip(), config.limits.connections, per_address) {
            Ok(place) => place,
            Err(refused) => {
                metrics.connections_refused.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(refuse(stream, refused));
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let io = TokioIo::new(WriteTimeoutStream::new(stream, config.idle_timeout.duration()));
        let service = service.clone().map_request(move |request: hyper::Request<hyper::body::Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer));
            request
        });
        let connection = builder.serve_connection_with_upgrades(io, TowerToHyperService::new(service)).into_owned();
        let connection = graceful.watch(connection);
        let open = Open::new(Arc::clone(&metrics));
        tokio::spawn(async move {
            let _open = (open, place);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection.error");
            }
        });
    }
    drop(listener);
    let drain = config.drain_timeout.duration();
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!(timeout = drain.as_secs(), "drain.requests_left");
    }
}

/// Answers a rejected connection with an error if possible, and closes it.
async fn refuse(mut stream: TcpStream, refused: Refused) {
    let (status, message) = match refused {
        Refused::OfAddress => ("429 Too Many Requests", "too many connections from this address: close some first"),
        Refused::InAll => ("503 Service Unavailable", "too many connections to this server: try again later"),
    };
    let body = format!("{{\"error\":\"{message}\"}}");
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nretry-after: 5\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let answer = async {
        stream.write_all((head + &body).as_bytes()).await?;
        stream.shutdown().await?;
        // A client that still sends when its connection is closed may never read why.
        let mut dropped = [0; 4096];
        while stream.read(&mut dropped).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = tokio::time::timeout(REFUSAL, answer).await;
}

/// Binds an address.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, crate::error::ServerError> {
    TcpListener::bind(address).await.map_err(|source| crate::error::ServerError::Listen { address, source })
}

/// Counts a connection while it is open.
struct Open(Arc<Metrics>);

impl Open {
    fn new(metrics: Arc<Metrics>) -> Self {
        metrics.connections.fetch_add(1, Ordering::Relaxed);
        Open(metrics)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection with a write timeout: a write without progress for `timeout` fails.
///
/// It also adds the Error body to responses of the HTTP library itself, when a head can't be
/// parsed: those are empty.
struct WriteTimeoutStream {
    stream: TcpStream,
    timeout: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    /// A response that replaces the library's, and how much of it is written.
    replacement: Option<(Vec<u8>, usize)>,
}

impl WriteTimeoutStream {
    fn new(stream: TcpStream, timeout: Duration) -> Self {
        WriteTimeoutStream { stream, timeout, stalled: None, replacement: None }
    }

    /// Writes the response that replaces `data`, and reports `data` as written to the library.
    fn write_replacement(&mut self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        while let Some((answer, written)) = &mut self.replacement {
            if *written == answer.len() {
                self.replacement = None;
                break;
            }
            let progress = Pin::new(&mut self.stream).poll_write(context, &answer[*written..]);
            if let Poll::Ready(Ok(count)) = &progress {
                *written += *count;
            }
            ready!(self.check_progress(context, progress))?;
        }
        Poll::Ready(Ok(data.len()))
    }

    fn check_progress<T>(&mut self, context: &mut Context<'_>, progress: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.stalled = None;
            return progress;
        }
        let until = Instant::now() + self.timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client stopped reading")))
    }
}

impl AsyncRead for WriteTimeoutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for WriteTimeoutStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.replacement.is_none() {
            self.replacement = refusal_of_the_library(data).map(|answer| (answer, 0));
        }
        if self.replacement.is_some() {
            return self.write_replacement(context, data);
        }
        let progress = Pin::new(&mut self.stream).poll_write(context, data);
        self.check_progress(context, progress)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The response with the Error body for an empty error of the HTTP library; those of handlers are never empty.
fn refusal_of_the_library(data: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(data).ok()?;
    let status = text.strip_prefix("HTTP/1.1 ")?.get(..3)?;
    if !status.starts_with('4') || !text.ends_with("\r\n\r\n") || !text.contains("\r\ncontent-length: 0\r\n") {
        return None;
    }
    let message = match status {
        "431" => "the head of the request is too large: it may have 64 KB",
        "414" => "the address of the request is too long",
        _ => "this is not a request that can be read: check its first line and its headers",
    };
    let body = serde_json::to_string(&hark_api::ErrorBody { error: message.to_owned(), upgrade: false }).ok()?;
    let length = format!("\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
    Some((text.replacen("\r\ncontent-length: 0\r\n", &length, 1) + &body).into_bytes())
}
