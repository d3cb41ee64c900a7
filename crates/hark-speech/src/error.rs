//! Errors of transcription.

use std::path::PathBuf;

/// An error of transcription, live or from a file.
#[derive(Debug, thiserror::Error)]
pub enum SpeechError {
    /// The audio could not be read.
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
    /// The device can not be used.
    #[error("cannot use the device {0}")]
    Device(String),
    /// The voice-activity model could not be loaded.
    #[error(transparent)]
    Vad(#[from] crate::vad::VadError),
    /// The diarization networks could not be loaded.
    #[error("cannot load what tells speakers apart: {0}")]
    Speakers(#[from] hark_speakers::SpeakersError),
    /// Speakers were requested, but the transcriber was loaded without diarization networks.
    #[error("speakers can't be told apart: the models that do it are not loaded")]
    NoVoices,
    /// A voice clip has no speech.
    #[error("no speech was heard in the clip: record the voice again, nearer to the microphone")]
    NoSpeech,
    /// A voice clip has too little speech.
    #[error("only {heard:.1} s of speech were heard in the clip: give at least {needed:.0} s, better 10 s or more")]
    TooLittleSpeech {
        /// Seconds that were heard.
        heard: f64,
        /// Seconds that it takes.
        needed: f64,
    },
    /// A voice clip has several voices.
    #[error("{voices} voices were heard in the clip: give one in which only one person speaks")]
    SeveralVoices {
        /// How many.
        voices: usize,
    },
    /// A voice clip is too long.
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
    /// The recording has more channels than can be transcribed apart.
    #[error(
        "the recording has {count} channels, and at most {most} can be transcribed apart: mix them (channels: mono)"
    )]
    TooManyChannels {
        /// How many it has.
        count: usize,
        /// How many there may be.
        most: usize,
    },
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// The device failed, also after it was reloaded.
    #[error("the speech engine failed: {0}")]
    Engine(#[from] hark_whisper::backend::BackendError),
    /// The engine stopped: a defect, reported in the log.
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
