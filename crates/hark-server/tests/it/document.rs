//! The OpenAPI document as a list of requests that can be sent: a path that is added to the service is tried without anybody thinking of it.

use serde_json::{Map, Value, json};

/// An operation with the smallest request that makes sense.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    /// In capitals.
    pub(crate) method: String,
    /// With its parameters in braces.
    pub(crate) path: String,
    /// Whether a credential is needed.
    pub(crate) is_closed: bool,
    pub(crate) body: Body,
}

#[derive(Debug, Clone)]
pub(crate) enum Body {
    Nothing,
    Json(Value),
    /// Fields; those without a text are files.
    Form(Vec<(String, Option<String>)>),
}

/// Every operation of a document.
pub(crate) fn operations(document: &Value) -> Vec<Operation> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let ways = operation["security"].as_array().map_or(&[][..], Vec::as_slice);
            let content = &operation["requestBody"]["content"];
            let body = if let Some(media) = content.get("application/json") {
                Body::Json(example(document, &media["schema"]))
            } else if let Some(media) = content.get("multipart/form-data") {
                Body::Form(form(document, &media["schema"]))
            } else {
                Body::Nothing
            };
            all.push(Operation {
                method: method.to_uppercase(),
                path: path.clone(),
                is_closed: !ways.is_empty()
                    && ways.iter().all(|way| way.as_object().is_some_and(|way| !way.is_empty())),
                body,
            });
        }
    }
    all
}

fn form(document: &Value, schema: &Value) -> Vec<(String, Option<String>)> {
    let schema = resolved(document, schema);
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    let fields = required.iter().filter_map(Value::as_str).map(|name| {
        let is_file = schema["properties"][name]["format"] == "binary";
        (name.to_owned(), (!is_file).then(|| "something".to_owned()))
    });
    fields.collect()
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).unwrap_or_else(|| panic!("{reference} is not there")),
        None => schema,
    }
}

/// The smallest value that fits a schema.
fn example(document: &Value, schema: &Value) -> Value {
    let schema = resolved(document, schema);
    for choices in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[choices].as_array() {
            let choice = choices.iter().find(|choice| choice["type"] != "null");
            return choice.map_or(Value::Null, |choice| example(document, choice));
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return values[0].clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].as_str(),
        kind => kind.as_str(),
    };
    match kind {
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let fields = required.map(|name| (name.to_owned(), example(document, &schema["properties"][name])));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Some("array") => json!([example(document, &schema["items"])]),
        Some("string") if schema["format"] == "email" => json!("somebody@example.com"),
        Some("string") => json!("something"),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(false),
        other => panic!("no example for {other:?}: {schema}"),
    }
}
