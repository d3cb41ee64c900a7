//! JSON schemas that constrain answers, and reading what comes back.
//!
//! Grammar engines write properties in the order of the schema, which `serde_json` sorts by name: names are chosen so that this is
//! the order in which a model should think.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// An object with exactly these properties.
pub fn object(properties: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = properties.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> =
        properties.iter().map(|(name, schema)| ((*name).into(), schema.clone())).collect();
    json!({"type": "object", "properties": properties, "required": names, "additionalProperties": false})
}

/// An object with one array of at most `most` items.
pub fn list(name: &str, item: Value, most: usize) -> Value {
    object(&[(name, json!({"type": "array", "items": item, "maxItems": most}))])
}

/// A text of 1 to `most` characters.
pub fn string(most: usize) -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": most})
}

/// A text of 1 to `most` characters, or null.
pub fn optional_string(most: usize) -> Value {
    json!({"anyOf": [string(most), {"type": "null"}]})
}

/// One of these texts.
pub fn one_of(values: &[&str]) -> Value {
    json!({"type": "string", "enum": values})
}

/// A whole number in a range.
pub fn integer(least: usize, most: usize) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most})
}

/// The `items` of an answer, those that are complete and of the right shape.
pub(crate) fn parse_items<T: DeserializeOwned>(answer: &str) -> Vec<T> {
    let parsed = serde_json::from_str::<Value>(answer).or_else(|_| serde_json::from_str(&close_items(answer)));
    let items = match parsed {
        Ok(Value::Object(mut object)) => object.remove("items"),
        _ => None,
    };
    let Some(Value::Array(items)) = items else { return Vec::new() };
    items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect()
}

/// An answer `{"items":[…` that was cut off, closed behind its last complete item.
fn close_items(answer: &str) -> String {
    let (mut depth, mut in_string, mut is_escaped, mut end) = (0, false, false, None);
    for (at, byte) in answer.bytes().enumerate() {
        if in_string {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => {
                    in_string = false;
                    if depth == 2 {
                        end = Some(at + 1);
                    }
                }
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                if depth == 2 {
                    end = Some(at + 1);
                }
            }
            b'}' | b']' => {
                depth -= 1;
                if depth == 2 {
                    end = Some(at + 1);
                }
            }
            // A number is complete when a comma follows it.
            b',' if depth == 2 => end = Some(at),
            _ => {}
        }
    }
    format!("{}]}}", &answer[..end.unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_an_answer_that_was_cut_off_are_kept() {
        let numbers = |answer| parse_items::<u32>(answer);
        assert_eq!(numbers(r#"{"items":[1,2,3]}"#), [1, 2, 3]);
        assert_eq!(numbers(r#"{"items":[1,2,3"#), [1, 2]);
        assert_eq!(numbers(r#"{"items":["#), [0; 0]);
        assert_eq!(numbers(r#"{"it"#), [0; 0]);
        assert_eq!(numbers(""), [0; 0]);
        let texts = parse_items::<Value>(r#"{"items": [{"a": "x ] \" }"}, {"a": "y"}, {"a": "z"#);
        assert_eq!(texts, [json!({"a": "x ] \" }"}), json!({"a": "y"})]);
    }

    #[test]
    fn an_item_of_another_shape_is_left_out() {
        assert_eq!(parse_items::<u32>(r#"{"items":[1,"two",3]}"#), [1, 3]);
    }
}
