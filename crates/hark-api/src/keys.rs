//! API keys.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DateTime;

/// A key as the list shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// Its number.
    pub id: i64,
    /// What its owner calls it.
    pub name: String,
    /// The first 12 characters of the key.
    pub prefix: String,
    /// Whether it still opens anything.
    pub is_active: bool,
    /// Requests a minute.
    pub rate_limit: i64,
    /// Minutes of audio a calendar month (UTC).
    pub monthly_limit_minutes: i64,
    /// When it was last used, to the minute.
    pub last_used: Option<DateTime>,
    /// When it was made.
    pub created_at: DateTime,
}

/// All keys of the account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KeyList {
    /// Newest first.
    pub keys: Vec<Key>,
}

/// What a new key should be; everything has a default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NewKey {
    /// What its owner calls it.
    #[schema(max_length = 200)]
    pub name: Option<String>,
    /// Requests a minute; 60 when not given.
    #[schema(minimum = 1, maximum = 10_000_000)]
    #[serde(default, deserialize_with = "crate::integer::optional")]
    pub rate_limit: Option<i64>,
    /// Minutes of audio a calendar month; 5000 when not given.
    #[schema(minimum = 0, maximum = 1_000_000_000)]
    #[serde(default, deserialize_with = "crate::integer::optional")]
    pub monthly_limit_minutes: Option<i64>,
}

/// A key just made: the only answer that shows it whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CreatedKey {
    /// Its number.
    pub id: i64,
    /// What its owner calls it.
    pub name: String,
    /// The whole key; it is shown nowhere else.
    pub key: String,
    /// The first 12 characters of the key.
    pub prefix: String,
    /// When it was made.
    pub created_at: DateTime,
}
