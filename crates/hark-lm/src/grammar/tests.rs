//! Answers of a model that chooses at random among the allowed tokens, checked by a validator that knows nothing of grammars.

use serde_json::json;

use super::*;
use crate::TokenMask;
use crate::tokenizer::byte_vocabulary_with;

/// Whether a value is valid against the keywords that grammars support.
fn is_valid(schema: &Value, document: &Value, value: &Value) -> bool {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return is_valid(document.pointer(&reference[1..]).expect("the reference leads somewhere"), document, value);
    }
    if let Some(parts) = schema.get("anyOf").and_then(Value::as_array) {
        return parts.iter().any(|part| is_valid(part, document, value));
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.contains(value);
    }
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(name) => name.as_str().into_iter().collect(),
        None => return true,
    };
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let within = |found: f64, low: &str, high: &str| {
        bound(low).is_none_or(|low| found >= low) && bound(high).is_none_or(|high| found <= high)
    };
    types.into_iter().any(|name| match (name, value) {
        ("null", Value::Null) | ("boolean", Value::Bool(_)) => true,
        ("string", Value::String(text)) => within(text.chars().count() as f64, "minLength", "maxLength"),
        ("integer", Value::Number(number)) => {
            number.is_i64() && within(number.as_f64().expect("a number"), "minimum", "maximum")
        }
        ("number", Value::Number(number)) => within(number.as_f64().expect("a number"), "minimum", "maximum"),
        ("array", Value::Array(items)) => {
            let all = schema.get("items").is_none_or(|of| items.iter().all(|item| is_valid(of, document, item)));
            all && within(items.len() as f64, "minItems", "maxItems")
        }
        ("object", Value::Object(map)) => {
            let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            let property = |key: &str| schema.get("properties").and_then(|all| all.get(key));
            let has_all = required.iter().all(|key| map.contains_key(key.as_str().expect("a name")));
            has_all
                && map.iter().all(|(key, value)| match property(key) {
                    Some(of) => is_valid(of, document, value),
                    None => schema.get("properties").is_none(),
                })
        }
        _ => false,
    })
}

fn random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

const TEXTS: [&[u8]; 14] = [
    b"\"}",
    b"\", \"",
    b": ",
    b"{\"",
    b"\"na",
    b"me\": ",
    b"12",
    b"\\n",
    "é".as_bytes(),
    b"\xe2\x82",
    b"true",
    b"hello",
    b"]}",
    b"a\"b",
];

fn summary_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12, "minLength": 2},
            "kind": {"enum": ["a", "ab", "b\"c", "é", null, 1, 12]},
            "score": {"type": "number", "minimum": -1, "maximum": 1},
            "count": {"type": "integer", "minimum": 8, "maximum": 1203},
            "owner": {"type": ["string", "null"], "maxLength": 5},
            "items": {
                "type": "array", "minItems": 1, "maxItems": 3,
                "items": {"type": "object", "properties": {"t": {"type": "boolean"}, "u": {"type": "integer"}}, "required": ["t"]}
            },
            "other": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "number"}, "maxItems": 2}]},
        },
        "required": ["name", "kind", "score", "count", "owner", "items"],
    })
}

/// 31 schemas, each of which leads to the next in two ways: there are 2^31 paths to the last.
fn bomb(last: Value) -> Value {
    let mut definitions = serde_json::Map::from_iter([("a31".to_owned(), last)]);
    for at in 0..31 {
        let next = json!({"$ref": format!("#/$defs/a{}", at + 1)});
        definitions.insert(format!("a{at}"), json!({"anyOf": [next.clone(), next]}));
    }
    json!({"$ref": "#/$defs/a0", "$defs": definitions})
}

fn grammar(schema: &Value) -> Arc<Grammar> {
    Arc::new(Grammar::from_schema(schema).expect("the schema is supported"))
}

/// A random answer, each token checked against the definition of the mask.
fn random_answer(grammar: &Arc<Grammar>, seed: u64) -> String {
    let tokenizer = byte_vocabulary_with(&TEXTS, &["<|im_end|>"]);
    let trie = TokenTrie::new(&tokenizer);
    let (mut matcher, mut mask) = (Matcher::new(Arc::clone(grammar)), TokenMask::none(tokenizer.len()));
    let (mut seed, mut out) = (seed, Vec::new());
    while !matcher.is_end() && out.len() < 20_000 {
        trie.mask(&matcher, &mut mask);
        let allowed: Vec<u32> = (0..tokenizer.len() as u32).filter(|token| mask.allows(*token)).collect();
        for token in 0..270 {
            let fits = matcher.clone().accept(tokenizer.bytes(token));
            assert_eq!(
                fits,
                mask.allows(token),
                "{:?} behind {:?}",
                tokenizer.decode(&[token]),
                String::from_utf8_lossy(&out)
            );
        }
        // Where the answer may end, it does one time in two, or because nothing may follow (the last digit).
        if matcher.is_complete() && (allowed.is_empty() || random(&mut seed).is_multiple_of(2)) {
            break;
        }
        assert!(!allowed.is_empty(), "nothing may follow {:?}", String::from_utf8_lossy(&out));
        let token = allowed[random(&mut seed) as usize % allowed.len()];
        assert!(matcher.accept(tokenizer.bytes(token)));
        out.extend_from_slice(tokenizer.bytes(token));
    }
    assert!(matcher.is_complete());
    String::from_utf8(out).expect("answers are UTF-8")
}

#[test]
fn random_answers_are_valid_against_the_schema() {
    let recursive = json!({
        "$defs": {"tree": {"type": "object", "properties": {
            "value": {"type": "integer", "minimum": -3, "maximum": -1},
            "children": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/tree"}}}, "required": ["value"]}},
        "$ref": "#/$defs/tree",
    });
    let schemas = [
        summary_schema(),
        recursive,
        json!({"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 4}),
        json!({"type": "number", "minimum": 0.25, "maximum": 0.75}),
        json!({"enum": [[1, {"a": "b"}], "x"]}),
    ];
    for schema in &schemas {
        let grammar = grammar(schema);
        for seed in 0..60 {
            let text = random_answer(&grammar, seed);
            let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert!(is_valid(schema, schema, &value), "{text} is not valid against {schema}");
        }
    }
}

#[test]
fn properties_come_in_the_order_of_required_and_then_by_name() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}, "d": {"const": 4}},
        "required": ["c", "b"],
    });
    let grammar = grammar(&schema);
    let accepts = |text: &str| {
        let mut matcher = Matcher::new(Arc::clone(&grammar));
        matcher.accept(text.as_bytes()) && matcher.is_end()
    };
    assert!(accepts(r#"{"c": 3, "b": 2}"#) && accepts(r#"{"c": 3, "b": 2, "d": 4}"#));
    assert!(accepts(r#"{"c": 3, "b": 2, "a": 1, "d": 4}"#));
    for text in
        [r#"{"b": 2, "c": 3}"#, r#"{"c": 3}"#, r#"{"c": 3, "b": 2, "d": 4, "a": 1}"#, r#"{"c":3, "b": 2}"#, "{}"]
    {
        assert!(!accepts(text), "{text}");
    }
}

#[test]
fn text_without_a_choice_is_forced() {
    let forced = |schema: &Value, start: &str| {
        let mut matcher = Matcher::new(grammar(schema));
        assert!(matcher.accept(start.as_bytes()));
        let forced = matcher.forced();
        (String::from_utf8(forced.bytes).expect("UTF-8"), forced.is_end)
    };
    let schema = summary_schema();
    assert_eq!(forced(&schema, ""), ("{\"name\": \"".to_owned(), false));
    assert_eq!(forced(&schema, "{\"name\": \"ab"), (String::new(), false));
    assert_eq!(forced(&schema, "{\"name\": \"abcdefghijkl"), ("\", \"kind\": ".to_owned(), false), "twelve characters");
    assert_eq!(forced(&json!({"const": {"a": [1, 2]}}), ""), ("{\"a\": [1, 2]}".to_owned(), true));
    assert_eq!(forced(&json!({"enum": [1, 12]}), "1"), (String::new(), false), "it may end or go on");
}

#[test]
fn any_object_is_any_object() {
    let grammar = Arc::new(Grammar::any_object());
    for seed in 0..20 {
        let text = random_answer(&grammar, seed);
        assert!(serde_json::from_str::<Value>(&text).is_ok_and(|value| value.is_object()), "{text}");
    }
    let mut matcher = Matcher::new(grammar);
    assert!(matcher.accept(br#"{"a": [{}, -1.5, null, "x\n"], "b": {"c": true}}"#) && matcher.is_end());
}

#[test]
fn exponentially_many_paths_through_a_schema_are_compiled_and_read_at_once() {
    let accepts = |grammar: &Arc<Grammar>, text: &str| {
        let mut matcher = Matcher::new(Arc::clone(grammar));
        matcher.accept(text.as_bytes()) && matcher.is_complete()
    };
    let number = grammar(&bomb(json!({"type": "number"})));
    assert!(accepts(&number, "12.5") && !accepts(&number, "null"));
    // The same with objects that have the next in two properties, and with names that mean the same place.
    let mut schema = json!({"$ref": "#/$defs/a0", "$defs": {"a20": {"type": "null"}}});
    for at in 0..20 {
        let next = json!({"$ref": format!("#/$defs/a{}", at + 1)});
        schema["$defs"][format!("a{at}")] =
            json!({"type": "object", "properties": {"x": next.clone(), "y": next}, "required": ["x"]});
    }
    assert!(accepts(&grammar(&schema), &format!("{}null{}", r#"{"x": "#.repeat(20), "}".repeat(20))));
    let names = ["~~~", "~0~~", "~~0~", "~~~0", "~0~0~", "~0~~0", "~~0~0", "~0~0~0"];
    let parts: Vec<Value> = names.iter().map(|name| json!({"$ref": format!("#/$defs/{name}")})).collect();
    let one = grammar(&json!({"$defs": {"~~~": {"type": "string"}}, "anyOf": parts}));
    assert_eq!(one.nodes.len(), 2, "the place and its text");
}

#[test]
fn what_is_large_in_a_schema_is_refused() {
    let refused = |schema: Value| matches!(Grammar::from_schema(&schema), Err(LmError::Schema(_)));
    let arrays: Vec<Value> = (0..11_000).map(|_| json!({"type": "array"})).collect();
    assert!(refused(json!({"anyOf": arrays})));
    let key = "k".repeat(600_000);
    let long = json!({"type": "object", "properties": {&*key: {"type": "null"}}});
    assert!(Grammar::from_schema(&long).is_ok());
    assert!(refused(
        json!({"type": "array", "items": {"type": "object", "properties": {"a": long.clone(), "b": long}}})
    ));
    // Constants count in every union that repeats them.
    let mut nested = json!({"enum": ["x".repeat(300_000)]});
    for n in 0..8 {
        nested = json!({"anyOf": [nested, {"const": n}]});
    }
    assert!(refused(nested));
}

/// An answer of a model that opens whatever it may until it has written 3,000 bytes, and then closes what is open; and its levels.
fn deepest_answer(grammar: &Arc<Grammar>) -> (String, usize) {
    let (mut matcher, mut text, mut depth, mut deepest) = (Matcher::new(Arc::clone(grammar)), Vec::new(), 0, 0);
    while !matcher.is_end() {
        let in_text = matcher.stack.room_in_text().is_some();
        let wanted = match in_text {
            true => &b"\""[..],
            false if text.len() < 3_000 => b"{[\"],}",
            false => b"}]\"n0,",
        };
        let next = wanted.iter().copied().chain(0x20..=0xff).find(|byte| matcher.clone().accept(&[*byte]));
        let next = next.unwrap_or_else(|| panic!("nothing may follow {}", String::from_utf8_lossy(&text)));
        assert!(matcher.accept(&[next]) && text.len() < 10_000, "{}", String::from_utf8_lossy(&text));
        text.push(next);
        match next {
            b'{' | b'[' if !in_text => depth += 1,
            b'}' | b']' if !in_text => depth -= 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    (String::from_utf8(text).expect("answers are UTF-8"), deepest)
}

#[test]
fn an_answer_that_is_nested_as_deep_as_may_be_can_always_end() {
    // Each node must have two more levels in it, and may have more nodes.
    let tree = json!({
        "$defs": {"node": {"type": "object", "properties": {
            "about": {"type": "object", "properties": {"sizes": {"type": "array", "items": {"type": "integer"}, "minItems": 1}},
                "required": ["sizes"]},
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            "next": {"$ref": "#/$defs/node"}}, "required": ["about"]}},
        "$ref": "#/$defs/node",
    });
    let pairs = json!({
        "$defs": {"pair": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/pair"}, "minItems": 2}, {"type": "null"}]}},
        "$ref": "#/$defs/pair",
    });
    for grammar in [Arc::new(Grammar::any_object()), grammar(&tree), grammar(&pairs)] {
        let (text, deepest) = deepest_answer(&grammar);
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
        assert!(deepest > 115, "{deepest} levels: {text}");
    }
}

#[test]
fn schemas_that_can_not_be_kept_are_refused() {
    let refused = [
        json!(false),
        json!({"type": "string", "pattern": "a+"}),
        json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
        json!({"type": "array", "minItems": 3, "maxItems": 2}),
        json!({"type": "object", "properties": {"a": {"type": "text"}}}),
        json!({"type": "object", "properties": {}, "required": ["a"]}),
        json!({"anyOf": [{"type": "object", "properties": {}}, {"type": "object", "properties": {}}]}),
        json!({"anyOf": [{"type": "string"}, {"enum": ["a"]}]}),
        json!({"allOf": [{"type": "string"}, {"type": "string"}]}),
        json!({"type": "integer", "minimum": 1.2, "maximum": 1.8}),
        json!({"type": "number", "multipleOf": 2}),
        json!({"$ref": "#"}),
        json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}),
        json!({"$ref": "https://example.org/schema"}),
        json!({"enum": []}),
    ];
    for schema in refused {
        assert!(matches!(Grammar::from_schema(&schema), Err(LmError::Schema(_))), "{schema}");
    }
    let mut deep = json!({"type": "string"});
    for _ in 0..100 {
        deep = json!({"type": "array", "items": deep});
    }
    assert!(matches!(Grammar::from_schema(&deep), Err(LmError::Schema(_))));
}
