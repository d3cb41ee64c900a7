//! A language model in this process.

use std::sync::Arc;

use hark_lm::chat::{ChatMessage, ChatRole, ChatTemplate};
use hark_lm::engine::{Engine, EngineLimits, EngineStats, Output, Request, TokenUsage};
use hark_lm::grammar::Grammar;
use hark_lm::{LmError, Model, Sampling};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::{
    Completion, CompletionRequest, Event, Finish, LanguageModel, Message, ModelError, OutputFormat, Role, Usage,
};

/// Only so many of the most likely tokens are chosen from, where not only the most likely is.
const TOP_K: usize = 64;

/// A model from a GGUF file, computed by the engine of `hark-lm`. Dropping it ends its completions and frees its memory.
pub struct LocalModel {
    name: String,
    engine: Engine,
    template: ChatTemplate,
}

impl LocalModel {
    /// Starts the engine of a model that was loaded.
    pub fn start(name: String, model: Model, limits: EngineLimits) -> Result<Self, LmError> {
        let template = ChatTemplate::new(model.tokenizer())?;
        Ok(LocalModel { name, engine: Engine::start(model, limits)?, template })
    }

    /// Whether it can answer: where not, it has to be loaded again.
    pub fn is_alive(&self) -> bool {
        self.engine.is_alive()
    }

    /// What the engine does and did.
    pub fn stats(&self) -> EngineStats {
        self.engine.stats()
    }

    /// Bytes of weights.
    pub fn weight_bytes(&self) -> u64 {
        self.engine.model().bytes()
    }

    /// Bytes of weights and KV cache; pages of the cache that were never used take no memory.
    pub fn bytes(&self) -> u64 {
        self.engine.bytes()
    }

    /// The tokens of a conversation in the model's chat template.
    fn prompt(&self, messages: &[Message]) -> Result<Vec<u32>, LmError> {
        let chat = |message: &Message| ChatMessage { role: chat_role(message.role), content: message.content.clone() };
        let messages: Vec<ChatMessage> = messages.iter().map(chat).collect();
        self.template.apply(self.engine.model().tokenizer(), &messages)
    }
}

impl LanguageModel for LocalModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn context_length(&self) -> usize {
        self.engine.context()
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.engine.model().tokenizer().encode(text).len()
    }

    fn prompt_tokens(&self, messages: &[Message]) -> Result<usize, ModelError> {
        Ok(self.prompt(messages)?.len())
    }

    fn complete(&self, request: CompletionRequest) -> Result<Completion, ModelError> {
        let CompletionRequest { messages, format, max_tokens, temperature, top_p, seed, owner, lane } = request;
        let grammar = match format {
            OutputFormat::Text => None,
            OutputFormat::Json(schema) => Some(Arc::new(Grammar::from_schema(&schema)?)),
        };
        let prompt = self.prompt(&messages)?;
        let sampling = Sampling { temperature, seed, top_k: TOP_K, top_p, ..Sampling::default() };
        let (sender, events) = unbounded_channel();
        let output = Box::new(EventOutput { sender, has_ended: false });
        self.engine.submit_to(Request { prompt, sampling, grammar, max_tokens, owner, lane }, output)?;
        Ok(Completion::new(events))
    }
}

fn chat_role(role: Role) -> ChatRole {
    match role {
        Role::System => ChatRole::System,
        Role::User => ChatRole::User,
        Role::Assistant => ChatRole::Assistant,
    }
}

/// Sends what the engine writes to a [`Completion`].
struct EventOutput {
    sender: UnboundedSender<Event>,
    has_ended: bool,
}

impl Output for EventOutput {
    fn text(&mut self, piece: String) {
        // An error says that nobody listens, which `is_closed` says too.
        let _ = self.sender.send(Event::Text(piece));
    }

    fn end(&mut self, outcome: Result<(hark_lm::engine::Finish, TokenUsage), LmError>) {
        self.has_ended = true;
        let event = match outcome {
            Ok((finish, usage)) => {
                let finish = match finish {
                    hark_lm::engine::Finish::Stop => Finish::Stop,
                    hark_lm::engine::Finish::Length => Finish::Length,
                };
                let TokenUsage { prompt, cached, completion } = usage;
                Event::End(
                    finish,
                    Usage { prompt_tokens: prompt, cached_tokens: cached, completion_tokens: completion },
                )
            }
            Err(error) => Event::Failed(error.into()),
        };
        let _ = self.sender.send(event);
    }

    fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

impl Drop for EventOutput {
    /// A completion never ends without saying why.
    fn drop(&mut self) {
        if !self.has_ended {
            let _ = self.sender.send(Event::Failed(LmError::Stopped.into()));
        }
    }
}

impl From<LmError> for ModelError {
    fn from(error: LmError) -> Self {
        match error {
            LmError::Busy => ModelError::Busy,
            LmError::ContextFull { length, limit } => ModelError::TooLong { tokens: length, limit },
            LmError::Schema(what) => ModelError::Schema(what),
            LmError::Conversation(what) => ModelError::Conversation(what),
            LmError::Stopped | LmError::OutOfMemory { .. } | LmError::CacheFull { .. } => {
                ModelError::Unavailable(error.to_string())
            }
            other => ModelError::Failed(other.to_string()),
        }
    }
}
