//! Errors of loading the networks.

use std::path::{Path, PathBuf};

use hark_weights::FileError;

/// Why a network could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum SpeakersError {
    /// The file could not be read.
    #[error("cannot read {}: {source}; install it with `hark models pull {model}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The model it belongs to.
        model: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// The file does not hold the expected network.
    #[error("{} is not the network that was expected: {what}; install it again with `hark models pull {model}`", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The model it belongs to.
        model: &'static str,
        /// What is wrong with it.
        what: String,
    },
}

impl SpeakersError {
    /// Maps the error of a weights file of `model`.
    pub(crate) fn of_file(error: FileError, path: &Path, model: &'static str) -> Self {
        match error {
            FileError::Read { source, .. } => Self::Unreadable { path: path.to_owned(), model, source },
            other => Self::malformed(path, model, other.what()),
        }
    }

    pub(crate) fn malformed(path: &Path, model: &'static str, what: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), model, what: what.into() }
    }
}
