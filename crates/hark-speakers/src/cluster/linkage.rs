//! Agglomerative clustering by average linkage, with the nearest-neighbour chain.
//!
//! For vectors of length 1 the mean cosine similarity between all pairs of two clusters is the dot product of their sums
//! over the product of their counts. So a cluster is its sum and its count, and clusters merge as exactly as single
//! vectors do, which makes block-wise clustering exact.
//!
//! Cost: n² floats of memory, n² · WIDTH multiplications for the distances, n² steps for all merges.

use super::{Embedding, l2_normalized};
use crate::EMBEDDING_WIDTH;

/// A cluster of embeddings.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// The sum of its embeddings.
    pub sum: Embedding,
    /// The number of its embeddings.
    pub count: f32,
    /// Seconds of speech that they represent.
    pub seconds: f32,
}

impl Cluster {
    /// The cluster of one embedding, which represents this many seconds of speech.
    pub fn new(vector: &Embedding, seconds: f32) -> Self {
        Cluster { sum: *vector, count: 1.0, seconds }
    }

    /// Adds the embeddings of another cluster.
    pub fn merge(&mut self, other: &Cluster) {
        for (sum, more) in self.sum.iter_mut().zip(&other.sum) {
            *sum += more;
        }
        self.count += other.count;
        self.seconds += other.seconds;
    }

    /// The mean of its embeddings, scaled to length 1.
    pub fn centroid(&self) -> Embedding {
        l2_normalized(&self.sum)
    }

    /// One minus the mean cosine similarity between the embeddings of two clusters.
    pub fn distance(&self, other: &Cluster) -> f32 {
        1.0 - dot(&self.sum, &other.sum) / (self.count * other.count)
    }
}

/// A merge of two clusters, each identified by one of its leaves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Merge {
    /// A leaf of the first cluster.
    pub first: usize,
    /// A leaf of the second cluster.
    pub second: usize,
    /// Their distance.
    pub distance: f32,
}

/// All merges of the leaves down to one cluster, the closest first.
pub fn average_linkage(leaves: &[Cluster]) -> Vec<Merge> {
    let count = leaves.len();
    let mut distances = vec![0.0_f32; count * count];
    for row in 0..count {
        for column in 0..row {
            let distance = leaves[row].distance(&leaves[column]);
            distances[row * count + column] = distance;
            distances[column * count + row] = distance;
        }
    }
    let mut sizes: Vec<f32> = leaves.iter().map(|leaf| leaf.count).collect();
    let mut active: Vec<usize> = (0..count).collect();
    let mut merges = Vec::with_capacity(count.saturating_sub(1));
    let mut chain: Vec<usize> = Vec::new();
    while active.len() > 1 {
        if chain.is_empty() {
            chain.push(active[0]);
        }
        let last = chain[chain.len() - 1];
        let previous = chain.len().checked_sub(2).map(|place| chain[place]);
        // The predecessor wins a tie, or the chain could cycle.
        let mut nearest = previous.unwrap_or(usize::MAX);
        let mut distance = previous.map_or(f32::INFINITY, |previous| distances[last * count + previous]);
        for &other in active.iter().filter(|&&other| other != last) {
            if distances[last * count + other] < distance {
                (nearest, distance) = (other, distances[last * count + other]);
            }
        }
        if Some(nearest) != previous {
            chain.push(nearest);
            continue;
        }
        chain.truncate(chain.len() - 2);
        merges.push(Merge { first: last, second: nearest, distance });
        let share = sizes[last] / (sizes[last] + sizes[nearest]);
        for &other in active.iter().filter(|&&other| other != last && other != nearest) {
            let distance = share * distances[last * count + other] + (1.0 - share) * distances[nearest * count + other];
            distances[nearest * count + other] = distance;
            distances[other * count + nearest] = distance;
        }
        sizes[nearest] += sizes[last];
        active.retain(|&other| other != last);
    }
    merges.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    merges
}

/// The cluster number of each leaf after all merges closer than `distance`, numbered in order of first appearance.
pub fn cut_at(merges: &[Merge], leaves: usize, distance: f32) -> Vec<usize> {
    cut_into(merges, leaves, leaves - merges.iter().filter(|merge| merge.distance < distance).count())
}

/// The cluster number of each leaf with `clusters` clusters, or as many as there are leaves if those are fewer.
pub fn cut_into(merges: &[Merge], leaves: usize, clusters: usize) -> Vec<usize> {
    let mut parents: Vec<usize> = (0..leaves).collect();
    for merge in &merges[..leaves.saturating_sub(clusters.max(1)).min(merges.len())] {
        let (first, second) = (root(&mut parents, merge.first), root(&mut parents, merge.second));
        parents[first.max(second)] = first.min(second);
    }
    let mut numbers = vec![usize::MAX; leaves];
    let mut next = 0;
    (0..leaves)
        .map(|leaf| {
            let top = root(&mut parents, leaf);
            if numbers[top] == usize::MAX {
                numbers[top] = next;
                next += 1;
            }
            numbers[top]
        })
        .collect()
}

fn root(parents: &mut [usize], mut leaf: usize) -> usize {
    while parents[leaf] != leaf {
        parents[leaf] = parents[parents[leaf]];
        leaf = parents[leaf];
    }
    leaf
}

/// The dot product, in lanes that the compiler vectorizes.
pub fn dot(a: &Embedding, b: &Embedding) -> f32 {
    const LANES: usize = 16;
    const { assert!(EMBEDDING_WIDTH.is_multiple_of(LANES)) };
    let mut lanes = [0.0_f32; LANES];
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    lanes.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::tests::{noisy_speakers, unit};

    /// Average linkage by its definition: all pairs of clusters, again after every merge.
    fn slow_linkage(leaves: &[Cluster]) -> Vec<f32> {
        let mut left = leaves.to_vec();
        let mut distances = Vec::new();
        while left.len() > 1 {
            let mut best = (0, 1, f32::INFINITY);
            for a in 0..left.len() {
                for b in a + 1..left.len() {
                    let distance = left[a].distance(&left[b]);
                    if distance < best.2 {
                        best = (a, b, distance);
                    }
                }
            }
            let merged = left.remove(best.1);
            left[best.0].merge(&merged);
            distances.push(best.2);
        }
        distances
    }

    #[test]
    fn the_nearest_neighbour_chain_finds_the_merges_of_the_definition() {
        for seed in 0..5 {
            let (vectors, _) = noisy_speakers(seed, &[7, 5, 9, 3], 1.0);
            let leaves: Vec<Cluster> = vectors.iter().map(|vector| Cluster::new(vector, 1.0)).collect();
            let fast: Vec<f32> = average_linkage(&leaves).iter().map(|merge| merge.distance).collect();
            let slow = slow_linkage(&leaves);
            assert_eq!(fast.len(), slow.len());
            for (fast, slow) in fast.iter().zip(&slow) {
                assert!((fast - slow).abs() < 1e-4, "seed {seed}: {fast} and {slow}");
            }
        }
    }

    #[test]
    fn separated_speakers_are_found_by_distance() {
        let (vectors, speakers) = noisy_speakers(3, &[20, 6, 12], 0.7);
        let leaves: Vec<Cluster> = vectors.iter().map(|vector| Cluster::new(vector, 1.0)).collect();
        let merges = average_linkage(&leaves);
        let found = cut_at(&merges, leaves.len(), 0.7);
        assert_eq!(found.iter().max(), Some(&2));
        for (a, b) in (0..speakers.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
            assert_eq!(speakers[a] == speakers[b], found[a] == found[b], "{a} and {b}");
        }
    }

    #[test]
    fn the_requested_number_of_clusters_is_returned_up_to_the_number_of_leaves() {
        let (vectors, _) = noisy_speakers(4, &[4, 4], 0.5);
        let leaves: Vec<Cluster> = vectors.iter().map(|vector| Cluster::new(vector, 1.0)).collect();
        let merges = average_linkage(&leaves);
        for clusters in 1..=8 {
            let found = cut_into(&merges, leaves.len(), clusters);
            assert_eq!(found.iter().max().unwrap() + 1, clusters);
            assert_eq!(found[0], 0, "numbers begin at the first leaf");
        }
        assert_eq!(cut_into(&merges, leaves.len(), 100).iter().max(), Some(&7));
    }

    #[test]
    fn no_leaf_and_one_leaf_have_no_merges() {
        assert_eq!(average_linkage(&[]), []);
        assert_eq!(cut_at(&[], 1, 0.5), [0]);
        assert_eq!(cut_at(&[], 0, 0.5), [0; 0]);
        assert_eq!(average_linkage(&[Cluster::new(&unit(1), 1.0)]), []);
    }

    #[test]
    fn the_distance_of_clusters_is_the_mean_distance_of_their_embeddings() {
        let (vectors, _) = noisy_speakers(5, &[3, 2], 1.0);
        let mut first = Cluster::new(&vectors[0], 1.0);
        first.merge(&Cluster::new(&vectors[1], 1.0));
        first.merge(&Cluster::new(&vectors[2], 1.0));
        let mut second = Cluster::new(&vectors[3], 1.0);
        second.merge(&Cluster::new(&vectors[4], 1.0));
        let pairs = (0..3).flat_map(|a| (3..5).map(move |b| (a, b)));
        let mean = pairs.map(|(a, b)| 1.0 - dot(&vectors[a], &vectors[b])).sum::<f32>() / 6.0;
        assert!((first.distance(&second) - mean).abs() < 1e-5);
    }
}
