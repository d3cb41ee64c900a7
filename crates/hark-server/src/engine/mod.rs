//! What turns recordings into words, as the service sees it.

mod budget;
mod installed;
#[cfg(feature = "instant-engine")]
mod instant;
mod loaded;
mod speech;

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use hark_api::{ApiError, ErrorKind, FaultKind, TranscriptionResult};
use hark_media::Source;
use hark_speech::live::LiveSession;
use hark_speech::{BackendError, CancelToken, SpeechError, Voiceprint};
use hark_store::Capabilities;
use serde::{Deserialize, Serialize};

pub use budget::{Bytes, default_memory_budget};
pub use hark_speech::EngineState;
#[cfg(feature = "instant-engine")]
pub use instant::{InstantEngine, NoModelsEngine};
pub use speech::{SpeechEngine, SpeechOptions};

/// The capability that naming known speakers takes beside a model.
pub(crate) const IDENTIFY: &str = "identify";

/// Turns recordings into words; blocks while it does.
pub trait Engine: Send + Sync + 'static {
    /// The models that requests may name, the default first.
    fn models(&self) -> Vec<hark_api::Model>;

    /// The installed checkpoint that serves the asked name.
    fn resolve(&self, model: &str) -> Result<String, EngineError>;

    /// What jobs may need and this engine has, as [`Engine::resolve`] decides it; everything unless it says otherwise.
    fn capabilities(&self) -> Capabilities {
        Capabilities::All
    }

    /// Transcribes one recording; `progress` hears seconds done and, where known, seconds in all.
    fn transcribe(
        &self,
        source: Source,
        work: &Work,
        progress: &mut dyn FnMut(f64, Option<f64>),
        cancel: &CancelToken,
    ) -> Result<Transcribed, EngineError>;

    /// The print of the one voice that a clip holds.
    fn print(&self, source: Source) -> Result<Voiceprint, EngineError> {
        let _ = source;
        Err(EngineError::NoVoices)
    }

    /// Whether voices can be known here, or what is missing for it.
    fn knows_voices(&self) -> Result<(), EngineError> {
        Err(EngineError::NoVoices)
    }

    /// Begins to listen to live sound; calls `wake`, from any thread, when there is something to poll for.
    fn live(&self, work: &Work, wake: Wake) -> Result<Live, EngineError> {
        let _ = (work, wake);
        Err(EngineError::NotLive)
    }

    /// What computes, such as `cpu (amx, 2 threads)`; none where nothing can.
    fn device(&self) -> Option<String>;

    /// How the engines of the models are doing that have been in memory; asks no disk.
    fn reports(&self) -> Vec<EngineReport> {
        Vec::new()
    }
}

/// How the engine of a model is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineReport {
    /// The model.
    pub model: String,
    /// Its state; none while it is not in memory, or being loaded for the first time.
    pub state: Option<EngineState>,
    /// How often it failed and was loaded again.
    pub restarts: u64,
    /// Bytes of memory that it may take at most, while it is there.
    pub bytes: u64,
}

/// A recording as words.
#[derive(Debug, Clone, Default)]
pub struct Transcribed {
    /// What was said, speakers by their labels.
    pub result: TranscriptionResult,
    /// Names of the speakers whose voices are known, by label.
    pub names: BTreeMap<String, String>,
}

/// A live session, with what must be there as long as it is: the model that it listens with.
pub struct Live {
    // Goes first.
    session: LiveSession,
    _needs: Box<dyn Send>,
}

impl Live {
    /// A session that holds on to what it needs until it ends.
    pub fn new(session: LiveSession, needs: impl Send + 'static) -> Self {
        Live { session, _needs: Box::new(needs) }
    }
}

impl Deref for Live {
    type Target = LiveSession;

    fn deref(&self) -> &LiveSession {
        &self.session
    }
}

impl DerefMut for Live {
    fn deref_mut(&mut self) -> &mut LiveSession {
        &mut self.session
    }
}

/// Called when a live session has something to say.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// What is wanted of a recording: kept with its job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// The checkpoint that runs.
    pub model: String,
    /// Language code; found out when not given.
    pub language: Option<String>,
    /// Whether to tell speakers apart.
    pub diarize: bool,
    /// How many speakers there are; 0 finds out.
    pub speakers: u32,
    /// Whether to name the speakers whose voices the account knows.
    pub identify: bool,
    /// Those voices, looked up when the work begins: a print is written down in one place only.
    #[serde(skip)]
    pub known: Vec<(String, Voiceprint)>,
    /// How much of the recording may be decoded, as it turns out how long it really is.
    #[serde(skip)]
    pub budget: hark_media::Budget,
    /// Whether to write English whatever is spoken.
    pub translate: bool,
    /// Whether every word gets its time.
    pub word_timestamps: bool,
    /// Text that could stand before the recording.
    pub prompt: Option<String>,
    /// Words to expect.
    pub hotwords: Option<String>,
    /// How freely words are chosen, 0 to 1; the engine's own way when not given.
    pub temperature: Option<f32>,
}

impl Default for Work {
    fn default() -> Self {
        Work {
            model: String::new(),
            language: None,
            diarize: true,
            speakers: 0,
            identify: false,
            known: Vec::new(),
            budget: hark_media::Budget::default(),
            translate: false,
            word_timestamps: true,
            prompt: None,
            hotwords: None,
            temperature: None,
        }
    }
}

/// Why there are no words.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The name is that of no model.
    #[error("there is no model {0:?}: GET /v1/models lists them")]
    UnknownModel(String),
    /// The model is not on this server.
    #[error("the model {0} is not installed on this server; `hark models pull {0}` installs it")]
    ModelMissing(String),
    /// The engine only takes recordings.
    #[error("this server does not transcribe live sound")]
    NotLive,
    /// The engine can't tell voices apart.
    #[error("this server does not know voices")]
    NoVoices,
    /// The recording or what was asked of it is at fault: another try ends the same.
    #[error("{0}")]
    Unusable(String),
    /// The recording costs more than its owner has: another try ends the same.
    #[error("{0}")]
    NotCovered(String),
    /// Somebody called it off.
    #[error("cancelled")]
    Cancelled,
    /// Our fault; the attempt counts, and another one may succeed.
    #[error("{0}")]
    Failed(String),
    /// Something that the work depends on is away: another try succeeds once it is back, and the attempt does not count.
    #[error("{reason}")]
    Unavailable {
        /// What is away.
        dependency: Dependency,
        /// Why, for the log.
        reason: String,
    },
}

/// What the work on a recording depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dependency {
    /// The recording can't be read where it is kept.
    Recordings,
    /// The model can't be loaded, or what it computes on is lost or out of memory.
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
    /// Something that the work depends on is away.
    pub fn unavailable(dependency: Dependency, reason: impl std::fmt::Display) -> Self {
        EngineError::Unavailable { dependency, reason: reason.to_string() }
    }

    /// Whose fault it is when a job ends with this error.
    pub fn fault(&self) -> FaultKind {
        match self {
            EngineError::Unusable(_) => FaultKind::Input,
            EngineError::NotCovered(_) => FaultKind::Credits,
            EngineError::Cancelled => FaultKind::Cancelled,
            EngineError::Failed(_) => FaultKind::Internal,
            // A worker that lacks a model does not speak for the others.
            EngineError::UnknownModel(_)
            | EngineError::ModelMissing(_)
            | EngineError::NotLive
            | EngineError::NoVoices
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
            | SpeechError::ClipTooLong { .. } => EngineError::Unusable(error.to_string()),
            SpeechError::Model { .. } | SpeechError::Vad(_) | SpeechError::Speakers(_) | SpeechError::NoVoices => {
                EngineError::unavailable(Dependency::Engine, error)
            }
            SpeechError::Engine(BackendError::OutOfMemory(_) | BackendError::DeviceLost(_)) => {
                EngineError::unavailable(Dependency::Engine, error)
            }
            // The recording may be what stopped it, so the attempt counts.
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
            EngineError::ModelMissing(_) | EngineError::NotLive | EngineError::NoVoices => ErrorKind::ModelMissing,
            EngineError::Unusable(_) => ErrorKind::UnreadableMedia,
            EngineError::NotCovered(_) => ErrorKind::InsufficientCredits,
            EngineError::Unavailable { .. } => {
                tracing::error!(%error, "engine.unavailable");
                return ErrorKind::Unavailable.into();
            }
            EngineError::Cancelled | EngineError::Failed(_) => {
                tracing::error!(%error, "the engine failed");
                return ErrorKind::Internal.into();
            }
        };
        ApiError::new(kind, error.to_string())
    }
}
