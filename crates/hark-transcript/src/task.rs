//! What may be made of a text, by the names of the contract.

use serde::{Deserialize, Serialize};

/// How a summary is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SummaryStyle {
    /// A few sentences.
    #[default]
    Brief,
    /// A paragraph for each subject.
    Detailed,
    /// For somebody who decides.
    Executive,
    /// What is to be done, by whom.
    ActionItems,
    /// A list.
    BulletPoints,
}

/// What an analysis looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AnalysisType {
    /// How it feels.
    Sentiment,
    /// What it is about.
    Topics,
    /// People, places, things.
    Entities,
    /// What is to be done.
    ActionItems,
    /// What was asked.
    Questions,
    /// The text without personal data.
    PiiRedact,
}

/// What is written from a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum GenerationType {
    /// An article.
    BlogPost,
    /// Short posts.
    SocialMedia,
    /// Decisions, discussion and tasks.
    MeetingNotes,
    /// What to learn from it.
    StudyGuide,
    /// Questions on the front, answers on the back.
    Flashcards,
    /// Questions with four choices.
    Quiz,
    /// Where each subject begins.
    ChapterMarkers,
    /// What was said, word by word.
    KeyQuotes,
    /// What an episode is about.
    ShowNotes,
    /// A letter to subscribers.
    Newsletter,
}
