//! `stream=true`: the transcript as server-sent events.
//!
//! The response head is sent as soon as the recording is queued, so that no proxy times out; the text follows when it is
//! done. For live text see `/v1/stream`.

use axum::response::Response;
use hark_api::{OpenAiEvent, TranscriptionResult};

use super::layout::usage;
use crate::error::openai::body;
use crate::routes::transcribe::Wait;
use crate::sse;

/// Responds with events; when the client disconnects, the wait is dropped.
pub(crate) fn respond(wait: Wait) -> Response {
    sse::respond(|sender| async move {
        match wait.end().await {
            Ok((result, _)) => events(&result).for_each(|event| sender.send(&event)),
            Err(failure) => sender.send(&body(&failure.error)),
        }
    })
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
    fn events_are_the_pieces_and_then_the_whole_text() {
        let events: Vec<String> =
            events(&result("a\nb", &["a\nb"])).map(|event| serde_json::to_string(&event).unwrap()).collect();
        assert_eq!(events[0], "{\"type\":\"transcript.text.delta\",\"delta\":\"a\\nb\"}");
        assert!(events[1].starts_with("{\"type\":\"transcript.text.done\",\"text\":\"a\\nb\""), "{}", events[1]);
        assert_eq!(events.len(), 2);
    }
}
