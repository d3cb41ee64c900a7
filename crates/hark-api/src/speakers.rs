//! People whose voices an account knows.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DateTime;

/// Somebody whose voice is known. What the voice sounds like is shown nowhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Speaker {
    /// Its number.
    pub id: i64,
    /// Who it is.
    pub name: String,
    /// When the voice was learned.
    pub created_at: DateTime,
}

/// Everybody whose voice the account knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SpeakerList {
    /// In the order in which they were learned.
    pub speakers: Vec<Speaker>,
}
