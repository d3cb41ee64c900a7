//! Lists that need no account: models and languages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A model that requests may name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Model {
    /// The name that requests use.
    pub id: String,
    /// The name that people read.
    pub name: String,
    /// Who made it.
    pub provider: String,
    /// How many languages it knows.
    pub languages: u32,
    /// The licence of its weights.
    pub license: String,
    /// Who may use it.
    pub tier: ModelTier,
    /// `very_fast`, `fast` or `standard`.
    pub speed: String,
    /// Whether it needs an active paid plan.
    pub paid_only: bool,
    /// Whether the checkpoint that the name means is on this server; where not, another may stand in and `X-Model` says so.
    pub installed: bool,
}

/// Who may use a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelTier {
    /// Everybody.
    Free,
    /// Accounts with an active paid plan.
    Premium,
}

/// The models of the service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelList {
    /// The default first.
    pub models: Vec<Model>,
    /// Always `list`: what OpenAI's clients look for.
    pub object: String,
    /// The same models as OpenAI's clients read them, and the names of OpenAI's that requests may use.
    pub data: Vec<crate::OpenAiModel>,
    /// The models that work on text.
    pub text: Vec<TextModel>,
}

/// A model that works on text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TextModel {
    /// Its name.
    pub id: String,
    /// The name that people read.
    pub name: String,
    /// Who made it.
    pub provider: String,
    /// The licence of its weights.
    pub license: String,
    /// What it does.
    pub task: TextModelTask,
    /// Whether it can be used.
    pub state: ModelState,
    /// While it is pulled: bytes that are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_done: Option<u64>,
    /// While it is pulled: bytes of all of it, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<u64>,
    /// Most tokens of a prompt and its answer, where it is a language model and that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
}

/// What a model that works on text does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextModelTask {
    /// Summaries, analyses, generated content, answers and `/v1/chat/completions`.
    Chat,
    /// Embeddings.
    Embedding,
    /// Translations.
    Translation,
    /// Which language a text is in.
    LanguageIdentification,
}

/// Whether a model can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelState {
    /// It is in memory.
    Loaded,
    /// It is on this server and is loaded when it is needed.
    Installed,
    /// It is being pulled, or waits for that.
    Pulling,
    /// It is not on this server.
    Missing,
    /// It is on another server, which answers.
    Remote,
    /// It is on another server, which does not answer.
    Unreachable,
}

/// A language.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Language {
    /// ISO 639-1 where there is one.
    pub code: String,
    /// Its English name.
    pub name: String,
    /// Its name as its speakers write it.
    pub native_name: String,
}

/// The languages of the service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LanguageList {
    /// By English name.
    pub languages: Vec<Language>,
    /// What is translated by which model, where languages for translation are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub pairs: Option<Vec<LanguagePair>>,
    /// Models between any two of many languages, which serve what no pair does; where languages for translation are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub multilingual: Option<Vec<MultilingualModel>>,
}

/// A model that translates between any two of its languages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MultilingualModel {
    /// The model.
    pub model: String,
    /// The codes of its languages.
    pub languages: Vec<String>,
}

/// Two languages that can be translated between.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LanguagePair {
    /// The language of the text.
    pub from: String,
    /// The language of its translation.
    pub to: String,
    /// The model, or two with a plus between them where English stands between.
    pub model: String,
}
