//! Work on text with a language model: summaries, analyses, generated content, answers.
//!
//! In: a text or a transcript, and a [`LanguageModel`]. Out: results that are valid against their schema and checked against the
//! text. None of its business: where models run, accounts, credits, HTTP.

pub mod model;
mod names;
pub mod pii;
mod schema;
mod words;

pub use model::{
    Completion, CompletionRequest, Finish, LanguageModel, LocalModel, Message, ModelError, OutputFormat, Role, Usage,
};
