//! Whether JSON is valid against a schema, of the keywords that constrained decoding has (`hark_lm::grammar`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use serde_json::{Map, Value};

/// References that are followed inside of each other.
const MAX_DEPTH: usize = 64;
/// Pairs of a schema and a value that are looked at: answers have some thousand values.
const MAX_STEPS: usize = 1_000_000;

/// Whether a value is valid. Keywords that are not known restrict nothing: the local engine refuses them, an endpoint may hold them.
/// What takes too many steps counts as not valid.
pub(super) fn is_valid(schema: &Value, value: &Value) -> bool {
    let validator = Validator { document: schema, known: RefCell::default(), steps: Cell::new(MAX_STEPS) };
    validator.check(schema, value, 0)
}

struct Validator<'a> {
    document: &'a Value,
    /// Whether a value fits the target of a `$ref`, by their addresses: schemas that refer to each other have exponentially many paths. False
    /// while that is looked at, so that a reference to itself is not followed.
    known: RefCell<HashMap<(*const Value, *const Value), bool>>,
    steps: Cell<usize>,
}

impl Validator<'_> {
    fn check(&self, schema: &Value, value: &Value, depth: usize) -> bool {
        let Value::Object(map) = schema else { return *schema != Value::Bool(false) };
        let Some(steps) = self.steps.get().checked_sub(1).filter(|_| depth <= MAX_DEPTH) else { return false };
        self.steps.set(steps);
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            let target = reference.strip_prefix('#').and_then(|pointer| self.document.pointer(pointer));
            return target.is_some_and(|target| self.check_target(target, value, depth + 1));
        }
        if value.is_null() && map.get("nullable") == Some(&Value::Bool(true)) {
            return true;
        }
        let is_const = map.get("const").is_none_or(|wanted| same(wanted, value));
        let is_one = |values: &Value| values.as_array().is_some_and(|all| all.iter().any(|one| same(one, value)));
        if !is_const || !map.get("enum").is_none_or(is_one) {
            return false;
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            let Some(parts) = map.get(keyword).and_then(Value::as_array) else { continue };
            let mut fit = parts.iter().map(|part| self.check(part, value, depth + 1));
            if !(if keyword == "allOf" { fit.all(|fits| fits) } else { fit.any(|fits| fits) }) {
                return false;
            }
        }
        let is_type = match map.get("type") {
            Some(Value::String(name)) => has_type(name, value),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(|name| has_type(name, value)),
            _ => true,
        };
        is_type
            && match value {
                Value::Object(fields) => self.check_object(map, fields, depth),
                Value::Array(items) => {
                    let of_items = map.get("items");
                    within(map, "minItems", "maxItems", items.len() as f64)
                        && items.iter().all(|item| of_items.is_none_or(|schema| self.check(schema, item, depth + 1)))
                }
                Value::String(text) => within(map, "minLength", "maxLength", text.chars().count() as f64),
                Value::Number(number) => number.as_f64().is_some_and(|number| {
                    let limit = |name: &str| map.get(name).and_then(Value::as_f64);
                    within(map, "minimum", "maximum", number)
                        && limit("exclusiveMinimum").is_none_or(|least| number > least)
                        && limit("exclusiveMaximum").is_none_or(|most| number < most)
                }),
                Value::Bool(_) | Value::Null => true,
            }
    }

    fn check_target(&self, target: &Value, value: &Value, depth: usize) -> bool {
        let place = (std::ptr::from_ref(target), std::ptr::from_ref(value));
        if let Some(known) = self.known.borrow().get(&place) {
            return *known;
        }
        self.known.borrow_mut().insert(place, false);
        let is_valid = self.check(target, value, depth);
        self.known.borrow_mut().insert(place, is_valid);
        is_valid
    }

    fn check_object(&self, map: &Map<String, Value>, fields: &Map<String, Value>, depth: usize) -> bool {
        let required = map.get("required").and_then(Value::as_array);
        let mut required = required.into_iter().flatten().filter_map(Value::as_str);
        let properties = map.get("properties").and_then(Value::as_object);
        let others = map.get("additionalProperties");
        required.all(|name| fields.contains_key(name))
            && fields.iter().all(|(name, value)| match properties.and_then(|properties| properties.get(name)) {
                Some(schema) => self.check(schema, value, depth + 1),
                None => others.is_none_or(|schema| self.check(schema, value, depth + 1)),
            })
    }
}

fn within(map: &Map<String, Value>, least: &str, most: &str, number: f64) -> bool {
    let limit = |name: &str| map.get(name).and_then(Value::as_f64);
    limit(least).is_none_or(|least| number >= least) && limit(most).is_none_or(|most| number <= most)
}

fn has_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    }
}

/// Equal as JSON: 1 and 1.0 are.
fn same(one: &Value, other: &Value) -> bool {
    one == other || (one.is_number() && one.as_f64() == other.as_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_told_apart_by_every_keyword() {
        let list = crate::schema::list("items", crate::schema::string(3), 2);
        for (schema, good, bad) in [
            (
                list,
                vec![json!({"items": []}), json!({"items": ["a", "äöü"]})],
                vec![
                    json!({}),
                    json!({"items": ["a", "b", "c"]}),
                    json!({"items": ["long"]}),
                    json!({"items": [""]}),
                    json!({"items": [], "more": 1}),
                    json!([]),
                ],
            ),
            (crate::schema::optional_string(5), vec![json!(null), json!("a")], vec![json!(1), json!("longer")]),
            (crate::schema::integer(1, 3), vec![json!(1), json!(3.0)], vec![json!(0), json!(1.5), json!("1")]),
            (crate::schema::one_of(&["a", "b"]), vec![json!("b")], vec![json!("c"), json!(null)]),
            (json!({"type": "number", "exclusiveMinimum": 0}), vec![json!(0.1)], vec![json!(0)]),
            (json!({"type": ["string", "null"]}), vec![json!(null)], vec![json!(true)]),
            (json!({"const": 1}), vec![json!(1.0)], vec![json!(2)]),
            (json!({"type": "string", "nullable": true}), vec![json!(null)], vec![json!(1)]),
            (
                json!({"type": "object", "additionalProperties": {"type": "boolean"}}),
                vec![json!({"a": true})],
                vec![json!({"a": 1})],
            ),
        ] {
            for value in good {
                assert!(is_valid(&schema, &value), "{value} against {schema}");
            }
            for value in bad {
                assert!(!is_valid(&schema, &value), "{value} against {schema}");
            }
        }
    }

    #[test]
    fn references_are_followed_and_do_not_go_round() {
        let tree = json!({
            "$ref": "#/$defs/node",
            "$defs": {"node": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["next"]}},
        });
        assert!(is_valid(&tree, &json!({"next": {"next": null}})));
        assert!(!is_valid(&tree, &json!({"next": {"next": 1}})));
        assert!(!is_valid(&json!({"$ref": "#"}), &json!(1)));
        assert!(!is_valid(&json!({"$ref": "#/nowhere"}), &json!(1)));
    }

    #[test]
    fn exponentially_many_paths_through_a_schema_are_judged_at_once() {
        for (keyword, levels) in [("anyOf", 31), ("allOf", 31), ("oneOf", 20)] {
            let mut schema = json!({"$ref": "#/$defs/a0", "$defs": {}});
            schema["$defs"][format!("a{levels}")] = json!({"type": "number"});
            for at in 0..levels {
                let next = json!({"$ref": format!("#/$defs/a{}", at + 1)});
                schema["$defs"][format!("a{at}")] = json!({keyword: [next.clone(), next]});
            }
            assert!(is_valid(&schema, &json!(1)), "{keyword}");
            assert!(!is_valid(&schema, &json!("1")), "{keyword}");
            assert!(!is_valid(
                &json!({"$defs": schema["$defs"], "items": {"$ref": "#/$defs/a0"}}),
                &json!([1, 2, "3"])
            ));
        }
        // A schema that leads to itself and to something else is that.
        let round =
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "integer"}]}}});
        assert!(is_valid(&round, &json!(1)) && !is_valid(&round, &json!("1")));
    }
}
