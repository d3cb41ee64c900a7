//! Whether a result is valid against its JSON schema: the keywords that the schemas of `hark-text` use.

use serde_json::Value;

/// The first place where a value differs from a schema, or a keyword that is not known here.
pub(super) fn violation(value: &Value, schema: &Value) -> Option<String> {
    check(value, schema, "result").err()
}

fn check(value: &Value, schema: &Value, at: &str) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else { return Err(format!("{at}: the schema is not an object")) };
    for (keyword, expected) in keywords {
        let is_met = match keyword.as_str() {
            "type" => match expected {
                Value::Array(types) => types.iter().any(|name| is_type(value, name)),
                name => is_type(value, name),
            },
            "enum" => expected.as_array().is_some_and(|allowed| allowed.contains(value)),
            "const" => expected == value,
            "anyOf" => {
                let mut schemas = expected.as_array().into_iter().flatten();
                schemas.any(|schema| check(value, schema, at).is_ok())
            }
            "minLength" => length(value).is_none_or(|length| length as f64 >= number(expected)),
            "maxLength" => length(value).is_none_or(|length| length as f64 <= number(expected)),
            "minimum" => value.as_f64().is_none_or(|value| value >= number(expected)),
            "maximum" => value.as_f64().is_none_or(|value| value <= number(expected)),
            "minItems" => value.as_array().is_none_or(|items| items.len() as f64 >= number(expected)),
            "maxItems" => value.as_array().is_none_or(|items| items.len() as f64 <= number(expected)),
            "required" => value.as_object().is_none_or(|object| {
                expected.as_array().is_some_and(|names| {
                    names.iter().all(|name| object.contains_key(name.as_str().unwrap_or_default()))
                })
            }),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(item, expected, &format!("{at}[{index}]"))?;
                }
                true
            }
            "properties" => {
                for (name, schema) in expected.as_object().into_iter().flatten() {
                    if let Some(property) = value.get(name) {
                        check(property, schema, &format!("{at}.{name}"))?;
                    }
                }
                true
            }
            "additionalProperties" if *expected == Value::Bool(false) => value.as_object().is_none_or(|object| {
                let known = keywords.get("properties").and_then(Value::as_object);
                object.keys().all(|name| known.is_some_and(|known| known.contains_key(name)))
            }),
            "additionalProperties" | "title" | "description" | "$schema" => true,
            _ => return Err(format!("{at}: the keyword {keyword} is not checked")),
        };
        if !is_met {
            return Err(format!("{at}: {keyword} is {expected}, found {}", short(value)));
        }
    }
    Ok(())
}

fn is_type(value: &Value, name: &Value) -> bool {
    match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    }
}

fn length(value: &Value) -> Option<usize> {
    value.as_str().map(|text| text.chars().count())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_text::{SummaryStyle, Task};
    use serde_json::json;

    #[test]
    fn what_a_schema_forbids_is_found_with_its_place() {
        let schema = json!({"type": "object", "required": ["list"], "additionalProperties": false, "properties": {
            "list": {"type": "array", "minItems": 1, "items": {"type": ["number", "null"], "minimum": 0}}}});
        assert_eq!(violation(&json!({"list": [1, null]}), &schema), None);
        for (wrong, place) in [
            (json!({}), "result"),
            (json!({"list": []}), "result.list"),
            (json!({"list": [-1]}), "result.list[0]"),
            (json!({"list": ["x"]}), "result.list[0]"),
            (json!({"list": [1], "more": 2}), "result"),
            (json!([]), "result"),
        ] {
            let found = violation(&wrong, &schema).unwrap_or_default();
            assert!(found.starts_with(&format!("{place}:")), "{wrong}: {found}");
        }
    }

    #[test]
    fn a_keyword_that_is_not_checked_is_an_error() {
        assert!(violation(&json!("a"), &json!({"type": "string", "pattern": "b"})).is_some());
    }

    #[test]
    fn every_keyword_of_the_published_schemas_is_known() {
        fn keywords(schema: &Value, found: &mut Vec<String>) {
            for (keyword, value) in schema.as_object().into_iter().flatten() {
                found.push(keyword.clone());
                match keyword.as_str() {
                    "properties" => {
                        value.as_object().into_iter().flatten().for_each(|(_, schema)| keywords(schema, found))
                    }
                    "items" => keywords(value, found),
                    _ => {}
                }
            }
        }
        let mut found = Vec::new();
        keywords(&Task::Summarize(SummaryStyle::Brief).result_schema(), &mut found);
        for kind in super::super::tasks::ANALYSES {
            keywords(&Task::Analyze(kind).result_schema(), &mut found);
        }
        for kind in super::super::tasks::GENERATIONS {
            keywords(&Task::Generate(kind).result_schema(), &mut found);
        }
        for keyword in found {
            let value = violation(&json!(null), &json!({ keyword.as_str(): null }));
            assert!(!value.is_some_and(|found| found.contains("not checked")), "{keyword}");
        }
    }
}
