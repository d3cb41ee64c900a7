//! Rankings: by cosine, fused, and what was chosen put back in order.

use std::ops::Range;

/// A passage in a ranking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// Its place among the passages.
    pub index: usize,
    /// Higher is better; only comparable within one ranking.
    pub score: f64,
}

/// The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009): how much the first ranks weigh more than later ones.
const FUSION_K: f64 = 60.0;

/// Best first; equal scores in the order of the passages.
pub(super) fn sort(mut ranking: Vec<Ranked>) -> Vec<Ranked> {
    ranking.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.index.cmp(&other.index)));
    ranking
}

/// All vectors by their cosine with a question's vector, best first. A vector without length, or of another length, scores 0.
pub fn rank_by_cosine<V: AsRef<[f32]>>(question: &[f32], vectors: &[V]) -> Vec<Ranked> {
    let ranked = vectors.iter().enumerate();
    sort(ranked.map(|(index, vector)| Ranked { index, score: cosine(question, vector.as_ref()) }).collect())
}

fn cosine(one: &[f32], other: &[f32]) -> f64 {
    if one.len() != other.len() {
        return 0.0;
    }
    let dot = |one: &[f32], other: &[f32]| -> f64 {
        one.iter().zip(other).map(|(one, other)| f64::from(*one) * f64::from(*other)).sum()
    };
    let norms = (dot(one, one) * dot(other, other)).sqrt();
    if norms > 0.0 && norms.is_finite() { dot(one, other) / norms } else { 0.0 }
}

/// One ranking of several by reciprocal rank: what several of them rank high comes first. Scores of different kinds need no common scale.
pub fn fuse(rankings: &[Vec<Ranked>]) -> Vec<Ranked> {
    let mut scores = std::collections::HashMap::new();
    for ranking in rankings {
        for (rank, ranked) in ranking.iter().enumerate() {
            *scores.entry(ranked.index).or_insert(0.0) += 1.0 / (FUSION_K + rank as f64 + 1.0);
        }
    }
    sort(scores.into_iter().map(|(index, score)| Ranked { index, score }).collect())
}

/// The chosen passages in their order, those that follow each other as one range.
pub fn join_neighbours(chosen: impl IntoIterator<Item = usize>) -> Vec<Range<usize>> {
    let mut chosen: Vec<usize> = chosen.into_iter().collect();
    chosen.sort_unstable();
    let mut joined: Vec<Range<usize>> = Vec::new();
    for index in chosen {
        match joined.last_mut() {
            Some(range) if index <= range.end => range.end = range.end.max(index + 1),
            _ => joined.push(index..index + 1),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(ranking: &[Ranked]) -> Vec<usize> {
        ranking.iter().map(|ranked| ranked.index).collect()
    }

    fn ranking(indices: &[usize]) -> Vec<Ranked> {
        indices.iter().map(|index| Ranked { index: *index, score: 0.0 }).collect()
    }

    #[test]
    fn the_nearest_vector_comes_first_whatever_its_length() {
        let vectors = [vec![0.0, 2.0], vec![30.0, 40.0], vec![1.0, 0.0], vec![0.0, 0.0], vec![1.0]];
        let ranked = rank_by_cosine(&[1.0, 0.1], &vectors);
        assert_eq!(order(&ranked)[..3], [2, 1, 0]);
        assert_eq!((ranked[3].score, ranked[4].score), (0.0, 0.0));
        assert!((rank_by_cosine(&[3.0, 4.0], &[[6.0, 8.0]])[0].score - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_both_rankings_have_comes_before_what_one_has() {
        let fused = fuse(&[ranking(&[4, 2, 7]), ranking(&[9, 2, 5])]);
        assert_eq!(order(&fused)[0], 2);
        assert_eq!(order(&fused).len(), 5);
        assert_eq!(order(&fuse(&[ranking(&[3, 1, 2]), Vec::new()])), [3, 1, 2]);
        assert_eq!(fuse(&[]), []);
    }

    #[test]
    fn neighbours_are_joined_in_order() {
        assert_eq!(join_neighbours([7, 3, 4, 9, 3]), [3..5, 7..8, 9..10]);
        assert_eq!(join_neighbours([]), []);
    }
}
