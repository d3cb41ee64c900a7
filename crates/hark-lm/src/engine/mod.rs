//! A language model as a service inside the process: many requests, one thread, one batch at a time.
//!
//! In: prompts as tokens. Out: text as it comes, then why it ended. [`Engine::start`] gives model and KV cache to a thread.
//! Requests wait in a queue (`queue.rs`) that is fair between owners; the thread (`runner.rs`) admits them while pages for prompt
//! and answer can be had, and computes one token of every running answer and a piece of the prompts in each step. Pages of earlier
//! texts stay for prompts that begin alike (`prefix.rs`). What an answer may repeat is computed with its next token (`draft.rs`).

mod draft;
mod pacing;
mod prefix;
mod queue;
mod runner;
mod sequence;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hark_compute::attention::paged::PAGE;
use hark_transcript::Lane;

use crate::grammar::Grammar;
use crate::{KvCache, LmError, Model, Sampling};
use queue::Waiting;
use runner::Runner;

/// How much an [`Engine`] takes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineLimits {
    /// The most tokens of prompt and answer; the model's own limit if that is less.
    pub context: usize,
    /// Bytes of the KV cache. It always has room for one request of `context`.
    pub cache_bytes: u64,
    /// Answers that are computed together.
    pub max_sequences: usize,
    /// Requests that may wait; more are refused.
    pub max_waiting: usize,
    /// Most rows of prompts in a step while no answer waits for its next token; fewer where they would take long.
    pub prompt_rows: usize,
    /// Most rows of prompts in a step beside answers: fewer, so that they do not stall.
    pub mixed_prompt_rows: usize,
    /// Whether tokens that may come next are computed ahead. Answers are the same either way.
    pub drafts: bool,
}

impl Default for EngineLimits {
    fn default() -> Self {
        EngineLimits {
            context: 8192,
            cache_bytes: 512 << 20,
            max_sequences: 24,
            max_waiting: 256,
            prompt_rows: 512,
            mixed_prompt_rows: 128,
            drafts: true,
        }
    }
}

/// A prompt to complete.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its tokens; not empty.
    pub prompt: Vec<u32>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// What the answer must look like.
    pub grammar: Option<Arc<Grammar>>,
    /// The most tokens of the answer.
    pub max_tokens: usize,
    /// Whose request it is: the engine is fair between owners.
    pub owner: u64,
    /// How urgent it is: more urgent requests go first.
    pub lane: Lane,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model ended it, or its grammar did.
    Stop,
    /// It reached its most tokens.
    Length,
}

/// The tokens of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// How many of them the prefix cache had.
    pub cached: u64,
    /// Tokens of the answer.
    pub completion: u64,
}

/// Where an answer goes. Methods are called by the engine's thread and must not block.
pub trait Output: Send {
    /// The next piece of text: whole characters.
    fn text(&mut self, piece: String);

    /// The end of the answer, or why there is none. Called once; dropped without it only where the engine itself failed.
    fn end(&mut self, outcome: Result<(Finish, TokenUsage), LmError>);

    /// Whether nobody wants the answer any more: it is given up at the next step.
    fn is_closed(&self) -> bool;
}

/// What the engine does at the moment, and what it did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that are computed.
    pub running: usize,
    /// Pages of the KV cache.
    pub total_pages: usize,
    /// Pages that hold nothing.
    pub free_pages: usize,
    /// Pages that only the prefix cache uses.
    pub cached_pages: usize,
    /// Prompt tokens computed so far.
    pub prompt_tokens: u64,
    /// Prompt tokens that the prefix cache had.
    pub cached_tokens: u64,
    /// Tokens generated so far.
    pub generated_tokens: u64,
    /// Tokens computed ahead so far, in case they come next.
    pub drafted_tokens: u64,
    /// How many of them came.
    pub accepted_tokens: u64,
    /// Steps computed so far.
    pub steps: u64,
    /// Microseconds of forward passes, pauses for other models included.
    pub forward_micros: u64,
    /// Microseconds of those in which it paused for other models.
    pub paused_micros: u64,
    /// Microseconds of grammars and samplers.
    pub choice_micros: u64,
}

/// What the engine's thread and those who submit requests share.
struct Shared {
    inbox: Mutex<Inbox>,
    wake: Condvar,
    /// Whether the engine is to stop.
    is_closing: AtomicBool,
}

#[derive(Default)]
struct Inbox {
    /// Requests that the thread has not taken yet.
    arrived: Vec<Waiting>,
    /// Requests that wait, those in `arrived` and those in the thread's queue.
    waiting: usize,
    /// Whether the thread has ended.
    has_ended: bool,
    stats: EngineStats,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A model that answers requests on a thread of its own. Dropping it ends them and waits for the thread.
pub struct Engine {
    model: Arc<Model>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    context: usize,
    max_waiting: usize,
}

impl Engine {
    /// Starts the engine's thread. Its work gives way to other models on the same threads.
    pub fn start(mut model: Model, limits: EngineLimits) -> Result<Self, LmError> {
        model.compute = model.compute.background();
        model.limit_context(limits.context.max(1));
        let context = model.config.context;
        // One page more than one request needs, since its pages may be shared when it begins.
        let page_bytes = KvCache::bytes_for(&model.config, PAGE).max(1);
        let positions = usize::try_from(limits.cache_bytes / page_bytes).unwrap_or(usize::MAX / PAGE) * PAGE;
        let cache = KvCache::new(&model.config, positions.max(context + PAGE))?;
        let model = Arc::new(model);
        let shared =
            Arc::new(Shared { inbox: Mutex::default(), wake: Condvar::new(), is_closing: AtomicBool::new(false) });
        let max_waiting = limits.max_waiting;
        let runner = Runner::new(Arc::clone(&model), cache, Arc::clone(&shared), limits);
        let thread = std::thread::Builder::new().name("hark-lm".to_owned()).spawn(move || runner.run());
        let thread = thread.map_err(|_| LmError::OutOfMemory { what: "a thread", bytes: 0 })?;
        Ok(Engine { model, shared, thread: Some(thread), context, max_waiting })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The most tokens of prompt and answer together.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Bytes of weights and KV cache; pages of the cache that were never used take no memory.
    pub fn bytes(&self) -> u64 {
        self.model.bytes() + KvCache::bytes_for(&self.model.config, self.stats().total_pages * PAGE)
    }

    /// Whether requests can be answered: the thread has not ended.
    pub fn is_alive(&self) -> bool {
        !self.shared.inbox().has_ended
    }

    /// What the engine does and did, as of its last step.
    pub fn stats(&self) -> EngineStats {
        let inbox = self.shared.inbox();
        EngineStats { waiting: inbox.waiting, ..inbox.stats }
    }

    /// Queues a request whose answer goes to `output`. On an error `output` was not used.
    pub fn submit_to(&self, request: Request, output: Box<dyn Output>) -> Result<(), LmError> {
        let vocabulary = self.model.config.vocabulary;
        if request.prompt.is_empty() || request.max_tokens == 0 {
            return Err(LmError::Invalid("a request needs a prompt and room for an answer".to_owned()));
        }
        if let Some(token) = request.prompt.iter().find(|token| **token as usize >= vocabulary) {
            return Err(LmError::Invalid(format!("token {token} is not in the vocabulary")));
        }
        let length = request.prompt.len().saturating_add(request.max_tokens);
        if length > self.context {
            return Err(LmError::ContextFull { length, limit: self.context });
        }
        let mut inbox = self.shared.inbox();
        if inbox.has_ended {
            return Err(LmError::Stopped);
        }
        if inbox.waiting >= self.max_waiting {
            return Err(LmError::Busy);
        }
        inbox.waiting += 1;
        inbox.arrived.push(Waiting::new(request, output));
        drop(inbox);
        self.shared.wake.notify_one();
        Ok(())
    }

    /// Queues a request and returns its answer as it comes. Dropping that cancels the request.
    pub fn submit(&self, request: Request) -> Result<Generation, LmError> {
        let (sender, events) = std::sync::mpsc::channel();
        let is_closed = Arc::new(AtomicBool::new(false));
        self.submit_to(request, Box::new(ChannelOutput { sender, is_closed: Arc::clone(&is_closed) }))?;
        Ok(Generation { events, is_closed })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        {
            // Under the lock, so that the thread does not miss it between its check and its wait.
            let _inbox = self.shared.inbox();
            self.shared.is_closing.store(true, Ordering::SeqCst);
        }
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a [`Generation`] receives.
#[derive(Debug)]
pub enum GenerationEvent {
    /// The next piece of text.
    Text(String),
    /// The end, or why there is none.
    End(Result<(Finish, TokenUsage), LmError>),
}

/// The answer to a request, for callers that block.
pub struct Generation {
    events: Receiver<GenerationEvent>,
    is_closed: Arc<AtomicBool>,
}

impl Generation {
    /// The next event; none after the end, or when `limit` has passed.
    pub fn next(&self, limit: Duration) -> Option<GenerationEvent> {
        self.events.recv_timeout(limit).ok()
    }

    /// The whole answer.
    pub fn wait(self) -> Result<(String, Finish, TokenUsage), LmError> {
        let mut text = String::new();
        while let Ok(event) = self.events.recv() {
            match event {
                GenerationEvent::Text(piece) => text.push_str(&piece),
                GenerationEvent::End(outcome) => return outcome.map(|(finish, usage)| (text, finish, usage)),
            }
        }
        Err(LmError::Stopped)
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }
}

struct ChannelOutput {
    sender: Sender<GenerationEvent>,
    is_closed: Arc<AtomicBool>,
}

impl Output for ChannelOutput {
    fn text(&mut self, piece: String) {
        let _ = self.sender.send(GenerationEvent::Text(piece));
    }

    fn end(&mut self, outcome: Result<(Finish, TokenUsage), LmError>) {
        let _ = self.sender.send(GenerationEvent::End(outcome));
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }
}
