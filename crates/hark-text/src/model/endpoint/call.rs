//! One completion at an endpoint: attempts, retries, and JSON that is checked before anybody sees it.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

use super::fault::Fault;
use super::sse::EventReader;
use super::wire::{self, Chunk, JsonMode};
use super::{Shared, validate};
use crate::model::{CompletionRequest, Event, Finish, ModelError, OutputFormat, Usage};

/// Attempts to have a request answered.
const ATTEMPTS: u32 = 4;
/// The pause before the second attempt, which doubles with each, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// The longest `Retry-After` that is waited for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(30);
/// Answers that are not valid JSON, before the request fails.
const INVALID_ANSWERS: u32 = 3;
/// Time to the first byte of an answer, which may wait in the endpoint's own queue; and between two pieces of it.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(300);
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of an error that are read.
const MAX_ERROR: usize = 64 << 10;

/// An answer.
struct Reply {
    text: String,
    finish: Finish,
    usage: Option<Usage>,
}

/// Completes a request and sends its events, until nobody wants them any more.
pub(super) async fn run(
    shared: Arc<Shared>,
    model: String,
    context: usize,
    request: CompletionRequest,
    sender: UnboundedSender<Event>,
) {
    let call = Call { shared: &shared, model: &model, context, request: &request, sender: &sender };
    let outcome = tokio::select! {
        biased;
        // Dropping the call closes its connection, which ends the work at the endpoint.
        () = sender.closed() => return,
        outcome = call.complete() => outcome,
    };
    // An error says that nobody listens.
    let _ = sender.send(match outcome {
        Ok((finish, usage)) => Event::End(finish, usage),
        Err(error) => Event::Failed(error),
    });
}

struct Call<'a> {
    shared: &'a Shared,
    model: &'a str,
    context: usize,
    request: &'a CompletionRequest,
    sender: &'a UnboundedSender<Event>,
}

impl Call<'_> {
    async fn complete(&self) -> Result<(Finish, Usage), ModelError> {
        let slot = self.shared.slots.acquire().await;
        let _slot = slot.map_err(|_| ModelError::Unavailable("the endpoint is closed".into()))?;
        let mut request = self.request.clone();
        let mut mode = self.shared.json_mode();
        let (mut attempts, mut invalid) = (0, 0);
        loop {
            let mut has_text = false;
            let permit = self.shared.admit()?;
            match self.attempt(&request, mode, &mut has_text).await {
                Ok(reply) => {
                    permit.succeeded();
                    let usage = self.usage(&reply);
                    self.shared.count_usage(usage);
                    let OutputFormat::Json(schema) = &request.format else { return Ok((reply.finish, usage)) };
                    if let Some(json) = valid_json(schema, &reply) {
                        let _ = self.sender.send(Event::Text(json));
                        return Ok((reply.finish, usage));
                    }
                    invalid += 1;
                    tracing::warn!(answers = invalid, "endpoint.invalid_answer");
                    if invalid == INVALID_ANSWERS {
                        let what = "its answers are not valid against the JSON schema; use a server that constrains them, or a larger model";
                        return Err(ModelError::Failed(what.into()));
                    }
                    // The endpoint may have ignored how it was asked; a repeat of a greedy answer needs a temperature.
                    mode = mode.next().unwrap_or(mode);
                    request.seed = request.seed.wrapping_add(1);
                    request.temperature = request.temperature.max(0.3);
                }
                Err(Fault::Format(error)) => {
                    permit.succeeded();
                    mode = mode.next().ok_or(error)?;
                    self.shared.set_json_mode(mode);
                }
                Err(Fault::Last(error)) => {
                    permit.succeeded();
                    return Err(error);
                }
                Err(Fault::Retry { error, after, is_fault }) => {
                    if is_fault {
                        permit.failed(&error.to_string())
                    } else {
                        permit.succeeded()
                    }
                    attempts += 1;
                    if has_text || attempts == ATTEMPTS {
                        return Err(error);
                    }
                    let pause = pause(attempts, after);
                    self.shared.count_retry();
                    tracing::info!(attempt = attempts, retry_in = pause.as_secs_f64(), %error, "endpoint.retry");
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Asks once. Text is sent as it comes; JSON is not, since it is checked first.
    async fn attempt(&self, request: &CompletionRequest, mode: JsonMode, has_text: &mut bool) -> Result<Reply, Fault> {
        self.shared.count_request();
        let is_json = request.format != OutputFormat::Text;
        let body = wire::body(self.model, request, mode);
        let http = self.shared.post("/chat/completions", &body);
        let response = match tokio::time::timeout(FIRST_BYTE_TIMEOUT, http.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(Fault::unreachable(hark_http::Error::from(error))),
            Err(_) => return Err(Fault::unreachable("no answer in time")),
        };
        if !response.status().is_success() {
            return Err(self.refused(response, is_json && mode != JsonMode::Prompt).await);
        }
        let on_text = |piece: String| {
            if !is_json && !piece.is_empty() {
                *has_text = true;
                let _ = self.sender.send(Event::Text(piece));
            }
        };
        read(response, on_text).await
    }

    /// What an answer that is no success means.
    async fn refused(&self, response: Response, may_be_format: bool) -> Fault {
        let status = response.status();
        let after = retry_after(response.headers());
        let body = read_error(response).await;
        let message = wire::error_message(&body);
        let unavailable = |what: &str| ModelError::Unavailable(format!("the endpoint {what} ({status}): {message}"));
        match status {
            StatusCode::TOO_MANY_REQUESTS => Fault::Retry { error: ModelError::Busy, after, is_fault: false },
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY => {
                Fault::Retry { error: unavailable("gave up"), after, is_fault: false }
            }
            StatusCode::NOT_IMPLEMENTED if may_be_format => Fault::Format(unavailable("takes no JSON schema")),
            status if status.is_server_error() => Fault::Retry { error: unavailable("failed"), after, is_fault: true },
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Fault::Last(unavailable("refuses the key; check `endpoint_key`"))
            }
            StatusCode::NOT_FOUND => {
                Fault::Last(unavailable("has no such model or path; check `endpoint` and `endpoint_model`"))
            }
            status if status.is_redirection() => Fault::Last(unavailable("redirects, which is not followed")),
            _ if wire::is_context_error(&body, &message) => {
                let tokens = self.shared.prompt_tokens(&self.request.messages) + self.request.max_tokens;
                Fault::Last(ModelError::TooLong { tokens, limit: self.context })
            }
            _ => {
                let error = ModelError::Failed(format!("the endpoint refuses the request ({status}): {message}"));
                if may_be_format { Fault::Format(error) } else { Fault::Last(error) }
            }
        }
    }

    /// The tokens of an answer, estimated where the endpoint does not say them.
    fn usage(&self, reply: &Reply) -> Usage {
        match reply.usage {
            Some(usage) => {
                self.shared.learn(&self.request.messages, usage.prompt_tokens);
                usage
            }
            None => Usage {
                prompt_tokens: self.shared.prompt_tokens(&self.request.messages) as u64,
                cached_tokens: 0,
                completion_tokens: self.shared.count_tokens(&reply.text) as u64,
            },
        }
    }
}

/// Reads an answer as it comes.
async fn read(mut response: Response, mut on_text: impl FnMut(String)) -> Result<Reply, Fault> {
    let is_stream = is_event_stream(response.headers());
    let (mut reader, mut whole) = (EventReader::default(), Vec::new());
    let mut reply = Reply { text: String::new(), finish: Finish::Stop, usage: None };
    let (mut has_data, mut has_finish, mut is_done) = (false, false, false);
    let mut take = |data: &str| -> Result<bool, Fault> {
        if data.trim() == "[DONE]" {
            return Ok(true);
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|error| Fault::last(error.to_string()))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            let body = serde_json::json!({"error": error}).to_string();
            return Err(Fault::unreachable(wire::error_message(body.as_bytes())));
        }
        if let Some(usage) = chunk.usage {
            reply.usage = Some(usage.into());
        }
        for choice in chunk.choices {
            if let Some(piece) = choice.delta.and_then(|delta| delta.content) {
                reply.text.push_str(&piece);
                on_text(piece);
            }
            if let Some(reason) = choice.finish_reason {
                let finish = wire::finish(&reason);
                reply.finish = finish.ok_or_else(|| Fault::last(format!("it ended with {reason:?}")))?;
                has_finish = true;
            }
        }
        Ok(false)
    };
    while !is_done {
        let limit = if has_data { IDLE_TIMEOUT } else { FIRST_BYTE_TIMEOUT };
        let chunk = match tokio::time::timeout(limit, response.chunk()).await {
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) => break,
            Ok(Err(error)) => return Err(Fault::unreachable(hark_http::Error::from(error))),
            Err(_) => return Err(Fault::unreachable("it stopped sending")),
        };
        has_data = true;
        // Both forms have the reader's limits.
        let events = reader.push(&chunk)?;
        if is_stream {
            for data in events {
                is_done = is_done || take(&data)?;
            }
        } else {
            whole.extend_from_slice(&chunk);
        }
    }
    if !is_stream {
        let text = String::from_utf8(whole).map_err(|_| Fault::last("it is not UTF-8".to_owned()))?;
        take(&text)?;
    } else if !is_done && let Some(data) = reader.finish()? {
        is_done = take(&data)?;
    }
    if !has_finish && !is_done {
        return Err(Fault::unreachable("it ended in the middle of an answer"));
    }
    Ok(reply)
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
}

async fn read_error(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < MAX_ERROR {
        match tokio::time::timeout(IDLE_TIMEOUT, response.chunk()).await {
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            _ => break,
        }
    }
    body
}

/// The seconds of `Retry-After`; a date is not read.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// The pause before the next attempt: as long as asked for, else longer each time; never the same for all who wait.
fn pause(attempts: u32, after: Option<Duration>) -> Duration {
    let mut random = [0u8; 2];
    // Without random numbers pauses are the same each time, which does no harm.
    let _ = getrandom::fill(&mut random);
    let share = f64::from(u16::from_le_bytes(random)) / 65536.0;
    let pause = match after {
        Some(after) => return after.min(LONGEST_RETRY_AFTER).mul_f64(1.0 + share / 4.0),
        None => FIRST_PAUSE.saturating_mul(1 << (attempts - 1).min(8)).min(LONGEST_PAUSE),
    };
    pause.mul_f64(0.5 + share)
}

/// The JSON of an answer, if it is valid against a schema. What was cut off can't be checked, but must have begun as JSON does.
fn valid_json(schema: &Value, reply: &Reply) -> Option<String> {
    let text = reply.text.trim();
    let fenced = text.strip_prefix("```json").or_else(|| text.strip_prefix("```"));
    let text = fenced.map_or(text, |inner| inner.trim().strip_suffix("```").unwrap_or(inner).trim());
    if reply.finish == Finish::Length {
        return text.starts_with(['{', '[']).then(|| text.to_owned());
    }
    let value: Value = serde_json::from_str(text).ok()?;
    validate::is_valid(schema, &value).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pauses_grow_up_to_a_limit_and_are_not_all_the_same() {
        for (attempts, seconds) in [(1, 0.5), (2, 1.0), (3, 2.0), (9, 8.0)] {
            for _ in 0..50 {
                let pause = pause(attempts, None).as_secs_f64();
                assert!((seconds * 0.5..=seconds * 1.5).contains(&pause), "{pause} after {attempts}");
            }
        }
        let asked = pause(1, Some(Duration::from_secs(3))).as_secs_f64();
        assert!((3.0..=3.75).contains(&asked), "{asked}");
        assert!(pause(1, Some(Duration::from_secs(3600))) <= LONGEST_RETRY_AFTER * 2);
        let some: std::collections::HashSet<Duration> = (0..20).map(|_| pause(1, None)).collect();
        assert!(some.len() > 1);
    }

    #[test]
    fn json_is_taken_out_of_a_fence_and_what_is_not_valid_is_not_taken() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
        let json = |text: &str, finish| valid_json(&schema, &Reply { text: text.to_owned(), finish, usage: None });
        assert_eq!(json(" {\"a\": 1}\n", Finish::Stop).as_deref(), Some("{\"a\": 1}"));
        assert_eq!(json("```json\n{\"a\": 1}\n```", Finish::Stop).as_deref(), Some("{\"a\": 1}"));
        for wrong in ["", "{\"a\": 1", "{\"a\": \"1\"}", "Sure! {\"a\": 1}", "{}"] {
            assert_eq!(json(wrong, Finish::Stop), None, "{wrong}");
        }
        assert_eq!(json("{\"a\": ", Finish::Length).as_deref(), Some("{\"a\":"));
        assert_eq!(json("Sure! {", Finish::Length), None);
    }
}
