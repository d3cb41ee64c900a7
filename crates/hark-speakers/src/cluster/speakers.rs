//! Finds the number of speakers and their centroids.
//!
//! Three steps: average linkage up to a conservative distance; clusters with too little speech are dropped; the remaining
//! clusters merge by the similarity of their centroids, which are far less noisy than single embeddings. Where
//! segmentation found two clusters to be different local speakers of the same window, a cannot-link constraint raises the
//! similarity that a merge needs: within a window segmentation is more reliable, across an hour the embeddings are.

use super::linkage::{Cluster, dot};
use super::{BlockwiseClustering, Embedding, nearest};

/// Distance up to which average linkage merges. On synthetic conversations 0.55 to 0.70 find the same number of speakers.
const LINKAGE_DISTANCE: f32 = 0.60;
/// Cosine similarity from which two centroids merge: 39 of 40 synthetic conversations have the right number of speakers
/// with 0.40, 37 with 0.35 and 0.45.
const MERGE_SIMILARITY: f32 = 0.40;
/// The same for two clusters with a cannot-link constraint.
const MERGE_SIMILARITY_CANNOT_LINK: f32 = 0.60;
/// A cannot-link constraint needs this many seconds as different local speakers of a window…
const CANNOT_LINK_SECONDS: f32 = 1.0;
/// …and this multiple of the seconds as the same local speaker.
const CANNOT_LINK_RATIO: f32 = 2.0;
/// A speaker needs this share of all speech, clamped to this range of seconds.
const MIN_SHARE: f32 = 0.03;
const MIN_SECONDS: (f32, f32) = (1.0, 3.0);

/// A piece of speech and its embedding.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedPiece {
    /// The embedding, centred and of length 1.
    pub vector: Embedding,
    /// Seconds of speech that it represents.
    pub seconds: f32,
    /// Whether it is long enough to be clustered.
    pub reliable: bool,
    /// The track: its segmentation window and the local speaker in it, if exactly one is active.
    pub track: Option<(u32, u8)>,
}

/// The centroids of the speakers of a recording, the longest speech first; exactly `speakers` of them where that is given
/// and there are as many pieces.
pub fn cluster_speakers(pieces: &[EmbeddedPiece], speakers: Option<usize>) -> Vec<Embedding> {
    let reliable: Vec<&EmbeddedPiece> = pieces.iter().filter(|piece| piece.reliable).collect();
    let clustered: Vec<&EmbeddedPiece> = if reliable.len() < 2 { pieces.iter().collect() } else { reliable };
    let mut clustering = BlockwiseClustering::default();
    clustered.iter().for_each(|piece| clustering.push(&piece.vector, piece.seconds));
    let dendrogram = clustering.dendrogram();
    let seconds: f32 = pieces.iter().map(|piece| piece.seconds).sum();
    let min_seconds = (MIN_SHARE * seconds).clamp(MIN_SECONDS.0, MIN_SECONDS.1);
    let clusters = match speakers {
        None => dendrogram.clusters_at(LINKAGE_DISTANCE),
        // Fewer than requested are split further while the parts have enough speech; more are merged below.
        Some(requested) => (requested..=4 * requested + 16)
            .map(|count| dendrogram.clusters_into(count))
            .find(|clusters| long_enough(clusters, min_seconds).len() >= requested)
            .unwrap_or_else(|| dendrogram.clusters_into(requested)),
    };
    let mut centroids = long_enough(&clusters, min_seconds);
    if centroids.len() < speakers.unwrap_or(1) {
        centroids = clusters.iter().take(speakers.unwrap_or(1)).map(Cluster::centroid).collect();
    }
    for _ in 0..2 {
        centroids = reassigned(&clustered, &centroids);
    }
    while let Some((one, other)) = next_merge(&clustered, &centroids, speakers) {
        let mut assignments = assignments(&clustered, &centroids);
        assignments.iter_mut().filter(|assigned| **assigned == other).for_each(|assigned| *assigned = one);
        centroids = updated_centroids(&clustered, &assignments, &centroids);
        centroids.remove(other);
    }
    let mut seconds_of = vec![0.0; centroids.len()];
    for (piece, assigned) in clustered.iter().zip(assignments(&clustered, &centroids)) {
        seconds_of[assigned] += piece.seconds;
    }
    let mut order: Vec<usize> = (0..centroids.len()).collect();
    order.sort_by(|&a, &b| seconds_of[b].total_cmp(&seconds_of[a]));
    order.into_iter().map(|speaker| centroids[speaker]).collect()
}

/// The centroids of the clusters with at least `min_seconds` of speech, or of the largest cluster if none has.
fn long_enough(clusters: &[Cluster], min_seconds: f32) -> Vec<Embedding> {
    let long_enough: Vec<Embedding> =
        clusters.iter().filter(|cluster| cluster.seconds >= min_seconds).map(Cluster::centroid).collect();
    if long_enough.is_empty() { clusters.iter().take(1).map(Cluster::centroid).collect() } else { long_enough }
}

/// The index of the nearest centroid of each piece.
fn assignments(pieces: &[&EmbeddedPiece], centroids: &[Embedding]) -> Vec<usize> {
    pieces.iter().map(|piece| nearest(&piece.vector, centroids).map_or(0, |(index, _)| index)).collect()
}

fn reassigned(pieces: &[&EmbeddedPiece], centroids: &[Embedding]) -> Vec<Embedding> {
    updated_centroids(pieces, &assignments(pieces, centroids), centroids)
}

/// The centroids of the assigned pieces, weighted by their seconds; one without pieces stays as it was.
fn updated_centroids(pieces: &[&EmbeddedPiece], assignments: &[usize], centroids: &[Embedding]) -> Vec<Embedding> {
    let mut sums = vec![[0.0; crate::EMBEDDING_WIDTH]; centroids.len()];
    let mut seconds_of = vec![0.0; centroids.len()];
    for (piece, &assigned) in pieces.iter().zip(assignments) {
        sums[assigned].iter_mut().zip(&piece.vector).for_each(|(sum, value)| *sum += value * piece.seconds);
        seconds_of[assigned] += piece.seconds;
    }
    let centroid =
        |place: usize| if seconds_of[place] > 0.0 { super::l2_normalized(&sums[place]) } else { centroids[place] };
    (0..centroids.len()).map(centroid).collect()
}

/// The two most similar centroids, if they are similar enough to merge or there are more than requested.
fn next_merge(pieces: &[&EmbeddedPiece], centroids: &[Embedding], speakers: Option<usize>) -> Option<(usize, usize)> {
    let constrained = cannot_link(pieces, &assignments(pieces, centroids), centroids.len());
    let mut best: Option<(f32, usize, usize)> = None;
    for one in 0..centroids.len() {
        for other in one + 1..centroids.len() {
            let penalty = if constrained[one][other] { MERGE_SIMILARITY_CANNOT_LINK - MERGE_SIMILARITY } else { 0.0 };
            let similarity = dot(&centroids[one], &centroids[other]) - penalty;
            if best.is_none_or(|(max, ..)| similarity > max) {
                best = Some((similarity, one, other));
            }
        }
    }
    let (similarity, one, other) = best?;
    let merge = speakers.map_or(similarity >= MERGE_SIMILARITY, |requested| centroids.len() > requested);
    merge.then_some((one, other))
}

/// For each two speakers whether segmentation found them to be different local speakers where both are in one window.
fn cannot_link(pieces: &[&EmbeddedPiece], assignments: &[usize], count: usize) -> Vec<Vec<bool>> {
    let mut same = vec![vec![0.0_f32; count]; count];
    let mut different = same.clone();
    // Pieces are in order of time, so those of one window are contiguous.
    let tracked: Vec<(usize, (u32, u8), f32)> = pieces
        .iter()
        .zip(assignments)
        .filter_map(|(piece, &assigned)| Some((assigned, piece.track?, piece.seconds)))
        .collect();
    for window in tracked.chunk_by(|a, b| a.1.0 == b.1.0) {
        let mut seconds_of: Vec<[f32; 3]> = vec![[0.0; 3]; count];
        for &(assigned, (_, voice), seconds) in window {
            seconds_of[assigned][usize::from(voice) % 3] += seconds;
        }
        let present: Vec<usize> =
            (0..count).filter(|&voice| seconds_of[voice].iter().any(|&time| time > 0.0)).collect();
        for (&one, &other) in present.iter().flat_map(|one| present.iter().map(move |other| (one, other))) {
            for (local, &time) in seconds_of[one].iter().enumerate() {
                for (other_local, &other_time) in seconds_of[other].iter().enumerate() {
                    let table = if local == other_local { &mut same } else { &mut different };
                    table[one][other] += time.min(other_time);
                }
            }
        }
    }
    let constrained = |one: usize, other: usize| {
        different[one][other] >= CANNOT_LINK_SECONDS && different[one][other] > CANNOT_LINK_RATIO * same[one][other]
    };
    (0..count).map(|one| (0..count).map(|other| one != other && constrained(one, other)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::l2_normalized;
    use super::super::tests::{noisy_speakers, unit};
    use super::*;

    fn pieces_of(vectors: &[Embedding]) -> Vec<EmbeddedPiece> {
        vectors.iter().map(|&vector| EmbeddedPiece { vector, seconds: 0.75, reliable: true, track: None }).collect()
    }

    #[test]
    fn the_number_of_speakers_is_found() {
        for sizes in [&[30][..], &[20, 15], &[30, 8, 12, 20], &[10, 10, 10, 10, 10, 10]] {
            let (vectors, _) = noisy_speakers(sizes.len() as u64, sizes, 1.0);
            assert_eq!(cluster_speakers(&pieces_of(&vectors), None).len(), sizes.len());
        }
    }

    #[test]
    fn a_given_number_of_speakers_is_respected_whether_more_or_fewer_would_be_found() {
        let (vectors, _) = noisy_speakers(1, &[20, 20, 20], 0.9);
        for speakers in 1..=5 {
            assert_eq!(cluster_speakers(&pieces_of(&vectors), Some(speakers)).len(), speakers);
        }
        assert_eq!(
            cluster_speakers(&pieces_of(&vectors[..2]), Some(5)).len(),
            2,
            "two pieces have two speakers at most"
        );
    }

    #[test]
    fn an_isolated_noise_is_no_speaker() {
        let (mut vectors, _) = noisy_speakers(6, &[40, 30], 0.8);
        vectors.push(unit(424_242));
        assert_eq!(cluster_speakers(&pieces_of(&vectors), None).len(), 2);
    }

    #[test]
    fn the_speaker_with_the_most_speech_is_first() {
        let (vectors, _) = noisy_speakers(8, &[10, 25], 0.6);
        let centroids = cluster_speakers(&pieces_of(&vectors), None);
        assert!(dot(&centroids[0], &vectors[20]) > 0.5 && dot(&centroids[1], &vectors[0]) > 0.5);
    }

    /// Pieces of two speakers whose centroids have a cosine similarity of about 0.5.
    fn similar_speakers() -> Vec<Embedding> {
        let (one, other) = (unit(1), unit(2));
        let between = l2_normalized(&std::array::from_fn(|place| 0.5 * one[place] + 0.866 * other[place]));
        let noisy = |centre: &Embedding, piece: u64| {
            let noise = unit(1_000 + piece);
            l2_normalized(&std::array::from_fn(|place| centre[place] + 0.8 * noise[place]))
        };
        (0..40).map(|piece| noisy(if piece % 4 < 2 { &one } else { &between }, piece)).collect()
    }

    #[test]
    fn similar_clusters_merge_unless_segmentation_found_two_speakers_in_one_window() {
        let mut pieces = pieces_of(&similar_speakers());
        assert_eq!(cluster_speakers(&pieces, None).len(), 1);
        for (place, piece) in pieces.iter_mut().enumerate() {
            piece.track = Some((place as u32 / 4, u8::from(place % 4 >= 2)));
        }
        assert_eq!(cluster_speakers(&pieces, None).len(), 2);
        for piece in &mut pieces {
            piece.track = piece.track.map(|(window, _)| (window, 0));
        }
        assert_eq!(cluster_speakers(&pieces, None).len(), 1, "the same local speaker in every window");
    }

    #[test]
    fn no_pieces_have_no_speakers() {
        assert_eq!(cluster_speakers(&[], None), [] as [Embedding; 0]);
        assert_eq!(cluster_speakers(&[], Some(2)), [] as [Embedding; 0]);
    }
}
