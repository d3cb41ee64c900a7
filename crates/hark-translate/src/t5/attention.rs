//! Attention of one query row over bf16 keys and values, with a bias on the scores and without scaling.
//!
//! Plain loops: the products with weights take most of the time of sentences of usual length, and the compiler vectorizes these.

use hark_compute::Compute;
use hark_weights::{bf16_to_f32, f32_to_bf16};

use super::bias::PositionBias;

/// Keys and values of one layer, a row for each position: all heads one behind the other.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyValues {
    keys: Vec<u16>,
    values: Vec<u16>,
}

impl KeyValues {
    /// Adds rows.
    pub(super) fn push(&mut self, keys: &[f32], values: &[f32]) {
        self.keys.extend(keys.iter().map(|key| f32_to_bf16(*key)));
        self.values.extend(values.iter().map(|value| f32_to_bf16(*value)));
    }
}

/// What one query row attends to.
pub(super) struct Query<'a> {
    pub(super) over: &'a KeyValues,
    /// Its position, where scores have a bias.
    pub(super) position: Option<usize>,
}

/// The sizes of attention.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    pub(super) count: usize,
    pub(super) dim: usize,
}

/// Attends for every row of `queries`; shapes `[rows][heads × dim]`.
pub(super) fn attend(
    compute: &Compute,
    heads: Heads,
    bias: &PositionBias,
    rows: &[Query<'_>],
    queries: &[f32],
    out: &mut [f32],
) {
    let width = heads.count * heads.dim;
    let work = |row: usize, out: &mut [f32]| {
        let mut scores = Vec::new();
        for head in 0..heads.count {
            let part = head * heads.dim..(head + 1) * heads.dim;
            let query = &queries[row * width..][part.clone()];
            one_head(&rows[row], bias, (head, heads), query, &mut scores, &mut out[part]);
        }
    };
    if rows.len() == 1 {
        work(0, out);
    } else {
        compute.parallel_chunks(out, width, |row, out, _| work(row, out));
    }
}

fn one_head(
    row: &Query<'_>,
    bias: &PositionBias,
    (head, heads): (usize, Heads),
    query: &[f32],
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    let (width, KeyValues { keys, values }) = (heads.count * heads.dim, row.over);
    let count = keys.len() / width;
    match row.position {
        Some(position) => bias.row(head, position, count, scores),
        None => {
            scores.clear();
            scores.resize(count, 0.0);
        }
    }
    for (score, key) in scores.iter_mut().zip(keys.chunks_exact(width)) {
        *score += dot(query, &key[head * heads.dim..][..heads.dim]);
    }
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut total = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - largest).exp();
        total += *score;
    }
    out.fill(0.0);
    for (weight, value) in scores.iter().zip(values.chunks_exact(width)) {
        let weight = weight / total;
        let value = &value[head * heads.dim..][..heads.dim];
        out.iter_mut().zip(value).for_each(|(out, value)| *out += weight * bf16_to_f32(*value));
    }
}

/// Eight sums side by side, so that the loop vectorizes.
fn dot(query: &[f32], key: &[u16]) -> f32 {
    const LANES: usize = 8;
    let mut sums = [0.0f32; LANES];
    let (queries, keys) = (query.as_chunks::<LANES>(), key.as_chunks::<LANES>());
    for (query, key) in queries.0.iter().zip(keys.0) {
        for lane in 0..LANES {
            sums[lane] += query[lane] * bf16_to_f32(key[lane]);
        }
    }
    let rest: f32 = queries.1.iter().zip(keys.1).map(|(query, key)| query * bf16_to_f32(*key)).sum();
    sums.iter().sum::<f32>() + rest
}
