//! What a language model is to the tasks: it completes conversations, many at once.

mod endpoint;
mod local;

use hark_transcript::Lane;
use tokio::sync::mpsc::UnboundedReceiver;

pub use endpoint::{BreakerState, Endpoint, EndpointModel, EndpointSettings, EndpointStatus};
pub use local::LocalModel;

/// Tokens that a chat template takes at most around a message, and around all of them.
const TEMPLATE_TOKENS: usize = 16;

/// The probability that tokens are chosen from together, where nothing else is asked for.
pub const DEFAULT_TOP_P: f32 = 0.95;

/// A language model, in this process or behind an endpoint.
pub trait LanguageModel: Send + Sync + 'static {
    /// Its name in the catalogue, or at the endpoint.
    fn name(&self) -> &str;

    /// The most tokens of prompt and answer together.
    fn context_length(&self) -> usize;

    /// The tokens of a text, exactly or (at an endpoint) not fewer than there are.
    fn count_tokens(&self, text: &str) -> usize;

    /// The tokens of a conversation as the model reads it, exactly or (at an endpoint) not fewer than there are.
    fn prompt_tokens(&self, messages: &[Message]) -> Result<usize, ModelError> {
        let tokens = messages.iter().map(|message| self.count_tokens(&message.content) + TEMPLATE_TOKENS);
        Ok(tokens.sum::<usize>() + TEMPLATE_TOKENS)
    }

    /// Starts a completion and returns at once. Requests that run at the same time are batched; dropping the [`Completion`]
    /// cancels it.
    fn complete(&self, request: CompletionRequest) -> Result<Completion, ModelError>;
}

/// A conversation to complete.
#[derive(Debug, Clone, PartialEq)]
pub struct CompletionRequest {
    /// The conversation so far. Text of a user can't become a control token of the chat template.
    pub messages: Vec<Message>,
    /// What the answer must look like.
    pub format: OutputFormat,
    /// The most tokens of the answer; must fit the context beside the prompt.
    pub max_tokens: usize,
    /// 0 for greedy decoding.
    pub temperature: f32,
    /// Only the most likely tokens that together have this probability are chosen from.
    pub top_p: f32,
    /// Where random numbers begin.
    pub seed: u64,
    /// Whose request it is: the scheduler is fair between owners.
    pub owner: u64,
    /// How urgent it is.
    pub lane: Lane,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Who wrote it.
    pub role: Role,
    /// Its text.
    pub content: String,
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The instructions.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// What an answer must look like.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputFormat {
    /// Any text.
    Text,
    /// JSON that is valid against a JSON schema; decoding is constrained by it.
    Json(serde_json::Value),
}

/// A running completion.
#[derive(Debug)]
pub struct Completion {
    events: UnboundedReceiver<Event>,
}

/// What a model sends while it answers: pieces of text, then one end or failure.
#[derive(Debug)]
pub enum Event {
    /// The next piece of the answer: whole characters.
    Text(String),
    /// The answer has ended.
    End(Finish, Usage),
    /// It can't be completed.
    Failed(ModelError),
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model ended it.
    Stop,
    /// It reached `max_tokens`; JSON may be incomplete.
    Length,
}

/// The tokens of a completion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// How many of them the prefix cache had already.
    pub cached_tokens: u64,
    /// Tokens of the answer.
    pub completion_tokens: u64,
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its text.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
    /// Its tokens.
    pub usage: Usage,
}

impl Completion {
    /// A completion whose events arrive in `events`; the sender must send an end or a failure before it is dropped.
    pub fn new(events: UnboundedReceiver<Event>) -> Self {
        Completion { events }
    }

    /// The next event. After an end or a failure there is none.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// The whole answer.
    pub async fn answer(mut self) -> Result<Answer, ModelError> {
        let mut text = String::new();
        while let Some(event) = self.next().await {
            match event {
                Event::Text(piece) => text.push_str(&piece),
                Event::End(finish, usage) => return Ok(Answer { text, finish, usage }),
                Event::Failed(error) => return Err(error),
            }
        }
        Err(ModelError::Failed("the model stopped without an answer".into()))
    }
}

/// Why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// Too many requests wait already.
    #[error("too many requests wait for the language model; try again later")]
    Busy,
    /// The prompt does not fit the context: a defect of the task that built it.
    #[error("{tokens} tokens do not fit the model's context of {limit}")]
    TooLong {
        /// Tokens of prompt and answer.
        tokens: usize,
        /// The context length.
        limit: usize,
    },
    /// The messages are too many, or their roles in an order that the model's chat template refuses.
    #[error("the language model can't have this conversation: {0}")]
    Conversation(String),
    /// The schema has something that decoding can't be constrained by.
    #[error("the JSON schema is not supported: {0}")]
    Schema(String),
    /// It can't be reached or loaded now; a retry may succeed.
    #[error("the language model is not available: {0}")]
    Unavailable(String),
    /// It failed.
    #[error("the language model failed: {0}")]
    Failed(String),
}
