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
