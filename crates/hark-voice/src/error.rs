//! Errors of speech, and who has to act on them.

use hark_clone::CloneError;
use hark_media::MediaError;
use hark_onnx::OnnxError;
use hark_say::SayError;
use hark_speakers::SpeakersError;
use hark_speech::vad::VadError;
use hark_tts::TtsError;
use hark_watermark::WatermarkError;

/// Why nothing was spoken.
#[derive(Debug, thiserror::Error)]
pub enum VoiceError {
    /// The text can't be pronounced.
    #[error(transparent)]
    Say(#[from] SayError),
    /// The speech model refused or failed.
    #[error(transparent)]
    Tts(#[from] TtsError),
    /// The watermark can't be embedded.
    #[error(transparent)]
    Watermark(#[from] WatermarkError),
    /// The file can't be written.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The speaker embedding can't be loaded.
    #[error(transparent)]
    Speakers(#[from] SpeakersError),
    /// The voice-activity network can't be loaded.
    #[error(transparent)]
    Vad(#[from] VadError),
    /// The text is longer than is spoken at once.
    #[error("the text has {characters} characters; at most {limit} are spoken at once")]
    TooLong {
        /// Characters of the text.
        characters: usize,
        /// The limit.
        limit: usize,
    },
    /// A code that is none of the languages of speech synthesis.
    #[error("{language:?} is no language that can be spoken: give one of {}", crate::LANGUAGES.join(", "))]
    UnknownLanguage {
        /// The code.
        language: String,
    },
    /// A language that can't be pronounced on this machine.
    #[error("{language} can't be pronounced here{why}; what can be spoken: {spoken}")]
    NoPronunciation {
        /// The language.
        language: String,
        /// The cause, with the words before it.
        why: &'static str,
        /// The codes of languages that can be.
        spoken: String,
    },
    /// No voice of that name.
    #[error("there is no voice {name:?}: give one of {known}")]
    UnknownVoice {
        /// The name.
        name: String,
        /// The names of the voices.
        known: String,
    },
    /// A speed that is out of range.
    #[error("a speed of {speed} is not possible: give one from {} to {}", crate::SPEEDS.start(), crate::SPEEDS.end())]
    Speed {
        /// The speed.
        speed: f32,
    },
    /// The reference clip can't be decoded.
    #[error("the reference clip can't be read: {0}")]
    UnreadableReference(MediaError),
    /// The reference clip is too short or too long.
    #[error("the reference clip is {seconds:.1} s long: send {shortest} to {longest} s", shortest = crate::SHORTEST_REFERENCE, longest = crate::LONGEST_REFERENCE)]
    ReferenceLength {
        /// Its length.
        seconds: f64,
    },
    /// The reference clip is longer than is read at all.
    #[error("the reference clip is longer than {longest} s: send {shortest} to {longest} s", shortest = crate::SHORTEST_REFERENCE, longest = crate::LONGEST_REFERENCE)]
    ReferenceTooLong,
    /// The reference clip is distorted.
    #[error(
        "the reference clip is clipped: {percent:.1} % of its samples are at full scale; record it with a lower level"
    )]
    ReferenceClipped {
        /// The share of samples at full scale.
        percent: f64,
    },
    /// There is too little speech in the reference clip.
    #[error("only {found:.1} s of the reference clip are speech: {needed:.0} s are needed")]
    ReferenceSpeech {
        /// Seconds of speech.
        found: f64,
        /// Seconds that are needed.
        needed: f64,
    },
    /// The program that encodes a format is not there.
    #[error(
        "{format} files need the program ffmpeg, which was not found or could not be started: ask for wav or pcm, or install it"
    )]
    NoEncoder {
        /// The name of the format.
        format: &'static str,
    },
    /// Several people speak in the reference clip.
    #[error("more than one voice was found in the reference clip: send one in which a single person speaks")]
    ReferenceVoices,
    /// The models that compare voices are not there.
    #[error("matching a voice needs the models of speaker embedding and voice activity, which are not installed")]
    NoMatching,
    /// The cloning model refused or failed.
    #[error(transparent)]
    Clone(#[from] CloneError),
    /// ONNX Runtime is not there.
    #[error(
        "cloning a voice needs ONNX Runtime, which is not installed: `hark models pull {}` installs it",
        hark_onnx::CATALOGUE_NAME
    )]
    NoRuntime,
    /// A voice by name where the model has none.
    #[error("{model} speaks only in the voice of a reference clip and has no voices of its own")]
    OnlyReferences {
        /// The model.
        model: String,
    },
    /// A speed for a cloned voice.
    #[error("a cloned voice speaks at the pace of its reference clip: leave out the speed")]
    OwnPace,
    /// A script of another model.
    #[error("the script was prepared by another speech model")]
    ForeignScript,
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
}

/// Who has to act on an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The request: its text, language, voice or speed.
    Request,
    /// The reference clip.
    Reference,
    /// The installation: a program or a model is missing.
    Installation,
    /// Nobody: it was cancelled.
    Cancelled,
    /// A defect, or the machine.
    Internal,
}

impl VoiceError {
    /// Who has to act on it.
    pub fn fault(&self) -> Fault {
        match self {
            VoiceError::Clone(error) if error.is_cancelled() => Fault::Cancelled,
            VoiceError::Clone(CloneError::Reference { .. }) => Fault::Reference,
            VoiceError::Clone(error) if error.is_callers_fault() => Fault::Request,
            VoiceError::Clone(CloneError::Onnx(OnnxError::Library { .. } | OnnxError::Missing { .. })) => {
                Fault::Installation
            }
            VoiceError::NoRuntime => Fault::Installation,
            VoiceError::OnlyReferences { .. }
            | VoiceError::OwnPace
            | VoiceError::TooLong { .. }
            | VoiceError::UnknownLanguage { .. }
            | VoiceError::UnknownVoice { .. }
            | VoiceError::Speed { .. } => Fault::Request,
            VoiceError::UnreadableReference(MediaError::Cancelled) => Fault::Cancelled,
            VoiceError::UnreadableReference(MediaError::FfmpegMissing { .. }) => Fault::Installation,
            VoiceError::UnreadableReference(MediaError::Io(_)) => Fault::Internal,
            VoiceError::UnreadableReference(_)
            | VoiceError::ReferenceLength { .. }
            | VoiceError::ReferenceTooLong
            | VoiceError::ReferenceClipped { .. }
            | VoiceError::ReferenceSpeech { .. }
            | VoiceError::ReferenceVoices
            | VoiceError::Tts(TtsError::Reference { .. }) => Fault::Reference,
            VoiceError::NoPronunciation { .. } | VoiceError::NoMatching | VoiceError::NoEncoder { .. } => {
                Fault::Installation
            }
            VoiceError::Say(SayError::Cancelled)
            | VoiceError::Tts(TtsError::Cancelled)
            | VoiceError::Media(MediaError::Cancelled)
            | VoiceError::Cancelled => Fault::Cancelled,
            VoiceError::Say(error) if error.is_request_fault() => Fault::Request,
            VoiceError::Say(SayError::EspeakMissing { .. }) => Fault::Installation,
            // Everything else that speech models refuse is made here, not by the caller.
            VoiceError::Say(_)
            | VoiceError::Clone(_)
            | VoiceError::ForeignScript
            | VoiceError::Tts(_)
            | VoiceError::Watermark(_)
            | VoiceError::Media(_)
            | VoiceError::Speakers(_)
            | VoiceError::Vad(_) => Fault::Internal,
        }
    }
}
