//! `/openapi.json`, made from the handlers, and `/docs`, the same as a page to read: no script, nothing from elsewhere.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

/// The document in both forms, made once.
pub(crate) struct Documentation {
    pub(crate) json: Arc<str>,
    pub(crate) page: Arc<str>,
}

impl Documentation {
    pub(crate) fn new(document: &utoipa::openapi::OpenApi) -> Self {
        let json = document.to_json().unwrap_or_else(|error| {
            tracing::error!(%error, "openapi.encode_failed");
            "{}".to_owned()
        });
        let page = page(&serde_json::from_str(&json).unwrap_or_default());
        Documentation { json: json.into(), page: page.into() }
    }
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem;color:#1a1a1a;background:#fff}\
    h1,h2{line-height:1.2}code,pre{font:14px/1.45 ui-monospace,monospace}\
    details{border:1px solid #ccc;border-radius:6px;margin:.5rem 0;padding:.4rem .8rem}summary{cursor:pointer}\
    .method{display:inline-block;min-width:4.5rem;font-weight:700}table{border-collapse:collapse;width:100%}\
    td,th{border-top:1px solid #ddd;padding:.25rem .5rem;text-align:left;vertical-align:top}\
    @media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}a{color:#8ab4ff}details{border-color:#444}\
    td,th{border-color:#333}}";

/// The whole document as HTML.
fn page(document: &Value) -> String {
    let mut html = String::new();
    let info = &document["info"];
    let _ = write!(
        html,
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}</style><h1>{title} <small>{version}</small></h1>{description}\
         <p>As a machine reads it: <a href=/openapi.json>openapi.json</a></p>",
        title = escaped(text(&info["title"])),
        version = escaped(text(&info["version"])),
        description = paragraphs(text(&info["description"])),
    );
    let mut operations: Vec<(&str, &str, &str, &Value)> = Vec::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            operations.push((text(&operation["tags"][0]), path, method, operation));
        }
    }
    for tag in document["tags"].as_array().into_iter().flatten() {
        let name = text(&tag["name"]);
        let _ = write!(html, "<h2 id=\"{0}\">{0}</h2>{1}", escaped(name), paragraphs(text(&tag["description"])));
        for (_, path, method, operation) in operations.iter().filter(|(of, ..)| *of == name) {
            write_operation(&mut html, path, method, operation);
        }
    }
    html.push_str("<h2 id=schemas>Types</h2>");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        let _ = write!(html, "<details id=\"type-{0}\"><summary><code>{0}</code></summary>", escaped(name));
        html.push_str(&paragraphs(text(&schema["description"])));
        write_schema(&mut html, schema);
        html.push_str("</details>");
    }
    html.push_str("</html>");
    html
}

fn write_operation(html: &mut String, path: &str, method: &str, operation: &Value) {
    let _ = write!(
        html,
        "<details id=\"{}\"><summary><code><span class=method>{}</span>{}</code> {}</summary>{}",
        escaped(text(&operation["operationId"])),
        escaped(&method.to_uppercase()),
        escaped(path),
        escaped(text(&operation["summary"])),
        paragraphs(text(&operation["description"])),
    );
    let security = operation["security"].as_array().map_or(&[][..], Vec::as_slice);
    let is_optional = security.iter().any(|way| way.as_object().is_some_and(serde_json::Map::is_empty));
    let needs = match (security.is_empty(), is_optional) {
        (true, _) => "No credential needed.",
        (false, true) => "A credential is optional.",
        (false, false) => "Needs a credential.",
    };
    let _ = write!(html, "<p>{needs}</p>");
    if let Some(parameters) = operation["parameters"].as_array() {
        html.push_str("<h4>Parameters</h4><table>");
        for parameter in parameters {
            let _ = write!(
                html,
                "<tr><td><code>{}</code><td>{} ({})<td>{}",
                escaped(text(&parameter["name"])),
                kind(&parameter["schema"]),
                escaped(text(&parameter["in"])),
                escaped(text(&parameter["description"]))
            );
        }
        html.push_str("</table>");
    }
    for (media, content) in operation["requestBody"]["content"].as_object().into_iter().flatten() {
        let _ = write!(html, "<h4>Body</h4><p><code>{}</code>: {}</p>", escaped(media), kind(&content["schema"]));
    }
    html.push_str("<h4>Answers</h4><table>");
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let mut bodies = String::new();
        for (media, content) in response["content"].as_object().into_iter().flatten() {
            let _ = write!(bodies, "<code>{}</code> {} ", escaped(media), kind(&content["schema"]));
        }
        let _ = write!(
            html,
            "<tr><td><code>{}</code><td>{}<td>{}",
            escaped(status),
            escaped(text(&response["description"])),
            bodies
        );
    }
    html.push_str("</table></details>");
}

fn write_schema(html: &mut String, schema: &Value) {
    let Some(properties) = schema["properties"].as_object() else {
        let _ = write!(html, "<p>{}</p>", kind(schema));
        return;
    };
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    html.push_str("<table>");
    for (name, property) in properties {
        let mark = if required.iter().any(|one| one == name) { "" } else { " (optional)" };
        let description = escaped(text(&property["description"]));
        let _ = write!(html, "<tr><td><code>{}</code>{mark}<td>{}<td>{description}", escaped(name), kind(property));
    }
    html.push_str("</table>");
}

/// A schema in a few words, with a link where it has a name.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = escaped(reference.rsplit('/').next().unwrap_or(reference));
        return format!("<a href=\"#type-{name}\">{name}</a>");
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        if let Some(choices) = schema[key].as_array() {
            return choices.iter().map(kind).collect::<Vec<_>>().join(" or ");
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(|value| escaped(&value.to_string())).collect::<Vec<_>>().join(", ");
    }
    let names = match &schema["type"] {
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().map(text).collect::<Vec<_>>().join(" or "),
        _ => "anything".to_owned(),
    };
    match &schema["items"] {
        Value::Null => escaped(&names),
        items => format!("{} of {}", escaped(&names), kind(items)),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn paragraphs(text: &str) -> String {
    let paragraphs = text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty());
    paragraphs.map(|paragraph| format!("<p>{}</p>", escaped(paragraph))).collect()
}

/// `text` as it may stand in HTML and in a quoted attribute.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}
