//! Content made from a text: prose in Markdown, and lists whose items are valid by construction.

mod cards;
mod chapters;
mod prose;
mod quiz;
mod quotes;

use serde::Serialize;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::TextError;
use crate::schema;
use crate::sentences;
use crate::source::Source;

pub use hark_transcript::GenerationType;

pub use cards::Flashcard;
pub use chapters::Chapter;
pub use quiz::QuizQuestion;
pub use quotes::KeyQuote;

/// Generated content.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Generation {
    /// What was asked for.
    pub r#type: GenerationType,
    /// What was written.
    pub result: GenerationResult,
    /// Over how many parts of the text it was made.
    pub parts: usize,
    /// The model that ran.
    pub model: String,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GenerationResult {
    /// Markdown.
    pub content: String,
    /// Words of the content.
    pub word_count: usize,
    /// The same as data, for the types that are lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Items>,
}

/// The items of content that is a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Items {
    /// Of `flashcards`.
    Flashcards(Vec<Flashcard>),
    /// Of `quiz`.
    Quiz(Vec<QuizQuestion>),
    /// Of `chapter_markers`.
    Chapters(Vec<Chapter>),
    /// Of `key_quotes`.
    Quotes(Vec<KeyQuote>),
}

/// The JSON schema of the result.
pub(crate) fn result_schema(kind: GenerationType) -> Value {
    let item = match kind {
        GenerationType::Flashcards => Some(cards::item_schema()),
        GenerationType::Quiz => Some(quiz::item_schema()),
        GenerationType::ChapterMarkers => Some(chapters::item_schema()),
        GenerationType::KeyQuotes => Some(quotes::item_schema()),
        _ => None,
    };
    let content = json!({"type": "string", "minLength": 1});
    let word_count = json!({"type": "integer", "minimum": 0});
    match item {
        Some(item) => schema::object(&[
            ("content", content),
            ("word_count", word_count),
            ("items", json!({"type": "array", "items": item, "minItems": 1})),
        ]),
        None => schema::object(&[("content", content), ("word_count", word_count)]),
    }
}

/// Writes content from a text, in its language.
pub async fn generate(context: &Context<'_>, source: &Source, kind: GenerationType) -> Result<Generation, TextError> {
    if source.is_empty() {
        return Err(TextError::Empty);
    }
    let (content, items, parts) = match kind {
        GenerationType::Flashcards => {
            let (cards, parts) = cards::flashcards(context, source).await?;
            (cards::to_markdown(&cards), Some(Items::Flashcards(cards)), parts)
        }
        GenerationType::Quiz => {
            let (questions, parts) = quiz::quiz(context, source).await?;
            (quiz::to_markdown(&questions), Some(Items::Quiz(questions)), parts)
        }
        GenerationType::ChapterMarkers => {
            let (chapters, parts) = chapters::chapters(context, source).await?;
            (chapters::to_markdown(&chapters), Some(Items::Chapters(chapters)), parts)
        }
        GenerationType::KeyQuotes => {
            let (quotes, parts) = quotes::key_quotes(context, source).await?;
            (quotes::to_markdown(&quotes), Some(Items::Quotes(quotes)), parts)
        }
        _ => {
            let (content, parts) = prose::write(context, source, kind).await?;
            (content, None, parts)
        }
    };
    let word_count = sentences::count_words(&content);
    let result = GenerationResult { content, word_count, items };
    Ok(Generation { r#type: kind, result, parts, model: context.model_name().to_owned() })
}

/// Seconds as `1:02:03` or `2:03`.
fn clock(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}
