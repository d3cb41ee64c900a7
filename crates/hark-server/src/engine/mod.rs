//! The engines of the service: one trait for each capability.

mod budget;
mod catalogue;
mod embed;
mod enhance;
mod error;
mod installed;
#[cfg(feature = "instant-engine")]
mod instant;
#[cfg(feature = "instant-engine")]
mod instant_live;
mod language;
mod pulls;
mod registry;
mod speak;
mod speech;
mod text_models;
mod translate;
mod turns;
mod work;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hark_media::Source;
use hark_speech::{CancelToken, Progress, Voiceprint};
use hark_store::Capabilities;
use hark_text::LanguageModel;
use hark_voice::{FileFormat, PresetVoice, Spoken};

pub use budget::{Bytes, default_memory_budget};
pub use embed::EmbeddedTexts;
pub use enhance::{EnhanceWork, Enhanced, SoundFormat, SoundOutput};
pub use error::{Dependency, EngineError};
pub use hark_speech::{EngineState, EngineStats, GpuReading};
#[cfg(feature = "instant-engine")]
pub use instant::{InstantEngine, NoModelsEngine};
#[cfg(feature = "instant-engine")]
pub use instant_live::numbered_samples;
pub use language::{LanguageOptions, LanguageReport};
pub use pulls::{PullRefusal, Pulls};
pub use speak::{SpeechStage, SpeechVoice, SpeechWork};
pub use speech::{SpeechEngine, SpeechOptions};
pub use translate::{MultilingualTranslation, TranslatedTexts, TranslationLanguages, TranslationPair};
pub(crate) use translate::{TRANSLATIONS_AT_ONCE, base_language};
pub use work::{LiveHandle, LiveRecognizer, Transcribed, Wake, Work};

/// The capability that naming known speakers needs in addition to a model.
pub(crate) const IDENTIFY: &str = "identify";

/// The capability that noise reduction needs.
pub(crate) const ENHANCE: &str = "enhance";

/// The models of an engine and their state.
pub trait Models: Send + Sync + 'static {
    /// The models that requests may name, the default first.
    fn models(&self) -> Vec<hark_api::Model>;

    /// The models that work on text, the language model first; none by default.
    fn text_models(&self) -> Vec<hark_api::TextModel> {
        Vec::new()
    }

    /// Every model of the catalogue, with how far its pull is; looks at the models folder. None by default.
    fn catalogue(&self) -> Vec<hark_api::CatalogueModel> {
        Vec::new()
    }

    /// Pulls a model of the catalogue in the background, after those that are being pulled; looks at the models folder.
    fn pull(&self, _name: &str) -> Result<(), PullRefusal> {
        Err(PullRefusal::Unknown)
    }

    /// The recording to try the service with, where it is installed; looks at the models folder.
    fn sample(&self) -> Option<PathBuf> {
        None
    }

    /// The installed checkpoint that serves the requested name.
    fn resolve(&self, model: &str) -> Result<String, EngineError>;

    /// The capabilities of this engine for jobs, by [`Models::resolve`]; all by default.
    fn capabilities(&self) -> Capabilities {
        Capabilities::All
    }

    /// The name of the backend, such as `cpu (amx, 2 threads)`; `None` without one.
    fn device(&self) -> Option<String>;

    /// What the GPUs do that decode here.
    fn gpus(&self) -> Vec<GpuReading> {
        Vec::new()
    }

    /// The state of the engines of all models that were loaded; reads no files.
    fn reports(&self) -> Vec<EngineReport> {
        Vec::new()
    }

    /// Frees the memory of models that nobody has used for so long; returns how many. Blocks while they are unloaded.
    fn unload_idle(&self, _after: Duration) -> usize {
        0
    }
}

/// Transcribes recordings.
pub trait Transcribe: Send + Sync + 'static {
    /// Transcribes one recording and blocks meanwhile; `progress` gets what is done.
    fn transcribe(
        &self,
        source: Source,
        work: &Work,
        progress: &mut dyn FnMut(Progress<'_>),
        cancel: &CancelToken,
    ) -> Result<Transcribed, EngineError>;
}

/// Transcribes live audio.
pub trait Live: Send + Sync + 'static {
    /// Starts a session, which calls `wake`, from any thread, when it should be polled. Blocks while the model is
    /// loaded.
    fn start_session(&self, work: &Work, wake: Wake) -> Result<LiveHandle, EngineError>;
}

/// Recognizes voices.
pub trait Voices: Send + Sync + 'static {
    /// Whether the models for it are installed, or which is missing; reads no files.
    fn check_voices(&self) -> Result<(), EngineError>;

    /// The voiceprint of the speaker of a clip; blocks, until cancelled by `cancel`.
    fn voiceprint(&self, source: Source, cancel: CancelToken) -> Result<Voiceprint, EngineError>;
}

/// Embeds texts.
pub trait Embed: Send + Sync + 'static {
    /// Whether the model for it is installed; reads no files.
    fn check_embed(&self) -> Result<(), EngineError>;

    /// The name of the model; reads no files.
    fn embed_model(&self) -> Result<String, EngineError>;

    /// The vectors of texts, in their order; blocks, until cancelled by `cancel`.
    fn embed(&self, texts: &[String], cancel: &CancelToken) -> Result<EmbeddedTexts, EngineError>;
}

/// Takes the noise out of recordings.
pub trait Enhance: Send + Sync + 'static {
    /// Whether the model for it is installed; reads no files.
    fn check_enhance(&self) -> Result<(), EngineError>;

    /// Whether results of a format can be written on this machine; looks for a program.
    fn check_format(&self, format: SoundFormat) -> Result<(), EngineError> {
        format.check(None)
    }

    /// Writes a recording without its noise and blocks meanwhile; `progress` gets the seconds done and, if known, the total. The first bytes of a WAV file
    /// are to be replaced by the header of its length.
    fn enhance(
        &self,
        source: Source,
        work: &EnhanceWork,
        out: SoundOutput,
        progress: &mut dyn FnMut(f64, Option<f64>),
        cancel: &CancelToken,
    ) -> Result<Enhanced, EngineError>;
}

/// Language models.
pub trait Language: Send + Sync + 'static {
    /// Whether the model is installed; reads no files.
    fn check_language(&self) -> Result<(), EngineError>;

    /// The name of the model, whether it is installed or not; reads no files. `None` where an endpoint was not asked yet.
    fn language_model_name(&self) -> Result<Option<String>, EngineError>;

    /// What the language model does and did; reads no files.
    fn language_report(&self) -> LanguageReport {
        LanguageReport::default()
    }

    /// The language model, which stays loaded as long as this is held; blocks while it is loaded.
    fn language(&self) -> Result<Arc<dyn LanguageModel>, EngineError>;
}

/// Translates texts.
pub trait Translate: Send + Sync + 'static {
    /// Whether a model is installed; reads no files.
    fn check_translate(&self) -> Result<(), EngineError>;

    /// What the installed models translate between; the first call may read the tokenizers of models.
    fn translation_languages(&self) -> TranslationLanguages;

    /// A language code as the models spell it: `pt` for `pt-BR`, `zh_Hant` for `zh-hant` where a model knows that. A code of no language is an error.
    fn language_code(&self, code: &str) -> Result<String, EngineError>;

    /// The most likely language of a text; blocks while the model is loaded.
    fn detect_language(&self, text: &str) -> Result<String, EngineError>;

    /// Translates texts into `target`, from `source` or the language that each is in; blocks, until cancelled by `cancel`. `owner` is whose request it is: a
    /// language model, which needs the runtime's context, is fair between owners.
    fn translate(
        &self,
        texts: &[String],
        source: Option<&str>,
        target: &str,
        owner: u64,
        cancel: &CancelToken,
    ) -> Result<TranslatedTexts, EngineError>;
}

/// Speaks texts.
pub trait Speak: Send + Sync + 'static {
    /// Whether the models for it are installed, or which is missing; `with_reference` asks for those that compare voices, too. Reads no files.
    fn check_speak(&self, with_reference: bool) -> Result<(), EngineError>;

    /// Whether files of a format can be written on this machine; looks for a program.
    fn check_format(&self, format: FileFormat) -> Result<(), EngineError> {
        Ok(format.check(None)?)
    }

    /// How many speeches may run at once: the memory of so many is counted.
    fn at_once(&self) -> usize;

    /// The voices that come with the model, by name; lists a folder.
    fn preset_voices(&self) -> Result<Vec<PresetVoice>, EngineError>;

    /// Speaks a text into a marked file that goes to `out`; blocks, until cancelled by `cancel`. `stage` is told how it will be spoken, and when there is something to hear,
    /// before anything is written.
    fn speak(
        &self,
        work: &SpeechWork,
        out: Box<dyn std::io::Write + Send>,
        stage: &mut dyn FnMut(SpeechStage),
        cancel: &CancelToken,
    ) -> Result<Spoken, EngineError>;
}

/// The engines of a process by capability; clones share them.
#[derive(Clone)]
pub struct Engines {
    pub(crate) models: Arc<dyn Models>,
    transcribe: Arc<dyn Transcribe>,
    live: Option<Arc<dyn Live>>,
    voices: Option<Arc<dyn Voices>>,
    embed: Option<Arc<dyn Embed>>,
    language: Option<Arc<dyn Language>>,
    translate: Option<Arc<dyn Translate>>,
    enhance: Option<Arc<dyn Enhance>>,
    speak: Option<Arc<dyn Speak>>,
}

impl Engines {
    /// With an engine that only transcribes recordings.
    pub fn new<E: Models + Transcribe>(engine: Arc<E>) -> Self {
        let models = Arc::clone(&engine) as Arc<dyn Models>;
        Engines {
            models,
            transcribe: engine,
            live: None,
            voices: None,
            embed: None,
            language: None,
            translate: None,
            enhance: None,
            speak: None,
        }
    }

    /// Sets the engine for live audio.
    pub fn with_live(self, live: Arc<dyn Live>) -> Self {
        Engines { live: Some(live), ..self }
    }

    /// Sets the engine for voices.
    pub fn with_voices(self, voices: Arc<dyn Voices>) -> Self {
        Engines { voices: Some(voices), ..self }
    }

    /// Sets the engine for text embeddings.
    pub fn with_embed(self, embed: Arc<dyn Embed>) -> Self {
        Engines { embed: Some(embed), ..self }
    }

    /// Sets the engine for language models.
    pub fn with_language(self, language: Arc<dyn Language>) -> Self {
        Engines { language: Some(language), ..self }
    }

    /// Sets the engine for translations.
    pub fn with_translate(self, translate: Arc<dyn Translate>) -> Self {
        Engines { translate: Some(translate), ..self }
    }

    /// Sets the engine for noise reduction.
    pub fn with_enhance(self, enhance: Arc<dyn Enhance>) -> Self {
        Engines { enhance: Some(enhance), ..self }
    }

    /// Sets the engine for speech synthesis.
    pub fn with_speak(self, speak: Arc<dyn Speak>) -> Self {
        Engines { speak: Some(speak), ..self }
    }

    /// The engine for recordings.
    pub(crate) fn transcribe(&self) -> &dyn Transcribe {
        &*self.transcribe
    }

    /// The engine for live audio.
    pub(crate) fn live(&self) -> Result<&dyn Live, EngineError> {
        self.live.as_deref().ok_or(EngineError::NotLive)
    }

    /// The engine for voices, if its models are installed.
    pub(crate) fn voices(&self) -> Result<&dyn Voices, EngineError> {
        let voices = self.voices.as_deref().ok_or(EngineError::NoVoices)?;
        voices.check_voices().map(|()| voices)
    }

    /// The engine for text embeddings, if its model is installed.
    pub(crate) fn embed(&self) -> Result<&dyn Embed, EngineError> {
        let embed = self.embed.as_deref().ok_or(EngineError::NoEmbeddings)?;
        embed.check_embed().map(|()| embed)
    }

    /// The engine for translations, if a model is installed.
    pub(crate) fn translate(&self) -> Result<&dyn Translate, EngineError> {
        let translate = self.translate.as_deref().ok_or(EngineError::NoTranslationModel)?;
        translate.check_translate().map(|()| translate)
    }

    /// The engine for noise reduction, if its model is installed.
    pub(crate) fn enhance(&self) -> Result<&dyn Enhance, EngineError> {
        let enhance = self.enhance.as_deref().ok_or(EngineError::NoEnhancement)?;
        enhance.check_enhance().map(|()| enhance)
    }

    /// The engine for speech synthesis, if its models are installed.
    pub(crate) fn speak(&self, with_reference: bool) -> Result<&Arc<dyn Speak>, EngineError> {
        let speak = self.speak.as_ref().ok_or(EngineError::NoSpeechModel)?;
        speak.check_speak(with_reference).map(|()| speak)
    }

    /// How many speeches may run at once.
    pub(crate) fn speeches_at_once(&self) -> usize {
        self.speak.as_ref().map_or(1, |speak| speak.at_once())
    }

    /// The name of the language model, whether it is installed or not.
    pub(crate) fn language_model_name(&self) -> Result<Option<String>, EngineError> {
        self.language.as_ref().ok_or(EngineError::NoLanguageModel)?.language_model_name()
    }

    /// What the language model does and did.
    pub(crate) fn language_report(&self) -> LanguageReport {
        self.language.as_ref().map(|language| language.language_report()).unwrap_or_default()
    }

    /// The engine for language models, if one is installed.
    pub(crate) fn language(&self) -> Result<&Arc<dyn Language>, EngineError> {
        let language = self.language.as_ref().ok_or(EngineError::NoLanguageModel)?;
        language.check_language().map(|()| language)
    }
}

impl From<Arc<SpeechEngine>> for Engines {
    fn from(engine: Arc<SpeechEngine>) -> Self {
        Engines::new(Arc::clone(&engine))
            .with_live(Arc::clone(&engine) as Arc<dyn Live>)
            .with_voices(Arc::clone(&engine) as Arc<dyn Voices>)
            .with_embed(Arc::clone(&engine) as Arc<dyn Embed>)
            .with_language(Arc::clone(&engine) as Arc<dyn Language>)
            .with_translate(Arc::clone(&engine) as Arc<dyn Translate>)
            .with_enhance(Arc::clone(&engine) as Arc<dyn Enhance>)
            .with_speak(engine)
    }
}

impl From<SpeechEngine> for Engines {
    fn from(engine: SpeechEngine) -> Self {
        Arc::new(engine).into()
    }
}

/// The state of the engine of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineReport {
    /// The model.
    pub model: String,
    /// Its state; `None` while it is not in memory, or being loaded for the first time.
    pub state: Option<EngineState>,
    /// How often it failed and was reloaded.
    pub restarts: u64,
    /// Its maximum memory in bytes, while it is loaded.
    pub bytes: u64,
    /// What it has done since it was loaded.
    pub work: EngineStats,
}
