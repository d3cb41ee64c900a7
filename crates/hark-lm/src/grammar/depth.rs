//! How deep values are nested at least: what is opened must be closed before the stack is full.

use super::Node;

/// The deepest nesting of an answer. Below the recursion limit of `serde_json`, which is 128.
pub(super) const MAX_DEPTH: u32 = 120;

/// More than [`MAX_DEPTH`]: such a value is never begun.
const TOO_DEEP: u32 = u32::MAX;

/// The levels of the shallowest value of each node: 0 for texts and numbers, 1 for an empty object. Unions must be flat.
pub(super) fn shallowest(nodes: &[Node]) -> Vec<u32> {
    let mut depths = vec![TOO_DEEP; nodes.len()];
    // A round finds the values that are a level deeper than those of the round before, so there are not more rounds than levels.
    loop {
        let mut has_changed = false;
        for (at, node) in nodes.iter().enumerate() {
            let of = |id: &u32| depths[*id as usize];
            let container = |inside: u32| if inside < MAX_DEPTH { inside + 1 } else { TOO_DEEP };
            let depth = match node {
                Node::String { .. } | Node::Literals(_) | Node::Number(_) => 0,
                Node::Map(_) | Node::Array { min: 0, .. } => 1,
                Node::Array { items, .. } => container(of(items)),
                Node::Object(properties) => {
                    let required = properties.iter().filter(|property| property.is_required);
                    container(required.map(|property| of(&property.value)).max().unwrap_or(0))
                }
                Node::Union(parts) => parts.iter().map(of).min().unwrap_or(TOO_DEEP),
            };
            has_changed |= depth != depths[at];
            depths[at] = depth;
        }
        if !has_changed {
            return depths;
        }
    }
}
