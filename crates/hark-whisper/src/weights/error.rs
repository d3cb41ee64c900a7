//! What can go wrong with a Whisper checkpoint.

use std::path::{Path, PathBuf};

use hark_weights::FileError;

use crate::tokenizer::VocabularyError;

/// Why a checkpoint could not be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// A file could not be read, is damaged, or uses something that is not supported.
    #[error(transparent)]
    File(#[from] FileError),
    /// No known weights file is there.
    #[error(
        "no Whisper weights in {}: expected model.bin, model.safetensors, ggml-*.bin or encoder_model*.onnx; \
         install a model with `hark models pull whisper-base`", path.display()
    )]
    NothingFound {
        /// The folder or file looked at.
        path: PathBuf,
    },
    /// A tensor that every Whisper network has is not there.
    #[error("{} has no tensor {name}: it is incomplete or not a Whisper model", path.display())]
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
        Self::File(FileError::damaged(path, what))
    }
}
