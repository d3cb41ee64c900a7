//! Agglomerative clustering by average linkage, with the nearest-neighbour chain.
//!
//! For vectors of length 1 the mean cosine between all pairs of two groups is the product of their sums over the product
//! of their counts. So a group is its sum and its count, and groups of groups cluster as exactly as single vectors do:
//! that is what lets a long recording be clustered in blocks.
//!
//! Cost: n² numbers of memory, n² · WIDTH multiplications for the first distances, n² steps for all merges.

use super::{Voice, unit_length};
use crate::EMBEDDING_WIDTH;

/// Some embeddings of what is taken for one voice.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The sum of their vectors.
    pub sum: Voice,
    /// How many they are.
    pub count: f32,
    /// Seconds of speech that they stand for.
    pub seconds: f32,
}

impl Group {
    /// The group of one embedding that stands for so many seconds of speech.
    pub fn of(vector: &Voice, seconds: f32) -> Self {
        Group { sum: *vector, count: 1.0, seconds }
    }

    /// Takes in all that another group has.
    pub fn join(&mut self, other: &Group) {
        for (sum, more) in self.sum.iter_mut().zip(&other.sum) {
            *sum += more;
        }
        self.count += other.count;
        self.seconds += other.seconds;
    }

    /// What the group sounds like: its mean, as a vector of length 1.
    pub fn centroid(&self) -> Voice {
        unit_length(&self.sum)
    }

    /// One minus the mean cosine between the embeddings of two groups.
    pub fn distance(&self, other: &Group) -> f32 {
        1.0 - dot(&self.sum, &other.sum) / (self.count * other.count)
    }
}

/// Two groups that became one, named by a member of each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Merge {
    /// A member of the one.
    pub first: usize,
    /// A member of the other.
    pub second: usize,
    /// How far apart they were.
    pub distance: f32,
}

/// All merges from single groups up to one, the closest first.
pub fn average_linkage(groups: &[Group]) -> Vec<Merge> {
    let count = groups.len();
    let mut distances = vec![0.0_f32; count * count];
    for row in 0..count {
        for column in 0..row {
            let distance = groups[row].distance(&groups[column]);
            distances[row * count + column] = distance;
            distances[column * count + row] = distance;
        }
    }
    let mut sizes: Vec<f32> = groups.iter().map(|group| group.count).collect();
    let mut alive: Vec<usize> = (0..count).collect();
    let mut merges = Vec::with_capacity(count.saturating_sub(1));
    let mut chain: Vec<usize> = Vec::new();
    while alive.len() > 1 {
        if chain.is_empty() {
            chain.push(alive[0]);
        }
        let last = chain[chain.len() - 1];
        let before = chain.len().checked_sub(2).map(|place| chain[place]);
        // The one before wins a tie, or the chain could go round for ever.
        let mut nearest = before.unwrap_or(usize::MAX);
        let mut distance = before.map_or(f32::INFINITY, |before| distances[last * count + before]);
        for &other in alive.iter().filter(|&&other| other != last) {
            if distances[last * count + other] < distance {
                (nearest, distance) = (other, distances[last * count + other]);
            }
        }
        if Some(nearest) != before {
            chain.push(nearest);
            continue;
        }
        chain.truncate(chain.len() - 2);
        merges.push(Merge { first: last, second: nearest, distance });
        let share = sizes[last] / (sizes[last] + sizes[nearest]);
        for &other in alive.iter().filter(|&&other| other != last && other != nearest) {
            let merged = share * distances[last * count + other] + (1.0 - share) * distances[nearest * count + other];
            distances[nearest * count + other] = merged;
            distances[other * count + nearest] = merged;
        }
        sizes[nearest] += sizes[last];
        alive.retain(|&other| other != last);
    }
    merges.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    merges
}

/// A cluster number for each group, after all merges closer than `distance`; numbers are in order of first appearance.
pub fn cut_at(merges: &[Merge], groups: usize, distance: f32) -> Vec<usize> {
    cut_into(merges, groups, groups - merges.iter().filter(|merge| merge.distance < distance).count())
}

/// A cluster number for each group when `clusters` are left (or as many as there are groups, if those are fewer).
pub fn cut_into(merges: &[Merge], groups: usize, clusters: usize) -> Vec<usize> {
    let mut parents: Vec<usize> = (0..groups).collect();
    for merge in &merges[..groups.saturating_sub(clusters.max(1)).min(merges.len())] {
        let (first, second) = (root(&mut parents, merge.first), root(&mut parents, merge.second));
        parents[first.max(second)] = first.min(second);
    }
    let mut numbers = vec![usize::MAX; groups];
    let mut next = 0;
    (0..groups)
        .map(|group| {
            let top = root(&mut parents, group);
            if numbers[top] == usize::MAX {
                numbers[top] = next;
                next += 1;
            }
            numbers[top]
        })
        .collect()
}

fn root(parents: &mut [usize], mut group: usize) -> usize {
    while parents[group] != group {
        parents[group] = parents[parents[group]];
        group = parents[group];
    }
    group
}

/// The product of two vectors, in lanes that the compiler turns into vector instructions.
pub fn dot(a: &Voice, b: &Voice) -> f32 {
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
    use crate::cluster::tests::{noisy_voices, unit};

    /// The same by its definition: all pairs of all clusters, again after every merge.
    fn slow_linkage(groups: &[Group]) -> Vec<f32> {
        let mut left = groups.to_vec();
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
            let taken = left.remove(best.1);
            left[best.0].join(&taken);
            distances.push(best.2);
        }
        distances
    }

    #[test]
    fn the_chain_finds_the_merges_that_the_definition_finds() {
        for seed in 0..5 {
            let (vectors, _) = noisy_voices(seed, &[7, 5, 9, 3], 1.0);
            let groups: Vec<Group> = vectors.iter().map(|vector| Group::of(vector, 1.0)).collect();
            let quick: Vec<f32> = average_linkage(&groups).iter().map(|merge| merge.distance).collect();
            let slow = slow_linkage(&groups);
            assert_eq!(quick.len(), slow.len());
            for (quick, slow) in quick.iter().zip(&slow) {
                assert!((quick - slow).abs() < 1e-4, "seed {seed}: {quick} and {slow}");
            }
        }
    }

    #[test]
    fn voices_that_stand_apart_are_found_without_their_number() {
        let (vectors, voices) = noisy_voices(3, &[20, 6, 12], 0.7);
        let groups: Vec<Group> = vectors.iter().map(|vector| Group::of(vector, 1.0)).collect();
        let merges = average_linkage(&groups);
        let found = cut_at(&merges, groups.len(), 0.7);
        assert_eq!(found.iter().max(), Some(&2));
        for (a, b) in (0..voices.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
            assert_eq!(voices[a] == voices[b], found[a] == found[b], "{a} and {b}");
        }
    }

    #[test]
    fn the_number_of_clusters_asked_for_is_given_as_far_as_there_are_groups() {
        let (vectors, _) = noisy_voices(4, &[4, 4], 0.5);
        let groups: Vec<Group> = vectors.iter().map(|vector| Group::of(vector, 1.0)).collect();
        let merges = average_linkage(&groups);
        for clusters in 1..=8 {
            let found = cut_into(&merges, groups.len(), clusters);
            assert_eq!(found.iter().max().unwrap() + 1, clusters);
            assert_eq!(found[0], 0, "numbers begin at the first group");
        }
        assert_eq!(cut_into(&merges, groups.len(), 100).iter().max(), Some(&7));
    }

    #[test]
    fn nothing_and_one_group_need_no_merge() {
        assert_eq!(average_linkage(&[]), []);
        assert_eq!(cut_at(&[], 1, 0.5), [0]);
        assert_eq!(cut_at(&[], 0, 0.5), [0; 0]);
        assert_eq!(average_linkage(&[Group::of(&unit(1), 1.0)]), []);
    }

    #[test]
    fn groups_of_groups_are_as_far_apart_as_their_members_on_average() {
        let (vectors, _) = noisy_voices(5, &[3, 2], 1.0);
        let mut first = Group::of(&vectors[0], 1.0);
        first.join(&Group::of(&vectors[1], 1.0));
        first.join(&Group::of(&vectors[2], 1.0));
        let mut second = Group::of(&vectors[3], 1.0);
        second.join(&Group::of(&vectors[4], 1.0));
        let pairs = (0..3).flat_map(|a| (3..5).map(move |b| (a, b)));
        let mean = pairs.map(|(a, b)| 1.0 - dot(&vectors[a], &vectors[b])).sum::<f32>() / 6.0;
        assert!((first.distance(&second) - mean).abs() < 1e-5);
    }
}
