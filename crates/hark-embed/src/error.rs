//! Errors of embeddings.

use std::path::{Path, PathBuf};

use hark_weights::FileError;

/// Why texts were not embedded.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// A file of the model can't be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file is not that of a supported model.
    #[error("{} is not a supported embedding model: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The weights can't be used.
    #[error(transparent)]
    Weights(#[from] FileError),
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// A vector is not finite.
    #[error("the embedding of a text is not finite")]
    NotFinite,
}

impl EmbedError {
    pub(crate) fn malformed(path: &Path, what: impl Into<String>) -> Self {
        EmbedError::Malformed { path: path.to_owned(), what: what.into() }
    }
}
