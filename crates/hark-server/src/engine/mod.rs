//! What turns recordings into words, as the service sees it: one trait for each thing that an engine can do.

mod budget;
mod error;
mod installed;
#[cfg(feature = "instant-engine")]
mod instant;
#[cfg(feature = "instant-engine")]
mod instant_live;
mod registry;
mod speech;
mod work;

use std::sync::Arc;

use hark_media::Source;
use hark_speech::{CancelToken, Voiceprint};
use hark_store::Capabilities;

pub use budget::{Bytes, default_memory_budget};
pub use error::{Dependency, EngineError};
pub use hark_speech::EngineState;
#[cfg(feature = "instant-engine")]
pub use instant::{InstantEngine, NoModelsEngine};
#[cfg(feature = "instant-engine")]
pub use instant_live::numbered_samples;
pub use speech::{SpeechEngine, SpeechOptions};
pub use work::{LiveHandle, LiveRecognizer, Transcribed, Wake, Work};

/// The capability that naming known speakers takes beside a model.
pub(crate) const IDENTIFY: &str = "identify";

/// Says which models there are and how they are doing.
pub trait Models: Send + Sync + 'static {
    /// The models that requests may name, the default first.
    fn models(&self) -> Vec<hark_api::Model>;

    /// The installed checkpoint that serves the asked name.
    fn resolve(&self, model: &str) -> Result<String, EngineError>;

    /// What jobs may need and this engine has, as [`Models::resolve`] decides it; everything unless it says otherwise.
    fn capabilities(&self) -> Capabilities {
        Capabilities::All
    }

    /// What computes, such as `cpu (amx, 2 threads)`; none where nothing can.
    fn device(&self) -> Option<String>;

    /// How the engines of the models are doing that have been in memory; reads no files.
    fn reports(&self) -> Vec<EngineReport> {
        Vec::new()
    }
}

/// Transcribes recordings.
pub trait Transcribe: Send + Sync + 'static {
    /// Transcribes one recording and blocks meanwhile; `progress` is given the seconds done and, where known, in all.
    fn transcribe(
        &self,
        source: Source,
        work: &Work,
        progress: &mut dyn FnMut(f64, Option<f64>),
        cancel: &CancelToken,
    ) -> Result<Transcribed, EngineError>;
}

/// Transcribes live sound.
pub trait Live: Send + Sync + 'static {
    /// Starts a session, which calls `wake`, from any thread, when there is something to poll for. Blocks while the model is
    /// loaded.
    fn start_session(&self, work: &Work, wake: Wake) -> Result<LiveHandle, EngineError>;
}

/// Recognizes voices.
pub trait Voices: Send + Sync + 'static {
    /// Whether the models for it are installed, or which is missing; reads no files.
    fn check_voices(&self) -> Result<(), EngineError>;

    /// The voiceprint of the one person who speaks in a clip; blocks, until `cancel` calls it off.
    fn voiceprint(&self, source: Source, cancel: CancelToken) -> Result<Voiceprint, EngineError>;
}

/// The engines of a process by what they do; clones share them.
#[derive(Clone)]
pub struct Engines {
    pub(crate) models: Arc<dyn Models>,
    transcribe: Arc<dyn Transcribe>,
    live: Option<Arc<dyn Live>>,
    voices: Option<Arc<dyn Voices>>,
}

impl Engines {
    /// An engine that transcribes recordings and nothing else.
    pub fn new<E: Models + Transcribe>(engine: Arc<E>) -> Self {
        Engines { models: Arc::clone(&engine) as Arc<dyn Models>, transcribe: engine, live: None, voices: None }
    }

    /// Live sound is transcribed by this one.
    pub fn with_live(self, live: Arc<dyn Live>) -> Self {
        Engines { live: Some(live), ..self }
    }

    /// Voices are recognized by this one.
    pub fn with_voices(self, voices: Arc<dyn Voices>) -> Self {
        Engines { voices: Some(voices), ..self }
    }

    /// What transcribes recordings.
    pub(crate) fn transcribe(&self) -> &dyn Transcribe {
        &*self.transcribe
    }

    /// What transcribes live sound.
    pub(crate) fn live(&self) -> Result<&dyn Live, EngineError> {
        self.live.as_deref().ok_or(EngineError::NotLive)
    }

    /// What recognizes voices, once its models are installed.
    pub(crate) fn voices(&self) -> Result<&dyn Voices, EngineError> {
        let voices = self.voices.as_deref().ok_or(EngineError::NoVoices)?;
        voices.check_voices().map(|()| voices)
    }
}

impl From<Arc<SpeechEngine>> for Engines {
    fn from(engine: Arc<SpeechEngine>) -> Self {
        Engines::new(Arc::clone(&engine)).with_live(Arc::clone(&engine) as Arc<dyn Live>).with_voices(engine)
    }
}

impl From<SpeechEngine> for Engines {
    fn from(engine: SpeechEngine) -> Self {
        Arc::new(engine).into()
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
