//! Causal attention of one decoder row over its own past.

use crate::Compute;
use crate::kernels::{CausalAttention, HEAD};

/// Attends: the weights that it leaves in the workspace are not normalized.
///
/// # Panics
/// When the query or the output is shorter than all heads, a key or value row reaches beyond the cache, or the workspace is
/// smaller than the past of all heads.
pub fn causal_attention(compute: &Compute, attention: &mut CausalAttention) {
    let CausalAttention { query, cache, past, value_offset, heads, weights, out, .. } = attention;
    // Checked, since a width that overflows would pass for a short one.
    let width = heads.checked_mul(HEAD).expect("a row fits the address space");
    assert!(query.len() >= width && out.len() >= width, "a query and an output of all heads");
    assert!(heads.checked_mul(past.len()).is_some_and(|needed| needed <= weights.len()), "a weight of every position");
    // The last place at which both rows lie inside the cache.
    let last = value_offset.checked_add(width).and_then(|reach| cache.len().checked_sub(reach));
    assert!(past.iter().all(|place| last.is_some_and(|last| *place <= last)), "rows of the cache");
    // SAFETY: the kernels are those of this machine; all shapes were checked. Keys lie before values, so they reach no further.
    unsafe { (compute.kernels.causal_attention)(attention) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;

    #[test]
    fn rows_beyond_the_cache_and_short_outputs_are_refused() {
        let compute = Compute::new(1, Isa::Portable);
        let refused = |places: &[usize], cache: usize, query: usize, out: usize, weights: usize| {
            let (cache, query) = (vec![0u16; cache], vec![0u16; query]);
            let (mut weights, mut out) = (vec![0f32; weights], vec![0u16; out]);
            let attend = std::panic::AssertUnwindSafe(|| {
                causal_attention(
                    &compute,
                    &mut CausalAttention {
                        query: &query,
                        cache: &cache,
                        past: places,
                        value_offset: 128,
                        heads: 2,
                        scale: 1.0,
                        weights: &mut weights,
                        out: &mut out,
                    },
                );
            });
            std::panic::catch_unwind(attend).is_err()
        };
        assert!(!refused(&[0, 256], 512, 128, 128, 4));
        assert!(refused(&[0, 257], 512, 128, 128, 4), "a value row reaches beyond the cache");
        assert!(refused(&[usize::MAX, 0], 512, 128, 128, 4), "a place that overflows");
        assert!(refused(&[0], 255, 128, 128, 4), "a cache shorter than one place");
        assert!(refused(&[0, 256], 512, 127, 128, 4), "a short query");
        assert!(refused(&[0, 256], 512, 128, 127, 4), "a short output");
        assert!(refused(&[0, 256], 512, 128, 128, 3), "too few weights");
    }
}
