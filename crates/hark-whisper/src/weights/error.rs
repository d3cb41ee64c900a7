//! What can go wrong with weights, in words for the person who installed them.

use std::path::{Path, PathBuf};

use crate::tokenizer::VocabularyError;

/// Why a checkpoint could not be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// The file system said no.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },
    /// No known weights file is there.
    #[error(
        "no Whisper weights in {path}: expected model.bin, model.safetensors, ggml-*.bin or encoder_model*.onnx; \
         install a model with `hark models pull whisper-base`"
    )]
    NothingFound {
        /// The folder or file looked at.
        path: PathBuf,
    },
    /// The file contradicts itself or ends early.
    #[error("{path} is damaged: {what}; remove the model and pull it again")]
    Damaged {
        /// The file or folder.
        path: PathBuf,
        /// What contradicts what.
        what: String,
    },
    /// The file is sound, but of a kind this reader does not know.
    #[error("{path} cannot be used: {what}")]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What is not known, and what to do instead.
        what: String,
    },
    /// A tensor that every Whisper network has is not there.
    #[error("{path} has no tensor {name}: it is incomplete or not a Whisper model")]
    MissingTensor {
        /// The file or folder.
        path: PathBuf,
        /// OpenAI's name of the tensor.
        name: String,
    },
    /// The vocabulary beside the weights does not fit them.
    #[error(transparent)]
    Vocabulary(#[from] VocabularyError),
}

impl WeightsError {
    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }

    pub(super) fn unsupported(path: &Path, what: impl Into<String>) -> Self {
        Self::Unsupported { path: path.to_owned(), what: what.into() }
    }
}
