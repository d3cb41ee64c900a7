//! Errors of voice cloning.

use std::path::PathBuf;

use hark_onnx::OnnxError;

/// Why nothing was spoken.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    /// A network can't be loaded or run.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// A file of the model can't be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file of the model is not what it should be.
    #[error("{} is not a file of a supported cloning model: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// There is nothing to say.
    #[error("there is nothing to speak in the sentence")]
    Empty,
    /// More text than the model takes at once.
    #[error("a sentence of {found} tokens is too long: the model takes {limit} at once; split it")]
    TooLong {
        /// Tokens of the sentence.
        found: usize,
        /// Most that are possible.
        limit: usize,
    },
    /// A language that the model does not speak.
    #[error("{language:?} is no language of the cloning model: give one of {}", crate::LANGUAGES.join(", "))]
    UnknownLanguage {
        /// The code.
        language: String,
    },
    /// Chinese characters in Japanese text.
    #[error("the reading of {character:?} is not known here: write Japanese in kana")]
    Kanji {
        /// The first of them.
        character: char,
    },
    /// The clip of the voice can't be used.
    #[error("the reference recording cannot be used: {what}")]
    Reference {
        /// What is wrong with it.
        what: String,
    },
    /// The model found no end of a sentence.
    #[error("the cloning model found no end of a sentence in {seconds:.0} s of speech")]
    Endless {
        /// What was made of it before it was given up.
        seconds: f64,
    },
    /// The output of a network is not finite.
    #[error("the output of the cloning model is not finite")]
    NotFinite,
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
}

impl CloneError {
    /// Whether the request is at fault, not the installation.
    pub fn is_callers_fault(&self) -> bool {
        matches!(
            self,
            CloneError::Empty
                | CloneError::TooLong { .. }
                | CloneError::UnknownLanguage { .. }
                | CloneError::Kanji { .. }
                | CloneError::Reference { .. }
        )
    }

    /// Whether the caller cancelled it.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, CloneError::Cancelled | CloneError::Onnx(OnnxError::Cancelled))
    }
}
