//! Agglomerative clustering at linear cost in the length of the recording.
//!
//! Embeddings are collected until a block is full. Then a block is reduced: embeddings closer than a conservative distance
//! merge to clusters, and only the clusters stay. When the clusters fill a block themselves they are reduced the same way.
//! A speaker who returns after an hour forms new clusters, which the last step merges with the old ones by the same
//! average linkage.

use super::Embedding;
use super::linkage::{Cluster, Merge, average_linkage, cut_at, cut_into};

/// Embeddings per block: a distance matrix of 16 MB, about a quarter of a second.
const BLOCK_SIZE: usize = 2_000;
/// Clusters that a full block is reduced to at most: far more than there are speakers in forty minutes, so none is lost.
const MAX_REDUCED: usize = 200;
/// Cosine distance below which clusters of a block merge: well below every threshold between speakers.
const REDUCE_DISTANCE: f32 = 0.35;

/// Collects embeddings and reduces them block by block.
#[derive(Debug, Clone, Default)]
pub struct BlockwiseClustering {
    clusters: Vec<Cluster>,
    /// How many of the clusters have been reduced already.
    reduced: usize,
}

impl BlockwiseClustering {
    /// Adds an embedding of length 1 that represents this many seconds of speech.
    pub fn push(&mut self, vector: &Embedding, seconds: f32) {
        self.clusters.push(Cluster::new(vector, seconds));
        if self.clusters.len() - self.reduced >= BLOCK_SIZE {
            let unreduced = self.clusters.split_off(self.reduced);
            self.clusters.extend(reduce(&unreduced));
            if self.clusters.len() > BLOCK_SIZE {
                self.clusters = reduce(&self.clusters);
            }
            self.reduced = self.clusters.len();
        }
    }

    /// The dendrogram of all clusters.
    pub fn dendrogram(self) -> Dendrogram {
        let leaves = if self.clusters.len() > BLOCK_SIZE { reduce(&self.clusters) } else { self.clusters };
        Dendrogram { merges: average_linkage(&leaves), leaves }
    }
}

/// Clusters and the order in which they merge.
#[derive(Debug, Clone)]
pub struct Dendrogram {
    leaves: Vec<Cluster>,
    merges: Vec<Merge>,
}

impl Dendrogram {
    /// The clusters after all merges closer than `distance`, the longest speech first.
    pub fn clusters_at(&self, distance: f32) -> Vec<Cluster> {
        self.clusters(&cut_at(&self.merges, self.leaves.len(), distance))
    }

    /// This many clusters (or as many as there are leaves), the longest speech first.
    pub fn clusters_into(&self, count: usize) -> Vec<Cluster> {
        self.clusters(&cut_into(&self.merges, self.leaves.len(), count))
    }

    fn clusters(&self, numbers: &[usize]) -> Vec<Cluster> {
        let mut clusters = merged(&self.leaves, numbers);
        clusters.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        clusters
    }
}

fn reduce(clusters: &[Cluster]) -> Vec<Cluster> {
    let merges = average_linkage(clusters);
    let mut numbers = cut_at(&merges, clusters.len(), REDUCE_DISTANCE);
    if numbers.iter().max().is_some_and(|&last| last >= MAX_REDUCED) {
        numbers = cut_into(&merges, clusters.len(), MAX_REDUCED);
    }
    merged(clusters, &numbers)
}

fn merged(leaves: &[Cluster], numbers: &[usize]) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for (leaf, &number) in leaves.iter().zip(numbers) {
        match clusters.get_mut(number) {
            Some(cluster) => cluster.merge(leaf),
            None => clusters.push(leaf.clone()),
        }
    }
    clusters
}

#[cfg(test)]
mod tests {
    use super::super::tests::noisy_speakers;
    use super::super::{dot, nearest};
    use super::*;

    #[test]
    fn blockwise_clustering_finds_the_same_speakers_as_one_block() {
        // Speakers 0 and 2 speak in the first block and return in the last one.
        let (vectors, speakers) = noisy_speakers(9, &[1_800, 2_100, 1_900], 1.1);
        let mut order: Vec<usize> = (0..vectors.len()).collect();
        order.sort_by_key(|&place| match (speakers[place], place % 2) {
            (1, _) => 1,
            (_, 0) => 0,
            _ => 2,
        });
        let mut clustering = BlockwiseClustering::default();
        order.iter().for_each(|&place| clustering.push(&vectors[place], 0.75));
        assert!(clustering.clusters.len() < 2 * BLOCK_SIZE, "{} clusters are kept", clustering.clusters.len());
        let clusters = clustering.dendrogram().clusters_at(0.75);
        let counts: Vec<f32> = clusters.iter().map(|cluster| cluster.count).collect();
        assert_eq!(counts, [2_100.0, 1_900.0, 1_800.0]);
        let centroids: Vec<Embedding> = clusters.iter().map(Cluster::centroid).collect();
        for (vector, speaker) in vectors.iter().zip(&speakers) {
            let size = counts[nearest(vector, &centroids).unwrap().0];
            assert_eq!(size, [1_800.0, 2_100.0, 1_900.0][*speaker]);
        }
    }

    #[test]
    fn a_given_number_of_clusters_is_returned() {
        let (vectors, _) = noisy_speakers(2, &[10, 10, 10], 0.8);
        let mut clustering = BlockwiseClustering::default();
        vectors.iter().for_each(|vector| clustering.push(vector, 0.75));
        let dendrogram = clustering.dendrogram();
        for speakers in 1..=4 {
            assert_eq!(dendrogram.clusters_into(speakers).len(), speakers);
        }
        assert_eq!(dendrogram.clusters_at(0.7).len(), 3);
    }

    #[test]
    fn no_embeddings_have_no_clusters() {
        assert_eq!(BlockwiseClustering::default().dendrogram().clusters_at(0.7), []);
        assert_eq!(BlockwiseClustering::default().dendrogram().clusters_into(3), []);
    }

    #[test]
    fn a_centroid_has_length_one() {
        let (vectors, _) = noisy_speakers(2, &[5], 0.8);
        let mut cluster = Cluster::new(&vectors[0], 1.0);
        vectors[1..].iter().for_each(|vector| cluster.merge(&Cluster::new(vector, 1.0)));
        let centroid = cluster.centroid();
        assert!((dot(&centroid, &centroid) - 1.0).abs() < 1e-5);
    }
}
