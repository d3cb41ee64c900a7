//! API keys.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DateTime;

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyScope {
    /// Send recordings and texts to be worked on.
    Transcribe,
    /// Read the account and its transcripts.
    Read,
    /// Change and delete: transcripts, known speakers, keys, the account.
    Manage,
}

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
    /// What it may do.
    pub scopes: Vec<KeyScope>,
    /// When it ends by itself; null when it does not.
    pub expires_at: Option<DateTime>,
    /// Addresses and networks that it may be used from; from everywhere when empty.
    pub allowed_addresses: Vec<String>,
    /// Credits that it may spend in all; null when only the account's balance bounds it.
    pub spending_limit: Option<i64>,
    /// Until when the secret that it had before it was rolled over is valid, too.
    pub previous_valid_until: Option<DateTime>,
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
    /// What it may do; everything when not given.
    #[schema(min_items = 1)]
    pub scopes: Option<Vec<KeyScope>>,
    /// When it should end by itself; never when not given.
    pub expires_at: Option<DateTime>,
    /// Addresses and networks that it may be used from, such as `192.0.2.7` or `2001:db8::/48`; from everywhere when not given.
    #[schema(max_items = 100)]
    pub allowed_addresses: Option<Vec<String>>,
    /// Credits that it may spend in all; only bounded by the account's balance when not given.
    #[schema(minimum = 0, maximum = 1_000_000_000)]
    #[serde(default, deserialize_with = "crate::integer::optional")]
    pub spending_limit: Option<i64>,
}

/// What to change of a key; what is left out stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KeyUpdate {
    /// What its owner calls it.
    #[schema(max_length = 200)]
    pub name: Option<String>,
    /// Requests a minute.
    #[schema(minimum = 1, maximum = 10_000_000)]
    #[serde(default, deserialize_with = "crate::integer::optional")]
    pub rate_limit: Option<i64>,
    /// Minutes of audio a calendar month.
    #[schema(minimum = 0, maximum = 1_000_000_000)]
    #[serde(default, deserialize_with = "crate::integer::optional")]
    pub monthly_limit_minutes: Option<i64>,
    /// Credits that it may spend in all, those that it has spent included.
    #[schema(minimum = 0, maximum = 1_000_000_000)]
    #[serde(default, deserialize_with = "crate::integer::optional")]
    pub spending_limit: Option<i64>,
}

/// How a key is rolled over.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KeyRoll {
    /// Seconds for which the secret so far stays valid: a day when not given, 30 days at most.
    #[schema(minimum = 0, maximum = 2_592_000)]
    #[serde(default, deserialize_with = "crate::integer::optional")]
    pub grace_seconds: Option<i64>,
}

/// A key just made or rolled over: the only answer that shows it whole.
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
    /// When it ends by itself; not there when it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime>,
    /// After a roll-over: until when the secret before is valid, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_valid_until: Option<DateTime>,
}
