//! Server-sent events: a response whose events are sent while work for it runs.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Frame;
use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Interval, MissedTickBehavior};

/// Interval of keep-alive comments; proxies commonly time out after a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The media type of the events.
pub(crate) const MEDIA_TYPE: &str = "text/event-stream";

/// Whether the request asks for events: `Accept: text/event-stream`.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| {
        let kind = kind.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case(MEDIA_TYPE)
    })
}

/// Where work puts its events.
#[derive(Debug, Clone)]
pub(crate) struct Events(UnboundedSender<Bytes>);

impl Events {
    /// Sends an event without a name.
    pub(crate) fn send(&self, data: &impl Serialize) {
        self.write("", data);
    }

    /// Sends an event with a name.
    pub(crate) fn send_named(&self, name: &str, data: &impl Serialize) {
        self.write(&format!("event: {name}\n"), data);
    }

    /// Sends the end of a stream as OpenAI's clients expect it.
    pub(crate) fn send_done(&self) {
        let _ = self.0.send(Bytes::from_static(b"data: [DONE]\n\n"));
    }

    fn write(&self, head: &str, data: &impl Serialize) {
        let json = serde_json::to_string(data).unwrap_or_else(|error| {
            tracing::error!(%error, "event.encode_failed");
            "{}".to_owned()
        });
        // A client that left needs no events; the work is dropped with the body.
        let _ = self.0.send(Bytes::from(format!("{head}data: {json}\n\n")));
    }
}

/// Responds with the events of `work`, at once. When the client disconnects, the work is dropped.
pub(crate) fn respond<F>(work: impl FnOnce(Events) -> F) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, events) = unbounded_channel();
    let mut keep_alive = tokio::time::interval(KEEP_ALIVE);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let body = EventBody { work: Some(Box::pin(work(Events(sender)))), events, keep_alive };
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Events as they are sent, and keep-alive comments in between.
struct EventBody {
    work: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    events: UnboundedReceiver<Bytes>,
    keep_alive: Interval,
}

impl hyper::body::Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // First the work, which owns the sender: once it has ended, what it sent is all there is.
        if let Some(work) = &mut self.work
            && work.as_mut().poll(context).is_ready()
        {
            self.work = None;
        }
        match self.events.poll_recv(context) {
            Poll::Ready(Some(event)) => return Poll::Ready(Some(Ok(Frame::data(event)))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {}
        }
        self.keep_alive.poll_tick(context).map(|_| Some(Ok(Frame::data(Bytes::from_static(b": working\n\n")))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use serde_json::json;

    async fn text(response: Response) -> String {
        let body = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap().replace(": working\n\n", "")
    }

    #[tokio::test]
    async fn events_come_in_their_order_and_the_last_one_too() {
        let response = respond(|events| async move {
            events.send_named("progress", &json!({"done": 1}));
            tokio::task::yield_now().await;
            events.send(&json!({"text": "a\nb"}));
        });
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        let sent = "event: progress\ndata: {\"done\":1}\n\ndata: {\"text\":\"a\\nb\"}\n\n";
        assert_eq!(text(response).await, sent);
    }

    #[tokio::test]
    async fn work_is_dropped_with_the_body() {
        let (alive, mut dropped) = tokio::sync::oneshot::channel::<()>();
        let response = respond(|_events| async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        });
        assert!(dropped.try_recv().is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Empty));
        drop(response);
        assert!(dropped.await.is_err());
    }

    #[test]
    fn events_are_wanted_where_the_request_accepts_them() {
        let wants = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
            is_wanted(&headers)
        };
        assert!(wants("text/event-stream") && wants("application/json;q=0.5, Text/Event-Stream; charset=utf-8"));
        assert!(!wants("*/*") && !wants("application/json") && !is_wanted(&HeaderMap::new()));
    }
}
