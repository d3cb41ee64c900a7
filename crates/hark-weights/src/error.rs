//! What can go wrong with a weights file.

use std::path::{Path, PathBuf};

/// Why a weights file, or a tensor in it, could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system could not open or map the file.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file contradicts itself or ends early.
    #[error("{} is damaged: {what}; remove the model and pull it again", path.display())]
    Damaged {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The file is valid, but uses something that this reader does not support.
    #[error("{} cannot be used: {what}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What is not supported, and what to use instead where there is something.
        what: String,
    },
    /// A tensor that was asked for is not in the file.
    #[error("{} has no tensor {name}", path.display())]
    MissingTensor {
        /// The file or folder.
        path: PathBuf,
        /// The name of the tensor.
        name: String,
    },
}

impl FileError {
    /// A [`FileError::Damaged`].
    pub fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }

    /// A [`FileError::Unsupported`].
    pub fn unsupported(path: &Path, what: impl Into<String>) -> Self {
        Self::Unsupported { path: path.to_owned(), what: what.into() }
    }

    /// What is wrong without the name of the file, for errors that name the file themselves.
    pub fn what(&self) -> String {
        match self {
            Self::Read { source, .. } => source.to_string(),
            Self::Damaged { what, .. } | Self::Unsupported { what, .. } => what.clone(),
            Self::MissingTensor { name, .. } => format!("it has no tensor {name}"),
        }
    }
}
