//! Answers that are valid against a JSON schema by construction: which tokens may come next.
//!
//! A schema is compiled into nodes (`schema.rs`): unions are made flat (`union.rs`), and how deep each value is at least is found (`depth.rs`). A stack of frames reads the answer byte by byte (`automaton.rs`). The tokens that
//! may come next are found by walking a trie of the vocabulary with that stack (`trie.rs`). JSON is written in one way only, on one
//! line with a space behind `:` and `,`, so that most of the text between values needs no choice at all.

mod automaton;
mod depth;
mod schema;
#[cfg(test)]
mod tests;
mod trie;
mod union;

use std::sync::Arc;

use serde_json::Value;

use crate::LmError;
use automaton::Stack;
pub(crate) use trie::TokenTrie;

/// A compiled JSON schema.
#[derive(Debug, PartialEq)]
pub struct Grammar {
    nodes: Vec<Node>,
    /// The levels of the shallowest value of each node.
    depths: Vec<u32>,
    root: NodeId,
}

type NodeId = u32;

/// What a value may be.
#[derive(Debug, PartialEq)]
enum Node {
    /// Properties in the order in which they are written.
    Object(Vec<Property>),
    /// Any keys with such values.
    Map(NodeId),
    Array {
        items: NodeId,
        min: u32,
        max: u32,
    },
    /// Lengths in characters.
    String {
        min: u32,
        max: u32,
    },
    /// Texts of JSON values, sorted.
    Literals(Vec<Vec<u8>>),
    Number(NumberRange),
    /// Alternatives that begin with different bytes; once compiled, none of them is a union.
    Union(Vec<NodeId>),
}

#[derive(Debug, PartialEq)]
struct Property {
    /// The key as it is written: `"name": `.
    key: Vec<u8>,
    value: NodeId,
    is_required: bool,
}

/// Numbers between two bounds, as multiples of a ten-thousandth.
#[derive(Debug, Clone, Copy, PartialEq)]
struct NumberRange {
    is_integer: bool,
    min: i64,
    max: i64,
}

impl Grammar {
    /// Compiles a JSON schema.
    ///
    /// Supported: `type` (also several), `properties` in the order of `required`, then the others, `items`, `minItems`, `maxItems`,
    /// `minLength`, `maxLength`, `minimum`, `maximum` and their exclusive forms, `enum`, `const`, `anyOf` and `oneOf` of alternatives
    /// that begin differently, `additionalProperties` with a schema, `$ref` inside of the document, and schemas without any
    /// restriction. Other restrictions are an error; descriptions and formats are ignored.
    pub fn from_schema(schema: &Value) -> Result<Self, LmError> {
        schema::compile(schema).map_err(LmError::Schema)
    }

    /// Any JSON object.
    pub fn any_object() -> Self {
        schema::compile(&serde_json::json!({"type": "object"})).expect("the schema is supported")
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// Whether a value can be written inside of so many others.
    fn fits(&self, id: NodeId, outside: usize) -> bool {
        outside.saturating_add(self.depths[id as usize] as usize) <= depth::MAX_DEPTH as usize
    }
}

/// Reads one answer.
#[derive(Clone)]
pub struct Matcher {
    grammar: Arc<Grammar>,
    stack: Stack,
}

/// Text that can't be other than it is.
pub(crate) struct Forced {
    pub(crate) bytes: Vec<u8>,
    /// Whether the answer ends with it.
    pub(crate) is_end: bool,
}

/// The longest forced text that is looked for at once.
const MAX_FORCED_BYTES: usize = 256;

impl Matcher {
    /// A matcher at the start of an answer.
    pub fn new(grammar: Arc<Grammar>) -> Self {
        let stack = Stack::new(grammar.root);
        Matcher { grammar, stack }
    }

    /// Reads the bytes of a token. False when they do not fit; the matcher can't be used after that.
    pub fn accept(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| self.stack.advance(&self.grammar, *byte))
    }

    /// Whether the answer may end here.
    pub fn is_complete(&self) -> bool {
        self.stack.is_complete(&self.grammar)
    }

    /// Whether nothing may follow.
    pub fn is_end(&self) -> bool {
        self.stack.is_empty()
    }

    /// The text that follows in any case.
    pub(crate) fn forced(&self) -> Forced {
        let (mut stack, mut bytes) = (self.stack.clone(), Vec::new());
        while bytes.len() < MAX_FORCED_BYTES && !stack.is_empty() {
            let Some(byte) = stack.only_byte(&self.grammar) else { break };
            if !stack.advance(&self.grammar, byte) {
                break;
            }
            bytes.push(byte);
        }
        Forced { is_end: stack.is_empty(), bytes }
    }
}
