//! Agglomerative clustering of speaker embeddings.
//!
//! Input: embeddings of length 1, in order of time. Output: one centroid per speaker. The position of pieces in time and
//! the networks are not its concern.

mod blockwise;
mod linkage;
mod speakers;

pub use blockwise::{BlockwiseClustering, Dendrogram};
pub use linkage::{Cluster, Merge, average_linkage, cut_at, cut_into, dot};
pub use speakers::{EmbeddedPiece, cluster_speakers};

use crate::EMBEDDING_WIDTH;

/// A speaker embedding of length 1, or the centroid of a cluster of them.
pub type Embedding = [f32; EMBEDDING_WIDTH];

/// The vector divided by its L2 norm; zeros stay zeros.
pub fn l2_normalized(vector: &Embedding) -> Embedding {
    let length = dot(vector, vector).sqrt();
    if length > 0.0 { vector.map(|value| value / length) } else { *vector }
}

/// The embedding minus the mean of its elements, of length 1.
///
/// The network's outputs are biased above zero: two different speakers have a cosine similarity of 0.35. Without the mean
/// it is near 0, and one threshold serves clean and reverberant recordings.
pub fn centred(embedding: &Embedding) -> Embedding {
    let mean = embedding.iter().sum::<f32>() / EMBEDDING_WIDTH as f32;
    l2_normalized(&embedding.map(|value| value - mean))
}

/// The index of the nearest centroid and the cosine similarity to it; `None` without centroids.
pub fn nearest(vector: &Embedding, centroids: &[Embedding]) -> Option<(usize, f32)> {
    centroids.iter().map(|centroid| dot(vector, centroid)).enumerate().max_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Pseudo-random numbers from -1 to 1.
    pub fn random(state: &mut u64) -> f32 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// A pseudo-random unit vector for each number.
    pub fn unit(number: u64) -> Embedding {
        let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut vector = [0.0; EMBEDDING_WIDTH];
        vector.iter_mut().for_each(|value| *value = random(&mut state));
        l2_normalized(&vector)
    }

    /// Embeddings of as many speakers as there are `sizes`, with the speaker of each; `noise` is the length of the random
    /// vector that is added to a speaker's direction.
    pub fn noisy_speakers(seed: u64, sizes: &[usize], noise: f32) -> (Vec<Embedding>, Vec<usize>) {
        let mut vectors = Vec::new();
        let mut speakers = Vec::new();
        for (speaker, &size) in sizes.iter().enumerate() {
            let centre = unit(seed * 1000 + speaker as u64);
            for piece in 0..size {
                let other = unit(1_000_000 * (speaker as u64 + 1) + 100_000 * seed + piece as u64);
                let mut vector = centre;
                vector.iter_mut().zip(&other).for_each(|(value, other)| *value += noise * other);
                vectors.push(l2_normalized(&vector));
                speakers.push(speaker);
            }
        }
        (vectors, speakers)
    }

    #[test]
    fn a_common_offset_of_all_embeddings_adds_no_similarity() {
        let lifted = |number| l2_normalized(&unit(number).map(|value| value + 0.1));
        assert!(dot(&lifted(1), &lifted(2)) > 0.6);
        assert!(dot(&centred(&lifted(1)), &centred(&lifted(2))).abs() < 0.2);
        assert!((dot(&centred(&lifted(1)), &centred(&lifted(1))) - 1.0).abs() < 1e-5);
    }

    #[test]
    fn the_nearest_centroid_has_the_greatest_cosine_similarity() {
        let centroids = [unit(1), unit(2), unit(3)];
        let mut near = centroids[1];
        near[0] += 0.05;
        assert_eq!(nearest(&l2_normalized(&near), &centroids).map(|(speaker, _)| speaker), Some(1));
        assert_eq!(nearest(&near, &[]), None);
    }
}
