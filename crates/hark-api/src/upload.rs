//! Uploads that are sent in parts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ApiError, DateTime, ErrorKind};

/// The most bytes that any plan allows.
const MAX_SIZE: i64 = 2_000_000_000;
/// The longest name of a file, in characters.
const MAX_NAME: usize = 1000;

/// The body of `POST /v1/uploads`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewUpload {
    /// Bytes of the recording.
    #[serde(deserialize_with = "crate::integer::integer")]
    #[schema(minimum = 1, maximum = 2_000_000_000)]
    pub size: i64,
    /// The name of its file, which becomes the title of the transcript.
    #[serde(default)]
    #[schema(max_length = 1000)]
    pub name: String,
}

impl NewUpload {
    /// Checks the limits of the fields.
    pub fn check(&self) -> Result<(), ApiError> {
        if !(1..=MAX_SIZE).contains(&self.size) {
            let message = format!("`size` is the number of bytes, from 1 to {MAX_SIZE}");
            return Err(ApiError::new(ErrorKind::InvalidInput, message));
        }
        if self.name.chars().count() > MAX_NAME {
            let message = format!("`name` has at most {MAX_NAME} characters");
            return Err(ApiError::new(ErrorKind::InvalidInput, message));
        }
        Ok(())
    }
}

/// Bytes of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct UploadPart(pub Vec<u8>);

/// How far an upload is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UploadState {
    /// Its number.
    pub id: i64,
    /// Bytes of the recording.
    pub size: u64,
    /// Bytes that are stored: where the next part begins.
    pub offset: u64,
    /// When it is deleted unless more arrives.
    pub expires_at: DateTime,
}

/// The answer to a part that begins elsewhere than the upload goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UploadConflict {
    /// What went wrong.
    pub error: String,
    /// How far the upload is.
    #[serde(flatten)]
    pub upload: UploadState,
}
