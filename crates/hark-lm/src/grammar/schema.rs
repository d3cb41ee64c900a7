//! A JSON schema as nodes.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{Grammar, Node, NodeId, NumberRange, Property, depth, union};

/// The most nodes of a grammar, and the most bytes of its literals and keys.
const MAX_NODES: usize = 10_000;
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Schemas inside of schemas.
const MAX_DEPTH: usize = 64;
/// Properties of an object; of those that may be left out, so many may stand together.
const MAX_PROPERTIES: usize = 1000;
const MAX_OPTIONAL_RUN: usize = 63;
/// What a length or a count without a bound is.
const NO_LIMIT: u32 = u32::MAX;
/// Digits behind the point.
pub(super) const FRACTION_DIGITS: u32 = 4;
pub(super) const FRACTION: i64 = 10_i64.pow(FRACTION_DIGITS);
/// The largest number: every integer up to it is exact as a double, and there is room for the fraction.
const LARGEST: i64 = 99_999_999_999_999 * FRACTION;

/// Keywords that restrict nothing.
const ANNOTATIONS: [&str; 13] = [
    "$schema",
    "$id",
    "$defs",
    "$comment",
    "definitions",
    "components",
    "title",
    "description",
    "default",
    "example",
    "examples",
    "format",
    "deprecated",
];

pub(super) fn compile(schema: &Value) -> Result<Grammar, String> {
    let mut compiler = Compiler::new(schema);
    let root = compiler.schema(schema, 0)?;
    compiler.finish(root)
}

struct Compiler<'a> {
    document: &'a Value,
    nodes: Vec<Node>,
    /// The node of any JSON value, once there is one.
    any: Option<NodeId>,
    /// Nodes of `$ref` targets, by the address of the target, since one target has many names: recursive schemas refer to nodes that are not finished.
    references: HashMap<*const Value, NodeId>,
    /// Bytes of literals and keys.
    text_bytes: usize,
}

impl<'a> Compiler<'a> {
    fn new(document: &'a Value) -> Self {
        Compiler { document, nodes: Vec::new(), any: None, references: HashMap::new(), text_bytes: 0 }
    }

    /// The grammar of what was compiled: unions flat, values that never end refused.
    fn finish(mut self, root: NodeId) -> Result<Grammar, String> {
        union::flatten(&mut self.nodes)?;
        let depths = depth::shallowest(&self.nodes);
        if depths[root as usize] > depth::MAX_DEPTH {
            return Err(format!("its values never end, or only more than {} levels deep", depth::MAX_DEPTH));
        }
        Ok(Grammar { nodes: self.nodes, depths, root })
    }

    fn add(&mut self, node: Node) -> Result<NodeId, String> {
        if self.nodes.len() >= MAX_NODES {
            return Err(format!("it has more than {MAX_NODES} parts"));
        }
        self.nodes.push(node);
        Ok(self.nodes.len() as NodeId - 1)
    }

    fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<NodeId, String> {
        if depth > MAX_DEPTH {
            return Err(format!("it is more than {MAX_DEPTH} levels deep"));
        }
        let map = match schema {
            Value::Bool(true) => return self.any(),
            Value::Object(map) => map,
            _ => return Err(format!("{schema} is no schema")),
        };
        if let Some(reference) = map.get("$ref") {
            return self.reference(map, reference, depth);
        }
        if let Some(value) = map.get("const") {
            only(map, &["const", "type"])?;
            return self.literals([value]);
        }
        if let Some(values) = map.get("enum") {
            only(map, &["enum", "type", "nullable"])?;
            let values = values.as_array().ok_or("enum is no array")?;
            let null = is_nullable(map).then_some(&Value::Null);
            return self.literals(values.iter().chain(null));
        }
        for keyword in ["anyOf", "oneOf", "allOf"] {
            let Some(parts) = map.get(keyword) else { continue };
            only(map, &[keyword])?;
            let parts = parts.as_array().filter(|parts| !parts.is_empty()).ok_or("anyOf has no alternatives")?;
            if keyword == "allOf" && parts.len() > 1 {
                return Err("allOf is not supported".to_owned());
            }
            let parts = parts.iter().map(|part| self.schema(part, depth + 1)).collect::<Result<Vec<_>, _>>()?;
            return self.union(parts);
        }
        let mut types: Vec<&str> = match map.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            Some(_) => return Err("type is neither text nor an array".to_owned()),
            None if map.contains_key("properties") => vec!["object"],
            None if map.contains_key("items") => vec!["array"],
            None => {
                only(map, &[])?;
                return self.any();
            }
        };
        let mut seen = HashSet::new();
        types.retain(|name| seen.insert(*name));
        self.check_keywords(map, &types)?;
        let null = is_nullable(map).then_some("null");
        let parts =
            types.into_iter().chain(null).map(|name| self.of_type(name, map, depth)).collect::<Result<Vec<_>, _>>()?;
        self.union(parts)
    }

    fn reference(&mut self, map: &Map<String, Value>, reference: &'a Value, depth: usize) -> Result<NodeId, String> {
        only(map, &["$ref"])?;
        let reference = reference.as_str().ok_or("$ref is no text")?;
        let pointer = reference.strip_prefix('#').ok_or_else(|| format!("{reference} is outside of the document"))?;
        let document = self.document;
        let target = document.pointer(pointer).ok_or_else(|| format!("there is no {reference}"))?;
        if let Some(id) = self.references.get(&std::ptr::from_ref(target)) {
            return Ok(*id);
        }
        // A place for it first: what is inside may refer to it.
        let id = self.add(Node::Union(Vec::new()))?;
        self.references.insert(target, id);
        let target = self.schema(target, depth + 1)?;
        self.nodes[id as usize] = Node::Union(vec![target]);
        Ok(id)
    }

    /// Refuses what is not checked while the answer is written.
    fn check_keywords(&self, map: &Map<String, Value>, types: &[&str]) -> Result<(), String> {
        let mut known = vec!["type", "nullable"];
        for name in types {
            known.extend(match *name {
                "object" => &["properties", "required", "additionalProperties"][..],
                "array" => &["items", "minItems", "maxItems"],
                "string" => &["minLength", "maxLength"],
                "number" | "integer" => &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
                _ => &[],
            });
        }
        only(map, &known)
    }

    fn of_type(&mut self, name: &str, map: &'a Map<String, Value>, depth: usize) -> Result<NodeId, String> {
        match name {
            "object" => self.object(map, depth),
            "array" => {
                let items = match map.get("items") {
                    Some(items) => self.schema(items, depth + 1)?,
                    None => self.any()?,
                };
                let (min, max) = bounds(map, "minItems", "maxItems")?;
                self.add(Node::Array { items, min, max })
            }
            "string" => {
                let (min, max) = bounds(map, "minLength", "maxLength")?;
                self.add(Node::String { min, max })
            }
            "number" | "integer" => {
                let range = number_range(map, name == "integer")?;
                self.add(Node::Number(range))
            }
            "boolean" => self.literals([&Value::Bool(true), &Value::Bool(false)]),
            "null" => self.literals([&Value::Null]),
            other => Err(format!("there is no type {other:?}")),
        }
    }

    fn object(&mut self, map: &'a Map<String, Value>, depth: usize) -> Result<NodeId, String> {
        let properties = match map.get("properties") {
            Some(Value::Object(properties)) => properties,
            Some(_) => return Err("properties is no object".to_owned()),
            None => {
                return match map.get("additionalProperties") {
                    Some(Value::Bool(false)) => self.add(Node::Object(Vec::new())),
                    Some(values) => {
                        no_required(map)?;
                        let values = self.schema(values, depth + 1)?;
                        self.add(Node::Map(values))
                    }
                    None => {
                        no_required(map)?;
                        let any = self.any()?;
                        self.add(Node::Map(any))
                    }
                };
            }
        };
        if properties.len() > MAX_PROPERTIES {
            return Err(format!("an object has more than {MAX_PROPERTIES} properties"));
        }
        let required: Vec<&str> = match map.get("required") {
            None => Vec::new(),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            Some(_) => return Err("required is no array".to_owned()),
        };
        let (mut order, mut seen) = (Vec::new(), HashSet::new());
        for name in required {
            if !properties.contains_key(name) {
                return Err(format!("the required property {name:?} is not described"));
            }
            if seen.insert(name) {
                order.push((name, true));
            }
        }
        let count = order.len();
        order.extend(properties.keys().filter(|name| !seen.contains(name.as_str())).map(|name| (name.as_str(), false)));
        if order.len() - count > MAX_OPTIONAL_RUN {
            return Err(format!("more than {MAX_OPTIONAL_RUN} properties may be left out"));
        }
        let mut out = Vec::with_capacity(order.len());
        for (name, is_required) in order {
            let value = self.schema(&properties[name], depth + 1)?;
            let key = format!("{}: ", Value::from(name)).into_bytes();
            self.count_text(key.len())?;
            out.push(Property { key, value, is_required });
        }
        self.add(Node::Object(out))
    }

    /// Constants, of which one is written.
    fn literals<'v>(&mut self, values: impl IntoIterator<Item = &'v Value>) -> Result<NodeId, String> {
        let texts: Vec<Vec<u8>> = values.into_iter().map(spaced_json).collect();
        if texts.is_empty() {
            return Err("enum has no values".to_owned());
        }
        self.add_literals(texts)
    }

    fn add_literals(&mut self, mut texts: Vec<Vec<u8>>) -> Result<NodeId, String> {
        texts.sort();
        texts.dedup();
        self.count_text(texts.iter().map(Vec::len).sum())?;
        self.add(Node::Literals(texts))
    }

    fn count_text(&mut self, bytes: usize) -> Result<(), String> {
        self.text_bytes += bytes;
        match self.text_bytes > MAX_TEXT_BYTES {
            true => Err(format!("its constants and names have more than {MAX_TEXT_BYTES} bytes")),
            false => Ok(()),
        }
    }

    /// One node of several; constants of all alternatives are joined, for they may begin alike.
    fn union(&mut self, mut parts: Vec<NodeId>) -> Result<NodeId, String> {
        let mut seen = HashSet::new();
        parts.retain(|part| seen.insert(*part));
        if let [one] = parts[..] {
            return Ok(one);
        }
        let (mut literals, mut others) = (Vec::new(), Vec::new());
        for id in parts {
            match &self.nodes[id as usize] {
                Node::Literals(texts) => literals.extend(texts.iter().cloned()),
                _ => others.push(id),
            }
        }
        if !literals.is_empty() {
            others.push(self.add_literals(literals)?);
        }
        if let [one] = others[..] {
            return Ok(one);
        }
        self.add(Node::Union(others))
    }

    /// Any JSON value.
    fn any(&mut self) -> Result<NodeId, String> {
        if let Some(any) = self.any {
            return Ok(any);
        }
        let any = self.add(Node::Union(Vec::new()))?;
        let parts = vec![
            self.add(Node::Map(any))?,
            self.add(Node::Array { items: any, min: 0, max: NO_LIMIT })?,
            self.add(Node::String { min: 0, max: NO_LIMIT })?,
            self.add(Node::Number(NumberRange { is_integer: false, min: -LARGEST, max: LARGEST }))?,
            self.literals([&Value::Bool(false), &Value::Bool(true), &Value::Null])?,
        ];
        self.nodes[any as usize] = Node::Union(parts);
        self.any = Some(any);
        Ok(any)
    }
}

/// Refuses keywords that are neither known nor annotations.
fn only(map: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    let is_known = |key: &str| known.contains(&key) || ANNOTATIONS.contains(&key) || key.starts_with("x-");
    match map.keys().find(|key| !is_known(key)) {
        Some(key) => Err(format!("{key} is not supported here")),
        None => Ok(()),
    }
}

/// OpenAPI's way to allow null.
fn is_nullable(map: &Map<String, Value>) -> bool {
    map.get("nullable") == Some(&Value::Bool(true))
}

fn no_required(map: &Map<String, Value>) -> Result<(), String> {
    match map.get("required").and_then(Value::as_array) {
        Some(names) if !names.is_empty() => Err("required properties are not described".to_owned()),
        _ => Ok(()),
    }
}

fn bounds(map: &Map<String, Value>, min: &str, max: &str) -> Result<(u32, u32), String> {
    let bound = |key: &str, otherwise: u32| match map.get(key) {
        None => Ok(otherwise),
        Some(value) => value
            .as_u64()
            .map(|value| value.min(u64::from(NO_LIMIT)) as u32)
            .ok_or_else(|| format!("{key} is no count")),
    };
    let (least, most) = (bound(min, 0)?, bound(max, NO_LIMIT)?);
    if least > most { Err(format!("{min} is more than {max}")) } else { Ok((least, most)) }
}

fn number_range(map: &Map<String, Value>, is_integer: bool) -> Result<NumberRange, String> {
    let unit = if is_integer { FRACTION } else { 1 };
    let scaled = |key: &str| match map.get(key) {
        None => Ok(None),
        // JSON schema's older form, `exclusiveMinimum: true`, says something about another keyword.
        Some(value) => match value.as_f64() {
            Some(value) => Ok(Some(value * FRACTION as f64 / unit as f64)),
            None => Err(format!("{key} is no number")),
        },
    };
    let steps = LARGEST / unit;
    let (mut min, mut max) = (-steps, steps);
    let whole = |value: f64| value.clamp(-(steps as f64), steps as f64) as i64;
    if let Some(value) = scaled("minimum")? {
        min = min.max(whole((value - 1e-6).ceil()));
    }
    if let Some(value) = scaled("exclusiveMinimum")? {
        min = min.max(whole((value + 1e-6).floor()).saturating_add(1));
    }
    if let Some(value) = scaled("maximum")? {
        max = max.min(whole((value + 1e-6).floor()));
    }
    if let Some(value) = scaled("exclusiveMaximum")? {
        max = max.min(whole((value - 1e-6).ceil()).saturating_sub(1));
    }
    if min > max {
        return Err("no number lies between minimum and maximum".to_owned());
    }
    Ok(NumberRange { is_integer, min: min * unit, max: max * unit })
}

/// JSON on one line, with a space behind `:` and `,` as everywhere in an answer.
fn spaced_json(value: &Value) -> Vec<u8> {
    let join = |open: &str, parts: Vec<String>, close: &str| format!("{open}{}{close}", parts.join(", "));
    let text = match value {
        Value::Array(items) => {
            let parts = items.iter().map(|item| String::from_utf8_lossy(&spaced_json(item)).into_owned());
            join("[", parts.collect(), "]")
        }
        Value::Object(map) => {
            let part = |(key, value): (&String, &Value)| {
                format!("{}: {}", Value::from(key.as_str()), String::from_utf8_lossy(&spaced_json(value)))
            };
            join("{", map.iter().map(part).collect(), "}")
        }
        other => other.to_string(),
    };
    text.into_bytes()
}
