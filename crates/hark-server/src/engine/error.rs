//! Errors of engines, and their fault kinds.

use hark_api::{ApiError, ErrorKind, FaultKind};
use hark_speech::{BackendError, SpeechError};

/// An error of an engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// There is no model of that name.
    #[error("there is no model {0:?}: GET /v1/models lists them")]
    UnknownModel(String),
    /// The model is not on this server.
    #[error("the model {0} is not installed on this server; `hark models pull {0}` installs it")]
    ModelMissing(String),
    /// The model is not on this server yet: it is being pulled.
    #[error("the model {name} is being pulled{}; try again soon", percent.map_or_else(String::new, |percent| format!(" ({percent} %)")))]
    ModelComing {
        /// The model.
        name: String,
        /// How much of it is there.
        percent: Option<u8>,
    },
    /// The engine only takes recordings.
    #[error("this server does not transcribe live sound")]
    NotLive,
    /// Diarization is not available.
    #[error("this server does not know voices")]
    NoVoices,
    /// Text embeddings are not available.
    #[error("this server has no model for embeddings")]
    NoEmbeddings,
    /// There is no language model.
    #[error("this server has no language model")]
    NoLanguageModel,
    /// There is no translation model.
    #[error("this server has no translation model")]
    NoTranslationModel,
    /// There is no noise reduction model.
    #[error("this server has no model for noise reduction")]
    NoEnhancement,
    /// The program that writes a format is not installed.
    #[error("this server can't write {0}: ffmpeg is not installed on it; ask for audio/wav")]
    NoEncoder(&'static str),
    /// There is no speech model.
    #[error("this server has no speech model")]
    NoSpeechModel,
    /// The text, its language, voice or speed can't be spoken.
    #[error("{0}")]
    Unspeakable(String),
    /// A program or a model is missing that speaking needs.
    #[error("{0}")]
    CannotSpeak(String),
    /// No installed model translates between these languages.
    #[error("this server does not translate from {from} to {to}; it translates {}", there.join(", "))]
    NoTranslation {
        /// The language of the text.
        from: String,
        /// The language to translate into.
        to: String,
        /// What it translates.
        there: Vec<String>,
    },
    /// A code that is no language's.
    #[error(
        "{0:?} is the code of no language: give one such as es; GET /v1/languages?for=translation lists those that are translated"
    )]
    UnknownLanguage(String),
    /// The language of a text could not be found out.
    #[error("the language of a text could not be found out: give `source_language`")]
    NoLanguage,
    /// The recording or its options are invalid: a retry fails the same way.
    #[error("{0}")]
    Unusable(String),
    /// The recording exceeds the owner's credits or quota: a retry fails the same way.
    #[error("{0}")]
    NotCovered(String),
    /// It was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// An internal error; the attempt counts, and a retry may succeed.
    #[error("{0}")]
    Failed(String),
    /// A dependency is unreachable: a retry succeeds once it is back, and the attempt does not count.
    #[error("{reason}")]
    Unavailable {
        /// The unreachable dependency.
        dependency: Dependency,
        /// Why, for the log.
        reason: String,
    },
}

/// `Retry-After` while a model is being pulled, in seconds.
const COMING_RETRY: u64 = 30;
/// `Retry-After` while a dependency is unreachable, in seconds.
const UNAVAILABLE_RETRY: u64 = 15;

/// A dependency of a transcription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dependency {
    /// The recording can't be read from storage.
    Recordings,
    /// The model can't be loaded, or its device is lost or out of memory.
    Engine,
    /// The program that reads the format is not installed.
    Decoder,
}

impl Dependency {
    /// The name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Dependency::Recordings => "recordings",
            Dependency::Engine => "engine",
            Dependency::Decoder => "decoder",
        }
    }
}

impl EngineError {
    /// A dependency is unreachable.
    pub fn unavailable(dependency: Dependency, reason: impl std::fmt::Display) -> Self {
        EngineError::Unavailable { dependency, reason: reason.to_string() }
    }

    /// The fault kind of a job that fails with this error.
    pub fn fault(&self) -> FaultKind {
        match self {
            EngineError::Unusable(_)
            | EngineError::Unspeakable(_)
            | EngineError::NoLanguage
            | EngineError::UnknownLanguage(_) => FaultKind::Input,
            EngineError::NotCovered(_) => FaultKind::Credits,
            EngineError::Cancelled => FaultKind::Cancelled,
            EngineError::Failed(_) => FaultKind::Internal,
            // Another worker may have the model.
            EngineError::UnknownModel(_)
            | EngineError::ModelMissing(_)
            | EngineError::ModelComing { .. }
            | EngineError::NotLive
            | EngineError::NoVoices
            | EngineError::NoEmbeddings
            | EngineError::NoLanguageModel
            | EngineError::NoTranslationModel
            | EngineError::NoEnhancement
            | EngineError::NoEncoder(_)
            | EngineError::NoSpeechModel
            | EngineError::CannotSpeak(_)
            | EngineError::NoTranslation { .. }
            | EngineError::Unavailable { .. } => FaultKind::Unavailable,
        }
    }
}

impl From<SpeechError> for EngineError {
    fn from(error: SpeechError) -> Self {
        match error {
            SpeechError::Cancelled => EngineError::Cancelled,
            SpeechError::Media(hark_media::MediaError::Io(_)) => {
                EngineError::unavailable(Dependency::Recordings, error)
            }
            SpeechError::Media(hark_media::MediaError::FfmpegMissing { .. }) => {
                EngineError::unavailable(Dependency::Decoder, error)
            }
            SpeechError::Media(_)
            | SpeechError::Language(_)
            | SpeechError::EnglishOnly(_)
            | SpeechError::NoSpeech
            | SpeechError::TooLittleSpeech { .. }
            | SpeechError::SeveralVoices { .. }
            | SpeechError::TooManyChannels { .. }
            | SpeechError::ClipTooLong { .. } => EngineError::Unusable(error.to_string()),
            SpeechError::Model { .. }
            | SpeechError::Device(_)
            | SpeechError::Vad(_)
            | SpeechError::Speakers(_)
            | SpeechError::NoVoices => EngineError::unavailable(Dependency::Engine, error),
            SpeechError::Engine(BackendError::OutOfMemory(_) | BackendError::DeviceLost(_)) => {
                EngineError::unavailable(Dependency::Engine, error)
            }
            // The recording may be the cause, so the attempt counts.
            SpeechError::Engine(BackendError::Fault(_)) | SpeechError::EngineStopped => {
                EngineError::Failed(error.to_string())
            }
        }
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let kind = match &error {
            EngineError::UnknownModel(_) => ErrorKind::UnknownModel,
            EngineError::ModelComing { .. } => {
                return ApiError::new(ErrorKind::ModelMissing, error.to_string()).retry_after(COMING_RETRY);
            }
            EngineError::ModelMissing(_)
            | EngineError::NotLive
            | EngineError::NoVoices
            | EngineError::NoEmbeddings
            | EngineError::NoLanguageModel
            | EngineError::NoTranslationModel
            | EngineError::NoEnhancement
            | EngineError::NoEncoder(_)
            | EngineError::NoSpeechModel
            | EngineError::CannotSpeak(_)
            | EngineError::NoTranslation { .. } => ErrorKind::ModelMissing,
            EngineError::NoLanguage | EngineError::UnknownLanguage(_) | EngineError::Unspeakable(_) => {
                ErrorKind::InvalidInput
            }
            EngineError::Unusable(_) => ErrorKind::UnreadableMedia,
            EngineError::NotCovered(_) => ErrorKind::InsufficientCredits,
            EngineError::Unavailable { .. } => {
                tracing::error!(%error, "engine.unavailable");
                return ApiError::from(ErrorKind::Unavailable).retry_after(UNAVAILABLE_RETRY);
            }
            EngineError::Cancelled | EngineError::Failed(_) => {
                tracing::error!(%error, "engine.error");
                return ErrorKind::Internal.into();
            }
        };
        ApiError::new(kind, error.to_string())
    }
}
