//! Attention of one query row over the bf16 keys and values of its own sentence.
//!
//! Plain loops: the products with weights take most of the time of sentences of usual length, and the compiler vectorizes these.

use hark_compute::Compute;
use hark_weights::{bf16_to_f32, f32_to_bf16};

/// Keys and values of one layer, a row for each position: all heads one behind the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyValues {
    keys: Vec<u16>,
    values: Vec<u16>,
}

impl KeyValues {
    /// Adds rows.
    pub(crate) fn push(&mut self, keys: &[f32], values: &[f32]) {
        self.keys.extend(keys.iter().map(|key| f32_to_bf16(*key)));
        self.values.extend(values.iter().map(|value| f32_to_bf16(*value)));
    }
}

/// What one query row attends to.
pub(crate) struct Query<'a> {
    pub(crate) over: &'a KeyValues,
    /// Its position, where scores depend on that.
    pub(crate) position: usize,
}

/// The sizes of attention, and what products of queries and keys are multiplied by.
#[derive(Clone, Copy)]
pub(crate) struct Heads {
    pub(crate) count: usize,
    pub(crate) dim: usize,
    pub(crate) scale: f32,
}

/// Writes what is added to the scores of all keys, for a head and the position of a query.
pub(crate) type PositionScores<'a> = &'a (dyn Fn(usize, usize, &mut [f32]) + Sync);

/// Attends for every row of `queries`; shapes `[rows][heads × dim]`.
pub(crate) fn attend(
    compute: &Compute,
    heads: Heads,
    bias: Option<PositionScores<'_>>,
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
    bias: Option<PositionScores<'_>>,
    (head, heads): (usize, Heads),
    query: &[f32],
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    let (width, KeyValues { keys, values }) = (heads.count * heads.dim, row.over);
    scores.clear();
    scores.resize(keys.len() / width, 0.0);
    if let Some(bias) = bias {
        bias(head, row.position, scores);
    }
    for (score, key) in scores.iter_mut().zip(keys.chunks_exact(width)) {
        *score += heads.scale * dot(query, &key[head * heads.dim..][..heads.dim]);
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
