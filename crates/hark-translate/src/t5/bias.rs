//! Relative positions: a bias on attention scores for each head, by the distance between query and key in buckets.

/// The biases of all distances.
pub(super) struct PositionBias {
    /// `[buckets][heads]`
    table: Vec<f32>,
    heads: usize,
    max_distance: usize,
    is_bidirectional: bool,
}

impl PositionBias {
    pub(super) fn new(table: Vec<f32>, heads: usize, max_distance: usize, is_bidirectional: bool) -> Self {
        PositionBias { table, heads, max_distance, is_bidirectional }
    }

    /// The biases of a head for a query and the keys from the first on.
    pub(super) fn row(&self, head: usize, query: usize, out: &mut [f32]) {
        for (key, out) in out.iter_mut().enumerate() {
            *out = self.table[self.bucket(query, key) * self.heads + head];
        }
    }

    /// Small distances have a bucket each; larger ones share buckets whose sizes grow with the logarithm, up to the largest distance. A bidirectional
    /// network has one half of the buckets for keys behind the query and the other for keys before it; a causal one sees none behind.
    fn bucket(&self, query: usize, key: usize) -> usize {
        let all = self.table.len() / self.heads;
        let (buckets, first) = match self.is_bidirectional {
            true => (all / 2, if key > query { all / 2 } else { 0 }),
            false => (all, 0),
        };
        let distance = match self.is_bidirectional {
            true => query.abs_diff(key),
            false => query.saturating_sub(key),
        };
        let exact = buckets / 2;
        if distance < exact {
            return first + distance;
        }
        let ratio = (distance as f32 / exact as f32).ln() / (self.max_distance as f32 / exact as f32).ln();
        let far = exact + (ratio * (buckets - exact) as f32) as usize;
        first + far.min(buckets - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The buckets of some distances: negative where the key stands behind the query.
    fn buckets(is_bidirectional: bool, distances: &[isize]) -> Vec<usize> {
        let bias = PositionBias::new(vec![0.0; 32], 1, 128, is_bidirectional);
        distances.iter().map(|distance| bias.bucket(200, (200 - distance) as usize)).collect()
    }

    #[test]
    fn distances_have_the_buckets_of_the_published_formula() {
        // The formula of T5's published code in f32, computed apart, with 32 buckets and 128 as the largest distance.
        let distances = [0, 1, 7, 8, 11, 12, 16, 22, 23, 32, 45, 64, 90, 127, 128, 199];
        assert_eq!(buckets(true, &distances), [0, 1, 7, 8, 8, 9, 10, 10, 11, 12, 12, 14, 14, 15, 15, 15]);
        assert_eq!(buckets(false, &distances), [0, 1, 7, 8, 11, 12, 16, 18, 18, 21, 23, 26, 29, 31, 31, 31]);
        assert_eq!(buckets(true, &[-1, -8, -128]), [17, 24, 31]);
        assert_eq!(buckets(false, &[-1, -128]), [0, 0]);
    }
}
