//! Why a task on a text has no result.

use crate::model::ModelError;

/// Why a task on a text has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// There is nothing to work on.
    #[error("the text is empty: there is nothing to work on")]
    Empty,
    /// The model's context has no room for a part of the text beside the instructions and the answer.
    #[error("the model's context of {context} tokens is too small for this task; use a model with at least {needed}")]
    ContextTooSmall {
        /// Tokens of the context.
        context: usize,
        /// Tokens that the task needs.
        needed: usize,
    },
    /// The model answered twice with something that is not of the shape that was asked for.
    #[error("the language model did not answer in the required form; try again, or use a larger model")]
    InvalidAnswer,
    /// The model did not answer.
    #[error(transparent)]
    Model(#[from] ModelError),
}
