//! Clustering of recordings of any length at a cost that grows with the length and not with its square.
//!
//! Embeddings are gathered until a block is full; then those that are surely one voice become a group, and only the
//! groups stay. When the groups fill a block themselves they are reduced the same way. A voice that comes back after an
//! hour forms new groups that the last step joins with its old ones, by the same average linkage.

use super::Voice;
use super::linkage::{Group, Merge, average_linkage, cut_at, cut_into};

/// Embeddings clustered at once: a matrix of 16 MB, and about a quarter of a second.
const BLOCK: usize = 2_000;
/// Groups left of a full block at most. Two hundred are far more than voices in forty minutes, so none is lost.
const GROUPS_OF_BLOCK: usize = 200;
/// Cosine distance below which two groups of a block are joined at once. Well under every threshold between voices.
const SURE: f32 = 0.35;

/// Embeddings on their way to voices.
#[derive(Debug, Clone, Default)]
pub struct Blocks {
    groups: Vec<Group>,
    /// How many of the groups have been through a block already.
    reduced: usize,
}

impl Blocks {
    /// Takes one more embedding of length 1 that stands for so many seconds of speech.
    pub fn push(&mut self, vector: &Voice, seconds: f32) {
        self.groups.push(Group::of(vector, seconds));
        if self.groups.len() - self.reduced >= BLOCK {
            let fresh = self.groups.split_off(self.reduced);
            self.groups.extend(reduce(&fresh));
            if self.groups.len() > BLOCK {
                self.groups = reduce(&self.groups);
            }
            self.reduced = self.groups.len();
        }
    }

    /// How the groups join, one pair after the other.
    pub fn tree(self) -> Tree {
        let groups = if self.groups.len() > BLOCK { reduce(&self.groups) } else { self.groups };
        Tree { merges: average_linkage(&groups), groups }
    }
}

/// Groups and the order in which they join.
#[derive(Debug, Clone)]
pub struct Tree {
    groups: Vec<Group>,
    merges: Vec<Merge>,
}

impl Tree {
    /// What is left when all that are nearer than `distance` are one; the largest first.
    pub fn clusters_at(&self, distance: f32) -> Vec<Group> {
        self.clusters(&cut_at(&self.merges, self.groups.len(), distance))
    }

    /// What is left when there are so many clusters, or as many as there are groups; the largest first.
    pub fn clusters_into(&self, count: usize) -> Vec<Group> {
        self.clusters(&cut_into(&self.merges, self.groups.len(), count))
    }

    fn clusters(&self, numbers: &[usize]) -> Vec<Group> {
        let mut clusters = joined(&self.groups, numbers);
        clusters.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        clusters
    }
}

fn reduce(groups: &[Group]) -> Vec<Group> {
    let merges = average_linkage(groups);
    let mut numbers = cut_at(&merges, groups.len(), SURE);
    if numbers.iter().max().is_some_and(|&last| last >= GROUPS_OF_BLOCK) {
        numbers = cut_into(&merges, groups.len(), GROUPS_OF_BLOCK);
    }
    joined(groups, &numbers)
}

fn joined(groups: &[Group], numbers: &[usize]) -> Vec<Group> {
    let mut clusters: Vec<Group> = Vec::new();
    for (group, &number) in groups.iter().zip(numbers) {
        match clusters.get_mut(number) {
            Some(cluster) => cluster.join(group),
            None => clusters.push(group.clone()),
        }
    }
    clusters
}

#[cfg(test)]
mod tests {
    use super::super::tests::noisy_voices;
    use super::super::{dot, nearest};
    use super::*;

    #[test]
    fn a_long_recording_in_blocks_has_the_voices_of_one_in_a_piece() {
        // Voices 0 and 2 speak in the first block and come back in the last one.
        let (vectors, voices) = noisy_voices(9, &[1_800, 2_100, 1_900], 1.1);
        let mut order: Vec<usize> = (0..vectors.len()).collect();
        order.sort_by_key(|&place| match (voices[place], place % 2) {
            (1, _) => 1,
            (_, 0) => 0,
            _ => 2,
        });
        let mut blocks = Blocks::default();
        order.iter().for_each(|&place| blocks.push(&vectors[place], 0.75));
        assert!(blocks.groups.len() < 2 * BLOCK, "{} groups are kept", blocks.groups.len());
        let clusters = blocks.tree().clusters_at(0.75);
        let counts: Vec<f32> = clusters.iter().map(|cluster| cluster.count).collect();
        assert_eq!(counts, [2_100.0, 1_900.0, 1_800.0]);
        let centroids: Vec<Voice> = clusters.iter().map(Group::centroid).collect();
        for (vector, voice) in vectors.iter().zip(&voices) {
            let size = counts[nearest(vector, &centroids).unwrap().0];
            assert_eq!(size, [1_800.0, 2_100.0, 1_900.0][*voice]);
        }
    }

    #[test]
    fn a_given_number_of_voices_is_what_is_left() {
        let (vectors, _) = noisy_voices(2, &[10, 10, 10], 0.8);
        let mut blocks = Blocks::default();
        vectors.iter().for_each(|vector| blocks.push(vector, 0.75));
        let tree = blocks.tree();
        for voices in 1..=4 {
            assert_eq!(tree.clusters_into(voices).len(), voices);
        }
        assert_eq!(tree.clusters_at(0.7).len(), 3);
    }

    #[test]
    fn no_embeddings_are_no_voices() {
        assert_eq!(Blocks::default().tree().clusters_at(0.7), []);
        assert_eq!(Blocks::default().tree().clusters_into(3), []);
    }

    #[test]
    fn a_centroid_has_length_one() {
        let (vectors, _) = noisy_voices(2, &[5], 0.8);
        let mut group = Group::of(&vectors[0], 1.0);
        vectors[1..].iter().for_each(|vector| group.join(&Group::of(vector, 1.0)));
        let centroid = group.centroid();
        assert!((dot(&centroid, &centroid) - 1.0).abs() < 1e-5);
    }
}
