//! The Huffman tree of hierarchical softmax, built from how often each label was seen.

/// Most that all counts may sum to: fastText gives nodes that are not built yet this count.
const UNBUILT: u64 = 1_000_000_000_000_000;

/// An inner node: its children, leaves having numbers below the number of labels.
pub(super) struct Node {
    pub(super) left: usize,
    pub(super) right: usize,
}

/// The inner nodes, each after its children; none where the counts are impossible.
pub(super) fn build(counts: &[u64]) -> Option<Vec<Node>> {
    let total = counts.iter().try_fold(0u64, |sum, count| sum.checked_add(*count))?;
    if counts.is_empty() || total >= UNBUILT {
        return None;
    }
    let labels = counts.len();
    let mut sums: Vec<u64> = counts.to_vec();
    sums.resize(2 * labels - 1, UNBUILT);
    // Leaves are taken from the back, where the rarest are, inner nodes from the front. Since no count reaches UNBUILT, a node is not taken before it is built.
    let (mut leaf, mut inner) = (labels, labels);
    let mut next = |sums: &[u64]| {
        if leaf > 0 && sums[leaf - 1] < sums[inner] {
            leaf -= 1;
            leaf
        } else {
            inner += 1;
            inner - 1
        }
    };
    let mut nodes = Vec::with_capacity(labels - 1);
    for node in labels..2 * labels - 1 {
        let (left, right) = (next(&sums), next(&sums));
        sums[node] = sums[left] + sums[right];
        nodes.push(Node { left, right });
    }
    Some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_labels_lie_deep_and_every_node_but_the_root_has_one_parent() {
        let nodes = build(&[40, 30, 20, 5, 5]).unwrap();
        let mut parents = [0; 9];
        let mut depth = [0; 9];
        for (index, node) in nodes.iter().enumerate().rev() {
            for child in [node.left, node.right] {
                assert!(child < 5 + index, "children come first");
                parents[child] += 1;
                depth[child] = depth[5 + index] + 1;
            }
        }
        assert_eq!(parents, [1, 1, 1, 1, 1, 1, 1, 1, 0]);
        assert_eq!(depth[..5], [1, 2, 3, 4, 4]);
    }

    #[test]
    fn impossible_counts_build_no_tree() {
        assert!(build(&[]).is_none());
        assert!(build(&[u64::MAX, 1]).is_none());
        assert!(build(&[UNBUILT]).is_none());
        assert_eq!(build(&[7]).unwrap().len(), 0);
        assert_eq!(build(&[0, 0, 0]).unwrap().len(), 2);
    }
}
