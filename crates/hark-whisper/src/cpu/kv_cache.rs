//! The decoder's KV cache: keys and values of every token of every hypothesis.

use std::marker::PhantomData;

use hark_compute::Compute;
use hark_compute::attention::{SCALE, causal_attention};
use hark_compute::buffer::{Buffer, SharedMut};
use hark_compute::kernels::{BLOCK, BlockEpilogue, CausalAttention, Kernels};

use super::decoder::{MAX_HEADS, MAX_POSITIONS, Step};

/// Self-attention keys and values of all rows: `[slot][position][layer][row of the slot][key, value][width]`, and behind
/// the slots those of the row that alignment runs on.
///
/// Slots and positions come first so that memory is touched only for slots in use, and only as far as their longest row
/// reaches. A row's past is a list of which row wrote each position, so following another hypothesis copies a list of
/// numbers and no keys.
pub(super) struct KvCache {
    pub(super) cache: Buffer<u16>,
    rows_a_slot: usize,
    positions: usize,
    layers: usize,
    width: usize,
    /// By row, counted over all slots; the last one is alignment's.
    pub(super) lineage: Vec<Vec<u16>>,
}

impl KvCache {
    pub(super) fn new(slots: usize, rows_a_slot: usize, positions: usize, layers: usize, width: usize) -> Self {
        let rows = slots * rows_a_slot + 1;
        let cache = Buffer::zeroed(rows * positions * layers * 2 * width);
        KvCache { cache, rows_a_slot, positions, layers, width, lineage: vec![Vec::new(); rows] }
    }

    /// The row that belongs to no slot.
    pub(super) fn spare_row(&self) -> usize {
        self.lineage.len() - 1
    }

    pub(super) fn offset(&self, position: usize, layer: usize, row: usize) -> usize {
        let first = row / self.rows_a_slot * self.rows_a_slot;
        let beside = if row == self.spare_row() { 1 } else { self.rows_a_slot };
        let place = first * self.positions * self.layers + (position * self.layers + layer) * beside;
        (place + row - first) * 2 * self.width
    }

    /// Lets every entry's row follow its parent and own its position.
    pub(super) fn follow(&mut self, entries: &[Step]) {
        let inherited: Vec<(usize, Vec<u16>)> = entries
            .iter()
            .filter(|step| step.parent != step.row)
            .map(|step| (step.row, self.lineage[step.parent][..step.position].to_vec()))
            .collect();
        for (row, lineage) in inherited {
            self.lineage[row] = lineage;
        }
        for step in entries {
            let lineage = &mut self.lineage[step.row];
            assert!(lineage.len() >= step.position, "a row grows by one position at a time");
            lineage.truncate(step.position);
            lineage.push(step.row as u16);
        }
    }
}

/// Writes new keys and values (columns `0..width` and `width..2*width`) into the rows' cache.
pub(super) struct KvWriter<'a> {
    places: Vec<usize>,
    /// Elements of a place: a key and a value.
    place_width: usize,
    cache: SharedMut<u16>,
    kernels: &'static Kernels,
    owner: PhantomData<&'a mut KvCache>,
}

impl<'a> KvWriter<'a> {
    pub(super) fn new(compute: &Compute, kv_cache: &'a mut KvCache, steps: &[Step], layer: usize) -> Self {
        let places: Vec<usize> = steps.iter().map(|step| kv_cache.offset(step.position, layer, step.row)).collect();
        let place_width = 2 * kv_cache.width;
        assert!(places.iter().all(|place| place + place_width <= kv_cache.cache.len()), "every step has its place");
        let (cache, kernels) = (kv_cache.cache.shared(), compute.kernels());
        KvWriter { places, place_width, cache, kernels, owner: PhantomData }
    }

    /// Writes a finished block: steps `row..`, columns `column..`.
    ///
    /// # Safety
    /// Each step has its own place, and no block is written twice at the same time.
    pub(super) unsafe fn write(&self, done: &BlockEpilogue, row: usize, column: usize) {
        assert!(column + BLOCK <= self.place_width, "a block within the columns");
        let mut block = [[0u16; BLOCK]; BLOCK];
        self.kernels.finish_block(done, &mut block);
        for (line, place) in block[..done.rows].iter().zip(&self.places[row..row + done.rows]) {
            // SAFETY: a place lies inside the cache as a whole, and the columns inside the place; nobody else writes them now, as the
            // caller vouches.
            unsafe { std::ptr::copy_nonoverlapping(line.as_ptr(), self.cache.at(place + column), BLOCK) };
        }
    }
}

/// Causal self-attention: every row attends to its own tokens so far.
pub(super) fn attend_past(
    compute: &Compute,
    kv_cache: &KvCache,
    steps: &[Step],
    layer: usize,
    query: &[u16],
    out: &mut Buffer<u16>,
    heads: usize,
) {
    let width = kv_cache.width;
    compute.parallel_chunks(&mut out[..steps.len() * width], width, |index, out, _| {
        let step = &steps[index];
        let mut past = [0; MAX_POSITIONS];
        let mut weights = [0f32; MAX_HEADS * MAX_POSITIONS];
        let positions = step.position + 1;
        for (position, &row) in kv_cache.lineage[step.row][..positions].iter().enumerate() {
            past[position] = kv_cache.offset(position, layer, usize::from(row));
        }
        causal_attention(
            compute,
            &mut CausalAttention {
                query: &query[index * width..][..width],
                cache: &kv_cache.cache,
                past: &past[..positions],
                value_offset: width,
                heads,
                scale: SCALE,
                weights: &mut weights[..heads * positions],
                out,
            },
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_place_of_its_own_and_slots_lie_apart() {
        let (slots, rows_a_slot, positions, layers, width) = (3, 5, 7, 4, 64);
        let past = KvCache::new(slots, rows_a_slot, positions, layers, width);
        let mut taken = vec![false; past.cache.len() / (2 * width)];
        for row in 0..=past.spare_row() {
            for position in 0..positions {
                for layer in 0..layers {
                    let place = past.offset(position, layer, row) / (2 * width);
                    assert!(!std::mem::replace(&mut taken[place], true), "row {row} writes over another");
                    let a_slot = rows_a_slot * positions * layers;
                    assert_eq!(place / a_slot, row / rows_a_slot, "a slot's rows lie together");
                }
            }
        }
        assert!(taken.iter().all(|taken| *taken), "no workspace is left over");
    }
}
