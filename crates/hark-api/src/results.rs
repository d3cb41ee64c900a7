//! What is stored with a transcript because it was made of it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DateTime;

/// What is stored with a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TranscriptResults {
    /// The newest first.
    pub results: Vec<StoredResult>,
}

/// The kind of a stored result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResultKind {
    /// A summary.
    Summary,
    /// An analysis.
    Analysis,
    /// Generated content.
    Generation,
    /// A translation.
    Translation,
    /// A conversation.
    Chat,
}

/// Something that was made of a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredResult {
    /// Its id among those of the transcript, such as `summary:brief`.
    pub id: String,
    /// Its kind.
    pub kind: ResultKind,
    /// The style of a summary, the type of an analysis or content, the language of a translation, the `session_id` of a conversation.
    pub name: String,
    /// When it was made; of a conversation, its last answer.
    pub made_at: DateTime,
}

/// A stored result with what it says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StoredResultDetail {
    /// Its id.
    pub id: String,
    /// Its kind.
    pub kind: ResultKind,
    /// As in the list.
    pub name: String,
    /// What the request that made it was answered, with `cached`; not for a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub answer: Option<serde_json::Value>,
    /// The last questions of a conversation, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<Vec<ConversationTurn>>,
}

/// A question and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConversationTurn {
    /// The question.
    pub question: String,
    /// The answer; its sources are not stored.
    pub answer: String,
    /// When it was answered.
    pub answered_at: DateTime,
}
