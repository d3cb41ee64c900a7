//! What can go wrong between a file and its words.

use std::path::PathBuf;

/// Why there is no transcript.
#[derive(Debug, thiserror::Error)]
pub enum SpeechError {
    /// The sound could not be read.
    #[error(transparent)]
    Media(hark_media::MediaError),
    /// The speech model could not be loaded.
    #[error("cannot load the speech model in {}: {source}", dir.display())]
    Model {
        /// The model's folder.
        dir: PathBuf,
        /// Why not.
        source: hark_whisper::weights::WeightsError,
    },
    /// The voice-activity model could not be loaded.
    #[error(transparent)]
    Vad(#[from] crate::vad::VadError),
    /// The networks that tell voices apart could not be loaded.
    #[error("cannot load what tells speakers apart: {0}")]
    Speakers(#[from] hark_speakers::SpeakersError),
    /// Speakers were asked for, and the transcriber was loaded without what tells them apart.
    #[error("speakers can't be told apart: the models that do it are not loaded")]
    NoVoices,
    /// A clip that should show a voice holds none.
    #[error("no speech was heard in the clip: record the voice again, nearer to the microphone")]
    NoSpeech,
    /// A clip holds too little of a voice to know it again.
    #[error("only {heard:.1} s of speech were heard in the clip: give at least {needed:.0} s, better 10 s or more")]
    TooLittleSpeech {
        /// Seconds that were heard.
        heard: f64,
        /// Seconds that it takes.
        needed: f64,
    },
    /// A clip that should show one voice holds others too.
    #[error("{voices} voices were heard in the clip: give one in which only one person speaks")]
    SeveralVoices {
        /// How many.
        voices: usize,
    },
    /// A clip goes on for longer than it takes to know a voice.
    #[error("the clip is longer than {minutes} minutes: half a minute of one voice is enough")]
    ClipTooLong {
        /// How long one may be.
        minutes: usize,
    },
    /// The language is not one the model knows.
    #[error("the model does not know the language '{0}': use a code such as en, es or zh, or auto")]
    Language(String),
    /// The model only knows English.
    #[error("{0} needs a multilingual model: this one only knows English")]
    EnglishOnly(&'static str),
    /// The caller called it off.
    #[error("cancelled")]
    Cancelled,
    /// The device that decodes failed, again and again where it could be loaded again.
    #[error("the speech engine failed: {0}")]
    Engine(#[from] hark_whisper::backend::BackendError),
    /// The engine stopped: a defect of ours, told in the log.
    #[error("the speech engine stopped unexpectedly; restart hark and report this with its log")]
    EngineStopped,
}

impl From<hark_media::MediaError> for SpeechError {
    fn from(error: hark_media::MediaError) -> Self {
        match error {
            hark_media::MediaError::Cancelled => SpeechError::Cancelled,
            other => SpeechError::Media(other),
        }
    }
}
