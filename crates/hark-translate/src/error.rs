//! Errors of translation and language identification.

use std::path::PathBuf;

use hark_weights::FileError;

/// Why a model was not loaded or a text was not translated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranslateError {
    /// A file of the model can't be read, is damaged or not supported.
    #[error(transparent)]
    File(#[from] FileError),
    /// A folder does not hold a translation model.
    #[error("{} holds no translation model: {what}", path.display())]
    NoModel {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        what: String,
    },
    /// The system has no memory for the weights.
    #[error("there is not enough memory for the weights of the translation model")]
    OutOfMemory,
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// The network computed numbers that are not finite.
    #[error("the translation model computed values that are not finite; remove the model and pull it again")]
    NotFinite,
    /// A model outside this crate failed.
    #[error(transparent)]
    Model(#[from] Box<dyn std::error::Error + Send + Sync>),
}
