//! Errors of speech synthesis.

use std::path::PathBuf;

use hark_weights::FileError;

/// Why nothing was spoken.
#[derive(Debug, thiserror::Error)]
pub enum TtsError {
    /// A file of the model can't be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file of the model is not what it should be.
    #[error("{} is not a file of a supported speech model: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The weights can't be used.
    #[error(transparent)]
    Weights(#[from] FileError),
    /// There is nothing to say.
    #[error("there are no phonemes to speak")]
    Empty,
    /// A character that the model has no sound for.
    #[error("{character:?} is not in the phoneme alphabet of the model")]
    UnknownPhoneme {
        /// The character.
        character: char,
    },
    /// More phonemes than the model takes at once.
    #[error("a sentence of {found} phonemes is too long: the model takes {limit} at once; split it")]
    TooLong {
        /// Phonemes of the sentence.
        found: usize,
        /// Most that are possible.
        limit: usize,
    },
    /// A speed that the model can't speak at.
    #[error("a speed of {speed} is not possible; use 0.5 to 2")]
    Speed {
        /// What was asked for.
        speed: f32,
    },
    /// There is no voice of that name.
    #[error("there is no voice {name:?}; installed are {installed}")]
    UnknownVoice {
        /// What was asked for.
        name: String,
        /// The names of the voices.
        installed: String,
    },
    /// A voice that was made by another model.
    #[error("the voice {name:?} belongs to another speech model")]
    ForeignVoice {
        /// The voice.
        name: String,
    },
    /// The reference recording can't be matched.
    #[error("the reference recording cannot be used: {what}")]
    Reference {
        /// What is wrong with it.
        what: String,
    },
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// The network's output is not finite.
    #[error("the speech model's output is not finite")]
    NotFinite,
}

impl TtsError {
    /// Whether the request is at fault, not the installation.
    pub fn is_callers_fault(&self) -> bool {
        matches!(
            self,
            TtsError::Empty
                | TtsError::UnknownPhoneme { .. }
                | TtsError::TooLong { .. }
                | TtsError::Speed { .. }
                | TtsError::UnknownVoice { .. }
                | TtsError::ForeignVoice { .. }
                | TtsError::Reference { .. }
        )
    }
}
