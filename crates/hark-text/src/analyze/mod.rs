//! Analyses: JSON by constrained decoding, merged over the parts of a long text, checked against the text.

mod action_items;
mod entities;
mod questions;
mod sentiment;
mod topics;

use serde::Serialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::TextError;
use crate::pii::{self, Redaction};
use crate::schema;
use crate::source::Source;

pub use hark_transcript::AnalysisType;

pub(crate) use action_items::action_items;
pub use action_items::{ActionItem, ActionItems};
pub use entities::{ENTITY_TYPES, Entities, Entity};
pub use questions::{Question, Questions};
pub use sentiment::{Sentiment, SentimentLabel, SpeakerSentiment};
pub use topics::{Topic, Topics};

/// What an analysis found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum AnalysisResult {
    /// How it feels.
    Sentiment(Sentiment),
    /// What it is about.
    Topics(Topics),
    /// People, places, things.
    Entities(Entities),
    /// What is to be done.
    ActionItems(ActionItems),
    /// What was asked.
    Questions(Questions),
    /// The text without personal data.
    PiiRedact(Redaction),
}

/// An analysis of a text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Analysis {
    /// What it looked for.
    pub r#type: AnalysisType,
    /// What it found.
    pub result: AnalysisResult,
    /// Over how many parts of the text it was made.
    pub parts: usize,
    /// The model that ran.
    pub model: String,
}

/// The JSON schema of the result.
pub(crate) fn result_schema(kind: AnalysisType) -> Value {
    match kind {
        AnalysisType::Sentiment => sentiment::schema(),
        AnalysisType::Topics => schema::list("topics", topics::item_schema(), topics::MOST_TOPICS),
        AnalysisType::Entities => array("entities", entities::item_schema()),
        AnalysisType::ActionItems => array("action_items", action_items::item_schema()),
        AnalysisType::Questions => array("questions", questions::item_schema()),
        AnalysisType::PiiRedact => pii::result_schema(),
    }
}

fn array(name: &str, item: Value) -> Value {
    schema::object(&[(name, json!({"type": "array", "items": item}))])
}

/// Analyses a text. What a model found that the text does not have is left out.
pub async fn analyze(context: &Context<'_>, source: &Source, kind: AnalysisType) -> Result<Analysis, TextError> {
    if source.is_empty() {
        return Err(TextError::Empty);
    }
    let (result, parts) = match kind {
        AnalysisType::Sentiment => {
            let (found, parts) = sentiment::sentiment(context, source).await?;
            (AnalysisResult::Sentiment(found), parts)
        }
        AnalysisType::Topics => {
            let (found, parts) = topics::topics(context, source).await?;
            (AnalysisResult::Topics(found), parts)
        }
        AnalysisType::Entities => {
            let (found, parts) = entities::entities(context, source).await?;
            (AnalysisResult::Entities(found), parts)
        }
        AnalysisType::ActionItems => {
            let (found, parts) = action_items(context, source).await?;
            (AnalysisResult::ActionItems(found), parts)
        }
        AnalysisType::Questions => {
            let (found, parts) = questions::questions(context, source).await?;
            (AnalysisResult::Questions(found), parts)
        }
        AnalysisType::PiiRedact => {
            let (found, parts) = entities::entities(context, source).await?;
            let people = found.entities.into_iter().filter(|entity| entity.r#type == "person");
            let names: Vec<String> = people.filter_map(|entity| pii::person_name(&entity.text)).collect();
            (AnalysisResult::PiiRedact(pii::redact(source.text(), &names)), parts)
        }
    };
    Ok(Analysis { r#type: kind, result, parts, model: context.model_name().to_owned() })
}
