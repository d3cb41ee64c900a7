//! Unions made flat: the values that an alternative leads to, told apart by their first byte.
//!
//! Alternatives may be shared by many unions (`$ref`), so that paths through them can be exponentially many. Every node is resolved once.

use super::{Node, NodeId};

/// References and alternatives inside of each other.
const MAX_NESTING: usize = 256;

const BEGIN_ALIKE: &str = "alternatives of anyOf begin alike (two objects, two arrays, text beside an enum of texts)";

/// Replaces the alternatives of every union by nodes that are no unions. Fails where two of them begin alike, and where a union leads to itself.
pub(super) fn flatten(nodes: &mut [Node]) -> Result<(), String> {
    let firsts = nodes.iter().map(first_bytes).collect();
    let mut unions = Unions { nodes, firsts, resolved: vec![Resolved::No; nodes.len()] };
    for id in 0..unions.nodes.len() {
        unions.resolve(id as NodeId, 0)?;
    }
    let resolved = unions.resolved;
    for (node, resolved) in nodes.iter_mut().zip(resolved) {
        if let (Node::Union(parts), Resolved::As(leaves)) = (node, resolved) {
            *parts = leaves;
        }
    }
    Ok(())
}

struct Unions<'a> {
    nodes: &'a [Node],
    /// The bytes that each node begins with, none for unions.
    firsts: Vec<ByteSet>,
    resolved: Vec<Resolved>,
}

#[derive(Clone)]
enum Resolved {
    No,
    InProgress,
    /// The nodes that a union leads to: at most one for each first byte.
    As(Vec<NodeId>),
}

impl Unions<'_> {
    /// The nodes that are no unions and that a node leads to.
    fn resolve(&mut self, id: NodeId, nesting: usize) -> Result<Vec<NodeId>, String> {
        let at = id as usize;
        let Node::Union(parts) = &self.nodes[at] else { return Ok(vec![id]) };
        match &self.resolved[at] {
            Resolved::As(leaves) => return Ok(leaves.clone()),
            Resolved::InProgress => return Err("a $ref leads to itself".to_owned()),
            Resolved::No if nesting > MAX_NESTING => {
                return Err(format!("its references lead to each other more than {MAX_NESTING} times"));
            }
            Resolved::No => self.resolved[at] = Resolved::InProgress,
        }
        let (mut leaves, mut taken) = (Vec::new(), ByteSet::default());
        for part in parts {
            for leaf in self.resolve(*part, nesting + 1)? {
                if leaves.contains(&leaf) {
                    continue;
                }
                if !taken.add(&self.firsts[leaf as usize]) {
                    return Err(BEGIN_ALIKE.to_owned());
                }
                leaves.push(leaf);
            }
        }
        self.resolved[at] = Resolved::As(leaves.clone());
        Ok(leaves)
    }
}

/// The bytes that a value may begin with.
fn first_bytes(node: &Node) -> ByteSet {
    let mut set = ByteSet::default();
    match node {
        Node::Object(_) | Node::Map(_) => set.insert(b'{'),
        Node::Array { .. } => set.insert(b'['),
        Node::String { .. } => set.insert(b'"'),
        Node::Number(_) => b"-0123456789".iter().for_each(|byte| set.insert(*byte)),
        Node::Literals(texts) => texts.iter().filter_map(|text| text.first()).for_each(|byte| set.insert(*byte)),
        Node::Union(_) => {}
    }
    set
}

/// A set of bytes.
#[derive(Default)]
struct ByteSet([u128; 2]);

impl ByteSet {
    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 7)] |= 1 << (byte & 0x7f);
    }

    /// Adds a set. False when a byte is in both.
    fn add(&mut self, other: &ByteSet) -> bool {
        let is_disjoint = self.0.iter().zip(other.0).all(|(own, other)| own & other == 0);
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own |= other);
        is_disjoint
    }
}
