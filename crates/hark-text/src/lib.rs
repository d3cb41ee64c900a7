//! Work on text with a language model: summaries, analyses, generated content, translations, answers.
//!
//! In: a text or a transcript, and a [`LanguageModel`]. Out: results that are valid against their schema and checked against the
//! text. None of its business: where models run, accounts, credits, HTTP.

pub mod analyze;
pub mod ask;
mod context;
mod error;
mod extract;
mod facts;
pub mod generate;
mod language;
pub mod model;
mod names;
mod parts;
pub mod pii;
mod prompt;
pub mod retrieve;
mod salient;
mod schema;
mod sentences;
mod shorten;
mod source;
mod summarize;
mod support;
mod task;
mod translate;
mod words;

pub use analyze::{Analysis, AnalysisResult, AnalysisType, analyze};
pub use context::{Context, Progress};
pub use error::TextError;
pub use generate::{Generation, GenerationResult, GenerationType, generate};
pub use language::Language;
pub use model::{
    Completion, CompletionRequest, Endpoint, EndpointModel, EndpointSettings, Finish, LanguageModel, LocalModel,
    Message, ModelError, OutputFormat, Role, Usage,
};
pub use parts::Part;
pub use prompt::Prompt;
pub use sentences::count_words;
pub use source::{Source, Unit};
pub use summarize::{Summary, SummaryStyle, summarize};
pub use task::{Task, TaskResult};
pub use translate::translate;
