//! Errors of language identification.

use hark_weights::FileError;

/// Why a model was not loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranslateError {
    /// A file of the model can't be read, is damaged or not supported.
    #[error(transparent)]
    File(#[from] FileError),
}
