//! Objects as JSON has them. What `serde` derives would also take their fields as a list without names, `[60, 5000]`.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error};
use serde_json::{Map, Value};

/// Reads an object.
pub(crate) fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    let fields = Map::<String, Value>::deserialize(deserializer)?;
    serde_json::from_value(Value::Object(fields)).map_err(D::Error::custom)
}

/// Reads a list of objects that may be null.
pub(crate) fn list<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let Some(items) = Option::<Vec<Map<String, Value>>>::deserialize(deserializer)? else { return Ok(None) };
    let items = items.into_iter().map(|fields| serde_json::from_value(Value::Object(fields)));
    items.collect::<Result<_, _>>().map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use crate::{AccountUpdate, TranscriptChange};

    #[test]
    fn fields_without_names_are_no_object() {
        let account = |json: &str| serde_json::from_str::<AccountUpdate>(json).ok();
        assert!(account(r#"{"email_preferences": {"marketing": true}}"#).unwrap().email_preferences.marketing.unwrap());
        assert_eq!(account(r#"{"email_preferences": [true, null, null, null]}"#), None);
        assert_eq!(account(r#"{"email_preferences": null}"#), None);
        let segments = |json: &str| serde_json::from_str::<TranscriptChange>(json).map(|change| change.segments).ok();
        assert_eq!(segments("{}"), Some(None));
        assert_eq!(segments(r#"{"segments": null}"#), Some(None));
        assert_eq!(segments(r#"{"segments": [{"index": 1, "text": "a"}]}"#).unwrap().unwrap()[0].index, 1);
        assert_eq!(segments(r#"{"segments": [[1, "a"]]}"#), None);
    }
}
