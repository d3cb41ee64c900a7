//! `stream: true`: the answer as server-sent events.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::Response;
use hark_api::{ChatChunkChoice, ChatCompletionChunk, ChatDelta, ChatFinishReason, ChatUsage, ErrorKind};
use hark_store::Owner;
use tokio::time::Instant;

use super::{Answer, NOTE, Next, timed};
use crate::error::Failure;
use crate::error::openai::body;
use crate::limits::Place;
use crate::metrics::text::{Outcome, TextTimer};
use crate::paid_call::PaidCall;
use crate::sse::{self, Events};

/// What fails before this time, and before there is any text, is answered with its status. A proxy waits longer for a head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// A stream to begin.
pub(super) struct Stream {
    pub(super) answer: Answer,
    pub(super) call: PaidCall,
    pub(super) headers: HeaderMap,
    pub(super) place: Place<Owner>,
    pub(super) begun: Instant,
    pub(super) timeout: Duration,
    pub(super) timer: TextTimer,
}

impl Stream {
    /// Responds with events. When the client disconnects, the model stops; it is charged if any text was sent, else nothing is.
    pub(super) async fn respond(self) -> Result<Response, Failure> {
        let Stream { mut answer, mut call, headers, place, begun, timeout, timer } = self;
        let deadline = begun + timeout;
        let limit = deadline.min(Instant::now() + HEAD_TIMEOUT);
        let first = match tokio::time::timeout_at(limit, answer.next()).await {
            Ok(first) => first.map(Some),
            Err(_) if Instant::now() >= deadline => Err(timed_out(timeout)),
            Err(_) => Ok(None),
        };
        let (first, timer) = timed(timer, first)?;
        Ok(sse::respond(|events| async move {
            let _place = place;
            let mut chunks = Chunks { answer, events };
            let written = match tokio::time::timeout_at(deadline, chunks.write(first, &mut call)).await {
                // A model that fails costs nothing; time that runs out costs what was sent, or reading slowly would make an answer free.
                Ok(written) => written.inspect_err(|_| call.waive()),
                Err(_) if call.is_owed() => Err(cut_off(timeout)),
                Err(_) => Err(timed_out(timeout)),
            };
            let ended = match written {
                // Charged before the end is sent: who has it has paid for it.
                Ok(end) => call.charge(&headers, NOTE, &(), None).await.map(|()| end),
                Err(failure) => Err(failure),
            };
            match ended {
                Ok((reason, usage)) => {
                    timer.end(Outcome::Answered);
                    chunks.end(reason, usage);
                }
                // After the first byte a failure comes as an event, which the clients raise.
                Err(failure) => {
                    timer.end(Outcome::of_status(failure.error.status()));
                    chunks.events.send(&body(&failure.error));
                }
            }
        }))
    }
}

/// Writes an answer as chunks.
struct Chunks {
    answer: Answer,
    events: Events,
}

impl Chunks {
    /// Sends the text. With the first of it the call is owed.
    async fn write(
        &mut self,
        first: Option<Next>,
        call: &mut PaidCall,
    ) -> Result<(ChatFinishReason, ChatUsage), Failure> {
        self.send_delta(ChatDelta { role: Some("assistant".to_owned()), content: Some(String::new()) }, None);
        let mut next = first;
        loop {
            match next.take() {
                Some(Next::Text(text)) => self.send_text(text, call),
                Some(Next::End(text, reason, usage)) => {
                    self.send_text(text, call);
                    return Ok((reason, usage));
                }
                None => {}
            }
            next = Some(self.answer.next().await?);
        }
    }

    fn end(&self, reason: ChatFinishReason, usage: ChatUsage) {
        self.send_delta(ChatDelta::default(), Some(reason));
        if self.answer.include_usage {
            self.send_chunk(Vec::new(), Some(usage));
        }
        self.events.send_done();
    }

    fn send_text(&self, text: String, call: &mut PaidCall) {
        if !text.is_empty() {
            call.owe(NOTE);
            self.send_delta(ChatDelta { role: None, content: Some(text) }, None);
        }
    }

    fn send_delta(&self, delta: ChatDelta, finish_reason: Option<ChatFinishReason>) {
        self.send_chunk(vec![ChatChunkChoice { index: 0, delta, logprobs: None, finish_reason }], None);
    }

    fn send_chunk(&self, choices: Vec<ChatChunkChoice>, usage: Option<ChatUsage>) {
        self.events.send(&ChatCompletionChunk {
            id: self.answer.id.clone(),
            object: "chat.completion.chunk".to_owned(),
            created: self.answer.created,
            model: self.answer.model.name().to_owned(),
            choices,
            usage: self.answer.include_usage.then_some(usage),
        });
    }
}

/// The time has run out after some of the text was sent.
fn cut_off(timeout: Duration) -> Failure {
    let message = format!(
        "the answer takes longer than the {} s that a request may wait: ask for fewer tokens",
        timeout.as_secs()
    );
    Failure::new(ErrorKind::Timeout, message)
}

fn timed_out(timeout: Duration) -> Failure {
    let message = format!(
        "the answer takes longer than the {} s that a request may wait; nothing was charged: ask for fewer tokens",
        timeout.as_secs()
    );
    Failure::new(ErrorKind::Timeout, message)
}
