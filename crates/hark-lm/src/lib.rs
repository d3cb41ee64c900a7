//! Runtime for decoder-only language models on the CPU.
//!
//! In: a GGUF file, conversations or prompts. Out: logits, sampled tokens, text. The arithmetic is that of
//! `hark-compute`, on the thread pool of the process. None of its business: what is asked, accounts, where files come from.
//!
//! [`Model::load`] reads the configuration, packs the weights and makes the [`Tokenizer`]. A [`KvCache`] holds sequences;
//! [`Model::forward`] appends a batch of rows to them and returns logits for those rows that ask; a [`Sampler`] chooses from them.
//! An [`engine::Engine`] does that for many requests at once; a [`chat::ChatTemplate`] makes prompts of conversations, and a
//! [`grammar::Grammar`] makes answers fit a JSON schema.
//!
//! Files may be hostile: what does not fit is an [`LmError`], never a panic.

mod cache;
pub mod chat;
mod config;
pub mod engine;
mod error;
mod forward;
pub mod grammar;
mod load;
mod rope;
mod sample;
pub mod tokenizer;

pub use cache::{KvCache, SequenceId};
pub use config::{Architecture, Config, RopeStyle};
pub use error::LmError;
pub use forward::{BatchRow, Workspace};
pub use load::{Model, memory_needed};
pub use sample::{Sampler, Sampling, TokenMask, log_softmax_at};
pub use tokenizer::{TokenDecoder, Tokenizer};
