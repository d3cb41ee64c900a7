//! `POST /v1/chat/completions`: the language model for OpenAI's clients.

mod request;
mod stop;
mod stream;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use hark_api::{
    ApiError, ChatAnswerMessage, ChatChoice, ChatCompletion, ChatCompletionRequest, ChatFinishReason, ChatUsage,
    ErrorKind,
};
use hark_text::model::Event;
use hark_text::{Completion, CompletionRequest, Finish, LanguageModel, ModelError};
use hark_transcript::Lane;
use tokio::time::Instant;

use super::{AnyError, Invalid, Limited, Missing, Payment, Reused, TimedOut, Unauthorized, Unavailable};
use crate::app::App;
use crate::error::Failure;
use crate::extract::Json;
use crate::idempotent::{self, Canonical};
use crate::metrics::text::{Outcome, TextTimer};
use crate::middleware::Identity;
use crate::paid_call::{Opened, PaidCall};
use crate::random;
use crate::routes::transcribe::MODEL;
use crate::text_work::{self, RETRY_AFTER};
use request::Checked;
use stop::StopFilter;
use stream::Stream;

/// What the ledger calls it.
const NOTE: &str = "chat completion";
/// What the metrics call it.
const TASK: &str = "chat_completion";
/// Most tokens of an answer whose request names no limit.
const DEFAULT_MAX_TOKENS: usize = 2048;
/// More bytes a token than texts have on average (4 in English): a conversation beyond that is refused before its tokens are counted.
const MAX_BYTES_PER_TOKEN: usize = 16;

/// Continue a conversation, as OpenAI's clients ask for it
///
/// Costs 1 credit, when it is answered; a stream, once any of its text was sent. With `stream: true` the answer is server-sent events of `ChatCompletionChunk`, then `[DONE]`.
#[utoipa::path(post, path = "/v1/chat/completions", tag = "openai", operation_id = "createChatCompletion",
    request_body = ChatCompletionRequest,
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 255, pattern = "^[!-~]([ -~]*[!-~])?$",
            description = "makes a repeat safe: the same answer, charged once; not with `stream`")),
    responses((status = 200, content((ChatCompletion = "application/json"), (hark_api::ChatCompletionChunk = "text/event-stream"))),
        Invalid, Unauthorized, Payment, Missing, Reused, Limited, Unavailable, TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn create(
    State(app): State<App>,
    identity: Identity,
    headers: HeaderMap,
    Json(request): Json<ChatCompletionRequest>,
) -> Result<Response, Failure> {
    let checked = Checked::new(&request)?;
    check_model(app.engines.language_model_name()?.as_deref(), request.model.as_deref())?;
    if checked.is_stream && idempotent::key(&headers)?.is_some() {
        return Err(Failure::invalid("`stream` does not go with an Idempotency-Key: events are not kept for a repeat"));
    }
    app.engines.language()?;
    let place = text_work::take_place(&app, &identity)?;
    let canonical = Canonical::new("POST /v1/chat/completions");
    let canonical = canonical.with("request", &request, &ChatCompletionRequest::default())?;
    let settings = &app.config.text;
    let timeout = if checked.is_stream { settings.stream_timeout } else { settings.timeout }.duration();
    let call = match PaidCall::begin(&app, &identity, &headers, canonical, timeout).await? {
        Opened::New(call) => call,
        Opened::Repeated(response) => return Ok(response),
    };
    let timer = TextTimer::start(&app.metrics, TASK);
    let begun = Instant::now();
    let (model, timer) = timed(timer, text_work::within(timeout, text_work::load(&app)).await)?;
    // The name of a model elsewhere may be known only now.
    let ((), timer) = timed(timer, check_model(Some(model.name()), request.model.as_deref()))?;
    let is_stream = checked.is_stream;
    let (answer, timer) = timed(timer, Answer::begin(&app, &identity, model, checked))?;
    let name = HeaderValue::from_str(answer.model.name());
    let mut response = if is_stream {
        Stream { answer, call, headers, place, begun, timeout, timer }.respond().await?
    } else {
        let whole = text_work::within(timeout.saturating_sub(begun.elapsed()), answer.whole()).await;
        let (completion, timer) = timed(timer, whole)?;
        let (response, timer) = timed(timer, call.complete(&headers, NOTE, &completion, None).await)?;
        timer.end(Outcome::Answered);
        response
    };
    if let Ok(name) = name {
        response.headers_mut().insert(MODEL, name);
    }
    Ok(response)
}

/// Ends the time of a call that failed.
fn timed<T>(timer: TextTimer, result: Result<T, Failure>) -> Result<(T, TextTimer), Failure> {
    match result {
        Ok(value) => Ok((value, timer)),
        Err(failure) => {
            timer.end(Outcome::of_status(failure.error.status()));
            Err(failure)
        }
    }
}

/// Refuses a name that is not that of the language model.
fn check_model(served: Option<&str>, asked: Option<&str>) -> Result<(), Failure> {
    match (served, asked) {
        (Some(served), Some(asked)) if asked != served => {
            let message = format!("there is no language model {asked:?} here: this server has {served:?}");
            Err(Failure::new(ErrorKind::ModelNotFound, message))
        }
        _ => Ok(()),
    }
}

/// An answer that is being written.
struct Answer {
    id: String,
    created: i64,
    /// Stays loaded as long as it writes.
    model: Arc<dyn LanguageModel>,
    completion: Completion,
    prompt_tokens: usize,
    stop: StopFilter,
    include_usage: bool,
    /// What was written so far, to count its tokens where `stop` ends it.
    text: String,
}

/// What comes next of an answer.
enum Next {
    /// More text; may be empty.
    Text(String),
    /// The last of the text, and the end.
    End(String, ChatFinishReason, ChatUsage),
}

impl Answer {
    fn begin(app: &App, identity: &Identity, model: Arc<dyn LanguageModel>, checked: Checked) -> Result<Self, Failure> {
        let context = model.context_length();
        check_bytes(checked.messages.iter().map(|message| message.content.len()).sum(), context)?;
        let prompt_tokens = model.prompt_tokens(&checked.messages).map_err(failure)?;
        let room = context.saturating_sub(prompt_tokens);
        let max_tokens = checked.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS.min(room).max(1));
        let request = CompletionRequest {
            messages: checked.messages,
            format: checked.format,
            max_tokens,
            temperature: checked.temperature,
            top_p: checked.top_p,
            seed: checked.seed,
            owner: identity.account().0.unsigned_abs(),
            lane: Lane::Interactive,
        };
        let completion = model.complete(request).map_err(|error| match error {
            ModelError::TooLong { .. } => context_length(prompt_tokens, checked.max_tokens, context),
            other => failure(other),
        })?;
        Ok(Answer {
            id: format!("chatcmpl-{}", random::id()),
            created: app.clock.now() / 1_000_000,
            model,
            completion,
            prompt_tokens,
            stop: StopFilter::new(checked.stop),
            include_usage: checked.include_usage,
            text: String::new(),
        })
    }

    /// Waits for what comes next; may be dropped and called again.
    async fn next(&mut self) -> Result<Next, Failure> {
        let Some(event) = self.completion.next().await else {
            return Err(failure(ModelError::Failed("the model stopped without an answer".into())));
        };
        match event {
            Event::Text(piece) => {
                let (text, is_stop) = self.stop.push(&piece);
                self.text.push_str(&text);
                if !is_stop {
                    return Ok(Next::Text(text));
                }
                // The model goes on until the completion is dropped, so that its own numbers never come.
                let completion_tokens = self.model.count_tokens(&self.text) as u64;
                let usage = ChatUsage::new(self.prompt_tokens as u64, 0, completion_tokens);
                Ok(Next::End(text, ChatFinishReason::Stop, usage))
            }
            Event::End(finish, usage) => {
                let reason = match finish {
                    Finish::Stop => ChatFinishReason::Stop,
                    Finish::Length => ChatFinishReason::Length,
                };
                let usage = ChatUsage::new(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens);
                Ok(Next::End(self.stop.finish(), reason, usage))
            }
            Event::Failed(error) => Err(failure(error)),
        }
    }

    async fn whole(mut self) -> Result<ChatCompletion, Failure> {
        let mut content = String::new();
        loop {
            match self.next().await? {
                Next::Text(text) => content.push_str(&text),
                Next::End(text, finish_reason, usage) => {
                    content.push_str(&text);
                    let message = ChatAnswerMessage { role: "assistant".to_owned(), content, refusal: None };
                    return Ok(ChatCompletion {
                        id: self.id,
                        object: "chat.completion".to_owned(),
                        created: self.created,
                        model: self.model.name().to_owned(),
                        choices: vec![ChatChoice { index: 0, message, logprobs: None, finish_reason }],
                        usage,
                    });
                }
            }
        }
    }
}

/// Refuses a conversation that is far too long for the context, before its tokens are counted.
fn check_bytes(bytes: usize, context: usize) -> Result<(), Failure> {
    if bytes <= context.saturating_mul(MAX_BYTES_PER_TOKEN) {
        return Ok(());
    }
    let message = format!("`messages` have {bytes} bytes, but the context of the model is {context} tokens: send less");
    Err(Failure::new(ErrorKind::ContextLength, message))
}

fn context_length(prompt_tokens: usize, max_tokens: Option<usize>, context: usize) -> Failure {
    let asked = max_tokens.map_or_else(String::new, |tokens| format!(" and {tokens} are asked for in the answer"));
    let message = format!(
        "`messages` have {prompt_tokens} tokens{asked}, but the context of the model is {context} tokens: send less, or ask for fewer"
    );
    Failure::new(ErrorKind::ContextLength, message)
}

/// The error of a request that the model could not answer.
fn failure(error: ModelError) -> Failure {
    match error {
        ModelError::Busy => ApiError::new(ErrorKind::QueueFull, error.to_string()).retry_after(RETRY_AFTER).into(),
        ModelError::TooLong { tokens, limit } => context_length(tokens, None, limit),
        ModelError::Conversation(what) => {
            Failure::invalid(format!("the language model can't have the conversation of `messages`: {what}"))
        }
        ModelError::Schema(what) => Failure::invalid(format!("`response_format` has an unsupported schema: {what}")),
        ModelError::Unavailable(_) => {
            tracing::error!(%error, "language.unavailable");
            ApiError::from(ErrorKind::Unavailable).retry_after(RETRY_AFTER).into()
        }
        ModelError::Failed(_) => {
            tracing::error!(%error, "language.failed");
            ErrorKind::Internal.into()
        }
    }
}
