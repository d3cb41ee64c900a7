//! What a model is for.

use serde::{Deserialize, Serialize};

/// The part that a model plays; the catalogue says which model plays it when nothing else is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Speech recognition.
    #[serde(alias = "speech")]
    Transcription,
    /// Voice activity detection.
    Vad,
    /// Speaker segmentation: who speaks when inside a few seconds.
    Segmentation,
    /// Speaker embedding: a vector that is near another of the same voice.
    Embedding,
    /// Text embedding: a vector that is near another of a like meaning.
    #[serde(rename = "text-embedding")]
    TextEmbedding,
    /// Language identification: which language a text is in.
    #[serde(rename = "language-identification")]
    LanguageIdentification,
    /// Translation from one language into another.
    Translation,
    /// A language model: summaries, analyses, generated content, answers.
    #[serde(alias = "text")]
    Language,
    /// Speech synthesis.
    Voice,
    /// Pronunciations of words, for speech synthesis.
    Pronunciation,
    /// Noise reduction.
    Enhance,
    /// A library that runs models of other roles.
    Runtime,
    /// Recordings for tests; not listed by default.
    Sounds,
    /// Anything else a user's catalogue brings.
    #[serde(alias = "speakers")]
    Other,
}

impl Role {
    /// Whether transcription, with speakers, needs a model of this role.
    pub fn is_for_speech(self) -> bool {
        matches!(self, Role::Transcription | Role::Vad | Role::Segmentation | Role::Embedding)
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Role::Transcription => "transcription",
            Role::Vad => "voice activity detection",
            Role::Segmentation => "speaker segmentation",
            Role::Embedding => "speaker embedding",
            Role::TextEmbedding => "text embedding",
            Role::LanguageIdentification => "language identification",
            Role::Translation => "translation",
            Role::Language => "language model",
            Role::Voice => "speech synthesis",
            Role::Pronunciation => "pronunciation",
            Role::Enhance => "noise reduction",
            Role::Runtime => "runtime library",
            Role::Sounds => "test sounds",
            Role::Other => "other",
        })
    }
}
