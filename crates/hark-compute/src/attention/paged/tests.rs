//! Attention against plain float64 arithmetic.

use super::*;
use crate::{Compute, Isa};
use hark_numeric::{f16_to_f32, f32_to_f16};

fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f32 / (1u32 << 30) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn available() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

/// Attention of one head by its definition, over keys and values as the cache rounds them.
fn plain(query: &[f32], keys: &[Vec<f32>], values: &[Vec<f32>], scoring: Scoring) -> Vec<f64> {
    let start = scoring.window.map_or(0, |window| keys.len().saturating_sub(window));
    let (keys, values) = (&keys[start..], &values[start..]);
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let scored = |product: f64| {
        let score = product * f64::from(scoring.scale);
        scoring.softcap.map(f64::from).map_or(score, |cap| cap * (score / cap).tanh())
    };
    let scores: Vec<f64> = keys.iter().map(|key| scored(dot(query, key))).collect();
    let largest = scores.iter().copied().fold(f64::MIN, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let element = |d: usize| values.iter().zip(&weights).map(|(v, w)| f64::from(v[d]) * w / sum).sum();
    (0..query.len()).map(element).collect()
}

#[test]
fn attention_over_scattered_pages_is_attention() {
    let rounded = |x: f32| f16_to_f32(f32_to_f16(x));
    for (heads, kv_heads, head_dim) in [(6, 1, 64), (4, 2, 128), (7, 1, 32), (2, 2, 96)] {
        let layout = KvLayout { layers: 2, kv_heads, head_dim };
        let mut cache = vec![0x7c00u16; 9 * layout.page_elements()];
        // Sequence 0 has 70 positions on pages 5, 0, 7; sequence 1 has 32 on page 3. Other pages hold infinities.
        let sequences: [(&[u32], usize); 2] = [(&[5, 0, 7], 70), (&[3], 32)];
        let mut past = Vec::new();
        for (number, (pages, length)) in sequences.iter().enumerate() {
            let rows: Vec<[Vec<f32>; 2]> = (0..*length)
                .map(|position| {
                    let seed = (number * 1000 + position) as u64;
                    let keys = numbers(seed, kv_heads * head_dim).iter().map(|x| rounded(x * 3.0)).collect();
                    [keys, numbers(seed + 500, kv_heads * head_dim).iter().map(|x| rounded(*x)).collect()]
                })
                .collect();
            for (position, [keys, values]) in rows.iter().enumerate() {
                let start = pages[position / PAGE] as usize * layout.page_elements();
                let page = &mut cache[start..start + layout.page_elements()];
                let halves = |row: &[f32]| row.iter().map(|x| f32_to_f16(*x)).collect::<Vec<_>>();
                layout.store(page, 1, position % PAGE, &halves(keys), &halves(values));
            }
            past.push(rows);
        }
        // The last eleven tokens of one sequence, then the last of the other.
        let mut rows: Vec<AttentionRow> =
            (60..=70).map(|length| AttentionRow { pages: sequences[0].0, length }).collect();
        rows.push(AttentionRow { pages: sequences[1].0, length: 32 });
        let width = heads * head_dim;
        let query = numbers(77, rows.len() * width);
        let scale = 1.0 / (head_dim as f32).sqrt();
        let plainly = Scoring::scaled(scale);
        let scorings = [
            plainly,
            Scoring { window: Some(5), ..plainly },
            Scoring { window: Some(33), ..plainly },
            Scoring { softcap: Some(1.5), window: Some(40), ..plainly },
            Scoring { softcap: Some(50.0), ..plainly },
        ];
        for (isa, scoring) in available().flat_map(|isa| scorings.map(|scoring| (isa, scoring))) {
            let compute = Compute::new(2, isa);
            let mut out = vec![0.0; query.len()];
            let view = MatRef::new(&query, rows.len(), width, width);
            attend_rows(&compute, &layout, 1, &cache, &rows, heads, scoring, view, &mut out);
            for (row, AttentionRow { length, .. }) in rows.iter().enumerate() {
                let past = &past[usize::from(row == rows.len() - 1)][..*length];
                for head in 0..heads {
                    let kv = head / (heads / kv_heads) * head_dim;
                    let part = |which: usize| -> Vec<Vec<f32>> {
                        past.iter().map(|both| both[which][kv..kv + head_dim].to_vec()).collect()
                    };
                    let at = row * width + head * head_dim;
                    let expected = plain(&query[at..at + head_dim], &part(0), &part(1), scoring);
                    for (found, expected) in out[at..at + head_dim].iter().zip(expected) {
                        let close = (f64::from(*found) - expected).abs() < 1e-5;
                        assert!(close, "{} {scoring:?} row {row} head {head}: {found} {expected}", isa.name());
                    }
                }
            }
        }
    }
}
