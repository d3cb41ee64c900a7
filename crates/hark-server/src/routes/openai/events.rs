//! `stream=true`: the transcript as server-sent events.
//!
//! The response head is sent as soon as the recording is queued, so that no proxy times out; the text follows when it is
//! done. For live text see `/v1/stream`.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use hark_api::{OpenAiEvent, TranscriptionResult};
use hyper::body::Frame;
use tokio::time::Interval;

use super::layout::usage;
use crate::error::openai::body;
use crate::routes::transcribe::Wait;

/// Interval of keep-alive comments; proxies commonly time out after a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Responds with events; when the client disconnects, the body and with it the wait are dropped.
pub(crate) fn respond(wait: Wait) -> Response {
    let work = Box::pin(async move {
        match wait.end().await {
            Ok((result, _)) => events(&result).map(|event| line(&event)).collect(),
            Err(failure) => line(&body(&failure.error)),
        }
    });
    let mut response =
        Response::new(Body::new(EventBody { work: Some(work), keep_alive: tokio::time::interval(KEEP_ALIVE) }));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// A delta for each segment, then the whole text.
fn events(result: &TranscriptionResult) -> impl Iterator<Item = OpenAiEvent> {
    let pieces = pieces(result).map(|delta| OpenAiEvent::Delta { delta: delta.to_owned() });
    pieces.chain([OpenAiEvent::Done { text: result.text.clone(), usage: usage(result) }])
}

/// The text split where segments end: the concatenated pieces are the text.
fn pieces(result: &TranscriptionResult) -> impl Iterator<Item = &str> {
    let text = result.text.as_str();
    let mut from = 0;
    let mut ends: Vec<usize> = Vec::new();
    for segment in &result.segments {
        // An edited text may no longer contain its segments: then the rest is one piece.
        let Some(at) = text[from..].find(&segment.text) else { break };
        from += at + segment.text.len();
        ends.push(from);
    }
    if ends.last() != Some(&text.len()) {
        ends.push(text.len());
    }
    let starts = std::iter::once(0).chain(ends.clone());
    starts.zip(ends).map(|(start, end)| &text[start..end]).filter(|piece| !piece.is_empty())
}

fn line(event: &impl serde::Serialize) -> String {
    let json = serde_json::to_string(event).unwrap_or_else(|error| {
        tracing::error!(%error, "event.encode_failed");
        "{}".to_owned()
    });
    format!("data: {json}\n\n")
}

/// Keep-alive comments while the job runs, then all events.
struct EventBody {
    work: Option<Pin<Box<dyn Future<Output = String> + Send>>>,
    keep_alive: Interval,
}

impl hyper::body::Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        if let Poll::Ready(text) = work.as_mut().poll(context) {
            self.work = None;
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from(text)))));
        }
        self.keep_alive.poll_tick(context).map(|_| Some(Ok(Frame::data(Bytes::from_static(b": working\n\n")))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_api::Segment;

    fn result(text: &str, segments: &[&str]) -> TranscriptionResult {
        let segments = segments.iter().map(|text| Segment { text: (*text).to_owned(), ..Segment::default() });
        TranscriptionResult { text: text.to_owned(), segments: segments.collect(), ..TranscriptionResult::default() }
    }

    #[test]
    fn pieces_put_together_are_the_text() {
        let all =
            |text: &str, segments: &[&str]| pieces(&result(text, segments)).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(all("One. Two. One.", &["One.", "Two.", "One."]), ["One.", " Two.", " One."]);
        assert_eq!(all("One. Zwei.", &["One.", "Two."]), ["One.", " Zwei."]);
        assert_eq!(all("", &[]), Vec::<String>::new());
        assert_eq!(all("Über", &[]), ["Über"]);
    }

    #[test]
    fn an_event_is_one_line_whatever_it_says() {
        let events: Vec<String> = events(&result("a\nb", &["a\nb"])).map(|event| line(&event)).collect();
        assert_eq!(events[0], "data: {\"type\":\"transcript.text.delta\",\"delta\":\"a\\nb\"}\n\n");
        assert!(events[1].starts_with("data: {\"type\":\"transcript.text.done\",\"text\":\"a\\nb\""), "{}", events[1]);
        assert_eq!(events.len(), 2);
    }
}
