//! A task on a text that has one result: a summary, an analysis, generated content.

use serde::Serialize;
use serde_json::Value;

use crate::analyze::{self, Analysis, AnalysisType};
use crate::context::Context;
use crate::error::TextError;
use crate::generate::{self, Generation, GenerationType};
use crate::source::Source;
use crate::summarize::{self, Summary, SummaryStyle};

/// What to do with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Summarize it.
    Summarize(SummaryStyle),
    /// Look for something in it.
    Analyze(AnalysisType),
    /// Write something from it.
    Generate(GenerationType),
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TaskResult {
    /// A summary.
    Summary(Summary),
    /// An analysis.
    Analysis(Analysis),
    /// Generated content.
    Generation(Generation),
}

impl Task {
    /// Runs it.
    pub async fn run(self, context: &Context<'_>, source: &Source) -> Result<TaskResult, TextError> {
        Ok(match self {
            Task::Summarize(style) => TaskResult::Summary(summarize::summarize(context, source, style).await?),
            Task::Analyze(kind) => TaskResult::Analysis(analyze::analyze(context, source, kind).await?),
            Task::Generate(kind) => TaskResult::Generation(generate::generate(context, source, kind).await?),
        })
    }

    /// The JSON schema of the whole of a summary, or of the `result` of an analysis or of generated content.
    pub fn result_schema(self) -> Value {
        match self {
            Task::Summarize(_) => summarize::result_schema(),
            Task::Analyze(kind) => analyze::result_schema(kind),
            Task::Generate(kind) => generate::result_schema(kind),
        }
    }
}
