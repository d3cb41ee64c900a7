//! What can go wrong with a language model.

use hark_weights::FileError;

/// Why a model could not be loaded or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum LmError {
    /// The file could not be read, is damaged or has something unsupported.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system has no memory for weights or cache.
    #[error("not enough memory for {what} ({bytes} bytes); use a smaller model or a smaller cache")]
    OutOfMemory {
        /// What the memory was for.
        what: &'static str,
        /// How much was asked for.
        bytes: u64,
    },
    /// Every page of the KV cache is in use.
    #[error("the KV cache is full ({pages} pages); end other sequences or give it more memory")]
    CacheFull {
        /// Pages of the cache.
        pages: usize,
    },
    /// A sequence would outgrow what the model was trained for.
    #[error("{length} tokens are more than the model's context of {limit}")]
    ContextFull {
        /// Tokens that the sequence would have.
        length: usize,
        /// The model's context length.
        limit: usize,
    },
    /// The model computed an infinity or no number.
    #[error("the model's output is not finite; the model file may be damaged, remove it and pull it again")]
    NotFinite,
    /// The caller asked to stop.
    #[error("cancelled")]
    Cancelled,
    /// The chat template can't be used.
    #[error("the chat template of the model file can't be used: {0}")]
    Template(String),
    /// The messages are not a conversation that the model can have: too many, or roles in an order that its template refuses.
    #[error("the model can't have this conversation: {0}")]
    Conversation(String),
    /// The JSON schema has something that decoding can't be constrained by.
    #[error("the JSON schema is not supported: {0}")]
    Schema(String),
    /// As many requests wait as may.
    #[error("too many requests wait for the language model; try again later")]
    Busy,
    /// The engine was stopped or failed.
    #[error("the language model engine has stopped; load the model again")]
    Stopped,
    /// A defect: computing the batch panicked.
    #[error("the forward pass panicked: {0}")]
    Panicked(String),
    /// A token is not in the vocabulary, or a sequence does not exist.
    #[error("invalid request: {0}")]
    Invalid(String),
}
